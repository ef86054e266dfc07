//! What all calls on one table share.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Instant;

use opaque_id_core::keyring::SharedKeyring;
use opaque_id_sql::statement::Cell;

use crate::cache::{Cache, Cached, Seen};
use crate::ciphers::Ciphers;
use crate::error::{Location, Problem};
use crate::format::{
    Codec, Dictionary, FormatError, Kind, Pack, PackCipher, Padding, Place, Plaintext, Row,
};
use crate::name::TableName;
use crate::order::Permutation;
use crate::settings::Contents;
use crate::statement::{IdColumn, Statements, Stored, Tier};

/// The most bytes of a value as it is stored. A merger writes two such values with one statement, in hexadecimal digits on
/// MySQL and MariaDB, whose `max_allowed_packet` is 16 MiB by default.
const MAX_VALUE: usize = 3 << 20;

/// A table, without the types of its values.
pub struct Table {
    name: Box<str>,
    pub(crate) statements: Statements,
    ciphers: Ciphers,
    expected: Option<Expected>,
    /// Compresses settings and dictionaries.
    plain: Codec,
    state: RwLock<Option<Arc<State>>>,
    seen: Seen,
    /// Since when packs have recent rows that wait for more.
    pub(crate) waiting: Mutex<HashMap<u128, Instant>>,
    cache: RwLock<Option<Arc<Cache>>>,
}

/// The type's demands on the table. Tools without a type accept any table.
pub(crate) struct Expected {
    pub(crate) encoding: &'static str,
    pub(crate) hides_keys: bool,
}

/// The table's own description.
pub(crate) struct State {
    pub(crate) contents: Contents,
    /// Of the settings.
    pub(crate) version: i64,
    /// When they were read.
    read: Instant,
    /// By the dictionary's number, with its version. They decompress.
    codecs: BTreeMap<u16, (i64, Arc<Codec>)>,
    /// The last number of a dictionary in the table, whether it can be read or not.
    pub(crate) last_dictionary: u16,
    /// Of new rows.
    row_codec: Codec,
    pub(crate) pack_codec: Codec,
    order: Option<Permutation>,
}

/// A call's knowledge of the statement whose answer it reads.
#[derive(Clone, Copy)]
pub(crate) struct Context {
    pub(crate) began: Instant,
    pub(crate) is_in_transaction: bool,
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table").field("name", &self.name).finish_non_exhaustive()
    }
}

impl State {
    /// Returns where the row of a key is.
    pub(crate) fn place(&self, number: u128) -> u128 {
        let order = self.order.as_ref();
        order.map_or(number, |order| order.place(number))
    }

    /// Returns the key of the row at a place.
    pub(crate) fn number(&self, place: u128) -> u128 {
        let order = self.order.as_ref();
        order.map_or(place, |order| order.number(place))
    }

    pub(crate) fn has_dictionary(&self, id: u16) -> bool {
        self.codecs.contains_key(&id)
    }
}

impl Table {
    pub(crate) fn new(
        keyring: SharedKeyring,
        domain: &str,
        name: TableName,
        ids: IdColumn,
        expected: Option<Expected>,
    ) -> Result<Self, Problem> {
        let table = name.table();
        let plain = Codec::new(9, None).map_err(|source| Problem::Unreadable {
            location: location(ids, table, Kind::Settings, 0),
            source,
        })?;
        Ok(Self {
            name: table.into(),
            statements: Statements::new(table, ids),
            ciphers: Ciphers::new(keyring, domain, name),
            expected,
            plain,
            state: RwLock::new(None),
            seen: Seen::new(),
            waiting: Mutex::default(),
            cache: RwLock::new(None),
        })
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn set_cache(&self, bytes: u64) {
        let cache = (bytes > 0).then(|| Arc::new(Cache::new(bytes)));
        *self.cache.write().unwrap_or_else(PoisonError::into_inner) = cache;
    }

    pub(crate) fn cache(&self) -> Option<Arc<Cache>> {
        let cache = self.cache.read();
        cache.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Returns the cipher of the keyring as it is now.
    pub(crate) fn cipher(&self) -> Arc<PackCipher> {
        self.ciphers.current()
    }

    /// Returns what the table says of itself. It was read when the table was opened.
    pub(crate) fn state(&self) -> Option<Arc<State>> {
        let state = self.state.read();
        state.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// # Errors
    /// [`Problem::NotCreated`] before the settings are read.
    pub(crate) fn opened(&self) -> Result<Arc<State>, Problem> {
        self.state().ok_or_else(|| self.not_created())
    }

    pub(crate) fn not_created(&self) -> Problem {
        Problem::NotCreated { table: self.name.to_string() }
    }

    pub(crate) fn settings_missing(&self) -> Problem {
        Problem::Settings {
            table: self.name.to_string(),
            reason: format!(
                "expected settings in {0}_meta, as there are rows, found none: restore {0}_meta from a backup",
                self.name
            ),
        }
    }

    /// Reads the rows of an answer.
    pub(crate) fn read(&self, rows: Vec<Vec<Cell>>) -> Result<Vec<(Tier, Stored)>, Problem> {
        self.statements.read(rows).ok_or_else(|| self.columns())
    }

    /// Reads the settings and the dictionaries, and returns whether there are settings. Older ones than are known are left
    /// alone if another call's answer may have overtaken this one.
    pub(crate) fn learn(&self, context: Context, rows: Vec<Vec<Cell>>) -> Result<bool, Problem> {
        let known = self.state();
        let mut contents = None;
        let unreadable = |source| self.unreadable(Kind::Dictionary, 0, source);
        let mut codecs =
            BTreeMap::from([(0, (0, Arc::new(Codec::new(1, None).map_err(unreadable)?)))]);
        let mut last_dictionary = 0;
        for (id, stored) in self.stored_meta(rows)? {
            if id == 0 {
                contents = Some((stored.version, self.read_settings(&stored)?));
                continue;
            }
            last_dictionary = last_dictionary.max(id);
            // Those that a crash took back are not in the table any more.
            let codec = known.as_ref().and_then(|known| known.codecs.get(&id));
            let codec = codec.filter(|(version, _)| *version == stored.version).cloned();
            if let Some(codec) = codec {
                codecs.insert(id, codec);
            // Bodies that were compressed with others can be read.
            } else if let Ok(bytes) = self.read_meta(Kind::Dictionary, &stored) {
                let codec = Codec::new(1, Some(Dictionary::new(id, bytes))).map_err(unreadable)?;
                codecs.insert(id, (stored.version, Arc::new(codec)));
            }
        }
        let Some((version, contents)) = contents else {
            return Ok(false);
        };
        if known.as_ref().is_some_and(|known| {
            known.version > version && (context.is_in_transaction || known.read > context.began)
        }) {
            return Ok(true);
        }
        self.check_age(context, Kind::Settings, 0, version)?;
        self.check(&contents)?;
        let id = contents.dictionary;
        let (_, current) = codecs
            .get(&id)
            .ok_or_else(|| self.unreadable(Kind::Settings, 0, FormatError::NoDictionary { id }))?;
        let settings = &contents.settings;
        let row_codec = current.at_level(settings.row_level).map_err(unreadable)?;
        let pack_codec = current.at_level(settings.pack_level).map_err(unreadable)?;
        let order = contents.order.as_deref().map(|key| {
            let key = read_key(key).ok_or_else(|| self.columns())?;
            Ok(Permutation::new(&key))
        });
        let state = State {
            contents,
            version,
            read: Instant::now(),
            codecs,
            last_dictionary,
            row_codec,
            pack_codec,
            order: order.transpose()?,
        };
        *self.state.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(state));
        Ok(true)
    }

    fn stored_meta(&self, rows: Vec<Vec<Cell>>) -> Result<Vec<(u16, Stored)>, Problem> {
        let stored = |cells| match <[Cell; 3]>::try_from(cells) {
            Ok([Cell::Integer(id), Cell::Integer(version), Cell::Bytes(body)]) => {
                let number = u16::try_from(id).map_err(|_| self.columns())?;
                let id = number.into();
                Ok((number, Stored::new(id, version, body)))
            }
            _ => Err(self.columns()),
        };
        rows.into_iter().map(stored).collect()
    }

    /// Returns the settings and the dictionaries that are encrypted with another secret than the current one, encrypted again.
    pub(crate) fn reencrypt_meta(
        &self,
        rows: Vec<Vec<Cell>>,
    ) -> Result<Vec<Result<Stored, Problem>>, Problem> {
        let current = self.cipher().header(0);
        let mut stored = self.stored_meta(rows)?;
        stored.retain(|(_, stored)| !stored.body.starts_with(&current));
        let reencrypt = |(id, stored): (u16, Stored)| {
            let plaintext = self.read_meta(meta_kind(id), &stored)?;
            self.encrypt_meta(id, stored.version + 1, &plaintext)
        };
        Ok(stored.into_iter().map(reencrypt).collect())
    }

    /// Returns which settings and dictionaries cannot be read.
    pub(crate) fn verify_meta(&self, rows: Vec<Vec<Cell>>) -> Result<Vec<Problem>, Problem> {
        let stored = self.stored_meta(rows)?.into_iter();
        let read = |(id, stored)| self.read_meta(meta_kind(id), &stored).err();
        Ok(stored.filter_map(read).collect())
    }

    /// Returns what the bodies of packs and rows begin with that are encrypted and compressed as new ones are.
    pub(crate) fn current_header(&self) -> Result<[u8; 3], Problem> {
        let dictionary = self.opened()?.contents.dictionary;
        Ok(self.cipher().header(dictionary))
    }

    /// Encrypts the pack that a table begins with: it is empty, and has the smallest id.
    pub(crate) fn encrypt_first_pack(&self) -> Result<Stored, Problem> {
        let pack = Pack { id: 0, end: None, rows: Vec::new() };
        let plaintext = pack
            .encode(&self.plain, Padding::None)
            .map_err(|source| self.unreadable(Kind::Pack, 0, source))?;
        Ok(self.encrypt(Kind::Pack, 0, 1, &self.plain, &plaintext))
    }

    /// Checks that the table contains what the type says.
    fn check(&self, contents: &Contents) -> Result<(), Problem> {
        let order = |hides_keys| match hides_keys {
            true => "rows by encrypted key",
            false => "rows in the order of their keys",
        };
        let mismatch = |expected: &str, found: &str| Problem::Mismatch {
            table: self.name.to_string(),
            expected: expected.to_owned(),
            found: found.to_owned(),
        };
        if let Some(expected) = &self.expected {
            if contents.encoding != expected.encoding {
                return Err(mismatch(expected.encoding, &contents.encoding));
            }
            if contents.order.is_some() != expected.hides_keys {
                let (expected, found) = (order(expected.hides_keys), order(!expected.hides_keys));
                return Err(mismatch(expected, found));
            }
        }
        self.check_settings(contents)
    }

    pub(crate) fn check_settings(&self, contents: &Contents) -> Result<(), Problem> {
        match contents.settings.problem() {
            None => Ok(()),
            Some(reason) => Err(Problem::Settings { table: self.name.to_string(), reason }),
        }
    }

    /// Checks that a table stays written through or not: an `update` that inserts a recent row does not see what another client
    /// writes through at the same time.
    pub(crate) fn check_change(&self, from: &Contents, to: &Contents) -> Result<(), Problem> {
        let name = |contents: &Contents| match contents.settings.write_through {
            true => "rows that are written through".to_owned(),
            false => "rows that are written into the recent table".to_owned(),
        };
        match from.settings.write_through == to.settings.write_through {
            true => Ok(()),
            false => Err(Problem::Mismatch {
                table: self.name.to_string(),
                expected: name(to),
                found: name(from),
            }),
        }
    }

    fn read_settings(&self, stored: &Stored) -> Result<Contents, Problem> {
        let json = self.read_meta(Kind::Settings, stored)?;
        serde_json::from_slice(&json).map_err(|error| Problem::Settings {
            table: self.name.to_string(),
            reason: format!("a newer version of this library may have written them: {error}"),
        })
    }

    fn read_meta(&self, kind: Kind, stored: &Stored) -> Result<Vec<u8>, Problem> {
        let plaintext = self.decrypt(kind, stored, &self.plain)?;
        self.decode(kind, stored.id, &plaintext, &self.plain)
    }

    /// Reads the plaintext of what is never deleted.
    fn decode(
        &self,
        kind: Kind,
        id: u128,
        plaintext: &[u8],
        codec: &Codec,
    ) -> Result<Vec<u8>, Problem> {
        let unreadable = |source| self.unreadable(kind, id, source);
        match Row::decode(plaintext, codec).map_err(unreadable)? {
            Row::Value(bytes) => Ok(bytes),
            Row::Deleted => Err(unreadable(FormatError::Invalid("it is deleted"))),
        }
    }

    /// Encrypts settings or a dictionary.
    pub(crate) fn encrypt_meta(
        &self,
        id: u16,
        version: i64,
        bytes: &[u8],
    ) -> Result<Stored, Problem> {
        let kind = meta_kind(id);
        let plaintext = Row::Value(bytes.to_owned()).encode(&self.plain, Padding::Padme);
        let plaintext = plaintext.map_err(|source| self.unreadable(kind, id.into(), source))?;
        Ok(self.encrypt(kind, id.into(), version, &self.plain, &plaintext))
    }

    pub(crate) fn encrypt_settings(
        &self,
        version: i64,
        contents: &Contents,
    ) -> Result<Stored, Problem> {
        let json = serde_json::to_vec(contents).map_err(|error| Problem::Settings {
            table: self.name.to_string(),
            reason: error.to_string(),
        })?;
        self.encrypt_meta(0, version, &json)
    }

    /// Encrypts a recent row, under a new version.
    pub(crate) fn encrypt_row(
        &self,
        state: &State,
        id: u128,
        row: &Row,
    ) -> Result<Stored, Problem> {
        let codec = &state.row_codec;
        let plaintext = row
            .encode(codec, state.contents.settings.row_padding)
            .map_err(|source| self.unreadable(Kind::Row, id, source))?;
        self.check_len(Kind::Row, id, plaintext.len())?;
        Ok(self.encrypt(Kind::Row, id, random_version(), codec, &plaintext))
    }

    /// Encrypts a value of a column.
    pub(crate) fn encrypt_value(
        &self,
        state: &State,
        id: u128,
        value: Vec<u8>,
    ) -> Result<Vec<u8>, Problem> {
        let codec = &state.row_codec;
        let plaintext = Row::Value(value)
            .encode(codec, state.contents.settings.row_padding)
            .map_err(|source| self.unreadable(Kind::Value, id, source))?;
        self.check_len(Kind::Value, id, plaintext.len())?;
        Ok(self.encrypt(Kind::Value, id, 0, codec, &plaintext).body)
    }

    pub(crate) fn open_value(
        &self,
        state: &State,
        id: u128,
        body: &[u8],
    ) -> Result<Vec<u8>, Problem> {
        let dictionary = PackCipher::dictionary_id(body).unwrap_or(0);
        if !state.has_dictionary(dictionary) {
            let location = self.location(Kind::Value, id);
            return Err(Problem::UnknownDictionary { location, dictionary });
        }
        let stored = Stored::new(id, 0, body.to_owned());
        let (codec, plaintext) = self.open(state, Kind::Value, &stored)?;
        self.decode(Kind::Value, id, &plaintext, codec)
    }

    /// Checks the length of a value as it is stored.
    pub(crate) fn check_len(&self, kind: Kind, id: u128, len: usize) -> Result<(), Problem> {
        match len <= MAX_VALUE {
            true => Ok(()),
            false => Err(Problem::Value {
                location: self.location(kind, id),
                reason: format!(
                    "expected a value of at most {MAX_VALUE} bytes after compression, found {len}: split it, or keep it elsewhere"
                ),
            }),
        }
    }

    pub(crate) fn open_row(&self, state: &State, stored: &Stored) -> Result<Row, Problem> {
        let (codec, plaintext) = self.open(state, Kind::Row, stored)?;
        Row::decode(&plaintext, codec)
            .map_err(|source| self.unreadable(Kind::Row, stored.id, source))
    }

    /// Encrypts the plaintext of a pack.
    pub(crate) fn encrypt_pack(
        &self,
        state: &State,
        id: u128,
        version: i64,
        plaintext: &[u8],
    ) -> Stored {
        self.encrypt(Kind::Pack, id, version, &state.pack_codec, plaintext)
    }

    fn encrypt(
        &self,
        kind: Kind,
        id: u128,
        version: i64,
        codec: &Codec,
        plaintext: &[u8],
    ) -> Stored {
        let body = self.cipher().encrypt(place(kind, id, version), codec, plaintext);
        Stored::new(id, version, body)
    }

    /// Opens a pack, which must not be older than the version that was seen before the call.
    pub(crate) fn open_pack(
        &self,
        state: &State,
        context: Context,
        stored: &Stored,
    ) -> Result<Arc<Pack>, Problem> {
        let (codec, plaintext) = self.open(state, Kind::Pack, stored)?;
        self.check_age(context, Kind::Pack, stored.id, count(stored.version))?;
        let pack = Pack::decode(stored.id, &plaintext, codec);
        let pack = pack.map_err(|source| self.unreadable(Kind::Pack, stored.id, source))?;
        self.check_end(stored, pack.end)?;
        Ok(Arc::new(pack))
    }

    /// Opens a pack as [`open_pack`](Self::open_pack), and returns its end and the value of one key.
    pub(crate) fn find_in_pack(
        &self,
        state: &State,
        context: Context,
        stored: &Stored,
        key: u128,
    ) -> Result<(Option<u128>, Option<Vec<u8>>), Problem> {
        let (codec, plaintext) = self.open(state, Kind::Pack, stored)?;
        self.check_age(context, Kind::Pack, stored.id, count(stored.version))?;
        let (end, value) = Pack::find(stored.id, &plaintext, codec, key)
            .map_err(|source| self.unreadable(Kind::Pack, stored.id, source))?;
        self.check_end(stored, end)?;
        Ok((end, value))
    }

    /// Checks that a pack does not reach into the next one (I4). It does if its body is from before it was split.
    pub(crate) fn check_end(&self, stored: &Stored, end: Option<u128>) -> Result<(), Problem> {
        match (end, stored.next) {
            (_, None) => Ok(()),
            (Some(end), Some(next)) if end <= next => Ok(()),
            _ => Err(Problem::Overlap { location: self.location(Kind::Pack, stored.id) }),
        }
    }

    /// Opens a pack and keeps it.
    pub(crate) fn open_and_cache(
        &self,
        state: &State,
        context: Context,
        stored: &Stored,
    ) -> Result<Arc<Pack>, Problem> {
        let pack = self.open_pack(state, context, stored)?;
        // A transaction may see rows that are rolled back.
        if let Some(cache) = self.cache().filter(|_| !context.is_in_transaction) {
            cache.insert(stored.version, &pack);
        }
        Ok(pack)
    }

    /// Checks that a pack or the settings are not older than what was seen before the call. A transaction may see an older state.
    pub(crate) fn check_age(
        &self,
        context: Context,
        kind: Kind,
        id: u128,
        count: i64,
    ) -> Result<(), Problem> {
        if context.is_in_transaction {
            return Ok(());
        }
        match self.seen.later((kind, id), count, context.began) {
            None => Ok(()),
            Some(expected) => {
                Err(Problem::Older { location: self.location(kind, id), expected, found: count })
            }
        }
    }

    fn open<'s>(
        &self,
        state: &'s State,
        kind: Kind,
        stored: &Stored,
    ) -> Result<(&'s Codec, Plaintext), Problem> {
        let unreadable = |source| self.unreadable(kind, stored.id, source);
        let found = PackCipher::dictionary_id(&stored.body).map_err(unreadable)?;
        let codec = state.codecs.get(&found).map(|(_, codec)| codec);
        let codec = codec.ok_or_else(|| unreadable(FormatError::NoDictionary { id: found }))?;
        Ok((codec, self.decrypt(kind, stored, codec)?))
    }

    fn decrypt(&self, kind: Kind, stored: &Stored, codec: &Codec) -> Result<Plaintext, Problem> {
        let place = place(kind, stored.id, stored.version);
        let opened = self.cipher().open(place, codec, &stored.body);
        opened.map_err(|source| self.unreadable(kind, stored.id, source))
    }

    pub(crate) fn columns(&self) -> Problem {
        Problem::Columns { table: self.name.to_string() }
    }

    pub(crate) fn unreadable(&self, kind: Kind, id: u128, source: FormatError) -> Problem {
        Problem::Unreadable { location: self.location(kind, id), source }
    }

    /// Names what an error is about.
    pub(crate) fn location(&self, kind: Kind, id: u128) -> Location {
        location(self.statements.ids(), &self.name, kind, id)
    }

    /// Names the table of packs, where it has none.
    pub(crate) fn packs(&self) -> Location {
        Location { name: format!("{}_packs", self.name), id: None }
    }

    /// Returns the cached pack of a key.
    pub(crate) fn cached(&self, key: u128) -> Option<Cached> {
        self.cache()?.pack_of(key)
    }
}

fn location(ids: IdColumn, table: &str, kind: Kind, id: u128) -> Location {
    let (name, id) = match kind {
        Kind::Row => (format!("a row of {table}_recent"), Some(ids.display(id))),
        Kind::Pack => (format!("a pack of {table}_packs"), Some(ids.display(id))),
        Kind::Dictionary => (format!("the dictionary {id} of {table}_meta"), None),
        Kind::Settings => (format!("the settings (id 0) of {table}_meta"), None),
        Kind::Value => (format!("a value of {table}"), Some(ids.display(id))),
    };
    Location { name, id }
}

fn meta_kind(id: u16) -> Kind {
    match id {
        0 => Kind::Settings,
        _ => Kind::Dictionary,
    }
}

fn place(kind: Kind, id: u128, version: i64) -> Place {
    let version = version.cast_unsigned();
    Place { kind, id, version }
}

/// Returns the version of a recent row, which identifies what was written.
pub(crate) fn random_version() -> i64 {
    (getrandom::u64().expect("the operating system has randomness") >> 1).cast_signed()
}

/// Returns the version of what replaces a pack. Its upper half counts replacements. The lower half is random: a crash or a failover can
/// take back a body, and another one then has its count.
pub(crate) fn next_version(version: i64) -> i64 {
    // Of a pack that cannot be read, the server may claim any version.
    let next = count(version).wrapping_add(1) & i64::from(i32::MAX);
    next << 32 | random_version() >> 31
}

/// Returns how often the pack had been replaced.
pub(crate) fn count(version: i64) -> i64 {
    version >> 32
}

/// Reads 16 bytes from hexadecimal digits.
fn read_key(digits: &str) -> Option<[u8; 16]> {
    let key = u128::from_str_radix(digits, 16).ok()?;
    (digits.len() == 32).then(|| key.to_be_bytes())
}

//! Resources whose keys and forms are known only at run time.

use std::collections::BTreeMap;
use std::error::Error;

use jiff::Timestamp;
use opaque_id_core::Keyring;
use opaque_id_core::form::{SealedFormOf, Short, Tagged, Text, UuidForm};
use opaque_id_core::inspect::inspect;
use opaque_id_core::key::{Key, StructuredKey, Ulid, Uuid, Uuid7};
use opaque_id_core::keyring::{KeyId, RuntimeError, RuntimeResource};

use crate::args::{self, FormKind, KeyKind, name};
use crate::resources::{self, Described};
use crate::secrets::Opener;

/// A key to display.
pub(crate) struct Shown {
    pub(crate) key: String,
    pub(crate) kind: &'static str,
    pub(crate) time: Option<Timestamp>,
    /// It has a time when no row can have been created.
    pub(crate) is_far: bool,
}

/// An id that was opened.
pub(crate) struct Opened {
    pub(crate) shown: Shown,
    pub(crate) key_id: KeyId,
    /// A tag shows that the secret is right. Otherwise any secret opens the id to some key.
    pub(crate) is_verified: bool,
    /// Of a grant.
    pub(crate) expires: Option<Timestamp>,
}

pub(crate) trait Resource {
    fn seal(&self, key_id: KeyId, key: &str) -> Result<(String, Shown), Box<dyn Error>>;
    /// A grant opens for its purpose.
    fn open(&self, id: &str, purpose: Option<&str>) -> Result<Opened, Box<dyn Error>>;
    fn renew(&self, id: &str) -> Result<(String, Opened), Box<dyn Error>>;
    /// Whether it refuses made-up ids, and so those of other resources.
    fn is_authenticated(&self) -> bool;
}

/// The resources that a command has.
pub(crate) struct Resources {
    /// The file that names them.
    pub(crate) file: Option<String>,
    of: Of,
}

enum Of {
    /// The one that the options name.
    Given(Named),
    /// Those of the file, by their prefixes.
    Listed { all: BTreeMap<String, Named>, advice: &'static str },
}

/// A resource with what it is called.
pub(crate) struct Named {
    pub(crate) prefix: String,
    pub(crate) domain: String,
    /// The table of its rows, if the file of resources says so.
    pub(crate) table: Option<String>,
    form: FormKind,
    resource: Box<dyn Resource>,
}

impl Resources {
    /// A file that is found is trusted if it belongs to the user, to root, or to the user of sudo where the caller says so.
    pub(crate) fn new(
        args: &args::Resource,
        opener: &Opener,
        trusts_sudo: bool,
    ) -> Result<Self, Box<dyn Error>> {
        let of_audience;
        let (opener, listed, advice) = match opener {
            Opener::Keyring(keyring) => {
                of_audience = Opener::Keyring(self::of_audience(args, keyring));
                let listed = resources::Resources::read(args.resources.as_deref(), trusts_sudo)?;
                (&of_audience, listed, "add it, or name it by --prefix and --key")
            }
            Opener::Subkeys(subkeys) => {
                subkeys.check(args)?;
                (opener, Some(subkeys.resources()), "its subkeys were not exported into this file")
            }
        };
        let Some(prefix) = &args.prefix else {
            let resources::Resources { file, all } = listed.ok_or(NO_FILE)?;
            let all = all.into_iter().map(|(prefix, described)| {
                let named = Named::new(&prefix, described, opener)
                    .map_err(|error| format!("{}: `{prefix}`: {error}", file.display()))?;
                Ok::<_, Box<dyn Error>>((prefix, named))
            });
            let all = all.collect::<Result<_, _>>()?;
            let file = Some(file.display().to_string());
            return Ok(Self { file, of: Of::Listed { all, advice } });
        };
        let given = given(prefix, args, listed.as_ref())?;
        let file = listed.map(|listed| listed.file.display().to_string());
        Ok(Self { file, of: Of::Given(Named::new(prefix, given, opener)?) })
    }

    pub(crate) fn named(&self) -> Option<&Named> {
        match &self.of {
            Of::Given(named) => Some(named),
            Of::Listed { .. } => None,
        }
    }

    /// Returns the resource that the options name.
    pub(crate) fn given(&self) -> Result<&dyn Resource, &'static str> {
        let named = self.named().ok_or("a key has no prefix; name its resource by --prefix")?;
        Ok(&*named.resource)
    }

    /// Acts on an id with its resource, which it returns as well.
    pub(crate) fn act<R>(
        &self,
        id: &str,
        act: impl Fn(&dyn Resource) -> Result<R, Box<dyn Error>>,
    ) -> Result<(R, &Named), Box<dyn Error>> {
        let (all, advice) = match &self.of {
            Of::Given(named) => return Ok((act(&*named.resource)?, named)),
            Of::Listed { all, advice } => (all, advice),
        };
        let file = self.file.as_deref().unwrap_or_default();
        let found = inspect(id);
        match (found.problem, found.suggestion, found.prefix) {
            (Some(problem), Some(meant), _) => {
                Err(format!("invalid id: {problem}; suggestion: {meant}").into())
            }
            (Some(problem), None, _) => Err(format!("invalid id: {problem}").into()),
            (None, _, Some(prefix)) => {
                let of_cursor = || all.get(found.cursor_of.as_deref()?);
                let named = all.get(&prefix).or_else(of_cursor);
                let named =
                    named.ok_or_else(|| format!("{file} has no resource `{prefix}`; {advice}"))?;
                Ok((act(&*named.resource)?, named))
            }
            (None, _, None) => {
                let is_uuid = |form| matches!(form, FormKind::Uuid | FormKind::MappedUuid);
                act_on_uuid(all.values().filter(|named| is_uuid(named.form)), file, act)
            }
        }
    }
}

impl Named {
    fn new(prefix: &str, described: Described, opener: &Opener) -> Result<Self, Box<dyn Error>> {
        Ok(Self {
            prefix: prefix.to_owned(),
            domain: described.domain.clone().unwrap_or_else(|| prefix.to_owned()),
            form: described.form.unwrap_or(FormKind::Text),
            resource: resource(prefix, &described, opener)?,
            table: described.table,
        })
    }
}

/// A UUID does not say which resource it is of. Those that refuse foreign ids are asked first; if none of them accepts it,
/// it is of the only one that is left.
fn act_on_uuid<'r, R>(
    resources: impl Iterator<Item = &'r Named>,
    file: &str,
    act: impl Fn(&dyn Resource) -> Result<R, Box<dyn Error>>,
) -> Result<(R, &'r Named), Box<dyn Error>> {
    let (asked, left): (Vec<_>, Vec<_>) =
        resources.partition(|named| named.resource.is_authenticated());
    let names = |of: &[&Named]| {
        let names: Vec<_> = of.iter().map(|named| format!("`{}`", named.prefix)).collect();
        names.join(", ")
    };
    let mut accepted = asked.iter().filter_map(|named| Some((act(&*named.resource).ok()?, *named)));
    match (accepted.next(), &left[..]) {
        (Some(accepted), _) => Ok(accepted),
        (None, [only]) => Ok((act(&*only.resource)?, only)),
        (None, []) => match &asked[..] {
            [] => {
                Err(format!("it has no prefix, and no resource of {file} has the uuid form").into())
            }
            // Its own error says more.
            [only] => Ok((act(&*only.resource)?, only)),
            _ => Err(format!("it is not a genuine id of {}", names(&asked)).into()),
        },
        (None, left) => Err(format!(
            "it may be of {}, whose ids say nothing about their resource; name one by --prefix",
            names(left)
        )
        .into()),
    }
}

const NO_FILE: &str = "no opaque-id.toml in this folder or above: write it (`opaque-id resources > opaque-id.toml` reads the \
    source), or name the resource by --prefix and --key";

/// The resource with this prefix. Options say what the file does not.
fn given(
    prefix: &str,
    args: &args::Resource,
    listed: Option<&resources::Resources>,
) -> Result<Described, String> {
    let found = listed.and_then(|listed| listed.all.get(prefix));
    if let (Some(listed), Some(found)) = (listed, found) {
        agree(prefix, args, found).map_err(|(option, expected)| {
            format!(
                "expected the {option} of `{prefix}` in {}, {expected}, found another --{option}: leave the option out, \
                 correct the file, or name another one (--resources)",
                listed.file.display()
            )
        })?;
    }
    let key = args.key.or_else(|| found?.key).ok_or_else(|| match listed {
            Some(listed) => format!(
                "{} has no resource `{prefix}`: add it (`opaque-id resources` prints those of a source), or name its \
                 key, such as --key uuid7",
                listed.file.display()
            ),
            None => format!(
                "the kind of the keys of `{prefix}` is not known: name it, such as --key uuid7, or write \
                 opaque-id.toml (`opaque-id resources > opaque-id.toml` reads the source)"
            ),
        })?;
    Ok(Described {
        key: Some(key),
        form: args.form.or_else(|| found?.form),
        domain: args.domain.clone().or_else(|| found?.domain.clone()),
        table: found.and_then(|found| found.table.clone()),
    })
}

/// Checks that the options say the same as the file, since a wrong kind of key, form or domain opens ids without a tag to
/// wrong keys. Returns what the file says otherwise.
fn agree(
    prefix: &str,
    args: &args::Resource,
    found: &Described,
) -> Result<(), (&'static str, String)> {
    let domain = found.domain.as_deref().unwrap_or(prefix);
    match (args.key, found.key, args.form, found.form, &args.domain) {
        (Some(given), Some(key), ..) if given != key => Err(("key", name(key))),
        (_, _, Some(given), Some(form), _) if given != form => Err(("form", name(form))),
        (.., Some(given)) if given != domain => Err(("domain", domain.to_owned())),
        _ => Ok(()),
    }
}

/// The keyring of the audience that the options name.
pub(crate) fn of_audience(args: &args::Resource, keyring: &Keyring) -> Keyring {
    args.audience.as_deref().map_or_else(|| keyring.clone(), |name| keyring.for_audience(name))
}

/// The resource that the options name, with its prefix.
pub(crate) fn named(args: &args::Resource) -> Result<(String, Described), Box<dyn Error>> {
    let listed = resources::Resources::read(args.resources.as_deref(), true)?;
    let prefix = args.prefix.as_ref().ok_or("expected --prefix")?;
    Ok((prefix.clone(), given(prefix, args, listed.as_ref())?))
}

/// The resources whose ids are sealed: the one that the options name, or those of the file that are named, or all of it.
pub(crate) fn sealed(
    args: &args::Resource,
    names: &[String],
) -> Result<Vec<(String, Described)>, Box<dyn Error>> {
    let listed = resources::Resources::read(args.resources.as_deref(), true)?;
    if let Some(prefix) = &args.prefix {
        let given = given(prefix, args, listed.as_ref())?;
        return Ok(vec![(prefix.clone(), given)]);
    }
    let resources::Resources { file, mut all } = listed.ok_or(NO_FILE)?;
    if names.is_empty() {
        let is_sealed = |form| !matches!(form, Some(FormKind::Mapped | FormKind::MappedUuid));
        all.retain(|_, described| is_sealed(described.form));
        if all.is_empty() {
            return Err(format!("{} has no resource whose ids are sealed", file.display()).into());
        }
        return Ok(all.into_iter().collect());
    }
    let named = names.iter().map(|name| {
        let described = all.remove_entry(name);
        described.ok_or_else(|| {
            format!("{} has no resource `{name}`, or it is named twice", file.display()).into()
        })
    });
    named.collect()
}

/// Checks that the key has this form, and the prefix and the domain.
pub(crate) fn check(
    prefix: &str,
    described: &Described,
    keyring: &Keyring,
) -> Result<(), Box<dyn Error>> {
    resource(prefix, described, &Opener::Keyring(keyring.clone())).map(drop)
}

fn resource(
    prefix: &str,
    described: &Described,
    opener: &Opener,
) -> Result<Box<dyn Resource>, Box<dyn Error>> {
    let domain = described.domain.as_deref().unwrap_or(prefix);
    let key = described.key.unwrap_or(KeyKind::Uuid7);
    let form = described.form.unwrap_or(FormKind::Text);
    fn boxed<K: ShownKey, F: SealedFormOf<K>>(
        opener: &Opener,
        prefix: &str,
        domain: &str,
    ) -> Result<Box<dyn Resource>, RuntimeError> {
        Ok(Box::new(match opener {
            Opener::Keyring(keyring) => RuntimeResource::<K, F>::new(keyring, prefix, domain)?,
            Opener::Subkeys(subkeys) => {
                RuntimeResource::of_subkeys(prefix, |key_id| subkeys.get(prefix, key_id))?
            }
        }))
    }
    let new = match (key, form) {
        (_, FormKind::Mapped | FormKind::MappedUuid) => return Ok(Box::new(Mapped)),
        (KeyKind::Uuid7, FormKind::Text) => boxed::<Uuid7, Text>,
        (KeyKind::Uuid7, FormKind::Tagged) => boxed::<Uuid7, Tagged>,
        (KeyKind::Uuid7, FormKind::Uuid) => boxed::<Uuid7, UuidForm>,
        (KeyKind::Ulid, FormKind::Text) => boxed::<Ulid, Text>,
        (KeyKind::Ulid, FormKind::Tagged) => boxed::<Ulid, Tagged>,
        (KeyKind::Structured, FormKind::Text) => boxed::<StructuredKey, Text>,
        (KeyKind::Structured, FormKind::Tagged) => boxed::<StructuredKey, Tagged>,
        (KeyKind::Structured, FormKind::Uuid) => boxed::<StructuredKey, UuidForm>,
        (KeyKind::Uuid, FormKind::Text) => boxed::<Uuid, Text>,
        (KeyKind::Uuid, FormKind::Tagged) => boxed::<Uuid, Tagged>,
        (KeyKind::Int, FormKind::Text) => boxed::<i64, Text>,
        (KeyKind::Int, FormKind::Short) => boxed::<i64, Short>,
        (KeyKind::Int, FormKind::Uuid) => boxed::<i64, UuidForm>,
        (KeyKind::Int, FormKind::Tagged) => {
            return Err("integers have no tagged form because their text form is already authenticated; use --form text".into());
        }
        (_, FormKind::Short) => {
            return Err("only --key int has a short form; use --form text or tagged".into());
        }
        (KeyKind::Ulid | KeyKind::Uuid, FormKind::Uuid) => {
            return Err(
                "only --key uuid7, structured and int have a uuid form; use --form text or tagged"
                    .into(),
            );
        }
    };
    Ok(new(opener, prefix, domain)?)
}

/// A resource whose ids are not sealed.
struct Mapped;

impl Mapped {
    fn refuse<T>() -> Result<T, Box<dyn Error>> {
        Err(
            "the resource is mapped, so its ids are not sealed: look in its mapping table, for the UUID that \
             `opaque-id inspect` prints"
                .into(),
        )
    }
}

impl Resource for Mapped {
    fn seal(&self, _: KeyId, _: &str) -> Result<(String, Shown), Box<dyn Error>> {
        Self::refuse()
    }

    fn open(&self, _: &str, _: Option<&str>) -> Result<Opened, Box<dyn Error>> {
        Self::refuse()
    }

    fn renew(&self, _: &str) -> Result<(String, Opened), Box<dyn Error>> {
        Self::refuse()
    }

    fn is_authenticated(&self) -> bool {
        false
    }
}

impl<K: ShownKey, F: SealedFormOf<K>> Resource for RuntimeResource<K, F> {
    fn seal(&self, key_id: KeyId, key: &str) -> Result<(String, Shown), Box<dyn Error>> {
        let key = K::read(key)?;
        Ok((RuntimeResource::seal_with(self, key_id, key)?, shown(key)))
    }

    fn open(&self, id: &str, purpose: Option<&str>) -> Result<Opened, Box<dyn Error>> {
        match (inspect(id).form, purpose) {
            (Some("grant"), Some(purpose)) => {
                let (key, key_id, expires) = RuntimeResource::open_grant(self, id, purpose)?;
                let expires = Timestamp::try_from(expires).ok();
                return Ok(Opened { expires, ..opened((key, key_id), true) });
            }
            (Some("grant"), None) => {
                return Err("a grant opens for its purpose: name it by --purpose".into());
            }
            (Some("position"), _) => {
                return Err(
                    "a position opens in the application only, for its list and its filter".into(),
                );
            }
            _ => {}
        }
        // Also accepts a cursor, which has a tag: its text starts differently from every id of the resource.
        Ok(match RuntimeResource::open_cursor(self, id) {
            Err(RuntimeError::Parse(_)) => {
                opened(RuntimeResource::open(self, id)?, F::TAG_BITS > 0)
            }
            cursor => opened(cursor?, true),
        })
    }

    fn renew(&self, id: &str) -> Result<(String, Opened), Box<dyn Error>> {
        let (key, key_id) = RuntimeResource::open(self, id)?;
        let id = RuntimeResource::seal(self, key)?;
        Ok((id, opened((key, key_id), F::TAG_BITS > 0)))
    }

    fn is_authenticated(&self) -> bool {
        F::IS_AUTHENTICATED
    }
}

fn opened<K: ShownKey>((key, key_id): (K, KeyId), is_verified: bool) -> Opened {
    Opened { shown: shown(key), key_id, is_verified, expires: None }
}

fn shown<K: ShownKey>(key: K) -> Shown {
    Shown { key: key.to_string(), kind: K::KIND, time: key.time(), is_far: key.is_far() }
}

/// A key that can be parsed from text and displayed.
pub(crate) trait ShownKey: Key + ToString {
    fn read(text: &str) -> Result<Self, Box<dyn Error>>;

    fn time(self) -> Option<Timestamp> {
        None
    }

    /// Whether it was created before 2000, or will be more than a day from now.
    fn is_far(self) -> bool {
        self.time().is_some_and(is_far)
    }
}

impl ShownKey for Uuid7 {
    fn read(text: &str) -> Result<Self, Box<dyn Error>> {
        Ok(read_uuid(text)?.try_into()?)
    }

    fn time(self) -> Option<Timestamp> {
        at_millis(self.unix_millis())
    }

    fn is_far(self) -> bool {
        self.time().is_none_or(is_far)
    }
}

impl ShownKey for Ulid {
    fn read(text: &str) -> Result<Self, Box<dyn Error>> {
        Ok(read_uuid(text)?.into())
    }

    fn time(self) -> Option<Timestamp> {
        at_millis(self.unix_millis())
    }

    fn is_far(self) -> bool {
        self.time().is_none_or(is_far)
    }
}

impl ShownKey for StructuredKey {
    fn read(text: &str) -> Result<Self, Box<dyn Error>> {
        Ok(read_uuid(text)?.try_into()?)
    }
}

impl ShownKey for Uuid {
    fn read(text: &str) -> Result<Self, Box<dyn Error>> {
        read_uuid(text)
    }

    /// Versions 1, 6 and 7 have a time.
    fn time(self) -> Option<Timestamp> {
        let (seconds, nanoseconds) = self.get_timestamp()?.to_unix();
        Timestamp::new(seconds.try_into().ok()?, nanoseconds.try_into().ok()?).ok()
    }
}

impl ShownKey for i64 {
    fn read(text: &str) -> Result<Self, Box<dyn Error>> {
        text.parse().map_err(|_| "expected a signed 64-bit integer".into())
    }
}

/// A UUID, 32 hex digits or a ULID: all are 16 bytes.
fn read_uuid(text: &str) -> Result<Uuid, Box<dyn Error>> {
    if let Ok(ulid) = text.parse::<Ulid>() {
        return Ok(ulid.into());
    }
    Uuid::try_parse(text).map_err(|_| "expected a UUID, 32 hex digits or a ULID".into())
}

fn is_far(time: Timestamp) -> bool {
    const YEAR_2000: i64 = 946_684_800;
    const DAY: i64 = 86_400;
    !(YEAR_2000..=Timestamp::now().as_second() + DAY).contains(&time.as_second())
}

/// `None` after the year 9999.
fn at_millis(millis: u64) -> Option<Timestamp> {
    Timestamp::from_millisecond(millis.try_into().ok()?).ok()
}

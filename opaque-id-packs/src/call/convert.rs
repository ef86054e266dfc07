//! Converts the values of a column, while the application runs.
//!
//! A statement writes the rows of a page that are as they were read. The next pass finds the others. Each pass reads only the rows that are
//! left, so a later run continues.

use opaque_id_sql::dialect::Failure;
use opaque_id_sql::statement::Cell;

use super::walk::{EVERY_BODY, Source, Walk, refused};
use super::{Calls, PackCall, STATEMENT_BYTES, Session};
use crate::column::ColumnName;
use crate::error::{TableError, add};
use crate::format::{Kind, Value};
use crate::index::FINGERPRINT;
use crate::statement::{ConvertedRow, ValueSource, Write};
use crate::stored::StoredRow;

/// How often a run looks for rows that the application has changed meanwhile.
const PASSES: usize = 3;

/// The goal of a conversion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Conversion {
    /// Each value has its fingerprint. Values stay in plaintext or encrypted as they are.
    Index,
    /// No value is in plaintext, and each has its fingerprint if there is an index.
    Encrypted,
    /// Each value is in plaintext: the way back.
    Plaintext,
}

/// The result of a conversion.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Converted {
    /// How many rows were written.
    pub rows: u64,
    /// How many rows another client has changed during each pass. The next run finds them.
    pub lost: u64,
    /// How many values are in plaintext after the run.
    pub plaintext: u64,
    /// How many values have no fingerprint after the run, if there is an index. An erased value has none.
    pub unindexed: u64,
    /// How many values are encrypted after the run.
    pub encrypted: u64,
    /// Rows that stay as they are, because their value cannot be read or the database refuses the new one. There are up to 100 of each
    /// variant.
    pub problems: Vec<TableError>,
    /// How many other problems there are.
    pub more_problems: u64,
}

impl Converted {
    fn add(&mut self, problem: TableError) {
        add(&mut self.problems, &mut self.more_problems, problem);
    }
}

/// Decodes the bytes of a value, and returns it with its group and, if the column has a blind index, its normalized text.
pub type Reader<'c> =
    Box<dyn Fn(&[u8]) -> Result<(Value, Option<String>), String> + Send + Sync + 'c>;

impl Calls {
    pub fn convert<'c>(
        &self,
        column: &ColumnName,
        to: Conversion,
        read: Reader<'c>,
        mut progress: impl FnMut(u64) + Send + 'static,
    ) -> PackCall<'c, Converted> {
        let column = column.clone();
        self.connected(async move |mut session| {
            if to == Conversion::Encrypted
                && let Some(references) = session.sql().references(&column)
                && !session.query(references).await?.is_empty()
            {
                let location = session.table.column_location();
                let reason = "a foreign key refers to the column of plaintext";
                return Err(TableError::Refused { location, reason });
            }
            if to != Conversion::Plaintext {
                check_targets(&mut session, &column).await?;
            }
            let mut converted = Converted::default();
            for _ in 0..PASSES {
                converted = Converted { rows: converted.rows, ..Converted::default() };
                for write in writes(&column, to) {
                    let mut pages = Walk::new(Source::Column(&column, write.source()));
                    while let Some(page) = pages.next(&mut session, &EVERY_BODY).await? {
                        let rows = write
                            .prepare(&mut session, &column, page, &read, &mut converted)
                            .await?;
                        write.write(&mut session, &column, rows, &mut converted).await?;
                        progress(converted.rows);
                    }
                }
                if converted.lost == 0 {
                    break;
                }
            }
            [converted.plaintext, converted.encrypted, converted.unindexed] =
                unconverted(&mut session, &column).await?;
            session.end(converted).await
        })
    }
}

/// The caller may have named columns of other data. The conversion would overwrite them.
async fn check_targets(session: &mut Session, column: &ColumnName) -> Result<(), TableError> {
    let refused = |session: &Session, reason| {
        Err(TableError::Refused { location: session.table.column_location(), reason })
    };
    let other_values = session.sql().other_values(column);
    if !session.query(other_values).await?.is_empty() {
        return refused(
            session,
            "a column of encrypted values or fingerprints has another type or length",
        );
    }
    let mut page = Walk::new(Source::Column(column, ValueSource::AllEncrypted))
        .next(session, &EVERY_BODY)
        .await?
        .unwrap_or_default();
    page.retain(|stored| !stored.body.is_empty());
    if !page.is_empty() && !session.opens_any(&page)? {
        return refused(session, "the column of encrypted values has other values");
    }
    Ok(())
}

/// Checks that no value is in plaintext and that each has its fingerprint, and adds the problems.
pub(super) async fn check(
    session: &mut Session,
    column: &ColumnName,
    read: &Reader<'_>,
    mut add: impl FnMut(TableError),
) -> Result<(), TableError> {
    let mut in_plaintext = 0_u64;
    let due = [
        (ValueSource::Plaintext, column.plaintext.is_some()),
        (ValueSource::Encrypted, column.index.is_some()),
        (ValueSource::Index, column.index.is_some()),
    ];
    for (source, _) in due.into_iter().filter(|(_, is_due)| *is_due) {
        let mut pages = Walk::new(Source::Column(column, source));
        while let Some(page) = pages.next(session, &EVERY_BODY).await? {
            for found in page {
                let location = session.table.location(Kind::Value, found.id);
                match source {
                    ValueSource::Plaintext => {
                        in_plaintext += 1;
                        add(TableError::Plaintext { location });
                    }
                    ValueSource::Index => add(TableError::Fingerprint { location }),
                    // The verification of the column has reported a value that cannot be read.
                    _ => {
                        if let Ok(value) = value(session, column, source, &found)
                            && let Ok((_, text)) = read(&value)
                            && fingerprint(session, text.as_deref())? != found.index
                        {
                            add(TableError::Fingerprint { location });
                        }
                    }
                }
            }
        }
    }
    if column.plaintext.is_some() && in_plaintext < unconverted(session, column).await?[0] {
        let location = session.table.column_location();
        let reason = "a row without an id has a value in plaintext";
        add(TableError::Refused { location, reason });
    }
    Ok(())
}

/// Returns the number of values in plaintext, of encrypted values, and of values without a fingerprint.
async fn unconverted(session: &mut Session, column: &ColumnName) -> Result<[u64; 3], TableError> {
    let rows = session.query(session.sql().count_unconverted(column)).await?;
    match rows.first().map_or(&[][..], |row| row) {
        [Cell::Integer(plaintext), Cell::Integer(encrypted), Cell::Integer(unindexed)] => {
            Ok([plaintext, encrypted, unindexed].map(|count| count.cast_unsigned()))
        }
        _ => Err(session.table.wrong_columns()),
    }
}

fn writes(column: &ColumnName, to: Conversion) -> impl Iterator<Item = Write> {
    let (has_plaintext, has_index) = (column.plaintext.is_some(), column.index.is_some());
    let all = [
        (
            Write::NoIndex(ValueSource::Index),
            to != Conversion::Plaintext && has_plaintext && has_index,
        ),
        (
            Write::Index(ValueSource::Plaintext),
            to == Conversion::Index && has_plaintext && has_index,
        ),
        (Write::Encrypted, to == Conversion::Encrypted && has_plaintext),
        (Write::Index(ValueSource::Encrypted), to != Conversion::Plaintext && has_index),
        (Write::Plaintext, to == Conversion::Plaintext && has_plaintext),
    ];
    all.into_iter().filter_map(|(write, is_due)| is_due.then_some(write))
}

/// Returns the fingerprint of a text, or zeros without an index.
fn fingerprint(session: &Session, text: Option<&str>) -> Result<Vec<u8>, TableError> {
    let state = session.state()?;
    text.map_or(Ok(vec![0; FINGERPRINT]), |text| session.table.fingerprint(&state, text))
}

/// Returns the bytes that the column's encoding writes for the value.
fn value(
    session: &Session,
    column: &ColumnName,
    source: ValueSource,
    found: &StoredRow,
) -> Result<Vec<u8>, TableError> {
    if source != ValueSource::Plaintext {
        return Ok(session.view()?.open_value(found.id, &found.body)?.to_vec());
    }
    let Ok(text) = str::from_utf8(&found.body) else {
        return Err(session.table.invalid(
            Kind::Value,
            found.id,
            "expected text in UTF-8, found other bytes",
        ));
    };
    match is_quoted(session, column)? {
        true => Ok(serde_json::Value::from(text).to_string().into_bytes()),
        false => Ok(found.body.clone()),
    }
}

fn is_quoted(session: &Session, column: &ColumnName) -> Result<bool, TableError> {
    Ok(session.state()?.contents.encoding == "json" && !column.is_json)
}

impl Write {
    fn source(self) -> ValueSource {
        match self {
            Self::Index(source) | Self::NoIndex(source) => source,
            Self::Encrypted => ValueSource::Plaintext,
            Self::Plaintext => ValueSource::AllEncrypted,
        }
    }

    async fn prepare(
        self,
        session: &mut Session,
        column: &ColumnName,
        page: Vec<StoredRow>,
        read: &Reader<'_>,
        converted: &mut Converted,
    ) -> Result<Vec<ConvertedRow>, TableError> {
        let mut values = Vec::new();
        for found in page {
            let decoded = match self.source() {
                ValueSource::Index => Ok((Value::from(Vec::new()), None)),
                source => value(session, column, source, &found).and_then(|bytes| {
                    let invalid = |reason| session.table.invalid(Kind::Value, found.id, reason);
                    read(&bytes).map_err(invalid)
                }),
            };
            match decoded {
                Ok((value, text)) => {
                    values.push((found, value, fingerprint(session, text.as_deref())?))
                }
                Err(TableError::Erased { .. }) => {}
                Err(problem) => converted.add(problem),
            }
        }
        if self == Self::Encrypted {
            let groups = values.iter().filter_map(|(_, value, _)| value.group).collect();
            session.ensure_keys(groups, true).await?;
        }
        let mut rows = Vec::new();
        for (found, value, fingerprint) in values {
            if matches!(self, Self::Index(_)) && found.index == fingerprint {
                continue;
            }
            let (id, read) = (found.id, found.body);
            match self.new_value(session, column, id, value) {
                Ok(new) => rows.push(ConvertedRow { id, fingerprint, new, read }),
                Err(problem) => converted.add(problem),
            }
        }
        Ok(rows)
    }

    fn new_value(
        self,
        session: &Session,
        column: &ColumnName,
        id: u128,
        value: Value,
    ) -> Result<Vec<u8>, TableError> {
        match self {
            Self::Index(_) | Self::NoIndex(_) => Ok(Vec::new()),
            Self::Encrypted => session.view()?.encrypt_value(id, Some(value)),
            Self::Plaintext if is_quoted(session, column)? => {
                let reason = "expected a JSON string for a column of text, found other JSON";
                let text = serde_json::from_slice::<String>(&value);
                text.map(String::into_bytes)
                    .map_err(|_| session.table.invalid(Kind::Value, id, reason))
            }
            Self::Plaintext => Ok(value.to_vec()),
        }
    }

    /// Writes rows. If the database refuses one of them, writes fewer at a time, to find it.
    async fn write(
        self,
        session: &mut Session,
        column: &ColumnName,
        rows: Vec<ConvertedRow>,
        converted: &mut Converted,
    ) -> Result<(), TableError> {
        let mut left = split(rows);
        while let Some(rows) = left.pop() {
            let write = session.sql().convert(column, self, &rows);
            let result = session.try_rows(write).await?;
            let location = |row: &ConvertedRow| session.table.location(Kind::Value, row.id);
            match (result, &rows[..]) {
                (Ok(written), _) => {
                    converted.rows += written;
                    if written < rows.len() as u64 {
                        self.find_ignored(session, column, &rows, written, converted).await?;
                    }
                }
                (Err(Failure::Duplicate), [row]) if self != Self::Plaintext => {
                    converted.add(TableError::Duplicate { location: location(row) });
                    // If rows have exchanged their values, the next pass can write both.
                    let clear = session.sql().convert(column, Self::NoIndex(self.source()), &rows);
                    converted.lost += session.try_rows(clear).await?.unwrap_or(0);
                }
                (Err(failure), [row]) => {
                    converted.add(refused(session, row.id, failure));
                }
                // Each statement would wait for the lock.
                (Err(Failure::LockTimeout), _) => {
                    left.extend(rows.into_iter().rev().map(|row| vec![row]));
                }
                (Err(_), _) => {
                    left.extend(rows.rchunks(rows.len().div_ceil(2)).map(<[ConvertedRow]>::to_vec));
                }
            }
        }
        Ok(())
    }

    /// Tells rows that another client has changed from rows that are as they were, because a trigger or a rule has cancelled the update.
    async fn find_ignored(
        self,
        session: &mut Session,
        column: &ColumnName,
        rows: &[ConvertedRow],
        written: u64,
        converted: &mut Converted,
    ) -> Result<(), TableError> {
        let mut lost = (rows.len() as u64).saturating_sub(written);
        let first = rows.first().map_or(0, |row| row.id);
        let mut pages = Walk::from(Source::Column(column, self.source()), first);
        for found in pages.next(session, &EVERY_BODY).await?.unwrap_or_default() {
            let is_same = |row: &&ConvertedRow| row.id == found.id && row.read == found.body;
            let Some(row) = rows.iter().find(is_same) else { continue };
            let is_written = matches!(self, Self::Index(_)) && row.fingerprint == found.index;
            if !is_written && lost > 0 {
                let location = session.table.location(Kind::Value, row.id);
                let reason = "a trigger, rule or policy leaves the row as it is, or its value is JSON's null";
                converted.add(TableError::Refused { location, reason });
                lost -= 1;
            }
        }
        converted.lost += lost;
        Ok(())
    }
}

/// Splits rows into statements of limited sizes. The last one runs first.
fn split(rows: Vec<ConvertedRow>) -> Vec<Vec<ConvertedRow>> {
    let (mut statements, mut bytes) = (Vec::<Vec<_>>::new(), usize::MAX);
    for row in rows {
        let len = FINGERPRINT + row.new.len() + row.read.len();
        bytes = bytes.saturating_add(len);
        match statements.last_mut().filter(|_| bytes <= STATEMENT_BYTES as usize) {
            Some(statement) => statement.push(row),
            None => {
                bytes = len;
                statements.push(vec![row]);
            }
        }
    }
    statements.reverse();
    statements
}

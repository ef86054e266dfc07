use opaque_id_sql::Dialect;

/// The column of the application's own table that has the values of an `EncryptedColumn`, for calls that walk
/// the table.
///
/// If row security of PostgreSQL hides rows from the role, the calls neither see nor count them. A sweep
/// would then delete dictionaries that these rows need, so run the calls as a role that sees all rows. The
/// command `opaque-id packs` refuses others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnName {
    table: Box<str>,
    id: Box<str>,
    column: Box<str>,
    pub(crate) index: Option<Box<str>>,
    pub(crate) plaintext: Option<Box<str>>,
    pub(crate) is_json: bool,
}

pub(crate) struct Quoted {
    pub(crate) table: String,
    pub(crate) id: String,
    pub(crate) column: String,
    pub(crate) index: Option<String>,
    pub(crate) plaintext: Option<String>,
}

impl ColumnName {
    /// Names a column of a table with the primary key `id`. Statements quote the names, so a reserved word is
    /// a name as well.
    ///
    /// # Panics
    /// Unless names consist of ASCII letters, digits and `_` and do not start with a digit. A schema and a
    /// dot may precede the table's name.
    #[must_use]
    #[track_caller]
    pub fn new(table: &str, column: &str) -> Self {
        for part in table.splitn(2, '.') {
            check(part);
        }
        check(column);
        let (table, id, column) = (table.into(), "id".into(), column.into());
        Self { table, id, column, index: None, plaintext: None, is_json: false }
    }

    /// Names a column by a text such as `customers.notes`, or `shop.customers.notes`. Returns `None` if a
    /// name is invalid.
    #[doc(hidden)]
    #[must_use]
    pub fn parse(
        text: &str,
        id: &str,
        index: Option<&str>,
        plaintext: Option<&str>,
    ) -> Option<Self> {
        let (table, column) = text.rsplit_once('.')?;
        let mut names = table.splitn(2, '.').chain([column, id]).chain(index).chain(plaintext);
        if !names.all(is_name) {
            return None;
        }
        let (index, plaintext) = (index.map(Into::into), plaintext.map(Into::into));
        let Self { table, column, .. } = Self::new(table, column);
        let name = Self { table, id: id.into(), column, index, plaintext, is_json: false };
        name.are_distinct().then_some(name)
    }

    /// Sets the name of the column with the ids that the values are encrypted for. It must be unique: the
    /// primary key.
    ///
    /// # Panics
    /// The same as [`new`](Self::new)'s, and if another column has this name.
    #[must_use]
    #[track_caller]
    pub fn keyed_by(self, id: &str) -> Self {
        check(id);
        Self { id: id.into(), ..self }.distinct()
    }

    /// Sets the name of the column with the [fingerprints](crate::Fingerprint) of the values.
    ///
    /// # Panics
    /// The same as [`keyed_by`](Self::keyed_by)'s.
    #[must_use]
    #[track_caller]
    pub fn index(self, index: &str) -> Self {
        check(index);
        Self { index: Some(index.into()), ..self }.distinct()
    }

    /// Sets the name of the column that has the values in plaintext until they are encrypted. It is nullable.
    /// Its values are texts, or have a text that is exact, such as integers and decimal numbers. With an
    /// encoding of JSON, a text becomes a string.
    ///
    /// # Panics
    /// The same as [`keyed_by`](Self::keyed_by)'s.
    #[must_use]
    #[track_caller]
    pub fn plaintext(self, plaintext: &str) -> Self {
        check(plaintext);
        Self { plaintext: Some(plaintext.into()), ..self }.distinct()
    }

    /// Sets the name of the column of plaintext like [`plaintext`](Self::plaintext), if it has JSON.
    ///
    /// # Panics
    /// The same as [`keyed_by`](Self::keyed_by)'s.
    #[must_use]
    #[track_caller]
    pub fn plaintext_json(self, plaintext: &str) -> Self {
        Self { is_json: true, ..self.plaintext(plaintext) }
    }

    #[track_caller]
    fn distinct(self) -> Self {
        assert!(self.are_distinct(), "expected columns of different names, found one name twice");
        self
    }

    /// A conversion within one column would set its values to NULL.
    fn are_distinct(&self) -> bool {
        let others = [self.index.as_ref(), self.plaintext.as_ref()].into_iter().flatten();
        // MySQL and SQLite ignore case in names.
        let names = [&self.id, &self.column].into_iter().chain(others);
        let names: Vec<_> = names.map(|name| name.to_ascii_lowercase()).collect();
        names.iter().enumerate().all(|(place, name)| !names[..place].contains(name))
    }

    #[doc(hidden)]
    #[must_use]
    pub fn count_sql(&self, dialect: Dialect) -> String {
        let Quoted { table, column, .. } = self.quoted(dialect);
        format!("SELECT count({column}) FROM {table}")
    }

    pub(crate) fn schema_and_table(&self) -> (Option<&str>, &str) {
        match self.table.split_once('.') {
            Some((schema, table)) => (Some(schema), table),
            None => (None, &self.table),
        }
    }

    pub(crate) fn quoted(&self, dialect: Dialect) -> Quoted {
        // In double quotes, SQLite reads an unknown name as a text, and finds no values.
        let quote = if dialect == Dialect::Postgres { '"' } else { '`' };
        let quoted = |name: &str| format!("{quote}{name}{quote}");
        let table = self.table.split('.').map(quoted).collect::<Vec<_>>().join(".");
        Quoted {
            table,
            id: quoted(&self.id),
            column: quoted(&self.column),
            index: self.index.as_deref().map(quoted),
            plaintext: self.plaintext.as_deref().map(quoted),
        }
    }
}

fn is_name(name: &str) -> bool {
    let are_allowed = name.chars().all(|char| char.is_ascii_alphanumeric() || char == '_');
    are_allowed && !name.is_empty() && !name.starts_with(|char: char| char.is_ascii_digit())
}

#[track_caller]
fn check(name: &str) {
    assert!(
        is_name(name),
        "expected a name of letters, digits and `_` that does not start with a digit, found {name:?}"
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_quoted_and_distinct_and_nothing_else_is_a_name() {
        let column = ColumnName::new("shop.Order", "group").keyed_by("order_id");
        let quoted = |dialect| {
            let Quoted { table, id, column, .. } = column.quoted(dialect);
            [table, id, column]
        };
        assert_eq!(quoted(Dialect::Postgres), [r#""shop"."Order""#, r#""order_id""#, r#""group""#]);
        for dialect in [Dialect::MySql, Dialect::Sqlite] {
            assert_eq!(quoted(dialect), ["`shop`.`Order`", "`order_id`", "`group`"]);
        }
        assert_eq!(ColumnName::parse("shop.Order.group", "order_id", None, None), Some(column));
        for name in ["", "1a", "a b", "a\"", "a`", "a;", "a.b.c", "ä", "a?", "a:b"] {
            let panicked = |new: fn(&str)| std::panic::catch_unwind(|| new(name)).is_err();
            assert!(panicked(|name| drop(ColumnName::new(name, "a"))), "{name}");
            assert!(panicked(|name| drop(ColumnName::new("a", name))), "{name}");
            assert!(panicked(|name| drop(ColumnName::new("a", "a").keyed_by(name))), "{name}");
            assert!(panicked(|name| drop(ColumnName::new("a", "a").index(name))), "{name}");
            assert!(panicked(|name| drop(ColumnName::new("a", "a").plaintext(name))), "{name}");
            assert_eq!(ColumnName::parse(&format!("a.{name}"), "id", None, None), None, "{name}");
            assert_eq!(ColumnName::parse("a.b", name, None, None), None, "{name}");
        }
        let new = || ColumnName::new("customers", "email").index("email_index");
        assert!(std::panic::catch_unwind(|| new().plaintext("Email")).is_err());
        assert!(std::panic::catch_unwind(|| new().keyed_by("email_index")).is_err());
        let in_place = ColumnName::parse("customers.email", "id", None, Some("email"));
        assert_eq!(in_place, None);
    }
}

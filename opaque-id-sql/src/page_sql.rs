use std::mem;

use opaque_id_core::page::PageRequest;

use crate::dialect::Dialect;

/// The SQL of a page of a list that is ordered by other columns before the key.
///
/// Rows with equal values are in the order of their keys. The list decides whether NULLs come first or last,
/// in both directions and on all databases. Add columns in the list's order of comparison. Names such as
/// `people.nickname` are quoted, so spell them as the database stores them.
///
/// The values come from a row that the database has returned. For other values, use
/// [`stored_as`](Self::stored_as).
///
/// The README of each adapter has an example.
#[derive(Clone, Debug)]
pub struct PageSql<'a, V, I> {
    dialect: Dialect,
    key: &'a str,
    position: Option<&'a (V, I)>,
    is_descending: bool,
    columns: Vec<Column<'a>>,
}

#[derive(Clone, Debug)]
struct Column<'a> {
    name: &'a str,
    /// `None` for a column without NULLs.
    nulls_follow: Option<bool>,
    is_null: bool,
    descends: bool,
    cast: Option<&'static str>,
}

/// A part of a condition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SqlPart<'a, V, I> {
    /// A text of SQL.
    Sql(String),
    /// A placeholder for the position's value of the column with this name. It is not NULL.
    Value(&'a str, &'a V),
    /// A placeholder for the position's id.
    Key(&'a I),
}

impl<'a, V, I> PageSql<'a, V, I> {
    /// Creates the SQL for a requested page. `key` is the key's column.
    #[must_use]
    pub fn new(dialect: Dialect, key: &'a str, request: &'a PageRequest<(V, I)>) -> Self {
        let (position, is_descending) = (request.position(), request.is_descending());
        Self { dialect, key, position, is_descending, columns: Vec::new() }
    }

    /// Adds a column that is NOT NULL. If it has NULLs nevertheless, pages lack their rows.
    #[must_use]
    pub fn column(self, name: &'a str) -> Self {
        self.add(name, None, |_| false)
    }

    /// Adds a column with NULLs first in an ascending list and last in a descending one. `is_null` returns
    /// whether a position's value is NULL.
    #[must_use]
    pub fn nulls_first(self, name: &'a str, is_null: impl FnOnce(&V) -> bool) -> Self {
        self.add(name, Some(false), is_null)
    }

    /// Adds a column with NULLs last in an ascending list and first in a descending one, like
    /// [`nulls_first`](Self::nulls_first).
    #[must_use]
    pub fn nulls_last(self, name: &'a str, is_null: impl FnOnce(&V) -> bool) -> Self {
        self.add(name, Some(true), is_null)
    }

    fn add(mut self, name: &'a str, last: Option<bool>, is_null: impl FnOnce(&V) -> bool) -> Self {
        let is_null = self.position.is_some_and(|(values, _)| is_null(values));
        let nulls_follow = last.map(|last| last != self.is_descending);
        let descends = self.is_descending;
        self.columns.push(Column { name, nulls_follow, is_null, descends, cast: None });
        self
    }

    /// Reverses the values of the last added column: they descend in an ascending list. Its NULLs stay where
    /// they are.
    #[must_use]
    pub fn reversed(mut self) -> Self {
        self.columns.iter_mut().rev().take(1).for_each(|column| column.descends ^= true);
        self
    }

    /// Sets the stored type of the last added column, such as `timestamp(0)` on PostgreSQL or `DATETIME(0)`
    /// on MySQL and MariaDB.
    ///
    /// Without it, a value with more digits than the column stores differs from the value of its row, and the
    /// next page repeats the row or omits its neighbors. With it, the database rounds the value like the
    /// stored one. The type is written into the SQL as it is.
    #[must_use]
    pub fn stored_as(mut self, sql_type: &'static str) -> Self {
        self.columns.iter_mut().rev().take(1).for_each(|column| column.cast = Some(sql_type));
        self
    }

    /// Returns the condition for `WHERE` in parts. For the first and the last page it is always true. It
    /// needs no parentheses if `AND` joins it with other conditions.
    #[must_use]
    pub fn condition(&self) -> Vec<SqlPart<'a, V, I>> {
        let Some((values, id)) = self.position else {
            return vec![SqlPart::Sql("1 = 1".to_owned())];
        };
        let (mut parts, mut sql, mut open) = (Vec::new(), String::new(), String::new());
        let mut value = |sql: &mut String, column: Option<&Column<'a>>| {
            let cast = column.and_then(|column| column.cast);
            let after = cast.map(|it| format!(" AS {it})")).unwrap_or_default();
            let before = mem::replace(sql, after) + if cast.is_some() { "CAST(" } else { "" };
            let part = column.map_or(SqlPart::Key(id), |it| SqlPart::Value(it.name, values));
            parts.extend([SqlPart::Sql(before), part]);
        };
        let (key, beyond) = (self.quoted(self.key), beyond(self.is_descending));
        let is_plain =
            |it: &Column<'_>| it.nulls_follow.is_none() && it.descends == self.is_descending;
        // MySQL and MariaDB do not use an index for a comparison of tuples.
        if self.dialect != Dialect::MySql && self.columns.iter().all(is_plain) {
            let names = self.columns.iter().map(|column| self.quoted(column.name) + ", ");
            sql = format!("({}{key}) {beyond} (", names.collect::<String>());
            for column in &self.columns {
                value(&mut sql, Some(column));
                sql += ", ";
            }
            open += ")";
        } else {
            for (at, column) in self.columns.iter().enumerate() {
                let (name, beyond) = (self.quoted(column.name), self::beyond(column.descends));
                let nulls_follow = column.nulls_follow == Some(true);
                let or_null = if nulls_follow { &format!(" OR {name} IS NULL") } else { "" };
                if column.is_null {
                    let rest = if nulls_follow { "" } else { &format!("{name} IS NOT NULL OR ") };
                    sql += &format!("({rest}({name} IS NULL AND ");
                } else {
                    // Databases find the range of an index only in this redundant condition.
                    if at == 0 {
                        sql += &format!("({name} {beyond}= ");
                        value(&mut sql, Some(column));
                        sql += &format!("{or_null}) AND ");
                    }
                    sql += &format!("(({name} {beyond} ");
                    value(&mut sql, Some(column));
                    sql += &format!("{or_null}) OR ({name} = ");
                    value(&mut sql, Some(column));
                    sql += " AND ";
                }
                open += "))";
            }
            sql += &format!("{key} {beyond} ");
        }
        value(&mut sql, None);
        parts.push(SqlPart::Sql(open));
        parts
    }

    /// Returns the [condition](Self::condition) with placeholders: from `$first` on PostgreSQL, otherwise
    /// `?`. Bind the values in the order of the parts.
    #[must_use]
    pub fn condition_from(&self, first: usize) -> String {
        let mut number = first..;
        let text = |part| match (part, self.dialect) {
            (SqlPart::Sql(sql), _) => sql,
            (_, Dialect::Postgres) => number.next().map(|it| format!("${it}")).unwrap_or_default(),
            _ => "?".to_owned(),
        };
        self.condition().into_iter().map(text).collect()
    }

    /// Returns the order for `ORDER BY`.
    #[must_use]
    pub fn order_by(&self) -> String {
        let text =
            |(term, descends): (String, bool)| term + if descends { " DESC" } else { " ASC" };
        self.order().into_iter().map(text).collect::<Vec<_>>().join(", ")
    }

    /// Returns the terms of the order, each with whether it descends.
    #[must_use]
    pub fn order(&self) -> Vec<(String, bool)> {
        let mut terms = Vec::new();
        for Column { name, nulls_follow, descends, .. } in &self.columns {
            let name = self.quoted(name);
            // NULLs are greater than all values on PostgreSQL and less on the other databases.
            let by_default = *descends != (self.dialect == Dialect::Postgres);
            if let Some(follow) = nulls_follow.filter(|follow| *follow != by_default) {
                terms.push((format!("{name} IS NULL"), !follow));
            }
            terms.push((name, *descends));
        }
        terms.push((self.quoted(self.key), self.is_descending));
        terms
    }

    /// Quotes a name. SQLite would take an unknown name in `"` for a text.
    fn quoted(&self, name: &str) -> String {
        let quote = if self.dialect == Dialect::Postgres { "\"" } else { "`" };
        let parts = name.split('.').map(|part| part.replace(quote, &quote.repeat(2)));
        parts.map(|part| format!("{quote}{part}{quote}")).collect::<Vec<_>>().join(".")
    }
}

fn beyond(descends: bool) -> &'static str {
    if descends { "<" } else { ">" }
}

use std::fmt;

/// Invisible characters are escaped, so that the text cannot end the comment or control the terminal.
pub(crate) struct Escaped<'t>(pub(crate) &'t str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|c| match c {
            '\'' | '"' | '\\' => write!(f, "{c}"),
            c => write!(f, "{}", c.escape_debug()),
        })
    }
}

pub(crate) fn is_plain(name: &str) -> bool {
    Escaped(name).to_string() == name
}

/// A number may follow.
const KEPT: &str = "_before_opaque_id";

/// Tools that migrate schemas expect their own types.
const MIGRATIONS: &str = "_prisma_migrations _sqlx_migrations __diesel_schema_migrations seaql_migrations alembic_version \
                          django_migrations flyway_schema_history schema_migrations ar_internal_metadata knex_migrations";

pub(crate) fn is_excluded(exclude: &[String], table: &str, column: &str) -> bool {
    let is = |name: &String| *name == table || *name == format!("{table}.{column}");
    exclude.iter().any(is)
}

pub(crate) fn is_left_out(table: &str) -> bool {
    MIGRATIONS.split(' ').any(|name| name == table)
        || table.trim_end_matches(|c: char| c.is_ascii_digit()).ends_with(KEPT)
}

pub(crate) fn free_name(table: &str, max_len: usize, is_taken: impl Fn(&str) -> bool) -> String {
    let name = |number: &str| {
        let mut stem = table;
        while stem.len() + KEPT.len() + number.len() > max_len {
            stem = &stem[..stem.floor_char_boundary(stem.len() - 1)];
        }
        format!("{stem}{KEPT}{number}")
    };
    let mut numbered = (2..).map(|number: u32| name(&number.to_string()));
    let first = Some(name("")).filter(|name| !is_taken(name));
    first.or_else(|| numbered.find(|name| !is_taken(name))).unwrap_or_default()
}

/// Names of ids are `id`, `user_id`, `userId`, `uuid`, `ulid` or `guid`.
pub(crate) fn is_id_name(column: &str) -> bool {
    ["id", "uuid", "ulid", "guid"].iter().any(|word| {
        let at = column.len().checked_sub(word.len());
        let Some((before, last)) = at.and_then(|at| column.split_at_checked(at)) else {
            return false;
        };
        let starts = match before.chars().next_back() {
            Some(c) if c.is_alphanumeric() => {
                last.starts_with(char::is_uppercase) && !c.is_uppercase()
            }
            _ => true,
        };
        starts && last.eq_ignore_ascii_case(word)
    })
}

pub(crate) fn quote(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

pub(crate) fn text(value: &str) -> String {
    format!("'{}'", value.replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_ids_end_with_a_word() {
        for name in ["id", "ID", "user_id", "userId", "d(e id", "USER_UUID", "orderUuid", "guid"] {
            assert!(is_id_name(name), "{name}");
        }
        for name in ["paid", "grid", "PAID", "uid", "userid", "sku", "id_number", "ß", ""] {
            assert!(!is_id_name(name), "{name}");
        }
    }

    #[test]
    fn a_free_name_is_short_enough_and_unused() {
        let none = |_: &str| false;
        assert_eq!(free_name("users", 64, none), "users_before_opaque_id");
        let taken = |name: &str| !name.ends_with('3');
        assert_eq!(free_name("users", 64, taken), "users_before_opaque_id3");
        assert!(is_left_out("users_before_opaque_id3") && !is_left_out("users_before"));
        let long = "ä".repeat(40);
        let name = free_name(&long, 63, none);
        assert!(name.len() <= 63 && name.starts_with("ä") && name.ends_with("ä_before_opaque_id"));
    }
}

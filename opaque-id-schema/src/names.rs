//! The names of tables and columns: what they say, and how they are printed.

use std::fmt;

/// A text in a comment, which it must not leave, nor may it steer the terminal: control characters and what else
/// does not show are written as escapes.
pub(crate) struct Escaped<'t>(pub(crate) &'t str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|c| match c {
            '\'' | '"' | '\\' => write!(f, "{c}"),
            c => write!(f, "{}", c.escape_debug()),
        })
    }
}

/// Whether a name is shown as it is: then it can be part of a statement.
pub(crate) fn is_plain(name: &str) -> bool {
    Escaped(name).to_string() == name
}

/// What the names of tables end with that hold old rows, but for a number.
const KEPT: &str = "_before_opaque_id";

/// Whether a table holds the old rows of another one.
pub(crate) fn is_kept(table: &str) -> bool {
    table
        .trim_end_matches(|c: char| c.is_ascii_digit())
        .ends_with(KEPT)
}

/// The name for a table's old rows: one that is not taken.
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
    first
        .or_else(|| numbered.find(|name| !is_taken(name)))
        .unwrap_or_default()
}

/// Text that stands for an id, by its declared length or its column's name.
pub(crate) fn is_id_text(column: &str, length: Option<i64>) -> bool {
    matches!(length, Some(26 | 32 | 36)) || is_id_name(column)
}

pub(crate) fn is_id_name(column: &str) -> bool {
    column.to_lowercase().ends_with("id")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_free_name_fits_and_is_free() {
        let none = |_: &str| false;
        assert_eq!(free_name("users", 64, none), "users_before_opaque_id");
        let taken = |name: &str| !name.ends_with('3');
        assert_eq!(free_name("users", 64, taken), "users_before_opaque_id3");
        assert!(is_kept("users_before_opaque_id3") && !is_kept("users_before"));
        let long = "ä".repeat(40);
        let name = free_name(&long, 63, none);
        assert!(name.len() <= 63 && name.starts_with("ä") && name.ends_with("ä_before_opaque_id"));
    }
}

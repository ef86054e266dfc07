//! The prefixes of text ids: TypeID's rule.

/// The longest prefix, in bytes.
pub(crate) const MAX_PREFIX_LEN: usize = 63;

/// The rule, for messages.
macro_rules! prefix_rule {
    () => {
        "1 to 63 of a-z, 0-9 and _, starting with a letter and not ending with _"
    };
}
pub(crate) use prefix_rule;

/// Returns whether the text is a valid prefix.
#[must_use]
pub const fn is_prefix(prefix: &str) -> bool {
    let bytes = prefix.as_bytes();
    if bytes.is_empty() || bytes.len() > MAX_PREFIX_LEN {
        return false;
    }
    let mut i = 0;
    while i < bytes.len() {
        if !matches!(bytes[i], b'a'..=b'z' | b'0'..=b'9' | b'_') {
            return false;
        }
        i += 1;
    }
    bytes[0].is_ascii_lowercase() && bytes[bytes.len() - 1] != b'_'
}

/// The word after the prefix of a cursor.
pub(crate) const CURSOR: &str = "cursor";

/// Returns the text that a resource's cursors start with, without the underscore.
pub(crate) fn cursor_prefix(prefix: &str) -> String {
    format!("{prefix}_{CURSOR}")
}

/// Returns the prefix of the resource whose cursors start with this text, if there is one.
pub(crate) fn cursor_resource(prefix: &str) -> Option<&str> {
    prefix.strip_suffix("_cursor")
}

#[cfg(test)]
mod tests {
    use super::is_prefix;

    #[test]
    fn prefixes() {
        for good in ["a", "user", "v2_doc", "a__b", &"a".repeat(63)] {
            assert!(is_prefix(good), "{good}");
        }
        for bad in ["", "_a", "a_", "2a", "User", "a-b", "ü", &"a".repeat(64)] {
            assert!(!is_prefix(bad), "{bad}");
        }
    }
}

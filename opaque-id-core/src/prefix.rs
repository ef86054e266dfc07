//! The prefixes of text ids: TypeID's rule, and the check that no text belongs to two resources.

use std::collections::BTreeMap;

pub(crate) const MAX_PREFIX_LEN: usize = 63;

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

pub(crate) const CURSOR: &str = "cursor";

pub(crate) fn cursor_prefix(prefix: &str) -> String {
    format!("{prefix}_{CURSOR}")
}

pub(crate) fn cursor_resource(prefix: &str) -> Option<&str> {
    prefix.strip_suffix("_cursor")
}

/// The resources of a program by their prefixes, with an identifier of each, and whether its ids are tagged.
#[derive(Debug)]
pub struct Prefixes<'p, R>(BTreeMap<&'p str, (R, bool)>);

impl<R> Default for Prefixes<'_, R> {
    fn default() -> Self {
        Self(BTreeMap::new())
    }
}

impl<'p, R: Copy + PartialEq> Prefixes<'p, R> {
    /// Adds a resource. It may be added again.
    ///
    /// A text id of 34 characters (tagged form) looks like a cursor. Positions and grants are longer than
    /// ids.
    ///
    /// # Errors
    /// The other resource and its prefix, if a text could belong to both: both prefixes are the same, or ids
    /// of one look like cursors of the other, the one with the shorter prefix.
    pub fn claim(
        &mut self,
        prefix: &'p str,
        resource: R,
        is_tagged: bool,
    ) -> Result<(), (&'p str, R)> {
        let get = |prefix: &str| self.0.get_key_value(prefix);
        let same = get(prefix).filter(|(_, (other, _))| *other != resource);
        let looks_like = get(&cursor_prefix(prefix)).filter(|(_, (_, is_tagged))| *is_tagged);
        let cursors = cursor_resource(prefix).filter(|_| is_tagged).and_then(get);
        match same.or(looks_like).or(cursors) {
            Some((prefix, (other, _))) => Err((prefix, *other)),
            None => {
                self.0.insert(prefix, (resource, is_tagged));
                Ok(())
            }
        }
    }
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

use std::time::Duration;

use opaque_id_sql::statement::hex;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::format::Padding;
use crate::index::IndexKey;
use crate::order;

/// The settings of a table's rows. The table stores them encrypted, and all clients use them.
///
/// ```
/// use opaque_id_packs::Settings;
///
/// let settings = Settings::default(); // for most tables
/// let settings = Settings::default().pack_bytes(1_900); // for rows that are updated all over the table
/// let settings = Settings::default().pack_level(19); // for rows that are never updated
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    pub(crate) pack_bytes: u32,
    pub(crate) row_level: i32,
    pub(crate) pack_level: i32,
    #[serde(with = "padding")]
    pub(crate) row_padding: Padding,
    #[serde(with = "padding")]
    pub(crate) pack_padding: Padding,
    pub(crate) write_through: bool,
    /// The number of seconds. The default is omitted, because earlier versions refuse the member.
    #[serde(default = "an_hour", skip_serializing_if = "is_an_hour")]
    pub(crate) erase_after: u32,
}

fn an_hour() -> u32 {
    3_600
}

fn is_zero(seconds: &u64) -> bool {
    *seconds == 0
}

fn is_an_hour(seconds: &u32) -> bool {
    *seconds == an_hour()
}

impl Settings {
    /// Sets the size at which packs are split, in bytes of the body: 8,064 by default, from 256 to 1 MiB. A
    /// larger value has a pack of its own.
    ///
    /// A pack of the default size fills a page of PostgreSQL or half a page of InnoDB, so neither moves it
    /// out of the row. It contains some 40 rows of 800 bytes, with a dictionary.
    #[must_use]
    pub fn pack_bytes(self, bytes: u32) -> Self {
        Self { pack_bytes: bytes, ..self }
    }

    /// Sets zstd's level for rows: 3 by default, from 1 to 19. A client waits for it.
    #[must_use]
    pub fn row_level(self, level: i32) -> Self {
        Self { row_level: level, ..self }
    }

    /// Sets zstd's level for packs: 9 by default, from 1 to 19. A merger uses it.
    #[must_use]
    pub fn pack_level(self, level: i32) -> Self {
        Self { pack_level: level, ..self }
    }

    /// Sets the padding of rows and of packs: steps of 64 bytes by default.
    #[must_use]
    pub fn padding(self, rows: Padding, packs: Padding) -> Self {
        Self { row_padding: rows, pack_padding: packs, ..self }
    }

    /// Writes rows into packs at once instead of into the recent table, for tables that are read far more
    /// often than written. Each write reads, changes and replaces a pack, and starts over if another client
    /// was faster. A table cannot change this setting: copy its rows to another table.
    #[must_use]
    pub fn write_through(self) -> Self {
        Self { write_through: true, ..self }
    }

    /// Sets the time for which the value of a deleted row may stay in its pack, in whole seconds: an hour by
    /// default. Rows of less than a quarter of a pack's size stay until there are more, or until, that long after a
    /// merger first saw them, it finds a deletion among them. So the merger must run for longer than this. A
    /// merger that is started for each pass calls `merge_all`.
    #[must_use]
    pub fn erase_after(self, time: Duration) -> Self {
        Self { erase_after: u32::try_from(time.as_secs()).unwrap_or(u32::MAX), ..self }
    }

    pub(crate) fn problem(&self) -> Option<String> {
        let expected = |what, range: std::ops::RangeInclusive<i64>, found: i64| {
            (!range.contains(&found)).then(|| {
                let (first, last) = range.into_inner();
                format!("expected {what} from {first} to {last}, found {found}")
            })
        };
        let padding = |what, padding| match padding {
            Padding::Steps(step) => expected(what, 1..=4_096, step.into()),
            _ => None,
        };
        expected("bytes of a pack", 256..=1 << 20, self.pack_bytes.into())
            .or_else(|| expected("a level of rows", 1..=19, self.row_level.into()))
            .or_else(|| expected("a level of packs", 1..=19, self.pack_level.into()))
            .or_else(|| padding("steps of rows", self.row_padding))
            .or_else(|| padding("steps of packs", self.pack_padding))
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            pack_bytes: 8_064,
            row_level: 3,
            pack_level: 9,
            row_padding: Padding::Steps(64),
            pack_padding: Padding::Steps(64),
            write_through: false,
            erase_after: an_hour(),
        }
    }
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TableMetadata {
    pub(crate) settings: Settings,
    pub(crate) dictionary: u16,
    /// The number of seconds since 1970, by the clock of the server. 0 means unknown.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub(crate) dictionary_since: u64,
    pub(crate) encoding: String,
    /// The key of the permutation of keys in hexadecimal digits.
    pub(crate) order: Option<String>,
    /// The keys of a table with groups in hexadecimal digits. 16 bytes permute the ids of groups, and 32
    /// bytes encrypt rows and packs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) groups: Option<String>,
    /// The additions of later versions that earlier ones may ignore. They are written back unchanged.
    #[serde(default, skip_serializing_if = "Map::is_empty")]
    pub(crate) hints: Map<String, Value>,
}

impl TableMetadata {
    pub(crate) fn new(
        settings: Settings,
        encoding: &str,
        hides_keys: bool,
        is_grouped: bool,
    ) -> Self {
        Self {
            settings,
            dictionary: 0,
            dictionary_since: 0,
            encoding: encoding.to_owned(),
            order: hides_keys.then(|| order::random_key(16)),
            groups: is_grouped.then(|| order::random_key(16 + 32)),
            hints: Map::new(),
        }
    }

    /// The key is a hint, because earlier versions know of no index.
    pub(crate) fn keep_index(&mut self, key: &IndexKey) {
        self.hints.entry("index").or_insert_with(|| hex(key.as_bytes()).into());
    }

    pub(crate) fn index(&self) -> Option<&str> {
        self.hints.get("index")?.as_str()
    }
}

/// `"none"`, `"padme"`, or the number of bytes of a step.
mod padding {
    use serde::{Deserialize, Deserializer, Serializer, de};

    use crate::format::Padding;

    pub(super) fn serialize<S: Serializer>(padding: &Padding, to: S) -> Result<S::Ok, S::Error> {
        match padding {
            Padding::None => to.serialize_str("none"),
            Padding::Padme => to.serialize_str("padme"),
            Padding::Steps(step) => to.serialize_str(&step.to_string()),
        }
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Padding, D::Error> {
        match &*String::deserialize(from)? {
            "none" => Ok(Padding::None),
            "padme" => Ok(Padding::Padme),
            step => match step.parse() {
                Ok(step) => Ok(Padding::Steps(step)),
                Err(_) => Err(de::Error::custom("unknown padding")),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A later version may have written them.
    #[test]
    fn hints_are_kept_and_other_members_refused() {
        let settings = serde_json::to_value(Settings::default()).expect("JSON");
        let mut json = serde_json::json!({
            "settings": settings, "dictionary": 0, "encoding": "json", "order": null, "hints": {"groups": 7},
        });
        assert!(json["settings"].get("erase_after").is_none());
        let contents: TableMetadata = serde_json::from_value(json.clone()).expect("settings");
        assert_eq!(contents.settings, Settings::default());
        assert_eq!(serde_json::to_value(&contents).expect("JSON"), json);
        json["groups"] = 7.into();
        assert!(serde_json::from_value::<TableMetadata>(json).is_err());
    }
}

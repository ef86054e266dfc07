//! A seed always gives the same cases, except for the nonces of tokens.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::Case;
use super::ours::Ours;

const RESOURCES: [(&str, &str); 13] = [
    ("uuid7", "text"),
    ("uuid7", "tagged"),
    ("uuid7", "uuid"),
    ("ulid", "text"),
    ("ulid", "tagged"),
    ("structured", "text"),
    ("structured", "uuid"),
    ("uuid", "tagged"),
    ("i64", "text"),
    ("i64", "short"),
    ("i64", "uuid"),
    ("i32", "short"),
    ("u32", "text"),
];
const PREFIXES: [&str; 3] = ["user", "line_item", "v2_doc"];
const DIGITS: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

pub(super) fn cases(seed: u64, count: usize, vectors: &[Case], ours: &mut Ours) -> Vec<Case> {
    let mut random = Random(seed);
    let keyrings: Vec<_> = (0..8).map(|_| random.keyring()).collect();
    let requirements = Requirements::of(vectors);
    let mut next = || {
        let mut request = random.resource(&keyrings);
        let about = random.operation(&mut request, ours);
        let answer = match (request["op"].as_str(), ours.answer(&request)) {
            (Some("grant" | "position"), Some(_)) => json!("opens"),
            (_, answer) => answer.unwrap_or_default(),
        };
        let requirements = requirements.get(&request, answer.is_null());
        Case { requirements, about: about.to_owned(), answer, request }
    };
    (0..count).map(|_| next()).collect()
}

struct Requirements(BTreeMap<String, Vec<String>>);

impl Requirements {
    fn of(vectors: &[Case]) -> Self {
        let mut all = BTreeMap::<_, Vec<String>>::new();
        for case in vectors {
            let of_case = all.entry(Self::name(&case.request, case.answer.is_null())).or_default();
            for requirement in &case.requirements {
                if !of_case.contains(requirement) {
                    of_case.push(requirement.clone());
                }
            }
        }
        Self(all)
    }

    fn name(request: &Map<String, Value>, is_refused: bool) -> String {
        let is_integer = request
            .get("kind")
            .and_then(Value::as_str)
            .is_some_and(|kind| ["i64", "i32", "u32"].contains(&kind));
        let form = match request.get("op").and_then(Value::as_str) {
            Some("seal" | "open" | "to_bytes" | "from_bytes") => request.get("form"),
            _ => None,
        };
        json!([request.get("op"), form, is_integer, is_refused]).to_string()
    }

    fn get(&self, request: &Map<String, Value>, is_refused: bool) -> Vec<String> {
        self.0.get(&Self::name(request, is_refused)).cloned().unwrap_or_default()
    }
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: usize) -> usize {
        let limit = u64::try_from(limit).unwrap_or(u64::MAX);
        usize::try_from(self.next() % limit).unwrap_or_default()
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    fn keyring(&mut self) -> String {
        let (first, count) = (self.below(4), 1 + self.below(4));
        let entries = (0..count).map(|i| {
            let words = [(); 4].map(|()| format!("{:016x}", self.next()));
            format!("{}:{}", (first + i) % 4, words.concat())
        });
        entries.collect::<Vec<_>>().join(",")
    }

    fn resource(&mut self, keyrings: &[String]) -> Map<String, Value> {
        let ((kind, form), prefix) = (self.of(&RESOURCES), self.of(&PREFIXES));
        let domain = self.of(&[prefix, prefix, "legacy", "Müller"]);
        let mut request = Map::new();
        set(&mut request, "secrets", &*keyrings[self.below(keyrings.len())]);
        set(&mut request, "prefix", prefix);
        set(&mut request, "domain", domain);
        set(&mut request, "kind", kind);
        set(&mut request, "form", form);
        if self.below(8) == 0 {
            set(&mut request, "audience", self.of(&["", "partner-a", "Müller"]));
        }
        request
    }

    fn operation(&mut self, request: &mut Map<String, Value>, ours: &mut Ours) -> &'static str {
        let (seal, open) = match self.below(100) {
            0..75 => ("seal", "open"),
            75..90 => ("seal_cursor", "open_cursor"),
            90..95 => ("grant", "open_grant"),
            _ => ("position", "open_position"),
        };
        set(request, "op", seal);
        let key = self.key(request["kind"].as_str().unwrap_or_default());
        set(request, "key", key);
        match seal {
            "grant" => {
                let expires = self.next() % (1 << 33);
                set(request, "purpose", self.of(&["", "unsubscribe", "Straße"]));
                set(request, "expires", expires);
                set(request, "now", (expires + 1).saturating_sub(self.next() % 3));
            }
            "position" => {
                set(request, "name", self.of(&["", "users by name"]));
                let filters = [
                    Value::Null,
                    json!({ "team": 1 }),
                    json!({ "a b": ["grün & 红", "\u{7f}\n"] }),
                ];
                set(request, "filter", filters[self.below(filters.len())].clone());
                let name = "é".repeat(self.below(40));
                set(request, "values", json!([name, self.next() % 1000, Value::Null]));
            }
            _ => {}
        }
        let seals_only = self.below(3) == 0;
        // The form may have no room for the key.
        let Some(Value::String(id)) = ours.answer(request).filter(|_| !seals_only) else {
            return "a random key";
        };
        request.retain(|name, _| !["key", "values", "expires"].contains(&&**name));
        set(request, "op", open);
        let (id, about) = self.altered(id, request);
        set(request, "id", id);
        if seal == "seal" && self.below(8) == 0 {
            request.retain(|name, _| ["prefix", "kind", "form", "id"].contains(&&**name));
            set(request, "op", "to_bytes");
            if let Some(bytes) = ours.answer(request) {
                request.remove("id");
                set(request, "bytes", bytes);
                set(request, "op", "from_bytes");
            }
        }
        about
    }

    fn key(&mut self, kind: &str) -> String {
        let (a, b) = (self.next(), self.next());
        let (high, low) = match kind {
            "uuid7" => {
                // A few times are in years that do not fit the uuid form.
                let time = if self.below(16) == 0 { a } else { a >> 2 };
                ((time & !0xf000) | 0x7000, (b >> 2) | (1 << 63))
            }
            "structured" => (a >> (4 + self.below(60)), b >> 4),
            "ulid" | "uuid" => (a, b),
            _ => {
                // Integers have any length and either sign, are next to a power of two, and are sometimes too
                // long for the column.
                let bits = self.below(64);
                let near = (1_i64 << bits).wrapping_add(self.of(&[-1, 0, 1]));
                let any = (a >> bits).cast_signed();
                let value = self.of(&[near, any, near.wrapping_neg()]);
                return value.to_string();
            }
        };
        let hex = format!("{high:016x}{low:016x}");
        [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
    }

    fn altered(
        &mut self,
        mut id: String,
        request: &mut Map<String, Value>,
    ) -> (String, &'static str) {
        let start = id.rfind('_').map_or(0, |at| at + 1);
        let at = start + self.below(id.len() - start);
        let about = match self.below(16) {
            0..3 => {
                let digit = char::from(self.of(DIGITS));
                id.replace_range(at..=at, digit.encode_utf8(&mut [0; 4]));
                "another character"
            }
            3 => {
                let digit = char::from(self.of(DIGITS));
                id.replace_range(start..=start, digit.encode_utf8(&mut [0; 4]));
                "another first character"
            }
            4 => {
                let upper = id[at..=at].to_uppercase();
                id.replace_range(at..=at, &upper);
                "a capital letter"
            }
            5 => {
                id.remove(at);
                "a character less"
            }
            6 => {
                id.insert(at, char::from(self.of(b"0zA-_ \n")));
                "a character more"
            }
            7 => {
                set(request, "domain", "other");
                "another domain"
            }
            8 => {
                set(request, "prefix", self.of(&PREFIXES));
                "another prefix"
            }
            _ => "as it was sealed",
        };
        (id, about)
    }
}

fn set(request: &mut Map<String, Value>, name: &str, value: impl Into<Value>) {
    request.insert(name.to_owned(), value.into());
}

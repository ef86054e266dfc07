//! The layer that panics if a response has an internal value.

use std::panic::{AssertUnwindSafe, catch_unwind};

use opaque_id_core::{External, Internal};

use crate::{Framework, User, new_keyring};

pub fn no_response_has_an_internal_value(framework: &Framework) {
    let server = (framework.raw_ids)(4_711);
    let id = Internal::<User>::generate();
    let external: External<User> = new_keyring(0).seal(id);
    let raw = id.expose_key().to_string();
    let (simple, ulid) = (raw.replace('-', ""), "01J2XCEJQTF2NBREXX3VQJHP41".to_owned());
    for place in ["/body", "/header"] {
        // The server closes the connection.
        let get = |text: &str| {
            let path = format!("{place}?text={text}");
            catch_unwind(AssertUnwindSafe(|| server.get(&path))).map(|answer| answer.status).ok()
        };
        for text in [
            external.to_string(),
            "f47ac10b-58cc-4372-a567-0e02b2c3d479/47110/14711".to_owned(),
            format!("{raw}0-x{raw}-d41d8cd98f00b204e9800998ecf8427e"),
            "81J2XCEJQTF2NBREXX3VQJHP41".to_owned(),
            String::new(),
        ] {
            assert_eq!(get(&text), Some(200), "{place} {text}");
        }
        for text in [
            format!("/users/{}", raw.to_uppercase()),
            format!("user_{raw}"),
            format!("a,{simple},b"),
            ulid.to_lowercase(),
            ulid.clone(),
            "(4711)".to_owned(),
        ] {
            assert_eq!(get(&text), None, "{place} {text}");
        }
    }
}

//! The plan for replacing the sealing secret while old and new instances run side by side.

use opaque_id_core::Keyring;
use opaque_id_core::keyring::KeyId;

use crate::args::Secrets;

const FUNCTIONS: &str =
    "   - If a database has SQL functions, run the script of `opaque-id sql functions --rotate`.";

/// The steps name key ids and never show a secret.
pub(crate) fn plan(keyring: &Keyring, secrets: &Secrets) -> String {
    let entries = match (&secrets.keys_file, &secrets.shared_keys_file) {
        (Some(file), _) | (None, Some(file)) => file.display().to_string(),
        (None, None) => "OPAQUE_ID_KEYS".to_owned(),
    };
    let seals = keyring.sealing_key_id();
    let others: Vec<KeyId> = keyring.key_ids().filter(|id| *id != seals).collect();
    let old = |other: &KeyId| {
        let retire = retire(&entries, *other);
        format!(
            "If key id {other} is an older secret, which key id {seals} has replaced:\n\n{retire}"
        )
    };
    match &others[..] {
        [] => {
            let new = (seals.get() + 1) % 4;
            let append = append(&entries, seals.get(), new);
            let front = front(&entries, seals.get(), new);
            format!("{append}{front}{}", retire(&entries, seals))
        }
        [other] => {
            let front = front(&entries, seals.get(), other.get());
            format!(
                "If key id {other} was appended to replace key id {seals}, step 1 is done:\n\n{front}{}\n{}",
                retire(&entries, seals),
                old(other)
            )
        }
        others => {
            let steps: Vec<String> = others.iter().map(old).collect();
            format!(
                "Finish the earlier rotations before you begin another.\n\n{}",
                steps.join("\n")
            )
        }
    }
}

fn append(entries: &str, old: u8, new: u8) -> String {
    format!(
        "1. Append a secret, so that every instance opens its ids before any instance seals them.
   - Put the output of `opaque-id keygen --key-id {new}` at the end of {entries}: {old}:…,{new}:…
   - Roll it out to every instance, and wait until no instance without it is left. `opaque-id keys` then prints the
     same lines everywhere.
{FUNCTIONS} Export subkeys again.
   Nothing changes for clients. To undo it, remove the entry.
"
    )
}

fn front(entries: &str, old: u8, new: u8) -> String {
    format!(
        "2. Move it to the front, so that it seals. The old secret still opens.
   - Tell the users of the API before: the text of every id changes. Old texts remain valid until step 3, but users
     who compare ids, or store them as keys (caches, webhooks, deduplication), take the new texts for new rows.
   - Change {entries} to {new}:…,{old}:…, and roll it out. Instances of before and after open each other's ids.
{FUNCTIONS}
   To undo it, move the entry back to the end. Both secrets still open.
"
    )
}

fn retire(entries: &str, old: impl std::fmt::Display) -> String {
    format!(
        "3. Retire the secret with key id {old}, so that its ids are refused.
   - Convert the external ids that you have stored, with `opaque-id renew` or `Keyring::renew`. Users of the
     API convert theirs by fetching the rows again.
   - Encrypt tables of packs and encrypted columns again, with `opaque-id packs rekey`. `opaque-id keys --retire {old}`
     shows whether a database still needs the secret.
   - Wait until neither `Keyring::opened_count` nor `Keyring::unconfirmed_count` of key id {old} grows on any instance. (Strangers
     can make the second grow: then confirm ids whose row was found, by `Keyring::confirm`, and look at the first.)
   - Remove the entry {old}:… from {entries}, and roll it out. Keep it in your secret store.
{FUNCTIONS}
   To undo it, put the entry back at the end.
"
    )
}

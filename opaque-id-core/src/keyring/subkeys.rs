use core::fmt;
use std::sync::OnceLock;

use hkdf::Hkdf;
use sha2::Sha256;
use zeroize::{Zeroize, Zeroizing};

use super::KeyId;
use crate::form::TaggedId;
use crate::hazmat::{AesBlock, Feistel};
use crate::key::Repr;
use crate::resource::Resource;

/// What a resource's ids are sealed with under one master secret. Wiped on drop.
pub struct Subkeys {
    block: AesBlock,
    mac: AesBlock,
    /// What encrypts cursors, and what makes their tags.
    cursor: [AesBlock; 2],
    four_rounds: Feistel<4>,
    two_rounds: Feistel<2>,
    tag: u64,
}

impl Subkeys {
    /// HKDF-Expand of `label ‖ 0 ‖ domain` for each label (RFC 5869, section 2.3).
    pub(super) fn derive(prk: &Hkdf<Sha256>, domain: &str) -> Self {
        fn expand<const N: usize>(
            prk: &Hkdf<Sha256>,
            label: &str,
            domain: &str,
        ) -> Zeroizing<[u8; N]> {
            let mut subkey = Zeroizing::new([0; N]);
            prk.expand_multi_info(&[label.as_bytes(), &[0], domain.as_bytes()], &mut *subkey)
                .expect("far below HKDF's limit of 8160 bytes");
            subkey
        }
        let feistel = expand::<64>(prk, "feistel", domain);
        let (rounds, _) = feistel.as_chunks::<16>();
        let cursor = expand::<32>(prk, "cursor", domain);
        let (cursor, _) = cursor.as_chunks::<16>();
        Self {
            block: AesBlock::new(&expand(prk, "block", domain)),
            mac: AesBlock::new(&expand(prk, "mac", domain)),
            cursor: [AesBlock::new(&cursor[0]), AesBlock::new(&cursor[1])],
            four_rounds: Feistel::new(rounds.first_chunk().expect("four keys")),
            two_rounds: Feistel::new(rounds.first_chunk().expect("four keys")),
            tag: u64::from_be_bytes(*expand(prk, "tag", domain)),
        }
    }

    #[inline]
    pub(crate) fn block(&self) -> &AesBlock {
        &self.block
    }

    #[inline]
    pub(crate) fn mac(&self) -> &AesBlock {
        &self.mac
    }

    /// Like the tagged form, under keys of its own. An integer is followed by zeros.
    pub(crate) fn seal_cursor<R: Repr>(&self, key_id: KeyId, repr: R) -> TaggedId {
        let [block, mac] = &self.cursor;
        TaggedId::new(mac, key_id, block.encrypt(repr.to_plaintext(0)))
    }

    /// What may be a stored key, unless the tag is wrong.
    pub(crate) fn open_cursor<R: Repr>(&self, sealed: TaggedId) -> Option<R> {
        let [block, mac] = &self.cursor;
        R::from_plaintext(block.decrypt(sealed.authentic_block(mac)?), 0)
    }

    #[inline]
    pub(crate) fn four_rounds(&self) -> &Feistel<4> {
        &self.four_rounds
    }

    #[inline]
    pub(crate) fn two_rounds(&self) -> &Feistel<2> {
        &self.two_rounds
    }

    #[inline]
    pub(crate) fn tag(&self) -> u64 {
        self.tag
    }
}

impl Drop for Subkeys {
    fn drop(&mut self) {
        self.tag.zeroize();
    }
}

impl fmt::Debug for Subkeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Subkeys { .. }")
    }
}

/// The subkeys of all resources under one master secret, by [`Resource::index`].
///
/// Places never move, so a look-up takes no lock. The first ones, which are all that most processes
/// have, are found without arithmetic; behind them come segments that double in size.
pub(super) struct Table {
    first: [Place; FIRST],
    rest: [OnceLock<Box<[Place]>>; SEGMENTS],
}

type Place = OnceLock<Box<Subkeys>>;

const FIRST: usize = 64;
/// Enough for 2^32 resources.
const SEGMENTS: usize = 27;

impl Table {
    pub(super) fn new() -> Self {
        Self {
            first: [const { OnceLock::new() }; FIRST],
            rest: [const { OnceLock::new() }; SEGMENTS],
        }
    }

    #[inline]
    pub(super) fn get(
        &self,
        resource: &Resource,
        derive: impl FnOnce() -> Box<Subkeys>,
    ) -> &Subkeys {
        let index = resource.index();
        match self.first.get(index) {
            Some(place) => match place.get() {
                Some(keys) => keys,
                None => fill(place, derive),
            },
            None => self.get_behind(index - FIRST, derive),
        }
    }

    #[inline(never)]
    fn get_behind(&self, index: usize, derive: impl FnOnce() -> Box<Subkeys>) -> &Subkeys {
        let (segment, place) = locate(index);
        let places = self.rest[segment]
            .get_or_init(|| (0..FIRST << segment).map(|_| OnceLock::new()).collect());
        places[place].get_or_init(derive)
    }
}

#[cold]
#[inline(never)]
fn fill(place: &Place, derive: impl FnOnce() -> Box<Subkeys>) -> &Subkeys {
    place.get_or_init(derive)
}

/// Segment `s` holds 64 << s indexes, from 64 * (2^s - 1) on.
fn locate(index: usize) -> (usize, usize) {
    let segment = (index / FIRST + 1).ilog2();
    (segment as usize, index - FIRST * ((1 << segment) - 1))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn every_resource_has_a_place_of_its_own() {
        let table = Table::new();
        let prk = Hkdf::from_prk(&[7; 32]).expect("long enough");
        let resources: Vec<Resource> = (0..5 * FIRST)
            .map(|_| Resource::new("user", "user"))
            .collect();
        let places: Vec<*const Subkeys> = resources
            .iter()
            .map(|resource| {
                core::ptr::from_ref(table.get(resource, || Box::new(Subkeys::derive(&prk, "user"))))
            })
            .collect();
        assert_eq!(places.iter().collect::<HashSet<_>>().len(), resources.len());
        for (resource, place) in resources.iter().zip(places) {
            let again = table.get(resource, || unreachable!("derived already"));
            assert!(core::ptr::eq(again, place));
        }
    }

    #[test]
    fn segments_follow_each_other() {
        let mut expected = (0, 0);
        for index in 0..10_000 {
            assert_eq!(locate(index), expected);
            expected.1 += 1;
            if expected.1 == FIRST << expected.0 {
                expected = (expected.0 + 1, 0);
            }
        }
        assert!(locate(u32::MAX as usize).0 < SEGMENTS);
    }
}

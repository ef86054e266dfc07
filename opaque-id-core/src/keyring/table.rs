//! Subkeys by a resource's number.
//!
//! A hash map by `TypeId` costs more than the AES rounds.

use std::sync::OnceLock;

use crate::subkeys::Subkeys;

/// Places never move, so a look-up takes no lock. The first places are found without arithmetic. The segments
/// after them double in size.
pub(super) struct Table {
    first: [Place; FIRST],
    rest: [OnceLock<Box<[Place]>>; SEGMENTS],
}

type Place = OnceLock<Box<Subkeys>>;

const FIRST: usize = 64;
/// The segments have room for 2^32 resources.
const SEGMENTS: usize = 27;

impl Table {
    pub(super) fn new() -> Self {
        Self {
            first: [const { OnceLock::new() }; FIRST],
            rest: [const { OnceLock::new() }; SEGMENTS],
        }
    }

    #[inline]
    pub(super) fn get(&self, index: usize, derive: impl FnOnce() -> Box<Subkeys>) -> &Subkeys {
        match self.first.get(index) {
            Some(place) => match place.get() {
                Some(keys) => keys,
                None => fill(place, derive),
            },
            None => self.get_in_segments(index - FIRST, derive),
        }
    }

    #[inline(never)]
    fn get_in_segments(&self, index: usize, derive: impl FnOnce() -> Box<Subkeys>) -> &Subkeys {
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

/// Segment `s` contains 64 << s indexes, from 64 * (2^s - 1) on.
fn locate(index: usize) -> (usize, usize) {
    let segment = (index / FIRST + 1).ilog2();
    (segment as usize, index - FIRST * ((1 << segment) - 1))
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use hkdf::Hkdf;
    use sha2::Sha256;

    use super::*;
    use crate::slot::{KINDS, Slot};

    #[test]
    #[cfg_attr(miri, ignore = "subkeys of hundreds of resources")]
    fn every_resource_has_a_place_of_its_own() {
        let table = Table::new();
        let prk = Hkdf::<Sha256>::from_prk(&[7; 32]).expect("long enough");
        let slots = [const { Slot::new("user", "user") }; FIRST];
        let indexes = || slots.iter().flat_map(|slot| (0..KINDS).map(|kind| slot.index(kind)));
        let places: Vec<*const Subkeys> = indexes()
            .map(|index| {
                let derive = || Box::new(Subkeys::derive(&prk, "user", false));
                core::ptr::from_ref(table.get(index, derive))
            })
            .collect();
        assert_eq!(places.iter().collect::<HashSet<_>>().len(), FIRST * KINDS);
        for (index, place) in indexes().zip(places) {
            let again = table.get(index, || unreachable!("derived already"));
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

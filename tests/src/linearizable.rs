//! Whether what clients have seen of one row could have happened one call after the other: a history is linearizable if each
//! call took effect at one moment between its beginning and its end (Herlihy and Wing, *Linearizability: A Correctness Condition
//! for Concurrent Objects*, 1990). The search is Wing and Gong's.

use std::collections::HashSet;

/// What a client asked for, and what it was told.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Op<V> {
    /// The row has this value from now on; `None` is no row.
    Write(Option<V>),
    /// The row had this value.
    Read(Option<V>),
    /// The row had the first value, and has the second one from now on.
    Change(Option<V>, Option<V>),
}

/// A call on one row.
#[derive(Clone, Debug)]
pub struct Event<V> {
    pub op: Op<V>,
    pub began: u64,
    /// `None` if the client never learned whether it took effect.
    pub ended: Option<u64>,
}

/// Returns whether the events of one row, which had no value at first, are linearizable. Events that never ended may have taken
/// effect or not.
///
/// # Panics
/// If there are more than 128 events.
#[must_use]
pub fn is_linearizable<V: Clone + Eq + std::hash::Hash>(events: &[Event<V>]) -> bool {
    assert!(events.len() <= 128, "a bit for each event");
    let all = events
        .iter()
        .enumerate()
        .filter(|(_, event)| event.ended.is_some())
        .fold(0_u128, |all, (i, _)| all | 1 << i);
    let mut tried = HashSet::new();
    let mut open = vec![(0_u128, None::<V>)];
    while let Some((done, value)) = open.pop() {
        if done & all == all {
            return true;
        }
        if !tried.insert((done, value.clone())) {
            continue;
        }
        // The next one must have begun before any that is left ended.
        let left = || events.iter().enumerate().filter(|(i, _)| done & 1 << i == 0);
        let first_end = left().filter_map(|(_, event)| event.ended).min();
        for (i, event) in left().filter(|(_, event)| first_end.is_none_or(|end| event.began <= end))
        {
            let next = match &event.op {
                Op::Write(new) => Some(new.clone()),
                Op::Read(read) => (*read == value).then(|| value.clone()),
                Op::Change(old, new) => (*old == value).then(|| new.clone()),
            };
            open.extend(next.map(|next| (done | 1 << i, next)));
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(op: Op<u8>, began: u64, ended: impl Into<Option<u64>>) -> Event<u8> {
        let ended = ended.into();
        Event { op, began, ended }
    }

    #[test]
    fn a_stale_read_is_found() {
        let write = event(Op::Write(Some(1)), 0, 1);
        assert!(is_linearizable(&[write.clone(), event(Op::Read(Some(1)), 2, 3)]));
        assert!(!is_linearizable(&[write.clone(), event(Op::Read(None), 2, 3)]));
        assert!(is_linearizable(&[event(Op::Write(Some(1)), 0, 3), event(Op::Read(None), 1, 2)]));
        let again = event(Op::Write(Some(2)), 2, 3);
        assert!(!is_linearizable(&[write, again, event(Op::Read(Some(1)), 4, 5)]));
    }

    #[test]
    fn a_lost_update_is_found() {
        let changes =
            [event(Op::Change(None, Some(1)), 0, 2), event(Op::Change(None, Some(2)), 1, 3)];
        assert!(!is_linearizable(&changes));
        assert!(is_linearizable(&changes[..1]));
    }

    #[test]
    fn what_never_ended_may_have_happened() {
        let unknown = event(Op::Write(Some(1)), 0, None);
        for read in [None, Some(1)] {
            assert!(is_linearizable(&[unknown.clone(), event(Op::Read(read), 1, 2)]));
        }
        let reads = [event(Op::Read(Some(1)), 1, 2), event(Op::Read(None), 3, 4)];
        assert!(!is_linearizable(&[vec![unknown], reads.to_vec()].concat()));
    }
}

//! Whether what clients have seen of one row could have happened one call after the other: a history is linearizable if each
//! call took effect at one moment between its beginning and its end (Herlihy and Wing, *Linearizability: A Correctness Condition
//! for Concurrent Objects*, 1990). The search is Wing and Gong's.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::hash::Hash;

use serde::{Deserialize, Serialize};

/// What a client asked for, and what it was told.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Op<V> {
    /// The row has this value from now on; `None` is no row.
    Write(Option<V>),
    /// The row had this value.
    Read(Option<V>),
    /// The row had the first value, and has the second one from now on.
    Change(Option<V>, Option<V>),
    /// If the row had one of these values, there is no row from now on.
    Erase(Vec<V>),
}

/// A call on one row.
#[derive(Clone, Debug)]
pub struct Event<V> {
    pub op: Op<V>,
    pub began: u64,
    /// It has taken effect by then, if at all.
    pub ended: u64,
    /// Whether it has taken effect. Otherwise the client never learned.
    pub is_certain: bool,
}

impl<V: Clone + Eq + Hash> Op<V> {
    /// Returns the value after it, if it can follow this one.
    fn after(&self, value: &Option<V>) -> Option<Option<V>> {
        match self {
            Self::Write(new) => Some(new.clone()),
            Self::Read(read) => (read == value).then(|| value.clone()),
            Self::Change(old, new) => (old == value).then(|| new.clone()),
            Self::Erase(values) => Some(value.clone().filter(|value| !values.contains(value))),
        }
    }

    fn seen(&self) -> Option<&Option<V>> {
        match self {
            Self::Read(value) | Self::Change(value, _) => Some(value),
            Self::Write(_) | Self::Erase(_) => None,
        }
    }

    fn written(&self) -> Option<&Option<V>> {
        match self {
            Self::Write(value) | Self::Change(_, value) => Some(value),
            Self::Read(_) => None,
            Self::Erase(_) => Some(&None),
        }
    }
}

/// Returns whether the events of one row, which had no value at first, are linearizable.
#[must_use]
pub fn is_linearizable<V: Clone + Eq + Hash>(events: &[Event<V>]) -> bool {
    contradiction(events).is_none()
}

/// Returns the first event that no order explains, or `None` if the events of one row, which had no value at first, are linearizable.
#[must_use]
pub fn contradiction<V: Clone + Eq + Hash>(events: &[Event<V>]) -> Option<Event<V>> {
    let (mut events, mut uncertain) = that_matter(events);
    events.sort_by_key(|event| event.began);
    uncertain.sort_by_key(|event| event.ended);
    let certain = events.len();
    events.extend(uncertain);

    let mut furthest = 0;
    let mut tried = HashSet::new();
    let mut open = vec![State { first: 0, done: BTreeSet::new(), now: 0, value: None }];
    while let Some(mut state) = open.pop() {
        let mut next = state.next(&events, certain);
        // A read of this value changes nothing, so it need not wait.
        let is_read = |state: &State<V>, i: usize| match &events[i].op {
            Op::Read(value) => *value == state.value,
            _ => false,
        };
        while next.iter().any(|i| is_read(&state, *i)) {
            for i in next {
                if is_read(&state, i) {
                    state.add(&events, certain, i);
                }
            }
            next = state.next(&events, certain);
        }
        if state.first == certain {
            return None;
        }
        furthest = furthest.max(state.first);
        if !tried.insert(state.clone()) {
            continue;
        }
        // The last one is tried first: the certain one that ended first.
        next.sort_by_key(|i| (events[*i].is_certain, u64::MAX - events[*i].ended));
        for i in next {
            if let Some(value) = events[i].op.after(&state.value) {
                let mut after = State { value, ..state.clone() };
                after.add(&events, certain, i);
                open.push(after);
            }
        }
    }
    Some(events.swap_remove(furthest))
}

/// Leaves out what clients have seen of values since they may have been erased: they see these for a while longer, or not.
#[must_use]
pub fn without_erased<V: Clone + Eq>(events: &[Event<V>]) -> Vec<Event<V>> {
    let erasures = Vec::from_iter(events.iter().filter_map(|event| match &event.op {
        Op::Erase(values) => Some((values, event.began)),
        _ => None,
    }));
    let may_be_erased = |value: &V, event: &Event<V>| {
        erasures.iter().any(|(values, began)| values.contains(value) && event.ended >= *began)
    };
    let kept = events.iter().filter_map(|event| {
        let op = match &event.op {
            Op::Read(Some(value)) if may_be_erased(value, event) => return None,
            Op::Change(Some(value), new) if may_be_erased(value, event) => Op::Write(new.clone()),
            op => op.clone(),
        };
        Some(Event { op, ..event.clone() })
    });
    kept.collect()
}

/// Which events were done, and the value after them.
#[derive(Clone, PartialEq, Eq, Hash)]
struct State<V> {
    /// All certain ones before this one were done.
    first: usize,
    /// Later ones, and uncertain ones as long as they could be next.
    done: BTreeSet<usize>,
    /// No earlier than which the next one takes effect.
    now: u64,
    value: Option<V>,
}

impl<V> State<V> {
    /// Returns the events that could be next: those that began before any that is left has ended.
    fn next(&self, events: &[Event<V>], certain: usize) -> Vec<usize> {
        let is_left = |i: &usize| !self.done.contains(i);
        let mut first_end = u64::MAX;
        let mut next = Vec::new();
        for i in (self.first..certain).filter(is_left) {
            if events[i].began > first_end {
                break;
            }
            first_end = first_end.min(events[i].ended);
            next.push(i);
        }
        let over = events[certain..].partition_point(|event| event.ended < self.now);
        next.extend((certain + over..events.len()).filter(is_left));
        next.retain(|i| events[*i].began <= first_end);
        next
    }

    fn add(&mut self, events: &[Event<V>], certain: usize, i: usize) {
        self.done.insert(i);
        self.now = self.now.max(events[i].began);
        while self.first < certain && self.done.remove(&self.first) {
            self.first += 1;
        }
        self.done.retain(|i| *i < certain || events[*i].ended >= self.now);
    }
}

/// Returns the certain and the uncertain events, of which there may be many, without those that make no difference.
fn that_matter<V: Clone + Eq + Hash>(events: &[Event<V>]) -> (Vec<Event<V>>, Vec<Event<V>>) {
    // How many events have written a value, and when the first one that is certain to have seen it ended.
    let (mut writers, mut seen) = (HashMap::new(), HashMap::new());
    for event in events {
        if let Some(value) = event.op.written() {
            *writers.entry(value).or_insert(0) += 1;
        }
        if let Some(value) = event.op.seen() {
            let end = if event.is_certain { event.ended } else { u64::MAX };
            let first = seen.entry(value).or_insert(end);
            *first = end.min(*first);
        }
    }
    let (mut certain, mut uncertain) = (Vec::new(), Vec::new());
    let mut unseen = Vec::new();
    for event in events {
        let written = event.op.written().filter(|_| !event.is_certain);
        let Some(value) = written else {
            if event.is_certain {
                certain.push(event.clone());
            }
            continue;
        };
        match seen.get(value) {
            Some(&end) if end < u64::MAX && value.is_some() && writers[value] == 1 => {
                let ended = end.min(event.ended);
                certain.push(Event { ended, is_certain: true, ..event.clone() });
            }
            Some(_) => uncertain.push(event.clone()),
            None => unseen.extend(value.as_ref().map(|value| (value, event.began))),
        }
    }
    // A value that nobody has seen makes a difference if it was erased at once.
    for event in events {
        if let Op::Erase(values) = &event.op {
            let erased = unseen.iter().filter(|(value, _)| values.contains(value));
            if let Some(began) = erased.map(|(_, began)| *began).min() {
                let began = began.max(event.began);
                uncertain.push(Event {
                    op: Op::Write(None),
                    began,
                    is_certain: false,
                    ..event.clone()
                });
            }
        }
    }
    uncertain.retain(|event| event.began <= event.ended);
    (certain, uncertain)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn event(op: Op<u8>, began: u64, ended: u64) -> Event<u8> {
        Event { op, began, ended, is_certain: true }
    }

    fn uncertain(op: Op<u8>, began: u64, ended: u64) -> Event<u8> {
        Event { is_certain: false, ..event(op, began, ended) }
    }

    #[test]
    fn a_stale_read_is_found() {
        let write = event(Op::Write(Some(1)), 0, 1);
        assert!(is_linearizable(&[write.clone(), event(Op::Read(Some(1)), 2, 3)]));
        assert!(!is_linearizable(&[write.clone(), event(Op::Read(None), 2, 3)]));
        assert!(is_linearizable(&[event(Op::Write(Some(1)), 0, 3), event(Op::Read(None), 1, 2)]));
        let again = event(Op::Write(Some(2)), 2, 3);
        let stale = contradiction(&[write, again, event(Op::Read(Some(1)), 4, 5)]);
        assert_eq!(stale.map(|event| event.began), Some(4));
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
        let unknown = uncertain(Op::Write(Some(1)), 0, u64::MAX);
        for read in [None, Some(1)] {
            assert!(is_linearizable(&[unknown.clone(), event(Op::Read(read), 1, 2)]));
        }
        let reads = [event(Op::Read(Some(1)), 1, 2), event(Op::Read(None), 3, 4)];
        assert!(!is_linearizable(&[vec![unknown], reads.to_vec()].concat()));
        // Not any more.
        let write = event(Op::Write(Some(1)), 0, 1);
        let deleted = |ended| [write.clone(), uncertain(Op::Write(None), 2, ended)];
        let reads = [event(Op::Read(Some(1)), 4, 5), event(Op::Read(None), 6, 7)];
        assert!(is_linearizable(&[deleted(6), reads.clone()].concat()));
        assert!(!is_linearizable(&[deleted(3), reads].concat()));
    }

    #[test]
    fn an_erasure_deletes_some_values() {
        let erase = event(Op::Erase([1, 2].into()), 2, 3);
        for (value, read, is_right) in
            [(1, None, true), (1, Some(1), false), (3, Some(3), true), (3, None, false)]
        {
            let write = event(Op::Write(Some(value)), 0, 1);
            let history = [write, erase.clone(), event(Op::Read(read), 4, 5)];
            assert_eq!(is_linearizable(&history), is_right, "{value} {read:?}");
        }
        // What nobody has seen was erased.
        let write = event(Op::Write(Some(3)), 0, 1);
        let history = |unseen| {
            let unseen = uncertain(Op::Write(Some(unseen)), 1, 9);
            [write.clone(), unseen, erase.clone(), event(Op::Read(None), 4, 5)]
        };
        assert!(is_linearizable(&history(2)) && !is_linearizable(&history(4)));
    }

    #[test]
    fn long_histories_are_searched() {
        let events = (0..1_000_u64).flat_map(|i| {
            let value = u32::try_from(i).expect("few");
            let event = |op, began, ended| Event { op, began, ended, is_certain: true };
            // Each write overlaps the next two, the reads say in which order they were, and there may have been deletions.
            let delete = Event { is_certain: false, ..event(Op::Write(None), 10 * i, 10 * i + 99) };
            [
                Some(event(Op::Write(Some(value)), 10 * i, 10 * i + 25)),
                Some(event(Op::Read(Some(value ^ 1)), 10 * i + 12, 10 * i + 38)),
                (i % 7 == 0).then_some(delete),
            ]
        });
        let mut events = Vec::from_iter(events.flatten());
        let read =
            |value, began| Event { op: Op::Read(value), began, ended: began + 1, is_certain: true };
        events.push(read(None, 10_050));
        assert!(is_linearizable(&events));
        events.push(read(Some(7), 10_052));
        assert_eq!(contradiction(&events).map(|event| event.began), Some(10_052));
    }
}

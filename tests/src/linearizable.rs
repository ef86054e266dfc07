//! A check whether the calls on one row could have happened one after the other. A history is linearizable if each call took
//! effect at one moment between its beginning and its end (Herlihy and Wing, *Linearizability: A Correctness Condition for
//! Concurrent Objects*, 1990). The search is Wing and Gong's, with Lowe's memory of visited states (*Testing for
//! Linearizability*, 2017).

use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::ops::RangeInclusive;

use serde::{Deserialize, Serialize};

/// A client's request and its answer.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Op<V> {
    /// The row has this value from now on. `None` means no row.
    Write(Option<V>),
    /// The row had this value.
    Read(Option<V>),
    /// The row had the first value and has the second one from now on.
    Change(Option<V>, Option<V>),
    /// If the row had one of these values, it is gone from now on.
    Erase(Vec<V>),
}

/// The result of the check of one row's events.
#[derive(Debug, PartialEq, Eq)]
pub enum Verdict<V> {
    Linearizable,
    /// The first event that no order explains.
    Contradiction(Event<V>),
    /// There are too many orders to try.
    Undecided,
}

/// The maximum number of states of one row that are tried.
const STATES: usize = 500_000;

/// A call on one row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Event<V> {
    pub op: Op<V>,
    pub began: u64,
    /// The time by which it has taken effect, if at all.
    pub ended: u64,
    /// Whether it certainly took effect. If not, the client got no answer.
    pub is_certain: bool,
}

impl<V: Clone + Eq + Hash> Op<V> {
    /// Returns the value after the event if it can follow this value.
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

/// Returns whether the events of a row without an initial value are known to be linearizable.
#[must_use]
pub fn is_linearizable<V: Clone + Eq + Hash>(events: &[Event<V>]) -> bool {
    matches!(verdict(events), Verdict::Linearizable)
}

/// Checks the events of a row without an initial value.
#[must_use]
pub fn verdict<V: Clone + Eq + Hash>(events: &[Event<V>]) -> Verdict<V> {
    Search::new(events).verdict(STATES)
}

/// Removes the reads that began at these times, because a killed server has shown rows that it then lost.
#[must_use]
pub fn without_reads<V: Clone>(
    events: &[Event<V>],
    meanwhile: &[RangeInclusive<u64>],
) -> Vec<Event<V>> {
    let is_lost = |event: &Event<V>| {
        matches!(event.op, Op::Read(_)) && meanwhile.iter().any(|time| time.contains(&event.began))
    };
    events.iter().filter(|event| !is_lost(event)).cloned().collect()
}

/// Removes reads of values that may have been erased, because clients may or may not see these for a while.
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

/// The relevant events of one row.
struct Search<V> {
    /// The certain events, in the order of their beginnings.
    certain: Vec<Event<V>>,
    /// The uncertain events in the order of their ends, each with the number of its operation. Events of one operation are
    /// interchangeable.
    uncertain: Vec<(usize, Event<V>)>,
    /// The certain events that have seen a value that is written only once.
    seers: HashMap<V, Vec<usize>>,
}

/// The completed events and the value after them.
#[derive(Clone)]
struct State<V> {
    place: Place<V>,
    cost: Cost,
}

/// The part of a state that decides about the remaining certain events.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Place<V> {
    /// All certain events before this one are completed.
    first: usize,
    /// The later completed events.
    done: BTreeSet<usize>,
    value: Option<V>,
}

/// The part of a state that decides about the remaining uncertain events.
#[derive(Clone)]
struct Cost {
    /// The earliest time of the next event's effect.
    now: u64,
    /// The earliest time of the last write or read of the value. Later it may have been deleted.
    since: u64,
    /// The completed uncertain events that would still be possible.
    used: BTreeSet<usize>,
}

impl<V: Clone + Eq + Hash> Search<V> {
    fn new(events: &[Event<V>]) -> Self {
        let (mut certain, mut uncertain) = that_matter(events);
        certain.sort_by_key(|event| event.began);
        uncertain.sort_by_key(|event| event.ended);
        let writers = writers(certain.iter().chain(&uncertain));
        let mut seers = HashMap::<V, Vec<usize>>::new();
        for (i, event) in certain.iter().enumerate() {
            if let Some(Some(value)) = event.op.seen()
                && writers.get(&Some(value)) == Some(&1)
            {
                seers.entry(value.clone()).or_default().push(i);
            }
        }
        let mut numbers = HashMap::new();
        let uncertain = uncertain.into_iter().map(|event| {
            let next = numbers.len();
            (*numbers.entry(event.op.clone()).or_insert(next), event)
        });
        Self { uncertain: uncertain.collect(), certain, seers }
    }

    fn verdict(mut self, states: usize) -> Verdict<V> {
        let (mut furthest, mut tried) = (0, 0);
        let mut costs = HashMap::<Place<V>, Vec<Cost>>::new();
        let place = Place { first: 0, done: BTreeSet::new(), value: None };
        let cost = Cost { now: 0, since: 0, used: BTreeSet::new() };
        let mut open = vec![State { place, cost }];
        while let Some(mut state) = open.pop() {
            while let Some(i) = self.free_read(&state) {
                self.add(&mut state, i);
            }
            if state.place.first == self.certain.len() {
                return Verdict::Linearizable;
            }
            furthest = furthest.max(state.place.first);
            let costs = costs.entry(state.place.clone()).or_default();
            if costs.iter().any(|cost| self.is_no_dearer(cost, &state.cost)) {
                continue;
            }
            costs.retain(|cost| !self.is_no_dearer(&state.cost, cost));
            costs.push(state.cost.clone());
            tried += 1;
            if tried > states {
                return Verdict::Undecided;
            }
            // The last candidate is tried first: the certain event that ended first.
            open.extend(self.with_uncertain(&state));
            let mut next = self.next(&state.place).0;
            next.sort_by_key(|i| u64::MAX - self.certain[*i].ended);
            for i in next {
                let Some(value) = self.certain[i].op.after(&state.place.value) else {
                    continue;
                };
                if value != state.place.value
                    && let Some(seer) = self.seer(&state.place, Some(i))
                {
                    furthest = furthest.max(seer);
                    continue;
                }
                let mut after = state.clone();
                after.place.value = value;
                self.add(&mut after, i);
                open.push(after);
            }
        }
        Verdict::Contradiction(self.certain.swap_remove(furthest))
    }

    /// Returns the certain events that could be next, because they began before the end of any remaining event. Also returns the
    /// first of these ends.
    fn next(&self, place: &Place<V>) -> (Vec<usize>, u64) {
        let mut first_end = u64::MAX;
        let mut next = Vec::new();
        for i in (place.first..self.certain.len()).filter(|i| !place.done.contains(i)) {
            if self.certain[i].began > first_end {
                break;
            }
            first_end = first_end.min(self.certain[i].ended);
            next.push(i);
        }
        next.retain(|i| self.certain[*i].began <= first_end);
        (next, first_end)
    }

    /// Returns a read that can be next without loss. It changes nothing, and it rules out no uncertain event that could precede
    /// it.
    fn free_read(&self, state: &State<V>) -> Option<usize> {
        let value = &state.place.value;
        let is_free = |i: &usize| {
            let read = &self.certain[*i];
            matches!(&read.op, Op::Read(seen) if seen == value)
                && (read.began <= state.cost.now
                    || value.as_ref().is_some_and(|value| self.seers.contains_key(value))
                    || !self.uncertain.iter().enumerate().any(|(i, (_, event))| {
                        (state.cost.since..read.began).contains(&event.ended)
                            && !state.cost.used.contains(&i)
                    }))
        };
        self.next(&state.place).0.into_iter().find(is_free)
    }

    /// Returns another certain event that has yet to see the value. Each value is written once, so it does not come again.
    fn seer(&self, place: &Place<V>, but: Option<usize>) -> Option<usize> {
        let seers = place.value.as_ref().and_then(|value| self.seers.get(value));
        let mut seers = seers.into_iter().flatten().copied();
        seers.find(|i| *i >= place.first && Some(*i) != but && !place.done.contains(i))
    }

    /// Completes a certain event.
    fn add(&self, state: &mut State<V>, i: usize) {
        let (place, cost, event) = (&mut state.place, &mut state.cost, &self.certain[i]);
        place.done.insert(i);
        while place.done.remove(&place.first) {
            place.first += 1;
        }
        cost.now = cost.now.max(event.began);
        // An erasure that leaves a value has not seen it.
        if place.value.is_none() || !matches!(event.op, Op::Erase(_)) {
            self.set_since(cost, cost.now);
        }
    }

    fn set_since(&self, cost: &mut Cost, since: u64) {
        cost.since = since;
        cost.used.retain(|i| self.uncertain[*i].1.ended >= since);
    }

    /// Returns the states after each relevant uncertain event that could be next. Among interchangeable events, the first to end
    /// is next.
    fn with_uncertain(&self, state: &State<V>) -> Vec<State<V>> {
        let State { place, cost } = state;
        let (next, first_end) = self.next(place);
        let sees_none = |event: &Event<V>| event.op.seen() == Some(&None);
        // An unseen deletion can be omitted. A seen one need not come earlier, because only erasures of other values have
        // happened since the value was last seen.
        let none_is_seen = place.value.is_some()
            && (next.iter().any(|i| sees_none(&self.certain[*i]))
                || self.uncertain.iter().any(|(_, event)| sees_none(event)));
        let mut numbers = Vec::new();
        let mut states = Vec::new();
        if self.seer(place, None).is_some() {
            return states;
        }
        for (i, (number, event)) in self.uncertain.iter().enumerate() {
            let Some(value) = event.op.after(&place.value).filter(|value| *value != place.value)
            else {
                continue;
            };
            let since = if value.is_none() { cost.since } else { cost.now };
            let is_next = event.ended >= since && event.began <= first_end;
            if is_next
                && (value.is_some() || none_is_seen)
                && !cost.used.contains(&i)
                && !numbers.contains(number)
            {
                numbers.push(*number);
                let mut after = state.clone();
                after.place.value = value;
                after.cost.used.insert(i);
                after.cost.now = cost.now.max(event.began);
                self.set_since(&mut after.cost, since.max(event.began));
                states.push(after);
            }
        }
        states
    }

    /// Returns whether every continuation at the second cost is also possible at the first.
    fn is_no_dearer(&self, one: &Cost, other: &Cost) -> bool {
        // These are the ends of an operation's completed events that could be next, in descending order.
        let ends = |cost: &Cost, number: usize| {
            let used = cost.used.iter().rev().map(|i| &self.uncertain[*i]);
            let used = used.filter(|(its, event)| *its == number && event.ended >= other.since);
            used.map(|(_, event)| event.ended).collect::<Vec<_>>()
        };
        one.now <= other.now
            && one.since <= other.since
            && one.used.iter().all(|i| {
                let number = self.uncertain[*i].0;
                let (ones, others) = (ends(one, number), ends(other, number));
                ones.len() <= others.len()
                    && ones.iter().zip(others).all(|(one, other)| *one <= other)
            })
    }
}

/// Returns the number of events that write each value.
fn writers<'e, V: Clone + Eq + Hash + 'e>(
    events: impl Iterator<Item = &'e Event<V>>,
) -> HashMap<Option<&'e V>, usize> {
    let mut writers = HashMap::new();
    for value in events.filter_map(|event| event.op.written()) {
        *writers.entry(value.as_ref()).or_default() += 1;
    }
    writers
}

/// Returns the relevant certain and uncertain events. There may be many uncertain ones.
fn that_matter<V: Clone + Eq + Hash>(events: &[Event<V>]) -> (Vec<Event<V>>, Vec<Event<V>>) {
    let writers = writers(events.iter());
    let (mut certain, mut uncertain): (Vec<_>, Vec<_>) =
        events.iter().cloned().partition(|event| event.is_certain);
    uncertain.retain(|event| !matches!(event.op, Op::Read(_)));
    let mut unseen = Vec::new();
    // Events that prove certain or unseen decide about others, so the loop repeats.
    loop {
        let left = uncertain.len();
        // The map holds the end of the first certain event that has seen each value.
        let mut seen = HashMap::new();
        for event in certain.iter().chain(&uncertain) {
            if let Some(Some(value)) = event.op.seen() {
                let end = if event.is_certain { event.ended } else { u64::MAX };
                let first = seen.entry(value.clone()).or_insert(end);
                *first = end.min(*first);
            }
        }
        uncertain.retain(|event| {
            let Some(Some(value)) = event.op.written() else {
                return true;
            };
            match seen.get(value) {
                Some(&end) if end < u64::MAX && writers[&Some(value)] == 1 => {
                    let ended = end.min(event.ended);
                    certain.push(Event { ended, is_certain: true, ..event.clone() });
                    false
                }
                Some(_) => true,
                None => {
                    unseen.push((value.clone(), event.began));
                    false
                }
            }
        });
        if uncertain.len() == left {
            break;
        }
    }
    // An unseen value is relevant if it was erased at once.
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
    use crate::random::{Random, SEED};

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
        let read = event(Op::Read(Some(1)), 4, 5);
        assert_eq!(verdict(&[write, again, read.clone()]), Verdict::Contradiction(read));
    }

    #[test]
    fn a_lost_update_is_found() {
        let changes =
            [event(Op::Change(None, Some(1)), 0, 2), event(Op::Change(None, Some(2)), 1, 3)];
        assert!(!is_linearizable(&changes));
        assert!(is_linearizable(&changes[..1]));
    }

    #[test]
    fn calls_without_an_answer_may_have_happened() {
        let unknown = uncertain(Op::Write(Some(1)), 0, u64::MAX);
        for read in [None, Some(1)] {
            assert!(is_linearizable(&[unknown.clone(), event(Op::Read(read), 1, 2)]));
        }
        let reads = [event(Op::Read(Some(1)), 1, 2), event(Op::Read(None), 3, 4)];
        assert!(!is_linearizable(&[vec![unknown], reads.to_vec()].concat()));
        // The value is gone by then.
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
        // The unseen value was erased.
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
            // Each write overlaps the next two, the reads show the order of the writes, and there may have been deletions.
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
        let stale = read(Some(7), 10_052);
        events.push(stale.clone());
        assert_eq!(verdict(&events), Verdict::Contradiction(stale));
    }

    #[test]
    fn many_uncertain_deletions_and_erasures_are_searched() {
        let event = |op, began, ended| Event { op, began, ended, is_certain: true };
        let uncertain = |op, began, ended| Event { is_certain: false, ..event(op, began, ended) };
        let mut events = Vec::new();
        for i in 0..200_u32 {
            let began = u64::from(10 * i);
            events.push(uncertain(Op::Write(None), began, began + 700));
            events.push(uncertain(Op::Erase(vec![i]), began, began + 600));
            events.push(event(Op::Erase(vec![i, i + 1_000]), began, began + 9));
            events.push(uncertain(Op::Write(Some(i + 1_000)), began, began + 900));
            events.push(event(Op::Write(Some(i)), began, began + 15));
            events.push(event(Op::Write(Some(i + 2_000)), began + 3, began + 17));
            events.push(event(Op::Read(Some(i)), began + 2, began + 16));
            events.push(event(Op::Read(None), began + 4, began + 14));
        }
        assert_eq!(verdict(&events), Verdict::Linearizable);
        let stale = event(Op::Read(Some(2_100)), 1_500, 1_501);
        events.push(stale);
        assert!(matches!(verdict(&events), Verdict::Contradiction(_)));
    }

    #[test]
    fn a_deletion_is_kept_until_an_event_needs_it() {
        let [write, erase] = [event(Op::Write(Some(1)), 0, 1), event(Op::Erase(vec![2]), 5, 6)];
        let deleted = |ended| [write.clone(), uncertain(Op::Write(None), 2, ended), erase.clone()];
        let history = |ended, began| {
            [deleted(ended).to_vec(), vec![event(Op::Read(Some(1)), began, began + 1)]].concat()
        };
        let none = event(Op::Read(None), 7, 8);
        assert!(is_linearizable(&[history(4, 2), vec![none.clone()]].concat()));
        assert!(!is_linearizable(&[history(4, 5), vec![none]].concat()));
        // A read of no row does not justify another later deletion.
        let history = [
            event(Op::Write(Some(1)), 0, 10),
            uncertain(Op::Write(None), 0, 5),
            event(Op::Read(Some(1)), 4, 8),
            event(Op::Read(None), 6, 7),
            event(Op::Read(None), 9, 9),
        ];
        assert!(is_linearizable(&history));
    }

    #[test]
    fn reads_before_a_crash_are_no_evidence() {
        let history = |began| {
            let reads = [event(Op::Read(Some(1)), began, began + 1), event(Op::Read(None), 30, 31)];
            [vec![uncertain(Op::Write(Some(1)), 0, 60)], reads.to_vec()].concat()
        };
        // The server is killed between 15 and 20. It has not flushed the values that it shows from 5 on.
        for (began, is_lost) in [(4, false), (5, true), (15, true), (20, true), (21, false)] {
            let kept = without_reads(&history(began), &[5..=20]);
            assert_eq!(is_linearizable(&kept), is_lost, "{began}");
        }
    }

    #[test]
    fn a_search_of_too_many_orders_ends() {
        let mut events = Vec::from_iter((0..30).map(|i| event(Op::Write(Some(i)), 0, 100)));
        events.push(event(Op::Read(Some(99)), 100, 100));
        assert_eq!(Search::new(&events).verdict(1_000), Verdict::Undecided);
    }

    /// Returns whether some order of the events, or of a subset with all certain ones, explains them.
    fn is_explained(
        events: &[Event<u8>],
        done: &mut Vec<usize>,
        now: u64,
        value: Option<u8>,
    ) -> bool {
        let left = Vec::from_iter((0..events.len()).filter(|i| !done.contains(i)));
        let certain = left.iter().map(|i| &events[*i]).filter(|event| event.is_certain);
        let Some(first_end) = certain.map(|event| event.ended).min() else {
            return true;
        };
        left.into_iter().any(|i| {
            let event = &events[i];
            let after = event.op.after(&value);
            event.began <= first_end
                && event.ended >= now
                && after.is_some_and(|value| {
                    done.push(i);
                    let is_explained = is_explained(events, done, now.max(event.began), value);
                    done.pop();
                    is_explained
                })
        })
    }

    #[test]
    fn the_search_agrees_with_trying_all_orders() {
        let mut random = Random(*SEED);
        let mut explained = 0;
        for _ in 0..20_000 {
            let is_erased = random.below(2) == 0;
            let values = 2 + random.below(3);
            let events = Vec::from_iter((0..3 + random.below(5)).map(|_| {
                let mut value =
                    || u8::try_from(random.below(values)).ok().filter(|value| *value > 0);
                let (one, other) = (value(), value());
                let mut op = match random.below(4) {
                    0 => Op::Write(one),
                    1 => Op::Change(one, other),
                    2 if is_erased => Op::Erase(one.into_iter().chain(other).collect()),
                    _ => Op::Read(one),
                };
                let began = random.below(12);
                let ended = began + random.below(8);
                let is_certain = random.below(3) > 0;
                // The effect of an erased, unseen value on other events only has a bound.
                if is_erased && !is_certain && op.written().is_some_and(Option::is_some) {
                    op = Op::Write(None);
                }
                Event { op, began: began as u64, ended: ended as u64, is_certain }
            }));
            let is_right = is_explained(&events, &mut Vec::new(), 0, None);
            explained += usize::from(is_right);
            assert_eq!(is_linearizable(&events), is_right, "{events:#?}");
        }
        assert!((2_000..18_000).contains(&explained), "{explained}");
    }
}

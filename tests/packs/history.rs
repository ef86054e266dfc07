//! The notes of clients about their calls, and their evaluation.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use opaque_id_tests::Result;
use opaque_id_tests::engine::Engine;
use opaque_id_tests::linearizable::{Event, Op, Verdict, verdict, without_erased, without_reads};
use serde::{Deserialize, Serialize};

use crate::Campaign;

/// The number of a value and its group. Each value is written once.
pub(crate) type Written = (u64, u64);

/// The effects of a call on rows, by key.
type Effects = Vec<(i64, Op<Written>)>;

/// A line of a client's output. Times are nanoseconds.
#[derive(Serialize, Deserialize)]
pub(crate) enum Note {
    /// From now on, a call may have these effects instead of the effects noted before.
    May {
        call: u64,
        began: u64,
        effects: Effects,
    },
    /// The call had these effects, or none.
    Did {
        call: u64,
        ended: u64,
        is_effective: bool,
    },
    Saw {
        began: u64,
        ended: u64,
        values: Vec<(i64, Option<Written>)>,
    },
    /// An erasure may take effect, or has taken effect.
    Erases {
        group: u64,
        began: u64,
        ended: Option<u64>,
    },
    Count(String),
    /// A call was refused because of earlier reads, and succeeded at last.
    Refused {
        calls: u64,
        ms: u64,
    },
    /// A promise was broken.
    Wrong(String),
}

/// The time for which a client may read rows of an erased group.
const ERASED: u64 = nanoseconds(60);

/// The time by which an unanswered call has taken effect, if at all. It may have waited for a lock.
const LATEST: u64 = nanoseconds(60);

/// The time for which InnoDB may show unflushed rows.
const SHOWN: u64 = nanoseconds(1);

const fn nanoseconds(seconds: u64) -> u64 {
    seconds * 1_000_000_000
}

/// The history of a campaign.
pub(crate) struct History {
    kind: Engine,
    campaign: Campaign,
    /// The events by key.
    events: BTreeMap<i64, Vec<Event<Written>>>,
    /// The effects of calls that have no answer yet, by process and call.
    open: HashMap<(u64, u64), (u64, Effects)>,
    erased: BTreeMap<u64, (u64, Option<u64>)>,
    /// The times when a killed server may have shown rows that it then lost.
    lost: Vec<RangeInclusive<u64>>,
    counts: BTreeMap<String, u64>,
    /// The number of refused calls and the duration of each refusal.
    refusals: Vec<(u64, Duration)>,
    wrong: Vec<String>,
}

impl History {
    pub(crate) fn new(kind: Engine, campaign: Campaign) -> Self {
        Self {
            kind,
            campaign,
            events: BTreeMap::new(),
            open: HashMap::new(),
            erased: BTreeMap::new(),
            lost: Vec::new(),
            counts: BTreeMap::new(),
            refusals: Vec::new(),
            wrong: Vec::new(),
        }
    }

    pub(crate) fn note(&mut self, process: u64, note: Note) {
        match note {
            Note::May { call, began, effects } => {
                self.open.insert((process, call), (began, effects));
            }
            Note::Did { call, ended, is_effective } => {
                let (began, effects) = self.open.remove(&(process, call)).unwrap_or_default();
                for (key, op) in effects.into_iter().filter(|_| is_effective) {
                    self.count("acknowledged writes");
                    self.add(key, Event { op, began, ended, is_certain: true });
                }
            }
            Note::Saw { began, ended, values } => {
                for (key, value) in values {
                    self.count("reads");
                    self.add(key, Event { op: Op::Read(value), began, ended, is_certain: true });
                }
            }
            Note::Erases { group, began, ended } => {
                let erased = self.erased.entry(group).or_insert((began, None));
                *erased = (erased.0.min(began), erased.1.or(ended));
            }
            Note::Count(what) => self.count(&what),
            Note::Refused { calls, ms } => self.refusals.push((calls, Duration::from_millis(ms))),
            Note::Wrong(what) => self.wrong.push(what),
        }
    }

    pub(crate) fn count(&mut self, what: &str) {
        *self.counts.entry(what.to_owned()).or_default() += 1;
    }

    /// Records that a server was alive at the first time and dead at the second.
    pub(crate) fn kill(&mut self, began: u64, ended: u64) {
        self.lost.push(began - SHOWN..=ended);
    }

    fn add(&mut self, key: i64, event: Event<Written>) {
        self.events.entry(key).or_default().push(event);
    }

    /// Checks the history of each row. There is none for a server that forgets.
    pub(crate) fn judge(&mut self) -> Result {
        for ((_, _), (began, effects)) in std::mem::take(&mut self.open) {
            for (key, op) in effects {
                self.count("unanswered writes");
                self.add(key, Event { op, began, ended: began + LATEST, is_certain: false });
            }
        }
        if self.campaign == Campaign::Forgetful {
            return Ok(());
        }
        let events = std::mem::take(&mut self.events);
        for (key, events) in &events {
            let events = self.with_erasures(events);
            let why = match verdict(&events) {
                Verdict::Linearizable => continue,
                Verdict::Undecided => {
                    "may not be linearizable: there are too many orders".to_owned()
                }
                Verdict::Contradiction(event) => {
                    // Reads of unflushed rows do not count.
                    let kept = match self.kind {
                        Engine::Postgres => events.clone(),
                        _ => without_reads(&events, &self.lost),
                    };
                    if kept.len() < events.len() && verdict(&kept) == Verdict::Linearizable {
                        self.count("rows of which the server has shown what the kill took back");
                        continue;
                    }
                    format!("is not linearizable at {:?}:{}", event.op, around(&kept, &event))
                }
            };
            let file = self.dump(*key, &events)?;
            self.wrong.push(format!("key {key} {why}\n    its history: {}", file.display()));
        }
        self.events = events;
        Ok(())
    }

    /// Writes the history of a row to a file.
    fn dump(&self, key: i64, events: &[Event<Written>]) -> Result<PathBuf> {
        let process = std::process::id();
        let name = format!("opaque-id-packs-{}-{process}-{key}.json", self.kind);
        let file = std::env::temp_dir().join(name);
        std::fs::write(&file, serde_json::to_string_pretty(events)?)?;
        Ok(file)
    }

    /// Returns the events of a row with the erasures of its groups. Later reads of erased values are no evidence of the order,
    /// but must end.
    fn with_erasures(&mut self, events: &[Event<Written>]) -> Vec<Event<Written>> {
        let mut values = BTreeMap::<u64, Vec<Written>>::new();
        for event in events {
            if let Op::Write(Some(value)) | Op::Change(_, Some(value)) = event.op {
                values.entry(value.1).or_default().push(value);
            }
            if let Op::Read(Some((_, group))) | Op::Change(Some((_, group)), _) = event.op
                && let Some((_, Some(ended))) = self.erased.get(&group)
                && event.began > ended + ERASED
            {
                self.wrong.push(format!("seen a minute after it was erased: {:?}", event.op));
            }
        }
        let erasures = values.into_iter().filter_map(|(group, values)| {
            let (began, ended) = *self.erased.get(&group)?;
            let (op, is_certain) = (Op::Erase(values), ended.is_some());
            Some(Event { op, began, ended: ended.unwrap_or(began + LATEST), is_certain })
        });
        let events = events.iter().flat_map(|event| self.beside_erasure(event));
        without_erased(&events.chain(erasures).collect::<Vec<_>>())
    }

    /// Returns a write. If it overlaps an erasure of its group, it may be committed later, and then it has deleted the row.
    fn beside_erasure(&self, event: &Event<Written>) -> Vec<Event<Written>> {
        let overlaps = |group| match self.erased.get(group) {
            Some((began, ended)) => event.began < ended.unwrap_or(u64::MAX) && *began < event.ended,
            None => false,
        };
        match &event.op {
            Op::Write(Some((_, group))) | Op::Change(_, Some((_, group))) if overlaps(group) => {
                let perhaps = |op| Event { op, is_certain: false, ..event.clone() };
                vec![perhaps(event.op.clone()), perhaps(Op::Write(None))]
            }
            _ => vec![event.clone()],
        }
    }

    pub(crate) fn wrong(&self) -> usize {
        self.wrong.len()
    }
}

/// Returns the events of the row around an event, in microseconds relative to its beginning.
fn around(events: &[Event<Written>], event: &Event<Written>) -> String {
    let near = |it: &&Event<Written>| {
        it.ended + SHOWN / 4 > event.began && it.began < event.ended + SHOWN / 4
    };
    let mut events: Vec<_> = events.iter().filter(near).collect();
    events.sort_by_key(|event| event.began);
    let time = |time: u64| (i128::from(time) - i128::from(event.began)) / 1_000;
    let line = |it: &Event<Written>| {
        let uncertain = if it.is_certain { "" } else { "perhaps " };
        format!("\n    {:>8} to {:>8}: {uncertain}{:?}", time(it.began), time(it.ended), it.op)
    };
    events.into_iter().map(line).collect()
}

impl fmt::Display for History {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} kills of the server, {} rows", self.lost.len(), self.events.len())?;
        for (what, count) in &self.counts {
            write!(f, ", {count} {what}")?;
        }
        let calls = self.refusals.iter().map(|(calls, _)| *calls).max().unwrap_or_default();
        let time = self.refusals.iter().map(|(_, time)| *time).max().unwrap_or_default();
        write!(
            f,
            "; {} refusals, which have ended after up to {calls} calls and {time:.1?}; {} wrong",
            self.refusals.len(),
            self.wrong.len()
        )?;
        for wrong in self.wrong.iter().take(5) {
            write!(f, "\n  {wrong}")?;
        }
        Ok(())
    }
}

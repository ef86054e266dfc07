//! What clients note of their calls, and what becomes of it.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use opaque_id_tests::Result;
use opaque_id_tests::kind::Kind;
use opaque_id_tests::linearizable::{Event, Op, Verdict, verdict, without_erased, without_reads};
use serde::{Deserialize, Serialize};

use crate::Campaign;

/// The number of a value, which is written once, and its group.
pub(crate) type Written = (u64, u64);

/// What a call does to rows, by key.
type Effects = Vec<(i64, Op<Written>)>;

/// A line of a client's output. Times are nanoseconds.
#[derive(Serialize, Deserialize)]
pub(crate) enum Note {
    /// From now on, a call may have these effects, and none that it was noted to have before.
    May {
        call: u64,
        began: u64,
        effects: Effects,
    },
    /// It has had them, or none.
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
    /// An erasure may take effect, or has done so.
    Erases {
        group: u64,
        began: u64,
        ended: Option<u64>,
    },
    Count(String),
    /// A call was refused by what the client had seen, and went through at last.
    Refused {
        calls: u64,
        ms: u64,
    },
    /// A promise was broken.
    Wrong(String),
}

/// For how long a client may read rows of a group that was erased.
const ERASED: u64 = nanoseconds(60);

/// By when a call that was not answered has taken effect, if at all: it may have waited for a lock.
const LATEST: u64 = nanoseconds(60);

/// For how long InnoDB may show what is not flushed.
const SHOWN: u64 = nanoseconds(1);

const fn nanoseconds(seconds: u64) -> u64 {
    seconds * 1_000_000_000
}

/// All that is known of a campaign.
pub(crate) struct History {
    kind: Kind,
    campaign: Campaign,
    /// By key.
    events: BTreeMap<i64, Vec<Event<Written>>>,
    /// The effects of calls that have no answer yet, by process and call.
    open: HashMap<(u64, u64), (u64, Effects)>,
    erased: BTreeMap<u64, (u64, Option<u64>)>,
    /// From when until when the server has shown what it may have lost when it was killed.
    lost: Vec<RangeInclusive<u64>>,
    counts: BTreeMap<String, u64>,
    /// How many calls each refusal took, and how long.
    refusals: Vec<(u64, Duration)>,
    wrong: Vec<String>,
}

impl History {
    pub(crate) fn new(kind: Kind, campaign: Campaign) -> Self {
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

    /// A server was alive at first and dead in the end.
    pub(crate) fn kill(&mut self, began: u64, ended: u64) {
        self.lost.push(began - SHOWN..=ended);
    }

    fn add(&mut self, key: i64, event: Event<Written>) {
        self.events.entry(key).or_default().push(event);
    }

    /// Looks at the history of each row. A server that forgets has none.
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
                    // Those who have seen what was not flushed have seen nothing.
                    let kept = match self.kind {
                        Kind::Postgres => events.clone(),
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

    /// Returns the events of a row with the erasures of its groups. What clients have seen of these since is no evidence of the order, but
    /// must end.
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

    /// Returns a write. One that overlaps an erasure of its group may be committed after it, and has then deleted the row.
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

/// Returns what happened to the row at about that time, in microseconds before or after the event began.
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

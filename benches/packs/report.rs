use std::collections::BTreeMap;
use std::fmt::Write;

use opaque_id_benches::quartiles;
use opaque_id_tests::Result;

pub(crate) const ENCRYPTED: &str = "encrypted";
pub(crate) const DICTIONARY: &str = "dictionary";

/// MiniCrypt's name for write-through.
pub(crate) const GENERIC: &str = "written through";

pub(crate) const COLUMN: &str = "column";

pub(crate) const NO_GROUPS: &str = "no groups";

pub(crate) const PLAINTEXT: &str = "plaintext";

pub(crate) const BASELINES: [&str; 6] =
    [ENCRYPTED, DICTIONARY, GENERIC, COLUMN, NO_GROUPS, PLAINTEXT];

#[derive(Clone, Copy)]
pub(crate) struct Turn {
    pub(crate) per_second: f64,
    pub(crate) wal: f64,
    pub(crate) reads: f64,
}

impl Turn {
    pub(crate) fn without_costs(per_second: f64) -> Self {
        Self { per_second, wal: 0.0, reads: 0.0 }
    }
}

/// Each figure is printed at once.
pub(crate) struct Report {
    pub(crate) csv: String,
}

impl Default for Report {
    fn default() -> Self {
        let csv = "group,copies,case,value,baseline,ratio,lower_quartile,upper_quartile,wal_bytes,disk_reads\n";
        Self { csv: csv.to_owned() }
    }
}

impl Report {
    pub(crate) fn begin(&self, title: &str) {
        println!("\n{title}");
    }

    pub(crate) fn sizes<N: AsRef<str>>(
        &mut self,
        title: &str,
        group: &str,
        bytes: impl IntoIterator<Item = (N, usize)>,
    ) -> Result {
        self.begin(title);
        let sizes = bytes
            .into_iter()
            .map(|(name, bytes)| (name, vec![Turn::without_costs(bytes as f64 / 1e6)]));
        self.add(group, 1, &sizes.collect::<Vec<_>>())
    }

    pub(crate) fn add(
        &mut self,
        group: &str,
        copies: usize,
        cases: &[(impl AsRef<str>, Vec<Turn>)],
    ) -> Result {
        let by_name: BTreeMap<_, _> =
            cases.iter().map(|(name, turns)| (name.as_ref(), turns)).collect();
        for (name, turns) in cases {
            let name = name.as_ref();
            let median = |value: fn(&Turn) -> f64| quartiles(turns.iter().map(value))[1];
            let (value, wal, reads) = (
                median(|turn| turn.per_second),
                median(|turn| turn.wal),
                median(|turn| turn.reads),
            );
            print!("{name:32} {value:>10.1}");
            for baseline in BASELINES {
                let Some(others) = by_name.get(baseline) else {
                    continue;
                };
                let pairs = turns.iter().zip(*others);
                let [lower, ratio, upper] =
                    quartiles(pairs.map(|(turn, other)| turn.per_second / other.per_second));
                print!("  {ratio:>7.3} of {baseline}");
                writeln!(
                    self.csv,
                    "{group},{copies},{name},{value:.3},{baseline},{ratio:.4},{lower:.4},{upper:.4},{wal:.0},{reads:.4}"
                )?;
            }
            println!("  {wal:>8.0} bytes of log {reads:>8.3} disk reads");
        }
        Ok(())
    }

    pub(crate) fn left(&mut self, left: &[f64]) -> Result {
        for (turn, left) in left.iter().enumerate() {
            writeln!(self.csv, "left,{},default,{left},,,,,,", turn + 1)?;
        }
        let (first, second) = left.split_at(left.len() / 2);
        for (half, left) in [("first half", first), ("second half", second)] {
            if !left.is_empty() {
                let [lower, median, upper] = quartiles(left.iter().copied());
                println!("{half:32} {median:>10.0}, quartiles {lower:.0} and {upper:.0}");
            }
        }
        Ok(())
    }
}

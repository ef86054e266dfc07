//! The table of adapter × database × case, printed at the end and kept in the docs.

use std::collections::BTreeMap;
use std::sync::Mutex;

use crate::servers::Kind;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Passed,
    /// The database has no such thing, or the adapter.
    NotApplicable,
    Failed,
}

type Column = (&'static str, Kind);

#[derive(Default)]
pub(crate) struct Report {
    outcomes: Mutex<BTreeMap<(Column, &'static str), Outcome>>,
}

impl Report {
    pub(crate) fn record(&self, column: Column, case: &'static str, outcome: Outcome) {
        self.outcomes
            .lock()
            .expect("no test panics in here")
            .insert((column, case), outcome);
    }

    /// In Markdown: a row for each case that ran, a column for each adapter, and in each cell a mark for each
    /// database, in the order of [`Kind::ALL`].
    pub(crate) fn table(&self, adapters: &[&'static str], cases: &[&'static str]) -> String {
        let outcomes = self.outcomes.lock().expect("no test panics in here");
        let mut table = format!("| case | {} |\n", adapters.join(" | "));
        table += &format!("|---|{}\n", "---|".repeat(adapters.len()));
        for case in cases {
            if !outcomes.keys().any(|(_, recorded)| recorded == case) {
                continue;
            }
            table += &format!("| {} |", case.replace('_', " "));
            for adapter in adapters {
                let marks: String = Kind::ALL
                    .iter()
                    .filter_map(|kind| outcomes.get(&((*adapter, *kind), case)))
                    .map(|outcome| match outcome {
                        Outcome::Passed => '✓',
                        Outcome::NotApplicable => '–',
                        Outcome::Failed => '✗',
                    })
                    .collect();
                table += &format!(" {marks} |");
            }
            table.push('\n');
        }
        table
    }
}

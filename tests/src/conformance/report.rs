//! The table of adapter × database × case, printed at the end and kept in the docs.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use crate::Result;
use crate::database::Database;
use crate::engine::Engine;

/// The expected table of whole runs with all adapters.
const DOCUMENTED: &str = include_str!("../../../docs/CONFORMANCE.md");

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Passed,
    /// The database or the adapter has no such feature.
    NotApplicable,
    Failed,
}

/// The result of a case.
pub type Verdict = Result<Outcome>;

/// The cases of an adapter on a database.
pub type Cases = Vec<(&'static str, fn(&Database) -> Verdict)>;

#[derive(Clone, Copy)]
pub struct Case {
    pub adapter: &'static str,
    pub kind: Engine,
    pub name: &'static str,
    pub run: fn(&Database) -> Verdict,
}

/// Writes cases by name. Each runs with its own shop.
#[macro_export]
macro_rules! cases {
    ($shop:ty, |$on:ident, $database:ident, $run:ident| $body:expr; $($case:ident)*) => {
        vec![$((
            stringify!($case),
            |$database| <$shop>::block_on(async {
                let $on = <$shop>::connect($database).await?;
                let $run = $case;
                $body
            }),
        )),*]
    };
}

type Column = (&'static str, Engine);

#[derive(Clone, Default)]
pub struct Report {
    outcomes: Arc<Mutex<BTreeMap<(Column, &'static str), Outcome>>>,
}

impl Report {
    pub fn record(&self, column: Column, case: &'static str, outcome: Outcome) {
        self.outcomes.lock().expect("no test panics in here").insert((column, case), outcome);
    }

    /// Returns the table in Markdown. It has a row for each case that ran, a column for each adapter, and in
    /// each cell a mark for each database, in the order of [`Engine::ALL`].
    pub fn table(&self, adapters: &[&'static str], cases: &[&'static str]) -> String {
        let outcomes = self.outcomes.lock().expect("no test panics in here");
        let rows = cases.iter().map(|case| {
            let cells = adapters.iter().map(|adapter| {
                let outcomes =
                    Engine::ALL.iter().filter_map(|kind| outcomes.get(&((*adapter, *kind), case)));
                let mark = |outcome: &Outcome| match outcome {
                    Outcome::Passed => '✓',
                    Outcome::NotApplicable => '–',
                    Outcome::Failed => '✗',
                };
                outcomes.map(mark).collect()
            });
            (case.replace('_', " "), cells.collect())
        });
        markdown(adapters, rows)
    }
}

/// Returns the columns of some adapters in docs/CONFORMANCE.md.
pub fn documented(adapters: &[&str]) -> String {
    let rows = DOCUMENTED.lines().filter(|line| line.starts_with('|'));
    let cells = |row: &'static str| row.trim_matches('|').split('|').map(str::trim);
    let mut rows = rows.map(|row| Vec::from_iter(cells(row)));
    let header = rows.next().unwrap_or_default();
    let place = |adapter: &&str| header.iter().position(|cell| cell == adapter);
    let places: Vec<usize> = adapters.iter().filter_map(place).collect();
    let rows = rows.skip(1).map(|row| {
        let cells = places.iter().map(|&place| row[place].to_owned());
        (row[0].to_owned(), cells.collect())
    });
    markdown(adapters, rows)
}

/// Returns a table without empty rows.
fn markdown(adapters: &[&str], rows: impl Iterator<Item = (String, Vec<String>)>) -> String {
    let mut table = format!("| case | {} |\n", adapters.join(" | "));
    table += &format!("|---|{}\n", "---|".repeat(adapters.len()));
    for (case, cells) in rows.filter(|(_, cells)| cells.iter().any(|cell| !cell.is_empty())) {
        table += &format!("| {case} | {} |\n", cells.join(" | "));
    }
    table
}

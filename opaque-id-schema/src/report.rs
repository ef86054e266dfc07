//! The report: an SQL script with the findings as comments.

use std::fmt;

use serde::Serialize;

use crate::names::Escaped;

/// The wrong key columns, and the SQL that fixes them.
///
/// `Display` writes an SQL script, or nothing if there are no findings. Review it, stop the application, back
/// up the database, then run it. The script loses no data: it converts all values of a column or none,
/// whichever client runs it, and keeps old rows of texts and bytes in a table with another name.
///
/// ```
/// use opaque_id_schema::Report;
///
/// fn verify(report: &Report) -> Result<(), String> {
///     match report.is_good() {
///         true => Ok(()),
///         false => Err(report.to_string()),
///     }
/// }
///
/// assert!(verify(&Report::default()).is_err(), "nothing was found, so nothing was checked");
/// ```
#[derive(Debug, Default, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// The number of correct key columns.
    pub right: usize,
    /// The wrong key columns, ordered by table and column, and then the faults of opaque-id's own tables.
    pub findings: Vec<Finding>,
    /// The columns that may store ids and are neither right nor wrong, in the same order.
    pub not_judged: Vec<Finding>,
    /// The statements that fix columns, and comments.
    pub script: Vec<String>,
}

/// A key column that is wrong, or is in a wrong table.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// The column's table.
    pub table: String,
    /// The column's name.
    pub column: String,
    /// The column's type as the database spells it, or the engine of its table.
    pub found: String,
    /// The fault of the column, or the reason why it was not judged.
    pub problem: String,
    /// The number of values that cannot be converted.
    pub unconvertible: u64,
    /// A query that lists the values that cannot be converted or would become equal, if there are any.
    pub query: Option<String>,
    /// The reason why the script does not convert the column.
    pub left_alone: Option<String>,
}

impl Report {
    /// Returns whether at least one key column is right, and no column is wrong or not judged.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.right > 0 && self.findings.is_empty() && self.not_judged.is_empty()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The script's first line explains how to run it.
        if let Some(first) = self.script.first() {
            writeln!(f, "{first}")?;
        }
        for finding in self.findings.iter().chain(&self.not_judged) {
            writeln!(
                f,
                "-- {}.{} is {}: {}",
                Escaped(&finding.table),
                Escaped(&finding.column),
                Escaped(&finding.found),
                Escaped(&finding.problem)
            )?;
            if let Some(reason) = &finding.left_alone {
                writeln!(f, "--   The script does not convert it: {}", Escaped(reason))?;
            }
            if let Some(query) = &finding.query {
                writeln!(f, "{query}")?;
            }
        }
        for statement in self.script.iter().skip(1) {
            writeln!(f, "{statement}")?;
        }
        Ok(())
    }
}

//! The findings of a check, and their text: an SQL script with the findings as comments.

use std::fmt;

use serde::Serialize;

use crate::names::Escaped;

/// The key columns that are wrong, and the SQL that fixes them.
///
/// `Display` writes a script of SQL with the findings as comments, or nothing if there are no findings. Review it, stop
/// the application, back up the database, then run it. The script loses no data: it converts all values of a column or
/// none, whichever client runs it, and keeps the old rows in a table with another name.
///
/// ```
/// use opaque_id_schema::Report;
///
/// fn verify(report: &Report) -> Result<(), String> {
///     match report.findings.is_empty() {
///         true => Ok(()),
///         false => Err(report.to_string()),
///     }
/// }
///
/// assert_eq!(verify(&Report::default()), Ok(()));
/// ```
#[derive(Debug, Default, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// How many key columns were checked.
    pub checked: usize,
    /// The key columns that are wrong, ordered by table and column; then opaque-id's own tables in another engine than InnoDB.
    pub findings: Vec<Finding>,
    /// The statements that fix the columns a script can fix, and comments; empty if there are none.
    pub script: Vec<String>,
}

/// One key column that is wrong, or whose table is.
///
/// ```
/// use opaque_id_schema::Finding;
///
/// fn print(finding: &Finding) {
///     let Finding { table, column, found, problem, .. } = finding;
///     println!("{table}.{column} is {found}: {problem}");
///     if let Some(reason) = &finding.left_alone {
///         println!("convert it manually: {reason}");
///     }
/// }
/// ```
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// The column's table.
    pub table: String,
    /// The column's name.
    pub column: String,
    /// The column's type, as the database spells it, or the engine of its table.
    pub found: String,
    /// The fault of the column.
    pub problem: String,
    /// How many of its values cannot be converted.
    pub unconvertible: u64,
    /// A query that lists the values that cannot be converted or would become equal; `None` if there are none.
    pub query: Option<String>,
    /// Why the script does not convert the column; `None` if it does.
    pub left_alone: Option<String>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The script's first line explains how to run it.
        if let Some(first) = self.script.first() {
            writeln!(f, "{first}")?;
        }
        for finding in &self.findings {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::columns::NOT_PLAIN;

    #[test]
    fn names_cannot_leave_their_comment_or_control_the_terminal() {
        let finding = Finding {
            table: "a\nDROP TABLE victim; --".into(),
            column: "b\r\u{1b}[31m\u{9b}\u{2028}\u{202e}c".into(),
            found: "TEXT\u{85}\0".into(),
            problem: "it's \"wrong\"".into(),
            unconvertible: 0,
            query: None,
            left_alone: Some(NOT_PLAIN.into()),
        };
        let report = Report { checked: 1, findings: vec![finding], script: Vec::new() };
        let printed = report.to_string();
        assert_eq!(printed.lines().count(), 2, "{printed}");
        assert!(printed.chars().all(|c| c == '\n' || !c.is_control()));
        assert!(!printed.contains(['\u{2028}', '\u{202e}']));
        assert!(printed.starts_with("-- a\\nDROP TABLE victim; --.b\\r\\u{1b}[31m"));
        assert!(printed.contains("it's \"wrong\""));
    }
}

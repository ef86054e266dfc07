use std::fmt;

use serde::Serialize;

use crate::names::Escaped;

/// What is wrong with the key columns of a schema, and the SQL that fixes it.
///
/// `Display` is a script of SQL with the findings as comments: review it, stop the application, back up, run it. It
/// loses nothing: it converts all values of a column or changes nothing, whichever client runs it, and keeps the
/// old rows in a table of another name.
#[derive(Debug, Default, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// How many key columns were looked at.
    pub checked: usize,
    /// What is wrong.
    pub findings: Vec<Finding>,
    /// The statements that fix what a script can fix, with comments among them.
    pub script: Vec<String>,
}

/// One key column that is not what it should be.
#[derive(Debug, Serialize)]
#[non_exhaustive]
pub struct Finding {
    /// The column's table.
    pub table: String,
    /// The column.
    pub column: String,
    /// Its type, as the database writes it.
    pub found: String,
    /// What is wrong.
    pub fault: String,
    /// How many values cannot be converted.
    pub unconvertible: u64,
    /// The query that lists the values which cannot be converted, if there are any.
    pub query: Option<String>,
    /// Why the script leaves the column alone, if it does.
    pub left_alone: Option<String>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The script's first line says how to run it.
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
                Escaped(&finding.fault)
            )?;
            if let Some(reason) = &finding.left_alone {
                writeln!(f, "--   The script leaves it alone: {}", Escaped(reason))?;
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
    fn no_name_leaves_its_comment_or_steers_the_terminal() {
        let finding = Finding {
            table: "a\nDROP TABLE victim; --".into(),
            column: "b\r\u{1b}[31m\u{9b}\u{2028}\u{202e}c".into(),
            found: "TEXT\u{85}\0".into(),
            fault: "it's \"wrong\"".into(),
            unconvertible: 0,
            query: None,
            left_alone: Some(NOT_PLAIN.into()),
        };
        let report = Report {
            checked: 1,
            findings: vec![finding],
            script: Vec::new(),
        };
        let printed = report.to_string();
        assert_eq!(printed.lines().count(), 2, "{printed}");
        assert!(printed.chars().all(|c| c == '\n' || !c.is_control()));
        assert!(!printed.contains(['\u{2028}', '\u{202e}']));
        assert!(printed.starts_with("-- a\\nDROP TABLE victim; --.b\\r\\u{1b}[31m"));
        assert!(printed.contains("it's \"wrong\""));
    }
}

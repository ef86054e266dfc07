use std::fmt::Display;

use anstream::println;
use anstyle::{AnsiColor, Reset, Style};
use comfy_table::presets::UTF8_BORDERS_ONLY;
use comfy_table::{Attribute, Cell, Color, ColumnConstraint, ContentArrangement, Table};
use opaque_id_sqlx::inspect::inspect;

use crate::Result;

const HEADING: Style = AnsiColor::Cyan.on_default().bold();
const NOTE: Style = Style::new().dimmed();

pub(crate) fn heading(text: &str) {
    println!("\n{HEADING}{text}{Reset}");
}

pub(crate) fn note(text: &str) {
    println!("{NOTE}{text}{Reset}");
}

/// On a narrow terminal, only column `wraps` wraps.
pub(crate) fn table<const N: usize>(
    columns: [&str; N],
    wraps: usize,
    rows: impl IntoIterator<Item = [String; N]>,
) {
    let mut table = Table::new();
    table.load_style(UTF8_BORDERS_ONLY).set_content_arrangement(ContentArrangement::Dynamic);
    table.set_header(columns.map(|column| Cell::new(column).add_attribute(Attribute::Bold)));
    for row in rows {
        table.add_row(row.into_iter().enumerate().map(|(i, text)| {
            let cell = Cell::new(text);
            if i == N - 1 { cell.fg(Color::Green) } else { cell }
        }));
    }
    for (i, column) in table.column_iter_mut().enumerate() {
        if i != wraps {
            column.set_constraint(ColumnConstraint::ContentWidth);
        }
    }
    println!("{table}");
}

/// The reason is as precise as that of `opaque-id inspect`.
pub(crate) fn refused<V, E: Display>(
    what: &str,
    id: impl Display,
    by: &str,
    result: std::result::Result<V, E>,
) -> Result<[String; 3]> {
    let Err(error) = result else {
        return Err(format!("{what} was accepted").into());
    };
    let problem = inspect(&id.to_string()).problem;
    let reason = problem.map_or(error.to_string(), |problem| format!("{error}\n{problem}"));
    Ok([format!("{what}\n{id}"), by.into(), reason])
}

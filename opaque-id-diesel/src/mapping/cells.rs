use diesel::QueryResult;
use diesel::deserialize::{self, QueryableByName};
use diesel::result::Error;
use diesel::row::{Field, NamedRow, Row};
use opaque_id_sql::statement::{Answer, Cell, Column};

use super::run::SupportedBackend;

/// A row of a statement that diesel does not know at compile time.
pub(crate) struct Cells(Vec<Cell>);

impl<DB: SupportedBackend> QueryableByName<DB> for Cells {
    fn build<'a>(row: &impl NamedRow<'a, DB>) -> deserialize::Result<Self> {
        let cells = (0..row.field_count()).map(|i| {
            let field = Row::get(row, i).ok_or("expected a column, found none")?;
            DB::cell(field.value().ok_or("expected a value, found NULL")?)
        });
        cells.collect::<deserialize::Result<_>>().map(Self)
    }
}

pub(crate) fn answer(columns: &[Column], rows: Vec<Cells>) -> QueryResult<Answer> {
    let rows = rows.into_iter().map(|Cells(cells)| {
        if cells.len() != columns.len() {
            let (expected, found) = (columns.len(), cells.len());
            let message = format!("expected {expected} columns, found {found}");
            return Err(Error::DeserializationError(message.into()));
        }
        let cells = columns.iter().zip(cells);
        let cells = cells.map(|(column, cell)| column.read(cell));
        cells
            .collect::<Result<_, _>>()
            .map_err(|error| Error::DeserializationError(Box::new(error)))
    });
    rows.collect::<QueryResult<_>>().map(Answer::Rows)
}

//! The table of all sequences, and the call that allocates a block: an upsert of the resource's row that
//! returns the block's last number. On MySQL this is the last insert id. A second statement reads it for ORMs
//! that do not return it.

use std::sync::Arc;

use opaque_id_core::OpaqueId;
use opaque_id_core::key::StructuredKey;

use super::blocks::Blocks;
use super::error::{Refusal, SequenceError};
use crate::call::{Call, Session};
use crate::dialect::Dialect;
use crate::statement::{Answer, Cell, Column, Statement, Value};

/// Returns the statement of a migration that creates the table of all sequences, `opaque_id_sequences`.
#[must_use]
pub fn create_sql(dialect: Dialect) -> String {
    let name = match dialect {
        Dialect::Postgres | Dialect::Sqlite => "VARCHAR(63)",
        Dialect::MySql => "VARCHAR(63) CHARACTER SET ascii COLLATE ascii_bin",
    };
    format!(
        "CREATE TABLE IF NOT EXISTS opaque_id_sequences (\n    name {name} NOT NULL PRIMARY KEY,\n    used BIGINT NOT NULL\n){};\n",
        dialect.engine_clause()
    )
}

mod sql {
    use std::sync::{Arc, LazyLock};

    type Sql = LazyLock<Arc<str>>;

    pub(super) static TAKE_POSTGRES: Sql = LazyLock::new(|| {
        Arc::from(
            "INSERT INTO opaque_id_sequences AS s (name, used) VALUES ($1, CAST($2 AS int8)) \
             ON CONFLICT (name) DO UPDATE SET used = s.used + excluded.used RETURNING used",
        )
    });
    pub(super) static TAKE_SQLITE: Sql = LazyLock::new(|| {
        Arc::from(
            "INSERT INTO opaque_id_sequences AS s (name, used) VALUES (?1, ?2) \
             ON CONFLICT (name) DO UPDATE SET used = s.used + excluded.used RETURNING used",
        )
    });
    pub(super) static TAKE_MYSQL: Sql = LazyLock::new(|| {
        Arc::from(
            "INSERT INTO opaque_id_sequences (name, used) VALUES (?, LAST_INSERT_ID(?)) \
             ON DUPLICATE KEY UPDATE used = LAST_INSERT_ID(used + ?)",
        )
    });
    pub(super) static READ_END: Sql =
        LazyLock::new(|| Arc::from("SELECT CAST(LAST_INSERT_ID() AS SIGNED) LIMIT 1"));
}

const END: &[Column] = &[Column::Integer];

impl<T: OpaqueId<Key = StructuredKey>> Blocks<T> {
    /// Returns the call that takes `count` ids from the remaining blocks. It allocates a block if too few
    /// numbers remain, and another one if other tasks have used it up meanwhile.
    pub fn take(&self, count: usize) -> Call<'_, Vec<T::Internal>, Refusal> {
        Call::new(self.retries_for(), move |session| async move {
            // A rollback would return the transaction's numbers, and the next process would get them again.
            if session.connection().is_some_and(|connection| connection.is_in_transaction) {
                return Err(SequenceError::InTransaction);
            }
            loop {
                let size = match self.ids(count)? {
                    Ok(ids) => return Ok(ids),
                    Err(size) => size,
                };
                let end = allocate::<T>(&session, size).await;
                let block = end.and_then(|end| {
                    let end = end.checked_add(1)?;
                    let start = end.checked_sub(size.unsigned_abs())?;
                    (start > 0).then_some(start..end)
                });
                self.add(block.ok_or(SequenceError::Exhausted)?);
            }
        })
    }
}

async fn allocate<T: OpaqueId>(session: &Session, size: i64) -> Option<u64> {
    let (name, size) = (Value::Text(T::DOMAIN.to_owned()), Value::Integer(size));
    let (sql, values, columns) = match session.connect().await.dialect {
        Dialect::Postgres => (&sql::TAKE_POSTGRES, vec![name, size], END),
        Dialect::Sqlite => (&sql::TAKE_SQLITE, vec![name, size], END),
        Dialect::MySql => (&sql::TAKE_MYSQL, vec![name, size.clone(), size], &[][..]),
    };
    let mut answer = session.run(Statement::new(Arc::clone(sql), values, columns)).await;
    // Not every ORM returns MySQL's last insert id.
    if let Answer::Changed { insert_id: None, .. } = answer {
        answer = session.run(Statement::new(Arc::clone(&sql::READ_END), Vec::new(), END)).await;
    }
    match answer {
        Answer::Changed { insert_id, .. } => insert_id,
        Answer::Rows(rows) => match rows.first().map(Vec::as_slice) {
            Some([Cell::Integer(end)]) => u64::try_from(*end).ok(),
            _ => None,
        },
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use opaque_id_core::resource::InternalId;

    use super::*;
    use crate::call::{ConnectionState, Reply};

    #[derive(OpaqueId)]
    #[opaque_id(prefix = "order", key = StructuredKey)]
    struct Order;

    #[test]
    fn a_block_ends_where_the_database_says() {
        let blocks = Blocks::<Order>::new().block(10);
        let mysql = ConnectionState { dialect: Dialect::MySql, is_in_transaction: false };
        let mut call = blocks.take(10);
        for insert_id in [None, Some(30)] {
            assert!(call.next(mysql).is_continue());
            call.reply(Reply::Answer(Answer::Changed { rows: 1, insert_id }));
        }
        let ControlFlow::Break(Ok(ids)) = call.next(mysql) else { panic!("expected ids") };
        assert!(ids.iter().map(|id| id.as_repr().as_u64_pair().0).eq(21..31));
    }
}

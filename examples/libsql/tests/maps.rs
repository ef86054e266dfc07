//! Maps, columns and sequences in a file of libSQL.

use libsql::{Builder, Connection};
use libsql_adapter::{Sequence, UuidColumn, UuidMap};
use opaque_id_core::{External, Internal, OpaqueId};
use opaque_id_sql::{Dialect, SequenceError};
use tempfile::TempDir;

type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

#[derive(OpaqueId)]
#[opaque_id(prefix = "order", key = i64, form = "mapped")]
struct Order;

#[derive(OpaqueId)]
#[opaque_id(prefix = "item", key = StructuredKey)]
struct Item;

const TASKS: usize = 8;

/// Returns a database in a file with the tables of these statements, and connections to it.
async fn database(sql: &str) -> Result<(TempDir, Vec<Connection>)> {
    let folder = tempfile::tempdir()?;
    let database = Builder::new_local(folder.path().join("shop.db")).build().await?;
    let connections: Vec<_> =
        (0..TASKS).map(|_| database.connect()).collect::<libsql::Result<_>>()?;
    connections[0].execute_batch(sql).await?;
    Ok((folder, connections))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn each_uuid_has_one_integer_whoever_inserts_it() -> Result {
    for map in [UuidMap::<Order>::unique("order_ids"), UuidMap::hashed("order_ids")] {
        let (_folder, connections) = database(&map.create_sql(Dialect::Sqlite)).await?;
        let uuids: Vec<External<Order>> = (0..200).map(|_| External::random()).collect();
        let tasks: Vec<_> = connections
            .into_iter()
            .map(|connection| {
                let (map, uuids) = (map.clone(), uuids.clone());
                tokio::spawn(async move {
                    let mut ids = Vec::new();
                    for uuid in uuids {
                        ids.push(map.get_or_insert(&connection, uuid).await?);
                    }
                    Result::Ok((connection, ids))
                })
            })
            .collect();
        let mut seen: Option<Vec<Internal<Order>>> = None;
        for task in tasks {
            let (connection, ids) = task.await??;
            assert_eq!(*seen.get_or_insert_with(|| ids.clone()), ids);
            assert_eq!(map.to_external(&connection, ids[7]).await?, Some(uuids[7]));
        }
        let mut ids = seen.ok_or("no task")?;
        ids.sort_unstable();
        ids.dedup();
        assert_eq!(ids.len(), uuids.len());
    }
    Ok(())
}

#[tokio::test]
async fn a_call_in_a_transaction_is_part_of_it() -> Result {
    let map = UuidMap::<Order>::unique("order_ids");
    let (_folder, connections) = database(&map.create_sql(Dialect::Sqlite)).await?;
    let transaction = connections[0].transaction().await?;
    let (uuid, id) = map.issue(&transaction).await?;
    assert_eq!(map.find(&transaction, uuid).await?, Some(id));
    assert_eq!(map.find(&connections[1], uuid).await?, None);
    transaction.rollback().await?;
    assert_eq!(map.find(&connections[0], uuid).await?, None);
    Ok(())
}

#[tokio::test]
async fn a_column_of_uuids_finds_its_rows() -> Result {
    let sql = "CREATE TABLE orders (id INTEGER PRIMARY KEY, public_id BLOB NOT NULL UNIQUE)";
    let (_folder, connections) = database(sql).await?;
    let column = UuidColumn::<Order>::new("orders", "id", "public_id");
    let uuid = External::random();
    let insert = "INSERT INTO orders (id, public_id) VALUES (7, ?)";
    connections[0].execute(insert, [uuid.to_uuid().as_bytes().to_vec()]).await?;
    let id = Internal::from_key(7)?;
    assert_eq!(column.find(&connections[0], uuid).await?, Some(id));
    assert_eq!(column.to_external(&connections[0], id).await?, Some(uuid));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn no_number_is_allocated_twice() -> Result {
    let (_folder, connections) = database(&Sequence::<Item>::create_sql(Dialect::Sqlite)).await?;
    let transaction = connections[0].transaction().await?;
    let refused = Sequence::<Item>::new().next(&transaction).await;
    assert!(matches!(refused, Err(SequenceError::InTransaction)), "{refused:?}");
    transaction.rollback().await?;

    let tasks: Vec<_> = connections
        .into_iter()
        .map(|connection| {
            tokio::spawn(async move {
                let sequence = Sequence::<Item>::new().block(10);
                sequence.next_all(&connection, 500).await
            })
        })
        .collect();
    let mut numbers = Vec::new();
    for task in tasks {
        numbers.extend(task.await??.iter().map(|id| id.expose_key().sequence()));
    }
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), TASKS * 500);
    Ok(())
}

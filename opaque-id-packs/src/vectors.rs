//! The tables of fixtures/packs-v1.json, read and written as by clients.

use std::sync::Arc;
use std::time::Instant;

use opaque_id_core::{Keyring, MasterSecret};
use opaque_id_sql::statement::Cell;
use uuid::Uuid;

use crate::error::TableError;
use crate::format::vectors::{self, Body, PackedRow, bytes, number};
use crate::format::{FormatError, GroupKeys, Pack, Row, Value};
use crate::group::Group;
use crate::id_column::IdColumn;
use crate::index::Normalizer;
use crate::name::TableName;
use crate::stored::StoredRow;
use crate::table::{Context, Table};

fn context() -> Context {
    Context { began: Instant::now(), is_in_transaction: true }
}

fn opened(vector: &vectors::Table) -> Table {
    let name = TableName::new(&vector.table).context(&vector.context);
    let keyring = vector.keyring().into();
    let table = Table::new(keyring, &vector.domain, name, IdColumn::Uuid, None).expect("a table");
    let meta = vector.bodies.iter().filter(|body| matches!(body.kind, 3 | 4));
    let meta = meta.map(|body| (u16::try_from(body.id()).expect("a number"), stored(body)));
    assert_eq!(table.learn(context(), meta.collect()), Ok(true));
    table
}

fn keys(table: &Table, vector: &vectors::Table, are_erased: bool) -> GroupKeys {
    let keys = vector.bodies.iter().filter(|body| body.kind == 6 && body.is_mark() == are_erased);
    let cells = keys.map(|body| {
        let id = Cell::Uuid(Uuid::from_u128(body.id()));
        let (version, body) = (Cell::Integer(body.version), Cell::Bytes(body.body()));
        vec![Cell::Integer(0), id.clone(), version, body, id]
    });
    let mut keys = GroupKeys::default();
    table.learn_keys(context(), cells.collect(), true, &mut keys).expect("keys");
    keys
}

fn stored(body: &Body) -> StoredRow {
    StoredRow::new(body.id(), body.version, body.body())
}

fn value(bytes_of: &str, group: Option<&str>) -> Value {
    Value::new(bytes(bytes_of), group.map(number))
}

#[test]
fn fingerprints_are_those_of_the_vectors() {
    for vector in vectors::indexes() {
        let master = MasterSecret::from_hex(&vector.master).expect("a secret");
        let keyring = Keyring::builder().sealing(3, master).build().expect("a secret");
        let name = TableName::new(&vector.column).context(&vector.context);
        let ids = IdColumn::Uuid;
        let table = Table::new(keyring.into(), &vector.domain, name, ids, None).expect("a table");
        let key = table.derive_index().expect("a key");
        assert_eq!(key.as_bytes(), bytes(&vector.key));
        for (normalizer, text, fingerprint) in &vector.fingerprints {
            let normalizer = match &**normalizer {
                "exact" => Normalizer::Exact,
                "nfc" => Normalizer::Nfc,
                _ => Normalizer::Caseless,
            };
            assert_eq!(key.fingerprint(&normalizer.apply(text)), bytes(fingerprint), "{text}");
        }
    }
}

#[test]
fn settings_orders_and_groups_match_the_vectors() {
    for vector in vectors::tables() {
        let table = opened(&vector);
        let state = table.opened().expect("settings");
        let expected: serde_json::Value = serde_json::from_str(&vector.settings).expect("JSON");
        assert_eq!(serde_json::to_value(&state.contents).expect("JSON"), expected);
        assert_eq!(state.contents.order.is_some(), !vector.order.is_empty());
        for (key, place) in &vector.order {
            assert_eq!(state.place(number(key)), number(place));
            assert_eq!(state.number(number(place)), number(key));
        }
        assert_eq!(state.contents.groups.is_some(), !vector.groups.is_empty());
        for (group, id) in &vector.groups {
            assert_eq!(state.group_id(Group::new(number(group))), Some(number(id)));
        }
    }
}

#[test]
fn rows_and_packs_come_out_and_are_written_again() {
    for vector in vectors::tables() {
        let table = opened(&vector);
        let state = table.opened().expect("settings");
        let groups = keys(&table, &vector, false);
        let view = table.view(context(), &groups).expect("settings");
        for body in vector.bodies.iter().filter(|body| body.kind == 1) {
            let row = body.row.as_deref().map(|row| value(row, body.group.as_deref()));
            let row = row.map_or(Row::Deleted, Row::Value);
            assert_eq!(view.open_row(&stored(body)), Ok(row.clone()));
            let again = view.encrypt_row(body.id(), &row).expect("a row");
            assert_eq!(view.open_row(&again), Ok(row));
        }
        for body in vector.bodies.iter().filter(|body| body.kind == 2) {
            let rows = body.rows.as_ref().expect("rows").iter();
            let rows =
                rows.map(|PackedRow(key, row, group)| (number(key), value(row, group.as_deref())));
            let end = body.end.as_deref().map(number);
            let pack = Arc::new(Pack { id: body.id(), end, rows: rows.collect() });
            assert_eq!(view.open_pack(&stored(body)), Ok(Arc::clone(&pack)));
            for (key, row) in &pack.rows {
                let found = view.find_in_pack(&stored(body), *key);
                assert_eq!(found, Ok((end, Some(row.clone()))));
            }
            let padding = state.contents.settings.pack_padding;
            let again = pack.encode(state.pack_codec(), padding, &groups).expect("a pack");
            let place = (body.id(), body.version);
            let again = view.encrypt_pack(state.pack_codec(), place, &again);
            assert_eq!(view.open_pack(&again), Ok(pack));
        }
    }
}

#[test]
fn groups_are_read_with_their_own_keys_only() {
    let vector = vectors::tables().pop().expect("a table with groups");
    let table = opened(&vector);
    let known = keys(&table, &vector, false);
    let marks = keys(&table, &vector, true);
    let ids: Vec<_> = vector.groups.iter().map(|(_, id)| number(id)).collect();
    assert!(ids.len() >= 3);
    let source = |problem| match problem {
        TableError::Unreadable { source, .. } => source,
        problem => panic!("{problem}"),
    };
    for body in &vector.bodies {
        let is_pack = body.kind == 2;
        if !is_pack && body.kind != 1 {
            continue;
        }
        let read = |groups: &GroupKeys| {
            let view = table.view(context(), groups)?;
            match is_pack {
                true => view.open_pack(&stored(body)).map(|pack| pack.rows.clone()),
                false => view.open_row(&stored(body)).map(|row| match row {
                    Row::Value(value) => vec![(body.id(), value)],
                    Row::Deleted => Vec::new(),
                }),
            }
        };
        let rows = read(&known).expect("rows");
        assert_eq!(
            read(&marks),
            Ok(rows.iter().filter(|(_, row)| row.group.is_none()).cloned().collect())
        );
        for (place, id) in ids.iter().enumerate() {
            let is_of = |group: Option<u128>| group == Some(*id);
            let mut others = known.clone();
            others.insert(*id, None);
            let rest = rows.iter().filter(|(_, row)| !is_of(row.group)).cloned().collect();
            assert_eq!(read(&others), Ok(rest));

            let mut without = GroupKeys::default();
            for other in ids.iter().filter(|other| *other != id) {
                without.insert(*other, known.key(*other).cloned());
            }
            let other = ids[(place + 1) % ids.len()];
            let mut swapped = known.clone();
            swapped.insert(*id, known.key(other).cloned());
            if rows.iter().any(|(_, row)| is_of(row.group)) {
                assert_eq!(read(&without).map_err(source), Err(FormatError::NoGroupKey));
                assert_eq!(read(&swapped).map_err(source), Err(FormatError::NotGenuine));
            }
        }
    }
}

//! The requirements of maps, sequences and public ids for a table. Without a unique index nothing fails at once.

use std::collections::BTreeSet;

use crate::names::{is_excluded, is_left_out};
use crate::report::Finding;
use crate::row::row;

pub(crate) struct Part<'r> {
    pub(crate) table: &'r str,
    pub(crate) column: &'r str,
    pub(crate) found: &'r str,
    pub(crate) is_nullable: bool,
    pub(crate) reuses: bool,
}

const SEQUENCES: &str = "opaque_id_sequences";

row! {
    struct Index {
        table: String,
        is_unique: bool,
        columns: Option<String>,
    }
}

/// The columns are in alphabetical order.
pub(crate) fn is_map(columns: &[&str]) -> bool {
    let rest = columns.strip_prefix(&["hash"]).unwrap_or(columns);
    matches!(rest, ["id", "uuid"] | ["id", "resource", "uuid"])
}

/// Returns whether the table belongs to a map, sequences, packs or an encrypted column. Each column comes
/// after its table.
pub(crate) fn is_ours<'c>(
    table: &str,
    columns: impl Iterator<Item = (&'c String, &'c String)>,
) -> bool {
    let of_table = columns.filter(|(other, _)| *other == table);
    let columns = of_table.map(|(_, column)| &**column).collect::<BTreeSet<_>>();
    match Vec::from_iter(columns)[..] {
        ["name", "used"] => table == SEQUENCES,
        ["slot"] => table == "opaque_id_slots",
        ["body", "id", "version"] => {
            ["_recent", "_packs", "_meta", "_keys"].iter().any(|end| table.ends_with(end))
        }
        ref columns => is_map(columns),
    }
}

/// `types` are the types of integers and of UUIDs.
pub(crate) fn findings<'r>(
    parts: impl Iterator<Item = Part<'r>>,
    indexes: &[Index],
    types: [&str; 2],
    exclude: &[String],
) -> Vec<Finding> {
    let mut parts: Vec<_> = parts.filter(|part| !is_left_out(part.table)).collect();
    parts.dedup_by_key(|part| (part.table, part.column));
    let mut findings = Vec::new();
    for parts in parts.chunk_by(|a, b| a.table == b.table) {
        let mut names: Vec<_> = parts.iter().map(|part| part.column).collect();
        names.sort_unstable();
        let is_map = is_map(&names);
        let is_hashed = names[0] == "hash";
        names.retain(|name| ["resource", "uuid"].contains(name));
        let of_table = indexes.iter().filter(|index| index.table == parts[0].table);
        let of_table: Vec<_> = of_table
            .map(|index| {
                let columns = index.columns.as_deref().unwrap_or_default().split(',');
                (index.is_unique, columns.collect::<Vec<_>>())
            })
            .collect();
        let has = |wanted: &[&str]| {
            let is_wanted = |columns: &[&str]| {
                columns.len() == wanted.len() && wanted.iter().all(|name| columns.contains(name))
            };
            of_table.iter().any(|(is_unique, columns)| *is_unique && is_wanted(columns))
        };
        let finds_uuids = match is_hashed {
            true => of_table.iter().any(|(_, columns)| columns[0] == "hash"),
            false => has(&names),
        };
        let is_of_sequences = parts[0].table == SEQUENCES;
        for part in parts {
            let ty = match part.column {
                "id" => types[0],
                "uuid" => types[1],
                _ => "",
            };
            let found = part.found.to_lowercase();
            let is_wrong = !found.starts_with(ty);
            let problem = match part.column {
                "public_id" if !has(&["public_id"]) => {
                    "without a unique index two rows may have the same public id, and each look-up reads the whole table"
                }
                "name" if is_of_sequences && !has(&["name"]) => {
                    "without its primary key every process may get the same numbers"
                }
                "used"
                    if is_of_sequences
                        && !found.starts_with("bigint")
                        && !found.starts_with(types[0]) =>
                {
                    "a sequence needs another type"
                }
                "name" | "used" if is_of_sequences && part.is_nullable => {
                    "a sequence needs NOT NULL"
                }
                _ if !is_map => continue,
                "id" if !has(&["id"]) => {
                    "without a unique index of its own, two UUIDs may get one integer"
                }
                "uuid" if !finds_uuids => {
                    "a map needs its index; without a unique one, one UUID may get two integers"
                }
                "id" if part.reuses => {
                    "without AUTOINCREMENT the integer of a deleted UUID is given to another one"
                }
                "id" | "uuid" if is_wrong => "a map needs another type",
                "uuid" | "hash" | "resource" if part.is_nullable => "a map needs NOT NULL",
                _ => continue,
            };
            if is_excluded(exclude, part.table, part.column) {
                continue;
            }
            findings.push(Finding {
                table: part.table.to_owned(),
                column: part.column.to_owned(),
                found: part.found.to_owned(),
                problem: problem.to_owned(),
                unconvertible: 0,
                query: None,
                left_alone: Some(
                    match is_map {
                        true => {
                            "change the table into that of `opaque-id sql mapping`, or exclude it if it is no map"
                        }
                        false if is_of_sequences => {
                            "change the table into that of `opaque-id sql sequences`"
                        }
                        false => "create the index, which fails if two rows have the same",
                    }
                    .to_owned(),
                ),
            });
        }
    }
    findings
}

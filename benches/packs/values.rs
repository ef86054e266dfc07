//! The bytes of values in a column: in encrypted columns, and without them in applications.

use opaque_id_core::Keyring;
use opaque_id_packs::Settings;
use opaque_id_sqlx::{Dialect, MasterSecret};
use opaque_id_tests::Result;

use crate::grouped::in_memory;
use crate::report::{DICTIONARY, ENCRYPTED, Report};
use crate::table::{Column, Set, id};

const GCM: usize = 12 + 16;

pub(crate) async fn values(set: &Set, dictionary: usize, report: &mut Report) -> Result {
    let pool = in_memory(Column::create_sql(Dialect::Sqlite, "bodies")).await?;
    let keyring = Keyring::builder().sealing(0, MasterSecret::generate()).build()?;
    let column = Column::open(&pool, &keyring, "bodies", Settings::default()).await?;
    let values = &set.values[set.len() / 5..];
    let encrypted = || -> Result<usize> {
        let id = id(0)?;
        values.iter().map(|value| Ok(column.encrypt(id, value)?.as_bytes().len())).sum()
    };
    let without_dictionary = encrypted()?;
    column.train(&pool, set.samples(dictionary), dictionary).await?;
    let cases = [
        ("values", values.iter().map(Vec::len).sum()),
        ("base64 of AES-GCM", values.iter().map(|it| (it.len() + GCM).div_ceil(3) * 4).sum()),
        (ENCRYPTED, without_dictionary),
        (DICTIONARY, encrypted()?),
    ];
    let title = format!("{}: MB of {} values in a column", set.name, values.len());
    report.sizes(&title, &format!("values {}", set.name), cases)
}

//! Encrypted columns with a blind index on PostgreSQL: look-ups, relative to those by an index on plaintext, and the conversion of plaintext.

use std::time::Instant;

use opaque_id_packs::sqlx::EncryptedColumn;
use opaque_id_packs::{ColumnName, Conversion, Normalizer, Settings, Text};
use opaque_id_sqlx::{Dialect, Keyring, MasterSecret};
use opaque_id_tests::Result;
use opaque_id_tests::random::Random;
use sqlx::PgPool;

use crate::report::{PLAINTEXT, Report, Turn};
use crate::rows::{Id, Record};
use crate::table::id;
use crate::{Plan, is_smoke};

type Emails = EncryptedColumn<Record, String, Text>;

const TABLES: &str = "
    CREATE TABLE plaintexts (id UUID PRIMARY KEY, email TEXT NOT NULL UNIQUE);
    CREATE TABLE people (id UUID PRIMARY KEY, email TEXT, sealed BYTEA, email_index BYTEA UNIQUE);";

pub(crate) async fn columns(url: &str, plan: Plan, report: &mut Report) -> Result {
    let (count, lookups) = if is_smoke() { (200, 10) } else { (50_000, 2_000) };
    let pool = PgPool::connect(url).await?;
    let tables = Emails::create_sql(Dialect::Postgres, "people_email") + TABLES;
    sqlx::raw_sql(sqlx::AssertSqlSafe(tables)).execute(&pool).await?;
    let ids: Vec<Id> = (0..count).map(id).collect::<Result<_>>()?;
    let emails: Vec<String> = (0..count).map(|i| format!("ada.{i}@example.org")).collect();
    for insert in ["INSERT INTO plaintexts", "INSERT INTO people (id, email)"] {
        let insert = format!("{insert} SELECT * FROM UNNEST($1, $2)");
        let insert = sqlx::query(sqlx::AssertSqlSafe(insert));
        insert.bind(&ids).bind(&emails).execute(&pool).await?;
    }
    let keyring = Keyring::builder().sealing(0, MasterSecret::generate()).build()?;
    let column = Emails::open(&pool, &keyring, "people_email", Settings::default()).await?;
    let column =
        column.with_index(&pool, |email: &String| Normalizer::Caseless.apply(email)).await?;

    let name = ColumnName::new("people", "sealed").plaintext("email").index("email_index");
    let start = Instant::now();
    let converted = column.convert(&pool, &name, Conversion::Encrypted, |_| ()).await?;
    let rate = Turn::without_costs(converted.rows as f64 / start.elapsed().as_secs_f64());
    assert_eq!(converted.encrypted, count as u64);
    report.begin("columns: converted rows, and look-ups by a value, per second of one client");
    report.add("columns", 1, &[("converted", vec![rate])])?;

    let mut turns = [const { Vec::new() }; 2];
    let mut random = Random(7);
    for _ in 0..plan.rounds {
        let places: Vec<_> = (0..lookups).map(|_| random.below(count)).collect();
        for (is_index, turns) in [false, true].into_iter().zip(&mut turns) {
            let start = Instant::now();
            for place in &places {
                let email = &emails[*place];
                let found: Id = match is_index {
                    false => {
                        sqlx::query_scalar("SELECT id FROM plaintexts WHERE email = $1").bind(email)
                    }
                    true => sqlx::query_scalar("SELECT id FROM people WHERE email_index = $1")
                        .bind(column.fingerprint(email)?),
                }
                .fetch_one(&pool)
                .await?;
                assert_eq!(found, ids[*place]);
            }
            turns.push(Turn::without_costs(lookups as f64 / start.elapsed().as_secs_f64()));
        }
    }
    let [plaintext, index] = turns;
    report.add("columns", 1, &[(PLAINTEXT, plaintext), ("blind index", index)])
}

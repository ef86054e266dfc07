//! Packs on each database, relative to an encrypted column with the same dictionary in an ordinary table. One client takes turns on the
//! cases.

use std::sync::Arc;
use std::time::Instant;

use opaque_id_packs::Settings;
use opaque_id_tests::Result;
use opaque_id_tests::engine::Engine;
use opaque_id_tests::random::Random;

use crate::report::{COLUMN, Report, Turn};
use crate::rows::Rows;
use crate::table::{Act, RANGE, Set};
use crate::turns::Bench;
use crate::{Plan, is_smoke};

const ROWS: usize = 20_000;
const INSERTED: usize = 3_000;

const CASES: [&str; 5] = ["inserts", "merged", "point reads", "ranges", "updates"];

pub(crate) async fn databases<DB: Rows>(
    kind: Engine,
    url: &str,
    set: &Arc<Set>,
    plan: Plan,
    report: &mut Report,
) -> Result {
    let (count, inserted) = if is_smoke() { (1_200, 100) } else { (ROWS, INSERTED) };
    let bench = Bench::<DB>::connect(url, plan, set, 1).await?;
    let tables = [
        bench.column(set, COLUMN, true).await?,
        bench.packs(set, "in", Settings::default().pack_bytes(1_900), true).await?,
        bench.packs(set, "default", Settings::default(), true).await?,
        bench.packs(set, "large", Settings::default().pack_bytes(15_960), true).await?,
    ];
    for table in &tables {
        table.fill(&bench.pool, count).await?;
    }
    let mut turns = CASES.map(|_| [const { Vec::new() }; 4]);
    let mut random = Random(7);
    for round in 0..plan.rounds {
        let first = count + round * inserted;
        for (i, table) in tables.iter().enumerate() {
            let start = Instant::now();
            let rate = || Turn::without_costs(inserted as f64 / start.elapsed().as_secs_f64());
            table.insert(&bench.pool, first..first + inserted).await?;
            turns[0][i].push(rate());
            // A row is inserted and merged. The baseline is the same row in a column.
            table.merge(&bench.pool).await?;
            turns[1][i].push(rate());
        }
        let places: Vec<_> = (0..inserted / 10).map(|_| random.below(count)).collect();
        let starts: Vec<_> = (0..10).map(|_| random.below(count - RANGE)).collect();
        let acts = [(Act::Get, &places), (Act::Range, &starts), (Act::Replace, &places)];
        for ((act, places), turns) in acts.into_iter().zip(&mut turns[2..]) {
            for (table, turns) in tables.iter().zip(turns) {
                let start = Instant::now();
                for place in places {
                    table.act(&bench.pool, act, *place).await?;
                }
                turns
                    .push(Turn::without_costs(places.len() as f64 / start.elapsed().as_secs_f64()));
            }
        }
        for table in &tables[1..] {
            table.merge(&bench.pool).await?;
        }
    }
    report.begin(&format!("{kind}: rows and ranges per second of one client"));
    for (case, [column, inline, default, large]) in CASES.iter().zip(turns) {
        report.add(
            &format!("{kind} {case}"),
            1,
            &[(COLUMN, column), ("inline", inline), ("default", default), ("large", large)],
        )?;
    }
    Ok(())
}

use std::sync::Arc;

use opaque_id_benches::is_smoke;
use opaque_id_packs::Settings;
use opaque_id_tests::Result;

use crate::report::{DICTIONARY, ENCRYPTED, GENERIC, Report};
use crate::table::{Act, Set, Table};
use crate::turns::{Bench, Case, Merging};
use crate::{WRITERS, is_chosen};

/// A table that is written through is filled row by row.
pub(crate) const WRITTEN: usize = 16_000;

/// The paper's packs have this size.
pub(crate) const HOT: usize = 50;

pub(crate) const TABLES: [&str; 6] = ["plain", ENCRYPTED, DICTIONARY, "inline", "large", "default"];
pub(crate) const READS: [(Act, &str); 2] = [(Act::Get, "point reads"), (Act::Range, "ranges")];

impl Bench {
    pub(crate) async fn unlimited(&self, sets: &[Arc<Set>], report: &mut Report) -> Result {
        if !is_smoke() {
            // PostgreSQL logs full pages once per checkpoint, and the figures would then count the bytes of checkpoints.
            self.execute("ALTER SYSTEM SET full_page_writes = off").await?;
            self.execute("SELECT pg_reload_conf()").await?;
        }
        for (i, set) in sets.iter().enumerate() {
            let groups: &[_] = match i {
                0 => &["sizes", "reads", "writes"],
                _ => &["sizes"],
            };
            if !groups.iter().any(|group| is_chosen(group)) {
                continue;
            }
            let tables = self.tables(set).await?;
            self.fill(&tables, set.len()).await?;
            self.sizes(set, &tables, report).await?;
            if i == 0 {
                self.reads(&tables, report).await?;
                self.writes(&tables, report).await?;
            }
        }
        self.appends(report).await
    }

    pub(crate) async fn tables(&self, set: &Arc<Set>) -> Result<[Arc<Table>; 6]> {
        Ok([
            self.plain(set, "plain").await?,
            self.column(set, ENCRYPTED, false).await?,
            self.column(set, DICTIONARY, true).await?,
            self.packs(set, "inline", Settings::default().pack_bytes(1_900), true).await?,
            self.packs(set, "large", Settings::default().pack_bytes(15_960), true).await?,
            self.packs(set, "default", Settings::default(), true).await?,
        ])
    }

    pub(crate) async fn sizes(
        &self,
        set: &Set,
        tables: &[Arc<Table>],
        report: &mut Report,
    ) -> Result {
        let mut sizes = vec![("values", set.values.iter().map(Vec::len).sum())];
        for (table, name) in tables.iter().zip(TABLES) {
            for relation in table.relations() {
                self.execute(&format!("VACUUM (FULL, ANALYZE) {relation}")).await?;
            }
            sizes.push((name, self.bytes(table).await?));
        }
        let title = format!("{}: MB of {} rows", set.name, set.len());
        report.sizes(&title, &format!("sizes {}", set.name), sizes)
    }

    pub(crate) async fn reads(&self, tables: &[Arc<Table>], report: &mut Report) -> Result {
        if !is_chosen("reads") {
            return Ok(());
        }
        for (act, name) in READS {
            let cases = tables.iter().zip(TABLES);
            let cases: Vec<_> = cases.map(|(table, name)| self.case(name, table, act)).collect();
            report.begin(&format!("{name} per second, all in memory"));
            self.measure(name, 1, &cases, self.plan.rounds, report).await?;
        }
        Ok(())
    }

    pub(crate) async fn writes(&self, tables: &[Arc<Table>; 6], report: &mut Report) -> Result {
        if !is_chosen("writes") {
            return Ok(());
        }
        let set = &Arc::new(Set {
            name: "written",
            values: self.set.values[..self.set.len().min(WRITTEN)].to_vec(),
        });
        let [_, encrypted, dictionary, inline, large, default] = &self.tables(set).await?;
        // A client waits for this compression.
        let through = |settings: Settings| settings.pack_level(3).write_through();
        let inline_through = &self
            .packs(set, "inline_through", through(Settings::default().pack_bytes(1_900)), true)
            .await?;
        let large_through = &self
            .packs(set, "large_through", through(Settings::default().pack_bytes(15_960)), true)
            .await?;
        let all = [encrypted, dictionary, inline, large, default, inline_through, large_through]
            .map(Arc::clone);
        self.fill(&all, set.len()).await?;
        let cases = [
            self.case(ENCRYPTED, encrypted, Act::Replace),
            self.case(DICTIONARY, dictionary, Act::Replace),
            self.case("inline: put", inline, Act::Replace),
            self.case("inline: update", inline, Act::Update),
            self.case("inline written through: put", inline_through, Act::Replace),
            self.case("inline written through: update", inline_through, Act::Update),
            self.case("default: put", default, Act::Replace),
            self.case("default: update", default, Act::Update),
            self.case("large: put", large, Act::Replace),
            self.case("large written through: put", large_through, Act::Replace),
        ];
        report.begin("updates of random rows per second");
        self.measure("updates", 1, &cases, self.plan.rounds, report).await?;

        let merged =
            |name, table| Case { merging: Merging::After, ..self.case(name, table, Act::Replace) };
        let [_, encrypted, dictionary, inline, large, default] = tables;
        let cases = [
            self.case(ENCRYPTED, encrypted, Act::Replace),
            self.case(DICTIONARY, dictionary, Act::Replace),
            merged("inline: put and merged", inline),
            merged("default: put and merged", default),
            merged("large: put and merged", large),
        ];
        report.begin("updates scattered over the whole set per second");
        self.measure("scattered updates", 1, &cases, self.plan.rounds, report).await?;

        let hot = &Arc::new(Set { name: "hot", values: self.set.values[..HOT].to_vec() });
        let recent =
            self.packs(hot, "recent", Settings::default().pack_bytes(15_960), false).await?;
        let through = self
            .packs(hot, "through", through(Settings::default().pack_bytes(15_960)), false)
            .await?;
        self.fill(&[Arc::clone(&recent), Arc::clone(&through)], hot.len()).await?;
        let cases = [(GENERIC, &through), ("put", &recent)]
            .map(|(name, table)| Case { clients: WRITERS, ..self.case(name, table, Act::Replace) });
        report.begin("writes of 16 clients to one pack per second");
        self.measure("one pack", 1, &cases, self.plan.rounds, report).await
    }

    pub(crate) async fn appends(&self, report: &mut Report) -> Result {
        if !is_chosen("appends") {
            return Ok(());
        }
        let set = &Arc::new(Set { name: "appended", values: self.set.values.clone() });
        let encrypted = self.column(set, ENCRYPTED, false).await?;
        let dictionary = self.column(set, DICTIONARY, true).await?;
        let packs = self.packs(set, "packs", Settings::default(), true).await?;
        let few = set.len() / 5;
        self.fill(&[Arc::clone(&encrypted), Arc::clone(&dictionary), Arc::clone(&packs)], few)
            .await?;
        let append = |name, table, turn, merging| Case {
            clients: WRITERS,
            turn,
            merging,
            ..self.case(name, table, Act::Append)
        };
        let long = self.plan.append;
        let cases = [
            append(ENCRYPTED, &encrypted, long / 10, Merging::None),
            append(DICTIONARY, &dictionary, long / 10, Merging::None),
            append("default with a merger", &packs, long, Merging::Beside),
        ];
        report.begin("single inserts of 16 clients per second");
        let mut turns: Vec<_> = cases.iter().map(|case| (case.name, Vec::new())).collect();
        let mut left = Vec::new();
        for _ in 0..self.plan.append_rounds {
            for (case, (_, turns)) in cases.iter().zip(&mut turns) {
                turns.push(self.turn(case).await?);
            }
            let recent = format!("SELECT COUNT(*) FROM {}_recent", packs.name);
            left.push(self.number(&recent).await? as f64);
        }
        report.add("appends", 1, &turns)?;
        report.begin("rows that are not merged yet, after each turn");
        report.left(&left)
    }

    pub(crate) async fn limited(&self, report: &mut Report) -> Result {
        if !is_smoke() {
            self.execute("ALTER SYSTEM SET autovacuum = off").await?;
            self.execute("SELECT pg_reload_conf()").await?;
        }
        self.execute("CREATE EXTENSION IF NOT EXISTS pg_prewarm").await?;
        let set = &Arc::new(Set { name: "limited", values: self.set.values.clone() });
        let tables = self.tables(set).await?;
        for copies in self.plan.copies {
            self.fill_by_one(&tables, set.len() * copies).await?;
            for relation in tables.iter().flat_map(|table| table.relations()) {
                self.execute(&format!("VACUUM (ANALYZE) {relation}")).await?;
            }
            let mut turns = READS.map(|_| Vec::new());
            for (table, name) in tables.iter().zip(TABLES) {
                self.prewarm(table).await?;
                for ((act, _), turns) in READS.into_iter().zip(&mut turns) {
                    let case = self.case(name, table, act);
                    // The first turn warms the caches.
                    self.turn(&Case { turn: case.turn, ..case.clone() }).await?;
                    let turn = self.turn(&Case { turn: case.turn * 3, ..case }).await?;
                    turns.push((name, vec![turn]));
                }
            }
            for ((_, name), turns) in READS.into_iter().zip(turns) {
                report.begin(&format!("{name} per second, {copies} copies in limited memory"));
                report.add(&format!("memory {name}"), *copies, &turns)?;
            }
        }
        Ok(())
    }
}

use metrics::{Gauge, counter, gauge};

use crate::merged::Merged;

#[expect(clippy::cast_precision_loss, reason = "a gauge is a float")]
pub(crate) fn record(table: &str, merged: &Merged) {
    let table = table.to_owned();
    let set = |gauge: Gauge, count: u64| gauge.set(count as f64);
    counter!("opaque_id_packs_merged_rows_total", "table" => table.clone()).increment(merged.rows);
    set(gauge!("opaque_id_packs_recent_rows", "table" => table.clone()), merged.rows_left);
    set(gauge!("opaque_id_packs_recent_bytes", "table" => table.clone()), merged.bytes_left);
    set(gauge!("opaque_id_packs_recent_packs", "table" => table.clone()), merged.packs_left);
    set(gauge!("opaque_id_packs_stuck_packs", "table" => table.clone()), merged.packs_stuck);
    gauge!("opaque_id_packs_recent_age_seconds", "table" => table.clone())
        .set(merged.left_for.as_secs_f64());
    gauge!("opaque_id_packs_stuck_age_seconds", "table" => table)
        .set(merged.stuck_for.as_secs_f64());
}

#[cfg(test)]
#[path = "recorded.rs"]
mod recorded;

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;
    use std::time::Duration;

    use opaque_id_core::{Keyring, MasterSecret, OpaqueId};

    use super::recorded::Recorded;
    use super::*;
    use crate::cache::{self, CacheStats};
    use crate::encoding::Json;
    use crate::name::TableName;
    use crate::order::ByKey;
    use crate::packs::Packs;
    use crate::settings::Settings;

    #[derive(OpaqueId)]
    #[opaque_id(prefix = "event")]
    struct Event;

    #[test]
    fn each_body_is_counted() {
        let recorded = Recorded::default();
        let secret = MasterSecret::generate();
        let keyring = Keyring::builder().sealing(0, secret).build().expect("a secret");
        metrics::with_local_recorder(&recorded, || {
            let name = TableName::new("events");
            let settings = Some(Settings::default());
            let opened = Packs::<Event, String, Json, ByKey>::open(keyring.into(), name, settings);
            assert!(opened.is_ok());
        });
        let cells = recorded.0.lock().expect("not poisoned");
        let counts: Vec<_> =
            cells.iter().map(|(key, cell)| (&**key, cell.load(Ordering::Relaxed))).collect();
        assert!(
            matches!(counts[..], [(key, 2)] if key.starts_with("opaque_id_packs_encrypted_total"))
        );
    }

    #[test]
    fn counts_go_on_and_gauges_show_the_last_merge() {
        let recorded = Recorded::default();
        metrics::with_local_recorder(&recorded, || {
            for rows_left in [70, 7] {
                let merged = Merged {
                    rows: 3,
                    rows_left,
                    bytes_left: 100 * rows_left,
                    packs_left: 5,
                    packs_stuck: 2,
                    left_for: Duration::from_millis(2_500),
                    stuck_for: Duration::from_millis(1_500),
                    ..Merged::default()
                };
                record("events", &merged);
                cache::record("events", CacheStats { hits: 4, misses: 1, bytes_saved: 900 });
            }
        });
        let cells = recorded.0.lock().expect("not poisoned");
        let value = |name: &str| {
            let (_, cell) = cells.iter().find(|(key, _)| key.starts_with(name))?;
            Some(cell.load(Ordering::Relaxed))
        };
        assert!(cells.keys().all(|key| key.contains("events")), "{cells:?}");
        for (name, count) in [
            ("merged_rows_total", 6),
            ("cache_hits_total", 8),
            ("cache_misses_total", 2),
            ("cache_saved_bytes_total", 1_800),
            ("recent_rows", 7f64.to_bits()),
            ("recent_bytes", 700f64.to_bits()),
            ("recent_packs", 5f64.to_bits()),
            ("stuck_packs", 2f64.to_bits()),
            ("recent_age_seconds", 2.5f64.to_bits()),
            ("stuck_age_seconds", 1.5f64.to_bits()),
        ] {
            assert_eq!(value(&format!("opaque_id_packs_{name}")), Some(count), "{name}");
        }
    }
}

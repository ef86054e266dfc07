//! Gauges, for the crate `metrics`.

use crate::call::Merged;

/// Records what a merger has left.
#[expect(clippy::cast_precision_loss, reason = "a gauge is a float")]
pub(crate) fn record(table: &str, merged: &Merged) {
    let table = table.to_owned();
    metrics::counter!("opaque_id_packs_merged_rows_total", "table" => table.clone())
        .increment(merged.rows);
    metrics::gauge!("opaque_id_packs_recent_rows", "table" => table.clone())
        .set(merged.rows_left as f64);
    metrics::gauge!("opaque_id_packs_recent_bytes", "table" => table).set(merged.bytes_left as f64);
}

#[cfg(test)]
#[path = "../../fixtures/recorded.rs"]
mod recorded;

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::recorded::Recorded;
    use super::*;

    #[test]
    fn counts_go_on_and_gauges_show_the_last_merge() {
        let recorded = Recorded::default();
        metrics::with_local_recorder(&recorded, || {
            for rows_left in [70, 7] {
                let merged =
                    Merged { rows: 3, rows_left, bytes_left: 100 * rows_left, ..Merged::default() };
                record("events", &merged);
            }
        });
        let cells = recorded.0.lock().expect("not poisoned");
        let value = |name| {
            let (_, cell) = cells.iter().find(|(key, _)| key.starts_with(name))?;
            Some(cell.load(Ordering::Relaxed))
        };
        assert!(cells.keys().all(|key| key.contains("events")), "{cells:?}");
        assert_eq!(value("opaque_id_packs_merged_rows_total"), Some(6));
        assert_eq!(value("opaque_id_packs_recent_rows"), Some(7f64.to_bits()));
        assert_eq!(value("opaque_id_packs_recent_bytes"), Some(700f64.to_bits()));
    }
}

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
mod tests {
    use std::collections::BTreeMap;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::{Arc, Mutex};

    use metrics::{
        Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder, SharedString, Unit,
    };

    use super::*;

    /// By name and label.
    #[derive(Default)]
    struct Recorded(Mutex<BTreeMap<String, Arc<AtomicU64>>>);

    impl Recorded {
        fn cell(&self, key: &Key) -> Arc<AtomicU64> {
            let labels = key.labels().map(|label| format!("{label:?}"));
            let name = format!("{}{}", key.name(), labels.collect::<String>());
            let mut cells = self.0.lock().expect("not poisoned");
            Arc::clone(cells.entry(name).or_default())
        }
    }

    impl Recorder for Recorded {
        fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}
        fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

        fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
            Counter::from_arc(self.cell(key))
        }

        fn register_gauge(&self, key: &Key, _: &Metadata<'_>) -> Gauge {
            Gauge::from_arc(self.cell(key))
        }

        fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
            Histogram::noop()
        }
    }

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

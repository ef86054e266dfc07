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

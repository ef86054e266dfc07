//! Counters through the facade of the crate `metrics`. They do nothing without the feature `metrics`.

pub(crate) fn refused(resource: &'static str, reason: &'static str) {
    increment("opaque_id_refused_total", [("resource", resource), ("reason", reason)]);
}

pub(crate) fn accepted_old(resource: &'static str, form: &'static str) {
    increment("opaque_id_old_ids_total", [("resource", resource), ("form", form)]);
}

#[cfg(feature = "metrics")]
fn increment(name: &'static str, labels: [(&'static str, &'static str); 2]) {
    metrics::counter!(name, &labels).increment(1);
}

#[cfg(not(feature = "metrics"))]
fn increment(_: &'static str, _: [(&'static str, &'static str); 2]) {}

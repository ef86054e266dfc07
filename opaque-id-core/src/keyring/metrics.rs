use super::Keyring;
use super::opened::Count;

impl Keyring {
    /// Sets the metrics of the crate `metrics` that the keyring counts itself. Call it where your exporter is
    /// read, or every few seconds.
    ///
    /// | metric | meaning |
    /// |---|---|
    /// | `opaque_id_opened_total` with `key_id` | a counter of [`opened_count`](Self::opened_count) |
    /// | `opaque_id_opened_without_tag_total` with `key_id` | a counter of opened ids without a tag, including made-up ones |
    /// | `opaque_id_sealing_key_id` | a gauge of [`sealing_key_id`](Self::sealing_key_id) |
    ///
    /// Two more counters need no call. `opaque_id_refused_total` counts refused ids and cursors, with
    /// `resource` and `reason` (`malformed`, `other_resource`, `unknown_key_id`, `not_genuine`,
    /// `old_id_ended`, `old_id_never_shown`, `old_id_ambiguous`). The resource is `any` for an
    /// [`AnyId`](crate::AnyId) with another prefix. `opaque_id_old_ids_total` counts accepted old ids, with
    /// `resource` and `form`.
    pub fn record_metrics(&self) {
        for key_id in self.key_ids() {
            let labels = [("key_id", key_id.to_string())];
            metrics::counter!("opaque_id_opened_total", &labels)
                .absolute(self.opened_count(key_id));
            metrics::counter!("opaque_id_opened_without_tag_total", &labels)
                .absolute(self.count(Count::Unauthenticated, key_id));
        }
        metrics::gauge!("opaque_id_sealing_key_id").set(self.sealing_key_id().get());
    }
}

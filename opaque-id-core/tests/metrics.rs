//! What a recorder of the crate `metrics` gets.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use metrics::{
    Counter, CounterFn, Gauge, GaugeFn, Histogram, Key, KeyName, Metadata, Recorder, SharedString,
    Unit,
};
use opaque_id_core::old_ids::OldIds;
use opaque_id_core::{Cursor, External, IdRange, Internal, Keyring, MasterSecret, OpaqueId};

#[derive(OpaqueId)]
#[opaque_id(prefix = "team", key = i64)]
struct Team;

#[derive(OpaqueId)]
#[opaque_id(prefix = "user")]
struct User;

/// The values by name and labels.
#[derive(Clone, Default)]
struct Recorded(Arc<Mutex<BTreeMap<String, u64>>>);

struct Cell(Recorded, String);

impl Cell {
    fn set(&self, set: impl FnOnce(u64) -> u64) {
        let mut values = self.0.0.lock().unwrap_or_else(PoisonError::into_inner);
        let value = values.entry(self.1.clone()).or_default();
        *value = set(*value);
    }
}

impl CounterFn for Cell {
    fn increment(&self, by: u64) {
        self.set(|value| value + by);
    }

    fn absolute(&self, to: u64) {
        self.set(|value| value.max(to));
    }
}

impl GaugeFn for Cell {
    fn increment(&self, _: f64) {}
    fn decrement(&self, _: f64) {}

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a key id")]
    fn set(&self, to: f64) {
        Cell::set(self, |_| to as u64);
    }
}

impl Recorded {
    fn cell(&self, key: &Key) -> Arc<Cell> {
        let labels = key.labels().map(|label| format!(" {}", label.value()));
        let name = [key.name().to_owned()].into_iter().chain(labels).collect();
        Arc::new(Cell(self.clone(), name))
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
fn refusals_old_ids_and_key_ids_are_counted_once() {
    let keyring = |key_id| Keyring::builder().sealing(key_id, MasterSecret::generate()).build();
    let ours = keyring(2).expect("a good secret");
    let retired = keyring(1).expect("a good secret");
    let other = keyring(2).expect("a good secret");
    let team = Internal::<Team>::from_key(7).expect("a key");
    let shown = IdRange::all().up_to(team);
    let acceptor = |end| {
        let acceptor = OldIds::<Team>::builder(shown, UNIX_EPOCH..end).integers();
        acceptor.build(&ours).expect("integers do not look like ids")
    };
    let recorded = Recorded::default();
    metrics::with_local_recorder(&recorded, || {
        // Which compares old ids with new ones, and refuses nothing.
        let old = acceptor(SystemTime::now() + std::time::Duration::from_secs(86_400));
        let ended = acceptor(UNIX_EPOCH);
        assert!("nonsense".parse::<External<Team>>().is_err());
        assert!("nonsense".parse::<Cursor<Team>>().is_err());
        assert!(serde_json::from_str::<External<Team>>("\"42\"").is_err());
        assert!(
            ours.seal(Internal::<User>::generate()).to_string().parse::<External<Team>>().is_err()
        );
        assert!(ours.open(retired.seal(team)).is_err());
        assert!(ours.open(other.seal(team)).is_err());
        assert!(ours.open_cursor(other.seal_cursor(team)).is_err());
        assert!(ours.open(ours.seal(team)).is_ok());
        assert!(ours.open(ours.seal(Internal::<User>::generate())).is_ok());

        assert!(old.open("7", &ours).is_ok());
        assert!(old.open(&ours.seal(team).to_string(), &ours).is_ok());
        assert!(old.open("11", &ours).is_err());
        assert!(ended.open("7", &ours).is_err());
        assert!(old.open("x", &ours).is_err());
        assert!(old.open(&retired.seal(team).to_string(), &ours).is_err());
        for _ in 0..2 {
            ours.record_metrics();
        }
    });
    let values = recorded.0.lock().unwrap_or_else(PoisonError::into_inner);
    let values: Vec<_> = values.iter().map(|(name, value)| format!("{name} {value}")).collect();
    assert_eq!(
        values,
        [
            "opaque_id_old_ids_total team integer 1",
            "opaque_id_opened_total 2 2",
            "opaque_id_opened_without_tag_total 2 1",
            "opaque_id_refused_total team malformed 4",
            "opaque_id_refused_total team not_genuine 2",
            "opaque_id_refused_total team old_id_ended 1",
            "opaque_id_refused_total team old_id_never_shown 1",
            "opaque_id_refused_total team other_resource 1",
            "opaque_id_refused_total team unknown_key_id 2",
            "opaque_id_sealing_key_id 2",
        ]
    );
}

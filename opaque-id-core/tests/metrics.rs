//! The values that a recorder of the crate `metrics` receives.

use std::sync::atomic::Ordering;
use std::time::{SystemTime, UNIX_EPOCH};

use opaque_id_core::old_ids::OldIds;
use opaque_id_core::{AnyId, Cursor, External, IdRange, Internal};

use super::new_keyring;
use super::recorded::Recorded;

resources! {
    Team(prefix = "team", key = i64);
    User(prefix = "user");
}

#[derive(AnyId)]
enum Node {
    Team(Internal<Team>),
}

#[test]
fn refusals_old_ids_and_key_ids_are_counted_once() {
    let [ours, retired, other] = [2, 1, 2].map(new_keyring);
    let team = Internal::<Team>::from_key(7).expect("a key");
    let shown = IdRange::all().up_to(team);
    let old_ids = |end| {
        let old_ids = OldIds::<Team>::builder(shown, UNIX_EPOCH..end).integers();
        old_ids.build(&ours).expect("integers do not look like ids")
    };
    let recorded = Recorded::default();
    metrics::with_local_recorder(&recorded, || {
        // Building compares old ids with new ones, and refuses nothing.
        let old = old_ids(SystemTime::now() + std::time::Duration::from_secs(86_400));
        let ended = old_ids(UNIX_EPOCH);
        assert!("nonsense".parse::<External<Team>>().is_err());
        assert!("nonsense".parse::<Cursor<Team>>().is_err());
        assert!(serde_json::from_str::<External<Team>>("\"42\"").is_err());
        let user = ours.seal(Internal::<User>::generate());
        assert!(user.to_string().parse::<External<Team>>().is_err());
        assert!(ours.open(retired.seal(team)).is_err());
        assert!(ours.open(other.seal(team)).is_err());
        assert!(ours.open_cursor(other.seal_cursor(team)).is_err());
        assert!(ours.open(ours.seal(team)).is_ok());
        assert!(ours.open(user).is_ok());
        assert!(ours.open_any::<Node>("nonsense").is_err());
        assert!(ours.open_any::<Node>("team_nonsense").is_err());
        assert!(ours.open_any::<Node>(&ours.seal(team).to_string()).is_ok());

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
    let values = recorded.0.lock().expect("no panic");
    let values = values.iter().map(|(name, value)| (name.as_str(), value.load(Ordering::Relaxed)));
    let values: Vec<_> = values.collect();
    assert_eq!(
        values,
        [
            ("opaque_id_old_ids_total team integer", 1),
            ("opaque_id_opened_total 2", 3),
            ("opaque_id_opened_without_tag_total 2", 1),
            ("opaque_id_refused_total any other_resource", 1),
            ("opaque_id_refused_total team malformed", 5),
            ("opaque_id_refused_total team not_genuine", 2),
            ("opaque_id_refused_total team old_id_ended", 1),
            ("opaque_id_refused_total team old_id_never_shown", 1),
            ("opaque_id_refused_total team other_resource", 1),
            ("opaque_id_refused_total team unknown_key_id", 2),
            ("opaque_id_sealing_key_id", 2_f64.to_bits()),
        ]
    );
}

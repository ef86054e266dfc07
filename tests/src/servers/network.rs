//! Networks of containers.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::image::docker;
use super::wait::LABEL;
use crate::Result;

/// On it a container that is killed and started again has the address that it had. On the network that all share, another
/// one that starts meanwhile gets it.
pub(super) struct Network {
    pub(super) name: String,
}

impl Network {
    pub(super) fn create() -> Result<Self> {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        // What runs left behind that were ended by a signal; a younger one may have a container that is killed just now. Docker refuses
        // a second one at the same time, which is none the worse; without Docker the next command fails.
        let left = format!("--filter=label={LABEL}");
        let _ = docker(&["network", "prune", "--force", "--filter=until=1h", &left]);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("opaque-id-test-{}-{number}", std::process::id());
        docker(&["network", "create", "--label", LABEL, &name])?;
        Ok(Self { name })
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        if let Err(error) = docker(&["network", "rm", &self.name]) {
            eprintln!("{error}");
        }
    }
}

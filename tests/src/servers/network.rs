//! Networks of containers.

use std::sync::atomic::{AtomicUsize, Ordering};

use super::LABEL;
use super::image::docker;
use crate::Result;

/// A network on which a container keeps its address when it is killed and started again. On the shared
/// network, another container that starts meanwhile gets the address.
pub(super) struct Network {
    pub(super) name: String,
}

impl Network {
    pub(super) fn create() -> Result<Self> {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        // Containers may remain from runs that a signal ended. A younger one may have just been killed.
        // Docker refuses a concurrent second removal, and this does no harm. Without Docker the next command
        // fails.
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

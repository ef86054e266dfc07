//! How long servers may take, and by which label their containers are found.

use std::time::{Duration, Instant};

use crate::Result;

/// Of all containers and networks of the tests.
pub(super) const LABEL: &str = "opaque-id-test";

/// How long a server or a cluster may take until it answers.
pub(super) const STARTUP: Duration = Duration::from_secs(180);

/// Tries until it succeeds, or until servers should have started long ago.
pub fn wait_for<T>(mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
    let deadline = Instant::now() + STARTUP;
    loop {
        match attempt() {
            Err(_) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(100)),
            done => return done,
        }
    }
}

//! The limits for the start of servers, and the label of their containers.

use std::time::{Duration, Instant};

use crate::Result;

/// The label of all containers and networks of the tests.
pub(super) const LABEL: &str = "opaque-id-test";

/// The time within which a server or a cluster must answer.
pub(super) const STARTUP: Duration = Duration::from_secs(180);

/// Repeats an attempt until it succeeds, or until servers should have started long ago.
pub fn wait_for<T>(mut attempt: impl FnMut() -> Result<T>) -> Result<T> {
    let deadline = Instant::now() + STARTUP;
    loop {
        match attempt() {
            Err(_) if Instant::now() < deadline => std::thread::sleep(Duration::from_millis(100)),
            done => return done,
        }
    }
}

use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, Thread};
use std::time::{Duration, Instant};

use super::{Keyring, SharedKeyring};
use crate::error::KeyringError;

/// A thread that keeps a [`SharedKeyring`] up to date. [`SharedKeyring::watch`] starts it, and it ends when
/// this value is dropped.
#[derive(Debug)]
#[must_use = "the thread ends when this value is dropped"]
pub struct Watch {
    thread: Thread,
    is_over: Arc<AtomicBool>,
}

impl SharedKeyring {
    /// Starts a thread that reads the secrets at an interval (at least a millisecond) and replaces the
    /// keyring if they have changed.
    ///
    /// A change counts when two reads in a row agree, because a file may be partly written. `report` gets
    /// `Ok` with the new keyring after each change, and an error when it first occurs: log it, and alert on
    /// it. The keyring stays as it is until the error is gone.
    ///
    /// It notices every way of replacing a file, except in volumes that Kubernetes mounts by `subPath`,
    /// because they never change.
    ///
    /// `read` and `report` must return. While one of them blocks, nothing is replaced or reported.
    ///
    /// `docs/OPERATIONS.md` has an example.
    ///
    /// # Errors
    /// The operating system's, if it cannot start a thread.
    pub fn watch(
        &self,
        every: Duration,
        mut read: impl FnMut() -> Result<Keyring, KeyringError> + Send + 'static,
        mut report: impl FnMut(Result<Keyring, KeyringError>) + Send + 'static,
    ) -> std::io::Result<Watch> {
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = is_over.clone();
        let shared = self.clone();
        let every = every.max(Duration::from_millis(1));
        let (mut before, mut reported) = (self.current(), None);
        let watch = move || {
            while !sleep(every, &ends) {
                // Without a thread, the next rotation would go unnoticed.
                let result = match catch_unwind(AssertUnwindSafe(&mut read)) {
                    Ok(Ok(new)) => match mem::replace(&mut before, new.clone()).is_same(&new) {
                        true => shared.replace(new),
                        false => Ok(false),
                    },
                    Ok(Err(error)) => Err(error),
                    Err(_) => Err(KeyringError::Panicked),
                };
                let error = result.as_ref().err().map(ToString::to_string);
                let message = match result {
                    Ok(true) => Some(Ok(shared.current())),
                    Err(new) if reported != error => Some(Err(new)),
                    _ => None,
                };
                reported = error;
                if let Some(message) = message {
                    let _ = catch_unwind(AssertUnwindSafe(|| report(message)));
                }
            }
        };
        let thread = thread::Builder::new().name("opaque-id-keys".into()).spawn(watch)?;
        Ok(Watch { thread: thread.thread().clone(), is_over })
    }
}

fn sleep(duration: Duration, is_over: &AtomicBool) -> bool {
    let start = Instant::now();
    loop {
        if is_over.load(Ordering::Acquire) {
            return true;
        }
        match duration.checked_sub(start.elapsed()) {
            None | Some(Duration::ZERO) => return false,
            Some(left) => thread::park_timeout(left),
        }
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::Release);
        self.thread.unpark();
    }
}

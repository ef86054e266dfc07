use std::cell::RefCell;
use std::sync::Arc;

use chacha20::ChaCha12Rng;
use chacha20::rand_core::{Rng, SeedableRng};
use uuid::Uuid;

use crate::fork::Guard;

/// A generator's source of randomness: [`SystemRandom`], or one that a test controls.
///
/// Keys are only as unpredictable as this source.
pub trait Random {
    /// Fills the slice with random bytes.
    ///
    /// # Panics
    /// [`SystemRandom`] panics if the operating system's random number generator fails.
    fn fill(&self, bytes: &mut [u8]);

    /// Returns 64 random bits.
    ///
    /// # Panics
    /// The same as [`fill`](Self::fill).
    #[inline]
    fn next_u64(&self) -> u64 {
        let mut bytes = [0; 8];
        self.fill(&mut bytes);
        u64::from_le_bytes(bytes)
    }
}

/// A cryptographic random number generator per thread (ChaCha with 12 rounds). The operating system seeds it
/// at its first use in a thread, and again in a forked child.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemRandom;

struct Local {
    rng: ChaCha12Rng,
    guard: Guard,
}

impl Local {
    fn new() -> Self {
        Self {
            // A fork between the two must cause one seed too many instead of too few.
            guard: Guard::new(),
            rng: seeded(),
        }
    }

    #[inline]
    fn rng(&mut self) -> &mut ChaCha12Rng {
        if self.guard.detected_fork() {
            self.rng = seeded();
        }
        &mut self.rng
    }
}

#[cold]
fn seeded() -> ChaCha12Rng {
    let mut seed = zeroize::Zeroizing::new([0; 32]);
    fill_by_system(&mut *seed);
    ChaCha12Rng::from_seed(*seed)
}

pub(crate) fn fill_by_system(bytes: &mut [u8]) {
    #[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
    getrandom::fill(bytes).expect("the operating system's random number generator failed");
    #[cfg(all(target_family = "wasm", target_os = "unknown"))]
    panic!("there is no operating system to fill {} bytes: seal ids on a server", bytes.len());
}

/// Returns a UUIDv4 (RFC 9562, section 5.4).
///
/// # Panics
/// If the operating system's random number generator fails.
#[must_use]
pub fn random_uuid() -> Uuid {
    let mut random = [0; 16];
    fill_by_system(&mut random);
    uuid::Builder::from_random_bytes(random).into_uuid()
}

thread_local! {
    static LOCAL: RefCell<Local> = RefCell::new(Local::new());
}

impl Random for SystemRandom {
    fn fill(&self, bytes: &mut [u8]) {
        let filled = LOCAL.try_with(|local| local.borrow_mut().rng().fill_bytes(bytes));
        // The thread is ending and no longer has a generator.
        filled.unwrap_or_else(|_| fill_by_system(bytes));
    }

    #[inline]
    fn next_u64(&self) -> u64 {
        LOCAL.try_with(|local| local.borrow_mut().rng().next_u64()).unwrap_or_else(|_| {
            let mut bytes = [0; 8];
            fill_by_system(&mut bytes);
            u64::from_le_bytes(bytes)
        })
    }
}

impl<R: Random + ?Sized> Random for &R {
    fn fill(&self, bytes: &mut [u8]) {
        (**self).fill(bytes);
    }
}

impl<R: Random + ?Sized> Random for Arc<R> {
    fn fill(&self, bytes: &mut [u8]) {
        (**self).fill(bytes);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn no_number_repeats() {
        let numbers = |_| {
            let numbers = || (0..1_000).map(|_| SystemRandom.next_u64());
            std::thread::spawn(move || numbers().collect::<Vec<_>>())
        };
        let threads: Vec<_> = (0..4).map(numbers).collect();
        let all = threads.into_iter().flat_map(|thread| thread.join().expect("no panic"));
        assert_eq!(all.collect::<HashSet<_>>().len(), 4_000);
    }

    #[test]
    fn it_works_while_a_thread_ends() {
        struct AtEnd(std::sync::mpsc::Sender<u64>);
        impl Drop for AtEnd {
            fn drop(&mut self) {
                self.0.send(SystemRandom.next_u64()).expect("a receiver");
            }
        }
        thread_local! {
            static AT_END: RefCell<Option<AtEnd>> = const { RefCell::new(None) };
        }
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            AT_END.with(|at_end| *at_end.borrow_mut() = Some(AtEnd(sender)));
            SystemRandom.next_u64();
        })
        .join()
        .expect("no panic");
        assert!(receiver.recv().is_ok());
    }
}

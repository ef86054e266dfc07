use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Where a generator's time comes from: [`SystemClock`], or one that a test sets.
///
/// ```
/// use opaque_id_core::generator::{Clock, SystemRandom, Uuid7Generator, Uuid7Method};
/// use opaque_id_core::key::TimeKey;
/// use std::time::{Duration, SystemTime, UNIX_EPOCH};
///
/// struct Stopped;
///
/// impl Clock for Stopped {
///     fn now(&self) -> SystemTime {
///         UNIX_EPOCH + Duration::from_secs(1_645_557_742)
///     }
/// }
///
/// let generator = Uuid7Generator::with(Uuid7Method::default(), Stopped, SystemRandom);
/// let (first, second) = (generator.generate(), generator.generate());
/// assert_eq!(first.time(), Stopped.now());
/// assert!(first < second);
/// ```
pub trait Clock {
    /// The time now. It may stand still and go backwards; before 1970 it counts as 1970.
    fn now(&self) -> SystemTime;

    /// What generators count.
    #[doc(hidden)]
    #[inline]
    fn since_1970(&self) -> Duration {
        self.now().duration_since(UNIX_EPOCH).unwrap_or_default()
    }
}

/// The operating system's clock.
///
/// ```
/// use opaque_id_core::generator::{Clock, SystemClock};
///
/// assert!(SystemClock.now() > std::time::UNIX_EPOCH);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[inline]
    fn now(&self) -> SystemTime {
        SystemTime::now()
    }
}

impl<C: Clock + ?Sized> Clock for &C {
    fn now(&self) -> SystemTime {
        (**self).now()
    }
}

impl<C: Clock + ?Sized> Clock for Arc<C> {
    fn now(&self) -> SystemTime {
        (**self).now()
    }
}

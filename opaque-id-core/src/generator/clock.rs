use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A generator's clock: [`SystemClock`], or one that a test controls.
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
    /// Returns the current time. It may stop or go backwards; times before 1970 count as 1970.
    fn now(&self) -> SystemTime;

    #[doc(hidden)]
    #[inline]
    fn since_1970(&self) -> Duration {
        self.now().duration_since(UNIX_EPOCH).unwrap_or_default()
    }
}

/// The operating system's clock.
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

use core::ops::{RangeBounds, RangeInclusive};
use std::time::SystemTime;

use crate::error::{Invalid, InvalidReason, KeyProblem};
use crate::key::Ticks;

/// The layout of 64-bit ids that are generated without a coordinator (Trudeau 2019, after MySQL's
/// `UUID_SHORT`): 32 bits of Unix seconds (until 2106), the number of the generating node, and a counter.
///
/// An id has 60 bits, 28 of them for node and counter. So it is positive as an `i64` and fits every form.
///
/// | bits for the node | nodes | ids per second and node |
/// |---|---|---|
/// | 0 | 1 | 134 to 268 million |
/// | 8 | 256 | 524,288 to 1,048,576 |
/// | 10 | 1,024 | 131,072 to 262,144 |
/// | 16 | 65,536 | 2,048 to 4,096 |
///
/// ```
/// use opaque_id_core::layout::Int64Layout;
/// use opaque_id_core::generator::Int64Generator;
/// use std::time::{Duration, SystemTime};
///
/// let layout = Int64Layout::with_node_bits(8)?;
/// let id = Int64Generator::new(layout, 17)?.generate()?;
/// assert!(id > 0);
/// assert_eq!(layout.node(id), 17);
/// assert!(layout.time(id) <= SystemTime::now());
///
/// let last_minute = SystemTime::now() - Duration::from_secs(60)..;
/// assert!(layout.bounds(last_minute).contains(&id));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Int64Layout {
    node_bits: u32,
}

const NODE_AND_COUNTER_BITS: u32 = 28;
const MAX_NODE_BITS: u32 = 16;

impl Int64Layout {
    pub(crate) const SECONDS: Ticks = Ticks::unix(32, 1);

    /// Creates a layout with 0 to 16 bits for the node. All generators of a table's ids must use the same number.
    ///
    /// # Errors
    /// [`Invalid`] if `node_bits` is above 16.
    pub const fn with_node_bits(node_bits: u32) -> Result<Self, Invalid> {
        if node_bits > MAX_NODE_BITS {
            return Err(Invalid::setting("the node takes 0 to 16 bits"));
        }
        Ok(Self { node_bits })
    }

    /// Returns the second of the id's generation.
    #[must_use]
    pub fn time(self, id: i64) -> SystemTime {
        let seconds = id.cast_unsigned() >> NODE_AND_COUNTER_BITS;
        Self::SECONDS.time(seconds & Self::SECONDS.max())
    }

    /// Returns the number of the node that generated the id.
    #[must_use]
    pub const fn node(self, id: i64) -> u32 {
        let low = (id & ((1 << NODE_AND_COUNTER_BITS) - 1)).cast_unsigned();
        #[expect(clippy::cast_possible_truncation, reason = "28 bits")]
        let low = low as u32;
        low >> self.counter_bits()
    }

    /// Returns the smallest and the largest id with a time in the range, as
    /// [`TimeKey::bounds`](crate::key::TimeKey::bounds) does.
    #[must_use]
    pub fn bounds(self, range: impl RangeBounds<SystemTime>) -> RangeInclusive<i64> {
        let first = |seconds: u64| (seconds << NODE_AND_COUNTER_BITS).cast_signed();
        Self::SECONDS
            .bounds(range, first, |seconds| first(seconds) | ((1 << NODE_AND_COUNTER_BITS) - 1))
    }

    pub(crate) const fn assemble(
        self,
        seconds: u64,
        node: u32,
        counter: u64,
    ) -> Result<i64, Invalid> {
        if seconds > Self::SECONDS.max() {
            return Err(Invalid(InvalidReason::Key(KeyProblem::OutOfRange(
                "the time must be before the year 2106",
            ))));
        }
        let low = (node as u64) << self.counter_bits() | counter;
        Ok((seconds << NODE_AND_COUNTER_BITS | low).cast_signed())
    }

    pub(crate) const fn counter_bits(self) -> u32 {
        NODE_AND_COUNTER_BITS - self.node_bits
    }

    pub(crate) const fn has_node(self, node: u32) -> bool {
        node < 1 << self.node_bits
    }
}

//! Version and variant of a UUID (RFC 9562, section 4), and the 122 bits around them.

pub(crate) const VERSION_AND_VARIANT: u128 = 0xf000_c000_0000_0000_0000;
pub(crate) const V1: u128 = 0x1000_8000_0000_0000_0000;
pub(crate) const V6: u128 = 0x6000_8000_0000_0000_0000;
pub(crate) const V7: u128 = 0x7000_8000_0000_0000_0000;
pub(crate) const V8: u128 = 0x8000_8000_0000_0000_0000;

/// Returns the 122 bits of a UUID without version and variant.
#[inline]
pub(crate) const fn gather(uuid: u128) -> u128 {
    (uuid >> 80) << 74 | (uuid >> 64 & 0xfff) << 62 | uuid & ((1 << 62) - 1)
}

#[inline]
pub(crate) const fn scatter(bits: u128, version: u128) -> u128 {
    (bits >> 74) << 80 | (bits >> 62 & 0xfff) << 64 | bits & ((1 << 62) - 1) | version
}

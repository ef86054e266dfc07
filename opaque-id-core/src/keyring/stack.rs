//! Keeping secrets off the stack.

use core::hint::black_box;

use zeroize::Zeroize;

/// HKDF and the expansion of AES keys use less, even in builds without optimization.
const DEPTH: usize = 32 * 1024;

/// Runs `act`, then overwrites the stack that it has used.
///
/// This is best effort: the compiler may have made copies elsewhere.
#[inline(never)]
pub(super) fn wiped<R>(act: impl FnOnce() -> R) -> R {
    let result = run(act);
    wipe();
    result
}

#[inline(never)]
fn run<R>(act: impl FnOnce() -> R) -> R {
    black_box(act())
}

#[inline(never)]
fn wipe() {
    let mut stack = [0_u64; DEPTH / size_of::<u64>()];
    // `zeroize` writes even memory that is never read again.
    black_box(&mut stack).zeroize();
}

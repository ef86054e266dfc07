//! Fork detection, so that a forked child does not use state twice.
//!
//! Calling `getpid()` before each key would cost four times the key. Reading a page that Linux wipes in a
//! forked child costs nothing.

use std::sync::atomic::{AtomicU64, Ordering};

/// A detector of forks since its creation or last check.
///
/// On Linux the kernel wipes a page in the child (`MADV_WIPEONFORK`, since 4.14), even after the raw `clone`
/// system call. Elsewhere, on older kernels and in QEMU's user mode, the process id shows the fork.
///
/// It takes no lock, because a fork could leave it locked forever in the child.
#[derive(Debug)]
pub struct Guard(AtomicU64);

impl Guard {
    /// Creates a guard that detects forks from now on.
    #[expect(clippy::new_without_default, reason = "a guard is created where it guards")]
    #[must_use]
    pub fn new() -> Self {
        Self(AtomicU64::new(process()))
    }

    /// Returns whether the process was forked since the guard was created or last checked.
    #[inline]
    pub fn detected_fork(&self) -> bool {
        let process = process();
        self.0.load(Ordering::Relaxed) != process
            && self.0.swap(process, Ordering::Relaxed) != process
    }
}

#[inline]
fn process() -> u64 {
    #[cfg(all(target_os = "linux", not(miri)))]
    if let Some(forks) = wiped::forks() {
        return forks;
    }
    std::process::id().into()
}

// Miri does not support this advice.
#[cfg(all(target_os = "linux", not(miri)))]
mod wiped {
    #![allow(unsafe_code)]

    use core::ptr;
    use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

    /// Threads may count one fork twice.
    static FORKS: AtomicU64 = AtomicU64::new(0);

    /// The pointer is null before the first call. The page contains zero in a new child until the child has
    /// counted the fork.
    static PAGE: AtomicPtr<AtomicU64> = AtomicPtr::new(ptr::null_mut());

    /// Marks a kernel that wipes no pages. It is never read or written.
    static NO_PAGE: AtomicU64 = AtomicU64::new(0);

    #[inline]
    pub(super) fn forks() -> Option<u64> {
        let page = match PAGE.load(Ordering::Acquire) {
            page if page.is_null() => first(),
            page => page.cast_const(),
        };
        if ptr::eq(page, &raw const NO_PAGE) {
            return None;
        }
        // SAFETY: the pointer is neither null nor `NO_PAGE`, so `map` made the page. It is aligned and large
        // enough, its zeros are an `AtomicU64`, it is mapped until the process ends, and only such references
        // point to it.
        let page = unsafe { &*page };
        if page.load(Ordering::Acquire) == 0 {
            // If two threads both count it, state is created once too often but never too rarely.
            FORKS.fetch_add(1, Ordering::Relaxed);
            page.store(1, Ordering::Release);
        }
        Some(FORKS.load(Ordering::Relaxed))
    }

    /// If two threads both create a page, the first is kept.
    #[cold]
    fn first() -> *const AtomicU64 {
        let page = map().unwrap_or((&raw const NO_PAGE).cast_mut());
        match PAGE.compare_exchange(ptr::null_mut(), page, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => page,
            Err(earlier) => {
                if !ptr::eq(page, &raw const NO_PAGE) {
                    unmap(page);
                }
                earlier
            }
        }
    }

    /// The kernel rounds it up to a page.
    const LEN: usize = size_of::<AtomicU64>();

    fn map() -> Option<*mut AtomicU64> {
        // SAFETY: a new mapping at an address of the kernel's choice touches no memory in use.
        let page = unsafe {
            libc::mmap(
                ptr::null_mut(),
                LEN,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS,
                -1,
                0,
            )
        };
        if page == libc::MAP_FAILED {
            return None;
        }
        // SAFETY: the mapping is ours, and nothing refers to it yet.
        let accepts = |advice| unsafe { libc::madvise(page, LEN, advice) } == 0;
        // QEMU's user mode accepts any advice and wipes nothing, so an invalid advice must fail first.
        let is_wiped = !accepts(-1) && accepts(libc::MADV_WIPEONFORK);
        if !is_wiped {
            unmap(page.cast());
        }
        is_wiped.then_some(page.cast())
    }

    fn unmap(page: *mut AtomicU64) {
        // SAFETY: `map` made the mapping, and no reference to it exists.
        unsafe { libc::munmap(page.cast(), LEN) };
    }
}

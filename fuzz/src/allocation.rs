//! A counting allocator, to verify the memory bounds of decoders.
//!
//! An allocator requires `unsafe`; every call is forwarded to the system's allocator with unchanged arguments. The
//! counts are those of the whole process: decoders under test run on one thread.

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

static LIVE_BYTES: AtomicUsize = AtomicUsize::new(0);
static PEAK_BYTES: AtomicUsize = AtomicUsize::new(0);

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: memory comes from and returns to `System` with the layout that the caller gave, and counting neither
// allocates nor unwinds. `realloc` and `alloc_zeroed` are the provided methods, which call these two: while a vector
// moves, both of its places count.
unsafe impl GlobalAlloc for Counting {
    /// # Safety
    /// The contract of [`GlobalAlloc::alloc`]: `layout` has a size above 0.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let live_bytes = LIVE_BYTES.fetch_add(layout.size(), Relaxed).wrapping_add(layout.size());
        PEAK_BYTES.fetch_max(live_bytes, Relaxed);
        // SAFETY: the contract: the layout has a size above 0, as `System` asks too.
        unsafe { System.alloc(layout) }
    }

    /// # Safety
    /// The contract of [`GlobalAlloc::dealloc`]: `pointer` came from this allocator with this layout, and was
    /// not freed.
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE_BYTES.fetch_sub(layout.size(), Relaxed);
        // SAFETY: `pointer` came from `alloc` above with this layout, and therefore from `System`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Runs `work`. Returns its value, and the maximum number of bytes allocated in addition to those before.
pub(crate) fn peak_bytes<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before_bytes = LIVE_BYTES.load(Relaxed);
    PEAK_BYTES.store(before_bytes, Relaxed);
    let value = work();
    (value, PEAK_BYTES.load(Relaxed).saturating_sub(before_bytes))
}

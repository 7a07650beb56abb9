//! An allocator that counts allocations. Tests and examples include this file with `#[path]`, and so allocate through
//! it.
//!
//! The test harness's own thread waits beside the test, and allocates when it starts to wait, which can be at any
//! time. It is the process's first thread; its allocations count only if that thread itself asks for the count, as in
//! an example.

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ptr;
use std::sync::atomic::{AtomicI64, AtomicU64, AtomicUsize, Ordering::Relaxed};

static BY_FIRST_THREAD: AtomicU64 = AtomicU64::new(0);
static BY_OTHERS: AtomicU64 = AtomicU64::new(0);
static LIVE_BYTES: AtomicI64 = AtomicI64::new(0);
/// The address of the first thread's [`PLACE`].
static FIRST_THREAD: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    /// A variable whose address identifies the thread.
    static PLACE: Cell<u8> = const { Cell::new(0) };
}

/// Returns whether this thread was the first to allocate: nothing else runs before a process has allocated.
fn is_first_thread() -> bool {
    let here = PLACE.with(|place| ptr::from_ref(place).addr());
    FIRST_THREAD.compare_exchange(0, here, Relaxed, Relaxed).map_or_else(|first| first == here, |_| true)
}

struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

// SAFETY: memory comes from and returns to `System` with the caller's layout; counting neither allocates nor unwinds.
unsafe impl GlobalAlloc for Counting {
    /// # Safety
    /// The contract of [`GlobalAlloc::alloc`]: `layout` has a size above 0.
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let count = if is_first_thread() { &BY_FIRST_THREAD } else { &BY_OTHERS };
        count.fetch_add(1, Relaxed);
        LIVE_BYTES.fetch_add(layout.size() as i64, Relaxed);
        // SAFETY: the contract: the layout has a size above 0, as `System` asks too.
        unsafe { System.alloc(layout) }
    }

    /// # Safety
    /// The contract of [`GlobalAlloc::dealloc`]: `pointer` came from this allocator with this layout, and was
    /// not freed.
    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        LIVE_BYTES.fetch_sub(layout.size() as i64, Relaxed);
        // SAFETY: `pointer` came from `alloc` with this layout, that is, from `System`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

/// Returns the number of allocations so far, of all threads that the caller may have caused.
#[allow(dead_code, reason = "some tests count bytes alone")]
pub(crate) fn count() -> u64 {
    let own = if is_first_thread() { BY_FIRST_THREAD.load(Relaxed) } else { 0 };
    own + BY_OTHERS.load(Relaxed)
}

/// Returns the number of bytes that are allocated now, by all threads.
#[allow(dead_code, reason = "most tests count allocations alone")]
pub(crate) fn live_bytes() -> i64 {
    LIVE_BYTES.load(Relaxed)
}

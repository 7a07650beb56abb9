//! Counters of the lanes, which are updated per batch.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The work that a lane has done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LaneCounts {
    /// The number of batches and parts of batches that it handed to another lane.
    pub handed_over: u64,
    /// The number of times that it found another lane at a serial layer, and left its batch there.
    pub found_busy: u64,
    /// The number of batches whose jobs it ran, counted per layer.
    pub batches: u64,
    /// The number of bytes of these batches.
    pub bytes: u64,
    /// The number of batches that it took through serial layers, in their order.
    pub turns: u64,
    /// The nanoseconds that these batches took there.
    pub turn_ns: u64,
    /// The maximum number of batches for which a batch that it brought back had to wait.
    pub reorder_depth: u64,
}

/// The counters of a lane, which only the lane writes and any thread reads.
#[derive(Debug, Default)]
#[repr(align(128))]
pub(super) struct Counting {
    pub(super) handed_over: AtomicU64,
    pub(super) found_busy: AtomicU64,
    pub(super) batches: AtomicU64,
    pub(super) bytes: AtomicU64,
    pub(super) turns: AtomicU64,
    pub(super) turn_ns: AtomicU64,
    pub(super) reorder_depth: AtomicU64,
}

/// Adds without a locked instruction, because a counter has one writer.
pub(super) fn add(counter: &AtomicU64, count: u64) {
    counter.store(counter.load(Relaxed) + count, Relaxed);
}

impl Counting {
    pub(super) fn now(&self) -> LaneCounts {
        let of = |counter: &AtomicU64| counter.load(Relaxed);
        LaneCounts {
            handed_over: of(&self.handed_over),
            found_busy: of(&self.found_busy),
            batches: of(&self.batches),
            bytes: of(&self.bytes),
            turns: of(&self.turns),
            turn_ns: of(&self.turn_ns),
            reorder_depth: of(&self.reorder_depth),
        }
    }
}

//! The reports of both ends of a transfer.

use std::{sync::atomic::Ordering::Relaxed, time::Duration};

use crate::{
    proto::message::{Complete, Finished},
    send::{lane::Sending, removal::Removed},
};

/// The reports of both ends.
#[derive(Clone, Debug)]
pub(crate) struct Outcome {
    pub(crate) finished: Finished,
    /// The receiver's report; all zero at a sender that ended first.
    pub(crate) complete: Complete,
    /// The entries that the sender has removed from its source.
    pub(crate) removed: Removed,
}

/// Returns a sender's report, without its CPU time.
pub(crate) fn conclusion(sending: &Sending) -> Finished {
    let counters = &sending.filling.counters;
    let active = match (sending.first_byte.get(), sending.last_byte.get()) {
        (Some(first), Some(last)) => last.saturating_duration_since(*first),
        _ => Duration::ZERO,
    };
    Finished {
        bytes: counters.bytes.load(Relaxed),
        files: counters.entries.load(Relaxed),
        resent_bytes: counters.resent_bytes.load(Relaxed),
        spared_bytes: counters.spared_bytes.load(Relaxed),
        matched_bytes: counters.matched_bytes.load(Relaxed),
        skipped: counters.skipped.load(Relaxed),
        failed: counters.failed.load(Relaxed),
        unfit: counters.unfit.load(Relaxed),
        resumed_bytes: counters.resumed_bytes.load(Relaxed),
        active_us: active.as_micros() as u64,
        cpu_us: 0,
    }
}

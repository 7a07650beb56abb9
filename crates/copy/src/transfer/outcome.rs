//! The reports of both ends of a transfer, and the summary that the user gets of them.

use std::{borrow::Cow, sync::atomic::Ordering::Relaxed, time::Duration};

use crate::{
    options::{MeasuredEnd, Ownership},
    proto::message::{Complete, Finished},
    receive::{files::Files, prune::Pruned},
    send::{lane::Sending, removal::Removed},
    summary::{Agreement, CpuSeconds, Dropped, Summary},
    transfer::{Transfer, own_process_cpu_seconds},
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

/// The outcome of a transfer, and how its data was protected.
pub(crate) struct Report {
    pub(crate) outcome: Outcome,
    /// The effective ownership option.
    pub(crate) owner: Ownership,
    pub(crate) agreement: Agreement,
    /// The implementation of the suite, or ssh's cipher.
    pub(crate) tier: Cow<'static, str>,
    /// CPU time of the other ends in microseconds, where they tell it.
    pub(crate) far_cpu_us: Option<u64>,
}

impl Transfer<'_> {
    /// Returns the summary of a transfer that is done now.
    pub(crate) fn summary(&self, report: Report) -> Summary {
        let Report { outcome: Outcome { finished, complete, removed }, owner, agreement, tier, far_cpu_us } =
            report;
        let seconds = match self.options.wishes.measured_end {
            MeasuredEnd::Both => self.started.elapsed().as_secs_f64(),
            MeasuredEnd::Send => finished.active_us as f64 / 1e6,
            MeasuredEnd::Receive => complete.active_us as f64 / 1e6,
        };
        // Only the receiver of a dry run knows the changes.
        let dry_run = self.options.wishes.dry_run;
        Summary {
            bytes: if dry_run { complete.bytes } else { finished.bytes },
            files: if dry_run { complete.files } else { complete.files.min(finished.files) },
            skipped: finished.skipped.saturating_add(complete.unchanged),
            failed: finished.failed + complete.failed,
            deleted: complete.deleted,
            undeleted: complete.undeleted,
            removed: removed.removed,
            unremoved: removed.unremoved,
            dropped: self.asked_for(complete.dropped, owner),
            seconds,
            cpu_seconds: CpuSeconds {
                local: own_process_cpu_seconds(),
                remote: far_cpu_us.map(|far_cpu_us| far_cpu_us as f64 / 1e6),
            },
            resent_bytes: finished.resent_bytes,
            resumed_bytes: finished.resumed_bytes,
            spared_bytes: finished.spared_bytes,
            matched_bytes: finished.matched_bytes,
            level: agreement.level,
            suite: agreement.suite,
            streams: agreement.streams,
            lanes: agreement.lanes,
            placement: agreement.placement,
            tier,
        }
    }

    /// Returns the dropped properties that were requested: set-id bits are kept with their owner, or not at all.
    fn asked_for(&self, dropped: Dropped, owner: Ownership) -> Dropped {
        let owner = owner.is_wanted();
        let count = |count, is_asked: bool| if is_asked { count } else { 0 };
        Dropped {
            owners: count(dropped.owners, owner),
            privileges: count(dropped.privileges, owner),
            xattrs: count(dropped.xattrs, self.options.wishes.preserve.kinds_of_xattrs().any()),
            capabilities: count(dropped.capabilities, self.options.wishes.preserve.privileges),
        }
    }
}

/// Returns a receiver's report, without its times.
pub(crate) fn completion(files: &Files, pruned: Pruned) -> Complete {
    let counters = &files.counters;
    Complete {
        bytes: counters.bytes.load(Relaxed),
        files: counters.entries.load(Relaxed),
        unchanged: counters.unchanged.load(Relaxed),
        failed: counters.failed.load(Relaxed),
        deleted: pruned.deleted,
        undeleted: pruned.undeleted,
        dropped: files.dropped(),
        ..Complete::default()
    }
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

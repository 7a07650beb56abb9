//! What a transfer tells its user: progress while it runs, and the facts at its end.
//!
//! Guarantees: counters only grow; reading them never blocks a lane.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use sealane_engine::Suite;
use sealane_stack::Placement;
use sealane_tree::{Differences, Kind};
use serde::{Deserialize, Serialize};

use crate::{Level, proto::entry::Entry};

/// CPU seconds (user and system) of each end, helper processes included.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CpuSeconds {
    /// This process, and the `ssh` it started.
    pub local: f64,
    /// The far end's process; `None` where it does not tell, as an SFTP server does not.
    pub remote: Option<f64>,
}

/// What was asked for of entries that arrived, and could not be kept: how many of each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Dropped {
    /// Entries whose owner could not be set.
    pub owners: u64,
    /// Entries that lost set-user-id or set-group-id.
    pub set_ids: u64,
    /// Extended attributes.
    pub xattrs: u64,
}

/// What was made or replaced at the target, and how it differs from what was there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Path relative to the target.
    pub path: Vec<u8>,
    /// What it is.
    pub kind: ChangeKind,
    /// Nothing of its kind was there.
    pub is_new: bool,
    /// The link leads elsewhere.
    pub target: bool,
    /// The size differs.
    pub size: bool,
    /// The time of last change differs.
    pub time: bool,
    /// The mode differs.
    pub mode: bool,
    /// The owner differs, where owners are kept.
    pub owner: bool,
    /// The group differs, where owners are kept.
    pub group: bool,
    /// Extended attributes differ, where they are kept and were compared.
    pub xattrs: bool,
}

impl Change {
    /// That of an entry, by how it differs from what was there.
    pub(crate) fn of(entry: &Entry, differences: Differences) -> Self {
        let kind = match &entry.kind {
            Kind::File => ChangeKind::File,
            Kind::Attributes => ChangeKind::Attributes,
            Kind::Directory => ChangeKind::Directory,
            Kind::Symlink { .. } => ChangeKind::Symlink,
            Kind::HardLink { .. } => ChangeKind::HardLink,
        };
        let Differences { is_new, target, size, time, mode, owner, group, xattrs, .. } = differences;
        let path = entry.path.as_bytes().to_vec();
        Self { path, kind, is_new, target, size, time, mode, owner, group, xattrs }
    }
}

/// What a [`Change`] is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ChangeKind {
    /// A regular file that was sent.
    File,
    /// A regular file that was there with the same content, and whose attributes are brought up to date.
    Attributes,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// Another name of a file that was sent.
    HardLink,
}

/// The facts of a finished transfer.
#[derive(Clone, Debug)]
pub struct Summary {
    /// Bytes of file content that the target now has by this run.
    pub bytes: u64,
    /// Entries (files, directories, links) that the target now has by this run.
    pub files: u64,
    /// Entries left alone because the target had them.
    pub skipped: u64,
    /// Entries that failed; each was reported.
    pub failed: u64,
    /// Entries of the target that the source does not have, and that were deleted; with `dry_run`, that would be.
    pub deleted: u64,
    /// Entries that were to be deleted and are there still; why was reported.
    pub undeleted: u64,
    /// Entries removed from the source.
    pub removed: u64,
    /// Entries that were to be removed from the source and are there still; why was reported.
    pub unremoved: u64,
    /// What the others lost on the way.
    pub dropped: Dropped,
    /// Wall time from the start of the command, in seconds.
    pub seconds: f64,
    /// CPU time at both ends.
    pub cpu_seconds: CpuSeconds,
    /// Bytes sent more than once because a stream was cut.
    pub resent_bytes: u64,
    /// Content bytes that an earlier run had left at the target.
    pub resumed_bytes: u64,
    /// Protection that was in force.
    pub level: Level,
    /// Algorithm that was in force; `None` where ssh protects the data, by one of its own.
    pub suite: Option<Suite>,
    /// TCP streams.
    pub streams: u16,
    /// Lanes at this end.
    pub lanes: u16,
    /// Unit of concurrency.
    pub placement: Placement,
    /// Implementation of the suite that ran here, for example `native (aws-lc)`.
    pub tier: &'static str,
}

/// Facts known once both ends have agreed; shown beside the progress bar.
#[derive(Clone, Debug)]
pub struct Agreement {
    /// Protection in force.
    pub level: Level,
    /// Algorithm in force; `None` where ssh protects the data, by one of its own.
    pub suite: Option<Suite>,
    /// TCP streams.
    pub streams: u16,
    /// Lanes at this end.
    pub lanes: u16,
    /// Unit of concurrency.
    pub placement: Placement,
}

/// Live counters of one transfer, shared with whoever draws them.
#[derive(Debug, Default)]
pub struct Progress {
    /// Content bytes found so far that are to be moved; what an earlier run has left at the target is not among them.
    pub bytes_found: AtomicU64,
    /// Entries found so far by the scan.
    pub files_found: AtomicU64,
    /// Entries whose size is known: lanes look at them after the scan has found them.
    pub files_measured: AtomicU64,
    /// Content bytes moved by this run, at this end.
    pub bytes_moved: AtomicU64,
    /// Entries finished, at this end.
    pub files_done: AtomicU64,
    /// The scan has found every entry; the bytes found are final once all are measured as well.
    pub scan_complete: AtomicBool,
    /// Set by the user's interface to stop the transfer cleanly (Ctrl-C).
    pub cancel: AtomicBool,
}

/// One reading of [`Progress`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProgressSnapshot {
    /// Content bytes found so far.
    pub bytes_found: u64,
    /// Entries found so far.
    pub files_found: u64,
    /// Content bytes moved.
    pub bytes_moved: u64,
    /// Entries finished.
    pub files_done: u64,
    /// Whether the totals are final.
    pub scan_complete: bool,
}

impl Progress {
    /// Reads all counters.
    pub fn snapshot(&self) -> ProgressSnapshot {
        ProgressSnapshot {
            bytes_found: self.bytes_found.load(Relaxed),
            files_found: self.files_found.load(Relaxed),
            bytes_moved: self.bytes_moved.load(Relaxed),
            files_done: self.files_done.load(Relaxed),
            scan_complete: self.scan_complete.load(Relaxed)
                && self.files_measured.load(Relaxed) >= self.files_found.load(Relaxed),
        }
    }
}

/// What happens on the way and is worth a line.
#[derive(Clone, Debug)]
pub enum Notice {
    /// The far host has no sealane, and its SFTP server is used instead.
    OverSftp {
        /// The host, as the user calls it.
        host: String,
    },
    /// Both ends agreed on how to proceed.
    Agreed(Agreement),
    /// One entry could not be copied; the rest goes on.
    EntryFailed {
        /// Which: its path below the source or the target, as that was given.
        path: Vec<u8>,
        /// Why, in words that name it.
        reason: String,
    },
    /// A data stream was cut and re-opened.
    StreamReopened {
        /// Which of the parallel streams.
        stream: u16,
        /// Content bytes queued again.
        bytes: u64,
    },
    /// A run before this one left work done; it is not sent again.
    Resuming {
        /// Content bytes the target already has.
        bytes: u64,
    },
    /// With `--dry-run`: this entry would be sent, and change this.
    WouldSend {
        /// The entry that would be made or replaced, and how it differs.
        change: Change,
        /// Content bytes.
        bytes: u64,
    },
    /// The receiving end may not give files away, and was to keep owners only where that is possible: they are not
    /// kept.
    OwnersNotKept,
    /// An SFTP server tells neither hard links nor extended attributes, and some of these were to be kept.
    NotToldOverSftp {
        /// Names of one file become files of their own.
        hard_links: bool,
        /// Extended attributes are not copied.
        xattrs: bool,
    },
    /// Something was made or replaced at the target.
    Changed(Change),
    /// The target had what the source does not have, and it was deleted; with `--dry-run`, it would be.
    Deleted {
        /// Path relative to the target.
        path: Vec<u8>,
    },
    /// With `--digest`: a file is in place and this is the BLAKE3 hash of its content.
    Digest {
        /// Path relative to the target.
        path: Vec<u8>,
        /// The hash, as `b3sum` prints it.
        digest: [u8; 32],
    },
}

/// Receives notices; called from the control thread only.
pub trait Observer: Send {
    /// Something happened.
    fn notice(&mut self, notice: Notice);
}

impl<F: FnMut(Notice) + Send> Observer for F {
    fn notice(&mut self, notice: Notice) {
        self(notice);
    }
}

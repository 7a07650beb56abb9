//! The reports of a transfer to its user: progress while it runs, and the facts at its end.
//!
//! Guarantees: counters only grow; reading them never blocks a lane.

use std::{
    borrow::Cow,
    fmt,
    sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed},
};

use sealane_engine::Suite;
use sealane_lanes::Placement;
use sealane_peer::chain;
pub use sealane_tree::{Differences, Dropped};
use sealane_tree::{Kind, Special};
use serde::{Deserialize, Serialize, Serializer};

use crate::{Level, proto::entry::Entry};

/// CPU seconds (user and system) of each end, helper processes included.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct CpuSeconds {
    /// This process and the `ssh` it started.
    pub local: f64,
    /// The far end's process; `None` if the far end does not report it, such as an SFTP server.
    pub remote: Option<f64>,
}

/// An entry made or replaced at the target, and its differences from the former one.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Change {
    /// Path relative to the target.
    pub path: Vec<u8>,
    /// The kind of the entry.
    pub kind: ChangeKind,
    /// By what the entry differs from the former one, if there was one.
    pub differences: Differences,
}

impl Change {
    /// Returns the change of an entry with these differences.
    pub(crate) fn of(entry: &Entry, differences: Differences) -> Self {
        let kind = match &entry.kind {
            Kind::File => ChangeKind::File,
            Kind::Attributes => ChangeKind::Attributes,
            Kind::Directory => ChangeKind::Directory,
            Kind::Symlink { .. } => ChangeKind::Symlink,
            Kind::HardLink { .. } => ChangeKind::HardLink,
            Kind::Special(Special::CharacterDevice { .. } | Special::BlockDevice { .. }) => {
                ChangeKind::Device
            }
            Kind::Special(Special::Pipe | Special::Socket) => ChangeKind::Special,
        };
        Self { path: entry.path.as_bytes().to_vec(), kind, differences }
    }
}

/// The subject of a [`Change`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ChangeKind {
    /// A regular file that was sent.
    File,
    /// An existing regular file with the same content, whose attributes are updated.
    Attributes,
    /// A directory that was made or brought up to date.
    Directory,
    /// A symbolic link.
    Symlink,
    /// Another name of a file that was sent.
    HardLink,
    /// A device of characters or blocks.
    Device,
    /// A pipe or socket.
    Special,
}

/// The facts of a finished transfer. Programs read them by the names of the fields.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Summary {
    /// Bytes of file content that this run brought to the target.
    pub bytes: u64,
    /// Entries (files, directories, links) that this run brought to the target.
    pub files: u64,
    /// Entries skipped because the target had them.
    pub skipped: u64,
    /// Entries that failed; each was reported.
    pub failed: u64,
    /// Entries of the target that the source does not have, and that were deleted, or with `dry_run` would be.
    pub deleted: u64,
    /// Entries that could not be deleted; the reasons were reported.
    pub undeleted: u64,
    /// Entries removed from the source.
    pub removed: u64,
    /// Entries that could not be removed from the source; the reasons were reported.
    pub unremoved: u64,
    /// Properties that copied entries lost.
    #[serde(skip)]
    pub dropped: Dropped,
    /// Wall time from the start of the command, in seconds.
    pub seconds: f64,
    /// CPU time at both ends.
    pub cpu_seconds: CpuSeconds,
    /// Bytes sent more than once because a stream was cut.
    pub resent_bytes: u64,
    /// Content bytes that an earlier run had left at the target.
    pub resumed_bytes: u64,
    /// Bytes that compression has spared the line.
    pub spared_bytes: u64,
    /// Content bytes that the target had in other versions of the files.
    pub matched_bytes: u64,
    /// Protection that was in force.
    #[serde(serialize_with = "as_word")]
    pub level: Level,
    /// The algorithm in force; `None` if ssh protects the data, by its own choice.
    #[serde(serialize_with = "as_suite")]
    pub suite: Option<Suite>,
    /// TCP streams.
    pub streams: u16,
    /// Lanes at this end.
    pub lanes: u16,
    /// Unit of concurrency.
    #[serde(serialize_with = "as_word")]
    pub placement: Placement,
    /// The implementation of the suite at this end, for example `native (aws-lc)`; if ssh protects the data, its cipher
    /// where ssh tells it.
    pub tier: Cow<'static, str>,
}

/// Facts known once both ends have agreed; shown beside the progress bar.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Agreement {
    /// Protection in force.
    #[serde(serialize_with = "as_word")]
    pub level: Level,
    /// The algorithm in force; `None` if ssh protects the data, by its own choice.
    #[serde(serialize_with = "as_suite")]
    pub suite: Option<Suite>,
    /// TCP streams.
    pub streams: u16,
    /// Lanes at this end.
    pub lanes: u16,
    /// Unit of concurrency.
    #[serde(serialize_with = "as_word")]
    pub placement: Placement,
}

/// Returns the name of a suite in reports.
pub fn suite_name(suite: Option<Suite>) -> &'static str {
    suite.map_or("ssh", Suite::name)
}

fn as_word<S: Serializer>(word: &impl fmt::Display, to: S) -> Result<S::Ok, S::Error> {
    to.collect_str(word)
}

#[expect(clippy::ref_option, reason = "serde calls it so")]
fn as_suite<S: Serializer>(suite: &Option<Suite>, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(suite_name(*suite))
}

/// Live counters of one transfer, shared with the user's interface.
#[derive(Debug, Default)]
pub struct Progress {
    /// Content bytes to be moved that were found so far, without those that an earlier run left at the target.
    pub bytes_found: AtomicU64,
    /// Entries found so far by the scan.
    pub files_found: AtomicU64,
    /// Entries whose size is known: lanes measure them after the scan has found them.
    pub files_measured: AtomicU64,
    /// Content bytes moved by this run, at this end.
    pub bytes_moved: AtomicU64,
    /// Entries finished, at this end.
    pub files_done: AtomicU64,
    /// Content bytes that an earlier run left in unfinished files, and that are read again before they count.
    pub bytes_to_check: AtomicU64,
    /// Content bytes of those that were read again.
    pub bytes_checked: AtomicU64,
    /// Whether the target is being looked at, before anything is sent.
    pub is_comparing: AtomicBool,
    /// Whether the scan has found every entry; the number of bytes found is final once all are measured as well.
    pub scan_complete: AtomicBool,
    /// Set by the user's interface to stop the transfer cleanly (Ctrl-C).
    pub cancel: AtomicBool,
}

/// The values of [`Progress`] at one moment.
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
    /// Content bytes that are read again before they count, and those of them that were.
    pub checked: (u64, u64),
    /// Whether the target is being looked at, before anything is sent.
    pub is_comparing: bool,
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
            is_comparing: self.is_comparing.load(Relaxed),
            checked: (self.bytes_checked.load(Relaxed), self.bytes_to_check.load(Relaxed)),
            scan_complete: self.scan_complete.load(Relaxed)
                && self.files_measured.load(Relaxed) >= self.files_found.load(Relaxed),
        }
    }
}

/// An event of a transfer that deserves a line.
#[derive(Clone, Debug)]
pub enum Notice {
    /// The far host has no sealane, and its SFTP server is used instead.
    OverSftp {
        /// The host, as named by the user.
        host: String,
    },
    /// Both ends agreed on how to proceed.
    Agreed(Agreement),
    /// No connection to the far host's data port came about: the data goes inside ssh, with the same protection.
    ThroughSsh {
        /// The host, as named by the user.
        host: String,
        /// Why there is no connection.
        reason: String,
    },
    /// One entry could not be copied; the transfer continues.
    EntryFailed {
        /// The entry's path below the source or the target as given.
        path: Vec<u8>,
        /// The reason, in words that name the entry.
        reason: String,
    },
    /// A data stream was cut and re-opened.
    StreamReopened {
        /// The index of the stream.
        stream: u16,
        /// Content bytes queued again.
        bytes: u64,
    },
    /// An earlier run left finished work; it is not sent again.
    Resuming {
        /// Content bytes the target already has.
        bytes: u64,
    },
    /// An unfinished file of an earlier run differs from its source, and is sent again.
    BegunAgain {
        /// The file's name for the user.
        path: Vec<u8>,
    },
    /// An interrupted copy of other sources has left something in the target.
    Left {
        /// The name of its journal or lease, or of an unfinished file that none of them tells of.
        path: Vec<u8>,
    },
    /// With `--dry-run`: this entry would be sent, and would cause this change.
    WouldSend {
        /// The entry that would be made or replaced, and its differences.
        change: Change,
        /// Content bytes.
        bytes: u64,
    },
    /// The far end takes or makes no compressed records, and compression was to be used only if possible.
    NotCompressed,
    /// The receiving end cannot change owners, which were to be kept only if possible: they are not kept.
    OwnersNotKept,
    /// The receiving end cannot set extended attributes of `security.` and `trusted.`, which were asked for: they are not kept.
    PrivilegesNotKept,
    /// An SFTP server reports neither hard links nor extended attributes, and some of these were to be kept.
    NotToldOverSftp {
        /// Names of one file become separate files.
        hard_links: bool,
        /// Extended attributes are not copied.
        xattrs: bool,
    },
    /// An entry was made or replaced at the target.
    Changed(Change),
    /// An entry that the source does not have was deleted from the target; with `--dry-run`, it would be.
    Deleted {
        /// Path relative to the target.
        path: Vec<u8>,
    },
    /// With `--digest`: a file is in place, with this BLAKE3 hash of its content.
    Digest {
        /// Path relative to the target.
        path: Vec<u8>,
        /// The hash, as `b3sum` prints it.
        digest: [u8; 32],
    },
}

impl Notice {
    /// Returns the notice of an entry that failed.
    pub(crate) fn failed(error: sealane_tree::Error) -> Self {
        let reason = chain(&error);
        let path = error.into_path().map_or_else(Vec::new, |path| path.as_bytes().to_vec());
        Self::EntryFailed { path, reason }
    }

    /// Returns the notice of a failure that concerns no single entry.
    pub(crate) fn of_all(reason: String) -> Self {
        Self::EntryFailed { path: Vec::new(), reason }
    }
}

/// Receives notices; called only from the control thread.
pub trait Observer: Send {
    /// Handles one notice.
    fn notice(&mut self, notice: Notice);
}

impl<F: FnMut(Notice) + Send> Observer for F {
    fn notice(&mut self, notice: Notice) {
        self(notice);
    }
}

//! The tree that is being built: [`Target`], and the work at its end.
//!
//! The root's own path is resolved as the user gave it. Below it no symbolic link is followed, whether it was there
//! before, was sent by the peer, or is swapped in while the copy runs. At worst, a path from the peer is refused.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rustix::fs::{OFlags, fstatvfs, syncfs};
use rustix::process::geteuid;

use crate::error::{Error, Result};
use crate::inner::{Dropped, Inner, Record};
use crate::options::TargetOptions;
use crate::root::{Anchor, TargetRoot};

/// Most errors kept by [`FinishReport`].
const MAX_ERRORS: usize = 64;

/// The result of finishing the directories.
#[derive(Debug, Default)]
pub struct FinishReport {
    /// Directories finished.
    pub finished: u64,
    /// Directories whose mode or times could not be set.
    pub failed: u64,
    /// The first 64 reasons.
    pub errors: Vec<Error>,
}

/// A directory in which a tree is built. It is cheap to clone and to share; each thread writes through its own
/// [`Writer`](crate::Writer).
#[derive(Clone, Debug)]
pub struct Target {
    pub(crate) inner: Arc<Inner>,
}

impl Target {
    /// Opens the directory `path`, resolving links in it.
    pub fn open(path: &Path, options: TargetOptions) -> Result<Self> {
        let spot = Anchor::default().find(path)?;
        let root = match spot.entry_type(true)? {
            None if options.create_root && spot.name().is_some() => spot.new_directory(),
            _ => spot.directory()?,
        };
        Self::build(&root, options)
    }

    /// Starts to build in `root`, which is made if it is missing.
    ///
    /// The process's umask is read once, here: a process that sets it to 0 beforehand saves one system call per file
    /// whose mode it would change.
    pub fn build(root: &TargetRoot, options: TargetOptions) -> Result<Self> {
        Ok(Self { inner: Arc::new(Inner::new(root, options)?) })
    }

    /// Notes that an earlier target with this one's number ([`TargetOptions::resumable_as`]) was interrupted: every
    /// small file is now made under its temporary name, so that one left there is replaced.
    pub fn expect_leftovers(&self) {
        self.inner.can_link.store(false, Ordering::Relaxed);
    }

    /// Returns the root itself, open for reading.
    pub fn open_root(&self) -> Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        self.inner.beneath.open(b"", flags).map_err(|errno| self.inner.root_error(errno))
    }

    /// Returns the counts of properties that could not be kept so far.
    pub fn dropped(&self) -> Dropped {
        self.inner.dropped()
    }

    /// Returns the number of bytes that this user may still write to the target's file system.
    pub fn available_bytes(&self) -> Result<u64> {
        let stat = fstatvfs(&**self.inner.beneath.root()).map_err(|errno| self.inner.root_error(errno))?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    /// Waits until everything written to the target's file system is on stable storage: for many small files this is
    /// far cheaper than one `fsync` each.
    pub fn sync(&self) -> Result<()> {
        syncfs(self.open_root()?).map_err(|errno| self.inner.root_error(errno))
    }

    /// Gives every directory its mode, owner and times, the deepest first. Call it when no more is written; open
    /// files of writers stay usable.
    pub fn finish_directories(&self) -> FinishReport {
        let records = std::mem::take(&mut *self.inner.directories());
        let mut report = FinishReport::default();
        // A directory sorts before its entries.
        for (path, record) in records.iter().rev().filter(|(_, record)| record.is_to_be_finished()) {
            match self.inner.finish_directory(path, record) {
                Ok(()) => report.finished += 1,
                Err(error) => {
                    report.failed += 1;
                    if report.errors.len() < MAX_ERRORS {
                        report.errors.push(error);
                    }
                }
            }
        }
        report
    }

    /// Returns whether this target, or an interrupted one, made any directory beneath the root.
    pub fn made_directories(&self) -> bool {
        self.inner.directories().values().any(|record| record.created)
    }

    /// Finishes the directories after a copy that failed and cannot be resumed. A directory made on demand, whose own
    /// entry had not come, is removed if it is empty, and stays private otherwise.
    pub fn abandon_directories(&self) {
        let records = self.inner.directories().clone();
        let on_demand = |record: &Record| record.created && record.sent.is_none();
        for (path, _) in records.iter().rev().filter(|(_, record)| on_demand(record)) {
            if self.inner.remove_empty(path).is_ok() {
                self.inner.directories().remove(path);
            }
        }
        // The failure of the copy is the one to report.
        let _ = self.finish_directories();
    }

    /// Gives existing directories their old modes back, and leaves the others unfinished, after a copy that failed
    /// and may be resumed.
    pub fn restore_modes(&self) {
        let records = self.inner.directories().clone();
        let opened = |record: &Record| !record.created && record.original_mode.is_some();
        for (path, record) in records.iter().rev().filter(|(_, record)| opened(record)) {
            // The failure of the copy is the one to report.
            let _ = self.inner.finish_directory(path, &Record { sent: None, ..*record });
        }
    }
}

/// Returns whether this process may give files away, to any owner.
pub fn may_give_away() -> bool {
    geteuid().is_root()
}

/// Returns whether this process is root's, and so sets the attributes of the namespaces `security.` and `trusted.`
/// ([`Xattrs::privileged`](crate::Xattrs::privileged)).
pub fn may_set_privileges() -> bool {
    geteuid().is_root()
}

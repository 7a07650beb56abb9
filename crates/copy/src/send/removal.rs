//! Removes entries that have arrived from the source (`--remove-source-files`).
//!
//! Guarantees: nothing is removed before the receiver has reported that everything is in place; a removed entry is a
//! file, link or special file that was sent or that the target had already, and that still has its former size and time;
//! directories stay.

use std::sync::{
    Mutex,
    atomic::{AtomicBool, Ordering::Relaxed},
};

use sealane_tree::{EntryKind, Source, WalkOptions};

use crate::{error::Error, proto::entry::identity, summary::Notice};

/// The maximum number of remembered entries.
const SENT_MAX: usize = 4 << 20;
/// The number of entries between two signs of life.
const ENTRIES_A_BREATH: usize = 1 << 10;

/// The sent entries, by identity.
#[derive(Debug)]
pub(crate) struct Sent {
    is_wanted: bool,
    identities: Mutex<Vec<[u8; 16]>>,
    is_incomplete: AtomicBool,
}

impl Sent {
    pub(crate) fn new(is_wanted: bool) -> Self {
        Self { is_wanted, identities: Mutex::default(), is_incomplete: AtomicBool::new(false) }
    }

    /// Adds an entry that was sent, or that the receiver has.
    pub(crate) fn add(&self, identity: impl FnOnce() -> [u8; 16]) {
        if !self.is_wanted {
            return;
        }
        let mut identities = self.identities.lock().expect("no lane panics holding what was sent");
        if identities.len() < SENT_MAX {
            identities.push(identity());
        } else {
            self.is_incomplete.store(true, Relaxed);
        }
    }

    fn take(&self) -> Vec<[u8; 16]> {
        std::mem::take(&mut *self.identities.lock().expect("no lane panics holding what was sent"))
    }
}

/// The result of the removal.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Removed {
    pub(crate) removed: u64,
    pub(crate) unremoved: u64,
}

/// The sources from which sent entries are removed.
#[derive(Debug)]
pub(crate) struct Removal {
    pub(crate) source: Source,
    pub(crate) walk: WalkOptions,
}

impl Removal {
    /// Removes what was sent, unless something failed. Calls `tell` with what the user is to know, and with nothing once in a while.
    pub(crate) fn run(
        self,
        sent: &Sent,
        has_failures: bool,
        mut tell: impl FnMut(Option<Notice>) -> Result<(), Error>,
    ) -> Result<Removed, Error> {
        if has_failures {
            let reason = "nothing was removed from the source, because not everything was copied";
            tell(Some(Notice::of_all(reason.to_owned())))?;
            return Ok(Removed { removed: 0, unremoved: 1 });
        }
        let mut known = sent.take();
        known.sort_unstable();
        let mut reader = self.source.reader();
        let mut outcome = Removed::default();
        for (number, found) in self.source.walk(self.walk).enumerate() {
            if number.is_multiple_of(ENTRIES_A_BREATH) {
                tell(None)?;
            }
            // Folders that can no longer be walked stay.
            let Ok(found) = found else { continue };
            if matches!(found.kind, EntryKind::Directory(_)) {
                continue;
            }
            let was_sent = |metadata: &_| known.binary_search(&identity(&found.path, metadata)).is_ok();
            match reader.remove_if(found.root, &found.path, was_sent) {
                Ok(removed) => outcome.removed += u64::from(removed),
                Err(error) => {
                    outcome.unremoved += 1;
                    let error = error.shown_as(|_| self.source.show(found.root, &found.path));
                    tell(Some(Notice::failed(error)))?;
                }
            }
        }
        if sent.is_incomplete.load(Relaxed) {
            let reason =
                format!("only {SENT_MAX} files are removed from the source at once; copy again for the rest");
            outcome.unremoved += 1;
            tell(Some(Notice::of_all(reason)))?;
        }
        Ok(outcome)
    }
}

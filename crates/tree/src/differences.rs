//! [`Differences`] between an entry to be made and the one that has its name.

use std::os::fd::AsFd;

use rustix::fs::{Stat, readlinkat};
use serde::{Deserialize, Serialize};

use crate::error::{EntryType, entry_type};
use crate::inner::{Inner, SET_GROUP_ID, is_unfinished};
use crate::metadata::{LinkTarget, MODE_BITS, Metadata, Timestamp};
use crate::path::RelativePath;

/// The differences between an entry that is made and the one that has its name.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct Differences {
    /// Whether no entry of its kind is there.
    pub is_new: bool,
    /// Whether an entry of another kind has its name, and gives way once everything has arrived.
    pub gives_way: bool,
    /// Whether the link leads elsewhere, or the name belongs to another file.
    pub target: bool,
    /// Whether a regular file has another size.
    pub size: bool,
    /// Whether the time of last change differs, if times are set.
    pub time: bool,
    /// Whether the mode differs, as far as the target lets it be set.
    pub mode: bool,
    /// Whether the user differs, if owners are set and the sent one is known.
    pub owner: bool,
    /// Whether the group differs, if owners are set and the sent one is known.
    pub group: bool,
    /// Whether the extended attributes differ, if they were compared: they are when they are brought up to date.
    pub xattrs: bool,
}

impl Differences {
    /// The differences from a missing entry.
    pub const NEW: Self = Self {
        is_new: true,
        gives_way: false,
        target: false,
        size: false,
        time: false,
        mode: false,
        owner: false,
        group: false,
        xattrs: false,
    };

    /// Returns whether there is any difference.
    pub fn any(&self) -> bool {
        *self != Self::default()
    }
}

impl Inner {
    fn is_same_time(&self, one: Timestamp, other: Timestamp) -> bool {
        let window = self.options.time_window_seconds;
        one == other || window.is_some_and(|window| one.seconds.abs_diff(other.seconds) <= u64::from(window))
    }

    /// Compares the sent metadata with those found, as far as this target sets them.
    pub(crate) fn differences(&self, path: &RelativePath, stat: &Stat, sent: &Metadata) -> Differences {
        let found = Metadata::from_stat(stat, true);
        let kind = entry_type(stat);
        let owner = sent.owner.filter(|_| self.options.ownership).zip(found.owner);
        let mode = match kind {
            EntryType::Symlink => found.mode,
            // A directory inherits set-group-id from its parent, and keeps it.
            EntryType::Directory if self.options.change_existing_directories || is_unfinished(found.mode) => {
                self.allowed_mode(sent.mode, owner.is_some()) | (found.mode & SET_GROUP_ID)
            }
            EntryType::Directory => found.mode,
            EntryType::File | EntryType::Other => self.allowed_mode(sent.mode, owner.is_some()),
        };
        let modified = match kind {
            // Entries made in the directory since then have changed its time.
            EntryType::Directory => self.noted_time(path).unwrap_or(found.modified),
            _ => found.modified,
        };
        Differences {
            size: kind == EntryType::File && found.size_bytes != sent.size_bytes,
            time: self.options.times && !self.is_same_time(modified, sent.modified),
            mode: mode != found.mode & MODE_BITS,
            owner: owner.is_some_and(|(sent, found)| sent.uid != found.uid && sent.uid != u32::MAX),
            group: owner.is_some_and(|(sent, found)| sent.gid != found.gid && sent.gid != u32::MAX),
            ..Differences::default()
        }
    }
}

/// Returns whether the symbolic link `name` leads to `target`.
pub(crate) fn leads_to(parent: impl AsFd, name: &[u8], target: &LinkTarget) -> bool {
    readlinkat(parent, name, Vec::new()).is_ok_and(|found| found.as_bytes() == target.as_bytes())
}

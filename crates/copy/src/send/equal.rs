//! The folders that both ends have seen to be equal, or nearly so: nothing of them but what differs is sent, or looked at again.
//!
//! Guarantees: about 30 bytes of memory per folder, and as many and its name per file that differs in a folder that is nearly
//! equal.

use std::collections::{HashMap, HashSet};

use sealane_tree::RelativePath;

use crate::{
    proto::{
        entry::{bytes_hash, path_hash},
        message::List,
    },
    send::compare::Verdict,
};

/// The folders that are equal at both ends.
#[derive(Debug, Default)]
pub(crate) struct Equal {
    folders: HashMap<Folder, Likeness>,
    /// Files that have changed, of folders that are nearly equal.
    changed: HashSet<[u8; 16]>,
    /// Their names, each with a slash behind it, in folders of nothing but files.
    names: HashMap<Folder, Box<[u8]>>,
    /// The bytes of the files that are equal.
    pub(crate) bytes: u64,
}

/// The number of a root, and the hash of a path.
type Folder = (u32, [u8; 16]);

/// How far a folder is at the receiver as it is here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Likeness {
    #[default]
    Unknown,
    /// All files are, but those that have changed. Nothing is known of other entries, or of the folder itself.
    Nearly {
        /// The number of entries that are equal, if all are files.
        entries: Option<u32>,
    },
    /// All entries are; their number, if none of them is a folder.
    Whole { entries: Option<u32> },
}

/// The contents of a folder without folders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Contents<'a> {
    /// The number of entries that are equal.
    pub(crate) entries: u32,
    names: &'a [u8],
}

impl<'a> Contents<'a> {
    /// Returns the names of the files that have changed.
    pub(crate) fn changed(self) -> impl Iterator<Item = &'a [u8]> {
        self.names.split(|&byte| byte == b'/').filter(|name| !name.is_empty())
    }
}

impl Equal {
    /// Adds a folder of the source's root `root`, by the hash of its path, with files of this many bytes, and the number of its
    /// entries if none of them is a folder.
    pub(crate) fn add(&mut self, root: u32, path_hash: [u8; 16], bytes: u64, entries: Option<u32>) {
        self.folders.insert((root, path_hash), Likeness::Whole { entries });
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// Notes what follows from the comparison of a folder, and returns the files of which nothing does.
    pub(crate) fn settle(&mut self, verdict: Verdict) -> List {
        match verdict {
            Verdict::Unknown(list) => list,
            Verdict::Nearly { folder, bytes, entries, changed, rest } => {
                self.folders.insert(folder, Likeness::Nearly { entries });
                if entries.is_some() && !changed.names.is_empty() {
                    self.names.insert(folder, changed.names.into());
                }
                self.changed.extend(changed.hashes);
                self.bytes = self.bytes.saturating_add(bytes);
                rest
            }
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.folders.is_empty()
    }

    /// Returns whether the folder of this path below the target, of the source's root `root`, is equal.
    pub(crate) fn has(&self, root: u32, path: &[u8]) -> bool {
        matches!(self.likeness(root, path), Likeness::Whole { .. })
    }

    /// Returns how far the folder of this path below the target, of the source's root `root`, is equal.
    pub(crate) fn likeness(&self, root: u32, path: &[u8]) -> Likeness {
        match self.is_empty() {
            true => Likeness::Unknown,
            false => self.folders.get(&(root, bytes_hash(path))).copied().unwrap_or_default(),
        }
    }

    /// Returns whether this file has changed, of a folder that is nearly equal.
    pub(crate) fn has_changed(&self, path: &RelativePath) -> bool {
        self.changed.contains(&path_hash(path))
    }

    /// Returns what is in a folder without folders, of which all is known that is to be sent, so that it need not be looked into
    /// again.
    pub(crate) fn contents(&self, root: u32, path: &[u8]) -> Option<Contents<'_>> {
        match self.likeness(root, path) {
            Likeness::Whole { entries } => entries.map(|entries| Contents { entries, names: &[] }),
            Likeness::Nearly { entries } => entries.map(|entries| {
                let names = self.names.get(&(root, bytes_hash(path)));
                Contents { entries, names: names.map_or(&[], |names| &**names) }
            }),
            Likeness::Unknown => None,
        }
    }
}

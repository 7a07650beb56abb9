//! The folders that both ends have seen to be equal: nothing of them is sent, or looked at again.
//!
//! Guarantees: about 30 bytes of memory per folder, none per entry.

use std::collections::HashMap;

use crate::proto::entry::bytes_hash;

/// The folders that are equal at both ends.
#[derive(Debug, Default)]
pub(crate) struct Equal {
    /// Each with the number of its entries if none of them is a folder, else [`Self::WITH_FOLDERS`].
    folders: HashMap<(u32, [u8; 16]), u32>,
    /// The bytes of their files.
    pub(crate) bytes: u64,
}

impl Equal {
    const WITH_FOLDERS: u32 = u32::MAX;

    /// Adds a folder of the source's root `root`, by the hash of its path, with files of this many bytes, and the number of its
    /// entries if none of them is a folder.
    pub(crate) fn add(&mut self, root: u32, path_hash: [u8; 16], bytes: u64, entries: Option<u32>) {
        self.folders.insert((root, path_hash), entries.unwrap_or(Self::WITH_FOLDERS));
        self.bytes = self.bytes.saturating_add(bytes);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.folders.is_empty()
    }

    /// Returns whether the folder of this path below the target, of the source's root `root`, is equal.
    pub(crate) fn has(&self, root: u32, path: &[u8]) -> bool {
        !self.folders.is_empty() && self.folders.contains_key(&(root, bytes_hash(path)))
    }

    /// Returns the number of entries in an equal folder that has no folders, and so need not be looked into again.
    pub(crate) fn entries(&self, root: u32, path: &[u8]) -> Option<u32> {
        let entries = *self.folders.get(&(root, bytes_hash(path)))?;
        (entries != Self::WITH_FOLDERS).then_some(entries)
    }
}

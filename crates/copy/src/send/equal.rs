//! The folders that both ends have seen to be equal: nothing of them is sent, or looked at again.
//!
//! Guarantees: about 30 bytes of memory per folder, none per entry.

use std::collections::HashSet;

use crate::proto::entry::bytes_hash;

/// The folders that are equal at both ends.
#[derive(Debug, Default)]
pub(crate) struct Equal {
    folders: HashSet<(u32, [u8; 16])>,
    /// The bytes of their files.
    pub(crate) bytes: u64,
}

impl Equal {
    /// Adds a folder of the source's root `root`, by the hash of its path, with files of this many bytes.
    pub(crate) fn add(&mut self, root: u32, path_hash: [u8; 16], bytes: u64) {
        self.folders.insert((root, path_hash));
        self.bytes = self.bytes.saturating_add(bytes);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.folders.is_empty()
    }

    /// Returns whether the folder of this path below the target, of the source's root `root`, is equal.
    pub(crate) fn has(&self, root: u32, path: &[u8]) -> bool {
        !self.folders.is_empty() && self.folders.contains(&(root, bytes_hash(path)))
    }
}

//! The files of a target that may turn out to have been renamed or moved at the source, because a mirror deletes what the source
//! does not have: their paths, by the hashes that the sender is told.
//!
//! Guarantees: a sender names such a file by a hash that it was told, and so none that it could not learn of; the memory for
//! their paths is bounded, and files beyond are not told.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Mutex, PoisonError},
};

use sealane_tree::{Metadata, RelativePath};

use crate::proto::{
    entry::{name_hash, path_hash},
    message::Traits,
};

/// The memory for paths, besides 64 bytes for each.
const PATH_BYTES_MAX: usize = 16 << 20;
const PATH_BYTES: usize = 64;

/// See above.
#[derive(Debug, Default)]
pub(crate) struct Movable {
    told: Mutex<Told>,
}

#[derive(Debug, Default)]
struct Told {
    paths: HashMap<[u8; 16], RelativePath>,
    bytes: usize,
}

impl Movable {
    /// Remembers a file that the sender is about to be told. Returns by what it may be found; `None` if there is no room.
    pub(crate) fn add(&self, path: &RelativePath, metadata: &Metadata) -> Option<Traits> {
        let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
        let bytes = told.bytes + path.as_bytes().len() + PATH_BYTES;
        if bytes > PATH_BYTES_MAX {
            return None;
        }
        if let Entry::Vacant(vacant) = told.paths.entry(path_hash(path)) {
            vacant.insert(path.clone());
            told.bytes = bytes;
        }
        Some(Traits { modified: metadata.modified, name: name_hash(path) })
    }

    /// Returns the path of a file that the sender was told.
    pub(crate) fn path(&self, hash: &[u8; 16]) -> Option<RelativePath> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner).paths.get(hash).cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_memory_for_paths_is_bounded() {
        let movable = Movable::default();
        let path = |number: usize| RelativePath::new(format!("{}/{number}", "a".repeat(200))).unwrap();
        let count =
            (0..).take_while(|&number| movable.add(&path(number), &Metadata::default()).is_some()).count();
        assert!((PATH_BYTES_MAX / 300..PATH_BYTES_MAX / 250).contains(&count), "{count}");
        assert_eq!(movable.path(&path_hash(&path(0))), Some(path(0)));
        assert_eq!(movable.path(&path_hash(&path(count))), None);
    }
}

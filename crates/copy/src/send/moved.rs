//! Files that the receiver has under other paths, and of which a file that is sent may be made: it was renamed or moved, and maybe
//! changed since.
//!
//! Guarantees: what is found is a proposal, as any version is; memory is bounded. A file of the same size and time is taken for the
//! same, one with the same name first; another only if it has the same name, about the same size, and was not taken before. Looking for
//! one takes a bounded time.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use sealane_tree::{Metadata, RelativePath, Timestamp};

use crate::proto::{
    entry::name_hash,
    message::{Traits, VersionHeld},
};

/// The maximum number of files of which this is known.
const FILES_MAX: usize = 1 << 18;
/// The number of files of one size and time, or of one name, of which this is known.
const ALIKE_MAX: usize = 64;

/// A file that the receiver has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Elsewhere {
    /// The hash of its path.
    pub(crate) path: [u8; 16],
    /// Its size.
    pub(crate) bytes: u64,
    /// Its size and time are those of the file that is sent.
    pub(crate) is_exact: bool,
}

/// The digest by which the receiver knows a path.
type PathHash = [u8; 16];
/// The digest of a name.
type NameHash = [u8; 8];
/// A file of some name: its path and size.
type Alike = (PathHash, u64);

/// See above.
#[derive(Debug, Default)]
pub(crate) struct Moved {
    by_state: HashMap<(u64, Timestamp), Vec<(PathHash, NameHash)>>,
    /// Those that were not taken yet.
    by_name: Mutex<HashMap<NameHash, Vec<Alike>>>,
    count: usize,
}

impl Moved {
    /// Adds a file that the receiver has told.
    pub(crate) fn add(&mut self, held: &VersionHeld) {
        let Some(Traits { modified, name }) = held.traits else { return };
        if self.count >= FILES_MAX {
            return;
        }
        self.count += 1;
        let same = self.by_state.entry((held.bytes, modified)).or_default();
        same.extend((same.len() < ALIKE_MAX).then_some((held.path, name)));
        let by_name = self.by_name.get_mut().unwrap_or_else(PoisonError::into_inner);
        let alike = by_name.entry(name).or_default();
        alike.extend((alike.len() < ALIKE_MAX).then_some((held.path, held.bytes)));
    }

    /// Returns the file of the same size and time, if there is one.
    pub(crate) fn exact(&self, path: &RelativePath, metadata: &Metadata) -> Option<Elsewhere> {
        let same = self.by_state.get(&(metadata.size_bytes, metadata.modified))?;
        let wanted = name_hash(path);
        let (path, _) = same.iter().find(|(_, name)| *name == wanted).or_else(|| same.first()).copied()?;
        Some(Elsewhere { path, bytes: metadata.size_bytes, is_exact: true })
    }

    /// Takes the file of the same name that has the nearest size, if that is at least half of the other.
    pub(crate) fn take_alike(&self, path: &RelativePath, metadata: &Metadata) -> Option<Elsewhere> {
        if self.count == 0 {
            return None;
        }
        let mut by_name = self.by_name.lock().unwrap_or_else(PoisonError::into_inner);
        let alike = by_name.get_mut(&name_hash(path))?;
        let wanted = metadata.size_bytes;
        let distance = |(_, (_, bytes)): &(usize, Alike)| bytes.abs_diff(wanted);
        let (index, (path, bytes)) = alike.iter().copied().enumerate().min_by_key(distance)?;
        let is_near = bytes.min(wanted).saturating_mul(2) >= bytes.max(wanted);
        is_near.then(|| {
            alike.swap_remove(index);
            Elsewhere { path, bytes, is_exact: false }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(size_bytes: u64, seconds: i64) -> Metadata {
        Metadata { size_bytes, modified: Timestamp { seconds, nanoseconds: 0 }, ..Metadata::default() }
    }

    fn path(text: &str) -> RelativePath {
        RelativePath::new(text).unwrap()
    }

    fn held(number: u8, text: &str, bytes: u64, seconds: i64) -> VersionHeld {
        let traits = Traits { modified: metadata(bytes, seconds).modified, name: name_hash(&path(text)) };
        VersionHeld { path: [number; 16], bytes, traits: Some(traits) }
    }

    #[test]
    fn a_file_is_found_by_size_and_time_or_by_its_name_and_about_its_size() {
        let mut moved = Moved::default();
        for held in [held(1, "old/a", 1000, 5), held(2, "old/b", 1000, 6), held(3, "other/b", 3000, 7)] {
            moved.add(&held);
        }
        moved.add(&VersionHeld { path: [4; 16], bytes: 1000, traits: None });
        moved.add(&held(5, "third/a", 1000, 6));
        let exact = |text, bytes, seconds| {
            moved.exact(&path(text), &metadata(bytes, seconds)).map(|found| found.path[0])
        };
        let found = [exact("x", 1000, 5), exact("x", 1000, 6), exact("y/a", 1000, 6), exact("x", 1000, 7)];
        assert_eq!(found, [Some(1), Some(2), Some(5), None]);
        let alike =
            |text, bytes| moved.take_alike(&path(text), &metadata(bytes, 99)).map(|found| found.path[0]);
        assert_eq!(alike("new/c", 1000), None);
        assert_eq!([alike("new/b", 499), alike("new/b", 6001)], [None, None], "the sizes differ too much");
        assert_eq!([alike("new/b", 2900), alike("b", 1100), alike("b", 1100)], [Some(3), Some(2), None]);
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut moved = Moved::default();
        (0..FILES_MAX as i64 + 10).for_each(|seconds| moved.add(&held(1, "a", 7, seconds)));
        assert_eq!(moved.by_state.len(), FILES_MAX);
        let mut moved = Moved::default();
        (0..200).for_each(|number| moved.add(&held(number, "a", 7, 7)));
        assert_eq!(moved.by_state.values().map(Vec::len).sum::<usize>(), ALIKE_MAX);
    }
}

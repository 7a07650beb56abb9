//! The files that a search has seen, kept in memory, so that telling those of a folder that differs takes no second search
//! of it.
//!
//! Guarantees: all threads of a search together keep at most [`KEPT_BYTES_MAX`], and what one folder has cost is known
//! to within [`UNSETTLED_BYTES_MAX`] before its end; a folder is kept whole or not at all.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use sealane_tree::{Metadata, Owner, Seen, Timestamp};

/// The memory for all folders that are kept: that of half a million files.
const KEPT_BYTES_MAX: usize = 32 << 20;
/// The memory of a folder that other threads need not know of.
const UNSETTLED_BYTES_MAX: usize = 16 << 10;

/// The memory that the threads of one search may still use.
#[derive(Debug)]
pub(super) struct Allowance(AtomicUsize);

impl Default for Allowance {
    fn default() -> Self {
        Self(AtomicUsize::new(KEPT_BYTES_MAX))
    }
}

impl Allowance {
    #[cfg(test)]
    pub(super) fn of(bytes: usize) -> Self {
        Self(AtomicUsize::new(bytes))
    }

    fn take(&self, bytes: usize) -> bool {
        self.0.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(bytes)).is_ok()
    }

    fn give_back(&self, bytes: usize) {
        self.0.fetch_add(bytes, Relaxed);
    }
}

/// A file without extended attributes.
#[derive(Debug)]
struct File {
    /// The end of its name among those of the folder.
    name_end: u32,
    mode: u32,
    modified: Timestamp,
    size_bytes: u64,
    owner: Option<Owner>,
}

/// The files of a folder.
#[derive(Debug, Default)]
pub(super) struct Files {
    names: Vec<u8>,
    files: Vec<File>,
}

impl Files {
    /// Returns each file's name and metadata.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], Metadata)> {
        let mut start = 0;
        self.files.iter().map(move |&File { name_end, mode, modified, size_bytes, owner }| {
            let name = &self.names[start..name_end as usize];
            start = name_end as usize;
            (name, Metadata { mode, modified, size_bytes, owner, xattrs: Vec::new() })
        })
    }
}

/// Keeps the files of one folder after the other, for one thread.
#[derive(Debug)]
pub(super) struct Keeping<'a> {
    allowance: &'a Allowance,
    /// The folder's files so far, unless it cannot be kept.
    files: Option<Files>,
    settled: usize,
    unsettled: usize,
}

impl<'a> Keeping<'a> {
    pub(super) fn new(allowance: &'a Allowance) -> Self {
        Self { allowance, files: None, settled: 0, unsettled: 0 }
    }

    /// A folder begins.
    pub(super) fn begin(&mut self) {
        self.give_up();
        self.files = Some(Files::default());
    }

    /// The folder is not kept.
    fn give_up(&mut self) {
        self.allowance.give_back(std::mem::take(&mut self.settled));
        (self.files, self.unsettled) = (None, 0);
    }

    fn settle(&mut self) {
        let bytes = std::mem::take(&mut self.unsettled);
        match self.allowance.take(bytes) {
            true => self.settled += bytes,
            false => self.give_up(),
        }
    }

    /// The folder has this file.
    pub(super) fn add(&mut self, seen: &Seen<'_>) {
        let Some(files) = &mut self.files else { return };
        let &Metadata { mode, modified, size_bytes, owner, ref xattrs } = seen.metadata;
        // Attributes have no bound that is worth its memory, and few files have any.
        let end = u32::try_from(files.names.len() + seen.name.len()).ok().filter(|_| xattrs.is_empty());
        let Some(name_end) = end else { return self.give_up() };
        files.names.extend_from_slice(seen.name);
        files.files.push(File { name_end, mode, modified, size_bytes, owner });
        self.unsettled += seen.name.len() + size_of::<File>();
        if self.unsettled >= UNSETTLED_BYTES_MAX {
            self.settle();
        }
    }

    /// The folder ends. Returns its files, if all of them are kept.
    pub(super) fn end(&mut self) -> Option<Box<Files>> {
        self.settle();
        self.settled = 0;
        let mut files = self.files.take()?;
        // The vectors have grown by doubling.
        files.names.shrink_to_fit();
        files.files.shrink_to_fit();
        Some(Box::new(files))
    }
}

#[cfg(test)]
mod tests {
    use sealane_tree::{EntryType, Xattr};

    use super::*;

    fn metadata(size_bytes: u64) -> Metadata {
        let owner = Some(Owner { uid: 1, gid: size_bytes as u32 });
        let modified = Timestamp { seconds: -3, nanoseconds: 7 };
        Metadata { mode: 0o640, modified, size_bytes, owner, xattrs: Vec::new() }
    }

    fn add(keeping: &mut Keeping<'_>, name: &str, metadata: &Metadata) {
        let entry_type = EntryType::File;
        keeping.add(&Seen {
            name: name.as_bytes(),
            entry_type,
            metadata,
            target: b"",
            links: 1,
            special: None,
        });
    }

    /// Keeps a folder with so many files; returns how many of them are kept.
    fn keep(keeping: &mut Keeping<'_>, count: u64) -> Option<usize> {
        keeping.begin();
        (0..count).for_each(|number| add(keeping, "name", &metadata(number)));
        keeping.end().map(|files| files.iter().count())
    }

    #[test]
    fn files_come_back_as_they_were_seen() {
        let allowance = Allowance::default();
        let mut keeping = Keeping::new(&allowance);
        keeping.begin();
        for (number, name) in ["one", "", "three"].into_iter().enumerate() {
            add(&mut keeping, name, &metadata(number as u64));
        }
        let files = keeping.end().unwrap();
        let wanted: [(&[u8], _); 3] = [(b"one", metadata(0)), (b"", metadata(1)), (b"three", metadata(2))];
        assert_eq!(files.iter().collect::<Vec<_>>(), wanted);
        assert_eq!(keep(&mut keeping, 0), Some(0));
    }

    #[test]
    fn a_folder_with_extended_attributes_is_not_kept_and_costs_nothing() {
        let allowance = Allowance::of(100_000);
        let mut keeping = Keeping::new(&allowance);
        keeping.begin();
        (0..1000).for_each(|number| add(&mut keeping, "name", &metadata(number)));
        let xattrs = vec![Xattr { name: b"user.a".into(), value: b"b".into() }];
        add(&mut keeping, "last", &Metadata { xattrs, ..metadata(0) });
        assert!(keeping.end().is_none());
        assert_eq!(allowance.0.load(Relaxed), 100_000);
    }

    #[test]
    fn folders_are_kept_until_the_memory_is_used_and_small_ones_after_that_too() {
        let file = size_of::<File>() + 4;
        let allowance = Allowance::of(1500 * file);
        let mut keeping = Keeping::new(&allowance);
        assert_eq!(keep(&mut keeping, 1000), Some(1000));
        assert_eq!(keep(&mut keeping, 1000), None);
        assert_eq!(keep(&mut keeping, 500), Some(500));
        assert_eq!((keep(&mut keeping, 1), keep(&mut keeping, 0)), (None, Some(0)));
        assert_eq!(allowance.0.load(Relaxed), 0);
    }
}

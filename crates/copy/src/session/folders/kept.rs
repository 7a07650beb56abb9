//! The files that a search has seen, kept in memory until their folder is judged, so that a folder that differs is not searched
//! once more.
//!
//! Guarantees: all threads of a search together keep at most [`KEPT_BYTES_MAX`], and what one folder has cost is known
//! to within [`UNSETTLED_BYTES_MAX`] before its end; a folder is kept whole or not at all.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use sealane_tree::{Metadata, Owner, Seen};

/// The memory for all folders that are kept: that of more than a million files.
pub(super) const KEPT_BYTES_MAX: usize = 32 << 20;
/// The memory of a folder that other threads need not know of.
const UNSETTLED_BYTES_MAX: usize = 16 << 10;

/// The memory that the threads of one search may use.
#[derive(Debug)]
pub(super) struct Allowance {
    bytes: usize,
    left: AtomicUsize,
}

impl Allowance {
    pub(super) fn of(bytes: usize) -> Self {
        Self { bytes, left: AtomicUsize::new(bytes) }
    }

    fn take(&self, bytes: usize) -> bool {
        self.left.fetch_update(Relaxed, Relaxed, |left| left.checked_sub(bytes)).is_ok()
    }

    fn give_back(&self, bytes: usize) {
        self.left.fetch_add(bytes, Relaxed);
    }

    /// Drops files that are not needed any more.
    pub(super) fn free(&self, files: Option<Box<Files>>) {
        self.give_back(files.map_or(0, |files| files.bytes()));
    }

    /// Returns whether so little of it is left that older folders must make room for new ones.
    pub(super) fn is_low(&self) -> bool {
        self.left.load(Relaxed) < self.bytes / 4
    }
}

/// The files of a folder, encoded one after the other: [`encode`].
#[derive(Debug, Default)]
pub(super) struct Files {
    encoded: Box<[u8]>,
    count: u32,
}

impl Files {
    /// Returns their number.
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// Returns the memory that they take.
    fn bytes(&self) -> usize {
        self.encoded.len()
    }

    /// Returns each file's name and metadata.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&[u8], Metadata)> {
        let mut rest = &*self.encoded;
        let mut metadata = Metadata::default();
        (0..self.count).map(move |_| {
            let name = decode(&mut rest, &mut metadata);
            (name, metadata.clone())
        })
    }
}

/// Adds a file without extended attributes: its name and what it has in other ways than the one before it.
fn encode(to: &mut Vec<u8>, name: &[u8], metadata: &Metadata, before: &Metadata) {
    let &Metadata { mode, modified, size_bytes, owner, .. } = metadata;
    let is_alike = mode == before.mode && owner == before.owner;
    // A name has at most 255 bytes.
    put(to, (name.len() as u64) << 1 | u64::from(is_alike));
    to.extend_from_slice(name);
    if !is_alike {
        put(to, mode.into());
        put(to, owner.is_some().into());
        if let Some(Owner { uid, gid }) = owner {
            put(to, uid.into());
            put(to, gid.into());
        }
    }
    put(to, size_bytes);
    let seconds = modified.seconds.wrapping_sub(before.modified.seconds);
    put(to, (seconds << 1 ^ seconds >> 63) as u64);
    put(to, modified.nanoseconds.into());
}

/// Takes the next file off the front, and makes its metadata of that of the one before it. Returns its name.
fn decode<'a>(from: &mut &'a [u8], metadata: &mut Metadata) -> &'a [u8] {
    let length = take(from);
    let (name, rest) = from.split_at((length >> 1) as usize);
    *from = rest;
    if length & 1 == 0 {
        metadata.mode = take(from) as u32;
        let has_owner = take(from) == 1;
        metadata.owner = has_owner.then(|| Owner { uid: take(from) as u32, gid: take(from) as u32 });
    }
    metadata.size_bytes = take(from);
    let seconds = take(from);
    let seconds = (seconds >> 1) as i64 ^ -((seconds & 1) as i64);
    metadata.modified.seconds = metadata.modified.seconds.wrapping_add(seconds);
    metadata.modified.nanoseconds = take(from) as u32;
    name
}

/// Adds a number, seven bits a byte, the lowest first.
fn put(to: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        to.push(number as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

/// Takes off a number of [`put`].
fn take(from: &mut &[u8]) -> u64 {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let Some((&byte, rest)) = from.split_first() else { break };
        *from = rest;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            break;
        }
    }
    number
}

/// Keeps the files of one folder after the other, for one thread.
#[derive(Debug)]
pub(super) struct Keeping<'a> {
    allowance: &'a Allowance,
    /// The folder's files so far.
    encoded: Vec<u8>,
    count: u32,
    last: Metadata,
    is_kept: bool,
    settled: usize,
}

impl<'a> Keeping<'a> {
    pub(super) fn new(allowance: &'a Allowance) -> Self {
        let (encoded, last) = (Vec::new(), Metadata::default());
        Self { allowance, encoded, count: 0, last, is_kept: false, settled: 0 }
    }

    /// A folder begins.
    pub(super) fn begin(&mut self) {
        self.give_up();
        self.last = Metadata::default();
        self.is_kept = true;
    }

    /// The folder is not kept.
    fn give_up(&mut self) {
        self.allowance.give_back(std::mem::take(&mut self.settled));
        self.encoded.clear();
        (self.count, self.is_kept) = (0, false);
    }

    /// The bytes so far count.
    fn settle(&mut self) {
        let bytes = self.encoded.len() - self.settled;
        match self.allowance.take(bytes) {
            true => self.settled += bytes,
            false => self.give_up(),
        }
    }

    /// The folder has this file.
    pub(super) fn add(&mut self, seen: &Seen<'_>) {
        if !self.is_kept {
            return;
        }
        let &Metadata { mode, modified, size_bytes, owner, ref xattrs } = seen.metadata;
        // Attributes have no bound that is worth its memory, and few files have any.
        if !xattrs.is_empty() || self.count == u32::MAX {
            return self.give_up();
        }
        encode(&mut self.encoded, seen.name, seen.metadata, &self.last);
        self.last = Metadata { mode, modified, size_bytes, owner, xattrs: Vec::new() };
        self.count += 1;
        if self.encoded.len() - self.settled >= UNSETTLED_BYTES_MAX {
            self.settle();
        }
    }

    /// The folder ends. Returns its files, if all of them are kept, and they are to be.
    pub(super) fn end(&mut self, is_wanted: bool) -> Option<Box<Files>> {
        if self.is_kept && is_wanted {
            self.settle();
        }
        if !self.is_kept || !is_wanted {
            self.give_up();
            return None;
        }
        let files = Files { encoded: self.encoded.as_slice().into(), count: self.count };
        // Whoever has the files gives their memory back.
        self.settled = 0;
        self.encoded.clear();
        // A long folder must not leave the room that it took.
        self.encoded.shrink_to(UNSETTLED_BYTES_MAX);
        (self.count, self.is_kept) = (0, false);
        Some(Box::new(files))
    }
}

#[cfg(test)]
mod tests {
    use sealane_tree::{EntryType, Timestamp, Xattr};

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

    /// Keeps a folder with so many files.
    fn keep(keeping: &mut Keeping<'_>, count: u64) -> Option<Box<Files>> {
        keeping.begin();
        (0..count).for_each(|number| add(keeping, "name", &metadata(number)));
        keeping.end(true)
    }

    #[test]
    fn files_come_back_as_they_were_seen() {
        let allowance = Allowance::of(KEPT_BYTES_MAX);
        let mut keeping = Keeping::new(&allowance);
        keeping.begin();
        let other = Metadata { mode: u32::MAX, owner: None, size_bytes: u64::MAX, ..metadata(0) };
        let earliest = Timestamp { seconds: i64::MIN, nanoseconds: u32::MAX };
        let latest = Timestamp { seconds: i64::MAX, nanoseconds: 0 };
        let all = [
            ("one", metadata(0)),
            ("", metadata(1 << 40)),
            ("three", Metadata { modified: earliest, ..other.clone() }),
            (&"n".repeat(255), Metadata { modified: latest, ..other }),
            ("last", metadata(7)),
        ];
        all.iter().for_each(|(name, metadata)| add(&mut keeping, name, metadata));
        let files = keeping.end(true).unwrap();
        let wanted = all.iter().map(|(name, metadata)| (name.as_bytes(), metadata.clone()));
        assert!(files.iter().eq(wanted));
        assert_eq!(keep(&mut keeping, 0).map(|files| files.count()), Some(0));
        keeping.begin();
        add(&mut keeping, "name", &metadata(1));
        assert!(keeping.end(false).is_none(), "it is not wanted");
    }

    #[test]
    fn a_folder_with_extended_attributes_is_not_kept_and_costs_nothing() {
        let allowance = Allowance::of(100_000);
        let mut keeping = Keeping::new(&allowance);
        keeping.begin();
        (0..1000).for_each(|number| add(&mut keeping, "name", &metadata(number)));
        let xattrs = vec![Xattr { name: b"user.a".into(), value: b"b".into() }];
        add(&mut keeping, "last", &Metadata { xattrs, ..metadata(0) });
        assert!(keeping.end(true).is_none(), "it has attributes");
        assert_eq!(allowance.left.load(Relaxed), 100_000);
    }

    #[test]
    fn folders_are_kept_until_the_memory_is_used_and_small_ones_after_that_too() {
        let allowance = Allowance::of(30_000);
        let mut keeping = Keeping::new(&allowance);
        let first = keep(&mut keeping, 1000);
        assert_eq!(first.as_ref().map(|files| files.count()), Some(1000));
        let left = allowance.left.load(Relaxed);
        assert!(keep(&mut keeping, 2000).is_none());
        assert_eq!(allowance.left.load(Relaxed), left, "a folder that is not kept costs nothing");
        assert!(keep(&mut keeping, 500).is_some());
        assert!(keep(&mut keeping, 2000).is_none() && keep(&mut keeping, 0).is_some());
        allowance.free(first);
        assert!(keep(&mut keeping, 1000).is_some());
    }
}

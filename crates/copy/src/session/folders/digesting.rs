//! Digests folders: everything by which a folder and its entries are compared, under a key.
//!
//! Guarantees: a folder of which not all could be seen, or in which the sender has entries that it treats in another way than by
//! comparison, is equal to nothing; the order of entries does not matter.

use crossbeam_channel::Sender;
use sealane_tree::{EntryType, Metadata, Seen, SeenFolder, Special, Visitor};

use super::{
    Rules, TOGETHER, UNKNOWN,
    kept::{Files, Keeping},
};
use crate::{journal::is_file_name, proto::entry::hash_xattrs, receive::strays::Strays};

/// Folders with more entries are digested by the hashes of their entries, which bounds the memory.
pub(super) const LONG_ENTRIES: usize = 4096;

/// A folder as one end sees it.
pub(super) struct Digested {
    pub(super) root: u32,
    pub(super) path: Box<[u8]>,
    pub(super) digest: [u8; 16],
    /// The bytes of its files.
    pub(super) bytes: u64,
    /// The number of its entries, if none is a folder.
    pub(super) entries: Option<u32>,
    /// Its files, if they are kept.
    pub(super) files: Option<Box<Files>>,
}

/// Digests the folders that one thread visits.
pub(super) struct Digesting<'a, T> {
    rules: &'a Rules,
    /// The receiver's list of unfinished files; none at the sender.
    strays: Option<&'a Strays>,
    keeping: Keeping<'a>,
    out: Sender<T>,
    digested: Vec<Digested>,
    encoded: Vec<u8>,
    entries: Vec<(u32, u32)>,
    hashes: Vec<[u8; 16]>,
    bytes: u64,
    count: Option<u32>,
    is_fit: bool,
}

impl<'a, T: From<Vec<Digested>>> Digesting<'a, T> {
    /// Returns what digests for a sender, or, with its list of unfinished files, for a receiver.
    pub(super) fn new(
        rules: &'a Rules,
        strays: Option<&'a Strays>,
        keeping: Keeping<'a>,
        out: Sender<T>,
    ) -> Self {
        Self {
            rules,
            strays,
            keeping,
            out,
            digested: Vec::new(),
            encoded: Vec::new(),
            entries: Vec::new(),
            hashes: Vec::new(),
            bytes: 0,
            count: Some(0),
            is_fit: true,
        }
    }

    /// The sender's folders are equal to nothing if they have entries that it treats in another way than by comparison.
    fn is_sender(&self) -> bool {
        self.strays.is_none()
    }

    fn hasher(&self) -> blake3::Hasher {
        blake3::Hasher::new_keyed(&self.rules.key)
    }

    /// Replaces encoded entries by their hashes.
    fn shorten(&mut self) {
        for (start, end) in std::mem::take(&mut self.entries) {
            let mut hash = [0; 16];
            let entry = &self.encoded[start as usize..end as usize];
            self.hasher().update(entry).finalize_xof().fill(&mut hash);
            self.hashes.push(hash);
        }
        self.encoded.clear();
    }

    fn encode_metadata(&mut self, metadata: &Metadata, mode: u32) {
        let to = &mut self.encoded;
        to.extend_from_slice(&mode.to_le_bytes());
        to.extend_from_slice(&metadata.modified.seconds.to_le_bytes());
        to.extend_from_slice(&metadata.modified.nanoseconds.to_le_bytes());
        if let Some(owner) = metadata.owner.filter(|_| self.rules.owner) {
            to.extend_from_slice(&owner.uid.to_le_bytes());
            to.extend_from_slice(&owner.gid.to_le_bytes());
        }
        if self.rules.xattrs.any() && !metadata.xattrs.is_empty() {
            let mut hasher = blake3::Hasher::new();
            hash_xattrs(&mut hasher, &metadata.xattrs);
            self.encoded.extend_from_slice(hasher.finalize().as_bytes());
        }
    }

    /// Returns whether anybody takes what was digested.
    pub(super) fn hand_on(&mut self) -> bool {
        self.digested.is_empty() || self.out.send(std::mem::take(&mut self.digested).into()).is_ok()
    }
}

/// Set-group-id, which a folder inherits from its parent and keeps.
const SET_GROUP_ID: u32 = 0o2000;

impl<T: From<Vec<Digested>>> Visitor for Digesting<'_, T> {
    fn begin(&mut self, _path: &[u8]) {
        self.encoded.clear();
        self.entries.clear();
        self.hashes.clear();
        (self.bytes, self.count, self.is_fit) = (0, Some(0), true);
        self.keeping.begin();
    }

    fn unfinished(&mut self, path: &[u8]) {
        if let Some(strays) = self.strays {
            strays.saw(path);
        }
    }

    fn entry(&mut self, seen: &Seen<'_>) {
        if is_file_name(seen.name) {
            self.is_fit &= !self.is_sender();
            return;
        }
        let start = self.encoded.len() as u32;
        // A name has at most 255 bytes, and the destination of a link at most 4,095.
        self.encoded.extend_from_slice(&(seen.name.len() as u16).to_le_bytes());
        self.encoded.extend_from_slice(seen.name);
        match seen.entry_type {
            EntryType::Directory => {
                self.encoded.push(b'd');
                self.count = None;
            }
            EntryType::File => {
                self.encoded.push(b'f');
                self.encoded.extend_from_slice(&seen.metadata.size_bytes.to_le_bytes());
                self.encode_metadata(seen.metadata, seen.metadata.mode);
                self.bytes += seen.metadata.size_bytes;
                // Names of one file are found among all entries.
                self.is_fit &= !(self.is_sender() && self.rules.hard_links && seen.links > 1);
                self.keeping.add(seen);
            }
            EntryType::Symlink => {
                self.encoded.push(b'l');
                self.encoded.extend_from_slice(&(seen.target.len() as u16).to_le_bytes());
                self.encoded.extend_from_slice(seen.target);
                self.encode_metadata(seen.metadata, 0);
            }
            EntryType::Other if self.rules.specials => {
                let (letter, numbers) = match seen.special {
                    Some(Special::CharacterDevice { major, minor }) => (b'c', [major, minor]),
                    Some(Special::BlockDevice { major, minor }) => (b'b', [major, minor]),
                    Some(Special::Pipe) => (b'p', [0; 2]),
                    Some(Special::Socket) => (b's', [0; 2]),
                    None => (b'o', [0; 2]),
                };
                self.encoded.push(letter);
                numbers.iter().for_each(|number| self.encoded.extend_from_slice(&number.to_le_bytes()));
                self.encode_metadata(seen.metadata, seen.metadata.mode);
            }
            EntryType::Other => {
                self.encoded.push(b'o');
                self.is_fit &= !self.is_sender();
            }
        }
        self.count = self.count.and_then(|count| count.checked_add(1));
        self.entries.push((start, self.encoded.len() as u32));
        if !self.hashes.is_empty() || self.entries.len() > LONG_ENTRIES {
            self.shorten();
        }
    }

    fn end(&mut self, folder: &SeenFolder<'_>) -> bool {
        let mut digest = UNKNOWN;
        if folder.is_whole && self.is_fit {
            let mut hasher = self.hasher();
            match self.hashes.is_empty() {
                true => {
                    let encoded = &self.encoded;
                    let entry = |&(start, end): &(u32, u32)| &encoded[start as usize..end as usize];
                    self.entries.sort_unstable_by(|one, other| entry(one).cmp(entry(other)));
                    self.entries.iter().for_each(|one| _ = hasher.update(entry(one)));
                }
                false => {
                    self.hashes.sort_unstable();
                    self.hashes.iter().for_each(|hash| _ = hasher.update(hash));
                }
            }
            let count = self.entries.len() + self.hashes.len();
            self.encoded.clear();
            self.encoded.extend_from_slice(&(count as u64).to_le_bytes());
            // The target itself keeps its own attributes.
            if !folder.path.is_empty() {
                let mode = if self.rules.folder_modes { folder.metadata.mode & !SET_GROUP_ID } else { 0 };
                self.encode_metadata(folder.metadata, mode);
            }
            hasher.update(&self.encoded).finalize_xof().fill(&mut digest);
        }
        // The sender looks again at a folder that its files alone do not judge.
        let is_kept = !self.is_sender() || (folder.is_whole && self.is_fit);
        self.digested.push(Digested {
            root: folder.root,
            path: folder.path.into(),
            digest,
            bytes: self.bytes,
            entries: self.count,
            files: self.keeping.end(is_kept),
        });
        self.digested.len() < TOGETHER || self.hand_on()
    }
}

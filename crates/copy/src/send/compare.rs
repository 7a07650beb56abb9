//! Compares a folder of the sender with the files that the receiver has in it.
//!
//! Guarantees: a file counts as equal where one that is looked at alone would be passed over: its size, its time and its
//! attributes are the same; of a folder most of whose files are equal, only those that differ are remembered; nothing follows
//! for a folder of which not all could be seen.

use std::collections::{HashMap, HashSet};

use sealane_tree::{EntryType, Folders, Memory, Metadata, RelativePath, Seen, SeenFolder, Visitor};

use crate::{
    journal::is_file_name,
    proto::{
        entry::{bytes_hash, path_hash},
        message::{Held, List},
    },
    transfer::known::Knowing,
};

/// The result of the comparison of a folder.
#[derive(Debug)]
pub(crate) enum Verdict {
    /// All files are equal but the changed ones.
    Nearly {
        /// The number of its root, and the hash of its path.
        folder: (u32, [u8; 16]),
        /// The bytes of the equal files.
        bytes: u64,
        /// The number of its equal entries, if all entries are files.
        entries: Option<u32>,
        /// The changed files.
        changed: Changed,
        /// The files of the list that are not equal to any.
        rest: List,
    },
    /// Nothing follows from it.
    Unknown(List),
}

/// Files of a folder that have changed.
#[derive(Debug, Default)]
pub(crate) struct Changed {
    /// The hashes of their paths.
    pub(crate) hashes: Vec<[u8; 16]>,
    /// Their names, each with a slash behind it.
    pub(crate) names: Vec<u8>,
}

/// Compares the sender's own folder with a list.
struct Comparing {
    knowing: Knowing,
    list: List,
    held: HashMap<[u8; 16], [u8; 8]>,
    path: Vec<u8>,
    bytes: u64,
    equal_count: usize,
    has_only_files: bool,
    /// The hashes of the paths of equal files, if the list has facts besides.
    equal: HashSet<[u8; 16]>,
    /// Files of the list with the same content and other attributes.
    touched: HashSet<[u8; 16]>,
    changed: Changed,
    is_fit: bool,
    folder: Option<(u32, [u8; 16])>,
}

impl Comparing {
    fn new(knowing: Knowing, list: List) -> Self {
        Self {
            knowing,
            held: list.done.iter().map(|held| (held.identity, held.attributes)).collect(),
            list,
            path: Vec::new(),
            bytes: 0,
            equal_count: 0,
            has_only_files: true,
            equal: HashSet::new(),
            touched: HashSet::new(),
            changed: Changed::default(),
            is_fit: true,
            folder: None,
        }
    }

    fn verdict(self) -> Verdict {
        let Self { mut list, bytes, equal_count, has_only_files, equal, touched, changed, folder, .. } = self;
        // To remember what has changed is no gain where that is most.
        let Some(folder) = folder.filter(|_| changed.hashes.len() <= equal_count) else {
            return Verdict::Unknown(list);
        };
        list.done.retain(|held| touched.contains(&held.identity));
        list.dated.retain(|dated| !equal.contains(&dated.path));
        list.versions.retain(|version| !equal.contains(&version.path));
        let entries = u32::try_from(equal_count).ok().filter(|_| has_only_files);
        Verdict::Nearly { folder, bytes, entries, changed, rest: list }
    }
}

impl Visitor for Comparing {
    fn begin(&mut self, path: &[u8]) {
        self.path = path.to_vec();
    }

    fn unfinished(&mut self, _path: &[u8]) {
        self.is_fit = false;
    }

    fn entry(&mut self, seen: &Seen<'_>) {
        if is_file_name(seen.name) {
            self.is_fit = false;
        }
        if seen.entry_type != EntryType::File {
            self.has_only_files = false;
            return;
        }
        let Ok(path) = RelativePath::within(&self.path, seen.name) else {
            self.is_fit = false;
            return;
        };
        let Held { identity, attributes } = self.knowing.held(&path, seen.metadata);
        let there = self.held.get(&identity);
        // Names of one file are found among all entries.
        let is_apart = self.knowing.hard_links && seen.links > 1;
        if !is_apart && there.is_some_and(|there| *there == attributes) {
            self.equal_count += 1;
            self.bytes = self.bytes.saturating_add(seen.metadata.size_bytes);
            if !self.list.dated.is_empty() || !self.list.versions.is_empty() {
                self.equal.insert(path_hash(&path));
            }
        } else {
            self.touched.extend(there.map(|_| identity));
            self.changed.hashes.push(path_hash(&path));
            self.changed.names.extend_from_slice(seen.name);
            self.changed.names.push(b'/');
        }
    }

    fn end(&mut self, folder: &SeenFolder<'_>) -> bool {
        let is_known = folder.is_whole && self.is_fit;
        self.folder = is_known.then(|| (folder.root, bytes_hash(folder.path)));
        true
    }
}

/// Compares a list with the sender's own folder, of which these are all files, and, if `is_all`, all entries.
pub(crate) fn compare_kept<'a>(
    knowing: Knowing,
    (root, path): (u32, &[u8]),
    files: impl Iterator<Item = (&'a [u8], Metadata)>,
    is_all: bool,
    list: List,
) -> Verdict {
    let mut comparing = Comparing::new(knowing, list);
    comparing.begin(path);
    for (name, metadata) in files {
        let entry_type = EntryType::File;
        comparing.entry(&Seen {
            name,
            entry_type,
            metadata: &metadata,
            target: b"",
            links: 1,
            special: None,
        });
    }
    comparing.has_only_files &= is_all;
    comparing.folder = comparing.is_fit.then(|| (root, bytes_hash(path)));
    comparing.verdict()
}

/// Compares a list with the sender's own folder, given by its root and its name on the wire.
pub(crate) fn compare_list(
    own: &Folders,
    memory: &mut Memory,
    knowing: Knowing,
    folder: (u32, &[u8]),
    list: List,
) -> Verdict {
    let mut comparing = Comparing::new(knowing, list);
    own.visit_only(folder, memory, &mut comparing);
    comparing.verdict()
}

//! The files of folders that differ, as a receiver tells them.
//!
//! Guarantees: no file is opened; lists are handed on in pieces of bounded length, those of most folders whole.

use std::collections::HashMap;

use crossbeam_channel::Sender;
use sealane_tree::{EntryType, Metadata, RelativePath, Seen, SeenFolder, Visitor};

use crate::{
    journal::is_file_name,
    proto::message::{HAVE_PER_MESSAGE, Have, LIST_FILES_MAX, List, Lists},
    session::{folders::Telling, survey::version_held},
};

/// The numbers of the folders that the sender has asked for, by their paths; `None` for those that it does not have, of which only
/// versions are told.
pub(super) type Numbers = HashMap<Box<[u8]>, Option<u32>>;

/// Files in folders that differ.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Listed {
    /// Folders of which all files are in one list.
    pub(super) lists: Lists,
    /// Files of other folders.
    pub(super) have: Have,
}

impl Listed {
    /// Returns the number of facts told.
    pub(super) fn count(&self) -> usize {
        self.lists.count() + count(&self.have)
    }

    pub(super) fn append(&mut self, other: Self) {
        self.lists.append(other.lists);
        append(&mut self.have, other.have);
    }
}

fn count(have: &Have) -> usize {
    have.done.len() + have.dated.len() + have.versions.len()
}

/// Adds the files of `other`.
pub(super) fn append(have: &mut Have, other: Have) {
    have.done.extend(other.done);
    have.dated.extend(other.dated);
    have.versions.extend(other.versions);
}

/// Lists the files of folders that one thread visits.
pub(super) struct Listing<'a> {
    telling: Telling<'a>,
    numbers: &'a Numbers,
    out: Sender<Listed>,
    path: Vec<u8>,
    /// The number of the folder, unless its files are told without it.
    number: Option<u32>,
    is_gone: bool,
    /// The files of the folder.
    files: Have,
    listed: Listed,
    listed_count: usize,
}

impl<'a> Listing<'a> {
    pub(super) fn new(telling: Telling<'a>, numbers: &'a Numbers, out: Sender<Listed>) -> Self {
        let (path, files, listed) = (Vec::new(), Have::default(), Listed::default());
        let (number, is_gone, listed_count) = (None, false, 0);
        Self { telling, numbers, out, path, number, is_gone, files, listed, listed_count }
    }

    pub(super) fn hand_on(&mut self) -> bool {
        self.listed_count = 0;
        self.listed == Listed::default() || self.out.send(std::mem::take(&mut self.listed)).is_ok()
    }

    /// The folder ends. Returns whether anybody takes what is told.
    pub(super) fn folder_ends(&mut self) -> bool {
        let files = std::mem::take(&mut self.files);
        self.listed_count += 1 + count(&files);
        match self.number {
            Some(folder) => {
                let Have { done, dated, versions, .. } = files;
                self.listed.lists.push(List { folder, done, dated, versions });
            }
            None => append(&mut self.listed.have, files),
        }
        self.listed_count < HAVE_PER_MESSAGE / 8 || self.hand_on()
    }

    /// Lists a file of the folder that has begun.
    pub(super) fn file(&mut self, name: &[u8], metadata: &Metadata) {
        let Ok(path) = RelativePath::within(&self.path, name) else { return };
        let Telling { knowing, versions, movable } = self.telling;
        let files = &mut self.files;
        files.versions.extend(versions.then(|| version_held(&path, metadata, movable)).flatten());
        if !self.is_gone {
            files.dated.extend(knowing.dated(&path, metadata));
            files.done.push(knowing.held(&path, metadata));
        }
        if count(files) > LIST_FILES_MAX {
            self.number = None;
            // If it is over, the end of the folder notices that.
            self.folder_ends();
        }
    }
}

impl Visitor for Listing<'_> {
    fn begin(&mut self, path: &[u8]) {
        self.path.clear();
        self.path.extend_from_slice(path);
        let number = self.numbers.get(path);
        self.number = number.copied().flatten();
        self.is_gone = number.is_some_and(Option::is_none);
    }

    fn entry(&mut self, seen: &Seen<'_>) {
        if seen.entry_type == EntryType::File && !is_file_name(seen.name) {
            self.file(seen.name, seen.metadata);
        }
    }

    fn end(&mut self, _folder: &SeenFolder<'_>) -> bool {
        self.folder_ends()
    }
}

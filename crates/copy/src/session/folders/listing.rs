//! The files of folders that differ, as a receiver tells them.
//!
//! Guarantees: no file is opened; lists are handed on in pieces of bounded length, those of most folders whole.

use crossbeam_channel::Sender;
use sealane_tree::{EntryType, Metadata, RelativePath, Seen, SeenFolder, Visitor};

use crate::{
    journal::is_file_name,
    proto::message::{HAVE_PER_MESSAGE, Have, LIST_FILES_MAX, List, Lists},
    session::{
        folders::{Telling, kept::Files},
        survey::version_held,
    },
};

/// Files in folders that differ.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Listed {
    /// The number of folders that are told with them.
    pub(super) folders: usize,
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
        self.folders += other.folders;
        self.lists.append(other.lists);
        append(&mut self.have, other.have);
    }
}

/// Returns the number of facts told.
pub(super) fn count(have: &Have) -> usize {
    have.done.len() + have.dated.len() + have.versions.len()
}

/// Adds the files of `other`.
pub(super) fn append(have: &mut Have, other: Have) {
    have.done.extend(other.done);
    have.dated.extend(other.dated);
    have.versions.extend(other.versions);
}

/// Why a folder is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AskedFor {
    /// Nobody has asked: its files are told without it.
    Nothing,
    /// The sender has it, too, and wants to know all files of the folder of this number.
    Files(u32),
    /// The sender does not have it, and looks for files that were moved.
    Versions,
}

/// Lists the files of folders that one thread visits.
///
/// Files of a long folder are told without it; its own list is empty then, and follows them.
pub(super) struct Listing<'a, T> {
    telling: Telling<'a>,
    out: Sender<T>,
    path: Vec<u8>,
    asked: AskedFor,
    is_long: bool,
    /// The files of the folder.
    files: Have,
    listed: Listed,
    listed_count: usize,
}

impl<'a, T: From<Listed>> Listing<'a, T> {
    pub(super) fn new(telling: Telling<'a>, out: Sender<T>) -> Self {
        let (path, files, listed) = (Vec::new(), Have::default(), Listed::default());
        let (asked, is_long, listed_count) = (AskedFor::Nothing, false, 0);
        Self { telling, out, path, asked, is_long, files, listed, listed_count }
    }

    /// Returns whether anybody takes what was listed.
    pub(super) fn hand_on(&mut self) -> bool {
        self.listed_count = 0;
        self.listed == Listed::default() || self.out.send(std::mem::take(&mut self.listed).into()).is_ok()
    }

    /// The next folder is told for this reason.
    pub(super) fn told_for(&mut self, asked: AskedFor) {
        (self.asked, self.is_long) = (asked, false);
    }

    /// The folder that was asked for has been listed, whatever there was to list.
    pub(super) fn folder_is_told(&mut self) -> bool {
        self.listed.folders += 1;
        if let AskedFor::Files(folder) = self.asked {
            let Have { done, dated, versions, .. } = std::mem::take(&mut self.files);
            self.listed.lists.push(List { folder, done, dated, versions });
        }
        self.asked = AskedFor::Nothing;
        self.has_room() || self.hand_on()
    }

    fn has_room(&self) -> bool {
        self.listed_count < HAVE_PER_MESSAGE / 8
    }

    /// The folder ends. Returns whether anybody takes what is told.
    fn folder_ends(&mut self) -> bool {
        self.listed_count += 1 + count(&self.files);
        if self.is_long || !matches!(self.asked, AskedFor::Files(_)) {
            append(&mut self.listed.have, std::mem::take(&mut self.files));
        }
        self.has_room() || self.hand_on()
    }

    /// Lists the files of a folder that are kept.
    pub(super) fn list_kept(&mut self, path: &[u8], files: &Files) {
        self.begin(path);
        files.iter().for_each(|(name, metadata)| self.file(name, &metadata));
        self.folder_ends();
    }

    /// Lists a file of the folder that has begun.
    pub(super) fn file(&mut self, name: &[u8], metadata: &Metadata) {
        let Ok(path) = RelativePath::within(&self.path, name) else { return };
        let Telling { knowing, versions, movable } = self.telling;
        let files = &mut self.files;
        files.versions.extend(versions.then(|| version_held(&path, metadata, movable)).flatten());
        if !matches!(self.asked, AskedFor::Versions) {
            files.dated.extend(knowing.dated(&path, metadata));
            files.done.push(knowing.held(&path, metadata));
        }
        if count(files) > LIST_FILES_MAX {
            self.is_long = true;
            // If it is over, the end of the folder notices that.
            self.folder_ends();
        }
    }
}

impl<T: From<Listed>> Visitor for Listing<'_, T> {
    fn begin(&mut self, path: &[u8]) {
        self.path.clear();
        self.path.extend_from_slice(path);
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

//! The files of folders that differ, as a receiver tells them.
//!
//! Guarantees: no file is opened; lists are handed on in pieces of bounded length.

use std::collections::HashSet;

use crossbeam_channel::Sender;
use sealane_tree::{EntryType, Metadata, RelativePath, Seen, SeenFolder, Visitor};

use crate::{
    journal::is_file_name,
    proto::{
        entry::{attributes, known_identity, path_hash},
        message::{Dated, HAVE_PER_MESSAGE, Held, VersionHeld},
    },
    session::{ends::version_held, folders::Telling},
};

/// A file in a folder that differs.
pub(super) struct Listed {
    /// Nothing of a file in a folder that the sender does not have.
    pub(super) held: Option<Held>,
    pub(super) dated: Option<Dated>,
    pub(super) version: Option<VersionHeld>,
}

/// Lists the files of folders that one thread visits.
pub(super) struct Listing<'a> {
    with_owner: bool,
    telling: Telling<'a>,
    /// Folders that the sender does not have: only versions are told.
    gone: &'a HashSet<Box<[u8]>>,
    out: Sender<Vec<Listed>>,
    path: Vec<u8>,
    is_gone: bool,
    held: Vec<Listed>,
}

impl<'a> Listing<'a> {
    pub(super) fn new(
        with_owner: bool,
        telling: Telling<'a>,
        gone: &'a HashSet<Box<[u8]>>,
        out: Sender<Vec<Listed>>,
    ) -> Self {
        Self { with_owner, telling, gone, out, path: Vec::new(), is_gone: false, held: Vec::new() }
    }

    pub(super) fn hand_on(&mut self) -> bool {
        self.held.is_empty() || self.out.send(std::mem::take(&mut self.held)).is_ok()
    }

    /// Hands on what are enough for it. Returns whether anybody takes them.
    pub(super) fn may_go_on(&mut self) -> bool {
        self.held.len() < HAVE_PER_MESSAGE / 8 || self.hand_on()
    }

    /// Lists a file of the folder that has begun.
    pub(super) fn file(&mut self, name: &[u8], metadata: &Metadata) {
        let Ok(path) = RelativePath::within(&self.path, name) else { return };
        let Telling { update, versions, movable, sameness } = self.telling;
        let version = versions.then(|| version_held(&path, metadata, movable)).flatten();
        if self.is_gone {
            self.held.extend(version.map(|version| Listed {
                held: None,
                dated: None,
                version: Some(version),
            }));
            self.may_go_on();
            return;
        }
        let attributes = attributes(metadata, sameness.is_apart_from_time(), self.with_owner);
        let is_dated = update || sameness.window_seconds().is_some();
        let dated = is_dated.then(|| Dated { path: path_hash(&path), modified: metadata.modified });
        let held = Held { identity: known_identity(&path, metadata, sameness), attributes };
        self.held.push(Listed { held: Some(held), dated, version });
        // If it is over, the end of the folder notices that.
        self.may_go_on();
    }
}

impl Visitor for Listing<'_> {
    fn begin(&mut self, path: &[u8]) {
        self.path.clear();
        self.path.extend_from_slice(path);
        self.is_gone = self.gone.contains(path);
    }

    fn entry(&mut self, seen: &Seen<'_>) {
        if seen.entry_type == EntryType::File && !is_file_name(seen.name) {
            self.file(seen.name, seen.metadata);
        }
    }

    fn end(&mut self, _folder: &SeenFolder<'_>) -> bool {
        self.may_go_on()
    }
}

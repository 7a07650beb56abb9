//! Entries that wait for a name that an entry of another kind has: how they wait, and how they get it.
//!
//! If a target may replace one kind by another ([`TargetOptions::replaces_other_kinds`](crate::TargetOptions)), the
//! new entry is made complete beside the old one, under a temporary name, and the old one stays untouched until
//! [`Writer::succeed`]. Entries below a waiting directory are made in that directory: every path is resolved through
//! [`Inner::located`].

use std::borrow::Cow;
use std::os::fd::AsFd;

use rustix::fs::{AtFlags, Mode, RenameFlags, mkdirat, renameat, renameat_with, statat, unlinkat};
use rustix::io::Errno;

use crate::error::{EntryType, Error, Operation, Result, entry_type, failed, resolve_error};
use crate::inner::{Inner, UNFINISHED_DIRECTORY};
use crate::path::RelativePath;
use crate::place::back_up;
use crate::target::Target;
use crate::temporary::TempName;
use crate::waiting::{Waiting, prefixes, renamed};
use crate::writer::Writer;

/// An entry that waits for its name.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Successor {
    /// The name.
    pub path: RelativePath,
    /// Whether it is a directory.
    pub is_directory: bool,
    /// Whether an entry that belongs into it could not be made.
    pub is_incomplete: bool,
}

impl Inner {
    /// Returns the present place of `path`: below a waiting directory, it contains that directory's temporary name.
    pub(crate) fn located<'a>(&self, path: &'a [u8]) -> Cow<'a, [u8]> {
        if !self.successors.any() {
            return Cow::Borrowed(path);
        }
        let waiting = self.successors.waiting();
        let found = prefixes(path).find_map(|prefix| {
            let found = waiting.get(&prefix).filter(|waiting| waiting.is_directory)?;
            Some(renamed(path, &prefix, found.temp))
        });
        found.map_or(Cow::Borrowed(path), Cow::Owned)
    }

    /// Returns whether a path lies below a waiting directory. Entries there never give way, because this copy made
    /// all of them.
    fn is_below_successor(&self, path: &RelativePath) -> bool {
        matches!(self.located(path.split().0), Cow::Owned(_))
    }

    /// Makes the file or link under `temp` wait until `found`, which has its name, has gone.
    pub(crate) fn wait(
        &self,
        parent: impl AsFd,
        path: &RelativePath,
        temp: &TempName,
        conflict: Error,
    ) -> Result<()> {
        if !self.options.replaces_other_kinds || self.is_below_successor(path) {
            return Err(conflict);
        }
        self.check_room(path)?;
        let mut waiting = self.successors.waiting();
        match waiting.get(path) {
            Some(earlier) if earlier.is_directory => return Err(conflict),
            // The same entry was sent twice.
            Some(earlier) if earlier.temp != *temp => {
                let _ = unlinkat(parent, earlier.temp.as_bytes(), AtFlags::empty());
            }
            _ => self.count_path(path),
        }
        self.successors.insert(&mut waiting, path, *temp, false);
        Ok(())
    }

    /// Makes the directory that is to have the name `name` of `parent` once `found` has gone, or takes up the one
    /// that waits already. Gives its temporary name.
    pub(crate) fn wait_as_directory(
        &self,
        parent: impl AsFd,
        path: &RelativePath,
        found: EntryType,
    ) -> Result<TempName> {
        let conflict = || Error::TypeConflict { path: path.into(), wanted: EntryType::Directory, found };
        if !self.options.replaces_other_kinds || self.is_below_successor(path) {
            return Err(conflict());
        }
        let mut waiting = self.successors.waiting();
        match waiting.get(path) {
            Some(earlier) if earlier.is_directory => return Ok(earlier.temp),
            Some(_) => return Err(conflict()),
            None => {}
        }
        self.check_room(path)?;
        let temp = self.own_temp_name(path).unwrap_or_else(|| self.temp_name());
        let made = |errno| failed(Operation::Create, path, errno);
        match self.make_or_take_up(&parent, &temp) {
            // An earlier run, in which this entry was a file, left a file of that name.
            Err(Errno::NOTDIR) => {
                unlinkat(&parent, temp.as_bytes(), AtFlags::empty()).map_err(made)?;
                self.make_or_take_up(&parent, &temp).map_err(made)?;
            }
            result => result.map_err(made)?,
        }
        self.count_path(path);
        self.successors.insert(&mut waiting, path, temp, true);
        Ok(temp)
    }

    fn make_or_take_up(&self, parent: impl AsFd, temp: &TempName) -> Result<(), Errno> {
        match mkdirat(&parent, temp.as_bytes(), Mode::from_raw_mode(UNFINISHED_DIRECTORY)) {
            Err(Errno::EXIST) => {
                let stat = statat(&parent, temp.as_bytes(), AtFlags::SYMLINK_NOFOLLOW)?;
                if entry_type(&stat) == EntryType::Directory { Ok(()) } else { Err(Errno::NOTDIR) }
            }
            made => made,
        }
    }

    /// Finds the directory that an earlier target of the same number made in place of a component of `path` that is
    /// not a directory. Returns whether there is one.
    pub(crate) fn take_up_successor(&self, path: &[u8]) -> bool {
        if !self.options.replaces_other_kinds || self.options.resumable_as.is_none() {
            return false;
        }
        for prefix in prefixes(path) {
            let (parent, name) = prefix.split();
            let Ok(parent) = self.beneath.handle(parent) else { return false };
            let is_directory = |name: &[u8]| {
                statat(&parent, name, AtFlags::SYMLINK_NOFOLLOW)
                    .map(|stat| entry_type(&stat) == EntryType::Directory)
            };
            if is_directory(name) != Ok(false) {
                continue;
            }
            let Some(temp) = self.own_temp_name(&prefix) else { return false };
            if is_directory(temp.as_bytes()) != Ok(true) || self.check_room(&prefix).is_err() {
                return false;
            }
            self.count_path(&prefix);
            self.successors.insert(&mut self.successors.waiting(), &prefix, temp, true);
            self.record(&prefix, true, None, None);
            return true;
        }
        false
    }
}

impl Target {
    /// Returns the entries that wait for names that entries of other kinds have.
    pub fn successors(&self) -> Vec<Successor> {
        let waiting = self.inner.successors.waiting();
        let successor = |(path, &Waiting { is_directory, is_incomplete, .. }): (&RelativePath, &Waiting)| {
            Successor { path: path.clone(), is_directory, is_incomplete }
        };
        waiting.iter().map(successor).collect()
    }

    /// Notes that the entry `path` could not be made, so a directory above it is incomplete.
    pub fn mark_incomplete(&self, path: &RelativePath) {
        if !self.inner.successors.any() {
            return;
        }
        let mut waiting = self.inner.successors.waiting();
        for prefix in prefixes(path.as_bytes()) {
            if let Some(waiting) = waiting.get_mut(&prefix) {
                waiting.is_incomplete = true;
            }
        }
    }

    /// Removes the entry that waits for the name `path`. The entry that has the name keeps it.
    pub fn withdraw(&self, path: &RelativePath) -> Result<()> {
        let Some(waiting) = self.inner.successors.waiting().get(path).copied() else { return Ok(()) };
        let place = RelativePath::from_vec(renamed(path.as_bytes(), path, waiting.temp))?;
        self.inner.successors.remove(path);
        if waiting.is_directory {
            self.inner.forget_directories(path);
            return self.remove_tree(&place);
        }
        let removed = self
            .inner
            .parent(place.split().0)
            .and_then(|parent| unlinkat(parent, place.file_name(), AtFlags::empty()));
        removed.map_err(|errno| resolve_error(Operation::Remove, path, errno))
    }

    /// Removes all entries that wait. A failed copy reports its own failure, and not one of this removal.
    pub fn withdraw_all(&self) {
        for successor in self.successors() {
            let _ = self.withdraw(&successor.path);
        }
    }
}

impl Writer {
    /// Returns whether the entry that waits for the name `path` still exists: no entry gives way to one that has been
    /// removed.
    pub fn has_successor(&mut self, path: &RelativePath) -> bool {
        let Some(temp) = self.inner().successors.temp_name(path) else { return false };
        let parent = self.existing_parent(path.split().0);
        parent.is_ok_and(|parent| statat(&*parent, temp.as_bytes(), AtFlags::SYMLINK_NOFOLLOW).is_ok())
    }

    /// Gives the entry that waits for the name `path` that name. A file, link, device, pipe or socket with that name
    /// is replaced at once or becomes a backup; a directory must have gone.
    pub fn succeed(&mut self, path: &RelativePath) -> Result<()> {
        let Some(waiting) = self.inner().successors.waiting().get(path).copied() else { return Ok(()) };
        let wanted = if waiting.is_directory { EntryType::Directory } else { EntryType::File };
        let (directory, name) = path.split();
        let parent =
            self.existing_parent(directory).map_err(|errno| resolve_error(Operation::Rename, path, errno))?;
        let temp = waiting.temp.as_bytes();
        let moved = |errno| failed(Operation::Rename, path, errno);
        let found = match statat(&*parent, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => Some(entry_type(&stat)),
            Err(Errno::NOENT) => None,
            Err(errno) => return Err(failed(Operation::Inspect, path, errno)),
        };
        if found == Some(EntryType::Directory) {
            return Err(Error::TypeConflict { path: path.into(), wanted, found: EntryType::Directory });
        }
        if found.is_some() {
            back_up(self.inner(), &parent, path, name, true)?;
        }
        let exchanged = match waiting.is_directory {
            true => renameat_with(&*parent, temp, &*parent, name, RenameFlags::EXCHANGE),
            // A rename replaces anything but a directory.
            false => Err(Errno::NOENT),
        };
        match exchanged {
            // The old entry now has the temporary name.
            Ok(()) => unlinkat(&*parent, temp, AtFlags::empty()).map_err(moved)?,
            Err(errno) => {
                // The name is missing for a moment: the backup took it away, or the file system cannot exchange
                // names.
                if waiting.is_directory && errno != Errno::NOENT {
                    unlinkat(&*parent, name, AtFlags::empty()).map_err(moved)?;
                }
                renameat(&*parent, temp, &*parent, name).map_err(moved)?;
            }
        }
        self.inner().successors.remove(path);
        Ok(())
    }
}

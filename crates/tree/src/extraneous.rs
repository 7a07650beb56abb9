//! Entries that a target has and its source has not: [`Target::extraneous`], and their removal.
//!
//! No link is followed, so nothing outside the target is found; an entry is named by its path, and removed as one
//! name in its parent, which is resolved anew.

use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags, fchmod, fstat, renameat_with, unlinkat};
use rustix::io::Errno;
use std::os::fd::AsFd;
use std::sync::Arc;

use crate::beneath::{Beneath, HANDLE};
use crate::descent::{Descent, DescentOptions, Found};
use crate::error::{Error, Operation, Result, failed, resolve_error};
use crate::path::{MAX_PATH_BYTES, RelativePath};
use crate::place::{back_up, make_parents};
use crate::target::Target;
use crate::writer::Writer;

/// The decision about a name in the target.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Judgement {
    /// The source has it too. A directory is not looked into.
    Known,
    /// The source has it too, and all its entries are known: the descent looks into it.
    Listed,
    /// It stays, whether the source has it or not, and so do the directories above it.
    Protected,
    /// The source does not have it.
    Extraneous,
}

/// A name that the source does not have.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Extra {
    /// The path of the name.
    pub path: RelativePath,
    /// Whether it is a directory; its entries are extraneous as well, and come after it.
    pub is_directory: bool,
}

/// The result of one search of a target.
#[derive(Debug, Default)]
pub struct Extraneous {
    /// Names to be removed, from the last to the first.
    pub entries: Vec<Extra>,
    /// The errors of entries that could not be examined.
    pub errors: Vec<Error>,
    /// Whether there are more names than were asked for; another search finds them once these are removed.
    pub has_more: bool,
}

/// A search in progress.
#[derive(Debug, Default)]
struct Look {
    above: Option<RelativePath>,
    entries: Vec<(Extra, bool)>,
    /// The extraneous directories that contain the present one, the outermost first.
    inside: Vec<usize>,
    /// Whether the source has the name that was accepted last.
    is_known: bool,
}

fn is_within(path: &[u8], directory: &[u8]) -> bool {
    path.strip_prefix(directory).is_some_and(|rest| rest.is_empty() || rest[0] == b'/')
}

impl Look {
    fn whole(&self, below: &[u8]) -> Option<RelativePath> {
        match &self.above {
            Some(above) if below.is_empty() => Some(above.clone()),
            Some(above) => above.child(below).ok(),
            None => RelativePath::new(below).ok(),
        }
    }

    /// Forgets the directories that do not contain `path`.
    fn leave(&mut self, path: &RelativePath) {
        while let Some(&index) = self.inside.last()
            && !is_within(path.as_bytes(), self.entries[index].0.path.as_bytes())
        {
            self.inside.pop();
        }
    }

    /// Keeps the directories that contain the present entry.
    fn keep_parents(&mut self) {
        for &index in &self.inside {
            self.entries[index].1 = true;
        }
    }

    fn wants(
        &mut self,
        below: &[u8],
        is_directory: bool,
        judge: &mut impl FnMut(&RelativePath, bool) -> Judgement,
    ) -> bool {
        let Some(path) = self.whole(below) else { return false };
        self.leave(&path);
        let judgement = judge(&path, is_directory);
        self.is_known = self.inside.is_empty() && judgement == Judgement::Listed;
        match judgement {
            Judgement::Protected => {
                self.keep_parents();
                false
            }
            _ if !self.inside.is_empty() => true,
            Judgement::Known => false,
            Judgement::Listed => is_directory,
            Judgement::Extraneous => true,
        }
    }
}

impl Target {
    /// Searches the directory `below`, or the whole target, for at most `entries_max` names that `judge` (called with
    /// a path and whether it is a directory) declares extraneous. For entries of an extraneous directory, only
    /// [`Judgement::Protected`] matters.
    pub fn extraneous(
        &self,
        below: Option<&RelativePath>,
        one_file_system: bool,
        entries_max: usize,
        mut judge: impl FnMut(&RelativePath, bool) -> Judgement,
    ) -> Result<Extraneous> {
        let options = DescentOptions { one_file_system, inspect_files: false, follow: false };
        let resolution = self.inner.options.resolution;
        let (beneath, mut descent) = match below {
            None => {
                let beneath = Beneath::new(Arc::clone(self.inner.beneath.root()), resolution);
                let started = Descent::new(&beneath, options, MAX_PATH_BYTES);
                let (descent, _) = started.map_err(|errno| self.inner.root_error(errno))?;
                (beneath, descent)
            }
            Some(path) => {
                let open = |errno| resolve_error(Operation::List, path, errno);
                let handle = self.inner.open(path.as_bytes(), HANDLE).map_err(open)?;
                let beneath = Beneath::new(handle, resolution);
                let length_max = MAX_PATH_BYTES.saturating_sub(path.as_bytes().len() + 1);
                let (descent, _) = Descent::new(&beneath, options, length_max).map_err(open)?;
                (beneath, descent)
            }
        };
        let mut look = Look { above: below.cloned(), ..Look::default() };
        let mut errors = Vec::new();
        let mut has_more = false;
        while let Some(found) =
            descent.next(&beneath, |path, is_directory| look.wants(path, is_directory, &mut judge))
        {
            // Only a failure to continue the listing of the root itself comes without a path.
            let Some(path) = look.whole(descent.path()) else { break };
            let is_directory = match found {
                Found::File(_) | Found::Symlink | Found::Other => false,
                Found::Directory(_) if look.is_known => continue,
                Found::Directory(_) => true,
                Found::Failed(errno) | Found::Unreachable(errno) => {
                    look.leave(&path);
                    look.keep_parents();
                    errors.push(failed(Operation::List, &path, errno));
                    continue;
                }
                Found::TooLong => {
                    look.keep_parents();
                    errors.push(Error::NameTooLong { path: path.into() });
                    continue;
                }
            };
            if look.entries.len() == entries_max {
                has_more = true;
                // These directories have entries that were not looked at.
                look.leave(&path);
                look.keep_parents();
                break;
            }
            if is_directory {
                look.inside.push(look.entries.len());
            }
            look.entries.push((Extra { path, is_directory }, false));
        }
        let entries =
            look.entries.into_iter().filter_map(|(extra, stays)| (!stays).then_some(extra)).collect();
        Ok(Extraneous { entries, errors, has_more })
    }
}

/// Number of names that one search removes from a tree.
const NAMES_AT_ONCE: usize = 1 << 12;

impl Target {
    /// Removes the directory `path` and all its entries, without a backup.
    pub(crate) fn remove_tree(&self, path: &RelativePath) -> Result<()> {
        let mut writer = self.writer();
        let failed = |path: &RelativePath, errno| resolve_error(Operation::Remove, path, errno);
        loop {
            let found = self.extraneous(Some(path), false, NAMES_AT_ONCE, |_, _| Judgement::Extraneous)?;
            if let Some(error) = found.errors.into_iter().next() {
                return Err(error);
            }
            for Extra { path, is_directory } in found.entries.iter().rev() {
                writer.unlink_opened(path, *is_directory).map_err(|errno| failed(path, errno))?;
            }
            if !found.has_more {
                return writer.unlink_opened(path, true).map_err(|errno| failed(path, errno));
            }
            // No entry can be removed, so another search would find the same ones, without end.
            if found.entries.is_empty() {
                return Err(Error::NameTooLong { path: path.into() });
            }
        }
    }
}

impl Writer {
    /// Makes the directory `path`, with all its entries, a backup. Returns false if backups are off, or if the
    /// backup's name is taken by a directory with which this one can be merged, entry by entry.
    pub fn set_aside(&mut self, path: &RelativePath) -> Result<bool> {
        let Some(backups) = self.inner().options.backup.clone() else { return Ok(false) };
        let place = backups.place(path).map_err(|_| Error::NameTooLong { path: path.into() })?;
        let opened = |errno| resolve_error(Operation::Open, path, errno);
        let parent = self.existing_parent(path.split().0).map_err(opened)?;
        let (folder, saved) = place.split();
        let aside = match &backups.folder {
            None => None,
            Some(_) => {
                make_parents(self.inner(), &place, folder)?;
                Some(self.inner().open(folder, HANDLE).map_err(opened)?)
            }
        };
        let to = aside.as_ref().map_or_else(|| parent.as_fd(), AsFd::as_fd);
        match renameat_with(&*parent, path.file_name(), to, saved, RenameFlags::NOREPLACE) {
            Ok(()) => Ok(true),
            Err(Errno::EXIST | Errno::NOTEMPTY | Errno::INVAL | Errno::XDEV) if aside.is_some() => Ok(false),
            Err(errno) => Err(failed(Operation::Rename, &place, errno)),
        }
    }

    /// Removes the entry of this name; a directory only if it is empty. No link is followed, and a missing entry is
    /// not a failure. Returns false if a directory is kept only because it contains backups.
    pub fn remove(&mut self, extra: &Extra) -> Result<bool> {
        let Extra { path, is_directory } = extra;
        let (parent_path, name) = path.split();
        let keeps_backups = self.inner().options.backup.is_some();
        if keeps_backups && !is_directory {
            let open = |errno| resolve_error(Operation::Remove, path, errno);
            let parent = self.existing_parent(parent_path).map_err(open)?;
            if back_up(self.inner(), &parent, path, name, false)? {
                return Ok(true);
            }
        }
        match self.unlink_opened(path, *is_directory) {
            Ok(()) => Ok(true),
            Err(Errno::NOTEMPTY) if keeps_backups => Ok(false),
            Err(errno) => Err(resolve_error(Operation::Remove, path, errno)),
        }
    }

    /// Removes one name, which may be missing already, and opens up its directory if that is necessary.
    fn unlink_opened(&mut self, path: &RelativePath, is_directory: bool) -> Result<(), Errno> {
        let (parent, name) = path.split();
        let flags = if is_directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        let mut removed = self.unlink(parent, name, flags);
        if removed == Err(Errno::ACCESS) && self.open_up_parent(parent).is_ok() {
            removed = self.unlink(parent, name, flags);
        }
        if removed == Err(Errno::NOENT) { Ok(()) } else { removed }
    }

    fn unlink(&mut self, parent: &[u8], name: &[u8], flags: AtFlags) -> Result<(), Errno> {
        let parent = self.existing_parent(parent)?;
        unlinkat(&*parent, name, flags)
    }

    /// Lets the owner change a directory that is to be removed itself.
    fn open_up_parent(&self, path: &[u8]) -> Result<(), Errno> {
        let fd = self.inner().open(path, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let mode = fstat(&fd)?.st_mode & 0o7777;
        fchmod(fd, Mode::from_raw_mode(mode | 0o700))
    }
}

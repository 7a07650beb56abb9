//! [`Writer`]: makes the entries of a target, one thread's share of them.
//!
//! An entry under its final name is complete: files and links are made aside and moved or linked into place, so a
//! reader sees the old entry or the new one as a whole. Every call reaches the entry's parent without following a
//! link and then names a single component, which no call follows either.

use std::sync::Arc;

use rustix::fs::{
    AtFlags, Mode, OFlags, Stat, chownat, fchmod, fstat, linkat, mkdirat, openat, statat, symlinkat,
    unlinkat, utimensat,
};
use rustix::io::Errno;

use crate::bases::{Basis, LastFolder};
use crate::beneath::{Parent, ParentCache, is_blocked};
use crate::descent::Identity;
use crate::differences::{Differences, leads_to};
use crate::error::{EntryType, Error, Operation, Result, entry_type, failed, resolve_error};
use crate::inner::{Inner, UNFINISHED_DIRECTORY, ids, is_unfinished, times};
use crate::metadata::{LinkTarget, Metadata};
use crate::part::PartFile;
use crate::path::RelativePath;
use crate::place::{is_in_the_way, make_parents, rename_over, with_temp_name};
use crate::ranges::Division;
use crate::reader::OpenFile;
use crate::small;
use crate::survey::is_written;
use crate::target::Target;
use crate::temporary::{FileMark, TempName};

/// The entry that a name of the target stands for at the moment.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Existing {
    /// The kind of entry.
    pub entry_type: EntryType,
    /// Its mode, times, size and owner, without attributes.
    pub metadata: Metadata,
    /// The identity of the object.
    pub identity: Identity,
}

/// Makes entries. Each thread has its own, which keeps parent directories open from one entry to the next.
#[derive(Debug)]
pub struct Writer {
    inner: Arc<Inner>,
    parents: ParentCache,
    basis_folders: Vec<LastFolder>,
}

impl Target {
    /// Returns a writer for one thread.
    pub fn writer(&self) -> Writer {
        Writer::new(Arc::clone(&self.inner))
    }
}

impl Writer {
    fn new(inner: Arc<Inner>) -> Self {
        Self { inner, parents: ParentCache::default(), basis_folders: Vec::new() }
    }

    /// Makes a file with the content `data`, and replaces the entry that had its name (but never a directory).
    ///
    /// The file appears complete, with its metadata. `metadata.size_bytes` is not looked at.
    pub fn small_file(&mut self, path: &RelativePath, metadata: &Metadata, data: &[u8]) -> Result<()> {
        self.in_parent(path, |inner, parent, name| small::make(inner, parent, path, name, metadata, data))
    }

    /// Begins a file of `metadata.size_bytes` bytes, all zero, that gets its name when it is finished.
    ///
    /// With `resume`, an unfinished file of that name in the same directory is resumed with its content
    /// ([`PartFile::resumed_bytes`]); if there is no such file, it is made. Without `resume`, a new name is chosen.
    pub fn begin_file(
        &mut self,
        path: &RelativePath,
        metadata: &Metadata,
        resume: Option<&TempName>,
    ) -> Result<PartFile> {
        let shared = Arc::clone(&self.inner);
        self.in_parent(path, |_, parent, _| {
            PartFile::begin(Arc::clone(&shared), Arc::clone(parent), path, Some(metadata.size_bytes), resume)
        })
    }

    /// Takes up the existing file of this name to write over it, if there is a regular one and that is [asked
    /// for](crate::TargetOptions::in_place): it has the sent size at once.
    pub fn begin_over(&mut self, path: &RelativePath, metadata: &Metadata) -> Result<Option<PartFile>> {
        if !self.inner.options.in_place {
            return Ok(None);
        }
        let shared = Arc::clone(&self.inner);
        self.in_parent(path, |_, parent, _| {
            PartFile::over(Arc::clone(&shared), Arc::clone(parent), path, metadata.size_bytes)
        })
    }

    /// Begins one range of a file that other processes write as well, all under the same temporary name.
    ///
    /// # Errors
    /// Fails also if there is no range of this number, or while another process writes the whole file.
    pub fn begin_range(
        &mut self,
        path: &RelativePath,
        temp: &TempName,
        division: Division,
        index: u32,
    ) -> Result<PartFile> {
        self.begin_together(path, temp, division, Some(index))
    }

    /// Takes up a file of which other processes have written all ranges, so that it can be finished.
    ///
    /// # Errors
    /// Fails also if a range is missing ([`Error::Incomplete`]), or while one is being written ([`Error::Busy`]).
    pub fn gather_ranges(
        &mut self,
        path: &RelativePath,
        temp: &TempName,
        division: Division,
    ) -> Result<PartFile> {
        self.begin_together(path, temp, division, None)
    }

    fn begin_together(
        &mut self,
        path: &RelativePath,
        temp: &TempName,
        division: Division,
        index: Option<u32>,
    ) -> Result<PartFile> {
        let shared = Arc::clone(&self.inner);
        self.in_parent(path, |_, parent, _| {
            PartFile::together(Arc::clone(&shared), Arc::clone(parent), path, temp, division, index)
        })
    }

    /// Begins a file of unknown size: its length is that of the bytes written.
    pub fn begin_growing_file(&mut self, path: &RelativePath) -> Result<PartFile> {
        let shared = Arc::clone(&self.inner);
        self.in_parent(path, |_, parent, _| {
            PartFile::begin(Arc::clone(&shared), Arc::clone(parent), path, None, None)
        })
    }

    /// Makes a directory, or accepts the existing one, and returns the differences. It stays private until
    /// [`Target::finish_directories`](crate::Target::finish_directories) gives it its mode and times; a directory
    /// that an earlier target left unfinished counts as made by this one.
    pub fn directory(&mut self, path: &RelativePath, metadata: &Metadata) -> Result<Differences> {
        self.in_parent(path, |inner, parent, name| {
            inner.check_room(path)?;
            let differences = match mkdirat(parent, name, Mode::from_raw_mode(UNFINISHED_DIRECTORY)) {
                Ok(()) => {
                    inner.record(path, true, None, Some(metadata));
                    Differences::NEW
                }
                Err(Errno::EXIST) => accept_directory(inner, parent, path, name, metadata)?,
                Err(errno) => return Err(failed(Operation::Create, path, errno)),
            };
            let xattrs = inner.apply_directory_xattrs(path, metadata, differences.is_new)?;
            Ok(Differences { xattrs: xattrs && !differences.is_new, ..differences })
        })
    }

    /// Returns the mode of a directory that [`Self::directory`] would have to open up.
    pub fn mode_to_restore(&mut self, path: &RelativePath) -> Option<u32> {
        let mode = self.mode_of_directory(path)?;
        (mode & 0o700 != 0o700).then_some(mode)
    }

    /// Notes that an earlier, interrupted target opened up a directory that had `mode`: the directory gets that mode
    /// back in the end, unless another process has changed it since.
    pub fn restore_mode(&mut self, path: &RelativePath, mode: u32) {
        if self.mode_of_directory(path) == Some(mode | 0o700) {
            self.inner.record(path, false, Some(mode), None);
        }
    }

    fn mode_of_directory(&mut self, path: &RelativePath) -> Option<u32> {
        let found = self.existing(path).ok()??;
        (found.entry_type == EntryType::Directory).then_some(found.metadata.mode)
    }

    /// Makes a symbolic link, replaces the entry that had its name (a directory only if it gives way), and returns
    /// the differences. An existing link with the same destination stays. The destination is not looked at.
    pub fn symlink(
        &mut self,
        path: &RelativePath,
        target: &LinkTarget,
        metadata: &Metadata,
    ) -> Result<Differences> {
        self.in_parent(path, |inner, parent, name| {
            let made = |errno| failed(Operation::Create, path, errno);
            let set = |errno| failed(Operation::SetMetadata, path, errno);
            match symlinkat(target.as_bytes(), parent, name) {
                Ok(()) => {
                    link_metadata(inner, parent, name, metadata, Differences::NEW).map_err(set)?;
                    return Ok(Differences::NEW);
                }
                Err(Errno::EXIST) => {}
                Err(errno) => return Err(made(errno)),
            }
            let mut differences = Differences::NEW;
            if let Ok(stat) = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)
                && entry_type(&stat) == EntryType::Symlink
            {
                differences = inner.differences(path, &stat, metadata);
                if leads_to(parent, name, target) {
                    link_metadata(inner, parent, name, metadata, differences).map_err(set)?;
                    return Ok(differences);
                }
                differences.target = true;
            }
            // Owner and times are set while the link has a temporary name.
            let make = |temp: &[u8]| symlinkat(target.as_bytes(), parent, temp);
            let (temp, ()) = with_temp_name(inner, parent, path, make).map_err(made)?;
            match link_metadata(inner, parent, temp.as_bytes(), metadata, Differences::NEW).map_err(set) {
                Ok(()) => rename_over(inner, parent, &temp, path, name, EntryType::Symlink)?,
                Err(error) => {
                    let _ = unlinkat(parent, temp.as_bytes(), AtFlags::empty());
                    return Err(error);
                }
            }
            Ok(differences)
        })
    }

    /// Gives the regular file `to`, which exists beneath the target, another name, and replaces the entry that had it
    /// (a directory only if it gives way). Returns whether the file lacked that name.
    pub fn hard_link(&mut self, path: &RelativePath, to: &RelativePath) -> Result<Differences> {
        let (to_parent, to_name) = to.split();
        let is_reserved = TempName::matches(to_name);
        let waiting = self.inner.successors.temp_name(to);
        let to_name = waiting.as_ref().map_or(to_name, TempName::as_bytes);
        let to_parent =
            self.existing_parent(to_parent).map_err(|errno| resolve_error(Operation::Open, to, errno))?;
        let stat = statat(&*to_parent, to_name, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(|errno| failed(Operation::Inspect, to, errno))?;
        let found = entry_type(&stat);
        if found != EntryType::File || is_reserved {
            return Err(Error::TypeConflict { path: to.into(), wanted: EntryType::File, found });
        }
        let identity = Identity::of(&stat);
        self.in_parent(path, |inner, parent, name| {
            let made = |errno| failed(Operation::Create, path, errno);
            let there = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW).ok();
            if there.as_ref().is_some_and(|stat| Identity::of(stat) == identity) {
                return Ok(Differences::default());
            }
            let is_file = |stat: Stat| entry_type(&stat) == EntryType::File;
            let differences = match there.is_some_and(is_file) {
                true => Differences { target: true, ..Differences::default() },
                false => Differences::NEW,
            };
            // linkat does not follow a link without a flag; a link swapped in for `to` is found out below.
            let link = |temp: &[u8]| linkat(&*to_parent, to_name, parent, temp, AtFlags::empty());
            let (temp, ()) = with_temp_name(inner, parent, path, link).map_err(made)?;
            let linked = statat(parent, temp.as_bytes(), AtFlags::SYMLINK_NOFOLLOW);
            let error = match linked.map(|stat| Identity::of(&stat)) {
                Ok(linked) if linked == identity => {
                    // Renaming one name of a file to another name of the same file does nothing, and leaves both; the
                    // check above covers that.
                    rename_over(inner, parent, &temp, path, name, EntryType::File)?;
                    return Ok(differences);
                }
                Ok(_) => made(Errno::STALE),
                Err(errno) => failed(Operation::Inspect, path, errno),
            };
            let _ = unlinkat(parent, temp.as_bytes(), AtFlags::empty());
            Err(error)
        })
    }

    /// Returns the entry that has this name at the moment, if any. The call makes nothing.
    pub fn existing(&mut self, path: &RelativePath) -> Result<Option<Existing>> {
        let (parent, name) = path.split();
        let found =
            self.existing_parent(parent).and_then(|parent| statat(&*parent, name, AtFlags::SYMLINK_NOFOLLOW));
        match found {
            Ok(stat) => Ok(Some(Existing {
                entry_type: entry_type(&stat),
                metadata: Metadata::from_stat(&stat, true),
                identity: Identity::of(&stat),
            })),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(resolve_error(Operation::Inspect, path, errno)),
        }
    }

    /// Returns whether this is an unfinished file, or a link of this name, that no target writes any more. A program that
    /// writes without a lock is not seen.
    pub fn is_abandoned(&mut self, path: &RelativePath) -> bool {
        let (parent, name) = path.split();
        let Ok(parent) = self.existing_parent(parent) else { return false };
        statat(&*parent, name, AtFlags::SYMLINK_NOFOLLOW).is_ok() && !is_written(&parent, name)
    }

    /// Opens the unfinished file that an earlier target left of `path` under a temporary name, and returns it with what
    /// tells it from other files; `None` if there is no such file.
    pub fn read_unfinished(&mut self, path: &RelativePath, temp: &TempName) -> Option<(OpenFile, FileMark)> {
        let parent = self.existing_parent(path.split().0).ok()?;
        let (file, _) = OpenFile::open(&*parent, temp.as_bytes(), path, true, true).ok()?;
        let mark = FileMark::of(&file).ok()?;
        Some((file, mark))
    }

    /// Removes the unfinished file that an earlier target left of `path` under a temporary name, if it is still there
    /// and is not a complete file that waits for its own name. Its directory keeps its time: one that both ends have seen to be
    /// equal gets none at the end.
    pub fn discard(&mut self, path: &RelativePath, temp: &TempName) -> Result<()> {
        if self.inner.successors.temp_name(path) == Some(*temp) {
            return Ok(());
        }
        let (parent, _) = path.split();
        let removed = self.existing_parent(parent).and_then(|parent| {
            let before = fstat(&*parent)?;
            unlinkat(&*parent, temp.as_bytes(), AtFlags::empty())?;
            if self.inner.options.times {
                // It may be somebody else's, and then has another time.
                let modified = Metadata::from_stat(&before, false).modified;
                let _ = utimensat(&*parent, c".", &times(modified), AtFlags::empty());
            }
            Ok(())
        });
        match removed {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(resolve_error(Operation::Remove, path, errno)),
        }
    }

    /// Opens a regular file of the target to compare it with the sent one.
    pub fn read_existing(&mut self, path: &RelativePath) -> Result<OpenFile> {
        let (parent, name) = path.split();
        let parent =
            self.existing_parent(parent).map_err(|errno| resolve_error(Operation::Open, path, errno))?;
        OpenFile::open(&*parent, name, path, true, true).map(|(file, _)| file)
    }

    pub(crate) fn inner(&self) -> &Inner {
        &self.inner
    }

    /// Returns whether files may be taken from earlier copies.
    pub fn has_bases(&self) -> bool {
        !self.inner.options.bases.is_empty()
    }

    pub(crate) fn bases(&self) -> Arc<[Basis]> {
        Arc::clone(&self.inner.options.bases)
    }

    pub(crate) fn basis_folders(&mut self) -> &mut Vec<LastFolder> {
        &mut self.basis_folders
    }

    /// Returns the parent directory `path`, if it exists.
    pub(crate) fn existing_parent(&mut self, path: &[u8]) -> Result<Arc<Parent>, Errno> {
        if let Some(parent) = self.parents.get(path) {
            return Ok(Arc::clone(parent));
        }
        let parent = match self.inner.parent(path) {
            Err(errno) if is_blocked(errno) && self.inner.take_up_successor(path) => {
                self.inner.parent(path)?
            }
            opened => opened?,
        };
        Ok(Arc::clone(self.parents.insert(path, parent)))
    }

    /// Calls `make` with the parent directory of `path` and the last component, after making missing parents.
    pub(crate) fn in_parent<T>(
        &mut self,
        path: &RelativePath,
        mut make: impl FnMut(&Inner, &Arc<Parent>, &[u8]) -> Result<T>,
    ) -> Result<T> {
        let (directory, name) = path.split();
        if TempName::matches(name) {
            return Err(Error::ReservedName { path: path.into() });
        }
        let known = self.parents.get(directory).is_some();
        let parent = self.parent_or_make(path, directory)?;
        let result = make(&self.inner, &parent, name);
        match result {
            // The cached directory may have been removed: start again from the root, once.
            Err(Error::Io { source, .. }) if known && means_removed(&source) => {
                self.parents.clear();
                let parent = self.parent_or_make(path, directory)?;
                make(&self.inner, &parent, name)
            }
            result => result,
        }
    }

    fn parent_or_make(&mut self, path: &RelativePath, directory: &[u8]) -> Result<Arc<Parent>> {
        match self.existing_parent(directory) {
            Ok(parent) => Ok(parent),
            Err(errno) if !directory.is_empty() && is_in_the_way(&self.inner, errno) => {
                make_parents(&self.inner, path, directory)?;
                self.existing_parent(directory).map_err(|errno| resolve_error(Operation::Open, path, errno))
            }
            Err(errno) => Err(resolve_error(Operation::Open, path, errno)),
        }
    }
}

/// Accepts the entry that has a directory's name, if it is a directory; otherwise the new one waits for the name, if
/// it may.
fn accept_directory(
    inner: &Inner,
    parent: &Parent,
    path: &RelativePath,
    name: &[u8],
    metadata: &Metadata,
) -> Result<Differences> {
    let stat = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)
        .map_err(|errno| failed(Operation::Inspect, path, errno))?;
    let found = entry_type(&stat);
    if found != EntryType::Directory {
        inner.wait_as_directory(parent, path, found)?;
        inner.record(path, true, None, Some(metadata));
        return Ok(Differences::NEW);
    }
    let differences = match inner.was_created(path.as_bytes()) {
        // An entry in it came before the directory's own entry.
        true => Differences::NEW,
        false => inner.differences(path, &stat, metadata),
    };
    let closed = stat.st_mode & 0o700 != 0o700;
    let original_mode = if closed { open_up(parent, name, stat.st_mode & 0o7777) } else { None };
    inner.record(path, is_unfinished(stat.st_mode), original_mode, Some(metadata));
    Ok(differences)
}

/// Returns whether the error is one of creating an entry in a removed directory; on a few file systems (ext4) it is
/// "not permitted".
fn means_removed(error: &std::io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::NOENT | Errno::PERM))
}

/// Lets its owner write into a directory until it is finished; returns the mode to restore.
fn open_up(parent: &Parent, name: &[u8], mode: u32) -> Option<u32> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = openat(parent, name, flags, Mode::empty()).ok()?;
    // If this is not allowed, making an entry in the directory fails.
    fchmod(fd, Mode::from_raw_mode(mode | 0o700)).ok().map(|()| mode)
}

/// Sets owner and times of a symbolic link itself, if they differ.
fn link_metadata(
    inner: &Inner,
    parent: &Parent,
    name: &[u8],
    metadata: &Metadata,
    differences: Differences,
) -> Result<(), Errno> {
    let Differences { is_new, owner, group, time, .. } = differences;
    match metadata.owner {
        Some(sent) if inner.options.ownership && (is_new || owner || group) => {
            let (uid, gid) = ids(sent);
            match chownat(parent, name, uid, gid, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(()) => {}
                Err(Errno::PERM | Errno::INVAL) => inner.count_dropped_owner(),
                Err(errno) => return Err(errno),
            }
        }
        Some(_) if !inner.options.ownership => inner.count_dropped_owner(),
        Some(_) | None => {}
    }
    if inner.options.times && (is_new || time) {
        utimensat(parent, name, &times(metadata.modified), AtFlags::SYMLINK_NOFOLLOW)?;
    }
    Ok(())
}

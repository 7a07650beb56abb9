//! [`Writer`]: makes the entries of a target, one thread's share of them.
//!
//! Whatever appears under its final name is complete: files and links are made aside and moved or linked into place,
//! so a reader sees the old entry or the new one, whole. Every call reaches the entry's parent without following a
//! link and then names a single component, which no call here follows either.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{
    AtFlags, Mode, OFlags, chownat, fchmod, linkat, mkdirat, openat, renameat, statat, symlinkat, unlinkat,
    utimensat,
};
use rustix::io::Errno;

use crate::beneath::{Parent, ParentCache};
use crate::descent::Identity;
use crate::error::{EntryType, Error, Operation, Result, failed};
use crate::metadata::{LinkTarget, Metadata};
use crate::part::{PartFile, TempName};
use crate::path::RelativePath;
use crate::reader::{OpenFile, entry_type};
use crate::small;
use crate::target::{Inner, UNFINISHED_DIRECTORY, ids, is_unfinished, resolve_error, times};

/// Temporary names tried before giving up; they are taken from a random start, so one is enough but for an attacker.
const MAX_NAMES: u32 = 16;

/// What a name of the target stands for at the moment.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Existing {
    /// What it is.
    pub entry_type: EntryType,
    /// Its mode, times and size, with owner, without attributes.
    pub metadata: Metadata,
    /// Which object it is.
    pub identity: Identity,
}

/// Makes entries. One for each thread: it keeps parent directories open from one entry to the next.
#[derive(Debug)]
pub struct Writer {
    inner: Arc<Inner>,
    parents: ParentCache,
}

impl Writer {
    pub(crate) fn new(inner: Arc<Inner>) -> Self {
        Self { inner, parents: ParentCache::default() }
    }

    /// Makes a whole file of `data`, replacing what had its name (but never a directory).
    ///
    /// It appears complete, with its metadata. `metadata.size_bytes` is not looked at.
    pub fn small_file(&mut self, path: &RelativePath, metadata: &Metadata, data: &[u8]) -> Result<()> {
        self.in_parent(path, |inner, parent, name| small::make(inner, parent, path, name, metadata, data))
    }

    /// Begins a file of `metadata.size_bytes` bytes, all zero, that gets its name when it is finished.
    ///
    /// With `resume`, an unfinished file of that name in the same directory is taken up with what it holds
    /// ([`PartFile::resumed_bytes`]); if there is none it is made. Without, a new name is chosen.
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

    /// Begins a file whose size is not known yet: it is as long as what is written to it.
    pub fn begin_growing_file(&mut self, path: &RelativePath) -> Result<PartFile> {
        let shared = Arc::clone(&self.inner);
        self.in_parent(path, |_, parent, _| {
            PartFile::begin(Arc::clone(&shared), Arc::clone(parent), path, None, None)
        })
    }

    /// Makes a directory, or accepts the one that is there. It stays private until
    /// [`Target::finish_directories`](crate::Target::finish_directories) gives it its mode and times; one that an
    /// earlier target left unfinished counts as made by this one.
    pub fn directory(&mut self, path: &RelativePath, metadata: &Metadata) -> Result<()> {
        self.in_parent(path, |inner, parent, name| {
            inner.check_room(path)?;
            let mut created = match mkdirat(parent, name, Mode::from_raw_mode(UNFINISHED_DIRECTORY)) {
                Ok(()) => true,
                Err(Errno::EXIST) => false,
                Err(errno) => return Err(failed(Operation::Create, path, errno)),
            };
            let mut original_mode = None;
            if !created {
                let stat = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)
                    .map_err(|errno| failed(Operation::Inspect, path, errno))?;
                let found = entry_type(&stat);
                if found != EntryType::Directory {
                    return Err(Error::TypeConflict {
                        path: path.into(),
                        wanted: EntryType::Directory,
                        found,
                    });
                }
                created = is_unfinished(stat.st_mode);
                if stat.st_mode & 0o700 != 0o700 {
                    original_mode = open_up(parent, name, stat.st_mode & 0o7777);
                }
            }
            inner.record(path, created, original_mode, Some(metadata));
            inner.apply_directory_xattrs(path, metadata)
        })
    }

    /// The mode of a directory that [`Self::directory`] would have to open up.
    pub fn mode_to_restore(&mut self, path: &RelativePath) -> Option<u32> {
        let mode = self.mode_of_directory(path)?;
        (mode & 0o700 != 0o700).then_some(mode)
    }

    /// An earlier target opened up a directory that had `mode`, and was cut off: it gets that back in the end, unless
    /// somebody has given it another since.
    pub fn restore_mode(&mut self, path: &RelativePath, mode: u32) {
        if self.mode_of_directory(path) == Some(mode | 0o700) {
            self.inner.record(path, false, Some(mode), None);
        }
    }

    fn mode_of_directory(&mut self, path: &RelativePath) -> Option<u32> {
        let found = self.existing(path).ok()??;
        (found.entry_type == EntryType::Directory).then_some(found.metadata.mode)
    }

    /// Makes a symbolic link, replacing what had its name (but never a directory). Where it points is not looked at.
    pub fn symlink(&mut self, path: &RelativePath, target: &LinkTarget, metadata: &Metadata) -> Result<()> {
        self.in_parent(path, |inner, parent, name| {
            let made = |errno| failed(Operation::Create, path, errno);
            // Owner and times are set while it has a temporary name, unless nothing has its name yet.
            let temp = match symlinkat(target.as_bytes(), parent, name) {
                Ok(()) => None,
                Err(Errno::EXIST) => Some(
                    with_temp_name(inner, parent, path, |temp| symlinkat(target.as_bytes(), parent, temp))
                        .map_err(made)?
                        .0,
                ),
                Err(errno) => return Err(made(errno)),
            };
            let current = temp.as_ref().map_or(name, TempName::as_bytes);
            let set = |errno| failed(Operation::SetMetadata, path, errno);
            let result = link_metadata(inner, parent, current, metadata).map_err(set);
            match (temp, result) {
                (Some(temp), Ok(())) => rename_over(inner, parent, &temp, path, name, EntryType::Symlink),
                (Some(temp), Err(error)) => {
                    let _ = unlinkat(parent, temp.as_bytes(), AtFlags::empty());
                    Err(error)
                }
                (None, result) => result,
            }
        })
    }

    /// Gives the regular file `to`, which exists beneath the target, another name, replacing what had it (but never a
    /// directory).
    pub fn hard_link(&mut self, path: &RelativePath, to: &RelativePath) -> Result<()> {
        let (to_parent, to_name) = to.split();
        let to_parent =
            self.existing_parent(to_parent).map_err(|errno| resolve_error(Operation::Open, to, errno))?;
        let stat = statat(&*to_parent, to_name, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(|errno| failed(Operation::Inspect, to, errno))?;
        let found = entry_type(&stat);
        if found != EntryType::File || TempName::matches(to_name) {
            return Err(Error::TypeConflict { path: to.into(), wanted: EntryType::File, found });
        }
        let identity = Identity::of(&stat);
        self.in_parent(path, |inner, parent, name| {
            let made = |errno| failed(Operation::Create, path, errno);
            // linkat does not follow a link unless asked to; one swapped in for `to` is found out below.
            let link = |temp: &[u8]| linkat(&*to_parent, to_name, parent, temp, AtFlags::empty());
            let (temp, ()) = with_temp_name(inner, parent, path, link).map_err(made)?;
            let linked = statat(parent, temp.as_bytes(), AtFlags::SYMLINK_NOFOLLOW);
            let result = match linked.map(|stat| Identity::of(&stat)) {
                Ok(linked) if linked == identity => {
                    rename_over(inner, parent, &temp, path, name, EntryType::File)
                }
                Ok(_) => Err(made(Errno::STALE)),
                Err(errno) => Err(failed(Operation::Inspect, path, errno)),
            };
            // Renaming one name of a file to another name of the same file does nothing, and leaves both.
            let _ = unlinkat(parent, temp.as_bytes(), AtFlags::empty());
            result
        })
    }

    /// What has this name at the moment, if anything. Makes nothing.
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

    /// Size of the unfinished file that an earlier target left of `path` under a temporary name, if it is there.
    pub fn unfinished_bytes(&mut self, path: &RelativePath, temp: &TempName) -> Option<u64> {
        let parent = self.existing_parent(path.split().0).ok()?;
        let stat = statat(&*parent, temp.as_bytes(), AtFlags::SYMLINK_NOFOLLOW).ok()?;
        (entry_type(&stat) == EntryType::File).then(|| Metadata::from_stat(&stat, false).size_bytes)
    }

    /// Removes what an earlier target left of the file `path` under a temporary name, if it is still there.
    pub fn discard(&mut self, path: &RelativePath, temp: &TempName) -> Result<()> {
        let (parent, _) = path.split();
        let removed = self
            .existing_parent(parent)
            .and_then(|parent| unlinkat(&*parent, temp.as_bytes(), AtFlags::empty()));
        match removed {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(resolve_error(Operation::Remove, path, errno)),
        }
    }

    /// Opens a regular file of the target to compare it with what is sent.
    pub fn read_existing(&mut self, path: &RelativePath) -> Result<OpenFile> {
        let (parent, name) = path.split();
        let parent =
            self.existing_parent(parent).map_err(|errno| resolve_error(Operation::Open, path, errno))?;
        OpenFile::open(&*parent, name, path, true, true).map(|(file, _)| file)
    }

    pub(crate) fn inner(&self) -> &Inner {
        &self.inner
    }

    /// The parent directory `path`, if it exists.
    pub(crate) fn existing_parent(&mut self, path: &[u8]) -> Result<Arc<Parent>, Errno> {
        if let Some(parent) = self.parents.get(path) {
            return Ok(Arc::clone(parent));
        }
        let parent = self.inner.parent(path)?;
        Ok(Arc::clone(self.parents.insert(path, parent)))
    }

    /// Runs `make` with the parent directory of `path` and the last component, making parents that are missing.
    fn in_parent<T>(
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
            // The directory that was kept open may have been removed: begin again from the root, once.
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
            Err(Errno::NOENT) if !directory.is_empty() => {
                make_parents(&self.inner, path, directory)?;
                self.existing_parent(directory).map_err(|errno| resolve_error(Operation::Open, path, errno))
            }
            Err(errno) => Err(resolve_error(Operation::Open, path, errno)),
        }
    }
}

/// Makes the directories of `directory` that are missing, from the root down.
fn make_parents(inner: &Inner, path: &RelativePath, directory: &[u8]) -> Result<()> {
    let root = inner.beneath.root();
    let mut current: Option<OwnedFd> = None;
    let mut end = 0;
    for component in directory.split(|&byte| byte == b'/') {
        end += usize::from(end != 0) + component.len();
        if TempName::matches(component) {
            return Err(Error::ReservedName { path: path.into() });
        }
        let parent = current.as_ref().map_or_else(|| root.as_fd(), AsFd::as_fd);
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = match openat(parent, component, flags, Mode::empty()) {
            Err(Errno::NOENT) => {
                inner.check_room(path)?;
                match mkdirat(parent, component, Mode::from_raw_mode(UNFINISHED_DIRECTORY)) {
                    Ok(()) => inner.record(&RelativePath::new(&directory[..end])?, true, None, None),
                    // Another thread was faster.
                    Err(Errno::EXIST) => {}
                    Err(errno) => return Err(failed(Operation::Create, path, errno)),
                }
                openat(parent, component, flags, Mode::empty())
            }
            opened => opened,
        };
        current = Some(opened.map_err(|errno| resolve_error(Operation::Open, path, errno))?);
    }
    Ok(())
}

/// What creating something in a removed directory gives; a few file systems (ext4) say that it is not permitted.
fn means_removed(error: &std::io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::NOENT | Errno::PERM))
}

/// Lets its owner write into a directory until it is finished; gives the mode to restore.
fn open_up(parent: &Parent, name: &[u8], mode: u32) -> Option<u32> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let fd = openat(parent, name, flags, Mode::empty()).ok()?;
    // Not being allowed to is found out when something is made in it.
    fchmod(fd, Mode::from_raw_mode(mode | 0o700)).ok().map(|()| mode)
}

/// Owner and times of a symbolic link itself.
fn link_metadata(inner: &Inner, parent: &Parent, name: &[u8], metadata: &Metadata) -> Result<(), Errno> {
    match metadata.owner {
        Some(owner) if inner.options.ownership => {
            let (uid, gid) = ids(owner);
            match chownat(parent, name, uid, gid, AtFlags::SYMLINK_NOFOLLOW) {
                Ok(()) => {}
                Err(Errno::PERM | Errno::INVAL) => inner.count_dropped_owner(),
                Err(errno) => return Err(errno),
            }
        }
        Some(_) => inner.count_dropped_owner(),
        None => {}
    }
    if inner.options.times {
        utimensat(parent, name, &times(metadata.modified), AtFlags::SYMLINK_NOFOLLOW)?;
    }
    Ok(())
}

/// Runs `make` with the temporary name that is the path's own, or with fresh ones until one is free.
pub(crate) fn with_temp_name<T>(
    inner: &Inner,
    parent: &Parent,
    path: &RelativePath,
    mut make: impl FnMut(&[u8]) -> Result<T, Errno>,
) -> Result<(TempName, T), Errno> {
    if let Some(temp) = inner.own_temp_name(path) {
        let made = make(temp.as_bytes()).or_else(|errno| match errno {
            // Left by a run of the same transfer that was killed.
            Errno::EXIST => {
                unlinkat(parent, temp.as_bytes(), AtFlags::empty())?;
                make(temp.as_bytes())
            }
            errno => Err(errno),
        });
        match made {
            Err(Errno::EXIST) => {}
            made => return made.map(|made| (temp, made)),
        }
    }
    for _ in 0..MAX_NAMES {
        let temp = inner.temp_name();
        match make(temp.as_bytes()) {
            Err(Errno::EXIST) => {}
            Ok(made) => return Ok((temp, made)),
            Err(errno) => return Err(errno),
        }
    }
    Err(Errno::EXIST)
}

/// Moves what was made under a temporary name into place, or removes it and says what is in the way: a directory, or a
/// device, pipe or socket.
pub(crate) fn rename_over(
    inner: &Inner,
    parent: &Parent,
    temp: &TempName,
    path: &RelativePath,
    name: &[u8],
    wanted: EntryType,
) -> Result<()> {
    // A rename would replace a device as readily as a file.
    let replaces_other = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|stat| entry_type(&stat) == EntryType::Other);
    if replaces_other {
        let _ = unlinkat(parent, temp.as_bytes(), AtFlags::empty());
        return Err(Error::TypeConflict { path: path.into(), wanted, found: EntryType::Other });
    }
    if let Err(error) = back_up(inner, parent, path, name, true) {
        let _ = unlinkat(parent, temp.as_bytes(), AtFlags::empty());
        return Err(error);
    }
    let renamed = renameat(parent, temp.as_bytes(), parent, name);
    renamed.map_err(|errno| {
        let error = match errno {
            Errno::ISDIR | Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR => {
                Error::TypeConflict { path: path.into(), wanted, found: EntryType::Directory }
            }
            _ => failed(Operation::Rename, path, errno),
        };
        let _ = unlinkat(parent, temp.as_bytes(), AtFlags::empty());
        error
    })
}

/// Where backups are wanted, gives what has the name another one, maybe in another folder, unless it is a directory:
/// besides its own, if it is to be replaced, so that the name is never missing. False where there is nothing of the kind.
pub(crate) fn back_up(
    inner: &Inner,
    parent: &Parent,
    path: &RelativePath,
    name: &[u8],
    replaced: bool,
) -> Result<bool> {
    let Some(backups) = &inner.options.backup else { return Ok(false) };
    let found = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW);
    if !found.is_ok_and(|stat| matches!(entry_type(&stat), EntryType::File | EntryType::Symlink)) {
        return Ok(false);
    }
    let too_long = |_| Error::NameTooLong { path: path.into() };
    let place = backups.place(path).map_err(too_long)?;
    let (folder, saved) = place.split();
    if TempName::matches(saved) {
        return Err(Error::NameTooLong { path: path.into() });
    }
    let aside = match &backups.folder {
        None => None,
        Some(_) => {
            make_parents(inner, &place, folder)?;
            let opened = inner.beneath.handle(folder);
            Some(opened.map_err(|errno| resolve_error(Operation::Open, &place, errno))?)
        }
    };
    let to = aside.as_ref().map_or_else(|| parent.as_fd(), AsFd::as_fd);
    let temp = inner.temp_name();
    let linked = match replaced {
        true => linkat(parent, name, to, temp.as_bytes(), AtFlags::empty()),
        false => Err(Errno::OPNOTSUPP),
    };
    let moved = match linked {
        Ok(()) => {
            let moved = renameat(to, temp.as_bytes(), to, saved);
            // Renaming to another name of the same file does nothing, and leaves both.
            let _ = unlinkat(to, temp.as_bytes(), AtFlags::empty());
            moved
        }
        // The file system knows no hard links, or no more of them: there is a moment without the name.
        Err(_) => renameat(parent, name, to, saved),
    };
    moved.map(|()| true).map_err(|errno| failed(Operation::Rename, &place, errno))
}

//! The steps by which a complete entry gets its place: missing parents, a temporary name, a backup of the entry that
//! had the name, and the rename.
//!
//! Guarantees: the name stands for the old entry or for the new one as a whole, unless the file system has no hard
//! links and a backup is made; no step follows a symbolic link.

use std::os::fd::{AsFd, OwnedFd};

use rustix::fs::{AtFlags, Mode, OFlags, linkat, mkdirat, openat, renameat, statat, unlinkat};
use rustix::io::Errno;

use crate::beneath::{HANDLE, Parent, is_blocked};
use crate::error::{EntryType, Error, Operation, Result, entry_type, failed, resolve_error};
use crate::inner::{Inner, UNFINISHED_DIRECTORY};
use crate::path::RelativePath;
use crate::temporary::TempName;

/// Number of temporary names tried before giving up; they start at a random number, so one is enough without an
/// attacker.
const MAX_NAMES: u32 = 16;

/// Returns whether the directories of a path can be made after resolving it failed with this error: some are missing,
/// or entries of other kinds are in their place and give way.
pub(crate) fn is_in_the_way(inner: &Inner, errno: Errno) -> bool {
    errno == Errno::NOENT || (inner.options.replaces_other_kinds && is_blocked(errno))
}

/// Makes the missing directories of `directory`, from the root down.
pub(crate) fn make_parents(inner: &Inner, path: &RelativePath, directory: &[u8]) -> Result<()> {
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
            Err(errno) if is_in_the_way(inner, errno) => {
                let prefix = RelativePath::new(&directory[..end])?;
                let inspected = |errno| failed(Operation::Inspect, path, errno);
                let stat = statat(parent, component, AtFlags::SYMLINK_NOFOLLOW).map_err(inspected)?;
                let temp = inner.wait_as_directory(parent, &prefix, entry_type(&stat))?;
                inner.record(&prefix, true, None, None);
                openat(parent, temp.as_bytes(), flags, Mode::empty())
            }
            opened => opened,
        };
        current = Some(opened.map_err(|errno| resolve_error(Operation::Open, path, errno))?);
    }
    Ok(())
}

/// Calls `make` with the temporary name that belongs to the path, or with new ones until one is free.
pub(crate) fn with_temp_name<T>(
    inner: &Inner,
    parent: &Parent,
    path: &RelativePath,
    mut make: impl FnMut(&[u8]) -> Result<T, Errno>,
) -> Result<(TempName, T), Errno> {
    if let Some(temp) = inner.own_temp_name(path) {
        let made = make(temp.as_bytes()).or_else(|errno| match errno {
            // A killed run of the same transfer left it.
            Errno::EXIST => match unlinkat(parent, temp.as_bytes(), AtFlags::empty()) {
                Ok(()) => make(temp.as_bytes()),
                // In that run it was a directory.
                Err(Errno::ISDIR | Errno::PERM) => Err(Errno::EXIST),
                Err(errno) => Err(errno),
            },
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

/// Moves an entry from its temporary name into place. If a directory has the name, the entry waits until that has gone, and so
/// it does for a device, pipe or socket unless it is one itself; an entry that may not wait is removed.
pub(crate) fn rename_over(
    inner: &Inner,
    parent: &Parent,
    temp: &TempName,
    path: &RelativePath,
    name: &[u8],
    wanted: EntryType,
) -> Result<()> {
    // A rename would replace a device as readily as a file.
    let replaces_other = wanted != EntryType::Other
        && statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)
            .is_ok_and(|stat| entry_type(&stat) == EntryType::Other);
    let wait = |found| {
        let conflict = Error::TypeConflict { path: path.into(), wanted, found };
        inner.wait(parent, path, temp, conflict).inspect_err(|_| {
            // The conflict is reported, and not a failure here.
            let _ = unlinkat(parent, temp.as_bytes(), AtFlags::empty());
        })
    };
    if replaces_other {
        return wait(EntryType::Other);
    }
    if let Err(error) = back_up(inner, parent, path, name, true) {
        let _ = unlinkat(parent, temp.as_bytes(), AtFlags::empty());
        return Err(error);
    }
    match renameat(parent, temp.as_bytes(), parent, name) {
        Ok(()) => Ok(()),
        Err(Errno::ISDIR | Errno::NOTEMPTY | Errno::EXIST | Errno::NOTDIR) => wait(EntryType::Directory),
        Err(errno) => {
            let _ = unlinkat(parent, temp.as_bytes(), AtFlags::empty());
            Err(failed(Operation::Rename, path, errno))
        }
    }
}

/// Gives the entry that has the name, unless it is a directory, another name, maybe in another folder, if backups are
/// on. An entry that is to be replaced keeps its own name as well, so that the name is never missing. Returns false
/// if there is no such entry.
pub(crate) fn back_up(
    inner: &Inner,
    parent: &Parent,
    path: &RelativePath,
    name: &[u8],
    replaced: bool,
) -> Result<bool> {
    let Some(backups) = &inner.options.backup else { return Ok(false) };
    let found = statat(parent, name, AtFlags::SYMLINK_NOFOLLOW);
    if !found.is_ok_and(|stat| entry_type(&stat) != EntryType::Directory) {
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
            let opened = inner.open(folder, HANDLE);
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
        // The file system has no hard links, or no room for more, so the name is missing for a moment.
        Err(_) => renameat(parent, name, to, saved),
    };
    moved.map(|()| true).map_err(|errno| failed(Operation::Rename, &place, errno))
}

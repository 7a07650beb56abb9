//! Locations of the roots of a copy: [`Anchor`] resolves a path once, and the result is held by descriptor.
//!
//! A path of the user is resolved as any program would, links included. A path from a peer is resolved beneath the
//! served folder: over links that stay within, if the kernel guarantees that itself (`openat2`), and otherwise over
//! no links, because another user, or the peer, could swap them.

use std::ffi::OsStr;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, Stat, mkdirat, openat, readlinkat, statat};
use rustix::io::Errno;

use crate::beneath::{Beneath, HANDLE, Resolution};
use crate::error::{EntryType, Error, Result, entry_type, root_failed};

/// The place at which the paths of roots begin.
#[derive(Clone, Debug, Default)]
pub struct Anchor {
    served: Option<Arc<Beneath>>,
}

impl Anchor {
    /// Opens a folder to be served: paths lie beneath it, however they are written. The operator gives the path of
    /// the folder itself, which may lead over links.
    pub fn served(folder: &Path) -> Result<Self> {
        let fd = openat(CWD, folder, HANDLE, Mode::empty()).map_err(|errno| root_failed(folder, errno))?;
        Ok(Self { served: Some(Arc::new(Beneath::new(fd, Resolution::Detect))) })
    }

    /// Returns a folder beneath this one.
    pub fn narrowed(&self, folder: &Path) -> Result<Self> {
        let spot = self.find(folder)?;
        let fd = spot.open_directory(true).map_err(|errno| spot.failed(errno))?;
        Ok(Self { served: Some(Arc::new(Beneath::new(fd, Resolution::Detect))) })
    }

    /// Returns whether paths lie beneath a served folder.
    pub(crate) fn is_served(&self) -> bool {
        self.served.is_some()
    }

    /// Resolves all of `path` but its last component, which need not exist.
    pub fn find(&self, path: &Path) -> Result<Spot> {
        match &self.served {
            Some(served) => find_served(served, path),
            None => find_own(path),
        }
    }
}

/// A resolved path: an open folder, and usually a name in it.
#[derive(Debug)]
pub struct Spot {
    given: PathBuf,
    folder: Arc<OwnedFd>,
    /// `None` if the path names the folder itself: `/`, `.`, `data/.`, `data/..`.
    name: Option<Box<[u8]>>,
    wants_directory: bool,
    /// For a path in a served folder: that folder, and the whole path below it.
    served: Option<(Arc<Beneath>, Box<[u8]>)>,
}

fn find_own(path: &Path) -> Result<Spot> {
    let given = path.as_os_str().as_bytes();
    let end = given.iter().rposition(|&byte| byte != b'/').map_or(0, |last| last + 1);
    let (front, last) = match given[..end].iter().rposition(|&byte| byte == b'/') {
        Some(0) => (b"/".as_slice(), &given[1..end]),
        Some(slash) => (&given[..slash], &given[slash + 1..end]),
        None => (b".".as_slice(), &given[..end]),
    };
    let (folder, name) = match last {
        b"" | b"." | b".." => (given, None),
        last => (front, Some(last.into())),
    };
    let folder = openat(CWD, OsStr::from_bytes(folder), HANDLE, Mode::empty());
    let folder = folder.map_err(|errno| root_failed(path, errno))?;
    Ok(Spot {
        given: path.to_owned(),
        folder: Arc::new(folder),
        wants_directory: name.is_none() || end < given.len(),
        name,
        served: None,
    })
}

fn find_served(served: &Arc<Beneath>, path: &Path) -> Result<Spot> {
    let given = path.as_os_str().as_bytes();
    let mut components: Vec<&[u8]> = Vec::new();
    let mut names_itself = true;
    for component in given.split(|&byte| byte == b'/') {
        match component {
            b"" => continue,
            b"." => names_itself = true,
            // It undoes the component before it, even if that is a link.
            b".." => {
                let outside = || Error::Outside { path: path.to_owned().into() };
                components.pop().ok_or_else(outside)?;
                names_itself = true;
            }
            _ => {
                components.push(component);
                names_itself = false;
            }
        }
    }
    let whole = components.join(b"/".as_slice()).into();
    let name = if names_itself { None } else { components.pop().map(Into::into) };
    let folder = served.open_over_links(&components.join(b"/".as_slice()), HANDLE);
    let folder = folder.map_err(|errno| match errno {
        // A link at the end of this part causes this error.
        Errno::NOTDIR if !served.follows() => failed_served(path, Errno::LOOP),
        errno => failed_served(path, errno),
    })?;
    Ok(Spot {
        given: path.to_owned(),
        folder: Arc::new(folder),
        wants_directory: name.is_none() || given.ends_with(b"/"),
        name,
        served: Some((Arc::clone(served), whole)),
    })
}

fn failed_served(path: &Path, errno: Errno) -> Error {
    match errno {
        Errno::LOOP | Errno::XDEV => Error::BlockedRoot { path: path.to_owned().into() },
        _ => root_failed(path, errno),
    }
}

impl Spot {
    /// Returns the path as it was given.
    pub fn given(&self) -> &Path {
        &self.given
    }

    /// Returns the last component, or `None` if the path names a folder without it.
    pub fn name(&self) -> Option<&[u8]> {
        self.name.as_deref()
    }

    /// Returns whether the path requires a directory, by a slash or dot at its end.
    pub fn wants_directory(&self) -> bool {
        self.wants_directory
    }

    /// Returns the kind of entry that is there, if any. `follow` resolves a link to its destination.
    pub fn entry_type(&self, follow: bool) -> Result<Option<EntryType>> {
        match self.stat(follow) {
            Ok(stat) => Ok(Some(entry_type(&stat))),
            Err(Errno::NOENT) => Ok(None),
            Err(errno) => Err(self.failed(errno)),
        }
    }

    pub(crate) fn stat(&self, follow: bool) -> Result<Stat, Errno> {
        match (&self.name, &self.served) {
            (Some(name), None) if follow => statat(&*self.folder, &**name, AtFlags::empty()),
            (Some(_), Some((served, whole))) if follow && served.follows() => {
                let found = served.open_over_links(whole, OFlags::PATH)?;
                statat(&found, "", AtFlags::EMPTY_PATH)
            }
            (Some(name), _) => statat(&*self.folder, &**name, AtFlags::SYMLINK_NOFOLLOW),
            (None, _) => statat(&*self.folder, "", AtFlags::EMPTY_PATH),
        }
    }

    /// Returns whether the folder that contains the last component has an entry `name`.
    pub fn has_beside(&self, name: &str) -> bool {
        statat(&*self.folder, name, AtFlags::SYMLINK_NOFOLLOW).is_ok()
    }

    /// Returns the same bytes for all spellings of the place: the path without links, dots and slashes at its end, of the
    /// directory if one is there, and otherwise of the name in its folder.
    pub fn resolved(&self) -> Vec<u8> {
        match self.open_directory(true) {
            Ok(directory) => resolved(&directory),
            Err(_) => {
                let mut path = resolved(&self.folder);
                path.push(b'/');
                path.extend_from_slice(self.name.as_deref().unwrap_or_default());
                path
            }
        }
    }

    /// Returns a handle of the existing directory.
    pub(crate) fn open_directory(&self, follow: bool) -> Result<OwnedFd, Errno> {
        match (&self.name, &self.served) {
            (Some(name), None) if follow => openat(&*self.folder, &**name, HANDLE, Mode::empty()),
            (Some(_), Some((served, whole))) if follow => served.open_over_links(whole, HANDLE),
            (Some(name), _) => openat(&*self.folder, &**name, HANDLE | OFlags::NOFOLLOW, Mode::empty()),
            (None, _) => openat(&*self.folder, ".", HANDLE, Mode::empty()),
        }
    }

    pub(crate) fn failed(&self, errno: Errno) -> Error {
        if self.served.is_some() {
            failed_served(&self.given, errno)
        } else {
            root_failed(&self.given, errno)
        }
    }

    /// Returns the folder and the path below it, for a path in a served folder in which links can be followed.
    pub(crate) fn served(&self) -> Option<(&Beneath, &[u8])> {
        let (served, whole) = self.served.as_ref()?;
        served.follows().then_some((served, whole))
    }

    /// Returns the folder that contains the last component.
    pub(crate) fn folder(&self) -> &Arc<OwnedFd> {
        &self.folder
    }

    /// Returns the existing directory as a target root.
    pub fn directory(&self) -> Result<TargetRoot> {
        let folder = self.open_directory(true).map_err(|errno| self.failed(errno))?;
        Ok(TargetRoot { given: self.given.clone(), folder: Arc::new(folder), missing: None })
    }

    /// Returns a target root of this name; the directory is made when something is to be built in it.
    pub fn new_directory(&self) -> TargetRoot {
        TargetRoot { given: self.given.clone(), folder: self.folder.clone(), missing: self.name.clone() }
    }

    /// Returns the folder that contains the last component, as a target root.
    pub fn parent(&self) -> TargetRoot {
        TargetRoot { given: self.given.clone(), folder: self.folder.clone(), missing: None }
    }
}

/// Returns the path of an open folder; where the kernel does not tell it, the numbers of its file system and inode.
fn resolved(folder: &OwnedFd) -> Vec<u8> {
    let link = format!("/proc/self/fd/{}", folder.as_raw_fd());
    if let Ok(path) = readlinkat(CWD, link, Vec::new()) {
        return path.into_bytes();
    }
    let found = statat(folder, "", AtFlags::EMPTY_PATH).map(|stat| (stat.st_dev, stat.st_ino));
    format!("{found:?}").into_bytes()
}

/// The directory that a [`Target`](crate::Target) is built in, held by descriptor.
#[derive(Clone, Debug)]
pub struct TargetRoot {
    given: PathBuf,
    folder: Arc<OwnedFd>,
    /// If the directory is still to be made: its name in the folder.
    missing: Option<Box<[u8]>>,
}

impl TargetRoot {
    /// Returns the path as it was given, for messages.
    pub fn given(&self) -> &Path {
        &self.given
    }

    /// Returns whether the directory exists, without making it.
    pub fn exists(&self) -> bool {
        self.missing.is_none()
    }

    /// Returns a handle of the directory; a missing one is made with `mode`, less the process's umask.
    pub(crate) fn open(&self, mode: u32) -> Result<Arc<OwnedFd>> {
        let Some(name) = &self.missing else { return Ok(self.folder.clone()) };
        let made = match mkdirat(self.folder.as_fd(), &**name, Mode::from_raw_mode(mode)) {
            Ok(()) | Err(Errno::EXIST) => {
                openat(self.folder.as_fd(), &**name, HANDLE | OFlags::NOFOLLOW, Mode::empty())
            }
            Err(errno) => Err(errno),
        };
        made.map(Arc::new).map_err(|errno| root_failed(&self.given, errno))
    }
}

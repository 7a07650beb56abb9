//! Where a transfer reads and writes: the meaning of source and target paths.
//!
//! Guarantees: a target that is an existing directory gets the sources under their own names, as `cp` and
//! `scp` have it; any other target is the new name itself, also for a transfer that made it and is taken up
//! again. Below a daemon's root no path leads out of it.

use std::{
    ffi::OsStr,
    fs::File,
    os::{
        fd::{AsRawFd, OwnedFd},
        unix::ffi::OsStrExt,
    },
    path::{Path, PathBuf},
};

use rustix::{
    fs::{Mode, OFlags, ResolveFlags, openat2},
    io::Errno,
};
use sealane_tree::{Naming, RelativePath, Source, SourceRoot};

use crate::{
    error::{Error, ErrorKind},
    journal,
};

/// The directory beneath which a peer must stay.
#[derive(Debug)]
pub(crate) struct Confinement {
    root: OwnedFd,
}

impl Confinement {
    /// To the directory `root`.
    pub(crate) fn new(root: &Path) -> Result<Self, Error> {
        let failed = |error| Error::io(&format!("cannot open {}", root.display()), &error);
        let opened = File::open(root).map_err(failed)?;
        if !opened.metadata().map_err(failed)?.is_dir() {
            return Err(Error::new(ErrorKind::Io, format!("{} is not a folder", root.display())));
        }
        Ok(Self { root: opened.into() })
    }

    /// To a directory beneath this one.
    pub(crate) fn narrowed(&self, path: &Path) -> Result<Self, Error> {
        let path = path.strip_prefix("/").unwrap_or(path);
        Ok(Self { root: self.open(path)? })
    }

    fn open(&self, path: &Path) -> Result<OwnedFd, Error> {
        let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        openat2(&self.root, path, flags, Mode::empty(), resolve).map_err(|errno| match errno {
            Errno::XDEV => {
                let message = format!("{} leads out of the folder that is served", path.display());
                Error::new(ErrorKind::Refused, message)
            }
            _ => Error::io(&format!("cannot open {}", path.display()), &errno.into()),
        })
    }

    /// A path for the peer's `path` that cannot lead out. It is good while the descriptor lives.
    fn confine(&self, path: &[u8]) -> Result<(PathBuf, OwnedFd), Error> {
        let path = Path::new(OsStr::from_bytes(path));
        let path = path.strip_prefix("/").unwrap_or(path);
        let (parent, name) = match (path.parent(), path.file_name()) {
            (Some(parent), Some(name)) if !ends_in_directory(path) => (parent, Some(name)),
            _ => (path, None),
        };
        let parent = self.open(parent)?;
        let mut confined = PathBuf::from(format!("/proc/self/fd/{}", parent.as_raw_fd()));
        // A name that is a link is not followed by whoever opens it.
        confined.push(name.unwrap_or_else(|| OsStr::new(".")));
        Ok((confined, parent))
    }
}

fn ends_in_directory(path: &Path) -> bool {
    let bytes = path.as_os_str().as_bytes();
    bytes.ends_with(b"/") || bytes.ends_with(b"/.") || bytes == b"."
}

/// Resolved sources; the descriptors keep confined paths valid.
#[derive(Debug)]
pub(crate) struct Sources {
    pub(crate) source: Source,
    /// Those that could not be opened, beside some that could.
    pub(crate) missing: Vec<(Vec<u8>, Error)>,
    _confined: Vec<OwnedFd>,
}

/// Opens the sources. `name` is what the target calls the only one, if it does not take the sources' own names.
///
/// # Errors
/// None can be opened.
pub(crate) fn sources(
    paths: &[Vec<u8>],
    name: Option<&[u8]>,
    confinement: Option<&Confinement>,
) -> Result<Sources, Error> {
    let naming = match name {
        Some(name) => Naming::As(RelativePath::new(name).map_err(sealane_tree::Error::from)?),
        None => Naming::Basename,
    };
    let (mut roots, mut held, mut missing) = (Vec::with_capacity(paths.len()), Vec::new(), Vec::new());
    for path in paths {
        match source(path, &naming, confinement) {
            Ok((root, confined)) => {
                roots.push(root);
                held.extend(confined);
            }
            Err(error) => missing.push((path.clone(), error)),
        }
    }
    if roots.is_empty() && !missing.is_empty() {
        return Err(missing.swap_remove(0).1);
    }
    Ok(Sources { source: Source::new(roots), missing, _confined: held })
}

fn source(
    path: &[u8],
    naming: &Naming,
    confinement: Option<&Confinement>,
) -> Result<(SourceRoot, Option<OwnedFd>), Error> {
    let plain = Path::new(OsStr::from_bytes(path));
    let Some(confinement) = confinement else { return Ok((SourceRoot::open(plain, naming, false)?, None)) };
    let (confined, fd) = confinement.confine(path)?;
    // The confined path of a directory itself has no name of its own to give.
    let naming = match (naming, plain.file_name()) {
        (Naming::Basename, Some(name)) if !ends_in_directory(plain) => {
            Naming::As(RelativePath::new(name.as_bytes()).map_err(sealane_tree::Error::from)?)
        }
        (Naming::Basename, _) => Naming::Contents,
        (naming, _) => naming.clone(),
    };
    let root = SourceRoot::open(&confined, &naming, false).map_err(|error| match error {
        sealane_tree::Error::Root { source, .. } => {
            Error::io(&format!("cannot read {}", plain.display()), &source)
        }
        other => other.into(),
    })?;
    Ok((root.shown_as(plain.to_owned()), Some(fd)))
}

/// No sources: what is sent does not come from a tree.
pub(crate) fn no_sources() -> Sources {
    Sources { source: Source::new(Vec::new()), missing: Vec::new(), _confined: Vec::new() }
}

/// A resolved target.
#[derive(Debug)]
pub(crate) struct Place {
    /// The directory that entries go beneath.
    pub(crate) root: PathBuf,
    /// What the only source is to be called; `None` when sources keep their names.
    pub(crate) name: Option<Vec<u8>>,
    /// As it was asked for, for messages.
    asked: PathBuf,
    _confined: Option<OwnedFd>,
}

impl Place {
    /// What the paths of entries lie below in the words of whoever asked for it.
    pub(crate) fn shown(&self) -> PathBuf {
        match (&self.name, self.asked.parent()) {
            (Some(_), Some(parent)) => parent.to_owned(),
            _ => self.asked.clone(),
        }
    }

    /// An error of this place in the words of whoever asked for it.
    pub(crate) fn explain(&self, error: sealane_tree::Error) -> Error {
        match error {
            sealane_tree::Error::Root { source, .. } => {
                Error::io(&format!("cannot write to {}", self.asked.display()), &source)
            }
            other => other.into(),
        }
    }
}

/// Resolves the target path. `into_directory`: there are several sources, so it must be a directory. `journal`: the
/// name of the transfer's journal, if it can be taken up again.
pub(crate) fn target(
    path: &[u8],
    into_directory: bool,
    journal: Option<[u8; 16]>,
    confinement: Option<&Confinement>,
) -> Result<Place, Error> {
    let asked = PathBuf::from(OsStr::from_bytes(path));
    let (path, confined) = match confinement {
        Some(confinement) => {
            let (path, fd) = confinement.confine(path)?;
            (path, Some(fd))
        }
        None => (asked.clone(), None),
    };
    let metadata = if confinement.is_some() { path.symlink_metadata() } else { path.metadata() };
    let began_beside = || {
        let journal = journal.map(|key| parent_and_name(&path).0.join(journal::file_name(key)));
        !into_directory
            && !ends_in_directory(&path)
            && path.file_name().is_some()
            && journal.is_some_and(|journal| journal.symlink_metadata().is_ok())
    };
    match metadata {
        // There was nothing of this name when the transfer began: what is there now is what it has made of it.
        Ok(metadata) if metadata.is_dir() && began_beside() => {
            let (root, name) = parent_and_name(&path);
            Ok(Place { root, name, asked, _confined: confined })
        }
        Ok(metadata) if metadata.is_dir() => Ok(Place { root: path, name: None, asked, _confined: confined }),
        Ok(_) if into_directory || ends_in_directory(&path) => {
            Err(Error::new(ErrorKind::Usage, format!("{} is not a directory", asked.display())))
        }
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Error::io(&format!("cannot use {}", asked.display()), &error))
        }
        // Made by the target when it is opened.
        Err(_) if into_directory || ends_in_directory(&path) => {
            Ok(Place { root: path, name: None, asked, _confined: confined })
        }
        Ok(_) | Err(_) => {
            let (root, name) = parent_and_name(&path);
            Ok(Place { root, name, asked, _confined: confined })
        }
    }
}

fn parent_and_name(path: &Path) -> (PathBuf, Option<Vec<u8>>) {
    let name = path.file_name().map(|name| name.as_bytes().to_vec());
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    };
    (parent, name)
}

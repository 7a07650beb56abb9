//! The trees to be copied: their roots, and the names that what is in them has on the wire.
//!
//! A [`Source`] is a list of roots. Only a root's own path is resolved as the user gave it; below it no symbolic link
//! is followed, neither by the [`walk`](Source::walk) nor by a [`Reader`](crate::Reader), so that a tree which
//! changes while it is copied cannot make the copy read files outside it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::FileType;
use rustix::io::Errno;

use crate::beneath::{Beneath, Resolution};
use crate::error::{Error, Result, root_failed};
use crate::path::{RelativePath, ShownPath};
use crate::reader::Reader;
use crate::root::Anchor;
use crate::walk::{Walk, WalkOptions};

/// Which names the entries of a root get.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Naming {
    /// As `cp` and `scp` do it: `data` gives `data` and `data/...`; `data/.`, `.`, `..` and `/` give what they
    /// contain without a prefix.
    Basename,
    /// What the directory contains, without a prefix; the directory itself is not an entry.
    Contents,
    /// As if the root had this name.
    As(RelativePath),
}

/// What a root is, once opened.
#[derive(Debug)]
pub(crate) enum RootKind {
    /// The handle is this directory.
    Directory,
    /// The handle is the parent, and this the name in it.
    Entry(Box<[u8]>, FileType),
}

/// One root: a directory handle and the prefix which its entries have on the wire.
#[derive(Debug)]
pub struct SourceRoot {
    pub(crate) beneath: Beneath,
    pub(crate) prefix: Option<RelativePath>,
    pub(crate) kind: RootKind,
    /// The path as the user gave it, for messages.
    pub(crate) given: PathBuf,
}

impl SourceRoot {
    /// Opens `path`, a directory, a file or with `follow` unset a symbolic link. With `follow`, links in the whole
    /// path are resolved; without, its last component is taken as it is.
    pub fn open(path: &Path, naming: &Naming, follow: bool) -> Result<Self> {
        Self::open_at(&Anchor::default(), path, naming, follow)
    }

    /// As [`Self::open`], from where `anchor` says; in a folder that is served nothing is followed.
    pub fn open_at(anchor: &Anchor, path: &Path, naming: &Naming, follow: bool) -> Result<Self> {
        let given = path.to_owned();
        if path.as_os_str().is_empty() {
            return Err(root_failed(path, Errno::NOENT));
        }
        let spot = anchor.find(path)?;
        // A slash or dot at the end asks for the directory that a link points to.
        let follows = follow || spot.wants_directory();
        let stat = spot.stat(follows).map_err(|errno| spot.failed(errno))?;
        let file_type = FileType::from_raw_mode(stat.st_mode);
        let prefix = match (naming, spot.name()) {
            (Naming::Contents, _) | (Naming::Basename, None) => None,
            (Naming::Basename, Some(name)) => Some(RelativePath::new(name)?),
            (Naming::As(name), _) => Some(name.clone()),
        };
        if file_type == FileType::Directory {
            let handle = spot.open_directory(follows).map_err(|errno| spot.failed(errno))?;
            let beneath = Beneath::new(handle, Resolution::Detect);
            return Ok(Self { beneath, prefix, kind: RootKind::Directory, given });
        }
        if *naming == Naming::Contents || spot.wants_directory() {
            return Err(spot.failed(Errno::NOTDIR));
        }
        // The reader refuses links as last component, so a followed one is resolved here, once.
        let spot = match follow {
            true => anchor.find(&path.canonicalize().map_err(|error| root_failed(path, error))?)?,
            false => spot,
        };
        let name = spot.name().ok_or_else(|| spot.failed(Errno::NOENT))?;
        let kind = RootKind::Entry(name.into(), file_type);
        let beneath = Beneath::new(Arc::clone(spot.folder()), Resolution::Detect);
        Ok(Self { beneath, prefix, kind, given })
    }

    /// How the user would name the entry that is `path` on the wire.
    pub(crate) fn show(&self, path: &RelativePath) -> ShownPath {
        match (&self.kind, self.strip(path)) {
            (RootKind::Directory, Some(below)) if !below.is_empty() => {
                self.given.components().as_path().join(OsStr::from_bytes(below)).into()
            }
            _ => self.given.clone().into(),
        }
    }

    /// What every entry's name begins with, if anything.
    pub fn prefix(&self) -> Option<&RelativePath> {
        self.prefix.as_ref()
    }

    /// True for a directory; false for a single file or link.
    pub fn is_directory(&self) -> bool {
        matches!(self.kind, RootKind::Directory)
    }

    /// The path below the handle that `path` on the wire stands for; empty for the root directory itself.
    pub(crate) fn strip<'a>(&'a self, path: &'a RelativePath) -> Option<&'a [u8]> {
        let rest = match &self.prefix {
            None => path.as_bytes(),
            Some(prefix) => match path.as_bytes().strip_prefix(prefix.as_bytes())? {
                b"" => b"",
                rest => rest.strip_prefix(b"/")?,
            },
        };
        match &self.kind {
            RootKind::Directory => Some(rest),
            RootKind::Entry(name, _) => rest.is_empty().then_some(name),
        }
    }

    /// The wire name of what lies at `below` under a directory root; `None` for the unnamed root itself.
    pub(crate) fn name(&self, below: &[u8]) -> Option<Result<RelativePath>> {
        match (&self.prefix, below) {
            (None, b"") => None,
            (None, _) => Some(RelativePath::new(below).map_err(Error::from)),
            (Some(prefix), b"") => Some(Ok(prefix.clone())),
            (Some(prefix), _) => Some(prefix.child(below).map_err(Error::from)),
        }
    }
}

/// The roots of one copy. Cheap to clone and to share between threads.
#[derive(Clone, Debug)]
pub struct Source {
    roots: Arc<[SourceRoot]>,
}

impl Source {
    /// Roots in the order in which they are walked.
    pub fn new(roots: Vec<SourceRoot>) -> Self {
        Self { roots: roots.into() }
    }

    /// The roots; an entry's `root` is an index into them.
    pub fn roots(&self) -> &[SourceRoot] {
        &self.roots
    }

    pub(crate) fn root(&self, root: u32) -> Result<&SourceRoot> {
        let found = usize::try_from(root).ok().and_then(|index| self.roots.get(index));
        found.ok_or(Error::UnknownRoot { root })
    }

    /// How the user would name an entry of root number `root`, for messages.
    pub fn show(&self, root: u32, path: &RelativePath) -> ShownPath {
        self.root(root).map_or_else(|_| path.into(), |root| root.show(path))
    }

    /// All entries of all roots, depth first.
    pub fn walk(&self, options: WalkOptions) -> Walk {
        Walk::new(self.clone(), options)
    }

    /// A reader for one thread.
    pub fn reader(&self) -> Reader {
        Reader::new(self.clone())
    }
}

//! The trees to be copied: their roots, and the names that what is in them has on the wire.
//!
//! A [`Source`] is a list of roots. Only a root's own path is resolved as the user gave it; below it no symbolic link
//! is followed, neither by the [`walk`](Source::walk) nor by a [`Reader`](crate::Reader), so that a tree which
//! changes while it is copied cannot make the copy read files outside it. [`Following::Everywhere`] asks for the
//! opposite: links below a root are read as what they point to, in a folder that is served only as far as that lies
//! below the root.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::FileType;
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::beneath::{Beneath, Links, Resolution};
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

/// Which symbolic links of a source are followed.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub enum Following {
    /// None: links are copied as links.
    #[default]
    Nowhere,
    /// Those that are roots themselves.
    Roots,
    /// All.
    Everywhere,
}

/// What a root is, once opened.
#[derive(Debug)]
pub(crate) enum RootKind {
    /// The handle is this directory.
    Directory,
    /// The handle is a folder, and this the path below it.
    Entry(Box<[u8]>, FileType),
}

/// What of a root directory is walked: only this.
#[derive(Debug)]
pub struct Selection {
    /// In order, each once; what a directory holds comes right after it.
    pub(crate) paths: Vec<RelativePath>,
    /// The paths are a list of the user's: the folders they lie in are entries too, and a folder is one also where
    /// nothing is descended into.
    pub(crate) is_list: bool,
}

impl Selection {
    /// The paths of a list, with the folders that they are in.
    pub fn list(paths: Vec<RelativePath>) -> Self {
        Self { paths: sorted(paths), is_list: true }
    }

    /// Names in the directory, each as if it were a root.
    pub fn names(names: Vec<RelativePath>) -> Self {
        Self { paths: sorted(names), is_list: false }
    }
}

fn sorted(mut paths: Vec<RelativePath>) -> Vec<RelativePath> {
    // By components: in the order of bytes `a-b` would come between `a` and `a/b`.
    paths.sort_by(|one, other| one.components().cmp(other.components()));
    paths.dedup();
    paths
}

/// One root: a directory handle and the prefix which its entries have on the wire.
#[derive(Debug)]
pub struct SourceRoot {
    pub(crate) beneath: Beneath,
    pub(crate) prefix: Option<RelativePath>,
    pub(crate) kind: RootKind,
    /// The path as the user gave it, for messages.
    pub(crate) given: PathBuf,
    /// `None` stands for all.
    pub(crate) selection: Option<Selection>,
}

impl Following {
    /// The path of a directory that only leads to what is copied is resolved like any other.
    fn max_of_directory(self) -> Self {
        if self == Self::Nowhere { Self::Roots } else { self }
    }
}

impl SourceRoot {
    /// Opens `path`, a directory, a file or with `follow` unset a symbolic link. With `follow`, links in the whole
    /// path are resolved; without, its last component is taken as it is.
    pub fn open(path: &Path, naming: &Naming, follow: bool) -> Result<Self> {
        let following = if follow { Following::Roots } else { Following::Nowhere };
        Self::open_at(&Anchor::default(), path, naming, following)
    }

    /// As [`Self::open`], from where `anchor` says; in a folder that is served links are followed as far as they stay in
    /// it, where the kernel can see to that.
    pub fn open_at(anchor: &Anchor, path: &Path, naming: &Naming, following: Following) -> Result<Self> {
        let follow = following != Following::Nowhere;
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
            let links = match (following, anchor.is_served()) {
                (Following::Everywhere, true) => Links::Within,
                (Following::Everywhere, false) => Links::All,
                _ => Links::None,
            };
            let beneath = Beneath::new(handle, Resolution::Detect).over(links);
            return Ok(Self { beneath, prefix, kind: RootKind::Directory, given, selection: None });
        }
        if *naming == Naming::Contents || spot.wants_directory() {
            return Err(spot.failed(Errno::NOTDIR));
        }
        if let (true, Some((served, whole))) = (follow, spot.served()) {
            // The kernel resolves it again whenever it is opened, beneath the folder that is served.
            let kind = RootKind::Entry(whole.into(), file_type);
            return Ok(Self { beneath: served.over(Links::Within), prefix, kind, given, selection: None });
        }
        // The reader refuses links as last component, so a followed one is resolved here, once.
        let spot = match follow {
            true => anchor.find(&path.canonicalize().map_err(|error| root_failed(path, error))?)?,
            false => spot,
        };
        let name = spot.name().ok_or_else(|| spot.failed(Errno::NOENT))?;
        let kind = RootKind::Entry(name.into(), file_type);
        let beneath = Beneath::new(Arc::clone(spot.folder()), Resolution::Detect);
        Ok(Self { beneath, prefix, kind, given, selection: None })
    }

    /// The directory `path`, of which only `selection` is walked, under names that begin in it. `given` is what messages
    /// call it.
    pub fn selected(
        anchor: &Anchor,
        path: &Path,
        given: &Path,
        selection: Selection,
        following: Following,
    ) -> Result<Self> {
        let following = following.max_of_directory();
        let root = Self::open_at(anchor, path, &Naming::Contents, following)?;
        Ok(Self { given: given.to_owned(), selection: Some(selection), ..root })
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

    /// Whether only a part of a directory is walked.
    pub fn is_selected(&self) -> bool {
        self.selection.is_some()
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

//! The trees to be copied: their roots, and the names of their entries on the wire.
//!
//! A [`Source`] is a list of roots. Only a root's own path is resolved as the user gave it; below it no symbolic link
//! is followed, neither by the [`walk`](Source::walk) nor by a [`Reader`](crate::Reader), so that a tree which
//! changes while it is copied cannot make the copy read files outside it. [`Following::Everywhere`] is the opposite:
//! links below a root are read as their destinations; in a served folder, only links that stay below the root.

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
use crate::root::Anchor;

/// The names that the entries of a root get.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Naming {
    /// As `cp` and `scp` name them: `data` gives `data` and `data/...`; `data/.`, `.`, `..` and `/` give their
    /// entries without a prefix.
    Basename,
    /// The entries of the directory, without a prefix; the directory itself is not an entry.
    Contents,
    /// The names that entries would have if the root had this name.
    As(RelativePath),
}

/// The symbolic links of a source that are followed.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub enum Following {
    /// No links: they are copied as links.
    #[default]
    Nowhere,
    /// Links that are roots themselves.
    Roots,
    /// All.
    Everywhere,
}

/// The kind of a root, once it is opened.
#[derive(Debug)]
pub(crate) enum RootKind {
    /// The handle is this directory.
    Directory,
    /// A file or link: the handle is a folder, and this is the path below it.
    Entry(Box<[u8]>, FileType),
}

/// The part of a root directory that is walked.
#[derive(Debug)]
pub struct Selection {
    /// The paths in order, each once; a directory's entries come right after it.
    pub(crate) paths: Vec<RelativePath>,
    /// Whether the paths are a list of the user: then the folders above them are entries too, and a folder counts as
    /// one even without descent.
    pub(crate) is_list: bool,
}

impl Selection {
    /// Selects the paths of a list, and the folders above them.
    pub fn list(paths: Vec<RelativePath>) -> Self {
        Self { paths: sorted(paths), is_list: true }
    }

    /// Selects names in the directory, each as if it were a root.
    pub fn names(names: Vec<RelativePath>) -> Self {
        Self { paths: sorted(names), is_list: false }
    }
}

fn sorted(mut paths: Vec<RelativePath>) -> Vec<RelativePath> {
    // The order is by components: in the order of bytes `a-b` would come between `a` and `a/b`.
    paths.sort_by(|one, other| one.components().cmp(other.components()));
    paths.dedup();
    paths
}

/// A root: a directory handle and the prefix of its entries' names on the wire.
#[derive(Debug)]
pub struct SourceRoot {
    pub(crate) beneath: Beneath,
    pub(crate) prefix: Option<RelativePath>,
    pub(crate) kind: RootKind,
    /// The path as the user gave it, for messages.
    pub(crate) given: PathBuf,
    /// The selected part; `None` selects everything.
    pub(crate) selection: Option<Selection>,
}

impl Following {
    /// Returns the mode for a directory that only leads to the copied entries: its path is resolved like any other.
    fn max_of_directory(self) -> Self {
        if self == Self::Nowhere { Self::Roots } else { self }
    }
}

impl SourceRoot {
    /// Opens `path`, which is a directory, a file or, with `follow` unset, a symbolic link. With `follow`, links in
    /// the whole path are resolved; otherwise its last component is taken as it is.
    pub fn open(path: &Path, naming: &Naming, follow: bool) -> Result<Self> {
        let following = if follow { Following::Roots } else { Following::Nowhere };
        Self::open_at(&Anchor::default(), path, naming, following)
    }

    /// Does as [`Self::open`], relative to `anchor`; in a served folder links are followed if they stay in it and the
    /// kernel can guarantee that.
    pub fn open_at(anchor: &Anchor, path: &Path, naming: &Naming, following: Following) -> Result<Self> {
        let follow = following != Following::Nowhere;
        let given = path.to_owned();
        if path.as_os_str().is_empty() {
            return Err(root_failed(path, Errno::NOENT));
        }
        let spot = anchor.find(path)?;
        // A slash or dot at the end asks for the directory that a link leads to.
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
            // The kernel resolves the path again at each opening, beneath the served folder.
            let kind = RootKind::Entry(whole.into(), file_type);
            return Ok(Self { beneath: served.over(Links::Within), prefix, kind, given, selection: None });
        }
        // The reader refuses a link as last component, so one to be followed is resolved here, once.
        let spot = match follow {
            true => anchor.find(&path.canonicalize().map_err(|error| root_failed(path, error))?)?,
            false => spot,
        };
        let name = spot.name().ok_or_else(|| spot.failed(Errno::NOENT))?;
        let kind = RootKind::Entry(name.into(), file_type);
        let beneath = Beneath::new(Arc::clone(spot.folder()), Resolution::Detect);
        Ok(Self { beneath, prefix, kind, given, selection: None })
    }

    /// Returns the directory `path` with only `selection` walked, and names relative to it. Messages call it `given`.
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

    /// Returns the user's name of the entry that is `path` on the wire.
    pub(crate) fn show(&self, path: &RelativePath) -> ShownPath {
        match (&self.kind, self.strip(path)) {
            (RootKind::Directory, Some(below)) if !below.is_empty() => {
                self.given.components().as_path().join(OsStr::from_bytes(below)).into()
            }
            _ => self.given.clone().into(),
        }
    }

    /// Returns the beginning of every entry's name, if they have a common one.
    pub fn prefix(&self) -> Option<&RelativePath> {
        self.prefix.as_ref()
    }

    /// Returns whether only a part of a directory is walked.
    pub fn is_selected(&self) -> bool {
        self.selection.is_some()
    }

    /// Returns true for a directory, and false for a single file or link.
    pub fn is_directory(&self) -> bool {
        matches!(self.kind, RootKind::Directory)
    }

    /// Returns the path below the handle of the entry `path` on the wire; empty for the root directory itself.
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

    /// Returns the wire name of the entry at `below` under a directory root, or `None` for the unnamed root itself.
    pub(crate) fn name(&self, below: &[u8]) -> Option<Result<RelativePath>> {
        match (&self.prefix, below) {
            (None, b"") => None,
            (None, _) => Some(RelativePath::new(below).map_err(Error::from)),
            (Some(prefix), b"") => Some(Ok(prefix.clone())),
            (Some(prefix), _) => Some(prefix.child(below).map_err(Error::from)),
        }
    }
}

/// The roots of one copy. It is cheap to clone and to share between threads.
#[derive(Clone, Debug)]
pub struct Source {
    roots: Arc<[SourceRoot]>,
}

impl Source {
    /// Makes a source of roots, in the order in which they are walked.
    pub fn new(roots: Vec<SourceRoot>) -> Self {
        Self { roots: roots.into() }
    }

    /// Returns the roots; an entry's `root` is an index into them.
    pub fn roots(&self) -> &[SourceRoot] {
        &self.roots
    }

    pub(crate) fn root(&self, root: u32) -> Result<&SourceRoot> {
        let found = usize::try_from(root).ok().and_then(|index| self.roots.get(index));
        found.ok_or(Error::UnknownRoot { root })
    }

    /// Returns the user's name of an entry of root number `root`, for messages.
    pub fn show(&self, root: u32, path: &RelativePath) -> ShownPath {
        self.root(root).map_or_else(|_| path.into(), |root| root.show(path))
    }
}

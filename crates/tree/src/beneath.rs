//! Opens paths below a directory without following a symbolic link, unless the caller asks for that.
//!
//! [`Beneath`] resolves a path in one `openat2` call that forbids links, magic links and leaving the root, or, on
//! kernels without it, one component at a time with `O_NOFOLLOW`. Both withstand a link that another process swaps in
//! at any moment: the result is a descriptor, not a name.
//!
//! [`ParentCache`] keeps the last few parent directories open, so that a run of files in one directory costs one
//! resolution. Each thread has its own cache.

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rustix::fs::{Mode, OFlags, ResolveFlags, openat, openat2};
use rustix::io::Errno;

/// The way in which paths below the root are resolved.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Resolution {
    /// One `openat2` call where the kernel has it.
    #[default]
    Detect,
    /// One `openat` call per component, as on kernels before 5.6.
    ComponentWise,
}

/// Flags of a handle that only serves to reach the entries below it.
pub(crate) const HANDLE: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);

/// Upper bound of tries: `openat2` may ask for another one when a rename disturbs it, but this many mean an attack or
/// a broken file system.
const MAX_ATTEMPTS: u32 = 64;

/// The symbolic links that are followed below a directory.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) enum Links {
    /// No links.
    #[default]
    None,
    /// Links that stay beneath the directory, where the kernel can guarantee that; otherwise no links.
    Within,
    /// All links, as other programs of the user do.
    All,
}

/// A directory, and the method to open the entries below it.
#[derive(Debug)]
pub(crate) struct Beneath {
    root: Arc<OwnedFd>,
    one_call: bool,
    links: Links,
}

impl Beneath {
    /// Makes one from `root`, which is a directory.
    pub(crate) fn new(root: impl Into<Arc<OwnedFd>>, resolution: Resolution) -> Self {
        let root = root.into();
        let one_call = resolution == Resolution::Detect && resolve(&root, b".", HANDLE).is_ok();
        Self { root, one_call, links: Links::None }
    }

    /// Returns the same directory with these links followed below it.
    pub(crate) fn over(&self, links: Links) -> Self {
        let links = if links == Links::Within && !self.one_call { Links::None } else { links };
        Self { root: Arc::clone(&self.root), one_call: self.one_call, links }
    }

    /// Returns whether links are followed.
    pub(crate) fn follows_links(&self) -> bool {
        self.links != Links::None
    }

    /// Returns the directory itself.
    pub(crate) fn root(&self) -> &Arc<OwnedFd> {
        &self.root
    }

    /// Opens `path`, a checked relative path, or empty for the root itself; unless links are followed, a link as last
    /// component is refused like any other, so `flags` need not contain `O_NOFOLLOW`.
    pub(crate) fn open(&self, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        match self.links {
            Links::None => self.open_strictly(path, flags),
            Links::Within => self.open_over_links(path, flags.difference(OFlags::NOFOLLOW)),
            Links::All => {
                let flags = flags.difference(OFlags::NOFOLLOW) | OFlags::CLOEXEC;
                openat(&*self.root, if path.is_empty() { b"." } else { path }, flags, Mode::empty())
            }
        }
    }

    fn open_strictly(&self, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        if path.is_empty() {
            return openat(&*self.root, ".", flags, Mode::empty());
        }
        if self.one_call {
            for _ in 0..MAX_ATTEMPTS {
                match resolve(&self.root, path, flags) {
                    Err(Errno::AGAIN | Errno::INTR) => {}
                    result => return result,
                }
            }
            return Err(Errno::AGAIN);
        }
        let mut components = path.split(|&byte| byte == b'/').peekable();
        let mut current: Option<OwnedFd> = None;
        while let Some(component) = components.next() {
            let parent = current.as_ref().map_or_else(|| self.root.as_fd(), AsFd::as_fd);
            let last = components.peek().is_none();
            let flags = if last { flags } else { HANDLE | OFlags::NOFOLLOW };
            current = Some(openat(parent, component, flags, Mode::empty())?);
        }
        current.ok_or(Errno::NOENT)
    }

    /// Opens `path` over links that stay beneath the directory; the kernel refuses links that lead out, even if they
    /// are swapped meanwhile. Without `openat2` links are not followed.
    pub(crate) fn open_over_links(&self, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        if !self.one_call || path.is_empty() {
            return self.open_strictly(path, flags);
        }
        let rules = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        for _ in 0..MAX_ATTEMPTS {
            match openat2(&*self.root, path, flags | OFlags::CLOEXEC, Mode::empty(), rules) {
                Err(Errno::AGAIN | Errno::INTR) => {}
                result => return result,
            }
        }
        Err(Errno::AGAIN)
    }

    /// Returns whether [`Self::open_over_links`] follows links.
    pub(crate) fn follows(&self) -> bool {
        self.one_call
    }

    /// Opens the directory `path` as a handle that only serves to reach the entries below it.
    pub(crate) fn handle(&self, path: &[u8]) -> Result<OwnedFd, Errno> {
        self.open(path, HANDLE)
    }
}

fn resolve(root: &OwnedFd, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
    let rules = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    openat2(root, path, flags, Mode::empty(), rules)
}

/// Returns whether a path could not be resolved because a component is a link or not a directory.
pub(crate) fn is_blocked(errno: Errno) -> bool {
    matches!(errno, Errno::LOOP | Errno::NOTDIR | Errno::XDEV)
}

/// An open parent directory.
#[derive(Debug)]
pub(crate) struct Parent {
    fd: Arc<OwnedFd>,
    /// Whether a default access control list, and not the umask, decides the mode of new entries.
    pub(crate) has_default_acl: bool,
    /// Whether this copy made the directory, which is then still private.
    pub(crate) is_new: bool,
    /// Whether a name was found taken here, so that others may be.
    pub(crate) is_occupied: AtomicBool,
}

impl Parent {
    pub(crate) fn new(fd: Arc<OwnedFd>) -> Self {
        Self { fd, has_default_acl: false, is_new: false, is_occupied: AtomicBool::new(false) }
    }
}

impl AsFd for Parent {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Number of parents that a thread keeps open. Files of one directory follow each other, but several streams mix
/// their work.
const KEPT: usize = 8;

/// The parents used last, most recent first.
#[derive(Debug, Default)]
pub(crate) struct ParentCache {
    kept: Vec<(Box<[u8]>, Arc<Parent>)>,
}

impl ParentCache {
    /// Returns the parent named `path`, if it is still open.
    pub(crate) fn get(&mut self, path: &[u8]) -> Option<&Arc<Parent>> {
        let found = self.kept.iter().position(|(name, _)| **name == *path)?;
        if found != 0 {
            self.kept[..=found].rotate_right(1);
        }
        Some(&self.kept[0].1)
    }

    /// Adds `parent`, in place of the one used longest ago.
    pub(crate) fn insert(&mut self, path: &[u8], parent: Parent) -> &Arc<Parent> {
        self.kept.truncate(KEPT - 1);
        self.kept.insert(0, (path.into(), Arc::new(parent)));
        &self.kept[0].1
    }

    /// Forgets all parents, for use after a failure that a directory removed by another process may explain.
    pub(crate) fn clear(&mut self) {
        self.kept.clear();
    }
}

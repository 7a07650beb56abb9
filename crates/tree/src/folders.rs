//! The folders of a tree, each with everything by which its entries are compared: [`Folders`].
//!
//! Guarantees: each folder comes once, from whichever thread takes it, and two searches of equal trees come to their folders in
//! about the same order; no file is opened, unless it has
//! extended attributes that are compared; below the roots no symbolic link is followed. Memory is bounded by the names of
//! the folders that are found and not visited yet. A folder of which something could not be seen is not whole.

use std::ffi::{CStr, CString};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, Stat, fstat, openat, readlinkat, statat};
use rustix::io::Errno;

use crate::beneath::Beneath;
use crate::changes::Changes;
use crate::error::EntryType;
use crate::filter::{Filter, FilterFile};
use crate::filter_files::FolderRules;
use crate::inner::is_unfinished;
use crate::list_xattrs::list_at;
use crate::metadata::{Metadata, Special, Xattr};
use crate::path::{MAX_PATH_BYTES, RelativePath};
use crate::source::{RootKind, Source};
use crate::target::Target;
use crate::temporary::TempName;
use crate::walk::WalkOptions;
use crate::xattrs::{self, Xattrs};

/// Bytes requested from the kernel per call.
const BATCH_BYTES: usize = 32 * 1024;
/// The longest list of names that the kernel gives (`XATTR_LIST_MAX`).
const XATTR_LIST_BYTES: usize = 64 * 1024;

const LIST: OFlags = OFlags::RDONLY
    .union(OFlags::DIRECTORY)
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::CLOEXEC);

/// Whatever an entry of a folder is compared by.
#[derive(Debug)]
pub struct Seen<'a> {
    /// Its name in the folder.
    pub name: &'a [u8],
    /// Its type; a folder comes again as a [`SeenFolder`].
    pub entry_type: EntryType,
    /// Its metadata, with owner and extended attributes; nothing for a folder, which comes by itself.
    pub metadata: &'a Metadata,
    /// The destination of a symbolic link.
    pub target: &'a [u8],
    /// The number of its names.
    pub links: u64,
    /// Which device, pipe or socket it is, if it is one.
    pub special: Option<Special>,
}

/// A folder after its last entry.
#[derive(Debug)]
pub struct SeenFolder<'a> {
    /// Index of its root.
    pub root: u32,
    /// Its name on the wire; empty for a root that gives its entries no name.
    pub path: &'a [u8],
    /// Its own metadata.
    pub metadata: &'a Metadata,
    /// Whether everything in it could be seen, and nothing else was in it.
    pub is_whole: bool,
}

/// Takes what one thread sees.
pub trait Visitor {
    /// A folder of this name on the wire begins.
    fn begin(&mut self, path: &[u8]);
    /// It has this entry.
    fn entry(&mut self, seen: &Seen<'_>);
    /// It has an unfinished file of this path on the wire, which does not count.
    fn unfinished(&mut self, _path: &[u8]) {}
    /// It ends. Returns whether the search goes on.
    fn end(&mut self, folder: &SeenFolder<'_>) -> bool;
}

/// The things looked at.
#[derive(Clone, Debug)]
struct Rules {
    xattrs: Xattrs,
    one_file_system: bool,
    enters: bool,
    /// Unfinished files of other copies count as if they were not there; otherwise the folder is not whole.
    passes_over_parts: bool,
    filter: Filter,
    /// Filter files in the folders that count after the filter.
    files: Arc<[FilterFile]>,
    /// The filter does not see the first component of a path, which is the name of a root.
    below_names: bool,
    changes: Arc<Changes>,
}

/// One root.
#[derive(Debug)]
struct Root {
    beneath: Beneath,
    /// Its name on the wire.
    prefix: Vec<u8>,
    device: u64,
}

impl Root {
    /// Returns the path below this root of what has this name on the wire.
    fn below<'a>(&self, path: &'a [u8]) -> Option<&'a [u8]> {
        match path.strip_prefix(&*self.prefix)? {
            below if self.prefix.is_empty() || below.is_empty() => Some(below),
            [b'/', below @ ..] => Some(below),
            _ => None,
        }
    }
}

/// A folder that is found and not visited yet: its root, and its path below that.
type Found = (u32, Vec<u8>);

#[derive(Debug, Default)]
struct State {
    found: Vec<Found>,
    /// The number of folders that threads visit.
    visited: usize,
}

/// A search for all folders, shared by the threads that make it.
#[derive(Debug)]
pub struct Folders {
    roots: Vec<Root>,
    rules: Rules,
    state: Mutex<State>,
    more: Condvar,
    is_stopped: AtomicBool,
    /// The kernel has no call for the extended attributes of a name.
    opens_for_xattrs: AtomicBool,
}

impl Source {
    /// Returns the search for all folders of all roots; `None` if the names of their entries do not follow from the
    /// folders: links are followed, or only a selection is walked.
    pub fn folders(&self, options: &WalkOptions) -> Option<Folders> {
        let mut roots = Vec::new();
        let mut found = Vec::new();
        for (index, root) in (0..).zip(self.roots()) {
            if root.selection.is_some() || root.beneath.follows_links() {
                return None;
            }
            let prefix = root.prefix.as_ref().map_or_else(Vec::new, |prefix| prefix.as_bytes().to_vec());
            let beneath = root.beneath.over(crate::beneath::Links::None);
            let device = fstat(&**root.beneath.root()).map(|stat| stat.st_dev).unwrap_or_default();
            roots.push(Root { beneath, prefix, device });
            if matches!(root.kind, RootKind::Directory) && options.recursive {
                found.push((index, Vec::new()));
            }
        }
        let rules = Rules {
            xattrs: options.xattrs,
            one_file_system: options.one_file_system,
            enters: true,
            passes_over_parts: false,
            filter: options.filter.clone(),
            files: options.filter.files(),
            below_names: false,
            changes: Arc::clone(&options.changes),
        };
        Some(Folders::new(roots, rules, found))
    }
}

impl Target {
    /// Returns the search for the folders at these paths, and for those below them if `enters`. An empty path is the target
    /// itself; a path without a folder is passed over, and so is what the filter excludes, which is of paths without their
    /// first component if that is the name of a root (`below_names`).
    pub fn folders(
        &self,
        paths: Vec<Vec<u8>>,
        xattrs: Xattrs,
        enters: bool,
        (filter, below_names): (Filter, bool),
    ) -> Folders {
        let beneath = Beneath::new(Arc::clone(self.inner.beneath.root()), self.inner.options.resolution);
        let root = Root { beneath, prefix: Vec::new(), device: 0 };
        let rules = Rules {
            xattrs,
            one_file_system: false,
            enters,
            passes_over_parts: true,
            filter,
            files: Arc::default(),
            below_names,
            changes: Arc::default(),
        };
        Folders::new(vec![root], rules, paths.into_iter().map(|path| (0, path)).collect())
    }
}

impl Target {
    /// Returns whether there is a folder at this path, and anything in it: otherwise there is nothing to compare. A folder that
    /// cannot be opened or listed counts as one with entries.
    pub fn has_entries(&self, path: &[u8]) -> bool {
        let beneath = Beneath::new(Arc::clone(self.inner.beneath.root()), self.inner.options.resolution);
        let folder = match beneath.open(path, LIST) {
            Ok(folder) => folder,
            Err(errno) => return !matches!(errno, Errno::NOENT | Errno::NOTDIR),
        };
        let mut names = [MaybeUninit::uninit(); 2048];
        let mut listing = RawDir::new(folder, &mut names);
        while let Some(entry) = listing.next() {
            match entry {
                Ok(entry) if matches!(entry.file_name().to_bytes(), b"." | b"..") => {}
                Err(Errno::INTR) => {}
                _ => return true,
            }
        }
        false
    }
}

impl Folders {
    /// Returns the search for all folders of a basis that corresponds to the entry `within` of a target.
    pub(crate) fn of_basis(beneath: &Beneath, within: Option<&RelativePath>) -> Self {
        let prefix = within.map_or_else(Vec::new, |within| within.as_bytes().to_vec());
        let root = Root { beneath: beneath.over(crate::beneath::Links::None), prefix, device: 0 };
        let rules = Rules {
            xattrs: Xattrs::default(),
            one_file_system: false,
            enters: true,
            passes_over_parts: true,
            filter: Filter::default(),
            files: Arc::default(),
            below_names: false,
            changes: Arc::default(),
        };
        Self::new(vec![root], rules, vec![(0, Vec::new())])
    }
}

/// One thread's memory from folder to folder.
#[derive(Debug)]
pub struct Memory {
    names: Vec<u8>,
    xattrs: Vec<u8>,
    below: Vec<Found>,
    rules: FolderRules,
    /// The root that they are of.
    root: u32,
}

impl Folders {
    fn new(roots: Vec<Root>, rules: Rules, found: Vec<Found>) -> Self {
        Self {
            roots,
            rules,
            state: Mutex::new(State { found, visited: 0 }),
            more: Condvar::new(),
            is_stopped: AtomicBool::new(false),
            opens_for_xattrs: AtomicBool::new(false),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends the search early.
    pub fn stop(&self) {
        self.is_stopped.store(true, Ordering::Relaxed);
        self.more.notify_all();
    }

    /// Visits folders until there are none: each thread of the search calls this.
    pub fn visit(&self, visitor: &mut impl Visitor) {
        let mut own = self.memory();
        while let Some((root, below)) = self.take() {
            let goes_on = self.folder(root, &below, &mut own, visitor);
            // The last one is taken first, and file systems have orders of their own.
            own.below.sort_unstable_by(|(_, one), (_, other)| other.cmp(one));
            let mut state = self.state();
            state.visited -= 1;
            state.found.append(&mut own.below);
            drop(state);
            self.more.notify_all();
            if !goes_on {
                self.stop();
            }
        }
    }

    /// Visits a folder alone, given by its root and its name on the wire, whatever else there is to be found.
    pub fn visit_only(&self, (root, path): (u32, &[u8]), memory: &mut Memory, visitor: &mut impl Visitor) {
        let Some(below) = self.roots.get(root as usize).and_then(|of| of.below(path)) else { return };
        self.folder(root, below, memory, visitor);
        memory.below.clear();
    }

    /// Returns the only root in which a folder of this name on the wire may be; `None` if there is none, or several.
    pub fn only_root(&self, path: &[u8]) -> Option<u32> {
        let mut roots = (0..).zip(&self.roots).filter(|(_, root)| root.below(path).is_some());
        let (root, _) = roots.next()?;
        roots.next().is_none().then_some(root)
    }

    /// Returns the memory of a thread that visits folders of this search.
    pub fn memory(&self) -> Memory {
        Memory {
            names: Vec::with_capacity(BATCH_BYTES),
            xattrs: if self.rules.xattrs.any() { vec![0; XATTR_LIST_BYTES] } else { Vec::new() },
            below: Vec::new(),
            rules: FolderRules::new(Arc::clone(&self.rules.files)),
            root: 0,
        }
    }

    /// Returns a folder to visit, once there is one.
    fn take(&self) -> Option<Found> {
        let mut state = self.state();
        loop {
            if self.is_stopped.load(Ordering::Relaxed) {
                return None;
            }
            if let Some(found) = state.found.pop() {
                state.visited += 1;
                return Some(found);
            }
            if state.visited == 0 {
                return None;
            }
            state = self.more.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Returns whether the search goes on.
    fn folder(&self, index: u32, below: &[u8], own: &mut Memory, visitor: &mut impl Visitor) -> bool {
        let root = &self.roots[index as usize];
        let opened = root.beneath.open(below, LIST).and_then(|fd| fstat(&fd).map(|stat| (fd, stat)));
        let Ok((fd, stat)) = opened else { return true };
        if self.rules.one_file_system && stat.st_dev != root.device {
            return true;
        }
        let path = match (root.prefix.is_empty(), below.is_empty()) {
            (true, _) => below.to_vec(),
            (false, true) => root.prefix.clone(),
            (false, false) => [&root.prefix, b"/".as_slice(), below].concat(),
        };
        visitor.begin(&path);
        let mut metadata = Metadata::from_stat(&stat, true);
        metadata.size_bytes = 0;
        let kinds = self.rules.xattrs;
        let own_xattrs = match kinds.any() {
            true => RelativePath::new(&path)
                .ok()
                .map_or(Some(Vec::new()), |path| xattrs::read(&fd, &path, kinds).ok()),
            false => Some(Vec::new()),
        };
        let mut is_whole = own_xattrs.is_some() && !is_unfinished(metadata.mode);
        metadata.xattrs = own_xattrs.unwrap_or_default();
        self.rules.changes.apply(EntryType::Directory, &mut metadata);
        self.rules.changes.apply_to_acls(&mut metadata.xattrs);
        let room = MAX_PATH_BYTES.saturating_sub(path.len() + 1);
        is_whole &= self.entries(&fd, (index, below, room), own, visitor).unwrap_or(false);
        visitor.end(&SeenFolder { root: index, path: &path, metadata: &metadata, is_whole })
    }

    /// Passes on the entries of a folder. Returns whether all could be seen.
    fn entries(
        &self,
        fd: &OwnedFd,
        (index, below, room): (u32, &[u8], usize),
        own: &mut Memory,
        visitor: &mut impl Visitor,
    ) -> Result<bool, Errno> {
        let Memory { names, xattrs: list, below: found, rules, root: of_root } = own;
        if std::mem::replace(of_root, index) != index {
            rules.forget();
        }
        let beneath = &self.roots[index as usize].beneath;
        names.clear();
        let spare: &mut [MaybeUninit<u8>] = names.spare_capacity_mut();
        let mut listing = RawDir::new(fd.as_fd(), spare);
        let mut path = below.to_vec();
        if !path.is_empty() {
            path.push(b'/');
        }
        let above = path.len();
        let mut is_whole = true;
        let nothing = Metadata::default();
        while let Some(entry) = listing.next() {
            let entry = match entry {
                Err(Errno::INTR) => continue,
                entry => entry?,
            };
            let name = entry.file_name().to_bytes();
            if matches!(name, b"." | b"..") {
                continue;
            }
            path.truncate(above);
            path.extend_from_slice(name);
            let stat = match stat_unless_folder(fd, entry.file_name(), entry.file_type()) {
                Ok(stat) => stat,
                // It was removed since it was listed, and counts as removed before.
                Err(Errno::NOENT) => continue,
                Err(_) => {
                    is_whole = false;
                    continue;
                }
            };
            if !self.includes(beneath, rules, &path, stat.is_none()) {
                continue;
            }
            if stat.is_some() && TempName::matches(name) {
                is_whole &= self.rules.passes_over_parts;
                visitor.unfinished(&path);
                continue;
            }
            if name.len() > room {
                is_whole = false;
                continue;
            }
            if let Some(stat) = &stat {
                is_whole &= self.pass_on(fd.as_fd(), (entry.file_name(), &path), stat, list, visitor);
                continue;
            }
            visitor.entry(&Seen {
                name,
                entry_type: EntryType::Directory,
                metadata: &nothing,
                target: b"",
                links: 1,
                special: None,
            });
            if self.rules.enters {
                found.push((index, path.clone()));
            }
        }
        Ok(is_whole)
    }

    /// Returns whether an entry counts by the filter, and by the files of rules above it.
    fn includes(&self, beneath: &Beneath, rules: &mut FolderRules, path: &[u8], is_directory: bool) -> bool {
        let filtered = match self.rules.below_names {
            true => path.splitn(2, |&byte| byte == b'/').nth(1).unwrap_or_default(),
            false => path,
        };
        let decided = self.rules.filter.decides(filtered, is_directory);
        let included = decided.unwrap_or_else(|| rules.includes(beneath, b"", path, is_directory));
        if !included {
            // The walk reports files of rules that cannot be read.
            rules.errors.clear();
        }
        included
    }

    /// Passes on an entry that is no folder. Returns whether all of it could be seen.
    fn pass_on(
        &self,
        folder: BorrowedFd<'_>,
        (name, path): (&CStr, &[u8]),
        stat: &Stat,
        list: &mut [u8],
        visitor: &mut impl Visitor,
    ) -> bool {
        let mut is_whole = true;
        let mut metadata = Metadata::from_stat(stat, true);
        let mut target = Vec::new();
        let entry_type = match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => {
                match self.xattrs(folder, (name, path), list) {
                    Ok(xattrs) => metadata.xattrs = xattrs,
                    Err(_) => is_whole = false,
                }
                EntryType::File
            }
            FileType::Symlink => {
                match readlinkat(folder, name, Vec::new()) {
                    Ok(text) => target = text.into_bytes(),
                    Err(_) => is_whole = false,
                }
                EntryType::Symlink
            }
            _ => EntryType::Other,
        };
        self.rules.changes.apply(entry_type, &mut metadata);
        self.rules.changes.apply_to_acls(&mut metadata.xattrs);
        let (name, links, special) = (name.to_bytes(), links(stat), Special::of(stat));
        visitor.entry(&Seen { name, entry_type, metadata: &metadata, target: &target, links, special });
        is_whole
    }

    /// Returns the extended attributes of a file, if they are compared.
    fn xattrs(
        &self,
        folder: BorrowedFd<'_>,
        (name, path): (&CStr, &[u8]),
        list: &mut [u8],
    ) -> Result<Vec<Xattr>, Errno> {
        if !self.rules.xattrs.any() {
            return Ok(Vec::new());
        }
        xattrs_at(folder, name, path, list, (&self.opens_for_xattrs, self.rules.xattrs))
    }
}

/// Returns the facts of an entry, whose type may be listed already; `None` for a folder, whose facts are read once it is opened.
fn stat_unless_folder(folder: &OwnedFd, name: &CStr, listed: FileType) -> Result<Option<Stat>, Errno> {
    if listed == FileType::Directory {
        return Ok(None);
    }
    let stat = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW)?;
    Ok(Some(stat).filter(|stat| FileType::from_raw_mode(stat.st_mode) != FileType::Directory))
}

/// Returns the extended attributes of a file by its name in an open folder; it is opened only if it has some.
pub(crate) fn xattrs_at(
    folder: BorrowedFd<'_>,
    name: &CStr,
    path: &[u8],
    list: &mut [u8],
    (opens, kinds): (&AtomicBool, Xattrs),
) -> Result<Vec<Xattr>, Errno> {
    if !opens.load(Ordering::Relaxed) {
        match list_at(folder, name, list) {
            Ok(length) if !list[..length].split(|&byte| byte == 0).any(|name| kinds.include(name)) => {
                return Ok(Vec::new());
            }
            Err(Errno::OPNOTSUPP) => return Ok(Vec::new()),
            Ok(_) => {}
            Err(Errno::NOSYS) => opens.store(true, Ordering::Relaxed),
            Err(errno) => return Err(errno),
        }
    }
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let file = openat(folder, name, flags, Mode::empty())?;
    let path = RelativePath::new(path).map_err(|_| Errno::NAMETOOLONG)?;
    xattrs::read(&file, &path, kinds).map_err(|_| Errno::IO)
}

/// Returns a list of names for [`xattrs_at`].
pub(crate) fn xattr_list() -> Vec<u8> {
    vec![0; XATTR_LIST_BYTES]
}

/// Returns a name for the kernel.
pub(crate) fn c_name(name: &[u8]) -> Result<CString, Errno> {
    CString::new(name).map_err(|_| Errno::INVAL)
}

fn links(stat: &Stat) -> u64 {
    #[allow(clippy::useless_conversion, reason = "its width differs between architectures")]
    u64::from(stat.st_nlink)
}

//! The tree that is being built: [`Target`], its options, and the work at its end.
//!
//! The root's own path is resolved as the user gave it. Below it no symbolic link is followed, whether it was there
//! before, was sent by the peer, or is swapped in while the copy runs. At worst, a path from the peer is refused.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use rustix::fs::{
    AtFlags, Gid, Mode, OFlags, Timespec, Timestamps, UTIME_OMIT, Uid, fchmod, fchown, fgetxattr_query,
    fstat, fstatvfs, futimens, syncfs, unlinkat,
};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::beneath::{Beneath, HANDLE, Parent, Resolution, is_blocked};
use crate::error::{Error, Operation, Result, failed, root_failed};
use crate::metadata::{MODE_BITS, Metadata, Owner, Timestamp};
use crate::part::TempName;
use crate::path::RelativePath;
use crate::root::{Anchor, TargetRoot};
use crate::successor::Successors;
use crate::writer::Writer;
use crate::xattrs;

/// Set-user-id and set-group-id.
const PRIVILEGE_BITS: u32 = 0o6000;
pub(crate) const SET_GROUP_ID: u32 = 0o2000;
/// Mode of directories until they are finished: only their owner may use them. The sticky bit has no effect in a
/// private directory, so users do not set this mode: a directory that has it was left by an interrupted copy, and is
/// finished as if it had just been made.
pub(crate) const UNFINISHED_DIRECTORY: u32 = 0o1700;
/// Memory per remembered directory, besides its path.
const RECORD_BYTES: u64 = 64;
/// Most errors kept by [`FinishReport`].
const MAX_ERRORS: usize = 64;

/// Options of a target.
#[derive(Clone, Debug)]
pub struct TargetOptions {
    /// Whether the root directory is made if it is missing (its parent must exist).
    pub create_root: bool,
    /// Mode bits that may be set on any entry: 07777 for modes as sent.
    pub mode_mask: u32,
    /// Mode bits that entries without sent metadata do not get, besides those of the process's umask: for a process
    /// that has set its umask to 0.
    pub default_umask: u32,
    /// Whether existing directories get the mode sent; otherwise they keep theirs.
    pub change_existing_directories: bool,
    /// Times of last change are set.
    pub times: bool,
    /// Whether owners are set, where the system allows it. Without this option, and after a failure, set-user-id and
    /// set-group-id are dropped.
    pub ownership: bool,
    /// Whether extended attributes of the `user.` namespace are set.
    pub xattrs: bool,
    /// Whether an existing entry gives way to one of another kind: the new entry is made complete beside it, and
    /// waits for [`Writer::succeed`]. Without this option that is an error, except for files and symbolic links,
    /// which replace each other.
    pub replaces_other_kinds: bool,
    /// Place at which replaced and removed entries, except directories, are kept.
    pub backup: Option<Backups>,
    /// Number of the transfer, if another target may resume it: then an unfinished file that is dropped stays, and
    /// short-lived temporary names follow from this number and the path, so that the leftovers of a killed process
    /// are replaced. Two targets with the same number must not be open on one directory. Otherwise unfinished files
    /// are removed.
    pub resumable_as: Option<u64>,
    /// Most memory for directories until they get their modes and times: their paths, and 64 bytes each. A single
    /// path can name thousands of them.
    pub directory_bytes_max: u64,
    /// The way in which paths are resolved.
    pub resolution: Resolution,
    /// The way in which small files are made.
    pub small_files: SmallFiles,
}

/// The place at which replaced and removed entries are kept.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Backups {
    /// Suffix of the names; it may be empty only with a folder.
    pub suffix: Vec<u8>,
    /// Folder of the target in which backups keep their path; without it, a backup stays beside the original.
    pub folder: Option<RelativePath>,
    /// If this path is a directory, the folder lies in it.
    pub within: Option<RelativePath>,
}

impl Backups {
    /// Returns the place of the backup of `path`.
    ///
    /// # Errors
    /// The name would be too long.
    pub fn place(&self, path: &RelativePath) -> Result<RelativePath> {
        let place = match &self.folder {
            None => path.clone(),
            Some(folder) => match self.within.as_ref().map(|within| (within, below(path, within))) {
                Some((within, Some(rest))) => within.join(folder)?.child(rest)?,
                _ => folder.join(path)?,
            },
        };
        Ok(RelativePath::from_vec([place.as_bytes(), &self.suffix].concat())?)
    }

    /// Returns whether a path is that of a backup, or of the folder of backups.
    pub fn has(&self, path: &RelativePath) -> bool {
        let is_suffixed = !self.suffix.is_empty() && path.file_name().ends_with(&self.suffix);
        match &self.folder {
            None => is_suffixed,
            Some(folder) => {
                let inner = self.within.as_ref().and_then(|within| within.join(folder).ok());
                path.starts_with(folder) || inner.is_some_and(|inner| path.starts_with(&inner))
            }
        }
    }
}

/// Returns the part of a path below a directory.
fn below<'a>(path: &'a RelativePath, directory: &RelativePath) -> Option<&'a [u8]> {
    path.as_bytes().strip_prefix(directory.as_bytes())?.strip_prefix(b"/")
}

/// The method of [`Writer::small_file`]. The figures are CPU times per 4 KiB file on one machine, on tmpfs and ext4,
/// from the crate's example `cost`.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum SmallFiles {
    /// The file has no name until it is complete, then it is linked to its own (11 and 24 us). If the name is taken,
    /// and on file systems without nameless files, as [`Self::Renamed`].
    #[default]
    Linked,
    /// The file has a temporary name, then it is renamed (12 and 29 us; 13 and 65 us over an existing file, where
    /// `Linked` alone would take 17 and 75 us).
    Renamed,
    /// The file has its own name at once, in directories that this target made and nobody else may enter yet;
    /// elsewhere as [`Self::Linked`]. This is the cheapest copy of many files, but a killed process can leave a
    /// truncated file under its own name.
    DirectInNew,
}

impl Default for TargetOptions {
    /// Modes and times are set as sent; owners and attributes are not; unfinished files are removed.
    fn default() -> Self {
        Self {
            create_root: false,
            mode_mask: MODE_BITS,
            default_umask: 0,
            change_existing_directories: false,
            times: true,
            ownership: false,
            xattrs: false,
            replaces_other_kinds: false,
            backup: None,
            resumable_as: None,
            directory_bytes_max: 256 << 20,
            resolution: Resolution::Detect,
            small_files: SmallFiles::default(),
        }
    }
}

/// Counts of properties that could not be kept; they are not errors.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Dropped {
    /// Entries whose sent owner the options or the system did not allow.
    pub owners: u64,
    /// Extended attributes outside the `user.` namespace, or on a file system without attributes.
    pub xattrs: u64,
    /// Entries that lost set-user-id or set-group-id.
    pub privileges: u64,
}

/// The result of finishing the directories.
#[derive(Debug, Default)]
pub struct FinishReport {
    /// Directories finished.
    pub finished: u64,
    /// Directories whose mode or times could not be set.
    pub failed: u64,
    /// The first 64 reasons.
    pub errors: Vec<Error>,
}

/// The data remembered about a directory until the end.
#[derive(Clone, Copy, Debug, Default)]
struct Record {
    /// Whether this copy, or an interrupted one, made it.
    created: bool,
    /// Its mode before it was opened up.
    original_mode: Option<u32>,
    /// The sent properties; `None` for parents made on demand.
    sent: Option<(u32, Timestamp, Option<Owner>)>,
    /// Its time of last change before an entry was made in it.
    modified: Option<Timestamp>,
}

impl Record {
    /// Returns whether the directory needs any work at the end.
    fn is_to_be_finished(&self) -> bool {
        self.created || self.original_mode.is_some() || self.sent.is_some()
    }
}

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) beneath: Beneath,
    pub(crate) options: TargetOptions,
    root: PathBuf,
    /// Bits that the process's umask removes from new entries.
    umask: u32,
    directories: Mutex<BTreeMap<RelativePath, Record>>,
    /// Memory that the records take.
    directory_bytes: AtomicU64,
    /// Whether files without a name can be made and linked here.
    pub(crate) can_link: AtomicBool,
    /// Whether a large file without a name can be linked here, once that was tried.
    pub(crate) links_nameless: OnceLock<bool>,
    next_temp: AtomicU64,
    dropped_owners: AtomicU64,
    dropped_xattrs: AtomicU64,
    dropped_privileges: AtomicU64,
    pub(crate) successors: Successors,
}

/// A directory in which a tree is built. It is cheap to clone and to share; each thread writes through its own
/// [`Writer`].
#[derive(Clone, Debug)]
pub struct Target {
    pub(crate) inner: Arc<Inner>,
}

impl Target {
    /// Opens the directory `path`, resolving links in it.
    pub fn open(path: &Path, options: TargetOptions) -> Result<Self> {
        let spot = Anchor::default().find(path)?;
        let root = match spot.entry_type(true)? {
            None if options.create_root && spot.name().is_some() => spot.new_directory(),
            _ => spot.directory()?,
        };
        Self::build(&root, options)
    }

    /// Starts to build in `root`, which is made if it is missing.
    ///
    /// The process's umask is read once, here: a process that sets it to 0 beforehand saves one system call per file
    /// whose mode it would change.
    pub fn build(root: &TargetRoot, options: TargetOptions) -> Result<Self> {
        let fd = root.open(0o777 & options.mode_mask & !options.default_umask)?;
        let can_link = options.small_files != SmallFiles::Renamed;
        let inner = Inner {
            beneath: Beneath::new(fd, options.resolution),
            options,
            root: root.given().to_owned(),
            umask: process_umask(),
            directories: Mutex::default(),
            directory_bytes: AtomicU64::new(0),
            can_link: AtomicBool::new(can_link),
            links_nameless: OnceLock::new(),
            // The number is not a secret: names are created exclusively, so a collision only costs another try.
            next_temp: AtomicU64::new(RandomState::new().build_hasher().finish()),
            dropped_owners: AtomicU64::new(0),
            dropped_xattrs: AtomicU64::new(0),
            dropped_privileges: AtomicU64::new(0),
            successors: Successors::default(),
        };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Notes that an earlier target with this one's number ([`TargetOptions::resumable_as`]) was interrupted: every
    /// small file is now made under its temporary name, so that one left there is replaced.
    pub fn expect_leftovers(&self) {
        self.inner.can_link.store(false, Ordering::Relaxed);
    }

    /// Returns a writer for one thread.
    pub fn writer(&self) -> Writer {
        Writer::new(Arc::clone(&self.inner))
    }

    /// Returns the root itself, open for reading.
    pub fn open_root(&self) -> Result<OwnedFd> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        self.inner.beneath.open(b"", flags).map_err(|errno| self.inner.root_error(errno))
    }

    /// Returns the counts of properties that could not be kept so far.
    pub fn dropped(&self) -> Dropped {
        Dropped {
            owners: self.inner.dropped_owners.load(Ordering::Relaxed),
            xattrs: self.inner.dropped_xattrs.load(Ordering::Relaxed),
            privileges: self.inner.dropped_privileges.load(Ordering::Relaxed),
        }
    }

    /// Returns the number of bytes that this user may still write to the target's file system.
    pub fn available_bytes(&self) -> Result<u64> {
        let stat = fstatvfs(&**self.inner.beneath.root()).map_err(|errno| self.inner.root_error(errno))?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    /// Waits until everything written to the target's file system is on stable storage: for many small files this is
    /// far cheaper than one `fsync` each.
    pub fn sync(&self) -> Result<()> {
        syncfs(self.open_root()?).map_err(|errno| self.inner.root_error(errno))
    }

    /// Gives every directory its mode, owner and times, the deepest first. Call it when no more is written; open
    /// files of writers stay usable.
    pub fn finish_directories(&self) -> FinishReport {
        let records = std::mem::take(&mut *self.inner.directories());
        let mut report = FinishReport::default();
        // A directory sorts before its entries.
        for (path, record) in records.iter().rev().filter(|(_, record)| record.is_to_be_finished()) {
            match self.inner.finish_directory(path, record) {
                Ok(()) => report.finished += 1,
                Err(error) => {
                    report.failed += 1;
                    if report.errors.len() < MAX_ERRORS {
                        report.errors.push(error);
                    }
                }
            }
        }
        report
    }

    /// Returns whether this target, or an interrupted one, made any directory beneath the root.
    pub fn made_directories(&self) -> bool {
        self.inner.directories().values().any(|record| record.created)
    }

    /// Finishes the directories after a copy that failed and cannot be resumed. A directory made on demand, whose own
    /// entry had not come, is removed if it is empty, and stays private otherwise.
    pub fn abandon_directories(&self) {
        let records = self.inner.directories().clone();
        let on_demand = |record: &Record| record.created && record.sent.is_none();
        for (path, _) in records.iter().rev().filter(|(_, record)| on_demand(record)) {
            if self.inner.remove_empty(path).is_ok() {
                self.inner.directories().remove(path);
            }
        }
        // The failure of the copy is the one to report.
        let _ = self.finish_directories();
    }

    /// Gives existing directories their old modes back, and leaves the others unfinished, after a copy that failed
    /// and may be resumed.
    pub fn restore_modes(&self) {
        let records = self.inner.directories().clone();
        let opened = |record: &Record| !record.created && record.original_mode.is_some();
        for (path, record) in records.iter().rev().filter(|(_, record)| opened(record)) {
            // The failure of the copy is the one to report.
            let _ = self.inner.finish_directory(path, &Record { sent: None, ..*record });
        }
    }
}

/// Returns whether this process may give files away, to any owner.
pub fn may_give_away() -> bool {
    geteuid().is_root()
}

/// Returns the umask, from the kernel's status file: asking with `umask` would change it for other threads for a
/// moment.
fn process_umask() -> u32 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    // An unknown umask counts as removing all bits, which costs an explicit change of mode and is always right.
    line.and_then(|value| u32::from_str_radix(value.trim(), 8).ok()).unwrap_or(0o777)
}

/// Returns whether a directory was left unfinished. It may have set-group-id from its parent.
pub(crate) fn is_unfinished(mode: u32) -> bool {
    mode & MODE_BITS & !SET_GROUP_ID == UNFINISHED_DIRECTORY
}

impl Inner {
    pub(crate) fn root_error(&self, errno: Errno) -> Error {
        root_failed(&self.root, errno)
    }

    fn directories(&self) -> MutexGuard<'_, BTreeMap<RelativePath, Record>> {
        // No code panics while it holds this lock, and a record is valid at every step.
        self.directories.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the temporary name that a transfer always gives to the entry of this path.
    pub(crate) fn own_temp_name(&self, path: &RelativePath) -> Option<TempName> {
        // Another release may hash differently; then a leftover stays, as without a number.
        let mut hasher = DefaultHasher::new();
        (self.options.resumable_as?, path.as_bytes()).hash(&mut hasher);
        Some(TempName::new(hasher.finish()))
    }

    /// Returns an unused name.
    pub(crate) fn temp_name(&self) -> TempName {
        TempName::new(self.next_temp.fetch_add(1, Ordering::Relaxed))
    }

    /// Fails if there is no room to remember one more directory.
    pub(crate) fn check_room(&self, path: &RelativePath) -> Result<()> {
        match self.directory_bytes.load(Ordering::Relaxed) < self.options.directory_bytes_max {
            true => Ok(()),
            false => Err(Error::TooManyDirectories { path: path.into() }),
        }
    }

    /// Remembers a directory made here. `sent` is its final state, if that is known.
    pub(crate) fn record(
        &self,
        path: &RelativePath,
        created: bool,
        original_mode: Option<u32>,
        sent: Option<&Metadata>,
    ) {
        let sent = sent.map(|metadata| (metadata.mode, metadata.modified, metadata.owner));
        match self.directories().entry(path.clone()) {
            Entry::Vacant(vacant) => {
                self.count_path(path);
                vacant.insert(Record { created, original_mode, sent, modified: None });
            }
            Entry::Occupied(mut occupied) => {
                let record = occupied.get_mut();
                record.created |= created;
                record.original_mode = record.original_mode.or(original_mode);
                record.sent = sent.or(record.sent);
            }
        }
    }

    /// Counts the memory of one more path.
    pub(crate) fn count_path(&self, path: &RelativePath) {
        self.directory_bytes.fetch_add(path.as_bytes().len() as u64 + RECORD_BYTES, Ordering::Relaxed);
    }

    /// Drops the records of the directory `path` and of those below it.
    pub(crate) fn forget_directories(&self, path: &RelativePath) {
        self.directories().retain(|directory, _| !directory.starts_with(path));
    }

    /// Notes the time of last change of a directory before the first entry is made in it, which changes that time.
    fn note_time(&self, path: &[u8], modified: Timestamp) {
        let Ok(path) = RelativePath::new(path) else { return };
        let has_room = self.check_room(&path).is_ok();
        match self.directories().entry(path) {
            Entry::Occupied(mut occupied) => {
                occupied.get_mut().modified.get_or_insert(modified);
            }
            Entry::Vacant(vacant) if has_room => {
                self.count_path(vacant.key());
                vacant.insert(Record { modified: Some(modified), ..Record::default() });
            }
            Entry::Vacant(_) => {}
        }
    }

    /// Returns the time of last change of a directory before this target made an entry in it.
    pub(crate) fn noted_time(&self, path: &RelativePath) -> Option<Timestamp> {
        self.directories().get(path)?.modified
    }

    /// Opens the entry of this path, even below a directory that waits for its name.
    pub(crate) fn open(&self, path: &[u8], flags: OFlags) -> Result<OwnedFd, Errno> {
        self.beneath.open(&self.located(path), flags)
    }

    pub(crate) fn was_created(&self, path: &[u8]) -> bool {
        let Ok(path) = RelativePath::new(path) else { return false };
        self.directories().get(&path).is_some_and(|record| record.created)
    }

    /// Opens a directory as a parent of entries to be created.
    pub(crate) fn parent(&self, path: &[u8]) -> Result<Parent, Errno> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY;
        let (fd, has_default_acl) = match self.open(path, flags) {
            Ok(fd) => {
                let acl = fgetxattr_query(&fd, "system.posix_acl_default").is_ok();
                (fd, acl)
            }
            // The directory may be searched and not listed: that suffices, except for finding an access control list.
            Err(Errno::ACCESS) => (self.open(path, HANDLE)?, true),
            Err(errno) => return Err(errno),
        };
        if !path.is_empty() {
            self.note_time(path, Metadata::from_stat(&fstat(&fd)?, false).modified);
        }
        let mut parent = Parent::new(Arc::new(fd));
        parent.has_default_acl = has_default_acl;
        parent.is_new = self.options.small_files == SmallFiles::DirectInNew && self.was_created(path);
        Ok(parent)
    }

    /// Returns the permitted bits of the sent mode.
    pub(crate) fn allowed_mode(&self, sent: u32, owner_set: bool) -> u32 {
        sent & self.options.mode_mask & if owner_set { MODE_BITS } else { MODE_BITS & !PRIVILEGE_BITS }
    }

    /// Returns the final mode of an entry.
    pub(crate) fn final_mode(&self, sent: u32, owner_set: bool) -> u32 {
        let mode = self.allowed_mode(sent, owner_set);
        if sent & PRIVILEGE_BITS & !mode != 0 {
            self.dropped_privileges.fetch_add(1, Ordering::Relaxed);
        }
        mode
    }

    /// Returns the mode with which a file is created. It is private as long as owner or attributes are still to be
    /// set.
    pub(crate) fn creation_mode(&self, metadata: &Metadata) -> u32 {
        let owner_follows = self.options.ownership && metadata.owner.is_some();
        let xattrs_follow = self.options.xattrs && !metadata.xattrs.is_empty();
        if owner_follows || xattrs_follow {
            return 0o600;
        }
        metadata.mode & self.options.mode_mask & 0o1777
    }

    /// Sets owner, attributes, mode and times of an open file, in an order in which no step undoes another.
    /// `created_mode` is the mode requested at the creation, if only the umask can have changed it.
    pub(crate) fn apply(
        &self,
        fd: impl AsFd,
        path: &RelativePath,
        metadata: &Metadata,
        created_mode: Option<u32>,
    ) -> Result<()> {
        let fd = fd.as_fd();
        let set = |errno| failed(Operation::SetMetadata, path, errno);
        let owner_set = self.apply_owner(fd, metadata.owner).map_err(set)?;
        if self.options.xattrs && !metadata.xattrs.is_empty() {
            let dropped = xattrs::write(fd, path, &metadata.xattrs)?;
            self.dropped_xattrs.fetch_add(dropped, Ordering::Relaxed);
        }
        let mode = self.final_mode(metadata.mode, owner_set);
        if created_mode.is_none_or(|created| created & !self.umask != mode) {
            fchmod(fd, Mode::from_raw_mode(mode)).map_err(set)?;
        }
        if self.options.times {
            futimens(fd, &times(metadata.modified)).map_err(set)?;
        }
        Ok(())
    }

    /// Returns whether an owner was requested and set.
    pub(crate) fn apply_owner(&self, fd: impl AsFd, owner: Option<Owner>) -> Result<bool, Errno> {
        let Some(owner) = owner else { return Ok(false) };
        let (true, (Some(uid), Some(gid))) = (self.options.ownership, ids(owner)) else {
            self.dropped_owners.fetch_add(1, Ordering::Relaxed);
            return Ok(false);
        };
        match fchown(fd, Some(uid), Some(gid)) {
            Ok(()) => Ok(true),
            Err(Errno::PERM | Errno::INVAL) => {
                self.dropped_owners.fetch_add(1, Ordering::Relaxed);
                Ok(false)
            }
            Err(errno) => Err(errno),
        }
    }

    /// Counts an owner that could not be set.
    pub(crate) fn count_dropped_owner(&self) {
        self.dropped_owners.fetch_add(1, Ordering::Relaxed);
    }

    /// Brings the extended attributes of an open file or directory up to date. Returns whether any differed.
    pub(crate) fn update_xattrs(
        &self,
        fd: impl AsFd,
        path: &RelativePath,
        metadata: &Metadata,
    ) -> Result<bool> {
        let (differs, dropped) = xattrs::update(fd, path, &metadata.xattrs)?;
        self.dropped_xattrs.fetch_add(dropped, Ordering::Relaxed);
        Ok(differs)
    }

    /// Sets the attributes of a directory at once, so that they need not be remembered. Returns whether any differed.
    /// A directory that was there before loses attributes that were not sent.
    pub(crate) fn apply_directory_xattrs(
        &self,
        path: &RelativePath,
        metadata: &Metadata,
        is_new: bool,
    ) -> Result<bool> {
        if !self.options.xattrs || (is_new && metadata.xattrs.is_empty()) {
            return Ok(false);
        }
        let fd = self
            .open(path.as_bytes(), OFlags::RDONLY | OFlags::DIRECTORY)
            .map_err(|errno| resolve_error(Operation::SetMetadata, path, errno))?;
        self.update_xattrs(fd, path, metadata)
    }

    fn remove_empty(&self, path: &RelativePath) -> Result<(), Errno> {
        let (parent, name) = path.split();
        unlinkat(self.parent(parent)?, name, AtFlags::REMOVEDIR)
    }

    fn finish_directory(&self, path: &RelativePath, record: &Record) -> Result<()> {
        let set = |errno| resolve_error(Operation::SetMetadata, path, errno);
        let fd = self.open(path.as_bytes(), OFlags::RDONLY | OFlags::DIRECTORY).map_err(set)?;
        let owner = record.sent.and_then(|(_, _, owner)| owner);
        let owner_set = self.apply_owner(&fd, owner).map_err(set)?;
        let mode = match (record.created || self.options.change_existing_directories, record.sent) {
            (true, Some((mode, _, _))) => Some(self.final_mode(mode, owner_set)),
            // Its own entry has not come. It stays unfinished, and so private, until a later copy sends its metadata.
            (true, None) if record.created => None,
            _ => record.original_mode,
        };
        if let Some(mode) = mode {
            // A directory inherits set-group-id from its parent, and keeps it.
            let inherited = fstat(&fd).map_err(set)?.st_mode & SET_GROUP_ID;
            fchmod(&fd, Mode::from_raw_mode(mode | inherited)).map_err(set)?;
        }
        if let (true, Some((_, modified, _))) = (self.options.times, record.sent) {
            futimens(&fd, &times(modified)).map_err(set)?;
        }
        Ok(())
    }
}

/// Returns the ids of an owner; -1 means "leave it" to the system and is not an id.
pub(crate) fn ids(owner: Owner) -> (Option<Uid>, Option<Gid>) {
    let valid = |id: u32| id != u32::MAX;
    (valid(owner.uid).then(|| Uid::from_raw(owner.uid)), valid(owner.gid).then(|| Gid::from_raw(owner.gid)))
}

/// Returns times that set the last change and leave the last access.
pub(crate) fn times(modified: Timestamp) -> Timestamps {
    Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec { tv_sec: modified.seconds, tv_nsec: i64::from(modified.nanoseconds) },
    }
}

/// Returns the error of an operation on a path that could not be resolved.
pub(crate) fn resolve_error(operation: Operation, path: &RelativePath, errno: Errno) -> Error {
    if is_blocked(errno) { Error::BlockedPath { path: path.into() } } else { failed(operation, path, errno) }
}

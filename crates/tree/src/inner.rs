//! [`Inner`]: the state of a target that its writers share, and the metadata that entries get.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState};
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use rustix::fs::{
    AtFlags, Gid, Mode, OFlags, Timespec, Timestamps, UTIME_OMIT, Uid, fchmod, fchown, fgetxattr_query,
    fstat, futimens, unlinkat,
};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::beneath::{Beneath, HANDLE, Parent};
use crate::error::{Error, Operation, Result, failed, resolve_error, root_failed};
use crate::metadata::{MODE_BITS, Metadata, Owner, Timestamp};
use crate::options::{SmallFiles, TargetOptions};
use crate::path::RelativePath;
use crate::root::TargetRoot;
use crate::temporary::TempName;
use crate::waiting::Successors;
use crate::xattrs::{self, Lost};

/// Set-user-id and set-group-id.
const PRIVILEGE_BITS: u32 = 0o6000;
pub(crate) const SET_GROUP_ID: u32 = 0o2000;
/// Mode of directories until they are finished: only their owner may use them. The sticky bit has no effect in a
/// private directory, so users do not set this mode: a directory that has it was left by an interrupted copy, and is
/// finished as if it had just been made.
pub(crate) const UNFINISHED_DIRECTORY: u32 = 0o1700;
/// Memory per remembered directory, besides its path.
const RECORD_BYTES: u64 = 64;

/// The data remembered about a directory until the end.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Record {
    /// Whether this copy, or an interrupted one, made it.
    pub(crate) created: bool,
    /// Its mode before it was opened up.
    pub(crate) original_mode: Option<u32>,
    /// The sent properties; `None` for parents made on demand.
    pub(crate) sent: Option<(u32, Timestamp, Option<Owner>)>,
    /// Its time of last change before an entry was made in it.
    pub(crate) modified: Option<Timestamp>,
}

impl Record {
    /// Returns whether the directory needs any work at the end.
    pub(crate) fn is_to_be_finished(&self) -> bool {
        self.created || self.original_mode.is_some() || self.sent.is_some()
    }
}

/// Counts of properties that could not be kept; they are not errors.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct Dropped {
    /// Entries whose sent owner the options or the system did not allow.
    pub owners: u64,
    /// Extended attributes that the options or the system did not allow, or on a file system without attributes.
    pub xattrs: u64,
    /// Capabilities that the system did not allow.
    pub capabilities: u64,
    /// Entries that lost set-user-id or set-group-id.
    pub privileges: u64,
}

/// The state of a target.
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
    dropped_capabilities: AtomicU64,
    dropped_privileges: AtomicU64,
    pub(crate) successors: Successors,
}

impl Inner {
    /// Opens the root, which is made if it is missing.
    pub(crate) fn new(root: &TargetRoot, options: TargetOptions) -> Result<Self> {
        let fd = root.open(0o777 & options.mode_mask & !options.default_umask)?;
        let can_link = options.small_files != SmallFiles::Renamed;
        Ok(Self {
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
            dropped_capabilities: AtomicU64::new(0),
            dropped_privileges: AtomicU64::new(0),
            successors: Successors::default(),
        })
    }

    /// Returns the counts of properties that could not be kept so far.
    pub(crate) fn dropped(&self) -> Dropped {
        Dropped {
            owners: self.dropped_owners.load(Ordering::Relaxed),
            xattrs: self.dropped_xattrs.load(Ordering::Relaxed),
            capabilities: self.dropped_capabilities.load(Ordering::Relaxed),
            privileges: self.dropped_privileges.load(Ordering::Relaxed),
        }
    }

    pub(crate) fn root_error(&self, errno: Errno) -> Error {
        root_failed(&self.root, errno)
    }

    pub(crate) fn directories(&self) -> MutexGuard<'_, BTreeMap<RelativePath, Record>> {
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
        let xattrs_follow = self.options.xattrs.any() && !metadata.xattrs.is_empty();
        let xattrs_follow = xattrs_follow || self.options.xattrs.acls;
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
        if self.options.xattrs.acls {
            xattrs::disinherit(fd, path)?;
        }
        if self.options.xattrs.any() && !metadata.xattrs.is_empty() {
            let dropped = xattrs::write(fd, path, &metadata.xattrs, self.options.xattrs)?;
            self.count_lost(dropped);
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

    /// Does the same for a file that was there before, and may have attributes that were not sent.
    pub(crate) fn apply_in_place(
        &self,
        fd: impl AsFd,
        path: &RelativePath,
        metadata: &Metadata,
    ) -> Result<()> {
        let fd = fd.as_fd();
        if self.options.xattrs.any() {
            self.update_xattrs(fd, path, &Metadata { xattrs: Vec::new(), ..metadata.clone() })?;
        }
        self.apply(fd, path, metadata, None)
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

    fn count_lost(&self, lost: Lost) {
        self.dropped_xattrs.fetch_add(lost.xattrs, Ordering::Relaxed);
        self.dropped_capabilities.fetch_add(lost.capabilities, Ordering::Relaxed);
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
        let (differs, dropped) = xattrs::update(fd, path, &metadata.xattrs, self.options.xattrs)?;
        self.count_lost(dropped);
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
        // A new folder inherits lists.
        let inherits = is_new && self.options.xattrs.acls;
        if !self.options.xattrs.any() || (is_new && !inherits && metadata.xattrs.is_empty()) {
            return Ok(false);
        }
        let fd = self
            .open(path.as_bytes(), OFlags::RDONLY | OFlags::DIRECTORY)
            .map_err(|errno| resolve_error(Operation::SetMetadata, path, errno))?;
        self.update_xattrs(fd, path, metadata)
    }

    pub(crate) fn remove_empty(&self, path: &RelativePath) -> Result<(), Errno> {
        let (parent, name) = path.split();
        unlinkat(self.parent(parent)?, name, AtFlags::REMOVEDIR)
    }

    pub(crate) fn finish_directory(&self, path: &RelativePath, record: &Record) -> Result<()> {
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

//! [`Reader`]: opens the files of a source, each with one `openat` and one `fstat`.
//!
//! The result is a regular file under its root, reached through no symbolic link, whatever has been renamed since the
//! walk. Opening does not block on a pipe, and does not change access times if the system allows that.
//!
//! A write sets the time of change before it moves the bytes, and a clock of the file system ticks at least every 10
//! ms. So a file that was changed a moment ago is read only after that moment: a write under way has then ended, and
//! a later one has another time, by which [`OpenFile::unchanged`] notices it.

use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustix::fs::{AtFlags, Mode, OFlags, SeekFrom, Stat, fstat, openat, readlinkat, seek, statat, unlinkat};
use rustix::io::{Errno, pread};

use crate::beneath::{Parent, ParentCache, is_blocked};
use crate::changes::Changes;
use crate::descent::Identity;
use crate::error::{EntryType, Error, Operation, Result, entry_type, failed};
use crate::folders::{c_name, xattr_list, xattrs_at};
use crate::metadata::{LinkTarget, Metadata, Special, Timestamp, Xattr};
use crate::path::{RelativePath, ShownPath};
use crate::source::Source;
use crate::xattrs::{self, Xattrs};

const READ: OFlags = OFlags::RDONLY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::NONBLOCK)
    .union(OFlags::CLOEXEC)
    .union(OFlags::NOCTTY);

/// The kernel has no call for the extended attributes of a name.
static OPENS_FOR_XATTRS: AtomicBool = AtomicBool::new(false);

/// A regular file as it is seen without opening it.
#[derive(Clone, Debug)]
pub struct Looked {
    /// Its metadata, with extended attributes if they were asked for.
    pub metadata: Metadata,
    /// The number of its names.
    pub links: u64,
}

/// Opens entries of a source. Each thread has its own, which keeps parent directories open from one file to the next.
#[derive(Debug)]
pub struct Reader {
    source: Source,
    parents: Vec<ParentCache>,
    /// Whether files are opened without a change of their access time. The system refuses that to users who do not own
    /// the file; after the first refusal files are opened in the usual way.
    leave_access_time: bool,
    with_owner: bool,
    changes: Arc<Changes>,
    /// The room for names of extended attributes, once it is needed.
    xattr_list: Vec<u8>,
}

impl Source {
    /// Returns a reader for one thread.
    pub fn reader(&self) -> Reader {
        Reader::new(self.clone())
    }
}

impl Reader {
    fn new(source: Source) -> Self {
        let parents = source.roots().iter().map(|_| ParentCache::default()).collect();
        Self {
            source,
            parents,
            leave_access_time: true,
            with_owner: false,
            changes: Arc::default(),
            xattr_list: Vec::new(),
        }
    }

    /// Makes files come with their owner from now on.
    #[must_use]
    pub fn with_owner(mut self) -> Self {
        self.with_owner = true;
        self
    }

    /// Makes what is read have these changes from now on.
    #[must_use]
    pub fn changing(self, changes: Arc<Changes>) -> Self {
        Self { changes, ..self }
    }

    /// Returns the user's name of an entry, for messages.
    pub fn show(&self, root: u32, path: &RelativePath) -> ShownPath {
        self.source.show(root, path)
    }

    /// Returns the parent directory of an entry, and the entry's name in it.
    fn locate<'a>(&'a mut self, root: u32, path: &'a RelativePath) -> Result<(&'a Arc<Parent>, &'a [u8])> {
        let found = self.source.root(root)?;
        let outside = || Error::NotUnderRoot { path: path.into() };
        let below = found.strip(path).ok_or_else(outside)?;
        let (parent, name) = match below.iter().rposition(|&byte| byte == b'/') {
            Some(slash) => (&below[..slash], &below[slash + 1..]),
            None if below.is_empty() => (below, b".".as_slice()),
            None => (b"".as_slice(), below),
        };
        let cache = &mut self.parents[root as usize];
        if cache.get(parent).is_none() {
            let fd = if parent.is_empty() {
                Arc::clone(found.beneath.root())
            } else {
                Arc::new(found.beneath.handle(parent).map_err(|errno| open_error(path, errno))?)
            };
            cache.insert(parent, Parent::new(fd));
        }
        let parent = cache.get(parent).ok_or_else(outside)?;
        Ok((parent, name))
    }

    /// Opens the regular file `path` of root number `root`. Any other entry is an [`Error::TypeConflict`].
    ///
    /// Errors name the path on the wire; [`show`](Self::show) converts it to the user's name.
    pub fn open(&mut self, root: u32, path: &RelativePath) -> Result<OpenFile> {
        let (with_owner, leave_access_time) = (self.with_owner, self.leave_access_time);
        let found = self.source.root(root)?;
        let (file, left) = if found.beneath.follows_links() {
            let below = found.strip(path).ok_or_else(|| Error::NotUnderRoot { path: path.into() })?;
            let open = |flags| found.beneath.open(below, flags);
            let stat = || found.beneath.open(below, OFlags::PATH).and_then(fstat);
            OpenFile::open_by(open, stat, path, leave_access_time, with_owner)?
        } else {
            let (parent, name) = self.locate(root, path)?;
            OpenFile::open(&**parent, name, path, leave_access_time, with_owner)?
        };
        self.leave_access_time = left;
        let mut file = file.settled(path)?;
        self.changes.apply(EntryType::File, &mut file.metadata);
        Ok(file)
    }

    /// Looks at the regular file `path` without opening it, unless it has extended attributes that are asked for. Returns
    /// `None` for another entry, and if links are followed.
    pub fn look(&mut self, root: u32, path: &RelativePath, kinds: Xattrs) -> Result<Option<Looked>> {
        if self.source.root(root)?.beneath.follows_links() {
            return Ok(None);
        }
        let (with_owner, changes) = (self.with_owner, Arc::clone(&self.changes));
        let mut list = std::mem::take(&mut self.xattr_list);
        let (parent, name) = self.locate(root, path)?;
        let inspected = |errno| failed(Operation::Inspect, path, errno);
        let stat = statat(&**parent, name, AtFlags::SYMLINK_NOFOLLOW).map_err(inspected)?;
        if entry_type(&stat) != EntryType::File {
            return Ok(None);
        }
        let mut metadata = Metadata::from_stat(&stat, with_owner);
        changes.apply(EntryType::File, &mut metadata);
        if kinds.any() {
            if list.is_empty() {
                list = xattr_list();
            }
            let name = c_name(name).map_err(inspected)?;
            let opens = &OPENS_FOR_XATTRS;
            metadata.xattrs = xattrs_at(parent.as_fd(), &name, path.as_bytes(), &mut list, (opens, kinds))
                .map_err(inspected)?;
            changes.apply_to_acls(&mut metadata.xattrs);
        }
        self.xattr_list = list;
        Ok(Some(Looked { metadata, links: wide(stat.st_nlink) }))
    }

    /// Returns the destination of the symbolic link `path`, and its metadata.
    pub fn read_link(&mut self, root: u32, path: &RelativePath) -> Result<(LinkTarget, Metadata)> {
        let (with_owner, changes) = (self.with_owner, Arc::clone(&self.changes));
        let (parent, name) = self.locate(root, path)?;
        let stat = statat(&**parent, name, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(|errno| failed(Operation::Inspect, path, errno))?;
        let target = match readlinkat(&**parent, name, Vec::new()) {
            Ok(target) => target.into_bytes(),
            Err(Errno::INVAL) => {
                let found = entry_type(&stat);
                return Err(Error::TypeConflict { path: path.into(), wanted: EntryType::Symlink, found });
            }
            Err(errno) => return Err(failed(Operation::Read, path, errno)),
        };
        let target = LinkTarget::new(target).ok_or_else(|| Error::BadLink { path: path.into() })?;
        let mut metadata = Metadata::from_stat(&stat, with_owner);
        changes.apply(EntryType::Symlink, &mut metadata);
        Ok((target, metadata))
    }
}

impl Reader {
    /// Returns which device, pipe or socket `path` is, and its metadata. It is not opened.
    pub fn read_special(&mut self, root: u32, path: &RelativePath) -> Result<(Special, Metadata)> {
        let (with_owner, changes) = (self.with_owner, Arc::clone(&self.changes));
        let inspected = |errno| failed(Operation::Inspect, path, errno);
        let found = self.source.root(root)?;
        let stat = if found.beneath.follows_links() {
            let below = found.strip(path).ok_or_else(|| Error::NotUnderRoot { path: path.into() })?;
            found.beneath.open(below, OFlags::PATH).and_then(fstat).map_err(inspected)?
        } else {
            let (parent, name) = self.locate(root, path)?;
            statat(&**parent, name, AtFlags::SYMLINK_NOFOLLOW).map_err(inspected)?
        };
        let Some(special) = Special::of(&stat) else {
            let found = entry_type(&stat);
            return Err(Error::TypeConflict { path: path.into(), wanted: EntryType::Other, found });
        };
        let mut metadata = Metadata::from_stat(&stat, with_owner);
        changes.apply(EntryType::Other, &mut metadata);
        Ok((special, metadata))
    }

    /// Removes the entry `path`, which is no directory, if `wanted` accepts its present state. Returns whether it was
    /// removed.
    pub fn remove_if(
        &mut self,
        root: u32,
        path: &RelativePath,
        wanted: impl FnOnce(&Metadata) -> bool,
    ) -> Result<bool> {
        let (parent, name) = self.locate(root, path)?;
        let stat = statat(&**parent, name, AtFlags::SYMLINK_NOFOLLOW)
            .map_err(|errno| failed(Operation::Inspect, path, errno))?;
        if entry_type(&stat) == EntryType::Directory || !wanted(&Metadata::from_stat(&stat, false)) {
            return Ok(false);
        }
        unlinkat(&**parent, name, AtFlags::empty())
            .map(|()| true)
            .map_err(|errno| failed(Operation::Remove, path, errno))
    }
}

fn open_error(path: &RelativePath, errno: Errno) -> Error {
    if is_blocked(errno) {
        Error::BlockedPath { path: path.into() }
    } else {
        failed(Operation::Open, path, errno)
    }
}

fn conflict(path: &RelativePath, found: EntryType) -> Error {
    Error::TypeConflict { path: path.into(), wanted: EntryType::File, found }
}

/// Time for which a file is left alone after a change: longer than any tick of a clock, and than a write of a small
/// file.
const SETTLING: Duration = Duration::from_millis(12);
/// Number of times that a file is looked at again if it keeps changing.
const SETTLING_TRIES: usize = 8;

/// Returns the time since `then`, or `None` if `then` is in the future, as after another machine's clock set it.
fn age(then: Timestamp) -> Option<Duration> {
    let since_epoch = Duration::new(u64::try_from(then.seconds).ok()?, then.nanoseconds);
    SystemTime::now().duration_since(UNIX_EPOCH + since_epoch).ok()
}

/// A regular file open for reading, with its metadata at the opening. Reading takes `&self`, from any thread.
#[derive(Debug)]
pub struct OpenFile {
    fd: OwnedFd,
    metadata: Metadata,
    identity: Identity,
    links: u64,
    allocated_bytes: u64,
    changed: Timestamp,
}

impl OpenFile {
    /// Opens the regular file `name` of an open directory; also returns whether leaving its access time alone, if
    /// requested, was allowed.
    pub(crate) fn open(
        parent: impl AsFd,
        name: &[u8],
        path: &RelativePath,
        leave_access_time: bool,
        with_owner: bool,
    ) -> Result<(Self, bool)> {
        let parent = parent.as_fd();
        let open = |flags| openat(parent, name, flags, Mode::empty());
        let stat = || statat(parent, name, AtFlags::SYMLINK_NOFOLLOW);
        Self::open_by(open, stat, path, leave_access_time, with_owner)
    }

    /// Does as [`Self::open`], with the given calls to open and to inspect.
    fn open_by(
        open: impl Fn(OFlags) -> Result<OwnedFd, Errno>,
        stat: impl FnOnce() -> Result<Stat, Errno>,
        path: &RelativePath,
        leave_access_time: bool,
        with_owner: bool,
    ) -> Result<(Self, bool)> {
        let access = if leave_access_time { OFlags::NOATIME } else { OFlags::empty() };
        let (opened, left) = match open(READ | access) {
            Err(Errno::PERM) if leave_access_time => (open(READ), false),
            opened => (opened, leave_access_time),
        };
        let fd = match opened {
            Ok(fd) => fd,
            // The entry is a link, or a socket, which cannot be opened.
            Err(errno @ (Errno::LOOP | Errno::NXIO | Errno::NODEV)) => {
                return Err(match stat().map(|stat| entry_type(&stat)) {
                    Ok(found) if found != EntryType::File => conflict(path, found),
                    _ => failed(Operation::Open, path, errno),
                });
            }
            Err(errno) => return Err(failed(Operation::Open, path, errno)),
        };
        let stat = fstat(&fd).map_err(|errno| failed(Operation::Inspect, path, errno))?;
        match entry_type(&stat) {
            EntryType::File => Ok((Self::new(fd, &stat, with_owner), left)),
            found => Err(conflict(path, found)),
        }
    }

    fn new(fd: OwnedFd, stat: &Stat, with_owner: bool) -> Self {
        Self {
            fd,
            metadata: Metadata::from_stat(stat, with_owner),
            identity: Identity::of(stat),
            links: wide(stat.st_nlink),
            allocated_bytes: u64::try_from(stat.st_blocks).unwrap_or(0).saturating_mul(512),
            changed: changed(stat),
        }
    }

    /// Returns the file once its last change is a moment past. A file that changes all the time is returned as it is.
    fn settled(mut self, path: &RelativePath) -> Result<Self> {
        for _ in 0..SETTLING_TRIES {
            let Some(rest) = age(self.changed).and_then(|age| SETTLING.checked_sub(age)) else { break };
            std::thread::sleep(rest);
            let stat = fstat(&self.fd).map_err(|errno| failed(Operation::Inspect, path, errno))?;
            if changed(&stat) == self.changed {
                break;
            }
            let with_owner = self.metadata.owner.is_some();
            self = Self::new(self.fd, &stat, with_owner);
        }
        Ok(self)
    }

    /// Returns the metadata at the opening, with attributes only after [`Self::read_xattrs`].
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Returns the time of the last change of the file, its attributes included, before it was opened.
    pub fn changed(&self) -> Timestamp {
        self.changed
    }

    /// Returns the file's identity: two names with the same identity are hard links.
    pub fn identity(&self) -> Identity {
        self.identity
    }

    /// Returns the number of the file's names.
    pub fn links(&self) -> u64 {
        self.links
    }

    /// Reads the extended attributes; `path` is for messages.
    pub fn read_xattrs(&self, path: &RelativePath, kinds: Xattrs) -> Result<Vec<Xattr>> {
        xattrs::read(&self.fd, path, kinds)
    }

    /// Fills `buffer` from `offset` on and returns the number of bytes read: fewer than requested only at the end of
    /// the file.
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> std::io::Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match pread(&self.fd, &mut buffer[filled..], offset.saturating_add(filled as u64)) {
                Ok(0) => break,
                Ok(length) => filled += length,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(filled)
    }

    /// Returns false if the file has been written, cut, grown or touched since it was opened. That it has lost a name, to another file
    /// or altogether, changes nothing, although it counts as a change of the file.
    pub fn unchanged(&self) -> bool {
        fstat(&self.fd).is_ok_and(|stat| {
            let now = Metadata::from_stat(&stat, false);
            now.size_bytes == self.metadata.size_bytes
                && now.modified == self.metadata.modified
                && (changed(&stat) == self.changed || wide(stat.st_nlink) < self.links)
        })
    }

    /// Returns the ranges that hold data, in order, up to the size at the opening; holes between them read as zeros.
    pub fn extents(&self) -> Extents<'_> {
        let size_bytes = self.metadata.size_bytes;
        Extents { fd: self.fd.as_fd(), offset: 0, size_bytes, sparse: self.is_sparse() }
    }

    /// Returns the ranges that hold data within a range, as [`Self::extents`] does.
    pub fn extents_within(&self, range: Range<u64>) -> Extents<'_> {
        let size_bytes = self.metadata.size_bytes.min(range.end);
        Extents { fd: self.fd.as_fd(), offset: range.start, size_bytes, sparse: self.is_sparse() }
    }

    /// Returns whether the file takes less space than its size, so that looking for holes is worthwhile.
    pub fn is_sparse(&self) -> bool {
        self.allocated_bytes < self.metadata.size_bytes
    }
}

impl AsFd for OpenFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

/// Returns a count in its widest type, because its width differs between architectures.
fn wide(count: impl Into<u64>) -> u64 {
    count.into()
}

fn changed(stat: &Stat) -> Timestamp {
    Timestamp { seconds: stat.st_ctime, nanoseconds: stat.st_ctime_nsec as u32 }
}

/// Iterates over the data of a file, see [`OpenFile::extents`]. If the file system cannot name the ranges, there is
/// one range.
#[derive(Debug)]
pub struct Extents<'a> {
    fd: BorrowedFd<'a>,
    offset: u64,
    size_bytes: u64,
    sparse: bool,
}

impl<'a> Extents<'a> {
    /// Iterates over any open file; in an unfinished one, the ranges are those written so far.
    pub(crate) fn of(fd: BorrowedFd<'a>, size_bytes: u64) -> Self {
        Self { fd, offset: 0, size_bytes, sparse: true }
    }
}

impl Iterator for Extents<'_> {
    type Item = Range<u64>;

    fn next(&mut self) -> Option<Range<u64>> {
        if self.offset >= self.size_bytes {
            return None;
        }
        let rest = self.offset..self.size_bytes;
        let data = if self.sparse { seek(self.fd, SeekFrom::Data(self.offset)) } else { Ok(self.offset) };
        let start = match data {
            Ok(start) => start,
            // There is no data after this offset.
            Err(Errno::NXIO) => self.size_bytes,
            Err(_) => {
                self.sparse = false;
                rest.start
            }
        };
        let hole = if self.sparse { seek(self.fd, SeekFrom::Hole(start)) } else { Ok(self.size_bytes) };
        let end = hole.unwrap_or(self.size_bytes).min(self.size_bytes);
        self.offset = end.max(start);
        // A file that is changing may shrink between the two calls.
        (start < end).then_some(start..end)
    }
}

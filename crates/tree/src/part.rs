//! [`PartFile`]: a file on its way, written from many threads at once, that gets its name when it is complete.
//!
//! Until then it has a [`TempName`] in its final directory, so that finishing is one atomic rename, and a lock that
//! shows other processes that it is in use. If the file need not be resumable, it has no name at all where the file
//! system allows that, so that a killed process leaves nothing. No byte can be written beyond the size that the file
//! was begun with. A file that several processes write together is described in [`ranges`](crate::ranges).

use std::io::IoSlice;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::fs::{
    AtFlags, FallocateFlags, FlockOperation, Mode, OFlags, Stat, fallocate, flock, fstat, fsync, ftruncate,
    linkat, openat, statat, unlinkat,
};
use rustix::io::{Errno, pread, pwrite, pwritev};

use crate::beneath::Parent;
use crate::descent::Identity;
use crate::error::{EntryType, Error, Operation, Result, entry_type, failed};
use crate::inner::Inner;
use crate::metadata::Metadata;
use crate::options::SmallFiles;
use crate::path::RelativePath;
use crate::place::{rename_over, with_temp_name};
use crate::ranges::Division;
use crate::reader::{Extents, OpenFile};
use crate::temporary::{FileMark, TempName, is_ours};

/// Most buffers that the kernel takes in one call (`UIO_MAXIOV`).
const MAX_BUFFERS: usize = 1024;

/// The part of a file that a [`PartFile`] writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// All of it.
    Whole,
    /// One range; other processes write the others.
    Range(Division, u32),
    /// Nothing: other processes have written all ranges, and the name is missing.
    Name,
}

/// An unfinished file. All methods take `&self`, so threads can share it in an [`Arc`].
#[derive(Debug)]
pub struct PartFile {
    inner: Arc<Inner>,
    parent: Arc<Parent>,
    path: RelativePath,
    /// `None` while it has no name.
    temp: Option<TempName>,
    fd: OwnedFd,
    role: Role,
    size_bytes: u64,
    resumed_bytes: Option<u64>,
    /// Whether it is the existing file itself, which is written over.
    is_in_place: bool,
    /// Whether the file is finished or discarded, or is about to be.
    closed: AtomicBool,
}

impl PartFile {
    pub(crate) fn begin(
        inner: Arc<Inner>,
        parent: Arc<Parent>,
        path: &RelativePath,
        declared_bytes: Option<u64>,
        resume: Option<&TempName>,
    ) -> Result<Self> {
        let create = |temp: &[u8]| {
            let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            openat(&*parent, temp, flags, Mode::from_raw_mode(0o600))
        };
        let created = |errno| failed(Operation::Create, path, errno);
        let (temp, fd, resumed_bytes) = match resume {
            None => match nameless(&inner, &parent, path) {
                Some(fd) => (None, fd, None),
                None => {
                    let (temp, fd) = with_temp_name(&inner, &parent, path, create).map_err(created)?;
                    lock(&fd, path)?;
                    (Some(temp), fd, None)
                }
            },
            Some(temp) => match take_up(&parent, temp, path)? {
                Some((fd, bytes)) => (Some(*temp), fd, Some(bytes)),
                None => {
                    let fd = create(temp.as_bytes()).map_err(created)?;
                    lock(&fd, path)?;
                    (Some(*temp), fd, None)
                }
            },
        };
        let closed = AtomicBool::new(false);
        // A declared size that no file can have must fail below, and must not count as unknown.
        let size_bytes = declared_bytes.unwrap_or(u64::MAX);
        let (path, role) = (path.clone(), Role::Whole);
        let is_in_place = false;
        let part =
            Self { inner, parent, path, temp, fd, role, size_bytes, resumed_bytes, is_in_place, closed };
        if declared_bytes.is_some_and(|size_bytes| part.resumed_bytes.unwrap_or(0) != size_bytes) {
            ftruncate(&part.fd, size_bytes).map_err(|errno| failed(Operation::Resize, &part.path, errno))?;
        }
        Ok(part)
    }

    /// Returns a file that several processes write together.
    pub(crate) fn together(
        inner: Arc<Inner>,
        parent: Arc<Parent>,
        path: &RelativePath,
        temp: &TempName,
        division: Division,
        index: Option<u32>,
    ) -> Result<Self> {
        if index.is_some_and(|index| division.range(index).is_none()) {
            let (size_bytes, path) = (division.size_bytes(), path.into());
            return Err(Error::OutOfRange { path, offset: size_bytes, length_bytes: 0, size_bytes });
        }
        let (fd, role) = match index {
            Some(index) => (division.open(&parent, path, temp)?, Role::Range(division, index)),
            None => (division.gather(&parent, path, temp)?, Role::Name),
        };
        let (size_bytes, closed) = (division.size_bytes(), AtomicBool::new(false));
        let (path, temp) = (path.clone(), Some(*temp));
        let is_in_place = false;
        Ok(Self { inner, parent, path, temp, fd, role, size_bytes, resumed_bytes: None, is_in_place, closed })
    }

    /// Returns the existing file, to be written over; `None` if there is no regular file of this name.
    pub(crate) fn over(
        inner: Arc<Inner>,
        parent: Arc<Parent>,
        path: &RelativePath,
        size_bytes: u64,
    ) -> Result<Option<Self>> {
        let Some((fd, resumed_bytes)) = open_over(&parent, path)? else { return Ok(None) };
        let part = Self {
            inner,
            parent,
            path: path.clone(),
            temp: None,
            fd,
            role: Role::Whole,
            size_bytes,
            resumed_bytes: Some(resumed_bytes),
            is_in_place: true,
            closed: AtomicBool::new(false),
        };
        if resumed_bytes != size_bytes {
            ftruncate(&part.fd, size_bytes).map_err(|errno| failed(Operation::Resize, path, errno))?;
        }
        Ok(Some(part))
    }

    /// Returns whether it is the existing file itself, which is written over.
    pub fn is_in_place(&self) -> bool {
        self.is_in_place
    }

    /// Returns whether another open file is this very file.
    pub fn is_same(&self, other: &OpenFile) -> bool {
        fstat(&self.fd).is_ok_and(|stat| Identity::of(&stat) == other.identity())
    }

    /// Returns the name that the file will get.
    pub fn path(&self) -> &RelativePath {
        &self.path
    }

    /// Returns the temporary name, by which the file can be resumed, or `None` if it cannot.
    pub fn temp_name(&self) -> Option<TempName> {
        self.temp
    }

    /// Returns the final size in bytes, or `u64::MAX` while it is not known.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Returns the size of the unfinished file that was resumed. Its bytes must be verified before they count.
    pub fn resumed_bytes(&self) -> Option<u64> {
        self.resumed_bytes
    }

    /// Returns what tells this file from any other that gets its temporary name.
    ///
    /// # Errors
    /// Fails if the file cannot be inspected.
    pub fn mark(&self) -> Result<FileMark> {
        FileMark::of(&self.fd).map_err(|errno| failed(Operation::Inspect, &self.path, errno))
    }

    /// Writes all of `data` at `offset`.
    pub fn write_at(&self, offset: u64, data: &[u8]) -> Result<()> {
        self.check_range(offset, data.len() as u64)?;
        self.write_rest(offset, data)
    }

    /// Writes all of `buffers`, one after the other, at `offset`.
    pub fn write_vectored_at(&self, offset: u64, buffers: &[IoSlice<'_>]) -> Result<()> {
        let length_bytes = buffers.iter().fold(0, |sum: u64, buffer| sum.saturating_add(buffer.len() as u64));
        self.check_range(offset, length_bytes)?;
        let mut offset = offset;
        for group in buffers.chunks(MAX_BUFFERS) {
            let mut written = loop {
                match pwritev(&self.fd, group, offset) {
                    Err(Errno::INTR) => {}
                    result => break result.map_err(|errno| failed(Operation::Write, &self.path, errno))?,
                }
            };
            // The kernel takes all of it unless the disk is full or a signal came in between.
            for buffer in group {
                let skip = written.min(buffer.len());
                written -= skip;
                if skip < buffer.len() {
                    self.write_rest(offset + skip as u64, &buffer[skip..])?;
                }
                offset += buffer.len() as u64;
            }
        }
        Ok(())
    }

    /// Makes a range read as zeros, without using space if the file system can do that. Only a resumed file needs it:
    /// a new one is zero wherever nothing was written.
    pub fn zero_at(&self, offset: u64, length_bytes: u64) -> Result<()> {
        self.check_range(offset, length_bytes)?;
        if length_bytes == 0 {
            return Ok(());
        }
        let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match fallocate(&self.fd, punch, offset, length_bytes) {
            Ok(()) => return Ok(()),
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {}
            Err(errno) => return Err(failed(Operation::Write, &self.path, errno)),
        }
        let zeros = [0; 64 * 1024];
        let (mut offset, end) = (offset, offset + length_bytes);
        while offset < end {
            let step = (end - offset).min(zeros.len() as u64);
            self.write_rest(offset, &zeros[..step as usize])?;
            offset += step;
        }
        Ok(())
    }

    /// Reads the bytes written so far; returns fewer than requested only at the end of the file.
    pub fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match pread(&self.fd, &mut buffer[filled..], offset.saturating_add(filled as u64)) {
                Ok(0) => break,
                Ok(length) => filled += length,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(failed(Operation::Read, &self.path, errno)),
            }
        }
        Ok(filled)
    }

    /// Returns the ranges that have been written, in order.
    pub fn extents(&self) -> Extents<'_> {
        Extents::of(self.fd.as_fd(), self.size_bytes)
    }

    /// Gives the file its metadata and its name, and replaces the entry that had the name (but never a directory).
    /// With `durable` it returns when content and name are on stable storage.
    ///
    /// The part of a file that other processes write as well gets no name: when this returns, the part is on stable
    /// storage and marked as complete.
    ///
    /// Call it once, when every write has returned. After a failure the file is still unfinished.
    pub fn finish(&self, metadata: &Metadata, durable: bool) -> Result<()> {
        self.close()?;
        let result = match self.role {
            Role::Range(division, index) => division.mark(&self.fd, index, &self.path),
            Role::Name => ftruncate(&self.fd, self.size_bytes)
                .map_err(|errno| failed(Operation::Resize, &self.path, errno))
                .and_then(|()| self.finish_closed(metadata, durable)),
            Role::Whole => self.finish_closed(metadata, durable),
        };
        if result.is_err() {
            self.closed.store(false, Ordering::Release);
        }
        result
    }

    fn finish_closed(&self, metadata: &Metadata, durable: bool) -> Result<()> {
        match self.is_in_place {
            true => self.inner.apply_in_place(&self.fd, &self.path, metadata)?,
            false => self.inner.apply(&self.fd, &self.path, metadata, None)?,
        }
        let sync = |errno| failed(Operation::Sync, &self.path, errno);
        if durable {
            fsync(&self.fd).map_err(sync)?;
        }
        self.take_name()?;
        if durable {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let parent = openat(&*self.parent, ".", flags, Mode::empty()).map_err(sync)?;
            fsync(parent).map_err(sync)?;
        }
        Ok(())
    }

    fn take_name(&self) -> Result<()> {
        if self.is_in_place {
            return Ok(());
        }
        let name = self.path.file_name();
        let temp = match self.temp {
            Some(temp) => temp,
            None => {
                let created = |errno| failed(Operation::Create, &self.path, errno);
                let link = |name: &[u8]| linkat(&self.fd, "", &*self.parent, name, AtFlags::EMPTY_PATH);
                match link(name) {
                    Ok(()) => return Ok(()),
                    // The file takes a temporary name, and is renamed over the entry that has its own name.
                    Err(Errno::EXIST) => {
                        with_temp_name(&self.inner, &self.parent, &self.path, link).map_err(created)?.0
                    }
                    Err(errno) => return Err(created(errno)),
                }
            }
        };
        rename_over(&self.inner, &self.parent, &temp, &self.path, name, EntryType::File)
    }

    /// Removes the unfinished file, unless other processes write it as well.
    pub fn discard(&self) -> Result<()> {
        self.close()?;
        let Some(temp) = self.temp.filter(|_| self.role == Role::Whole) else { return Ok(()) };
        match unlinkat(&*self.parent, temp.as_bytes(), AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(errno) => Err(failed(Operation::Remove, &self.path, errno)),
        }
    }

    fn close(&self) -> Result<()> {
        if self.closed.swap(true, Ordering::AcqRel) {
            return Err(Error::Finished { path: (&self.path).into() });
        }
        Ok(())
    }

    pub(crate) fn check_range(&self, offset: u64, length_bytes: u64) -> Result<()> {
        let bounds = match self.role {
            Role::Whole => 0..self.size_bytes,
            Role::Range(division, index) => division.range(index).unwrap_or_default(),
            Role::Name => 0..0,
        };
        if offset < bounds.start || offset.checked_add(length_bytes).is_none_or(|end| end > bounds.end) {
            let (path, size_bytes) = ((&self.path).into(), self.size_bytes);
            return Err(Error::OutOfRange { path, offset, length_bytes, size_bytes });
        }
        if self.closed.load(Ordering::Acquire) {
            return Err(Error::Finished { path: (&self.path).into() });
        }
        Ok(())
    }

    fn write_rest(&self, mut offset: u64, mut data: &[u8]) -> Result<()> {
        while !data.is_empty() {
            match pwrite(&self.fd, data, offset) {
                Ok(length) => {
                    data = &data[length..];
                    offset += length as u64;
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(failed(Operation::Write, &self.path, errno)),
            }
        }
        Ok(())
    }
}

impl AsFd for PartFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for PartFile {
    fn drop(&mut self) {
        if let (Some(temp), Role::Whole, false, None) =
            (self.temp, self.role, *self.closed.get_mut(), self.inner.options.resumable_as)
        {
            // The failure cannot be reported; a later copy finds the file by `Writer::is_abandoned`.
            let _ = unlinkat(&*self.parent, temp.as_bytes(), AtFlags::empty());
        }
    }
}

/// Opens an existing regular file to write over it, and returns it with its size; `None` for other entries.
pub(crate) fn open_over(parent: &Parent, path: &RelativePath) -> Result<Option<(OwnedFd, u64)>> {
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let name = path.file_name();
    let is_file = |stat: &Stat| entry_type(stat) == EntryType::File;
    // No device is opened, not even for a look.
    match statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) if is_file(&stat) => {}
        Ok(_) | Err(Errno::NOENT) => return Ok(None),
        Err(errno) => return Err(failed(Operation::Inspect, path, errno)),
    }
    let fd =
        openat(parent, name, flags, Mode::empty()).map_err(|errno| failed(Operation::Open, path, errno))?;
    let stat = fstat(&fd).map_err(|errno| failed(Operation::Inspect, path, errno))?;
    match is_file(&stat) {
        true => Ok(Some((fd, u64::try_from(stat.st_size).unwrap_or(0)))),
        false => Err(Error::Changed { path: path.into() }),
    }
}

/// Creates a file without a name, if it need not be resumable and can be linked when it is complete. Kernels before
/// 6.10 allow that only to privileged processes; one try with an empty file finds out.
fn nameless(inner: &Inner, parent: &Parent, path: &RelativePath) -> Option<OwnedFd> {
    if inner.options.resumable_as.is_some() || inner.options.small_files == SmallFiles::Renamed {
        return None;
    }
    let create = || {
        let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
        openat(parent, ".", flags, Mode::from_raw_mode(0o600)).ok()
    };
    let links = inner.links_nameless.get_or_init(|| {
        let Some(probe) = create() else { return false };
        let link = |name: &[u8]| linkat(&probe, "", parent, name, AtFlags::EMPTY_PATH);
        with_temp_name(inner, parent, path, link)
            .is_ok_and(|(temp, ())| unlinkat(parent, temp.as_bytes(), AtFlags::empty()).is_ok())
    });
    if *links { create() } else { None }
}

/// Marks the file as in use, for other processes. File systems without locks go without.
fn lock(fd: &OwnedFd, path: &RelativePath) -> Result<()> {
    match flock(fd, FlockOperation::NonBlockingLockExclusive) {
        Err(Errno::WOULDBLOCK) => Err(Error::Busy { path: path.into() }),
        _ => Ok(()),
    }
}

/// Opens an unfinished file that belongs to us alone, and returns its size. An entry that only looks like one (a
/// link, a file of another user, another name of a file that must not change) is removed.
fn take_up(parent: &Parent, temp: &TempName, path: &RelativePath) -> Result<Option<(OwnedFd, u64)>> {
    let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    match openat(parent, temp.as_bytes(), flags, Mode::empty()) {
        Ok(fd) => {
            lock(&fd, path)?;
            let stat = fstat(&fd).map_err(|errno| failed(Operation::Inspect, path, errno))?;
            if is_ours(&stat) {
                return Ok(Some((fd, u64::try_from(stat.st_size).unwrap_or(0))));
            }
        }
        Err(Errno::NOENT) => return Ok(None),
        Err(_) => {}
    }
    match unlinkat(parent, temp.as_bytes(), AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => Ok(None),
        Err(errno) => Err(failed(Operation::Remove, path, errno)),
    }
}

//! Makes small files.
//!
//! There are three methods, see [`SmallFiles`](crate::SmallFiles); all but `DirectInNew` give the file its bytes and
//! its metadata before its name. Where that is asked for, an existing file is written over instead. No method follows a link: every name is created exclusively, linked or renamed.

use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;

use rustix::fs::{AtFlags, Mode, OFlags, ftruncate, linkat, openat, unlinkat};
use rustix::io::{Errno, write};

use crate::beneath::Parent;
use crate::error::{EntryType, Operation, Result, failed};
use crate::inner::Inner;
use crate::metadata::Metadata;
use crate::part::open_over;
use crate::path::RelativePath;
use crate::place::{rename_over, with_temp_name};
use crate::temporary::TempName;

const CREATE: OFlags = OFlags::WRONLY.union(OFlags::CLOEXEC);
const CREATE_NEW: OFlags = CREATE.union(OFlags::CREATE).union(OFlags::EXCL).union(OFlags::NOFOLLOW);

/// Makes the file `name` in `parent` with the content `data`, by the cheapest method that is allowed here.
pub(crate) fn make(
    inner: &Inner,
    parent: &Parent,
    path: &RelativePath,
    name: &[u8],
    metadata: &Metadata,
    data: &[u8],
) -> Result<()> {
    let file = SmallFile { inner, parent, path, name, metadata, data, mode: inner.creation_mode(metadata) };
    if inner.options.in_place
        && let Some((fd, _)) = open_over(parent, path)?
    {
        return file.over(&fd);
    }
    if parent.is_new
        && let Some(result) = file.direct()
    {
        return result;
    }
    if inner.can_link.load(Ordering::Relaxed) && !parent.is_occupied.load(Ordering::Relaxed) {
        if let Some(result) = file.linked() {
            return result;
        }
        inner.can_link.store(false, Ordering::Relaxed);
    }
    file.renamed()
}

struct SmallFile<'a> {
    inner: &'a Inner,
    parent: &'a Parent,
    path: &'a RelativePath,
    name: &'a [u8],
    metadata: &'a Metadata,
    data: &'a [u8],
    /// Mode to create it with.
    mode: u32,
}

impl SmallFile<'_> {
    /// Makes the file under its own name at once; returns `None` if that is taken.
    fn direct(&self) -> Option<Result<()>> {
        let fd = match openat(self.parent, self.name, CREATE_NEW, Mode::from_raw_mode(self.mode)) {
            Ok(fd) => fd,
            Err(Errno::EXIST) => return None,
            Err(errno) => return Some(Err(failed(Operation::Create, self.path, errno))),
        };
        Some(self.fill(&fd).inspect_err(|_| {
            // The first failure is the one to report.
            let _ = unlinkat(self.parent, self.name, AtFlags::empty());
        }))
    }

    /// Writes over the existing file.
    fn over(&self, fd: &OwnedFd) -> Result<()> {
        self.write(fd)?;
        let length = self.data.len() as u64;
        ftruncate(fd, length).map_err(|errno| failed(Operation::Resize, self.path, errno))?;
        self.inner.apply_in_place(fd, self.path, self.metadata)
    }

    /// Makes the file without a name until it is complete; returns `None` if the file system or the system's rules do
    /// not allow that.
    fn linked(&self) -> Option<Result<()>> {
        let fd = match openat(self.parent, ".", CREATE | OFlags::TMPFILE, Mode::from_raw_mode(self.mode)) {
            Ok(fd) => fd,
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => return None,
            Err(errno) => return Some(Err(failed(Operation::Create, self.path, errno))),
        };
        if let Err(error) = self.fill(&fd) {
            return Some(Err(error));
        }
        let link = |name: &[u8]| linkat(&fd, "", self.parent, name, AtFlags::EMPTY_PATH);
        match link(self.name) {
            Ok(()) => Some(Ok(())),
            // The new file takes a temporary name and is renamed over the entry that has its own.
            Err(Errno::EXIST) => {
                self.parent.is_occupied.store(true, Ordering::Relaxed);
                Some(match with_temp_name(self.inner, self.parent, self.path, link) {
                    Ok((temp, ())) => self.rename(&temp),
                    Err(errno) => Err(failed(Operation::Create, self.path, errno)),
                })
            }
            // Kernels before 6.10 allow only privileged processes to link a descriptor. A removed directory gives the
            // same error; the other method then finds that out.
            Err(Errno::NOENT | Errno::PERM | Errno::ACCESS) => None,
            Err(errno) => Some(Err(failed(Operation::Create, self.path, errno))),
        }
    }

    /// Makes the file under a temporary name until it is complete.
    fn renamed(&self) -> Result<()> {
        let create = |temp: &[u8]| openat(self.parent, temp, CREATE_NEW, Mode::from_raw_mode(self.mode));
        let (temp, fd) = with_temp_name(self.inner, self.parent, self.path, create)
            .map_err(|errno| failed(Operation::Create, self.path, errno))?;
        match self.fill(&fd) {
            Ok(()) => self.rename(&temp),
            Err(error) => {
                let _ = unlinkat(self.parent, temp.as_bytes(), AtFlags::empty());
                Err(error)
            }
        }
    }

    fn rename(&self, temp: &TempName) -> Result<()> {
        rename_over(self.inner, self.parent, temp, self.path, self.name, EntryType::File)
    }

    /// Writes the bytes, then the metadata.
    fn fill(&self, fd: &OwnedFd) -> Result<()> {
        self.write(fd)?;
        let created_mode = (!self.parent.has_default_acl).then_some(self.mode);
        self.inner.apply(fd, self.path, self.metadata, created_mode)
    }

    fn write(&self, fd: &OwnedFd) -> Result<()> {
        let mut data = self.data;
        while !data.is_empty() {
            match write(fd, data) {
                Ok(length) => data = &data[length..],
                Err(Errno::INTR) => {}
                Err(errno) => return Err(failed(Operation::Write, self.path, errno)),
            }
        }
        Ok(())
    }
}

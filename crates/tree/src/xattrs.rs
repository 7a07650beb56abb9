//! Extended attributes that may cross from one machine to another.
//!
//! Only the `user.` namespace travels. `security.` would hand out capabilities and labels, and `trusted.` and
//! `system.` belong to the machine; if a peer sends them anyway, they are counted and dropped.

use std::os::fd::AsFd;

use rustix::fs::{XattrFlags, fgetxattr, flistxattr, flistxattr_query, fremovexattr, fsetxattr};
use rustix::io::Errno;

use crate::error::{Error, Operation, Result, failed};
use crate::metadata::{MAX_XATTR_NAME_BYTES, MAX_XATTR_VALUE_BYTES, MAX_XATTRS, Xattr};
use crate::path::RelativePath;

/// The kernel's own bound on a list of names (`XATTR_LIST_MAX`).
const MAX_LIST_BYTES: usize = 64 * 1024;

pub(crate) fn may_travel(name: &[u8]) -> bool {
    name.starts_with(b"user.") && name.len() <= MAX_XATTR_NAME_BYTES
}

/// Returns the attributes of an open file or directory. On a file system without attributes there are none.
pub(crate) fn read(fd: impl AsFd, path: &RelativePath) -> Result<Vec<Xattr>> {
    let fd = fd.as_fd();
    let inspect = |errno| failed(Operation::Inspect, path, errno);
    match flistxattr_query(fd) {
        Ok(0) | Err(Errno::OPNOTSUPP) => return Ok(Vec::new()),
        Ok(_) => {}
        Err(errno) => return Err(inspect(errno)),
    }
    let mut list = vec![0; MAX_LIST_BYTES];
    let listed = flistxattr(fd, list.as_mut_slice()).map_err(inspect)?;
    let mut xattrs = Vec::new();
    for name in list[..listed].split(|&byte| byte == 0).filter(|name| may_travel(name)) {
        if xattrs.len() == MAX_XATTRS {
            return Err(Error::TooManyXattrs { path: path.into() });
        }
        let mut value = vec![0; MAX_XATTR_VALUE_BYTES];
        match fgetxattr(fd, name, value.as_mut_slice()) {
            Ok(length) => value.truncate(length),
            // Removed since it was listed.
            Err(Errno::NODATA) => continue,
            Err(Errno::RANGE) => return Err(Error::TooManyXattrs { path: path.into() }),
            Err(errno) => return Err(inspect(errno)),
        }
        value.shrink_to_fit();
        xattrs.push(Xattr { name: name.to_vec(), value });
    }
    Ok(xattrs)
}

/// Makes the attributes equal to those sent: sets those that differ, and removes the others. Returns whether any
/// differed, and the number dropped as by [`write`].
pub(crate) fn update(fd: impl AsFd, path: &RelativePath, xattrs: &[Xattr]) -> Result<(bool, u64)> {
    let fd = fd.as_fd();
    let there = match read(fd, path) {
        Ok(there) => there,
        // The target has more attributes than were sent.
        Err(Error::TooManyXattrs { .. }) => Vec::new(),
        Err(error) => return Err(error),
    };
    let mut differs = false;
    for extra in there.iter().filter(|found| xattrs.iter().all(|sent| sent.name != found.name)) {
        match fremovexattr(fd, extra.name.as_slice()) {
            Ok(()) => differs = true,
            Err(Errno::NODATA | Errno::PERM) => {}
            Err(errno) => return Err(failed(Operation::SetMetadata, path, errno)),
        }
    }
    let mut dropped = 0;
    for sent in xattrs.iter().filter(|sent| !there.contains(sent)) {
        let lost = write(fd, path, std::slice::from_ref(sent))?;
        dropped += lost;
        differs |= lost == 0;
    }
    Ok((differs, dropped))
}

/// Sets the permitted attributes and returns the number of dropped ones: those of other namespaces, or all if the
/// file system has no attributes.
pub(crate) fn write(fd: impl AsFd, path: &RelativePath, xattrs: &[Xattr]) -> Result<u64> {
    let mut dropped = 0;
    for xattr in xattrs {
        if !may_travel(&xattr.name) {
            dropped += 1;
            continue;
        }
        match fsetxattr(fd.as_fd(), xattr.name.as_slice(), &xattr.value, XattrFlags::empty()) {
            Ok(()) => {}
            Err(Errno::OPNOTSUPP | Errno::PERM) => dropped += 1,
            Err(errno) => return Err(failed(Operation::SetMetadata, path, errno)),
        }
    }
    Ok(dropped)
}

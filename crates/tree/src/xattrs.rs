//! Extended attributes that may cross from one machine to another.
//!
//! Those of the `user.` namespace travel, POSIX access control lists, and those of `security.` and `trusted.`, which hand out
//! capabilities and labels: each if they are asked for. The rest of `system.` belongs to the machine. Whatever a peer sends
//! beyond what was asked for is counted and dropped. The kernel checks what a list or a capability says before it takes it.

use std::os::fd::AsFd;

use rustix::fs::{XattrFlags, fgetxattr, flistxattr, flistxattr_query, fremovexattr, fsetxattr};
use rustix::io::Errno;

use crate::error::{Error, Operation, Result, failed};
use crate::metadata::{MAX_XATTR_NAME_BYTES, MAX_XATTR_VALUE_BYTES, MAX_XATTRS, Xattr};
use crate::path::RelativePath;

/// The kernel's own bound on a list of names (`XATTR_LIST_MAX`).
const MAX_LIST_BYTES: usize = 64 * 1024;

/// The access control list of an entry.
const ACCESS: &[u8] = b"system.posix_acl_access";
/// The access control list that entries made in a folder get.
const DEFAULT: &[u8] = b"system.posix_acl_default";

/// The capabilities that a program gets.
const CAPABILITY: &[u8] = b"security.capability";

/// Returns whether an attribute is an access control list.
pub(crate) fn is_acl(name: &[u8]) -> bool {
    name == ACCESS || name == DEFAULT
}

/// The extended attributes that are read, compared and set.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Xattrs {
    /// Those of the `user.` namespace.
    pub user: bool,
    /// POSIX access control lists.
    pub acls: bool,
    /// Those of the namespaces `security.`, capabilities among them, and `trusted.`, which only root sets.
    pub privileged: bool,
}

impl Xattrs {
    /// Those of the `user.` namespace alone.
    pub const USER: Self = Self { user: true, acls: false, privileged: false };

    /// Returns whether there are any.
    #[must_use]
    pub fn any(self) -> bool {
        self.user || self.acls || self.privileged
    }

    /// Returns whether an attribute of this name is one of them.
    pub(crate) fn include(self, name: &[u8]) -> bool {
        let is_privileged = || name.starts_with(b"security.") || name.starts_with(b"trusted.");
        let is_one = (self.user && name.starts_with(b"user."))
            || (self.acls && is_acl(name))
            || (self.privileged && is_privileged());
        is_one && name.len() <= MAX_XATTR_NAME_BYTES
    }
}

/// Returns the attributes of an open file or directory. On a file system without attributes there are none.
pub(crate) fn read(fd: impl AsFd, path: &RelativePath, kinds: Xattrs) -> Result<Vec<Xattr>> {
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
    for name in list[..listed].split(|&byte| byte == 0).filter(|name| kinds.include(name)) {
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

/// The numbers of attributes that were dropped.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Lost {
    /// Those of other namespaces, or all if the file system has none.
    pub(crate) xattrs: u64,
    /// Capabilities among those of namespaces that are set.
    pub(crate) capabilities: u64,
}

/// Makes the attributes equal to those sent: sets those that differ, and removes the others. Returns whether any
/// differed, and the numbers dropped as by [`write`].
pub(crate) fn update(
    fd: impl AsFd,
    path: &RelativePath,
    xattrs: &[Xattr],
    kinds: Xattrs,
) -> Result<(bool, Lost)> {
    let fd = fd.as_fd();
    let there = match read(fd, path, kinds) {
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
    let mut dropped = Lost::default();
    for sent in xattrs.iter().filter(|sent| !there.contains(sent)) {
        let lost = write(fd, path, std::slice::from_ref(sent), kinds)?;
        dropped.xattrs += lost.xattrs;
        dropped.capabilities += lost.capabilities;
        differs |= lost == Lost::default();
    }
    Ok((differs, dropped))
}

/// Sets the permitted attributes and returns the numbers of dropped ones.
pub(crate) fn write(fd: impl AsFd, path: &RelativePath, xattrs: &[Xattr], kinds: Xattrs) -> Result<Lost> {
    let mut dropped = Lost::default();
    for xattr in xattrs {
        if !kinds.include(&xattr.name) {
            dropped.xattrs += 1;
            continue;
        }
        let lost = match xattr.name == CAPABILITY {
            true => &mut dropped.capabilities,
            false => &mut dropped.xattrs,
        };
        match fsetxattr(fd.as_fd(), xattr.name.as_slice(), &xattr.value, XattrFlags::empty()) {
            Ok(()) => {}
            Err(Errno::OPNOTSUPP | Errno::PERM) => *lost += 1,
            // A list or a capability that makes no sense is refused as invalid, and so are labels that this system does not know.
            Err(Errno::INVAL) if !xattr.name.starts_with(b"user.") => *lost += 1,
            Err(errno) => return Err(failed(Operation::SetMetadata, path, errno)),
        }
    }
    Ok(dropped)
}

/// Removes the access control list that a new file has inherited from its folder.
pub(crate) fn disinherit(fd: impl AsFd, path: &RelativePath) -> Result<()> {
    match fremovexattr(fd, ACCESS) {
        Ok(()) | Err(Errno::NODATA | Errno::OPNOTSUPP) => Ok(()),
        Err(errno) => Err(failed(Operation::SetMetadata, path, errno)),
    }
}

//! Compares an entry to be made with the one in the target: [`Writer::compare`], and updates files whose content is
//! right already.
//!
//! Guarantees: the answer is the same whether the entry is made afterwards or not, because a dry run, the list of
//! changes and the writer compare by the same code.

use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, Stat, chmodat, fchmod, fstat, futimens, openat, statat};
use rustix::io::Errno;

use crate::beneath::is_blocked;
use crate::descent::Identity;
use crate::differences::{Differences, leads_to};
use crate::error::{EntryType, Error, Operation, Result, entry_type, failed, resolve_error};
use crate::inner::times;
use crate::metadata::{Kind, MODE_BITS, Metadata, Special};
use crate::path::RelativePath;
use crate::temporary::TempName;
use crate::writer::Writer;
use crate::xattrs::{self, Xattrs};

impl Writer {
    /// Returns the changes that making this entry would cause, and makes nothing. The extended attributes of a file
    /// whose content is sent are not compared.
    ///
    /// # Errors
    /// Fails as making the entry would: if an entry of another kind has the name and does not give way.
    pub fn compare(&mut self, path: &RelativePath, kind: &Kind, sent: &Metadata) -> Result<Differences> {
        if TempName::matches(path.file_name()) {
            return Err(Error::ReservedName { path: path.into() });
        }
        let may_replace = self.inner().options.replaces_other_kinds;
        let (parent, name) = path.split();
        let inspected = |errno| resolve_error(Operation::Inspect, path, errno);
        let parent = match self.existing_parent(parent) {
            Ok(parent) => parent,
            Err(Errno::NOENT) => return Ok(Differences::NEW),
            Err(errno) if may_replace && is_blocked(errno) => return Ok(Differences::NEW),
            Err(errno) => return Err(inspected(errno)),
        };
        let stat = match statat(&*parent, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => stat,
            Err(Errno::NOENT) => return Ok(Differences::NEW),
            Err(errno) => return Err(inspected(errno)),
        };
        let found = entry_type(&stat);
        let wanted = match kind {
            Kind::File | Kind::Attributes | Kind::HardLink { .. } => EntryType::File,
            Kind::Directory => EntryType::Directory,
            Kind::Symlink { .. } => EntryType::Symlink,
            Kind::Special(_) => EntryType::Other,
        };
        if found != wanted {
            // Files and links replace each other, and the name always stands for one of them; special files replace both.
            let is_like = |kind| matches!(kind, EntryType::File | EntryType::Symlink);
            let gives_way = !(is_like(found) && (is_like(wanted) || wanted == EntryType::Other));
            if may_replace || !gives_way {
                return Ok(Differences { gives_way, ..Differences::NEW });
            }
            return Err(Error::TypeConflict { path: path.into(), wanted, found });
        }
        let attributes = self.inner().differences(path, &stat, sent);
        Ok(match kind {
            Kind::File => attributes,
            Kind::Attributes | Kind::Directory => {
                let kinds = self.inner().options.xattrs;
                let xattrs = kinds.any() && xattrs_differ(&*parent, path, sent, kinds);
                Differences { xattrs, ..attributes }
            }
            Kind::Symlink { target } => {
                Differences { target: !leads_to(&*parent, name, target), ..attributes }
            }
            Kind::Special(special) => {
                Differences { target: Special::of(&stat) != Some(*special), ..attributes }
            }
            Kind::HardLink { to } => {
                let found = self.existing(to).ok().flatten();
                let is_same = found.is_some_and(|found| found.identity == Identity::of(&stat));
                Differences { target: !is_same, ..Differences::default() }
            }
        })
    }

    /// Brings mode, owner, times and extended attributes of a regular file with the right content up to date, and
    /// returns those that differed.
    ///
    /// # Errors
    /// Fails if there is no regular file of that size, because another process has changed it meanwhile.
    pub fn attributes(&mut self, path: &RelativePath, sent: &Metadata) -> Result<Differences> {
        let (parent, name) = path.split();
        let inspected = |errno| resolve_error(Operation::Inspect, path, errno);
        let parent = self.existing_parent(parent).map_err(inspected)?;
        let stat = statat(&*parent, name, AtFlags::SYMLINK_NOFOLLOW).map_err(inspected)?;
        let is_it = |stat: &Stat| {
            entry_type(stat) == EntryType::File
                && Metadata::from_stat(stat, false).size_bytes == sent.size_bytes
        };
        if !is_it(&stat) {
            return Err(Error::Changed { path: path.into() });
        }
        let inner = self.inner();
        let mut differences = inner.differences(path, &stat, sent);
        if !differences.any() && !inner.options.xattrs.any() {
            return Ok(differences);
        }
        let set = |errno| failed(Operation::SetMetadata, path, errno);
        let fd = open_own(&*parent, name).map_err(set)?;
        let opened = fstat(&fd).map_err(set)?;
        if !is_it(&opened) || Identity::of(&opened) != Identity::of(&stat) {
            return Err(Error::Changed { path: path.into() });
        }
        let owner_differs = differences.owner || differences.group;
        let mut owner_set = inner.options.ownership && sent.owner.is_some();
        if owner_differs {
            owner_set = inner.apply_owner(&fd, sent.owner).map_err(set)?;
        }
        // A change of the owner clears capabilities.
        if inner.options.xattrs.any() {
            differences.xattrs = inner.update_xattrs(&fd, path, sent)?;
        }
        // It clears the set-id bits too.
        if differences.mode || owner_differs {
            let mode = inner.final_mode(sent.mode, owner_set);
            fchmod(&fd, Mode::from_raw_mode(mode)).map_err(set)?;
        }
        if differences.time {
            futimens(&fd, &times(sent.modified)).map_err(set)?;
        }
        Ok(differences)
    }
}

/// Returns whether the extended attributes of the entry `path` differ from the sent ones. Attributes that cannot be
/// read count as equal.
pub(crate) fn xattrs_differ(parent: impl AsFd, path: &RelativePath, sent: &Metadata, kinds: Xattrs) -> bool {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let opened = openat(parent, path.file_name(), flags, Mode::empty());
    let found = opened.ok().and_then(|fd| xattrs::read(&fd, path, kinds).ok());
    found.is_some_and(|found| {
        let sent: Vec<_> = sent.xattrs.iter().filter(|xattr| kinds.include(&xattr.name)).collect();
        found.len() != sent.len() || !found.iter().all(|xattr| sent.contains(&xattr))
    })
}

/// Opens a file to change its attributes. Its owner may do that even if its mode allows nobody to read it.
fn open_own(parent: impl AsFd, name: &[u8]) -> Result<OwnedFd, Errno> {
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let fd = match openat(&parent, name, flags | OFlags::RDONLY, Mode::empty()) {
        Err(Errno::ACCESS) => {
            openat(&parent, name, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?
        }
        opened => return opened,
    };
    // The kernel's own name of the descriptor leads to this very file.
    let itself = format!("/proc/self/fd/{}", fd.as_raw_fd());
    let mode = fstat(&fd)?.st_mode & MODE_BITS;
    chmodat(CWD, itself.as_str(), Mode::from_raw_mode(mode | 0o400), AtFlags::empty())?;
    let flags = flags.difference(OFlags::NOFOLLOW);
    openat(CWD, itself.as_str(), flags | OFlags::RDONLY, Mode::empty())
}

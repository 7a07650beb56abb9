//! Folders of earlier copies, of which files are taken that are as they were sent: [`Writer::from_basis`].
//!
//! Guarantees: below a basis no symbolic link is followed, and nothing in it is changed; a file is linked only if size, time
//! and everything else that is kept are as they were sent, otherwise its content is copied if size and time are; a file that
//! changes meanwhile is not taken.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use rustix::fs::{AtFlags, linkat, statat};
use rustix::io::Errno;

use crate::bases::{Basis, BasisUse, LastFolder};
use crate::compare::xattrs_differ;
use crate::descent::Identity;
use crate::differences::{Differences, leads_to};
use crate::error::{EntryType, Error, Operation, Result, entry_type, failed};
use crate::folders::Folders;
use crate::inner::Inner;
use crate::metadata::{LinkTarget, Metadata};
use crate::path::RelativePath;
use crate::place::{rename_over, with_temp_name};
use crate::reader::OpenFile;
use crate::writer::Writer;

/// Files up to this length are read whole.
const SMALL_BYTES: u64 = 64 * 1024;
/// The bytes of a larger file that are copied at once.
const PIECE_BYTES: usize = 1 << 20;

impl Basis {
    /// Returns the search for the folders of the basis; their paths are those of the target.
    pub fn folders(&self) -> Folders {
        Folders::of_basis(&self.beneath, self.within.as_ref())
    }
}

impl Writer {
    /// Puts a file in place that a basis has with this size and time, and returns the differences from the entry that had
    /// its name: none if the file need not be in the target.
    ///
    /// # Errors
    /// Fails also if no basis has it, because it was changed since it was looked at.
    pub fn from_basis(&mut self, path: &RelativePath, sent: &Metadata) -> Result<Differences> {
        let mut alike = None;
        for (index, basis) in self.bases().iter().enumerate() {
            let Some((folder, name)) = self.basis_folder(index, basis, path) else { continue };
            let Ok(stat) = statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW) else { continue };
            let found = Metadata::from_stat(&stat, true);
            let is_alike = entry_type(&stat) == EntryType::File
                && found.size_bytes == sent.size_bytes
                && found.modified == sent.modified;
            if !is_alike {
                continue;
            }
            let inner = self.inner();
            let differs = inner.differences(path, &stat, sent).any()
                || (inner.options.xattrs.any() && xattrs_differ(&folder, path, sent, inner.options.xattrs));
            if !differs {
                match inner.options.basis_use {
                    BasisUse::Compare => return Ok(Differences::default()),
                    BasisUse::Link => {
                        if self.link_basis(&folder, name, path)? {
                            return Ok(Differences::NEW);
                        }
                    }
                    BasisUse::Copy => {}
                }
            }
            alike.get_or_insert_with(|| (folder, name.to_vec()));
            if !differs {
                break;
            }
        }
        let (folder, name) = alike.ok_or_else(|| Error::Changed { path: path.into() })?;
        self.copy_basis(&folder, &name, path, sent)
    }

    /// Opens the file of this path that the first basis has which has one; `None` if none has.
    pub fn read_basis(&mut self, path: &RelativePath) -> Option<OpenFile> {
        let bases = self.bases();
        bases.iter().enumerate().find_map(|(index, basis)| {
            let (folder, name) = self.basis_folder(index, basis, path)?;
            OpenFile::open(&folder, name, path, true, true).ok().map(|(file, _)| file)
        })
    }

    /// Returns whether a symbolic link need not be in the target, because a basis has it as it was sent.
    pub fn leaves_out_link(&mut self, path: &RelativePath, target: &LinkTarget, sent: &Metadata) -> bool {
        if self.inner().options.basis_use != BasisUse::Compare {
            return false;
        }
        self.bases().iter().enumerate().any(|(index, basis)| {
            let Some((folder, name)) = self.basis_folder(index, basis, path) else { return false };
            let found = statat(&folder, name, AtFlags::SYMLINK_NOFOLLOW);
            found.is_ok_and(|stat| {
                entry_type(&stat) == EntryType::Symlink
                    && !self.inner().differences(path, &stat, sent).any()
                    && leads_to(&folder, name, target)
            })
        })
    }

    /// Returns the folder of a basis in which it may have an entry of this path, and the entry's name.
    fn basis_folder<'a>(
        &mut self,
        index: usize,
        basis: &Basis,
        path: &'a RelativePath,
    ) -> Option<(Arc<OwnedFd>, &'a [u8])> {
        let below = basis.strip(path)?;
        let (path, name) = match below.iter().rposition(|&byte| byte == b'/') {
            Some(slash) => (&below[..slash], &below[slash + 1..]),
            None => (b"".as_slice(), below),
        };
        let folders = self.basis_folders();
        if folders.len() <= index {
            folders.resize_with(index + 1, LastFolder::default);
        }
        let last = &mut folders[index];
        if last.folder.is_none() || last.path != path {
            last.folder = basis.beneath.handle(path).ok().map(Arc::new);
            last.path = path.to_vec();
        }
        last.folder.clone().map(|folder| (folder, name))
    }

    /// Gives a file of a basis another name. Returns false if the system does not allow that: it is on another file
    /// system, has too many names, or belongs to somebody else.
    fn link_basis(&mut self, folder: &OwnedFd, from: &[u8], path: &RelativePath) -> Result<bool> {
        let refused = |errno| matches!(errno, Errno::XDEV | Errno::MLINK | Errno::PERM | Errno::OPNOTSUPP);
        let from_stat = statat(folder, from, AtFlags::SYMLINK_NOFOLLOW);
        let identity = from_stat.map(|stat| Identity::of(&stat)).ok();
        self.in_parent(path, |inner: &Inner, parent, name| {
            let link = |to: &[u8]| linkat(folder, from, parent, to, AtFlags::empty());
            match link(name) {
                Ok(()) => return Ok(true),
                // Renaming one name of a file to another name of the same file would leave both.
                Err(Errno::EXIST)
                    if statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)
                        .is_ok_and(|stat| Some(Identity::of(&stat)) == identity) =>
                {
                    return Ok(true);
                }
                Err(Errno::EXIST) => {}
                Err(errno) if refused(errno) => return Ok(false),
                Err(errno) => return Err(failed(Operation::Create, path, errno)),
            }
            let (temp, ()) = match with_temp_name(inner, parent, path, link) {
                Ok(linked) => linked,
                Err(errno) if refused(errno) => return Ok(false),
                Err(errno) => return Err(failed(Operation::Create, path, errno)),
            };
            rename_over(inner, parent, &temp, path, name, EntryType::File).map(|()| true)
        })
    }

    /// Copies a file of a basis.
    fn copy_basis(
        &mut self,
        folder: &OwnedFd,
        from: &[u8],
        path: &RelativePath,
        sent: &Metadata,
    ) -> Result<Differences> {
        let (file, _) = OpenFile::open(folder.as_fd(), from, path, true, false)?;
        let changed = || Error::Changed { path: path.into() };
        let size = sent.size_bytes;
        if file.metadata().size_bytes != size || file.metadata().modified != sent.modified {
            return Err(changed());
        }
        let read = |at: u64, piece: &mut [u8]| match file.read_at(at, piece) {
            Ok(length) if length == piece.len() => Ok(()),
            _ => Err(changed()),
        };
        if size <= SMALL_BYTES {
            let mut content = vec![0; size as usize];
            read(0, &mut content)?;
            if !file.unchanged() {
                return Err(changed());
            }
            self.small_file(path, sent, &content)?;
            return Ok(Differences::NEW);
        }
        let part = self.begin_file(path, sent, None)?;
        let copy = || {
            let mut piece = vec![0; PIECE_BYTES];
            for data in file.extents() {
                let mut at = data.start;
                while at < data.end {
                    let length = (data.end - at).min(PIECE_BYTES as u64) as usize;
                    read(at, &mut piece[..length])?;
                    part.write_at(at, &piece[..length])?;
                    at += length as u64;
                }
            }
            if file.unchanged() { Ok(()) } else { Err(changed()) }
        };
        if let Err(error) = copy() {
            // The reason for it is the one to report.
            let _ = part.discard();
            return Err(error);
        }
        part.finish(sent, false)?;
        Ok(Differences::NEW)
    }
}

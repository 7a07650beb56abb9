//! The entries that a target has already, by [`Target::files`], and whether a writer still holds one of them.

use std::os::fd::AsFd;
use std::sync::Arc;

use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags, Stat, flock, openat, statat};
use rustix::io::Errno;

use crate::beneath::Beneath;
use crate::descent::{Descent, DescentOptions, Found};
use crate::error::{Error, Operation, Result, failed, resolve_error};
use crate::metadata::Metadata;
use crate::path::{MAX_PATH_BYTES, RelativePath};
use crate::target::Target;
use crate::temporary::TempName;

/// A regular file of a target.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ExistingFile {
    /// Its name.
    pub path: RelativePath,
    /// Its mode, times, size and owner, without attributes.
    pub metadata: Metadata,
}

/// Iterates over the regular files of a target, in bounded memory, in the order of the file system. Failures are
/// yielded as errors and the survey goes on; unfinished files are passed over.
#[derive(Debug)]
pub struct Files {
    beneath: Beneath,
    /// The path below the target at which the survey began.
    above: Option<RelativePath>,
    descent: Descent,
}

impl Target {
    /// Returns an iterator over all regular files, with size and time of last change, at one `stat` per file.
    pub fn files(&self) -> Result<Files> {
        let beneath = Beneath::new(Arc::clone(self.inner.beneath.root()), self.inner.options.resolution);
        Ok(Files { beneath, above: None, descent: self.descend(true)? })
    }

    /// Returns an iterator over all regular files below the directory `path` of this target.
    pub fn files_below(&self, path: &RelativePath) -> Result<Files> {
        let open = |errno| resolve_error(Operation::List, path, errno);
        let handle = self.inner.beneath.handle(path.as_bytes()).map_err(open)?;
        let beneath = Beneath::new(handle, self.inner.options.resolution);
        let options = DescentOptions { one_file_system: false, inspect_files: true, follow: false };
        let length_max = MAX_PATH_BYTES.saturating_sub(path.as_bytes().len() + 1);
        let (descent, _) = Descent::new(&beneath, options, length_max).map_err(open)?;
        Ok(Files { beneath, above: Some(path.clone()), descent })
    }

    /// Returns the names in the target's root directory that are `wanted` and not those of unfinished files.
    pub fn names(&self, wanted: impl Fn(&[u8]) -> bool) -> Result<Vec<RelativePath>> {
        let mut names = Vec::new();
        let mut descent = self.descend(false)?;
        // The filter accepts no name, so the descent enters no directory.
        let found = descent.next(&self.inner.beneath, |name, _| {
            if wanted(name) && !TempName::matches(name) {
                names.extend(RelativePath::new(name));
            }
            false
        });
        match found {
            Some(Found::Failed(errno)) => Err(self.inner.root_error(errno)),
            _ => Ok(names),
        }
    }

    fn descend(&self, inspect_files: bool) -> Result<Descent> {
        let options = DescentOptions { one_file_system: false, inspect_files, follow: false };
        let started = Descent::new(&self.inner.beneath, options, MAX_PATH_BYTES);
        started.map(|(descent, _)| descent).map_err(|errno| self.inner.root_error(errno))
    }
}

/// Returns whether a writer holds an unfinished file by its lock. A link, or an entry that cannot be opened, has no
/// writer and no lock; nor has a device, which is not opened.
pub(crate) fn is_written(parent: &impl AsFd, name: &[u8]) -> bool {
    let is_file = |stat: Stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    if !statat(parent, name, AtFlags::SYMLINK_NOFOLLOW).is_ok_and(is_file) {
        return false;
    }
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = openat(parent, name, flags, Mode::empty());
    file.is_ok_and(|file| flock(file, FlockOperation::NonBlockingLockExclusive) == Err(Errno::WOULDBLOCK))
}

impl Iterator for Files {
    type Item = Result<ExistingFile>;

    fn next(&mut self) -> Option<Result<ExistingFile>> {
        loop {
            let found = self.descent.next(&self.beneath, |path, is_directory| {
                is_directory || !TempName::matches(path.rsplit(|&byte| byte == b'/').next().unwrap_or(path))
            })?;
            let below = self.descent.path();
            let path = match &self.above {
                Some(above) if below.is_empty() => Ok(above.clone()),
                Some(above) => above.child(below),
                None => RelativePath::new(below),
            };
            let path = match path {
                Ok(path) => path,
                Err(error) => return Some(Err(error.into())),
            };
            match found {
                Found::File(Some(stat)) => {
                    return Some(Ok(ExistingFile { path, metadata: Metadata::from_stat(&stat, true) }));
                }
                Found::Failed(errno) | Found::Unreachable(errno) => {
                    return Some(Err(failed(Operation::List, &path, errno)));
                }
                Found::TooLong => return Some(Err(Error::NameTooLong { path: path.into() })),
                Found::File(None) | Found::Directory(_) | Found::Symlink | Found::Other => {}
            }
        }
    }
}

//! [`Error`]: what went wrong, doing what, to which path.

use std::fmt;
use std::io;
use std::path::Path;

use rustix::fs::{FileType, Stat};
use rustix::io::Errno;
use thiserror::Error;

use crate::beneath::is_blocked;
use crate::path::{PathError, RelativePath, ShownPath};
use crate::patterns::PatternError;

/// The operation that failed.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
#[non_exhaustive]
pub enum Operation {
    /// Opening a file or directory.
    Open,
    /// Listing a directory.
    List,
    /// Following a symbolic link.
    Follow,
    /// Reading metadata.
    Inspect,
    /// Reading bytes.
    Read,
    /// Creating a file, directory or link.
    Create,
    /// Writing bytes.
    Write,
    /// Setting the size.
    Resize,
    /// Setting mode, owner, times or attributes.
    SetMetadata,
    /// Moving a finished file to its name.
    Rename,
    /// Removing a file.
    Remove,
    /// Waiting until bytes are on stable storage.
    Sync,
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Open => "open",
            Self::List => "list",
            Self::Follow => "follow the link",
            Self::Inspect => "inspect",
            Self::Read => "read",
            Self::Create => "create",
            Self::Write => "write",
            Self::Resize => "resize",
            Self::SetMetadata => "set the metadata of",
            Self::Rename => "rename into",
            Self::Remove => "remove",
            Self::Sync => "sync",
        })
    }
}

/// The kind of entry that a name stands for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum EntryType {
    /// A regular file.
    File,
    /// A directory (`S_IFDIR`).
    Directory,
    /// A symbolic link.
    Symlink,
    /// A device, pipe or socket.
    Other,
}

impl fmt::Display for EntryType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::File => "a regular file",
            Self::Directory => "a directory",
            Self::Symlink => "a symbolic link",
            Self::Other => "a device, pipe or socket",
        })
    }
}

/// Every failure of this crate.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The path is not a valid [`RelativePath`].
    #[error(transparent)]
    Path(#[from] PathError),
    /// The root of a source or target cannot be used.
    #[error("cannot open {path}")]
    Root {
        /// The root as the caller gave it.
        path: ShownPath,
        /// The operating system's reason.
        source: io::Error,
    },
    /// An include or exclude pattern is malformed.
    #[error("the pattern {pattern:?} is malformed")]
    Pattern {
        /// The pattern as the caller gave it.
        pattern: String,
        /// The fault of the pattern.
        source: PatternError,
    },
    /// A pattern stands for more names than may be looked for.
    #[error("{path} matches too many names; name the folder that they are in", path = pattern)]
    TooManyMatches {
        /// The pattern as the caller gave it.
        pattern: ShownPath,
    },
    /// An operation failed.
    #[error("cannot {operation} {path}")]
    Io {
        /// The operation that failed.
        operation: Operation,
        /// The path that it was applied to.
        path: ShownPath,
        /// The operating system's reason.
        source: io::Error,
    },
    /// The disk is full, or the user's quota is used up.
    #[error("no space is left for {path}")]
    NoSpace {
        /// The entry that did not fit.
        path: ShownPath,
        /// Whether the quota, and not the disk, is the limit.
        quota: bool,
    },
    /// There are more directories than can be remembered until the end.
    #[error(
        "{path}: there are too many directories for one copy; copy parts of the tree one after the other"
    )]
    TooManyDirectories {
        /// The first directory for which there is no room.
        path: ShownPath,
    },
    /// An entry of an unexpected kind has this name.
    #[error("{path} is {found}, not {wanted}")]
    TypeConflict {
        /// The name.
        path: ShownPath,
        /// The kind that was to be opened or made.
        wanted: EntryType,
        /// The kind that is there.
        found: EntryType,
    },
    /// A parent of the path is a symbolic link or not a directory. Links are never followed.
    #[error("a parent of {path} is a symbolic link or not a directory")]
    BlockedPath {
        /// The whole path.
        path: ShownPath,
    },
    /// A root's path leads over a symbolic link, or through a file, in a folder that is served.
    #[error("{path} goes over a symbolic link that leads out of the served folder, and is not followed")]
    BlockedRoot {
        /// The path as the peer gave it.
        path: ShownPath,
    },
    /// A root's path leads out of the folder that is served.
    #[error("{path} leads out of the served folder")]
    Outside {
        /// The path as the peer gave it.
        path: ShownPath,
    },
    /// The path's last component is one of the names that unfinished files have.
    #[error("{path} has a name reserved for incomplete files, and is not copied; remove or rename it")]
    ReservedName {
        /// The path as the user gave it in a source, as on the wire in a target.
        path: ShownPath,
    },
    /// A write or read goes beyond the size that the file was begun with.
    #[error("{path}: {length_bytes} bytes at {offset} reach beyond the file's {size_bytes} bytes")]
    OutOfRange {
        /// The file.
        path: ShownPath,
        /// Offset of the first byte.
        offset: u64,
        /// Number of bytes.
        length_bytes: u64,
        /// The declared size.
        size_bytes: u64,
    },
    /// Another process is writing the same unfinished file.
    #[error("{path} is being written by another transfer")]
    Busy {
        /// The file.
        path: ShownPath,
    },
    /// The file is not the one that was compared with what is sent.
    #[error("{path} was changed at the target during the copy; copy it again")]
    Changed {
        /// The file.
        path: ShownPath,
    },
    /// An unfinished file lacks ranges that other transfers were to write.
    #[error("{path} lacks parts that other transfers should have written")]
    Incomplete {
        /// The file.
        path: ShownPath,
    },
    /// The file has been finished or discarded.
    #[error("{path} has been finished or discarded already")]
    Finished {
        /// The file.
        path: ShownPath,
    },
    /// This source has no root of that number.
    #[error("there is no root number {root}")]
    UnknownRoot {
        /// The number.
        root: u32,
    },
    /// The path does not lie under its root.
    #[error("{path} is not under its root")]
    NotUnderRoot {
        /// The path as on the wire.
        path: ShownPath,
    },
    /// A directory was found while recursion is off.
    #[error("{path} is a directory; -r copies it")]
    SkippedDirectory {
        /// The root as it was given.
        path: ShownPath,
    },
    /// An entry in this directory has a path longer than [`MAX_PATH_BYTES`](crate::MAX_PATH_BYTES).
    #[error("{path} contains a path that is too long")]
    NameTooLong {
        /// The directory.
        path: ShownPath,
    },
    /// A symbolic link has an empty or over-long target.
    #[error("{path} has a target that cannot be sent")]
    BadLink {
        /// The link.
        path: ShownPath,
    },
    /// An entry has more or longer attributes than [`MAX_XATTRS`](crate::MAX_XATTRS) and
    /// [`MAX_XATTR_VALUE_BYTES`](crate::MAX_XATTR_VALUE_BYTES) allow.
    #[error("{path} has more or longer extended attributes than can be sent")]
    TooManyXattrs {
        /// The entry.
        path: ShownPath,
    },
}

impl Error {
    /// Returns the path of the root or entry that failed, if the error has one.
    pub fn into_path(mut self) -> Option<ShownPath> {
        match self {
            Self::Root { path, .. }
            | Self::BlockedRoot { path }
            | Self::Outside { path }
            | Self::SkippedDirectory { path } => Some(path),
            _ => self.entry_path_mut().cloned(),
        }
    }

    /// Returns the same failure of the same entry under another name, which `show` makes from the present one. Roots
    /// keep the name that the user gave.
    #[must_use]
    pub fn shown_as(mut self, show: impl FnOnce(&ShownPath) -> ShownPath) -> Self {
        if let Some(path) = self.entry_path_mut() {
            *path = show(path);
        }
        self
    }

    fn entry_path_mut(&mut self) -> Option<&mut ShownPath> {
        match self {
            Self::Path(_)
            | Self::Root { .. }
            | Self::BlockedRoot { .. }
            | Self::Outside { .. }
            | Self::SkippedDirectory { .. }
            | Self::Pattern { .. }
            | Self::UnknownRoot { .. } => None,
            Self::Io { path, .. }
            | Self::NoSpace { path, .. }
            | Self::TooManyDirectories { path }
            | Self::TypeConflict { path, .. }
            | Self::BlockedPath { path }
            | Self::ReservedName { path }
            | Self::OutOfRange { path, .. }
            | Self::Busy { path }
            | Self::Incomplete { path }
            | Self::Finished { path }
            | Self::Changed { path }
            | Self::NotUnderRoot { path }
            | Self::NameTooLong { path }
            | Self::BadLink { path }
            | Self::TooManyMatches { pattern: path }
            | Self::TooManyXattrs { path } => Some(path),
        }
    }

    /// Returns whether the whole target has failed, so that continuing with other files is pointless.
    pub fn is_fatal(&self) -> bool {
        match self {
            Self::NoSpace { .. }
            | Self::Root { .. }
            | Self::BlockedRoot { .. }
            | Self::Outside { .. }
            | Self::TooManyDirectories { .. } => true,
            Self::Io { source, .. } => {
                matches!(source.kind(), io::ErrorKind::ReadOnlyFilesystem)
                    || source.raw_os_error() == Some(Errno::IO.raw_os_error())
            }
            _ => false,
        }
    }
}

/// Shorthand of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Makes the error of a failed system call.
pub(crate) fn failed(operation: Operation, path: &RelativePath, errno: Errno) -> Error {
    let path = path.into();
    match errno {
        Errno::NOSPC => Error::NoSpace { path, quota: false },
        Errno::DQUOT => Error::NoSpace { path, quota: true },
        _ => Error::Io { operation, path, source: errno.into() },
    }
}

/// Makes the error of a root that cannot be used.
pub(crate) fn root_failed(path: &Path, source: impl Into<io::Error>) -> Error {
    Error::Root { path: path.to_owned().into(), source: source.into() }
}

/// Returns the kind of entry that `stat` describes.
pub(crate) fn entry_type(stat: &Stat) -> EntryType {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => EntryType::File,
        FileType::Directory => EntryType::Directory,
        FileType::Symlink => EntryType::Symlink,
        _ => EntryType::Other,
    }
}

/// Returns the error of an operation on a path that could not be resolved.
pub(crate) fn resolve_error(operation: Operation, path: &RelativePath, errno: Errno) -> Error {
    if is_blocked(errno) { Error::BlockedPath { path: path.into() } } else { failed(operation, path, errno) }
}

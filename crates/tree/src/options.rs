//! [`TargetOptions`]: the ways in which a tree is built, and the places of backups.

use std::sync::Arc;

use crate::bases::{Basis, BasisUse};
use crate::beneath::Resolution;
use crate::error::Result;
use crate::metadata::MODE_BITS;
use crate::path::RelativePath;
use crate::xattrs::Xattrs;

/// Options of a target.
#[derive(Clone, Debug)]
pub struct TargetOptions {
    /// Whether the root directory is made if it is missing (its parent must exist).
    pub create_root: bool,
    /// Mode bits that may be set on any entry: 07777 for modes as sent.
    pub mode_mask: u32,
    /// Mode bits that entries without sent metadata do not get, besides those of the process's umask: for a process
    /// that has set its umask to 0.
    pub default_umask: u32,
    /// Whether existing directories get the mode sent; otherwise they keep theirs.
    pub change_existing_directories: bool,
    /// Whether times of last change are set.
    pub times: bool,
    /// Times that differ by no more than this, in whole seconds, are not set; by default all that differ are.
    pub time_window_seconds: Option<u32>,
    /// Whether owners are set, where the system allows it. Without this option, and after a failure, set-user-id and
    /// set-group-id are dropped.
    pub ownership: bool,
    /// The extended attributes that are set.
    pub xattrs: Xattrs,
    /// Whether an existing entry gives way to one of another kind: the new entry is made complete beside it, and
    /// waits for [`Writer::succeed`](crate::Writer::succeed). Without this option that is an error, except for files
    /// and symbolic links, which replace each other.
    pub replaces_other_kinds: bool,
    /// Whether files are written into the existing ones of their names, and not made beside them: these are then neither old nor
    /// new until they are finished, and stay so after a failure. Their other names get the content too.
    pub in_place: bool,
    /// Place at which replaced and removed entries, except directories, are kept.
    pub backup: Option<Backups>,
    /// Number of the transfer, if another target may resume it: then an unfinished file that is dropped stays, and
    /// short-lived temporary names follow from this number and the path, so that the leftovers of a killed process
    /// are replaced. Two targets with the same number must not be open on one directory. Otherwise unfinished files
    /// are removed.
    pub resumable_as: Option<u64>,
    /// Most memory for directories until they get their modes and times: their paths, and 64 bytes each. A single
    /// path can name thousands of them.
    pub directory_bytes_max: u64,
    /// Folders of earlier copies, in the order in which they are asked for a file.
    pub bases: Arc<[Basis]>,
    /// The use of the files that they have.
    pub basis_use: BasisUse,
    /// The way in which paths are resolved.
    pub resolution: Resolution,
    /// The way in which small files are made.
    pub small_files: SmallFiles,
}

impl Default for TargetOptions {
    /// Modes and times are set as sent; owners and attributes are not; unfinished files are removed.
    fn default() -> Self {
        Self {
            create_root: false,
            mode_mask: MODE_BITS,
            default_umask: 0,
            change_existing_directories: false,
            times: true,
            time_window_seconds: None,
            ownership: false,
            xattrs: Xattrs::default(),
            replaces_other_kinds: false,
            in_place: false,
            backup: None,
            resumable_as: None,
            directory_bytes_max: 256 << 20,
            bases: Arc::from([]),
            basis_use: BasisUse::default(),
            resolution: Resolution::Detect,
            small_files: SmallFiles::default(),
        }
    }
}

/// The place at which replaced and removed entries are kept.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Backups {
    /// Suffix of the names; it may be empty only with a folder.
    pub suffix: Vec<u8>,
    /// Folder of the target in which backups keep their path; without it, a backup stays beside the original.
    pub folder: Option<RelativePath>,
    /// If this path is a directory, the folder lies in it.
    pub within: Option<RelativePath>,
}

impl Backups {
    /// Returns the place of the backup of `path`.
    ///
    /// # Errors
    /// The name would be too long.
    pub fn place(&self, path: &RelativePath) -> Result<RelativePath> {
        let place = match &self.folder {
            None => path.clone(),
            Some(folder) => match self.within.as_ref().map(|within| (within, below(path, within))) {
                Some((within, Some(rest))) => within.join(folder)?.child(rest)?,
                _ => folder.join(path)?,
            },
        };
        Ok(RelativePath::from_vec([place.as_bytes(), &self.suffix].concat())?)
    }

    /// Returns whether a path is that of a backup, or of the folder of backups.
    pub fn has(&self, path: &RelativePath) -> bool {
        let is_suffixed = !self.suffix.is_empty() && path.file_name().ends_with(&self.suffix);
        match &self.folder {
            None => is_suffixed,
            Some(folder) => {
                let inner = self.within.as_ref().and_then(|within| within.join(folder).ok());
                path.starts_with(folder) || inner.is_some_and(|inner| path.starts_with(&inner))
            }
        }
    }
}

/// Returns the part of a path below a directory.
fn below<'a>(path: &'a RelativePath, directory: &RelativePath) -> Option<&'a [u8]> {
    path.as_bytes().strip_prefix(directory.as_bytes())?.strip_prefix(b"/")
}

/// The method of [`Writer::small_file`](crate::Writer::small_file). The figures are CPU times per 4 KiB file on one
/// machine, on tmpfs and ext4, from the crate's example `cost`.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum SmallFiles {
    /// The file has no name until it is complete, then it is linked to its own (11 and 24 us). If the name is taken,
    /// and on file systems without nameless files, as [`Self::Renamed`].
    #[default]
    Linked,
    /// The file has a temporary name, then it is renamed (12 and 29 us; 13 and 65 us over an existing file, where
    /// `Linked` alone would take 17 and 75 us).
    Renamed,
    /// The file has its own name at once, in directories that this target made and nobody else may enter yet;
    /// elsewhere as [`Self::Linked`]. This is the cheapest copy of many files, but a killed process can leave a
    /// truncated file under its own name.
    DirectInNew,
}

//! The data that peers copy, and the check of the copy.
//!
//! Guarantees: sizes are counted before the first run, so a program's own report is never trusted; a comparison reads
//! every byte of both sides.

use crate::LabError;
use crate::compare::compare;
use crate::scratch::remove;
use serde::{Deserialize, Serialize};
use std::fs::{self, FileType};
use std::path::{Path, PathBuf};

/// The kind of data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// One file.
    File,
    /// A directory of files and directories.
    Tree,
}

/// One source and the directory of its copies: `SOURCE` becomes `TARGET/NAME-OF-SOURCE`, file or tree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    source: PathBuf,
    target: PathBuf,
    kind: Kind,
    bytes: u64,
    files: u64,
}

/// Deeper trees are not workloads of the lab, and a sample of a real tree is never deeper.
const DEPTH_MAX: usize = 64;

impl Workload {
    /// Counts `source`, a regular file or a tree of regular files. `target` need not exist; its content is removed by
    /// [`Workload::clear_target`].
    pub fn new(source: &Path, target: &Path) -> Result<Self, LabError> {
        let source = fs::canonicalize(source).map_err(LabError::file("cannot read", source))?;
        if source.file_name().is_none() {
            return Err(LabError::Unavailable(format!("{} has no name to copy", source.display())));
        }
        let target = std::path::absolute(target).map_err(LabError::file("cannot use", target))?;
        let kind = if source.is_dir() { Kind::Tree } else { Kind::File };
        let mut sizes = Vec::new();
        walk(&source, 0, &mut |path| {
            sizes.push(fs::metadata(path).map_err(LabError::file("cannot read", path))?.len());
            Ok(())
        })?;
        Ok(Self { source, target, kind, bytes: sizes.iter().sum(), files: sizes.len() as u64 })
    }

    /// Returns the file or the tree, absolute.
    pub fn source(&self) -> &Path {
        &self.source
    }

    /// Returns the directory that holds the copy, absolute.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// Returns the path of the copy: the target with the source's name.
    pub fn copy(&self) -> PathBuf {
        self.source.file_name().map_or_else(|| self.target.clone(), |name| self.target.join(name))
    }

    /// Returns the kind of the workload.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns the length of content in bytes.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the number of files.
    pub fn files(&self) -> u64 {
        self.files
    }

    /// Makes the target an empty directory.
    pub fn clear_target(&self) -> Result<(), LabError> {
        remove(&self.target)?;
        fs::create_dir_all(&self.target).map_err(LabError::file("cannot create", &self.target))
    }

    /// Compares the copy with its source, byte for byte and name for name.
    pub fn verify(&self) -> Result<(), LabError> {
        compare(&self.source, &self.copy()).map(drop)
    }
}

/// Calls `visit` for every regular file at or below `path`. Links are not followed.
fn walk(
    path: &Path,
    depth: usize,
    visit: &mut dyn FnMut(&Path) -> Result<(), LabError>,
) -> Result<(), LabError> {
    let unfit = |what: &str| Err(LabError::Unavailable(format!("{} {what}", path.display())));
    let kind: FileType = fs::symlink_metadata(path).map_err(LabError::file("cannot read", path))?.file_type();
    if kind.is_file() {
        return visit(path);
    }
    if !kind.is_dir() {
        return unfit("is neither a file nor a directory");
    }
    if depth == DEPTH_MAX {
        return unfit("lies too deep");
    }
    for entry in fs::read_dir(path).map_err(LabError::file("cannot read", path))? {
        let entry = entry.map_err(LabError::file("cannot read", path))?;
        walk(&entry.path(), depth + 1, visit)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use tempfile::TempDir;

    fn tree() -> (TempDir, PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let source = directory.path().join("s");
        fs::create_dir_all(source.join("a/b")).unwrap();
        fs::write(source.join("one"), vec![1; 300_000]).unwrap();
        fs::write(source.join("a/b/two"), "2").unwrap();
        (directory, source)
    }

    #[test]
    fn counts_a_file_and_a_tree() {
        let (directory, source) = tree();
        let target = directory.path().join("t");
        let workload = Workload::new(&source, &target).unwrap();
        assert_eq!((workload.kind(), workload.bytes(), workload.files()), (Kind::Tree, 300_001, 2));
        assert_eq!(workload.copy(), target.join("s"));
        let workload = Workload::new(&source.join("one"), &target).unwrap();
        assert_eq!((workload.kind(), workload.bytes(), workload.files()), (Kind::File, 300_000, 1));
        assert!(Workload::new(&source.join("none"), &target).is_err());
        assert!(Workload::new(Path::new("/"), &target).is_err());
    }

    #[test]
    fn every_difference_is_found() {
        let (directory, source) = tree();
        let workload = Workload::new(&source, &directory.path().join("t")).unwrap();
        workload.clear_target().unwrap();
        let copy = workload.copy();
        let fresh = || {
            workload.clear_target().unwrap();
            fs::create_dir_all(copy.join("a/b")).unwrap();
            fs::copy(source.join("one"), copy.join("one")).unwrap();
            fs::copy(source.join("a/b/two"), copy.join("a/b/two")).unwrap();
        };
        assert!(workload.verify().is_err());
        fresh();
        workload.verify().unwrap();
        let mut late = vec![1; 300_000];
        late[299_999] = 2;
        fs::write(copy.join("one"), late).unwrap();
        assert!(workload.verify().unwrap_err().to_string().contains("first at byte 299999"));
        fresh();
        fs::write(copy.join("one"), vec![1; 299_999]).unwrap();
        assert!(workload.verify().is_err());
        fresh();
        fs::write(copy.join("more"), "").unwrap();
        assert!(workload.verify().unwrap_err().to_string().contains("other names"));
        fresh();
        fs::remove_file(copy.join("a/b/two")).unwrap();
        assert!(workload.verify().is_err());
    }

    #[test]
    fn links_are_no_workload() {
        let (directory, source) = tree();
        std::os::unix::fs::symlink("one", source.join("link")).unwrap();
        assert!(Workload::new(&source, &directory.path().join("t")).is_err());
    }
}

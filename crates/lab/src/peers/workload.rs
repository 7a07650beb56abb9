//! What the peers copy, and the check that they did.
//!
//! Guarantees: sizes are counted before the first run, so a program's own report is never trusted; a comparison reads
//! every byte of both sides.

use crate::LabError;
use crate::scratch::remove;
use serde::{Deserialize, Serialize};
use std::fs::{self, File, FileType};
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};

/// What is copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// One file.
    File,
    /// A directory of files, with directories of files below it.
    Tree,
}

/// One source and the directory its copies go to: `SOURCE` becomes `TARGET/NAME-OF-SOURCE`, file or tree.
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
    /// Counts `source`, a regular file or a tree of regular files. `target` need not exist; what is in it is removed by
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

    /// The file or the tree, absolute.
    pub fn source(&self) -> &Path {
        &self.source
    }

    /// The directory that holds the copy, absolute.
    pub fn target(&self) -> &Path {
        &self.target
    }

    /// Where the copy is to lie: the target with the source's name.
    pub fn copy(&self) -> PathBuf {
        self.source.file_name().map_or_else(|| self.target.clone(), |name| self.target.join(name))
    }

    /// File or tree.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Bytes of content.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Number of files.
    pub fn files(&self) -> u64 {
        self.files
    }

    /// Leaves the target an empty directory.
    pub fn clear_target(&self) -> Result<(), LabError> {
        remove(&self.target)?;
        fs::create_dir_all(&self.target).map_err(LabError::file("cannot create", &self.target))
    }

    /// Compares the copy with its source, byte for byte, and counts the files.
    pub fn verify(&self) -> Result<(), LabError> {
        let copy = self.copy();
        walk(&self.source, 0, &mut |path| {
            let relative = path.strip_prefix(&self.source).unwrap_or_else(|_| Path::new(""));
            // Joining an empty path would add a slash, and a file is no directory.
            let twin = if relative.as_os_str().is_empty() { copy.clone() } else { copy.join(relative) };
            compare(path, &twin)
        })?;
        let mut files = 0;
        walk(&copy, 0, &mut |_| {
            files += 1;
            Ok(())
        })?;
        if files == self.files {
            return Ok(());
        }
        Err(LabError::Differs { path: copy, difference: format!("{files} files instead of {}", self.files) })
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

fn compare(source: &Path, copy: &Path) -> Result<(), LabError> {
    const CHUNK_BYTES: usize = 1 << 18;
    let open = |path: &Path| File::open(path).map_err(LabError::file("cannot open", path));
    let (mut left, mut right) = (open(source)?, open(copy)?);
    let size = |file: &File, path| {
        file.metadata().map(|facts| facts.len()).map_err(LabError::file("cannot read", path))
    };
    let (expected, found) = (size(&left, source)?, size(&right, copy)?);
    let differs = |difference: String| Err(LabError::Differs { path: copy.to_owned(), difference });
    if expected != found {
        return differs(format!("{found} bytes instead of {expected}"));
    }
    let (mut expected, mut found) = (Vec::with_capacity(CHUNK_BYTES), Vec::with_capacity(CHUNK_BYTES));
    let mut offset = 0;
    loop {
        for (file, path, buffer) in [(&mut left, source, &mut expected), (&mut right, copy, &mut found)] {
            buffer.clear();
            let chunk = BufReader::with_capacity(0, file).take(CHUNK_BYTES as u64).read_to_end(buffer);
            chunk.map_err(LabError::file("cannot read", path))?;
        }
        if let Some(at) = expected.iter().zip(&found).position(|(left, right)| left != right) {
            return differs(format!("another byte at {}", offset + at));
        }
        if expected.len() != found.len() {
            return differs("changed while it was compared".to_owned());
        }
        if expected.is_empty() {
            return Ok(());
        }
        offset += expected.len();
    }
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
        assert!(workload.verify().unwrap_err().to_string().contains("another byte at 299999"));
        fresh();
        fs::write(copy.join("one"), vec![1; 299_999]).unwrap();
        assert!(workload.verify().is_err());
        fresh();
        fs::write(copy.join("more"), "").unwrap();
        assert!(workload.verify().unwrap_err().to_string().contains("3 files instead of 2"));
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

//! A real tree to copy: what a developer's machine has lying about, cut to size.
//!
//! Guarantees: only regular files, directories and symbolic links that the user may read are taken; the sample is
//! bounded in bytes and files; the source is only read.

use crate::LabError;
use std::ffi::OsStr;
use std::fs::{self, DirBuilder};
use std::os::unix::fs::{DirBuilderExt, symlink};
use std::path::{Path, PathBuf};

/// Most files of a sample.
const FILES_MAX: u64 = 20_000;
/// Files larger than this share of the sample would make it a file and not a tree.
const FILE_SHARE_MAX: u64 = 4;
/// Directories deeper than this are left out.
const DEPTH_MAX: usize = 48;

/// What a sample holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TreeSample {
    /// Where it was taken from.
    pub(super) origin: PathBuf,
    /// Regular files.
    pub(super) files: u64,
    /// Their bytes.
    pub(super) bytes: u64,
}

/// Trees a machine may have, best first: sources of Rust packages, of the system's headers, documentation.
pub(super) fn candidates() -> Vec<PathBuf> {
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let cargo = std::env::var_os("CARGO_HOME").map(PathBuf::from).or_else(|| Some(home?.join(".cargo")));
    let mut candidates: Vec<PathBuf> = cargo.map(|cargo| cargo.join("registry/src")).into_iter().collect();
    candidates.extend(["/usr/include", "/usr/share/doc", "/usr/lib/python3"].map(PathBuf::from));
    candidates
}

/// Copies up to `bytes_max` of `origin` into the new directory `target`.
pub(super) fn take(origin: &Path, target: &Path, bytes_max: u64) -> Result<TreeSample, LabError> {
    let mut sample = TreeSample { origin: origin.to_owned(), ..TreeSample::default() };
    create(target)?;
    let mut pending = vec![(origin.to_owned(), target.to_owned(), 0)];
    while let Some((source, copy, depth)) = pending.pop() {
        // What cannot be read is left out: the sample is ours to choose.
        let Ok(entries) = fs::read_dir(&source) else { continue };
        let mut entries: Vec<_> = entries.filter_map(Result::ok).collect();
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.file_name()));
        for entry in entries {
            if sample.files >= FILES_MAX {
                return Ok(sample);
            }
            let (from, to) = (entry.path(), copy.join(entry.file_name()));
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_dir() && depth < DEPTH_MAX && entry.file_name() != OsStr::new(".git") {
                create(&to)?;
                pending.push((from, to, depth + 1));
            } else if kind.is_symlink() {
                if let Ok(points_to) = fs::read_link(&from) {
                    symlink(points_to, &to).map_err(LabError::file("cannot create", &to))?;
                }
            } else if kind.is_file() {
                let Ok(metadata) = entry.metadata() else { continue };
                let fits = sample.bytes + metadata.len() <= bytes_max;
                if !fits || metadata.len() > bytes_max / FILE_SHARE_MAX {
                    continue;
                }
                let Ok(content) = fs::read(&from) else { continue };
                fs::write(&to, &content).map_err(LabError::file("cannot write", &to))?;
                sample.files += 1;
                sample.bytes += content.len() as u64;
            }
        }
    }
    Ok(sample)
}

/// A made-up tree for a machine that has none: sizes of a source tree, content of nothing.
pub(super) fn generate(target: &Path, bytes_max: u64, seed: u64) -> Result<TreeSample, LabError> {
    let mut rng = crate::rng::Rng::new(seed);
    let mut sample = TreeSample { origin: PathBuf::from("(generated)"), ..TreeSample::default() };
    create(target)?;
    for directory in 0..100 {
        let path = target.join(format!("directory-{directory:03}"));
        create(&path)?;
        for file in 0..40 {
            // Powers of two from 64 bytes to 64 KiB, small ones as often as large ones.
            let size = (64 << rng.below(11)) + rng.below(64);
            if sample.bytes + size as u64 > bytes_max {
                return Ok(sample);
            }
            let mut content = vec![0; size];
            rng.fill(&mut content);
            let path = path.join(format!("file-{file:02}"));
            fs::write(&path, content).map_err(LabError::file("cannot write", &path))?;
            sample.files += 1;
            sample.bytes += size as u64;
        }
    }
    Ok(sample)
}

fn create(path: &Path) -> Result<(), LabError> {
    DirBuilder::new().mode(0o700).create(path).map_err(LabError::file("cannot create", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_bounded_and_equal_to_its_origin() {
        let directory = tempfile::tempdir().unwrap();
        let (origin, target) = (directory.path().join("origin"), directory.path().join("target"));
        let made = generate(&origin, 1 << 20, 1).unwrap();
        assert!(made.bytes <= 1 << 20 && made.files > 20);
        symlink("directory-000", origin.join("link")).unwrap();
        let all = take(&origin, &target, 1 << 20).unwrap();
        assert_eq!((all.files, all.bytes), (made.files, made.bytes));
        assert_eq!(crate::compare::compare(&origin, &target).unwrap().files, made.files);
        let part = take(&origin, &directory.path().join("part"), 100_000).unwrap();
        assert!(part.bytes <= 100_000 && part.files > 0 && part.files < made.files);
    }
}

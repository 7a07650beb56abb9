//! A sample of a real tree on a developer's machine, cut to size.
//!
//! Guarantees: any tree is suitable: only regular files and directories that the user may read are copied. Links are
//! omitted because tools treat them differently, and would then be compared by unlike work. The sample is bounded in
//! bytes and files; the source is only read, and a read never blocks.

use crate::LabError;
use std::ffi::OsStr;
use std::fs::{self, DirBuilder, File};
use std::io::{self, Read};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

/// The maximum number of files in a sample.
const FILES_MAX: u64 = 20_000;
/// Files larger than this share of the sample would dominate it.
const FILE_SHARE_MAX: u64 = 4;
/// Directories deeper than this are omitted.
const DEPTH_MAX: usize = 48;

/// The content of a sample.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TreeSample {
    /// The source of the sample.
    pub(super) origin: PathBuf,
    /// Regular files.
    pub(super) files: u64,
    /// Their bytes.
    pub(super) bytes: u64,
    /// The number of symbolic links, devices, pipes and sockets, and of unreadable files.
    pub(super) left_out: u64,
}

/// Copies up to `bytes_max` of `origin` into the new directory `target`.
pub(super) fn take(origin: &Path, target: &Path, bytes_max: u64) -> Result<TreeSample, LabError> {
    let mut sample = TreeSample { origin: origin.to_owned(), ..TreeSample::default() };
    create(target)?;
    let mut pending = vec![(origin.to_owned(), target.to_owned(), 0)];
    while let Some((source, copy, depth)) = pending.pop() {
        // Unreadable directories are omitted: the sample is free to choose.
        let Ok(entries) = fs::read_dir(&source) else {
            sample.left_out += 1;
            continue;
        };
        let mut entries: Vec<_> = entries.filter_map(Result::ok).collect();
        entries.sort_by_key(|entry| std::cmp::Reverse(entry.file_name()));
        for entry in entries {
            if sample.files >= FILES_MAX {
                return Ok(sample);
            }
            let (from, to) = (entry.path(), copy.join(entry.file_name()));
            match entry.file_type() {
                Ok(kind) if kind.is_dir() => {
                    if depth < DEPTH_MAX && entry.file_name() != OsStr::new(".git") {
                        create(&to)?;
                        pending.push((from, to, depth + 1));
                    }
                }
                Ok(kind) if kind.is_file() => {
                    let Ok(content) = entry.metadata().and_then(|found| read(&from, found.len(), bytes_max))
                    else {
                        sample.left_out += 1;
                        continue;
                    };
                    if let Some(content) =
                        content.filter(|found| sample.bytes + found.len() as u64 <= bytes_max)
                    {
                        fs::write(&to, &content).map_err(LabError::file("cannot write", &to))?;
                        sample.files += 1;
                        sample.bytes += content.len() as u64;
                    }
                }
                Ok(_) | Err(_) => sample.left_out += 1,
            }
        }
    }
    Ok(sample)
}

/// Returns a file's content up to its size, because files that the kernel generates may have no end. Returns `None`
/// if it is too large.
fn read(path: &Path, size_bytes: u64, bytes_max: u64) -> io::Result<Option<Vec<u8>>> {
    if size_bytes > bytes_max / FILE_SHARE_MAX {
        return Ok(None);
    }
    let mut content = Vec::new();
    File::open(path)?.take(size_bytes).read_to_end(&mut content)?;
    Ok(Some(content))
}

/// Makes a tree for a machine without one: with the sizes of a source tree, and random content.
pub(super) fn generate(target: &Path, bytes_max: u64, seed: u64) -> Result<TreeSample, LabError> {
    let mut rng = crate::rng::Rng::new(seed);
    let mut sample = TreeSample { origin: PathBuf::from("(generated)"), ..TreeSample::default() };
    create(target)?;
    for directory in 0..100 {
        let path = target.join(format!("directory-{directory:03}"));
        create(&path)?;
        for file in 0..40 {
            // Sizes are powers of two from 64 bytes to 64 KiB, small ones as often as large ones.
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
    use crate::peers::Workload;
    use rustix::fs::Mode;
    use std::os::unix::fs::{PermissionsExt, symlink};
    use std::os::unix::net::UnixListener;

    #[test]
    fn a_sample_is_bounded_and_equal_to_its_origin() {
        let directory = tempfile::tempdir().unwrap();
        let (origin, target) = (directory.path().join("origin"), directory.path().join("target"));
        let made = generate(&origin, 1 << 20, 1).unwrap();
        assert!(made.bytes <= 1 << 20 && made.files > 20);
        let all = take(&origin, &target, 1 << 20).unwrap();
        assert_eq!((all.files, all.bytes), (made.files, made.bytes));
        assert_eq!(crate::compare::compare(&origin, &target).unwrap().files, made.files);
        let part = take(&origin, &directory.path().join("part"), 100_000).unwrap();
        assert!(part.bytes <= 100_000 && part.files > 0 && part.files < made.files);
    }
    #[test]
    fn whatever_a_tree_holds_a_sample_of_it_is_a_workload() {
        let directory = tempfile::tempdir().unwrap();
        let (origin, target) = (directory.path().join("origin"), directory.path().join("target"));
        let deepest = (0..40).fold(origin.clone(), |path, _| path.join("deeper"));
        fs::create_dir_all(&deepest).unwrap();
        for path in [origin.join("one"), origin.join("deeper/two"), deepest.join("three")] {
            fs::write(path, "content").unwrap();
        }
        for (points_to, link) in
            [("deeper", "to-folder"), ("one", "to-file"), ("none", "broken"), (".", "loop")]
        {
            symlink(points_to, origin.join(link)).unwrap();
        }
        let _socket = UnixListener::bind(origin.join("socket")).unwrap();
        let pipe = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, origin.join("pipe"), pipe, Mode::RUSR, 0).unwrap();
        // Only root may create a device, and the pipe is sufficient.
        let device = rustix::fs::makedev(1, 5);
        let kind = rustix::fs::FileType::CharacterDevice;
        let _ = rustix::fs::mknodat(rustix::fs::CWD, origin.join("device"), kind, Mode::RUSR, device);
        for (name, is_folder) in [("closed", true), ("secret", false)] {
            let path = origin.join(name);
            if is_folder {
                fs::create_dir(&path).unwrap()
            } else {
                fs::write(&path, "no").unwrap()
            }
            fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
        }

        let sample = take(&origin, &target, 1 << 20).unwrap();
        fs::set_permissions(origin.join("closed"), fs::Permissions::from_mode(0o700)).unwrap();
        // Root reads the secret one, too.
        assert!([3, 4].contains(&sample.files), "{sample:?}");
        assert!(sample.left_out >= 6, "{sample:?}");
        let workload = Workload::new(&target, &directory.path().join("copies")).unwrap();
        assert_eq!((workload.files(), workload.bytes()), (sample.files, sample.bytes));
    }
}

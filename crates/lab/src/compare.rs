//! Byte-for-byte comparison of a copy with its source.
//!
//! Guarantees: success means the same names, the same types, the same bytes, the same link targets. Times, owners and
//! extended attributes are not compared.

use crate::error::LabError;
use std::fs::{self, File};
use std::io::Read;
use std::path::Path;

/// The extent of a comparison.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Compared {
    /// Regular files.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
}

const CHUNK_BYTES: usize = 1 << 20;

/// Compares `copy` with `source`, files, directories and symbolic links alike.
pub fn compare(source: &Path, copy: &Path) -> Result<Compared, LabError> {
    let mut compared = Compared::default();
    let mut buffers = (vec![0; CHUNK_BYTES], vec![0; CHUNK_BYTES]);
    // A stack is used instead of recursion because the tree determines its depth.
    let mut pending = vec![(source.to_owned(), copy.to_owned())];
    while let Some((source, copy)) = pending.pop() {
        let kind = fs::symlink_metadata(&source).map_err(LabError::file("cannot read", &source))?.file_type();
        let Ok(metadata) = fs::symlink_metadata(&copy) else { return Err(differs(&copy, "it is missing")) };
        if kind != metadata.file_type() {
            return Err(differs(&copy, "it is of another type"));
        }
        if kind.is_dir() {
            let names = names(&source)?;
            if names != self::names(&copy)? {
                return Err(differs(&copy, "it holds other names"));
            }
            pending.extend(names.into_iter().map(|name| (source.join(&name), copy.join(name))));
        } else if kind.is_symlink() {
            let read = |path: &Path| fs::read_link(path).map_err(LabError::file("cannot read", path));
            if read(&source)? != read(&copy)? {
                return Err(differs(&copy, "it points elsewhere"));
            }
        } else if kind.is_file() {
            compared.files += 1;
            compared.bytes += compare_files(&source, &copy, &mut buffers.0, &mut buffers.1)?;
        }
    }
    Ok(compared)
}

fn compare_files(source: &Path, copy: &Path, left: &mut [u8], right: &mut [u8]) -> Result<u64, LabError> {
    let open = |path: &Path| File::open(path).map_err(LabError::file("cannot open", path));
    let (mut source_file, mut copy_file) = (open(source)?, open(copy)?);
    let mut offset = 0_u64;
    loop {
        let taken = read_full(&mut source_file, left).map_err(LabError::file("cannot read", source))?;
        let found = read_full(&mut copy_file, right).map_err(LabError::file("cannot read", copy))?;
        if left[..taken] != right[..found] {
            let pairs = left[..taken].iter().zip(&right[..found]);
            let same = pairs.take_while(|(left, right)| left == right).count();
            return Err(differs(copy, &format!("first at byte {}", offset + same as u64)));
        }
        if taken == 0 {
            return Ok(offset);
        }
        offset += taken as u64;
    }
}

fn read_full(file: &mut File, buffer: &mut [u8]) -> std::io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(taken) => filled += taken,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

fn names(directory: &Path) -> Result<Vec<std::ffi::OsString>, LabError> {
    let entries = fs::read_dir(directory).map_err(LabError::file("cannot list", directory))?;
    let names: Result<Vec<_>, _> = entries.map(|entry| entry.map(|entry| entry.file_name())).collect();
    let mut names = names.map_err(LabError::file("cannot list", directory))?;
    names.sort_unstable();
    Ok(names)
}

fn differs(path: &Path, difference: &str) -> LabError {
    LabError::Differs { path: path.to_owned(), difference: difference.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    fn pair() -> (tempfile::TempDir, std::path::PathBuf, std::path::PathBuf) {
        let directory = tempfile::tempdir().unwrap();
        let (left, right) = (directory.path().join("left"), directory.path().join("right"));
        for side in [&left, &right] {
            fs::create_dir_all(side.join("sub/empty")).unwrap();
            fs::write(side.join("sub/file"), vec![7; CHUNK_BYTES + 3]).unwrap();
            symlink("sub/file", side.join("link")).unwrap();
        }
        (directory, left, right)
    }

    #[test]
    fn equal_trees_are_equal() {
        let (_directory, left, right) = pair();
        assert_eq!(compare(&left, &right).unwrap(), Compared { files: 1, bytes: CHUNK_BYTES as u64 + 3 });
    }

    #[test]
    fn every_difference_is_found() {
        type Change = fn(&Path);
        let changes: [(&str, Change); 6] = [
            ("first at byte 1048577", |side| {
                let mut bytes = vec![7; CHUNK_BYTES + 3];
                bytes[CHUNK_BYTES + 1] = 8;
                fs::write(side.join("sub/file"), bytes).unwrap();
            }),
            ("first at byte 5", |side| fs::write(side.join("sub/file"), [7; 5]).unwrap()),
            ("first at byte 1048579", |side| {
                fs::write(side.join("sub/file"), vec![7; CHUNK_BYTES + 4]).unwrap()
            }),
            ("it points elsewhere", |side| {
                fs::remove_file(side.join("link")).unwrap();
                symlink("sub", side.join("link")).unwrap();
            }),
            ("it holds other names", |side| fs::write(side.join("more"), "").unwrap()),
            ("it is of another type", |side| {
                fs::remove_dir(side.join("sub/empty")).unwrap();
                fs::write(side.join("sub/empty"), "").unwrap();
            }),
        ];
        for (expected, change) in changes {
            let (_directory, left, right) = pair();
            change(&right);
            let error = compare(&left, &right).unwrap_err();
            assert!(
                matches!(&error, LabError::Differs { difference, .. } if difference == expected),
                "{error}"
            );
        }
        let (_directory, left, right) = pair();
        fs::remove_dir_all(&right).unwrap();
        assert!(compare(&left, &right).is_err());
    }
}

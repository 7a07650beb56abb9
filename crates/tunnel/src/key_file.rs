//! Key files: key material in hexadecimal that only this user may read.
//!
//! Guarantees: a file that others may read, or that belongs to somebody else, is refused; the material is wiped after
//! use, and no message shows a part of it.

use std::{
    fs::File,
    io::{self, Read as _},
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
};

use zeroize::Zeroizing;

/// The maximum length of key material in bytes, more than any suite needs.
const MATERIAL_BYTES_MAX: usize = 256;
/// The maximum length of a file: two digits per byte, and white space.
const FILE_BYTES_MAX: usize = 4 * MATERIAL_BYTES_MAX;

/// Reasons why a key file is refused.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    /// The system refuses.
    #[error("cannot read the key file {}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// Others may read the file.
    #[error("the key file {} has mode {mode:04o}: run `chmod 600 {}`", path.display(), path.display())]
    Exposed {
        /// The file.
        path: PathBuf,
        /// The file's mode.
        mode: u32,
    },
    /// Somebody else may change the file.
    #[error("the key file {} belongs to user {uid}, not to us or root", path.display())]
    Foreign {
        /// The file.
        path: PathBuf,
        /// The file's owner.
        uid: u32,
    },
    /// The file is not hexadecimal, or has the wrong length.
    #[error(
        "the key file {} must hold {expected_bytes} bytes in hexadecimal and nothing else; make one by \
         `(umask 077; openssl rand -hex {expected_bytes} > {})`",
        path.display(),
        path.display()
    )]
    Content {
        /// The file.
        path: PathBuf,
        /// The length that the suite needs.
        expected_bytes: usize,
    },
}

/// Reads `expected_bytes` bytes of material. White space between digits is ignored.
///
/// # Errors
/// Fails if the file is not safe, or is not a key file.
pub fn read(path: &Path, expected_bytes: usize) -> Result<Zeroizing<Vec<u8>>, KeyFileError> {
    let content = || KeyFileError::Content { path: path.into(), expected_bytes };
    let text = read_secret(path, FILE_BYTES_MAX)?.ok_or_else(content)?;
    let material = decode(&text).ok_or_else(content)?;
    if material.len() == expected_bytes { Ok(material) } else { Err(content()) }
}

/// Reads a file that nobody else may read, without decoding it; `None` if it has more than `bytes_max` bytes.
///
/// # Errors
/// Fails if the file is not safe, or cannot be read.
pub fn read_secret(path: &Path, bytes_max: usize) -> Result<Option<Zeroizing<Vec<u8>>>, KeyFileError> {
    let failed = |source| KeyFileError::Io { path: path.into(), source };
    let mut file = File::open(path).map_err(failed)?;
    let metadata = file.metadata().map_err(failed)?;
    let (uid, mode) = (metadata.uid(), metadata.mode() & 0o7777);
    if uid != rustix::process::geteuid().as_raw() && uid != 0 {
        return Err(KeyFileError::Foreign { path: path.into(), uid });
    }
    if mode & 0o077 != 0 {
        return Err(KeyFileError::Exposed { path: path.into(), mode });
    }
    // The buffer has a fixed size, because a growing one would leave copies of the key behind.
    let mut text = Zeroizing::new(vec![0; bytes_max + 1]);
    let mut length = 0;
    while length < text.len() {
        match file.read(&mut text[length..]) {
            Ok(0) => break,
            Ok(bytes) => length += bytes,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(failed(error)),
        }
    }
    text.truncate(length);
    Ok((length <= bytes_max).then_some(text))
}

fn decode(text: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let mut material = Zeroizing::new(Vec::with_capacity(MATERIAL_BYTES_MAX));
    let mut high: Option<u8> = None;
    for &byte in text.iter().filter(|byte| !byte.is_ascii_whitespace()) {
        let digit = char::from(byte).to_digit(16)? as u8;
        match high.take() {
            None => high = Some(digit),
            Some(first) if material.len() < MATERIAL_BYTES_MAX => material.push(first << 4 | digit),
            Some(_) => return None,
        }
    }
    // An odd digit is half of a byte.
    if high.is_some() { None } else { Some(material) }
}

#[cfg(test)]
mod tests {
    use std::{fs, os::unix::fs::PermissionsExt as _};

    use super::*;

    fn file(mode: u32, text: &str) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("key");
        fs::write(&path, text).expect("a key file");
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).expect("a mode");
        (folder, path)
    }

    #[test]
    fn hexadecimal_with_white_space_is_read() {
        for text in ["00ff10AB", "00 ff\n10 ab\n", "  00ff10ab\n\n"] {
            let (_folder, path) = file(0o600, text);
            assert_eq!(**read(&path, 4).expect(text), [0, 0xff, 0x10, 0xab]);
        }
    }

    #[test]
    fn other_contents_are_refused_without_showing_them() {
        for text in ["", "00ff10a", "00ff10abcd", "00ff10ag", &"00".repeat(5000)] {
            let (_folder, path) = file(0o600, text);
            let error = read(&path, 4).expect_err(text).to_string();
            assert!(error.contains("openssl rand -hex 4") && !error.contains("00ff"), "{error}");
        }
    }

    #[test]
    fn files_that_others_may_read_are_refused() {
        for mode in [0o640, 0o604, 0o666, 0o660] {
            let (_folder, path) = file(mode, "00ff10ab");
            let error = read(&path, 4).expect_err("others may read it").to_string();
            assert!(error.contains("chmod 600"), "{error}");
        }
        let (folder, _path) = file(0o600, "");
        assert!(matches!(read(&folder.path().join("none"), 4), Err(KeyFileError::Io { .. })));
    }
}

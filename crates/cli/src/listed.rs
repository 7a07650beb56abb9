//! Lists of paths for `--files-from`.
//!
//! Guarantees: every path of a list lies below the folder that the list is for; the list is bounded.

use sealane_copy::RelativePath;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The maximum length of a list, which is the most that a far end accepts at once.
const LIST_BYTES_MAX: u64 = 8 << 20;

/// The reason why a list is invalid.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ListError {
    #[error("cannot read the list {path}")]
    Unreadable { path: String, source: io::Error },
    #[error("the list {path} is longer than 8 MiB; copy its parts one after the other")]
    TooLong { path: String },
    #[error("the list names {entry}, which is not a path below the source")]
    Outside { entry: String },
}

/// Reads a list as rsync does: one path per line, or each ended by a zero byte; in lines, empty ones and those that
/// begin with `#` or `;` are ignored.
pub(crate) fn read(path: &Path, by_zero: bool) -> Result<Vec<RelativePath>, ListError> {
    let shown = || path.display().to_string();
    let unreadable = |source| ListError::Unreadable { path: shown(), source };
    let input: Box<dyn Read> = match path.as_os_str() == "-" {
        true => Box::new(io::stdin()),
        false => Box::new(File::open(path).map_err(unreadable)?),
    };
    let mut bytes = Vec::new();
    input.take(LIST_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(unreadable)?;
    if bytes.len() as u64 > LIST_BYTES_MAX {
        return Err(ListError::TooLong { path: shown() });
    }
    parse(&bytes, by_zero)
}

fn parse(bytes: &[u8], by_zero: bool) -> Result<Vec<RelativePath>, ListError> {
    let end = if by_zero { 0 } else { b'\n' };
    let says_something = |line: &&[u8]| !line.is_empty() && (by_zero || !matches!(line[0], b'#' | b';'));
    let lines = bytes.split(|&byte| byte == end).map(|line| match by_zero {
        true => line,
        false => line.strip_suffix(b"\r").unwrap_or(line),
    });
    lines.filter(says_something).filter_map(|line| below(line).transpose()).collect()
}

/// Returns the path relative to the source: a leading `/` and `.` within are ignored, `..` goes up, but not out.
/// `None` stands for the source itself.
fn below(entry: &[u8]) -> Result<Option<RelativePath>, ListError> {
    let outside = || ListError::Outside { entry: OsStr::from_bytes(entry).display().to_string() };
    let mut components: Vec<&[u8]> = Vec::new();
    for component in entry.split(|&byte| byte == b'/') {
        match component {
            b"" | b"." => {}
            b".." => drop(components.pop().ok_or_else(outside)?),
            _ => components.push(component),
        }
    }
    match components.is_empty() {
        true => Ok(None),
        false => RelativePath::from_vec(components.join(&b'/')).map(Some).map_err(|_| outside()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(list: &[u8], by_zero: bool) -> Vec<String> {
        let paths = parse(list, by_zero).expect("it is a list");
        paths.iter().map(|path| path.to_string()).collect()
    }

    #[test]
    fn lists_are_those_of_rsync() {
        let list = b"a\n\n# comment\n; another\n/b/c\n./d//e/\nf/../g\r\n.\nlast";
        assert_eq!(texts(list, false), ["a", "b/c", "d/e", "g", "last"]);
        assert_eq!(texts(b"a\nb\0#c\0\0d", true), ["a\\nb", "#c", "d"]);
        for outside in [&b"../x"[..], b"a/../../x", b"a/\0b"] {
            assert!(parse(outside, false).is_err());
        }
    }
}

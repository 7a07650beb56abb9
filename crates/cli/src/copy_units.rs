//! Parsers of values that only copies have: suffixes of backups, limits of sizes, and folders below a target.
//!
//! Guarantees: an accepted text is a value that a copy accepts.

use sealane_copy::{RelativePath, Upkeep};
use sealane_terminal::units::{self, UnitError};

/// Parses the suffix of the names of backups.
///
/// # Errors
/// Fails if no name can end in the text.
pub(crate) fn suffix(text: &str) -> Result<String, UnitError> {
    match Upkeep::is_suffix(text.as_bytes()) {
        true => Ok(text.to_owned()),
        false => {
            Err(UnitError::Malformed { expected: "the end of a file name such as ~ or .old, up to 64 bytes" })
        }
    }
}

/// Parses the size of the smallest or largest file to send, which may be empty.
///
/// # Errors
/// Fails if the text is not a size.
pub(crate) fn size_limit(text: &str) -> Result<u64, UnitError> {
    match text.trim() {
        "0" => Ok(0),
        text => units::size(text),
    }
}

/// Returns a folder below the target.
///
/// # Errors
/// Fails if the text is not a path that stays below the folder.
pub(crate) fn folder(text: &str) -> Result<RelativePath, UnitError> {
    let malformed = UnitError::Malformed { expected: "a path below the target such as old or kept/today" };
    let plain = text.strip_prefix("./").unwrap_or(text).trim_end_matches('/');
    RelativePath::new(plain).map_err(|_| malformed)
}

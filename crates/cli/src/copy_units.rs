//! Parsers of values that only copies have: suffixes of backups, limits of sizes, owners, and folders below a target.
//!
//! Guarantees: an accepted text is a value that a copy accepts.

use sealane_copy::{Principal, RelativePath, Upkeep};
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

/// The user and the group that all entries get.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principals {
    /// The user, if one is given.
    pub user: Option<Principal>,
    /// The group, if one is given.
    pub group: Option<Principal>,
}

/// Parses `USER`, `USER:GROUP` or `:GROUP`, each a name or a number.
///
/// # Errors
/// Fails if neither is given, or something is no name.
pub(crate) fn principals(text: &str) -> Result<Principals, UnitError> {
    let malformed =
        UnitError::Malformed { expected: "a user, a group or both, such as web:web, 1000 or :staff" };
    let (user, group) = text.split_once(':').unwrap_or((text, ""));
    let one = |text: &str| match text {
        "" => Ok(None),
        text if text.bytes().all(|byte| byte.is_ascii_digit()) => {
            let number = text.parse().ok().filter(|&number| number != u32::MAX);
            number.map(Principal::Number).map(Some).ok_or(UnitError::TooLarge)
        }
        text if text.len() > NAME_BYTES_MAX || text.contains([':', '\n', '\0']) => Err(malformed.clone()),
        text => Ok(Some(Principal::Name(text.to_owned()))),
    };
    match (one(user)?, one(group)?) {
        (None, None) => Err(malformed),
        (user, group) => Ok(Principals { user, group }),
    }
}

/// The longest name of a user or group, in bytes.
const NAME_BYTES_MAX: usize = 256;

/// Returns a folder below the target.
///
/// # Errors
/// Fails if the text is not a path that stays below the folder.
pub(crate) fn folder(text: &str) -> Result<RelativePath, UnitError> {
    let malformed = UnitError::Malformed { expected: "a path below the target such as old or kept/today" };
    let plain = text.strip_prefix("./").unwrap_or(text).trim_end_matches('/');
    RelativePath::new(plain).map_err(|_| malformed)
}

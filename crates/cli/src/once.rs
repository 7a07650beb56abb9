//! Advice that a user hears once for each host, however many copies there are.
//!
//! Guarantees: where it cannot be noted that something was told, it is told again; the notes have a bound.

use crate::environment;
use std::fs::{self, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

/// The file of the notes, in the folder for states.
const FILE_NAME: &str = "told";
/// The length at which the notes begin anew.
const BYTES_MAX: u64 = 64 << 10;

/// Returns whether this was told of that host before; from now on it was.
pub(crate) fn was_told(what: &str, host: &str) -> bool {
    environment::state_dir().is_some_and(|folder| was_noted(&folder, what, host))
}

fn was_noted(folder: &Path, what: &str, host: &str) -> bool {
    let path = folder.join(FILE_NAME);
    // A host's name has neither line breaks nor blanks; any other text is one line, too.
    let line = format!("{what} {}", host.escape_default());
    let is_small = fs::metadata(&path).is_ok_and(|found| found.len() < BYTES_MAX);
    if is_small && fs::read_to_string(&path).is_ok_and(|text| text.lines().any(|found| found == line)) {
        return true;
    }
    let made = fs::DirBuilder::new().recursive(true).mode(0o700).create(folder);
    let mut options = OpenOptions::new();
    options.create(true).mode(0o600);
    if is_small {
        options.append(true)
    } else {
        options.write(true).truncate(true)
    };
    // Without a note it is told again.
    let _ = made.and_then(|()| options.open(&path)?.write_all(format!("{line}\n").as_bytes()));
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_host_hears_it_once() {
        let folder = tempfile::tempdir().expect("a folder");
        let folder = folder.path().join("state");
        assert!(!was_noted(&folder, "slower", "one") && was_noted(&folder, "slower", "one"));
        assert!(!was_noted(&folder, "slower", "two") && !was_noted(&folder, "owners", "one"));
        assert!(was_noted(&folder, "slower", "one"));
        // Notes that have grown too long begin anew.
        fs::write(folder.join(FILE_NAME), "slower one\n".repeat(BYTES_MAX as usize / 10)).expect("room");
        assert!(!was_noted(&folder, "slower", "one") && was_noted(&folder, "slower", "one"));
        assert!(fs::metadata(folder.join(FILE_NAME)).expect("a file").len() < 100);
    }
}

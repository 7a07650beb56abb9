//! Versions of installed programs, in their own words.
//!
//! Guarantees: a version is one short line.

use super::Version;
use super::client::{Client, run_to_end};
use crate::skipped::Skipped;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

const VERSION_LIMIT: Duration = Duration::from_secs(10);
const VERSION_CHARACTERS: usize = 120;

/// Returns the first line that the program prints with `argument`.
pub(super) fn version(program: &Path, argument: &str) -> Result<Version, Skipped> {
    let mut command = Command::new(program);
    command.arg(argument);
    let text = run_to_end(Client::new(command), VERSION_LIMIT)
        .map_err(|error| Skipped::because(format!("{} does not run: {error}", program.display())))?;
    let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or("unknown version");
    Ok(Version(line.chars().take(VERSION_CHARACTERS).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_one_short_line() {
        let version = version(Path::new("/bin/sh"), "-c echo").unwrap_or(Version(String::new()));
        assert!(version.0.chars().count() <= VERSION_CHARACTERS);
        assert!(!version.0.contains('\n'));
    }
}

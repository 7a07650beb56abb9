//! Which programs are installed, and what they call themselves.
//!
//! Guarantees: a program is only ever started by the absolute path found here; a version is one short line.

use super::client::{Client, run_to_end};
use super::{Skipped, Version};
use rustix::fs::{Access, access};
use std::env;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// Where servers live on most distributions although a user's PATH leaves them out.
const SERVER_DIRECTORIES: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

const VERSION_LIMIT: Duration = Duration::from_secs(10);
const VERSION_CHARACTERS: usize = 120;

/// The absolute path of a program.
pub(super) fn program(name: &str) -> Result<PathBuf, Skipped> {
    let path = env::var_os("PATH").unwrap_or_default();
    env::split_paths(&path)
        .chain(SERVER_DIRECTORIES.iter().map(PathBuf::from))
        .filter(|directory| directory.is_absolute())
        .map(|directory| directory.join(name))
        .find(|file| is_program(file))
        .ok_or_else(|| Skipped::because(format!("no `{name}` in PATH")))
}

/// Whether `path` is a file that may be executed.
pub(super) fn is_program(path: &Path) -> bool {
    path.is_file() && access(path, Access::EXEC_OK).is_ok()
}

/// The first line the program prints when asked with `argument`.
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
    fn finds_what_is_there_and_names_what_is_not() {
        assert!(program("sh").unwrap().is_absolute());
        let skipped = program("sealane-no-such-program").unwrap_err();
        assert_eq!(skipped.to_string(), "skipped: no `sealane-no-such-program` in PATH");
        assert!(!is_program(Path::new("/")));
    }

    #[test]
    fn a_version_is_one_short_line() {
        let version = version(&program("sh").unwrap(), "-c echo").unwrap_or(Version(String::new()));
        assert!(version.0.chars().count() <= VERSION_CHARACTERS);
        assert!(!version.0.contains('\n'));
    }
}

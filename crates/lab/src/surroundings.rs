//! The locations of programs, temporary files and trees, as known to the caller of the lab.
//!
//! Guarantees: the values are set once; the lab itself reads no environment variable. A program is only ever started
//! by the absolute path found here.

use crate::skipped::Skipped;
use rustix::fs::{Access, access};
use std::path::{Path, PathBuf};

/// Directories that hold servers, and `primes`, on most distributions although a user's search path omits them.
const MORE_DIRECTORIES: [&str; 4] = ["/usr/local/sbin", "/usr/sbin", "/sbin", "/usr/games"];

/// The parts of a shell's environment that the lab needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Surroundings {
    /// Directories with programs, in the order of the search. Relative ones are ignored.
    pub search_path: Vec<PathBuf>,
    /// The directory for temporary files that shared memory cannot hold.
    pub temporary: PathBuf,
    /// Trees that may be sampled, best first.
    pub trees: Vec<PathBuf>,
    /// The program of WDT, which few systems package, if it is not on the search path.
    pub wdt: Option<PathBuf>,
}

impl Default for Surroundings {
    /// Returns the values that are the same on most systems.
    fn default() -> Self {
        Self {
            search_path: ["/usr/local/bin", "/usr/bin", "/bin"].map(PathBuf::from).to_vec(),
            temporary: PathBuf::from("/tmp"),
            trees: ["/usr/include", "/usr/share/doc", "/usr/lib/python3"].map(PathBuf::from).to_vec(),
            wdt: None,
        }
    }
}

impl Surroundings {
    /// Returns the absolute path of a program.
    pub(crate) fn program(&self, name: &str) -> Result<PathBuf, Skipped> {
        self.search_path
            .iter()
            .map(PathBuf::as_path)
            .chain(MORE_DIRECTORIES.iter().map(Path::new))
            .filter(|directory| directory.is_absolute())
            .map(|directory| directory.join(name))
            .find(|file| is_program(file))
            .ok_or_else(|| Skipped::because(format!("no `{name}` in PATH")))
    }
}

/// Returns whether `path` is a file that may be executed.
pub(crate) fn is_program(path: &Path) -> bool {
    path.is_file() && access(path, Access::EXEC_OK).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_is_there_and_names_what_is_not() {
        let surroundings = Surroundings::default();
        assert!(surroundings.program("sh").unwrap().is_absolute());
        let skipped = surroundings.program("sealane-no-such-program").unwrap_err();
        assert_eq!(skipped.to_string(), "skipped: no `sealane-no-such-program` in PATH");
        assert!(!is_program(Path::new("/")));
    }

    #[test]
    fn the_first_directory_wins_and_relative_ones_are_passed_over() {
        let own = tempfile::tempdir().unwrap();
        let program = own.path().join("sh");
        std::fs::copy("/bin/sh", &program).unwrap();
        let search_path = vec![PathBuf::from("."), own.path().to_owned(), PathBuf::from("/bin")];
        let surroundings = Surroundings { search_path, ..Surroundings::default() };
        assert_eq!(surroundings.program("sh").unwrap(), program);
    }
}

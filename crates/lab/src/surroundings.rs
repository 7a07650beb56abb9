//! Where programs, temporary files and trees lie, as whoever starts the lab knows it.
//!
//! Guarantees: values, set once; the lab reads no environment variable of its own. A program is only ever started by
//! the absolute path found here.

use crate::peers::Skipped;
use rustix::fs::{Access, access};
use std::path::{Path, PathBuf};

/// Where servers live on most distributions although a user's search path leaves them out.
const SERVER_DIRECTORIES: [&str; 3] = ["/usr/local/sbin", "/usr/sbin", "/sbin"];

/// What a shell has in its environment, as far as the lab asks for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Surroundings {
    /// Directories with programs, in the order in which they are searched. Relative ones are passed over.
    pub search_path: Vec<PathBuf>,
    /// Where temporary files go that shared memory cannot hold.
    pub temporary: PathBuf,
    /// Trees of which a sample may be taken, best first.
    pub trees: Vec<PathBuf>,
    /// The program of WDT, which few systems package, if it is not on the search path.
    pub wdt: Option<PathBuf>,
}

impl Default for Surroundings {
    /// What is the same on most systems.
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
    /// The absolute path of a program.
    pub(crate) fn program(&self, name: &str) -> Result<PathBuf, Skipped> {
        self.search_path
            .iter()
            .map(PathBuf::as_path)
            .chain(SERVER_DIRECTORIES.iter().map(Path::new))
            .filter(|directory| directory.is_absolute())
            .map(|directory| directory.join(name))
            .find(|file| is_program(file))
            .ok_or_else(|| Skipped::because(format!("no `{name}` in PATH")))
    }
}

/// Whether `path` is a file that may be executed.
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

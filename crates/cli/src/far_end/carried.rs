//! The programs that are carried for far ends: copiers without other faces that need no library, one for each processor.
//!
//! Guarantees: a far host's words choose among the names of known processors, and are never part of a path; where none is
//! carried for a processor that is this machine's, this program goes itself.

use anyhow::Context;
use std::fs;
use std::io;
use std::path::PathBuf;

/// The processors, as `uname -m` names them, for which programs can be carried.
const PROCESSORS: [&str; 2] = ["x86_64", "aarch64"];
/// The variable that names another folder of them.
const FOLDER: &str = "SEALANE_FAR_ENDS";

/// Returns the folder of the carried programs: beside that of the installed program, as in `/usr/lib/sealane/far-ends`.
fn folder() -> Option<PathBuf> {
    if let Some(named) = std::env::var_os(FOLDER) {
        return Some(named.into());
    }
    let program = std::env::current_exe().ok()?;
    Some(program.parent()?.parent()?.join("lib/sealane/far-ends"))
}

/// Returns the bytes of the program for a processor; `None` if there is none.
///
/// # Errors
/// Fails if it cannot be read, with its name.
pub(super) fn program(processor: &str) -> anyhow::Result<Option<Vec<u8>>> {
    let known = PROCESSORS.into_iter().find(|known| *known == processor);
    if let (Some(known), Some(folder)) = (known, folder()) {
        let path = folder.join(known);
        match fs::read(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            read => return read.map(Some).with_context(|| format!("cannot read {}", path.display())),
        }
    }
    if processor != std::env::consts::ARCH {
        return Ok(None);
    }
    // The kernel's own link leads to this program's bytes even if its file was replaced or removed.
    fs::read("/proc/self/exe").map(Some).context("cannot read this program's own file")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hosts_words_are_no_path() {
        for processor in ["vax", "", "../far-ends/x86_64", "/proc/self/exe"] {
            assert!(program(processor).is_ok_and(|found| found.is_none()), "{processor}");
        }
        assert!(
            program(std::env::consts::ARCH)
                .is_ok_and(|found| found.is_some_and(|own| own.starts_with(b"\x7fELF")))
        );
    }
}

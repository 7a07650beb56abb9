//! Checks the layout of modules that a macro declares, which `cargo fmt` does not find.

use super::Finding;
use anyhow::{Context as _, Result};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Directories whose modules are declared by a macro: in `list.rs` of the first, in `lib.rs` of the second.
const SOURCES: [&str; 2] = ["crates/transform/src", "crates/lab/src"];

/// Returns findings in the folders below `root`; none without `rustfmt`, which not every toolchain has.
///
/// # Errors
/// Fails if the folders cannot be read.
pub(crate) fn check(root: &Path) -> Result<Vec<Finding>> {
    let mut files = Vec::new();
    for folder in SOURCES {
        for entry in fs::read_dir(root.join(folder)).with_context(|| format!("reading {folder}"))? {
            let file = entry?.path().join("mod.rs");
            if file.is_file() {
                files.push(file);
            }
        }
    }
    let mut command = Command::new("rustfmt");
    let command = command.args(["--check", "-l", "--edition", "2024"]).args(files).current_dir(root);
    let Ok(output) = command.output() else { return Ok(Vec::new()) };
    let told = String::from_utf8_lossy(&output.stdout);
    let finding = |line: &str| {
        let path = Path::new(line).strip_prefix(root).unwrap_or_else(|_| Path::new(line)).to_string_lossy();
        Finding::new(&path, 0, "layout", format!("`rustfmt --edition 2024 {path}` would change it"))
    };
    Ok(told.lines().filter(|line| line.ends_with(".rs")).map(finding).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_that_is_laid_out_otherwise_is_found() {
        if Command::new("rustfmt").arg("--version").output().is_err() {
            return;
        }
        let root = tempfile::tempdir().unwrap();
        let [folder, other] = SOURCES.map(|folder| root.path().join(folder).join("rot13"));
        fs::create_dir_all(&folder).unwrap();
        fs::create_dir_all(other).unwrap();
        fs::write(folder.join("mod.rs"), "fn  rot13( ) { }\n").unwrap();
        assert_eq!(check(root.path()).unwrap().len(), 1);
        fs::write(folder.join("mod.rs"), "fn rot13() {}\n").unwrap();
        assert_eq!(check(root.path()).unwrap(), []);
    }
}

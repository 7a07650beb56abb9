//! Rules about the packages that are built: no feature of any crate may include a banned one.
//!
//! The lock file is not sufficient. It records optional packages of dependencies (`ring` among them, for a feature
//! that is never enabled) whether they are built or not, so the resolved graph of all features is used.

use super::Finding;
use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::Command;

/// Packages that must never be built, and the reasons.
const BANNED: &[(&str, &str)] = &[
    ("ring", "aws-lc-rs is the one library for cryptography; a second doubles what must be trusted"),
    ("openssl-sys", "the system's library differs from host to host, and with it what was tested"),
];

/// Returns the names of all packages that the workspace builds on this host with every feature, tests and build
/// scripts included; with repetitions.
///
/// # Errors
/// Fails if cargo cannot resolve the graph from the lock file; missing packages are downloaded.
pub(crate) fn packages(root: &Path) -> Result<Vec<String>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let arguments = "tree --workspace --all-features --locked --edges all --prefix none --format {p}";
    let output = Command::new(cargo)
        .current_dir(root)
        .args(arguments.split(' '))
        .output()
        .context("running cargo tree")?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "cargo tree failed: {errors}");
    let listing = String::from_utf8(output.stdout).context("the output of cargo tree")?;
    let names: Vec<String> =
        listing.lines().filter_map(|line| Some(line.split(' ').next()?.to_owned())).collect();
    ensure!(names.iter().any(|name| name == "sealane"), "cargo tree does not list the workspace");
    Ok(names)
}

/// Returns findings in a list of package names.
pub(crate) fn check(names: &[String]) -> Vec<Finding> {
    BANNED
        .iter()
        .filter(|(banned, _)| names.iter().any(|name| name == banned))
        .map(|(banned, why)| Finding::new("Cargo.lock", 0, "packages", format!("{banned} is built: {why}")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_banned_package_is_found() {
        for (banned, why) in BANNED {
            assert_eq!(check(&["clap".to_owned(), (*banned).to_owned()]).len(), 1);
            assert!(why.len() > 10);
        }
        assert_eq!(check(&["ringbuf".to_owned(), "clap".to_owned()]), []);
    }
}

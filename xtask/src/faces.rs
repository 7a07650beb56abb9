//! The faces of the program built alone: which crates each needs, how much code that is, and whether its tests pass.
//!
//! Guarantees: a face that does not build alone, its tests included, or that needs a crate of the laboratory, is an error.

use crate::tests;
use anyhow::{Context as _, Result, bail, ensure};
use std::path::Path;
use std::process::Command;

/// The features of the program that make a face of their own.
const FACES: [&str; 6] = ["copy", "serve", "tunnel", "engine", "fleet", "nats"];

/// Crates that only the laboratory may need.
const LABORATORY: [&str; 5] =
    ["sealane-lab", "sealane-stack", "sealane-tcp", "sealane-simulator", "sealane-card"];

/// Checks that each face builds alone, and prints its crates, lines of code and dependencies.
pub(crate) fn run(root: &Path) -> Result<()> {
    println!("{:<10} {:>7} {:>8} {:>13}", "face", "crates", "lines", "dependencies");
    let all: String = FACES.join(",");
    for face in FACES.into_iter().chain([all.as_str()]) {
        let mut check = cargo(root);
        check.args(["clippy", "--quiet", "--locked", "--package", "sealane", "--no-default-features"]);
        check.args(["--features", face, "--all-targets", "--", "-D", "warnings"]);
        let status = check.status().context("running cargo")?;
        ensure!(status.success(), "the face {face} does not build alone");
        let packages = packages(root, face)?;
        let (own, foreign): (Vec<&String>, Vec<&String>) =
            packages.iter().partition(|name| name.starts_with("sealane"));
        if let Some(name) = own.iter().find(|name| LABORATORY.contains(&name.as_str())) {
            bail!("the face {face} needs {name}, which is the laboratory's");
        }
        let mut lines = 0;
        for name in &own {
            let folder = name.strip_prefix("sealane-").unwrap_or("cli");
            lines += lines_below(&root.join("crates").join(folder).join("src"))?;
        }
        let name = if face == all { "all" } else { face };
        println!("{name:<10} {:>7} {lines:>8} {:>13}", own.len(), foreign.len());
    }
    Ok(())
}

/// Builds each face alone and runs its tests, or does so for those that are named.
pub(crate) fn test(root: &Path, names: &[&str]) -> Result<()> {
    if let Some(name) = names.iter().find(|name| !FACES.contains(name)) {
        bail!("{name:?} is no face: there are {}", FACES.join(", "));
    }
    let mut failed = Vec::new();
    for face in FACES.into_iter().filter(|face| names.is_empty() || names.contains(face)) {
        println!("\n{face}");
        let selection = ["--package", "sealane", "--no-default-features", "--features", face];
        if let Err(error) = tests::run_programs(root, &selection) {
            println!("{error:#}");
            failed.push(face);
        }
    }
    ensure!(failed.is_empty(), "tests fail where these faces are alone: {}", failed.join(", "));
    Ok(())
}

fn cargo(root: &Path) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root);
    command
}

/// Returns the names of the packages that a face is built from, tests aside.
fn packages(root: &Path, face: &str) -> Result<Vec<String>> {
    let mut tree = cargo(root);
    tree.args([
        "tree",
        "--locked",
        "--package",
        "sealane",
        "--edges",
        "normal",
        "--prefix",
        "none",
        "--format",
        "{p}",
    ]);
    let output =
        tree.args(["--no-default-features", "--features", face]).output().context("running cargo tree")?;
    ensure!(output.status.success(), "cargo tree failed: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).context("cargo tree prints text")?;
    let mut names: Vec<String> =
        text.lines().filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect();
    names.sort_unstable();
    names.dedup();
    ensure!(names.iter().any(|name| name == "sealane"), "cargo tree does not list the program");
    Ok(names)
}

/// Returns the lines of Rust below a folder.
fn lines_below(folder: &Path) -> Result<usize> {
    let mut lines = 0;
    for entry in std::fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            lines += lines_below(&path)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            lines += std::fs::read_to_string(&path)?.lines().count();
        }
    }
    Ok(lines)
}

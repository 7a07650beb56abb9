//! Makes what a release consists of: for each architecture the Debian packages and a program that needs no libraries, a list of
//! the components that they were built of (CycloneDX 1.5), and the digests of all these files.
//!
//! Guarantees: a release is of a commit, without changes beside it; the names of its files tell the version and the
//! architecture; nothing in them tells where or when they were built, so the same commit, compiler and Debian release give the same
//! bytes, which [`twice`] tries from two folders.

use crate::deny::Package;
use crate::package::{self, Architecture, run};
use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The packages of cargo whose programs and libraries are released.
const RELEASED: [&str; 4] = ["sealane", "sealane-lab-cli", "sealane-provider", "sealane-pkcs11"];
/// The file of digests.
const DIGESTS: &str = "SHA256SUMS";

/// Makes a release of the commit that is checked out in `root`, in `target/release-files`.
///
/// # Errors
/// Fails if something is not committed, or cannot be built.
pub(crate) fn make(root: &Path) -> Result<PathBuf> {
    let changes = run(Command::new("git").current_dir(root).args(["status", "--porcelain"]))?;
    ensure!(changes.is_empty(), "a release is of a commit; these are not committed:\n{changes}");
    let folder = root.join("target/release-files");
    if folder.exists() {
        fs::remove_dir_all(&folder).context("emptying the release's folder")?;
    }
    fs::create_dir_all(&folder).context("making the release's folder")?;
    let version = version(root)?;
    for architecture in Architecture::ALL {
        if !architecture.has_compiler() {
            println!("nothing is made for {}: its compiler is not installed", architecture.name());
            continue;
        }
        let program = folder.join(format!("sealane-{version}-{}-linux", architecture.name()));
        keep(&package::static_program(root, architecture)?, &program)?;
        for made in package::debs(root, architecture)? {
            let name = made.file_name().context("a package's name")?;
            keep(&made, &folder.join(name))?;
        }
        let list = folder.join(format!("sealane-{version}-{}.cdx.json", architecture.name()));
        let text = serde_json::to_string_pretty(&components(root, &version, architecture)?)?;
        fs::write(list, text + "\n").context("writing the list of components")?;
    }
    let mut names = fs::read_dir(&folder)
        .context("the release's folder")?
        .map(|entry| Ok(entry?.file_name()))
        .collect::<Result<Vec<_>>>()?;
    names.sort();
    let digests = run(Command::new("sha256sum").current_dir(&folder).args(names))?;
    fs::write(folder.join(DIGESTS), &digests).context("writing the digests")?;
    print!("{digests}");
    Ok(folder)
}

/// Makes a release, and once more from a clone in another folder, and compares the digests.
///
/// # Errors
/// Fails if a release cannot be made, or with the files that differ.
pub(crate) fn twice(root: &Path) -> Result<()> {
    // Both would build in that folder, the second time nothing.
    ensure!(
        std::env::var_os("CARGO_TARGET_DIR").is_none(),
        "unset CARGO_TARGET_DIR: the builds have folders of their own"
    );
    let first = make(root)?;
    let scratch = root.join("target/release-again");
    if scratch.exists() {
        fs::remove_dir_all(&scratch).context("emptying the second clone's folder")?;
    }
    run(Command::new("git").args(["clone", "--quiet"]).arg(root).arg(&scratch))?;
    let second = make(&scratch)?;
    let [first, second] = [first, second].map(|folder| fs::read_to_string(folder.join(DIGESTS)));
    let (first, second) = (first.context("the first digests")?, second.context("the second digests")?);
    let differing: Vec<_> =
        first.lines().filter(|line| !second.lines().any(|other| other == *line)).collect();
    ensure!(differing.is_empty(), "these files differ in a second build:\n{}", differing.join("\n"));
    fs::remove_dir_all(&scratch).context("removing the second clone")?;
    println!("a second build from another folder gives the same bytes");
    Ok(())
}

fn keep(made: &Path, as_file: &Path) -> Result<()> {
    fs::copy(made, as_file).with_context(|| format!("keeping {}", made.display())).map(drop)
}

/// Returns the version of the workspace.
fn version(root: &Path) -> Result<String> {
    let manifest: toml::Table = fs::read_to_string(root.join("Cargo.toml"))?.parse()?;
    let package = manifest.get("workspace").and_then(|workspace| workspace.get("package"));
    let version = package.and_then(|package| package.get("version")).and_then(toml::Value::as_str);
    Ok(version.context("the workspace has no version")?.to_owned())
}

/// Returns the list of what is built into the files for an architecture.
fn components(root: &Path, version: &str, architecture: Architecture) -> Result<Value> {
    let mut list = package::cargo();
    list.current_dir(root).args(["tree", "--locked", "--edges", "normal,build", "--prefix", "none"]);
    list.args(["--format", "{p}|{l}", "--target", &architecture.target("gnu")]);
    list.args(RELEASED.iter().flat_map(|name| ["--package", name]));
    let listing = run(&mut list)?;
    let lines = listing.lines().filter(|line| !line.is_empty());
    let packages = lines.map(Package::read).collect::<Option<BTreeSet<_>>>();
    let packages = packages.context("cargo tree prints something else than packages")?;
    let lock: toml::Table = fs::read_to_string(root.join("Cargo.lock"))?.parse()?;
    Ok(list_of(version, &packages, &checksums(&lock)))
}

/// Returns the SHA-256 digests of the packages' sources, by names and versions.
fn checksums(lock: &toml::Table) -> BTreeMap<(String, String), String> {
    let packages = lock.get("package").and_then(toml::Value::as_array);
    let text = |package: &toml::Value, key| package.get(key).and_then(toml::Value::as_str).map(str::to_owned);
    let all = packages.into_iter().flatten();
    all.filter_map(|package| {
        Some(((text(package, "name")?, text(package, "version")?), text(package, "checksum")?))
    })
    .collect()
}

fn list_of(
    version: &str,
    packages: &BTreeSet<Package>,
    checksums: &BTreeMap<(String, String), String>,
) -> Value {
    let components = packages.iter().map(|Package { name, version, license, .. }| {
        let reference = format!("pkg:cargo/{name}@{version}");
        let mut component = json!({
            "type": "library",
            "bom-ref": reference,
            "name": name,
            "version": version,
            "purl": reference,
            "licenses": [{ "expression": license.replace('/', " OR ") }],
        });
        if let Some(digest) = checksums.get(&(name.clone(), version.clone())) {
            component["hashes"] = json!([{ "alg": "SHA-256", "content": digest }]);
        }
        component
    });
    json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": { "component": { "type": "application", "name": "sealane", "version": version } },
        "components": components.collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn components_have_the_digests_of_the_lock_file() {
        let lock = "[[package]]\nname = 'a'\nversion = '1.0.0'\nchecksum = '00ff'\n\
                    [[package]]\nname = 'a'\nversion = '2.0.0'\nchecksum = '11ff'\n\
                    [[package]]\nname = 'own'\nversion = '0.1.0'\n";
        let lines = ["a v2.0.0|MIT/Apache-2.0", "own v0.1.0 (/srv/own)|MIT OR Apache-2.0"];
        let packages = lines.iter().map(|line| Package::read(line).expect("a package")).collect();
        let list = list_of("0.1.0", &packages, &checksums(&lock.parse().expect("a lock file")));
        let components = list["components"].as_array().expect("components");
        assert_eq!(components.len(), 2);
        assert_eq!(components[0]["purl"], "pkg:cargo/a@2.0.0");
        assert_eq!(components[0]["licenses"][0]["expression"], "MIT OR Apache-2.0");
        assert_eq!(components[0]["hashes"][0]["content"], "11ff");
        assert_eq!(components[1]["hashes"], Value::Null);
        assert_eq!(list["metadata"]["component"]["version"], "0.1.0");
    }
}

//! Checks the packages that are built against `deny.toml`, without another program: licences, banned packages,
//! sources.
//!
//! `cargo deny check bans licenses sources` reads the same file, but must be built to be installed. Advisories
//! require it, and the network.

use anyhow::{Context, Result, bail, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;
use toml::{Table, Value};

/// Prints the packages that are built in several versions, and fails with everything that may not be built.
///
/// # Errors
/// Fails with the findings, or if the packages cannot be listed.
pub(crate) fn run(root: &Path) -> Result<()> {
    let read = |name: &str| std::fs::read_to_string(root.join(name)).with_context(|| name.to_owned());
    let rules: Table = read("deny.toml")?.parse()?;
    let mut findings = BTreeSet::from_iter(wildcards(&read("Cargo.toml")?.parse()?));
    for target in targets(&rules)? {
        let listing = listing(root, target)?;
        let lines = listing.lines().filter(|line| !line.is_empty());
        let packages = lines.map(Package::read).collect::<Option<BTreeSet<_>>>();
        let packages = packages.context("cargo tree prints something else than packages")?;
        for (name, versions) in duplicates(&packages) {
            eprintln!("warning: {target}: {name} is built {} times: {}", versions.len(), versions.join(", "));
        }
        findings.extend(check(&rules, root, &packages)?);
    }
    if findings.is_empty() {
        return Ok(());
    }
    bail!("{}", findings.into_iter().collect::<Vec<_>>().join("\n"))
}

fn targets(rules: &Table) -> Result<Vec<&str>> {
    let targets = rules.get("graph").and_then(|graph| graph.get("targets")).and_then(Value::as_array);
    let triples = targets.into_iter().flatten().filter_map(|target| target.get("triple")?.as_str());
    let triples: Vec<_> = triples.collect();
    ensure!(!triples.is_empty(), "deny.toml names no targets");
    Ok(triples)
}

/// Returns the packages that may be built for `target` with every feature, tests and build scripts included: one per
/// line, with repetitions. The lock file contains more.
fn listing(root: &Path, target: &str) -> Result<String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let arguments = "tree --workspace --all-features --locked --edges normal,build,dev --prefix none --format {p}|{l} --target";
    let output = Command::new(cargo).current_dir(root).args(arguments.split(' ')).arg(target).output()?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "cargo tree failed: {errors}");
    String::from_utf8(output.stdout).context("the output of cargo tree")
}

/// A package that is built.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    /// A folder or a URL; empty for crates.io.
    source: String,
    pub(crate) license: String,
}

impl Package {
    /// Reads `NAME vVERSION (proc-macro) (SOURCE)|LICENCE (*)`.
    pub(crate) fn read(line: &str) -> Option<Self> {
        let (package, license) = line.split_once('|')?;
        let mut words = package.replace(" (proc-macro)", "").replace(" (*)", "");
        let source = words.find(" (").map(|at| words.split_off(at)).unwrap_or_default();
        let (name, version) = words.split_once(" v")?;
        Some(Self {
            name: name.to_owned(),
            version: version.to_owned(),
            source: source.trim_matches([' ', '(', ')']).to_owned(),
            license: license.trim_end_matches(" (*)").to_owned(),
        })
    }
}

fn duplicates(packages: &BTreeSet<Package>) -> BTreeMap<&str, Vec<&str>> {
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in packages {
        versions.entry(&package.name).or_default().push(&package.version);
    }
    versions.retain(|_, versions| versions.len() > 1);
    versions
}

fn strings<'a>(rules: &'a Table, section: &str, key: &str, inner: Option<&str>) -> BTreeSet<&'a str> {
    let list = rules.get(section).and_then(|section| section.get(key)).and_then(Value::as_array);
    let text = |value: &'a Value| inner.map_or(Some(value), |inner| value.get(inner)).and_then(Value::as_str);
    list.into_iter().flatten().filter_map(text).collect()
}

/// Returns the dependencies of the workspace that allow any version.
fn wildcards(manifest: &Table) -> Vec<String> {
    let dependencies = manifest.get("workspace").and_then(|workspace| workspace.get("dependencies"));
    let dependencies = dependencies.and_then(Value::as_table).into_iter().flatten();
    let is_any = |value: &Value| value.as_str().or_else(|| value.get("version")?.as_str()) == Some("*");
    let found = dependencies.filter(|(_, value)| is_any(value));
    found.map(|(name, _)| format!("any version of {name} is taken")).collect()
}

/// Returns findings in the packages that are built.
fn check(rules: &Table, root: &Path, packages: &BTreeSet<Package>) -> Result<Vec<String>> {
    let allowed = strings(rules, "licenses", "allow", None);
    let banned = strings(rules, "bans", "deny", Some("crate"));
    ensure!(!allowed.is_empty() && !banned.is_empty(), "deny.toml allows no licence or bans no package");
    let mut findings = Vec::new();
    for Package { name, source, license, .. } in packages {
        if !is_allowed(license, &allowed) {
            findings.push(format!("{name}: the licence {license:?} is not among those allowed"));
        }
        if banned.contains(name.as_str()) {
            findings.push(format!("{name} is banned"));
        }
        if !source.is_empty() && !Path::new(source).starts_with(root) {
            findings.push(format!("{name} comes from {source}"));
        }
    }
    Ok(findings)
}

/// Returns whether an SPDX expression can be met with the licences `allowed`. `MIT/Apache-2.0` is the older way to
/// write `OR`.
fn is_allowed(expression: &str, allowed: &BTreeSet<&str>) -> bool {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let mut words = spaced.split_whitespace().peekable();
    either(&mut words, allowed) == Some(true) && words.next().is_none()
}

type Words<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

fn either(words: &mut Words<'_>, allowed: &BTreeSet<&str>) -> Option<bool> {
    let mut met = both(words, allowed)?;
    while words.next_if_eq(&"OR").is_some() {
        met |= both(words, allowed)?;
    }
    Some(met)
}

fn both(words: &mut Words<'_>, allowed: &BTreeSet<&str>) -> Option<bool> {
    let mut met = one(words, allowed)?;
    while words.next_if_eq(&"AND").is_some() {
        met &= one(words, allowed)?;
    }
    Some(met)
}

fn one(words: &mut Words<'_>, allowed: &BTreeSet<&str>) -> Option<bool> {
    let word = words.next()?;
    if word == "(" {
        let met = either(words, allowed)?;
        return (words.next()? == ")").then_some(met);
    }
    if words.next_if_eq(&"WITH").is_some() {
        return Some(allowed.contains(format!("{word} WITH {}", words.next()?).as_str()));
    }
    Some(allowed.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_met() {
        let allowed = BTreeSet::from(["MIT", "ISC", "Apache-2.0 WITH LLVM-exception"]);
        for met in [
            "MIT",
            "GPL-3.0 OR MIT",
            "MIT/Apache-2.0",
            "(MIT OR Apache-2.0) AND ISC",
            "Apache-2.0 WITH LLVM-exception",
        ] {
            assert!(is_allowed(met, &allowed), "{met}");
        }
        for unmet in ["", "GPL-3.0", "MIT AND GPL-3.0", "Apache-2.0", "MIT OR", "(MIT", "MIT MIT", "MIT)"] {
            assert!(!is_allowed(unmet, &allowed), "{unmet}");
        }
    }

    #[test]
    fn what_may_not_be_built_is_found() {
        let rules = "[licenses]\nallow = ['MIT']\n[bans]\ndeny = [{ crate = 'ring' }]\n".parse().unwrap();
        for (line, count) in [
            ("fine v1.0.0|MIT", 0),
            ("derive v1.0.0 (proc-macro)|MIT (*)", 0),
            ("own v0.1.0 (/srv/own/crates/own)|MIT", 0),
            ("closed v1.0.0|BUSL-1.1", 1),
            ("silent v1.0.0|", 1),
            ("ring v0.17.0|MIT", 1),
            ("ring v0.17.0|ISC", 2),
            ("elsewhere v1.0.0 (https://example.org/x#0123)|MIT", 1),
            ("beside v1.0.0 (proc-macro) (/srv/other)|MIT", 1),
        ] {
            let package = Package::read(line).unwrap();
            let found = check(&rules, Path::new("/srv/own"), &BTreeSet::from([package])).unwrap();
            assert_eq!(found.len(), count, "{line}: {found:?}");
        }
        let twice = ["x v1.0.0|MIT", "x v2.0.0|MIT", "y v1.0.0|MIT"].map(|line| Package::read(line).unwrap());
        assert_eq!(duplicates(&BTreeSet::from(twice)), BTreeMap::from([("x", vec!["1.0.0", "2.0.0"])]));
        let manifest =
            "[workspace.dependencies]\na = '*'\nb = { version = '*' }\nc = '1'\nd = { path = 'd' }\n";
        assert_eq!(wildcards(&manifest.parse().unwrap()).len(), 2);
        assert_eq!(Package::read("no package"), None);
    }
}

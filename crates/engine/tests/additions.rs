//! Checks that the rules of CONTRIBUTING for adding a suite and an engine hold for the source tree.

use std::{fs, path::Path};

use sealane_engine::{KINDS, Suite};

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns all Rust sources below a folder of the workspace, by path.
fn sources(folder: &str) -> Vec<(String, String)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut found = Vec::new();
    for entry in fs::read_dir(root.join(folder)).unwrap() {
        let entry = entry.unwrap();
        let path = format!("{folder}/{}", entry.file_name().into_string().unwrap());
        if entry.file_type().unwrap().is_dir() {
            found.extend(sources(&path));
        } else if path.ends_with(".rs") {
            let text = read(&root.join(&path));
            found.push((path, text));
        }
    }
    found
}

/// Returns the position of each item that only tests have, and its first line.
fn only_in_tests(text: &str) -> impl Iterator<Item = (usize, &str)> {
    text.match_indices("#[cfg(test)]\n").filter_map(|(at, _)| {
        let line = text[at..].lines().map(str::trim_start).find(|line| !line.starts_with("#["))?;
        Some((at, line))
    })
}

/// Returns the shipped code of all crates, without test files and without tests at the end of a file.
fn shipped() -> Vec<(String, String)> {
    let is_source = |(path, _): &(String, String)| path.split('/').nth(2) == Some("src");
    let mut all: Vec<_> = sources("crates").into_iter().filter(is_source).collect();
    let mut tests = Vec::new();
    for (path, text) in &all {
        let folder =
            ["/lib.rs", "/main.rs", "/mod.rs", ".rs"].into_iter().find_map(|end| path.strip_suffix(end));
        for (_, item) in only_in_tests(text) {
            if let Some(name) = item.strip_prefix("mod ").and_then(|rest| rest.strip_suffix(';')) {
                tests.push(format!("{}/{name}", folder.unwrap()));
            }
        }
    }
    let is_of_tests = |path: &str| {
        tests.iter().any(|test| {
            path.strip_prefix(test.as_str()).is_some_and(|rest| rest == ".rs" || rest.starts_with('/'))
        })
    };
    all.retain(|(path, _)| !is_of_tests(path));
    for (_, text) in &mut all {
        let end = only_in_tests(text).find(|(_, item)| item.ends_with("mod tests {")).map(|(at, _)| at);
        text.truncate(end.unwrap_or(text.len()));
    }
    all
}

fn sayers<'a>(sources: &'a [(String, String)], word: &str) -> Vec<&'a str> {
    sources.iter().filter(|(_, text)| text.contains(word)).map(|(path, _)| path.as_str()).collect()
}

#[test]
fn a_suite_is_its_row() {
    // The default suites of the levels are named where these defaults are decided; all other suites are named only in
    // their rows.
    let usual = [Suite::Null, Suite::Aes128Gcm, Suite::ChaCha20Poly1305, Suite::Aes128Gmac];
    let all = shipped();
    let table = "crates/engine/src/record/suite.rs";
    for suite in Suite::ALL.into_iter().filter(|suite| !usual.contains(suite)) {
        assert_eq!(sayers(&all, &format!("Suite::{suite:?}")), [""; 0], "{suite}");
        assert!(sayers(&all, &format!("{suite:?} = Row")).contains(&table), "{suite}");
    }
}

#[test]
fn an_engine_is_its_file_and_its_lines() {
    let all = shipped();
    let mut engines = Vec::new();
    for (path, text) in all.iter().filter(|(path, _)| path.starts_with("crates/engine/src/")) {
        engines.extend(text.lines().filter_map(|line| {
            let name = line.strip_prefix("impl Engine for ")?.strip_suffix(" {")?;
            Some((path.as_str(), name))
        }));
    }
    assert_eq!(engines.len(), 4, "{engines:?}");
    let tests = read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/common/mod.rs"));
    let listed = tests.split("fn engines()").nth(1).and_then(|rest| rest.split("\n}").next()).unwrap();
    for (path, name) in engines {
        // The service, as an engine, is tested where the service is.
        assert!(name == "Process" || listed.contains(&format!("{name}::")), "{name} runs all tests");
        let module = path.trim_start_matches("crates/engine/src/").trim_end_matches(".rs");
        // The crate `sealane_lanes` is another one.
        let says = |text: &str| text.replace("sealane_lanes::", "").contains(&format!("{module}::"));
        let others = all
            .iter()
            .filter(|(other, text)| other.starts_with("crates/engine/src/") && other != path && says(text));
        let within: Vec<&str> = others.map(|(other, _)| other.as_str()).collect();
        // A scheduler can be chosen by each of its policies.
        let kinds: &[&str] = match module {
            "scheduler" => &["hybrid", "round-robin", "by-size", "fail-over"],
            "process" => &["service"],
            _ => &[module],
        };
        for name in kinds {
            assert_eq!(KINDS.iter().filter(|kind| kind.name == *name).count(), 1, "{name} can be chosen");
        }
        // `inline` also measures the costs that others report.
        let expected: &[&str] = if module == "inline" {
            &[
                "crates/engine/src/choice.rs",
                "crates/engine/src/lanes.rs",
                "crates/engine/src/lib.rs",
                "crates/engine/src/process.rs",
            ]
        } else {
            &["crates/engine/src/choice.rs", "crates/engine/src/lib.rs"]
        };
        let mut within = within;
        within.sort_unstable();
        assert_eq!(within, expected, "{name}");
    }
}

#[test]
fn contributing_names_these_files() {
    let guide = read(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../CONTRIBUTING.md"));
    for path in ["src/record/suite.rs", "src/inline.rs", "tests/common/mod.rs"] {
        assert!(guide.contains(&format!("crates/engine/{path}")), "{path}");
    }
}

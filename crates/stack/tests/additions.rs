//! Checks that the rules of CONTRIBUTING for additions hold for the source tree.

use std::{fs, path::Path};

fn read(path: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the Rust sources below a folder, with their paths from the crate.
fn sources(folder: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)).unwrap() {
        let entry = entry.unwrap();
        let path = format!("{folder}/{}", entry.file_name().into_string().unwrap());
        if entry.file_type().unwrap().is_dir() {
            found.extend(sources(&path));
        } else if path.ends_with(".rs") {
            let text = read(&path);
            found.push((path, text));
        }
    }
    found
}

/// Returns the files other than `own` that contain `word`.
fn others(sources: &[(String, String)], own: &str, word: &str) -> Vec<String> {
    let says = |(path, text): &&(String, String)| path != own && text.contains(word);
    sources.iter().filter(says).map(|(path, _)| path.clone()).collect()
}

#[test]
fn a_layer_is_its_file_and_one_line() {
    let (list, all) = ("src/layers/mod.rs", sources("src"));
    let text = read(list);
    let kinds = text.split("KINDS: &[Kind] =").nth(1).and_then(|rest| rest.split(';').next()).unwrap();
    for (path, text) in all.iter().filter(|(path, _)| path.starts_with("src/layers/") && path != list) {
        let line = format!("{}::KIND", path.trim_start_matches("src/layers/").trim_end_matches(".rs"));
        assert!(text.contains("pub(crate) const KIND: Kind"), "{path}");
        assert_eq!(kinds.matches(&line).count(), 1, "{path} has its line");
        assert_eq!(others(&all, list, &line), [""; 0], "and no other");
    }
}

#[test]
fn a_placement_that_cuts_nothing_is_its_file() {
    let all = sources("src");
    for variant in ["Placement::Connection", "Placement::Layer"] {
        assert_eq!(others(&all, "", variant), [""; 0], "{variant}");
    }
    for path in
        ["Placement::Function", "Placement::Block"].iter().flat_map(|variant| others(&all, "", variant))
    {
        assert!(["src/run/lane.rs", "src/run/mod.rs"].contains(&path.as_str()), "{path}");
    }
}

#[test]
fn contributing_names_these_files() {
    let guide = read("../../CONTRIBUTING.md");
    for path in [
        "stack/src/layers/mod.rs",
        "lanes/src/placement.rs",
        "stack/src/parts.rs",
        "stack/src/run/lane.rs",
        "stack/tests/stacks.rs",
    ] {
        assert!(guide.contains(&format!("crates/{path}")), "{path}");
        read(&format!("../{path}"));
    }
}

//! Tests the instructions in CONTRIBUTING for adding an algorithm or a study: a copy of the workspace gets a block
//! cipher and a digest that the catalogue does not have, each a folder and a line, and a study that the lab does not
//! have, a file and a line; and the copy's own tests run them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A folder, the line of the list after which its line is inserted, and its line.
const SAMPLES: [(&str, &str, &str); 2] = [
    ("xtea", "idea {", r#"xtea { Xtea = XTEA(Key) "XTEA, Needham and Wheeler 1997." }"#),
    ("adler", "bucket {", r#"adler { Adler32 = ADLER_32 "Adler-32, RFC 1950." }"#),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Writes files that differ, so that unchanged files are compiled only once.
fn put(path: &Path, content: &[u8]) {
    if fs::read(path).is_ok_and(|found| found == content) {
        return;
    }
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

/// Returns the file's content in the copy: the list with the additional lines, and a manifest in which our own crates
/// are optimised less, because the copy is built for a few short tests.
fn content(from: &Path, found: Vec<u8>) -> Vec<u8> {
    if from.ends_with("transform/src/list.rs") {
        let mut list = String::from_utf8(found).unwrap();
        for (_, behind, line) in SAMPLES {
            let at = list.find(behind).unwrap_or_else(|| panic!("a line of {behind}"));
            let end = at + list[at..].find('\n').unwrap();
            list.insert_str(end, &format!("\n{line}"));
        }
        return list.into_bytes();
    }
    if from.ends_with("lab/src/lib.rs") {
        let list = String::from_utf8(found).unwrap();
        let (before, behind) = list.split_once("families! {\n").expect("the list of studies");
        return format!("{before}families! {{\n    coin\n{behind}").into_bytes();
    }
    if from == root().join("Cargo.toml") {
        let manifest = String::from_utf8(found).unwrap();
        let (before, profiles) = manifest.split_once("[profile.dev.package]\n").expect("profiles of crates");
        let lines = profiles.split_inclusive('\n').map(|line| match line.starts_with("sealane-") {
            true => line.replace("opt-level = 2", "opt-level = 0").replace("opt-level = 3", "opt-level = 1"),
            false => line.to_owned(),
        });
        return format!("{before}[profile.dev.package]\n{}", lines.collect::<String>()).into_bytes();
    }
    found
}

/// Makes `to` a copy of `from`; of an earlier state only entries remain for which `keeps` is true.
fn copy(from: &Path, to: &Path, keeps: &dyn Fn(&str) -> bool) {
    if from.is_file() {
        let found = fs::read(from).unwrap();
        put(to, &content(from, found));
        // A crate that is the same in both is not compiled again.
        let modified = from.metadata().unwrap().modified().unwrap();
        return fs::File::options().append(true).open(to).unwrap().set_modified(modified).unwrap();
    }
    for entry in fs::read_dir(to).into_iter().flatten() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_str().unwrap();
        if keeps(name) || from.join(name).exists() {
            continue;
        }
        if path.is_dir() { fs::remove_dir_all(&path).unwrap() } else { fs::remove_file(&path).unwrap() }
    }
    for entry in fs::read_dir(from).unwrap() {
        let name = entry.unwrap().file_name();
        copy(&from.join(&name), &to.join(&name), keeps);
    }
}

#[test]
fn a_cipher_and_a_digest_take_a_folder_and_a_line_each_and_a_study_a_file_and_a_line() {
    let built = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let workspace = built.join("additions");
    let is_sample = |name: &str| {
        ["samples.rs", "coin.rs"].contains(&name) || SAMPLES.iter().any(|(folder, ..)| *folder == name)
    };
    let fuzz = ["fuzz/Cargo.toml", "fuzz/src", "fuzz/fuzz_targets"];
    for part in ["Cargo.toml", "Cargo.lock", "crates", "testing", "xtask"].into_iter().chain(fuzz) {
        copy(&root().join(part), &workspace.join(part), &is_sample);
    }
    let source = workspace.join("crates/transform/src");
    for (folder, ..) in SAMPLES {
        copy(&root().join("crates/lab/tests/additions").join(folder), &source.join(folder), &is_sample);
    }

    let coin = root().join("crates/lab/tests/additions/coin.rs");
    put(&workspace.join("crates/lab/src/coin.rs"), &fs::read(coin).unwrap());
    let vectors = root().join("crates/lab/tests/additions/samples.rs");
    put(&workspace.join("crates/transform/tests/samples.rs"), &fs::read(vectors).unwrap());

    // These tests cover published vectors, all tiers, guard pages, and the measurement of the catalogue.
    // Dependencies have the features that the whole workspace asks for, so that they are built already.
    let tests = "--workspace --exclude sealane --test samples --test ciphers --test digests --test guards --test catalogue";
    let filters = "published every_length stay_within every_algorithm_is_measured every_short_study";
    let output = Command::new(env!("CARGO"))
        .args(["test", "--offline", "--locked", "--manifest-path"])
        .arg(workspace.join("Cargo.toml"))
        .args(tests.split(' '))
        .args(["--", "--show-output"])
        .args(filters.split(' '))
        .env("CARGO_TARGET_DIR", built.parent().unwrap())
        .output()
        .unwrap();
    let (told, complaint) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{complaint}\n{told}");
    for wanted in [
        "published_blocks_of_xtea ... ok",
        "a_published_sum_of_adler_32 ... ok",
        "every_length_to_three_blocks_in_one_batch ... ok",
        "ciphers_stay_within_their_buffers ... ok",
        "digests_stay_within_their_messages ... ok",
        "measured xtea-cbc",
        "measured xtea-ctr",
        "measured adler-32",
        "has a table: Heads and tails",
    ] {
        assert!(told.contains(wanted), "{wanted}\n{told}");
    }
}

#[test]
fn contributing_names_the_lists() {
    let guide = fs::read_to_string(root().join("CONTRIBUTING.md")).unwrap();
    assert!(guide.contains("crates/transform/src/list.rs") && guide.contains("crates/lab/src/lib.rs"));
}

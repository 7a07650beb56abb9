//! What CONTRIBUTING says of adding an algorithm, done: a copy of the workspace gets a block cipher and a digest that the
//! catalogue does not have, each a folder and a line, and the copy's own tests run them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Folder, the line of the list behind which its line comes, and its line.
const SAMPLES: [(&str, &str, &str); 2] = [
    ("xtea", "idea {", r#"xtea { Xtea = XTEA(Key) "XTEA, Needham and Wheeler 1997." }"#),
    ("adler", "bucket {", r#"adler { Adler32 = ADLER_32 "Adler-32, RFC 1950." }"#),
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Writes what is not there already: what is built of unchanged files is built once.
fn put(path: &Path, content: &[u8]) {
    if fs::read(path).is_ok_and(|found| found == content) {
        return;
    }
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, content).unwrap();
}

/// Makes `to` what `from` is; of an earlier state of the tree nothing stays but what `keeps`.
fn copy(from: &Path, to: &Path, keeps: &dyn Fn(&str) -> bool) {
    if from.is_file() {
        return put(to, &fs::read(from).unwrap());
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
fn a_cipher_and_a_digest_take_a_folder_and_a_line_each() {
    let built = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let workspace = built.join("additions");
    let is_sample = |name: &str| SAMPLES.iter().any(|(folder, ..)| *folder == name);
    for part in ["Cargo.toml", "Cargo.lock", "crates", "testing", "xtask"] {
        copy(&root().join(part), &workspace.join(part), &is_sample);
    }
    let source = workspace.join("crates/transform/src");
    let mut list = fs::read_to_string(source.join("list.rs")).unwrap();
    for (folder, behind, line) in SAMPLES {
        copy(&root().join("crates/lab/tests/additions").join(folder), &source.join(folder), &is_sample);
        let at = list.find(behind).unwrap_or_else(|| panic!("a line of {behind}"));
        let end = at + list[at..].find('\n').unwrap();
        list.insert_str(end, &format!("\n{line}"));
    }
    fs::write(source.join("list.rs"), list).unwrap();

    // Published vectors, all tiers, guard pages; then what measures the catalogue.
    let tests = "-p sealane-transform -p sealane-lab --lib --test ciphers --test digests --test guards --test catalogue";
    let filters = "xtea:: adler:: every_name every_length stay_within every_algorithm_is_measured";
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
        "xtea::tests::a_published_block ... ok",
        "adler::tests::a_published_sum ... ok",
        "every_length_to_three_blocks_in_one_batch ... ok",
        "ciphers_stay_within_their_buffers ... ok",
        "digests_stay_within_their_messages ... ok",
        "measured xtea-cbc",
        "measured xtea-ctr",
        "measured adler-32",
    ] {
        assert!(told.contains(wanted), "{wanted}\n{told}");
    }
}

#[test]
fn contributing_names_the_list() {
    let guide = fs::read_to_string(root().join("CONTRIBUTING.md")).unwrap();
    assert!(guide.contains("crates/transform/src/list.rs"));
}

//! A rule about visibility: a function or constant is public only if another file names it. The compiler finds dead
//! private code itself; it takes public code for used, however many files of the workspace have no need of it.
//!
//! The rule compares names, not meanings, so that an item with a common name may escape it. Types are exempt: the
//! compiler wants them public wherever a public signature names them.

use super::Finding;
use super::lexer::split;
use super::tree::File;
use std::collections::HashMap;

/// Returns findings in the sources of the crates.
pub(crate) fn check(files: &[File]) -> Vec<Finding> {
    let sources: Vec<(&File, String)> =
        files.iter().filter(|file| file.is_rust()).map(|file| (file, split(&file.text).code)).collect();
    let mut homes: HashMap<&str, Home> = HashMap::new();
    for (number, (_, code)) in sources.iter().enumerate() {
        for word in code.split(|letter: char| !letter.is_alphanumeric() && letter != '_') {
            let home = homes.entry(word).or_insert(Home::One(number));
            if *home != Home::One(number) {
                *home = Home::Several;
            }
        }
    }
    let mut findings = Vec::new();
    for (file, code) in sources.iter().filter(|(file, _)| is_product(&file.path)) {
        let mut in_module = false;
        for (line, text) in (1..).zip(code.lines()) {
            in_module = if in_module { text != "}" } else { opens_module(text) };
            let Some(name) = public_item(text).filter(|_| !in_module) else { continue };
            if matches!(homes[name], Home::One(_)) {
                let message = format!("{name} is public, but no other file names it");
                findings.push(Finding::new(&file.path, line, "visibility", message));
            }
        }
    }
    findings
}

/// The files in which a word occurs.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Home {
    One(usize),
    Several,
}

fn is_product(path: &str) -> bool {
    path.starts_with("xtask/") || path.starts_with("crates/") && path.contains("/src/")
}

/// Returns whether the line opens a module within its file. Its items are public for the file itself.
fn opens_module(text: &str) -> bool {
    let text =
        text.trim_start_matches("pub(crate) ").trim_start_matches("pub(super) ").trim_start_matches("pub ");
    text.starts_with("mod ") && text.ends_with('{')
}

/// Returns the name of the function, constant or static that the line makes public. Functions for callers in C have
/// no caller here.
fn public_item(text: &str) -> Option<&str> {
    let text = text.trim_start().strip_prefix("pub").filter(|text| text.starts_with([' ', '(']))?;
    let mut words = match text.strip_prefix('(') {
        Some(text) => text.split_once(')')?.1,
        None => text,
    }
    .split_whitespace();
    let mut kind = words.next()?;
    // `const fn`, `unsafe fn`, `static mut`.
    let mut word = words.next()?;
    while ["const", "unsafe", "async", "mut", "fn"].contains(&word) {
        (kind, word) = (word, words.next()?);
    }
    let end = word.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(word.len());
    (["fn", "const", "static", "mut"].contains(&kind) && end > 0 && &word[..end] != "_")
        .then_some(&word[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> File {
        File { path: path.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn public_items_are_recognized() {
        for (text, name) in [
            ("pub fn one(", Some("one")),
            ("    pub(crate) const fn two<T>(", Some("two")),
            ("pub(in crate::a) const THREE: u8", Some("THREE")),
            ("pub unsafe fn four()", Some("four")),
            ("pub static mut FIVE: u8", Some("FIVE")),
            ("pub extern \"C\" fn six()", None),
            ("pub struct Seven;", None),
            ("fn eight()", None),
            ("pub use nine::ten;", None),
            ("public const ELEVEN", None),
        ] {
            assert_eq!(public_item(text), name, "{text}");
        }
    }

    #[test]
    fn a_public_item_that_one_file_names_is_found() {
        let used = file("crates/a/tests/b.rs", "fn b() { used(); }");
        let text = "pub fn used() {}\npub fn unused() {}\nmod inner {\n    pub fn fine() {}\n}\nfn c() { inner::fine(); }\n";
        let found = check(&[file("crates/a/src/lib.rs", text), used]);
        assert_eq!(found.len(), 1);
        assert_eq!(
            found[0].to_string(),
            "crates/a/src/lib.rs:2: unused is public, but no other file names it [visibility]"
        );
    }
}

//! Rules about the text of source files.

use super::Finding;
use super::exceptions::Exceptions;
use super::lexer::{has_word, split};
use super::tree::File;
use std::path::Path;

/// A longer file should be split by the guarantees of its parts.
const LINES_MAX: usize = 800;

/// The number of lines above an `unsafe` block within which its reason must end: attributes and a statement broken
/// over lines fit.
const SAFETY_DISTANCE_LINES: usize = 6;

/// Words that mark unfinished work. The words are spliced, so that this file may name them.
const UNFINISHED_WORDS: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("X", "XX")];

/// Code that is unfinished or is not run.
const UNFINISHED_CODE: &[&str] =
    &[concat!("todo", "!"), concat!("unimplemented", "!"), concat!("dbg", "!"), concat!("#[", "ignore")];

/// The wrong way to report a skipped test, because the harness hides the output of a test that passes.
const SILENT_SKIP: &str = concat!("println!(\"skip", "ped");

/// Folders that contain people's own files.
const HOME_FOLDERS: &[&str] = &[concat!("/ho", "me/"), concat!("/ro", "ot/"), concat!("/Us", "ers/")];

/// Openings of sentences that lack a subject, such as a "what" that is the subject of the verb behind it.
const HEADLESS: &[&str] = &["What ", "Who ", "Whose ", "Where ", "Of "];

/// Functions that read the environment.
const ENVIRONMENT: &[&str] = &["env::var", "env::temp_dir", "env::home_dir"];

/// Returns findings in the text of `files`. `root` is the workspace's own folder, which no file may name.
pub(crate) fn check(files: &[File], root: &Path, exceptions: &Exceptions) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files {
        lines(file, root, exceptions, &mut findings);
        if file.is_rust() {
            rust(file, exceptions, &mut findings);
        }
    }
    stale(files, exceptions, &mut findings);
    findings
}

fn lines(file: &File, root: &Path, exceptions: &Exceptions, findings: &mut Vec<Finding>) {
    let lock_file = file.name() == "Cargo.lock";
    let root = root.to_string_lossy();
    // A workspace in `/` or in a folder directly below it has a name that cannot be distinguished from other text.
    let root = (root.matches('/').count() >= 2).then_some(root);
    for (line, text) in (1..).zip(file.text.lines()) {
        if lock_file {
            continue;
        }
        for word in UNFINISHED_WORDS.iter().filter(|word| has_word(text, word)) {
            findings.push(Finding::new(&file.path, line, "unfinished", format!("the word {word}")));
        }
        let homes = HOME_FOLDERS.iter().filter(|home| text.contains(**home));
        if !exceptions.home_paths.names(&file.path) {
            for home in homes {
                findings.push(Finding::new(&file.path, line, "paths", format!("a path below {home}")));
            }
        }
        if root.as_ref().is_some_and(|root| text.contains(root.as_ref())) {
            findings.push(Finding::new(&file.path, line, "paths", "the path of this very checkout"));
        }
        if file.is_rust() && text.contains(SILENT_SKIP) && !file.path.contains("/benches/") {
            findings.push(Finding::new(&file.path, line, "skips", "only testing/skip.rs says so visibly"));
        }
        if file.is_rust() && text.contains('\t') {
            findings.push(Finding::new(&file.path, line, "blanks", "a tab"));
        }
        if file.is_rust() && text.ends_with([' ', '\t', '\r']) {
            findings.push(Finding::new(&file.path, line, "blanks", "blanks at the end of the line"));
        }
    }
}

fn rust(file: &File, exceptions: &Exceptions, findings: &mut Vec<Finding>) {
    let mut find = |line, rule, message: String| findings.push(Finding::new(&file.path, line, rule, message));
    let halves = split(&file.text);
    for (line, code) in (1..).zip(halves.code.lines()) {
        for mark in UNFINISHED_CODE.iter().filter(|mark| has_mark(code, mark)) {
            find(line, "unfinished", format!("{mark}..."));
        }
    }
    let reads = reads_environment(file, &halves.code);
    if let Some(line) = reads.filter(|_| !exceptions.environment.names(&file.path)) {
        find(line, "environment", "read above, by the programs, and passed on as a value".to_owned());
    }
    let length = file.text.lines().count();
    if length > LINES_MAX && !exceptions.long_files.names(&file.path) {
        find(0, "length", format!("{length} lines; more than {LINES_MAX} need a listed reason"));
    }
    if file.path.contains("/src/") && !file.text.starts_with("//!") {
        find(1, "module doc", "the file does not open with `//!`, what it guarantees".to_owned());
    }
    let is_root = file.path.ends_with("/src/lib.rs") || file.path.ends_with("/src/main.rs");
    if is_root
        && !["deny", "forbid"].iter().any(|level| halves.code.contains(&format!("#![{level}(unsafe_code)]")))
    {
        find(1, "unsafe", "the crate root neither denies nor forbids unsafe_code".to_owned());
    }
    let comments: Vec<&str> = halves.comments.lines().collect();
    for (line, comment) in (1..).zip(&comments) {
        let sentence = comment.trim_start().trim_start_matches(['/', '!']).trim_start();
        if let Some(opening) = HEADLESS.iter().find(|opening| sentence.starts_with(**opening)) {
            find(line, "sentences", format!("{:?} opens a sentence without a subject", opening.trim_end()));
        }
    }
    let lines: Vec<(usize, &str)> =
        halves.code.lines().enumerate().filter(|(_, code)| has_word(code, "unsafe")).collect();
    if let Some((index, _)) = lines.first().filter(|_| !exceptions.unsafe_files.names(&file.path)) {
        find(index + 1, "unsafe", "unsafe outside the listed leaf modules".to_owned());
    }
    for (index, code) in lines {
        let from = index.saturating_sub(SAFETY_DISTANCE_LINES);
        let reasoned =
            comments[from..=index].iter().any(|text| text.contains("SAFETY:") || text.contains("# Safety"));
        if opens_block(code) && !reasoned {
            find(index + 1, "unsafe", "an unsafe block without `// SAFETY:`".to_owned());
        }
    }
}

/// Returns the line in which a source file below `cli` reads the environment.
fn reads_environment(file: &File, code: &str) -> Option<usize> {
    let is_below = file.path.starts_with("crates/") && file.path.contains("/src/");
    let programs = ["crates/cli/", "crates/lab-cli/", "crates/terminal/"];
    let is_below = is_below && !programs.iter().any(|program| file.path.starts_with(program));
    let reads = |line: &str| ENVIRONMENT.iter().any(|call| line.contains(call));
    (1..).zip(code.lines()).find_map(|(number, line)| (is_below && reads(line)).then_some(number))
}

/// Returns whether a line of code uses the macro or attribute `mark`, without a prefix such as `my_`.
fn has_mark(code: &str, mark: &str) -> bool {
    code.match_indices(mark).any(|(at, _)| {
        mark.starts_with('#')
            || !code[..at].ends_with(|before: char| before.is_alphanumeric() || before == '_')
    })
}

/// Returns whether the line opens an unsafe block or an unsafe `impl`, which both make a claim that needs a reason.
/// An `unsafe fn` or `unsafe extern` makes no claim, nor does the type of such a function.
fn opens_block(code: &str) -> bool {
    code.match_indices("unsafe").any(|(at, word)| {
        let after = code[at + word.len()..].trim_start();
        after.starts_with('{') || after.starts_with("impl")
    })
}

/// Finds exceptions that are no longer needed.
fn stale(files: &[File], exceptions: &Exceptions, findings: &mut Vec<Finding>) {
    let find = |path: &str| files.iter().find(|file| file.path == path);
    let mut check = |list: super::exceptions::List, rule, needed: &dyn Fn(&File) -> bool| {
        for &(path, _) in list.0 {
            if !find(path).is_some_and(needed) {
                findings.push(Finding::new(path, 0, rule, "listed as an exception, but needs none"));
            }
        }
    };
    check(exceptions.unsafe_files, "unsafe", &|file| has_word(&split(&file.text).code, "unsafe"));
    check(exceptions.long_files, "length", &|file| file.text.lines().count() > LINES_MAX);
    check(exceptions.environment, "environment", &|file| {
        reads_environment(file, &split(&file.text).code).is_some()
    });
    check(exceptions.home_paths, "paths", &|file| HOME_FOLDERS.iter().any(|home| file.text.contains(home)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tidy::exceptions::List;

    /// Checks that exactly these rules fire on one file, in order, without repetition.
    #[track_caller]
    fn check_one(path: &str, text: &str, expected: &[&str]) {
        let file = File { path: path.to_owned(), text: text.to_owned() };
        let mut rules: Vec<&str> = check(&[file], Path::new("/srv/checkout"), &Exceptions::NONE)
            .iter()
            .map(|found| found.rule)
            .collect();
        rules.sort_unstable();
        rules.dedup();
        assert_eq!(rules, expected, "{path}: {text:?}");
    }

    const MODULE: &str = "crates/a/src/part.rs";

    #[test]
    fn a_clean_file_has_no_finding() {
        check_one(
            MODULE,
            "//! Part.\n\nfn f<'a>(_: &'a str) -> &'static str {\n    \"unsafe\" // unsafe\n}\n",
            &[],
        );
        check_one("crates/a/src/lib.rs", "//! A.\n#![deny(unsafe_code)]\n", &[]);
        check_one("README.md", "# Title\n\ttext \n", &[]);
    }

    #[test]
    fn unfinished_work_is_found() {
        for word in UNFINISHED_WORDS {
            check_one(MODULE, &format!("//! Part.\n// {word}: later\n"), &["unfinished"]);
            check_one("docs/a.md", &format!("{word}\n"), &["unfinished"]);
            check_one(MODULE, &format!("//! Part.\n// {word}{word}\n"), &[]);
        }
        for code in UNFINISHED_CODE {
            check_one(MODULE, &format!("//! Part.\nfn f() {{ {code}() }}\n"), &["unfinished"]);
            check_one(MODULE, &format!("//! Part, without {code}.\n"), &[]);
        }
        check_one(MODULE, "//! Part.\nmy_dbg!();\n", &[]);
    }

    #[test]
    fn sentences_without_a_subject_are_found() {
        for opening in HEADLESS {
            check_one(MODULE, &format!("//! Part.\n/// {opening}is meant.\nfn f() {{}}\n"), &["sentences"]);
            check_one(MODULE, &format!("//! Part.\nfn f() {{}} // {opening}is meant.\n"), &["sentences"]);
            check_one(MODULE, &format!("//! Part.\nconst A: &str = \"{opening}\";\n"), &[]);
        }
        check_one(MODULE, "//! Part.\n// Whatever follows is read.\n", &[]);
    }

    #[test]
    fn silent_skips_are_found() {
        let text = format!("{}: no peer\");\n", SILENT_SKIP);
        check_one("crates/a/tests/peers.rs", &text, &["skips"]);
        check_one("crates/a/benches/peers.rs", &text, &[]);
    }

    #[test]
    fn blanks_are_found_in_rust_only() {
        check_one(MODULE, "//! Part. \n", &["blanks"]);
        check_one(MODULE, "//! Part.\n\tfn f() {}\n", &["blanks"]);
        check_one("Makefile", "a:\n\tb\n", &[]);
    }

    #[test]
    fn paths_of_one_machine_are_found() {
        for home in HOME_FOLDERS {
            check_one("README.md", &format!("see {home}me/notes\n"), &["paths"]);
        }
        check_one("README.md", "cd /srv/checkout/crates\n", &["paths"]);
        check_one("README.md", "cd /srv/other\n", &[]);
    }

    #[test]
    fn the_environment_is_read_by_the_program_alone() {
        let text = "//! Part.\nfn f() -> bool {\n    std::env::var_os(\"HOME\").is_some()\n}\n";
        check_one(MODULE, text, &["environment"]);
        check_one("crates/cli/src/part.rs", text, &[]);
        check_one("crates/a/tests/part.rs", text, &[]);
        check_one(MODULE, "//! Part.\n// Not std::env::var.\nconst A: &str = env!(\"A\");\n", &[]);
    }

    #[test]
    fn a_module_without_its_doc_is_found() {
        check_one(MODULE, "fn f() {}\n", &["module doc"]);
        check_one("crates/a/tests/t.rs", "fn f() {}\n", &[]);
    }

    #[test]
    fn a_long_file_is_found() {
        let long = |lines: usize| format!("//! Part.\n{}", "\n".repeat(lines - 1));
        check_one(MODULE, &long(LINES_MAX), &[]);
        check_one(MODULE, &long(LINES_MAX + 1), &["length"]);
    }

    #[test]
    fn unsafe_outside_its_list_is_found() {
        check_one(MODULE, "//! Part.\n// SAFETY: proved.\nunsafe { f() }\n", &["unsafe"]);
        check_one(MODULE, "//! Part.\nunsafe fn f() {}\n", &["unsafe"]);
        check_one("crates/a/src/lib.rs", "//! A.\n", &["unsafe"]);
        check_one("crates/a/src/main.rs", "//! A.\n// #![deny(unsafe_code)]\n", &["unsafe"]);
    }

    #[test]
    fn an_unsafe_block_without_a_reason_is_found_even_in_a_listed_file() {
        const LISTED: Exceptions =
            Exceptions { unsafe_files: List(&[(MODULE, "a leaf")]), ..Exceptions::NONE };
        let messages = |text: &str| -> Vec<usize> {
            let file = File { path: MODULE.to_owned(), text: text.to_owned() };
            check(&[file], Path::new("/"), &LISTED).iter().map(|found| found.line).collect()
        };
        assert_eq!(messages("//! P.\n// SAFETY: proved.\nunsafe { f() }\n"), [0; 0]);
        assert_eq!(messages("//! P.\nunsafe { f() }\n"), [2]);
        assert_eq!(messages("//! P.\nlet x = \"SAFETY:\"; unsafe { f() }\n"), [2]);
        assert_eq!(messages("//! P.\nunsafe impl Send for T {}\n"), [2]);
        assert_eq!(messages("//! P.\nunsafe fn f() {}\n"), [0; 0]);
    }

    #[test]
    fn an_exception_that_nothing_needs_is_found() {
        const STALE: List = List(&[("crates/a/src/gone.rs", "was needed once")]);
        const ALL: Exceptions = Exceptions {
            unsafe_files: STALE,
            long_files: STALE,
            home_paths: STALE,
            environment: STALE,
            circles: List(&[]),
        };
        let mut rules: Vec<&str> = check(&[], Path::new("/"), &ALL).iter().map(|found| found.rule).collect();
        rules.sort_unstable();
        assert_eq!(rules, ["environment", "length", "paths", "unsafe"]);
        let clean = File { path: "crates/a/src/gone.rs".to_owned(), text: "//! Clean.\n".to_owned() };
        assert_eq!(check(&[clean], Path::new("/"), &ALL).len(), 4);
    }
}

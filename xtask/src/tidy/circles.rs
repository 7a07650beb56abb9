//! Rules about the files of one crate: none imports another one that imports it in turn, directly or through others, and
//! folders that are to be apart import nothing of each other.
//!
//! Imports between a file and a file above or below it in the tree of modules do not count, nor does code of tests. A
//! path leads to the file that its longest part names, and from there on wherever that file has the next name from: a
//! name that the root of a crate re-exports leads to the file that defines it. Paths that a macro completes, and names
//! that are imported by `*`, are not followed.

use super::Finding;
use super::exceptions::List;
use super::lexer::split;
use super::tree::File;
use std::collections::{BTreeMap, BTreeSet};

/// The names of a file's module and of those above it, the outermost first; none for the root of a crate.
type Module<'a> = Vec<&'a str>;

/// The files of one crate that each file imports, by their modules.
type Imports<'a> = BTreeMap<Module<'a>, BTreeSet<Module<'a>>>;

/// The names that each file imports, with the paths from the root of the crate that they stand for.
type Names<'a> = BTreeMap<Module<'a>, BTreeMap<String, Vec<String>>>;

/// The most files that a path is followed through; a longer chain is a circle of names, which does not compile.
const STEPS_MAX: usize = 16;

const RULE: &str = "circles";

/// Folders of a crate that know nothing of each other: two far ends of a copy, of which one stands in for the other.
const APART: [(&str, [&str; 2]); 1] = [("crates/copy", ["session", "sftp"])];

/// Returns a finding for each circle that has a file which is not listed, and for each listed file without a circle.
pub(crate) fn check(files: &[File], listed: List) -> Vec<Finding> {
    let mut crates: BTreeMap<&str, BTreeMap<Module<'_>, &File>> = BTreeMap::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        let Some((name, module)) = place(&file.path).filter(|(_, module)| !module.contains(&"tests")) else {
            continue;
        };
        crates.entry(name).or_default().insert(module, file);
    }
    let mut findings = Vec::new();
    let mut in_circles: BTreeSet<&str> = BTreeSet::new();
    for (name, files) in &crates {
        let imports = imports(files);
        findings.extend(acquainted(name, files, &imports));
        for circle in circles(&imports) {
            let paths: Vec<&str> = circle.iter().map(|module| &*files[module].path).collect();
            in_circles.extend(&paths);
            if paths.iter().any(|path| !listed.names(path)) {
                let others = paths[1..].join(", ");
                let message = format!(
                    "imports in a circle with {others}: what they share belongs into a file that both import (imports \
                     between a file and those above or below it in the tree of modules do not count)"
                );
                findings.push(Finding::new(paths[0], 0, RULE, message));
            }
        }
    }
    let stale = listed.0.iter().filter(|(path, _)| !in_circles.contains(path));
    findings
        .extend(stale.map(|(path, _)| Finding::new(path, 0, RULE, "listed as an exception, but needs none")));
    findings
}

/// Returns a finding for each file that imports something of a folder from which its own is apart.
fn acquainted(name: &str, files: &BTreeMap<Module<'_>, &File>, imports: &Imports<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let apart = APART.iter().filter(|(apart, _)| *apart == name);
    for (one, other) in apart.flat_map(|(_, [one, other])| [(one, other), (other, one)]) {
        for (module, imported) in imports.iter().filter(|(module, _)| module.first() == Some(one)) {
            if imported.iter().any(|imported| imported.first() == Some(other)) {
                let message = format!(
                    "imports something of `{other}`, of which `{one}` knows nothing: what both share belongs beside them"
                );
                findings.push(Finding::new(&files[module].path, 0, "apart", message));
            }
        }
    }
    findings
}

/// Returns the crate and the module of a source file.
fn place(path: &str) -> Option<(&str, Module<'_>)> {
    let (name, inside) = path.strip_suffix(".rs")?.split_once("/src/")?;
    let mut module: Module<'_> = inside.split('/').collect();
    if module.last() == Some(&"mod") || matches!(&*module, ["lib" | "main"]) {
        module.pop();
    }
    Some((name, module))
}

/// Returns the imports that count among the files of one crate.
fn imports<'a>(files: &BTreeMap<Module<'a>, &File>) -> Imports<'a> {
    let code = |file: &File| {
        let code = split(&file.text).code;
        code.split_once("#[cfg(test)]\nmod tests")
            .map_or_else(|| code.clone(), |(product, _)| product.to_owned())
    };
    let codes: BTreeMap<&Module<'a>, String> =
        files.iter().map(|(module, file)| (module, code(file))).collect();
    let mut names = Names::new();
    for (module, code) in &codes {
        let named = used(code)
            .into_iter()
            .filter_map(|Used { path, name }| Some((name?, whole(&path, module, files)?)));
        names.insert((*module).clone(), named.collect());
    }
    let mut imports = Imports::new();
    for (module, code) in &codes {
        let paths = used(code).into_iter().map(|used| used.path).chain(inline(code));
        let paths = paths
            .filter(|path| ["crate", "self", "super"].contains(&path.split("::").next().unwrap_or_default()));
        let reached = paths.filter_map(|path| followed(whole(&path, module, files)?, files, &names));
        let counts = |other: &Module<'a>| !other.starts_with(module) && !module.starts_with(other);
        imports.insert((*module).clone(), reached.filter(counts).collect());
    }
    imports
}

/// Returns a path from the root of the crate; `None` if it begins in another crate.
fn whole(path: &str, module: &[&str], files: &BTreeMap<Module<'_>, &File>) -> Option<Vec<String>> {
    let names: Vec<&str> = path.split("::").map(str::trim).collect();
    let whole: Vec<&str> = match &*names {
        ["crate", rest @ ..] => rest.to_vec(),
        ["self", rest @ ..] => [module, rest].concat(),
        ["super", ..] => {
            let up = names.iter().take_while(|name| **name == "super").count();
            [&module[..module.len().saturating_sub(up)], &names[up..]].concat()
        }
        // A module below this one may be named without a prefix.
        [first, ..] if files.contains_key(&[module, &[*first]].concat()) => [module, &names].concat(),
        _ => return None,
    };
    Some(whole.into_iter().filter(|name| *name != "self").map(str::to_owned).collect())
}

/// Returns the file that a path leads to, through the files that have its names from others; the first one of them if
/// they have a name from each other.
fn followed<'a>(
    whole: Vec<String>,
    files: &BTreeMap<Module<'a>, &File>,
    names: &Names<'a>,
) -> Option<Module<'a>> {
    let file = |path: &[String]| {
        let of_length = |length: usize| files.keys().find(|module| module[..] == path[..length]);
        (0..=path.len()).rev().find_map(of_length)
    };
    let first = file(&whole)?;
    let (mut module, mut path) = (first, whole);
    for _ in 0..STEPS_MAX {
        let next = path.get(module.len()).and_then(|name| names[module].get(name));
        let Some(next) = next else { return Some(module.clone()) };
        path = [next, &path[module.len() + 1..]].concat();
        module = file(&path)?;
    }
    Some(first.clone())
}

/// A path of a `use`, and the name that it brings into its file; `None` if all names of a module are brought in.
struct Used {
    path: String,
    name: Option<String>,
}

/// Returns the paths of every `use` in code, one by one.
fn used(code: &str) -> Vec<Used> {
    let mut all = Vec::new();
    for (at, _) in code.match_indices("use ") {
        let before = code[..at].rsplit('\n').next().unwrap_or_default().trim();
        if before.is_empty() || before.starts_with("pub") {
            let text = code[at + 4..].split(';').next().unwrap_or_default();
            expand("", text, &mut all);
        }
    }
    all
}

/// Returns the paths within code that begin with `crate::` or `super::`.
fn inline(code: &str) -> Vec<String> {
    let mut paths = Vec::new();
    for start in ["crate::", "super::"] {
        for (at, _) in code.match_indices(start) {
            let continues = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == ':';
            if !code[..at].ends_with(continues) {
                let end = code[at..].find(|letter| !continues(letter)).unwrap_or(code.len() - at);
                paths.push(code[at..at + end].trim_end_matches(':').to_owned());
            }
        }
    }
    paths
}

/// Adds the paths of a tree of imports, such as `a::{b, c::{d, e as f}}`.
fn expand(prefix: &str, text: &str, all: &mut Vec<Used>) {
    let text = text.trim();
    let Some((head, rest)) = text.split_once('{') else {
        let (path, name) = text.split_once(" as ").map_or((text, None), |(path, name)| (path, Some(name)));
        let path = format!("{prefix}{}", path.trim());
        let last = path.trim_end_matches("::self").rsplit("::").next().unwrap_or_default();
        let name = name.unwrap_or(last).trim();
        let name = (name != "*").then(|| name.to_owned());
        all.push(Used { path, name });
        return;
    };
    let prefix = format!("{prefix}{}", head.trim());
    let (mut depth, mut start) = (0_usize, 0);
    for (at, letter) in rest.char_indices() {
        match letter {
            '{' => depth += 1,
            ',' | '}' if depth == 0 => {
                if !rest[start..at].trim().is_empty() {
                    expand(&prefix, &rest[start..at], all);
                }
                start = at + 1;
            }
            '}' => depth -= 1,
            _ => {}
        }
        if letter == '}' && start == at + 1 {
            return;
        }
    }
}

/// Returns the largest sets of files of which each reaches all others.
fn circles<'a>(imports: &Imports<'a>) -> Vec<BTreeSet<Module<'a>>> {
    let reached: BTreeMap<&Module<'a>, BTreeSet<&Module<'a>>> =
        imports.keys().map(|module| (module, reachable(imports, module))).collect();
    let mut circles: Vec<BTreeSet<Module<'a>>> = Vec::new();
    for (module, others) in &reached {
        if circles.iter().any(|circle| circle.contains(*module)) {
            continue;
        }
        let circle: BTreeSet<Module<'a>> = others
            .iter()
            .filter(|other| reached[*other].contains(module))
            .map(|other| (*other).clone())
            .collect();
        if circle.len() > 1 {
            circles.push(circle);
        }
    }
    circles
}

/// Returns the files that a file imports, directly or through others.
fn reachable<'i, 'a>(imports: &'i Imports<'a>, from: &Module<'a>) -> BTreeSet<&'i Module<'a>> {
    let mut reached = BTreeSet::new();
    let mut ahead: Vec<&Module<'a>> = imports[from].iter().collect();
    while let Some(module) = ahead.pop() {
        let Some((module, next)) = imports.get_key_value(module) else { continue };
        if reached.insert(module) {
            ahead.extend(next);
        }
    }
    reached
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)], listed: List) -> Vec<String> {
        let file = |&(path, text): &(&str, &str)| File { path: path.to_owned(), text: text.to_owned() };
        let files: Vec<File> = files.iter().map(file).collect();
        check(&files, listed).iter().map(ToString::to_string).collect()
    }

    const A: &str = "crates/x/src/a.rs";
    const B: &str = "crates/x/src/b.rs";
    const C: &str = "crates/x/src/c/d.rs";

    #[test]
    fn a_circle_of_files_is_found_once() {
        let ring = [
            ("crates/x/src/lib.rs", "mod a;\n"),
            (A, "use crate::{\n    b::{self, f as g},\n    other::S,\n};\n"),
            (B, "fn f() { super::c::d::f(); }\n"),
            ("crates/x/src/c/mod.rs", "mod d;\n"),
            (C, "pub(crate) use super::super::a::T;\n"),
        ];
        let findings = found(&ring, List(&[]));
        assert_eq!(findings.len(), 1, "{findings:?}");
        assert!(findings[0].starts_with(
            "crates/x/src/a.rs: imports in a circle with crates/x/src/b.rs, crates/x/src/c/d.rs"
        ));
        // Another crate's file of that name does not close a circle.
        let other = [(A, "use crate::b::f;\n"), ("crates/y/src/b.rs", "use crate::a::f;\n")];
        assert!(found(&other, List(&[])).is_empty());
    }

    #[test]
    fn imports_of_parents_children_tests_and_comments_do_not_count() {
        for [one, other] in [
            [
                "use crate::b::f;\n",
                "// use crate::a::f;\n#[cfg(test)]\nmod tests {\n    use crate::a::f;\n}\n",
            ],
            ["use crate::b::f;\n", "const S: &str = \"use crate::a::f;\";\n"],
            ["use crate::b::f;\n", "fn f() { crate::lib_item(); super::g(); }\n"],
        ] {
            assert!(
                found(&[("crates/x/src/lib.rs", ""), (A, one), (B, other)], List(&[])).is_empty(),
                "{other}"
            );
        }
        let family = [("crates/x/src/c/mod.rs", "use d::f;\nuse self::d::g;\n"), (C, "use super::h;\n")];
        assert!(found(&family, List(&[])).is_empty());
    }

    /// The root of the crate only hands names on.
    #[test]
    fn names_lead_to_the_files_that_define_them() {
        let pair = [(A, "use crate::{T, inner::g};\n"), (B, "pub struct T(crate::F);\n")];
        let with =
            |root: &'static str| found(&[&[("crates/x/src/lib.rs", root)], &pair[..]].concat(), List(&[]));
        assert_eq!(with("mod a;\nmod b;\npub use a::F;\npub use b::T;\n").len(), 1);
        assert_eq!(with("mod a;\nmod b;\npub use a::{G as F};\nuse self::b::{T};\n").len(), 1);
        // One of the names is the root's own.
        assert!(with("mod a;\nmod b;\npub use a::F;\npub struct T;\n").is_empty());
        assert!(with("mod a;\nmod b;\npub use a::*;\npub use b::T;\n").is_empty());
        // A name that leads to itself does not compile, and does not hang the check either.
        assert!(with("mod a;\nmod b;\npub use crate::T;\npub use crate::F;\n").is_empty());
    }

    #[test]
    fn folders_that_are_apart_import_nothing_of_each_other() {
        let ours = ("crates/copy/src/session/client.rs", "use crate::transfer::T;\n");
        let root = ("crates/copy/src/lib.rs", "mod session;\nmod sftp;\npub(crate) use sftp::far::Far;\n");
        let far = ("crates/copy/src/sftp/far.rs", "use crate::transfer::T;\n");
        let folder = ("crates/copy/src/sftp/mod.rs", "pub(crate) mod far;\n");
        assert!(found(&[root, ours, folder, far], List(&[])).is_empty());
        for import in ["use crate::{\n    sftp::{far::Far, place},\n};\n", "fn f() -> crate::Far {}\n"] {
            let ours = (ours.0, import);
            let findings = found(&[root, ours, folder, far], List(&[]));
            assert!(findings.len() == 1 && findings[0].ends_with("[apart]"), "{findings:?}");
            assert!(findings[0].starts_with(ours.0), "{findings:?}");
        }
        let far = (far.0, "use crate::session::client::Sealane;\n");
        assert_eq!(found(&[root, ours, folder, far], List(&[])).len(), 1);
        // Another crate may have folders of these names.
        let others = [("crates/x/src/session.rs", "use crate::sftp::f;\n"), ("crates/x/src/sftp.rs", "")];
        assert!(found(&others, List(&[])).is_empty());
    }

    #[test]
    fn an_exception_names_every_file_of_its_circle() {
        let pair = [(A, "use crate::b::f;\n"), (B, "use crate::a::f;\n")];
        assert!(found(&pair, List(&[(A, "a reason"), (B, "a reason")])).is_empty());
        assert_eq!(found(&pair, List(&[(A, "a reason")])).len(), 1);
        let stale = found(&pair[..1], List(&[(A, "a reason")]));
        assert_eq!(stale, [format!("{A}: listed as an exception, but needs none [circles]")]);
    }
}

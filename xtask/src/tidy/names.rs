//! Names in the map: what ARCHITECTURE.md writes in back-ticks as a path of the tree, or as an item of a crate, exists.

use super::Finding;
use super::tree::File;

/// The texts that name code, for readers who go there.
const MAPS: &[&str] = &["ARCHITECTURE.md", "CONTRIBUTING.md"];
/// The words before an item's name at its declaration.
const DECLARATIONS: &[&str] =
    &["const ", "enum ", "fn ", "mod ", "static ", "struct ", "trait ", "type ", "macro_rules! "];

/// Returns a finding for each name that leads nowhere.
pub(crate) fn check(files: &[File]) -> Vec<Finding> {
    let maps = files.iter().filter(|file| MAPS.contains(&file.path.as_str()));
    maps.flat_map(|map| {
        let lines = map.text.lines().enumerate();
        lines.flat_map(move |(index, line)| {
            let names = ticked(line).filter(move |name| !exists(name, files));
            let finding = move |name: &str| {
                let message = format!("`{name}` is no file and no item of this tree");
                Finding::new(&map.path, index + 1, "names", message)
            };
            names.map(finding)
        })
    })
    .collect()
}

/// Returns the texts between pairs of back-ticks.
fn ticked(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// Returns whether a text is no name of code, or the name of some that exists.
fn exists(name: &str, files: &[File]) -> bool {
    if name.contains(' ') && !name.contains("::") {
        return true;
    }
    if let Some((place, item)) = name.split_once("::") {
        // Arguments and further parts name nothing of their own.
        let end = item.find(|letter: char| !letter.is_alphanumeric() && letter != '_').unwrap_or(item.len());
        return has_item(place, &item[..end], files);
    }
    let is_path = name.contains("/src") || [".rs", ".md"].iter().any(|end| name.ends_with(end));
    !is_path || has_path(name.trim_end_matches('/'), files)
}

/// Returns whether a file or folder has this path, from the root, from `crates`, or as the end of a longer one.
fn has_path(path: &str, files: &[File]) -> bool {
    let end = format!("/{path}");
    let folder = format!("{path}/");
    files.iter().any(|file| {
        let short = file.path.strip_prefix("crates/").unwrap_or(&file.path);
        file.path == path
            || file.path.ends_with(&end)
            || file.path.starts_with(&folder)
            || short.starts_with(&folder)
    })
}

/// Returns whether a file of this crate, of this module, or with a type of this name declares the item.
fn has_item(place: &str, item: &str, files: &[File]) -> bool {
    let (krate, file_name) = (format!("crates/{place}/src/"), format!("{place}.rs"));
    let folder = format!("/{place}/");
    files.iter().filter(|file| file.is_rust()).any(|file| {
        let is_there = file.path.starts_with(&krate)
            || file.name() == file_name
            || file.path.contains(&folder)
            || declares(&file.text, place);
        is_there && declares(&file.text, item)
    })
}

fn declares(text: &str, name: &str) -> bool {
    DECLARATIONS.iter().any(|word| {
        let declaration = format!("{word}{name}");
        text.match_indices(&declaration).any(|(at, found)| {
            let next = text[at + found.len()..].chars().next();
            next.is_none_or(|letter| !letter.is_alphanumeric() && letter != '_')
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(map: &str) -> Vec<String> {
        let file = |path: &str, text: &str| File { path: path.to_owned(), text: text.to_owned() };
        let files = [
            file("ARCHITECTURE.md", map),
            file("crates/tunnel/src/outward.rs", "pub struct Router;\nimpl Router { fn plan() {} }\n"),
            file("crates/tunnel/src/lib.rs", "mod outward;\n"),
        ];
        check(&files).into_iter().map(|finding| finding.message).collect()
    }

    #[test]
    fn names_that_lead_somewhere_pass() {
        let map = "`tunnel/src/outward.rs`, `tunnel/src`, `crates/tunnel/src/lib.rs`, `tunnel::outward`, `Router::plan(x)`, \
                   `outward::Router`, `des/tcp`, `cargo xtask test`, `cp`";
        assert_eq!(found(map), [""; 0]);
    }

    #[test]
    fn names_that_lead_nowhere_are_found() {
        for name in ["tunnel::way", "Router::planned", "tunnel/src/inward.rs", "copy/src", "outward::Plan"] {
            assert_eq!(found(&format!("see `{name}`")).len(), 1, "{name}");
        }
    }
}

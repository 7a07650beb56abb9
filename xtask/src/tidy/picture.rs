//! The picture of the crates in ARCHITECTURE.md, drawn from their manifests, so that both always agree.

use super::Finding;
use super::manifests::workspace_crate;
use super::tree::{self, File};
use anyhow::{Context, Result};
use std::collections::BTreeMap;
use std::path::Path;
use toml::{Table, Value};

const MAP: &str = "ARCHITECTURE.md";
const OPENING: &str = "```crates\n";
const CLOSING: &str = "```\n";

/// The dependencies of each crate of the product, without those of tests, by folder.
type Arrows = BTreeMap<String, Vec<String>>;

/// Returns a finding if the map shows other crates or arrows than the manifests.
pub(crate) fn check(files: &[File]) -> Vec<Finding> {
    let Some(map) = files.iter().find(|file| file.path == MAP) else { return Vec::new() };
    match redrawn(map, files) {
        Some(text) if text == map.text => Vec::new(),
        Some(_) => {
            vec![Finding::new(MAP, 0, "picture", "not what the manifests say; run `cargo xtask picture`")]
        }
        None => vec![Finding::new(MAP, 0, "picture", "no block that opens with ```crates")],
    }
}

/// Writes the present picture.
pub(crate) fn write(root: &Path) -> Result<()> {
    let files = tree::read(root)?;
    let map = files.iter().find(|file| file.path == MAP).context("there is no ARCHITECTURE.md")?;
    let text = redrawn(map, &files).context("ARCHITECTURE.md has no block that opens with ```crates")?;
    std::fs::write(root.join(MAP), text).context("writing ARCHITECTURE.md")
}

/// Returns the map with the right picture.
fn redrawn(map: &File, files: &[File]) -> Option<String> {
    let (before, rest) = map.text.split_once(OPENING)?;
    let (_, after) = rest.split_once(CLOSING)?;
    Some(format!("{before}{OPENING}{}{CLOSING}{after}", drawn(&arrows(files))))
}

fn arrows(files: &[File]) -> Arrows {
    let manifest = |file: &File| {
        let folder = file.path.strip_prefix("crates/")?.strip_suffix("/Cargo.toml")?;
        let manifest = file.text.parse::<Table>().ok()?;
        let needed = manifest.get("dependencies").and_then(Value::as_table);
        let names = needed.into_iter().flat_map(Table::keys);
        let mut known: Vec<String> =
            names.filter_map(|name| workspace_crate(name)).map(str::to_owned).collect();
        known.sort();
        Some((folder.to_owned(), known))
    };
    files.iter().filter_map(manifest).collect()
}

/// Returns a line for each crate with its direct dependencies, without those that another one of them includes;
/// crates with the highest stack of dependencies come first.
fn drawn(arrows: &Arrows) -> String {
    let mut lines: Vec<(usize, &String)> =
        arrows.keys().map(|name| (height(arrows, name, 0), name)).collect();
    lines.sort_by_key(|&(height, name)| (std::cmp::Reverse(height), name));
    let width = arrows.keys().map(String::len).max().unwrap_or(0);
    let line = |(_, name): (usize, &String)| match arrows[name].as_slice() {
        [] => format!("{name}\n"),
        needed => format!("{name:<width$} → {}\n", needed.join(", ")),
    };
    lines.into_iter().map(line).collect()
}

/// Returns the number of steps down to a crate without dependencies. `steps` ends a cycle, which the rule about
/// dependencies finds.
fn height(arrows: &Arrows, name: &str, steps: usize) -> usize {
    let below = arrows.get(name).into_iter().flatten().filter(|_| steps < arrows.len());
    below.map(|below| 1 + height(arrows, below, steps + 1)).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(map: &str) -> Vec<File> {
        let manifest = |(folder, needed): (&str, &[&str])| {
            let needed: String = needed.iter().map(|name| format!("{name}.workspace = true\n")).collect();
            let text = format!("[dependencies]\n{needed}[dev-dependencies]\nsealane-tree.workspace = true\n");
            File { path: format!("crates/{folder}/Cargo.toml"), text }
        };
        let map = File { path: MAP.to_owned(), text: map.to_owned() };
        let manifests = [
            ("cli", &["clap", "sealane-lab", "sealane-copy"][..]),
            ("copy", &["sealane-engine"]),
            ("engine", &[]),
            ("lab", &["serde", "sealane-engine"]),
        ];
        manifests.map(manifest).into_iter().chain([map]).collect()
    }

    const PICTURE: &str = "cli    → copy, lab\ncopy   → engine\nlab    → engine\nengine\n";

    #[test]
    fn the_picture_is_that_of_the_manifests() {
        let right = format!("# Map\n\n{OPENING}{PICTURE}{CLOSING}\nmore\n");
        assert_eq!(check(&files(&right)), []);
        for wrong in ["", "cli → lab → copy\n", &PICTURE.replace("copy, lab", "lab")] {
            let text = format!("# Map\n\n{OPENING}{wrong}{CLOSING}\nmore\n");
            assert_eq!(check(&files(&text)).len(), 1, "{wrong}");
            assert_eq!(redrawn(&files(&text)[4], &files(&text)).as_ref(), Some(&right));
        }
        assert_eq!(check(&files("# Map\n")).len(), 1);
    }

    #[test]
    fn a_circle_ends() {
        let circle = [("a".to_owned(), vec!["b".to_owned()]), ("b".to_owned(), vec!["a".to_owned()])];
        assert_eq!(drawn(&circle.into()), "a → b\nb → a\n");
    }
}

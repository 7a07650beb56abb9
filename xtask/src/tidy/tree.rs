//! The files to check: every text file below the root, without build outputs and git's own files. No symbolic link is
//! followed, so the walk ends.

use anyhow::{Context, Result};
use std::fs;
use std::path::Path;

/// Folders that contain no files written by hand.
const SKIPPED_FOLDERS: &[&str] = &["target", ".git", "corpus", "artifacts", "coverage"];

/// Files that the README's first command leaves at the root.
const SKIPPED_FILES: &[&str] = &["sealane-report.html", "sealane-report.json"];

/// A file larger than this is data.
const TEXT_BYTES_MAX: u64 = 4 << 20;

/// One text file.
#[derive(Debug, Clone)]
pub(crate) struct File {
    /// Path from the root, with `/` between its parts.
    pub(crate) path: String,
    pub(crate) text: String,
}

impl File {
    pub(crate) fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(&self.path)
    }

    pub(crate) fn is_rust(&self) -> bool {
        self.path.ends_with(".rs")
    }
}

/// Reads the tree below `root`, ordered by path.
///
/// # Errors
/// Fails if a folder or a file cannot be read. Files that are not UTF-8, and very large ones, are data and omitted.
pub(crate) fn read(root: &Path) -> Result<Vec<File>> {
    let mut files = Vec::new();
    walk(root, "", &mut files)?;
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

fn walk(folder: &Path, prefix: &str, files: &mut Vec<File>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))? {
        let entry = entry.with_context(|| format!("reading {}", folder.display()))?;
        let Ok(name) = entry.file_name().into_string() else { continue };
        let path = format!("{prefix}{name}");
        let kind = entry.file_type().with_context(|| format!("examining {path}"))?;
        if kind.is_dir() {
            if !SKIPPED_FOLDERS.contains(&name.as_str()) {
                walk(&entry.path(), &format!("{path}/"), files)?;
            }
        } else if kind.is_file()
            && !SKIPPED_FILES.contains(&path.as_str())
            && entry.metadata().is_ok_and(|found| found.len() <= TEXT_BYTES_MAX)
        {
            let bytes = fs::read(entry.path()).with_context(|| format!("reading {path}"))?;
            if let Ok(text) = String::from_utf8(bytes) {
                files.push(File { path, text });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_text_and_leaves_out_builds_and_data() {
        let root = tempfile::tempdir().expect("a folder");
        let write = |path: &str, bytes: &[u8]| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().expect("below the root")).expect("a folder");
            fs::write(path, bytes).expect("a file");
        };
        write("b/src/lib.rs", b"//! b.");
        write("a.md", b"# a");
        write(".ci/run", b"#!/bin/sh");
        write("target/debug/x.rs", b"");
        write(".git/config", b"");
        write("sealane-report.html", b"<p>");
        write("data.bin", &[0xff, 0xfe]);
        let files = read(root.path()).expect("readable");
        let paths: Vec<&str> = files.iter().map(|file| file.path.as_str()).collect();
        assert_eq!(paths, [".ci/run", "a.md", "b/src/lib.rs"]);
        assert_eq!(files[2].name(), "lib.rs");
        assert!(files[2].is_rust() && !files[0].is_rust());
    }
}

//! House rules as checks. A finding names a file, a line and the rule; no finding means that every rule holds for
//! every file of the tree, and the tests below prove that every rule can fire.
//!
//! A rule without exceptions has no list of them. A rule with exceptions takes them from [`exceptions`], each with
//! its reason, and an exception that is no longer needed is a finding too.

mod circles;
mod docs;
mod exceptions;
mod graph;
mod layout;
mod lexer;
mod manifests;
mod names;
mod picture;
mod safety;
mod sources;
mod tree;
mod visibility;

use anyhow::{Result, bail};
use std::fmt;
use std::path::Path;

/// One breach of one rule.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    /// Path from the workspace root, with `/` between its parts.
    path: String,
    /// Counted from 1; 0 if the whole file is meant.
    line: usize,
    rule: &'static str,
    message: String,
}

impl Finding {
    fn new(path: &str, line: usize, rule: &'static str, message: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, rule, message: message.into() }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            0 => write!(f, "{}: {} [{}]", self.path, self.message, self.rule),
            line => write!(f, "{}:{line}: {} [{}]", self.path, self.message, self.rule),
        }
    }
}

pub(crate) use picture::write as draw_picture;

/// Checks the workspace at `root` and prints the findings.
///
/// # Errors
/// Fails if there is at least one finding, or the tree cannot be read.
pub(crate) fn run(root: &Path) -> Result<()> {
    let findings = check(root)?;
    for finding in &findings {
        eprintln!("{finding}");
    }
    match findings.len() {
        0 => Ok(()),
        count => bail!("{count} findings"),
    }
}

/// Returns every finding, ordered by path and line.
fn check(root: &Path) -> Result<Vec<Finding>> {
    let files = tree::read(root)?;
    let mut findings = sources::check(&files, root, &exceptions::CURRENT);
    findings.extend(manifests::check(&files));
    findings.extend(visibility::check(&files));
    findings.extend(circles::check(&files, exceptions::CURRENT.circles));
    findings.extend(names::check(&files));
    findings.extend(safety::check(&files));
    findings.extend(docs::check(&files));
    findings.extend(picture::check(&files));
    findings.extend(graph::check(&graph::packages(root)?));
    findings.extend(layout::check(root)?);
    findings.sort();
    Ok(findings)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workspace_keeps_its_own_rules() {
        let findings = check(&crate::workspace_root()).expect("the tree can be read");
        let report: Vec<String> = findings.iter().map(ToString::to_string).collect();
        assert!(findings.is_empty(), "{} findings:\n{}", findings.len(), report.join("\n"));
    }

    #[test]
    fn a_finding_prints_as_an_editor_reads_it() {
        let finding = Finding::new("crates/a/src/lib.rs", 7, "words", "a word");
        assert_eq!(finding.to_string(), "crates/a/src/lib.rs:7: a word [words]");
        assert_eq!(Finding::new("a", 0, "words", "a word").to_string(), "a: a word [words]");
    }
}

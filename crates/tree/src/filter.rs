//! Include and exclude rules in the manner of rsync.
//!
//! A pattern with a slash at its beginning is anchored at the root of the walk; any other one matches whole
//! components at the end of a path. A slash at the end restricts a pattern to directories; `/***` stands for a
//! directory and its entries. `*` and `?` do not cross a slash, `**` does. The first rule that matches decides; a
//! path that matches no rule is included. An excluded directory is not looked into, so nothing below it can be
//! included. Paths are matched as bytes, without the prefix that the root adds.

use std::sync::Arc;

use crate::error::{Error, Result};
use crate::patterns::Patterns;

/// One rule.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Rule {
    /// Matching paths are walked, whatever later rules say.
    Include(String),
    /// Matching paths are left out, whatever later rules say.
    Exclude(String),
}

/// The name of filter files, and their language.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum FilterFile {
    /// Patterns of a [`Filter`], one a line: those after `+ ` include, those after `- ` or alone exclude, and the first that
    /// matches decides. Empty lines, and those that begin with `#` or `;`, say nothing.
    Patterns(String),
    /// `.gitignore`, in the language of git: the last pattern that matches decides.
    GitIgnore,
}

#[derive(Clone, Copy, Debug)]
struct Effect {
    include: bool,
    directories_only: bool,
}

/// Rules in order, whose patterns are matched together.
#[derive(Clone, Debug, Default)]
pub struct Filter {
    patterns: Patterns,
    effects: Vec<Effect>,
    files: Arc<[FilterFile]>,
}

impl Filter {
    /// Compiles `rules`; earlier ones win.
    pub fn new(rules: impl IntoIterator<Item = Rule>) -> Result<Self> {
        let mut patterns = Patterns::default();
        let mut effects = Vec::new();
        for rule in rules {
            let (include, pattern) = match rule {
                Rule::Include(pattern) => (true, pattern),
                Rule::Exclude(pattern) => (false, pattern),
            };
            let malformed = |source| Error::Pattern { pattern: pattern.clone(), source };
            let (body, with_contents) = match pattern.strip_suffix("/***") {
                Some(body) => (body, true),
                None => (pattern.as_str(), false),
            };
            let name = body.strip_suffix('/').unwrap_or(body);
            let directories_only = name.len() != body.len();
            let anchored = match name.strip_prefix('/') {
                Some(anchored) => anchored.to_owned(),
                None => format!("**/{name}"),
            };
            let contents = with_contents.then(|| format!("{anchored}/**"));
            for glob in [Some(anchored), contents].into_iter().flatten() {
                patterns.push(&glob).map_err(malformed)?;
                effects.push(Effect { include, directories_only });
            }
        }
        Ok(Self { patterns, effects, files: Arc::default() })
    }

    /// Returns the same rules, after which those of filter files in the folders count.
    #[must_use]
    pub fn with_files(self, files: Vec<FilterFile>) -> Self {
        Self { files: files.into(), ..self }
    }

    /// Returns the filter files that count after the rules.
    pub(crate) fn files(&self) -> Arc<[FilterFile]> {
        Arc::clone(&self.files)
    }

    /// Returns whether filter files count after the rules.
    pub fn has_files(&self) -> bool {
        !self.files.is_empty()
    }

    /// Returns whether the rules let the walk yield `path`, and descend into it if it is a directory.
    pub fn includes(&self, path: &[u8], is_directory: bool) -> bool {
        self.decides(path, is_directory).unwrap_or(true)
    }

    /// Returns whether a rule includes or excludes `path`, if one matches.
    pub fn decides(&self, path: &[u8], is_directory: bool) -> Option<bool> {
        if self.effects.is_empty() {
            return None;
        }
        let applies = |index: &usize| is_directory || !self.effects[*index].directories_only;
        self.patterns.matching(path).filter(applies).min().map(|index| self.effects[index].include)
    }
}

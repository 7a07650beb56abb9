//! Filter files: rules in a folder for what lies below it.
//!
//! Guarantees: a file is read through no symbolic link, and only if it is a regular one; what cannot be read, or understood, leaves
//! out all that lies below its folder, and is an error. The rules of a folder count before those of the folders above it.
//! Memory is bounded by [`FOLDERS_MAX`] folders' rules.

use std::collections::HashMap;
use std::os::fd::AsFd;
use std::sync::Arc;

use rustix::fs::{FileType, OFlags, fstat};
use rustix::io::{Errno, read};

use crate::beneath::{Beneath, is_blocked};
use crate::error::{Error, Operation, Result, failed};
use crate::filter::{Filter, FilterFile, Rule};
use crate::path::RelativePath;
use crate::patterns::Patterns;

/// The longest filter file, in bytes.
const FILE_BYTES_MAX: usize = 1 << 20;
/// The number of folders whose rules are remembered.
const FOLDERS_MAX: usize = 256;

impl FilterFile {
    fn name(&self) -> &str {
        match self {
            Self::Patterns(name) => name,
            Self::GitIgnore => ".gitignore",
        }
    }

    fn parse(&self, text: &[u8]) -> Result<Rules> {
        let text = String::from_utf8_lossy(text);
        match self {
            Self::Patterns(_) => {
                let lines =
                    text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with(['#', ';']));
                let rule = |line: &str| match (line.strip_prefix("+ "), line.strip_prefix("- ")) {
                    (Some(pattern), _) => Rule::Include(pattern.to_owned()),
                    (_, pattern) => Rule::Exclude(pattern.unwrap_or(line).to_owned()),
                };
                Filter::new(lines.map(rule)).map(Rules::Patterns)
            }
            Self::GitIgnore => Ok(Rules::Git(GitRules::new(&text))),
        }
    }
}

/// Rules of `.gitignore`.
#[derive(Debug, Default)]
struct GitRules {
    patterns: Patterns,
    /// For each, whether it includes, and whether it is about directories only.
    effects: Vec<(bool, bool)>,
}

impl GitRules {
    /// Lines that make no sense match nothing, as in git.
    fn new(text: &str) -> Self {
        let mut rules = Self::default();
        for line in text.lines() {
            let mut line = line.trim_end_matches('\r');
            // Spaces at the end say nothing, unless a backslash is before them.
            while line.ends_with(' ') && !line.ends_with("\\ ") {
                line = &line[..line.len() - 1];
            }
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (includes, line) = line.strip_prefix('!').map_or((false, line), |line| (true, line));
            let (directories_only, line) = line.strip_suffix('/').map_or((false, line), |line| (true, line));
            let glob = match line.strip_prefix('/') {
                Some(anchored) => anchored.to_owned(),
                None if line.contains('/') => line.to_owned(),
                None => format!("**/{line}"),
            };
            if !line.is_empty() && rules.patterns.push(&glob).is_ok() {
                rules.effects.push((includes, directories_only));
            }
        }
        rules
    }

    fn decides(&self, path: &[u8], is_directory: bool) -> Option<bool> {
        let applies = |index: &usize| is_directory || !self.effects[*index].1;
        self.patterns.matching(path).filter(applies).max().map(|index| self.effects[index].0)
    }
}

#[derive(Debug)]
enum Rules {
    Patterns(Filter),
    Git(GitRules),
    /// A file of them could not be read.
    Unknown,
}

impl Rules {
    fn decides(&self, path: &[u8], is_directory: bool) -> Option<bool> {
        match self {
            Self::Patterns(filter) => filter.decides(path, is_directory),
            Self::Git(rules) => rules.decides(path, is_directory),
            Self::Unknown => Some(false),
        }
    }
}

/// The rules of the folders of one tree, read as they are needed.
#[derive(Debug, Default)]
pub(crate) struct FolderRules {
    files: Arc<[FilterFile]>,
    folders: HashMap<Vec<u8>, Arc<Vec<Rules>>>,
    /// The errors of files since they were last taken.
    pub(crate) errors: Vec<Error>,
}

impl FolderRules {
    pub(crate) fn new(files: Arc<[FilterFile]>) -> Self {
        Self { files, ..Self::default() }
    }

    /// Forgets what is known of a tree.
    pub(crate) fn forget(&mut self) {
        self.folders.clear();
    }

    /// Returns whether an entry at `path` is included by the files in the folders above it, up to the folder `top`.
    pub(crate) fn includes(
        &mut self,
        beneath: &Beneath,
        top: &[u8],
        path: &[u8],
        is_directory: bool,
    ) -> bool {
        if self.files.is_empty() {
            return true;
        }
        let mut folder = path;
        while folder.len() > top.len() {
            folder = folder.iter().rposition(|&byte| byte == b'/').map_or(&[][..], |slash| &folder[..slash]);
            let below = if folder.is_empty() { path } else { &path[folder.len() + 1..] };
            let rules = self.of(beneath, folder);
            if let Some(included) = rules.iter().find_map(|rules| rules.decides(below, is_directory)) {
                return included;
            }
            if folder.is_empty() {
                break;
            }
        }
        true
    }

    fn of(&mut self, beneath: &Beneath, folder: &[u8]) -> Arc<Vec<Rules>> {
        if let Some(known) = self.folders.get(folder) {
            return Arc::clone(known);
        }
        let files = Arc::clone(&self.files);
        let mut found = Vec::new();
        for file in &*files {
            let path = [folder, if folder.is_empty() { b"" } else { b"/" }, file.name().as_bytes()].concat();
            match content(beneath, &path).and_then(|text| text.map(|text| file.parse(&text)).transpose()) {
                Ok(rules) => found.extend(rules),
                Err(error) => {
                    self.errors.push(error);
                    found.push(Rules::Unknown);
                }
            }
        }
        if self.folders.len() >= FOLDERS_MAX {
            self.folders.clear();
        }
        let found = Arc::new(found);
        self.folders.insert(folder.to_vec(), Arc::clone(&found));
        found
    }
}

/// Returns the content of a filter file, if there is one.
fn content(beneath: &Beneath, path: &[u8]) -> Result<Option<Vec<u8>>> {
    let Ok(shown) = RelativePath::new(path) else { return Ok(None) };
    let cannot = |errno| failed(Operation::Read, &shown, errno);
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
    let file = match beneath.open(path, flags) {
        Ok(file) => file,
        Err(Errno::NOENT | Errno::NXIO | Errno::NODEV) => return Ok(None),
        // A link is none, as in git.
        Err(errno) if is_blocked(errno) => return Ok(None),
        Err(errno) => return Err(cannot(errno)),
    };
    let stat = fstat(&file).map_err(cannot)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Ok(None);
    }
    let mut text = vec![0; FILE_BYTES_MAX + 1];
    let mut length = 0;
    while length < text.len() {
        match read(file.as_fd(), &mut text[length..]) {
            Ok(0) => break,
            Ok(bytes) => length += bytes,
            Err(Errno::INTR) => {}
            Err(errno) => return Err(cannot(errno)),
        }
    }
    if length > FILE_BYTES_MAX {
        return Err(cannot(Errno::FBIG));
    }
    text.truncate(length);
    Ok(Some(text))
}

/// The rules of the folders of a target.
#[derive(Debug)]
pub struct TargetRules {
    rules: FolderRules,
    beneath: Beneath,
}

impl crate::target::Target {
    /// Returns the rules of the filter files that the target has.
    pub fn rules(&self, filter: &Filter) -> TargetRules {
        let beneath = Beneath::new(Arc::clone(self.inner.beneath.root()), self.inner.options.resolution);
        TargetRules { rules: FolderRules::new(filter.files()), beneath }
    }
}

impl TargetRules {
    /// Returns whether an entry is included by the filter files in the folders above it, up to the folder `top`. A file that
    /// cannot be read excludes.
    pub fn includes(&mut self, top: &[u8], path: &RelativePath, is_directory: bool) -> bool {
        let included = self.rules.includes(&self.beneath, top, path.as_bytes(), is_directory);
        self.rules.errors.clear();
        included
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_of_a_gitignore_decides() {
        let text = "# comment\n*.o\n!keep.o\n/top\nbuild/\ndoc/*.txt\n**/deep/x\n\\#odd\nspace\\ \ntrailing   \n[bad\n";
        let rules = GitRules::new(text);
        for (path, is_directory, expected) in [
            ("a.o", false, Some(false)),
            ("sub/a.o", false, Some(false)),
            ("sub/keep.o", false, Some(true)),
            ("top", false, Some(false)),
            ("sub/top", false, None),
            ("build", true, Some(false)),
            ("build", false, None),
            ("sub/build", true, Some(false)),
            ("doc/a.txt", false, Some(false)),
            ("sub/doc/a.txt", false, None),
            ("doc/sub/a.txt", false, None),
            ("a/b/deep/x", false, Some(false)),
            ("#odd", false, Some(false)),
            ("space ", false, Some(false)),
            ("trailing", false, Some(false)),
            ("other", false, None),
        ] {
            assert_eq!(rules.decides(path.as_bytes(), is_directory), expected, "{path}");
        }
    }
}

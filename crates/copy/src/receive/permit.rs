//! The names that may arrive: those that the request asks for, and no others.
//!
//! Guarantees: a sender cannot choose a name. An arriving entry is one of the sources by its last component, or lies
//! below it if folders are copied recursively; for a pattern, only names that match it; for a list, only its paths
//! and the folders that contain them; for a target that is a new name, only that name; never a journal, which would
//! deceive a later run. The check is done for every entry, at every level.

use std::collections::{BTreeSet, HashSet};

use sealane_tree::{Glob, Kind, RelativePath, ShownPath, is_pattern};

use crate::{error::Error, journal, proto::entry::Entry};

/// The name of a target that is the directory itself, so that it gets the contents of the only source.
pub(crate) const ITSELF: &[u8] = b".";

/// Returns the last component of a path as an entry's own name; `None` for a path without one (`/`, `.`, `data/.`,
/// `data/..`).
pub(crate) fn last_component(path: &[u8]) -> Option<&[u8]> {
    let last = path.split(|&byte| byte == b'/').rfind(|component| !component.is_empty())?;
    (last != b"." && last != b"..").then_some(last)
}

/// The first components that may arrive.
#[derive(Clone, Debug)]
enum Names {
    Only(HashSet<Vec<u8>>),
    /// These names, and the matches of patterns.
    Matching(HashSet<Vec<u8>>, Vec<Glob>),
    /// Whole paths, and the folders that contain them.
    Listed {
        paths: HashSet<RelativePath>,
        folders: HashSet<RelativePath>,
    },
    /// The contents of a source, without its name.
    Contents,
    Any,
}

/// The names of one request.
#[derive(Clone, Debug)]
pub(crate) struct Permit {
    names: Names,
    recursive: bool,
    hard_links: bool,
    /// Devices, pipes and sockets may arrive.
    specials: bool,
}

impl Permit {
    /// Returns the paths at which a survey of the existing entries must look; `None` stands for all.
    pub(crate) fn names(&self) -> Option<Box<dyn Iterator<Item = &[u8]> + '_>> {
        match &self.names {
            Names::Only(names) => Some(Box::new(names.iter().map(Vec::as_slice))),
            Names::Listed { paths, .. } => Some(Box::new(paths.iter().map(RelativePath::as_bytes))),
            Names::Matching(..) | Names::Contents | Names::Any => None,
        }
    }

    /// Returns the names that a whole transfer brings, an empty one for all; nothing for a list or for patterns.
    pub(crate) fn covers(&self) -> Box<dyn Iterator<Item = Vec<u8>> + '_> {
        match &self.names {
            Names::Only(names) => Box::new(names.iter().cloned()),
            Names::Contents if self.recursive => Box::new(std::iter::once(Vec::new())),
            _ => Box::new(std::iter::empty()),
        }
    }

    /// Returns whether a whole transfer brings all names that a journal covers; not of a journal that does not say.
    pub(crate) fn brings(&self, covered: &BTreeSet<Vec<u8>>) -> bool {
        let brought: Vec<_> = self.covers().collect();
        let is_brought = |name: &Vec<u8>| brought.contains(name) || brought.iter().any(Vec::is_empty);
        !covered.is_empty() && covered.iter().all(is_brought)
    }

    /// Returns whether the complete set of names depends on the target's contents.
    pub(crate) fn has_patterns(&self) -> bool {
        matches!(self.names, Names::Matching(..))
    }

    /// Returns whether only listed paths may arrive.
    pub(crate) fn is_list(&self) -> bool {
        matches!(self.names, Names::Listed { .. })
    }

    /// Returns whether a path may begin with this name.
    pub(crate) fn may_begin(&self, name: &[u8]) -> bool {
        match &self.names {
            Names::Only(names) => names.contains(name),
            Names::Matching(names, globs) => {
                names.contains(name) || globs.iter().any(|glob| glob.matches(name))
            }
            Names::Listed { paths, folders } => {
                let path = RelativePath::new(name);
                path.is_ok_and(|path| paths.contains(&path) || folders.contains(&path))
            }
            Names::Contents | Names::Any => true,
        }
    }

    /// Returns whether unknown sources may arrive.
    pub(crate) fn is_unnamed(&self) -> bool {
        matches!(self.names, Names::Any)
    }

    /// Returns whether entries below the names may arrive.
    pub(crate) fn is_recursive(&self) -> bool {
        self.recursive
    }

    /// Returns the permit of a target with the name `name`, or with the names of the sources that have one.
    pub(crate) fn new<'a>(
        name: Option<&[u8]>,
        sources: impl IntoIterator<Item = &'a [u8]>,
        recursive: bool,
        hard_links: bool,
    ) -> Self {
        let names = match name {
            Some(ITSELF) => None,
            Some(name) => Some(HashSet::from([name.to_vec()])),
            None => sources.into_iter().map(|source| last_component(source).map(<[u8]>::to_vec)).collect(),
        };
        Self { names: names.map_or(Names::Contents, Names::Only), recursive, hard_links, specials: false }
    }

    /// Returns the permit of sources whose last components may be patterns, into a target that is a directory.
    pub(crate) fn matching<'a>(
        sources: impl IntoIterator<Item = &'a [u8]>,
        recursive: bool,
        hard_links: bool,
    ) -> Self {
        let (mut names, mut globs) = (HashSet::new(), Vec::new());
        for source in sources {
            let Some(name) = last_component(source) else {
                return Self { names: Names::Contents, recursive, hard_links, specials: false };
            };
            names.insert(name.to_vec());
            globs.extend(is_pattern(name).then(|| Glob::new(name)));
        }
        Self { names: Names::Matching(names, globs), recursive, hard_links, specials: false }
    }

    /// Returns the permit of a list of paths below the only source.
    pub(crate) fn listed(paths: &[RelativePath], recursive: bool, hard_links: bool) -> Self {
        let above = |path: &RelativePath| std::iter::successors(path.parent(), RelativePath::parent);
        let folders = paths.iter().flat_map(above).collect();
        let names = Names::Listed { paths: paths.iter().cloned().collect(), folders };
        Self { names, recursive, hard_links, specials: false }
    }

    /// Returns the permit of a sending client with more sources than its request can name.
    pub(crate) fn unnamed(recursive: bool, hard_links: bool) -> Self {
        Self { names: Names::Any, recursive, hard_links, specials: false }
    }

    /// Returns the same permit, by which devices, pipes and sockets may arrive if they `may`.
    pub(crate) fn with_specials(self, may: bool) -> Self {
        Self { specials: may, ..self }
    }

    /// Refuses an entry that was not requested.
    pub(crate) fn check(&self, entry: &Entry) -> Result<(), Error> {
        let is_fitting = match &entry.kind {
            Kind::File | Kind::Attributes | Kind::Symlink { .. } => true,
            Kind::Directory => self.recursive || self.is_list(),
            Kind::HardLink { to } => self.hard_links && self.has(to),
            Kind::Special(_) => self.specials,
        };
        if is_fitting && (self.has(&entry.path) || self.is_folder(entry)) {
            return Ok(());
        }
        let path = ShownPath::from(&entry.path);
        Err(Error::protocol(format!(
            "the sender sent {path}, which was not asked for; nothing more is accepted"
        )))
    }

    /// Returns whether the entry is a folder that contains a listed path.
    fn is_folder(&self, entry: &Entry) -> bool {
        match (&self.names, &entry.kind) {
            (Names::Listed { folders, .. }, Kind::Directory) => folders.contains(&entry.path),
            _ => false,
        }
    }

    fn has(&self, path: &RelativePath) -> bool {
        let mut components = path.components();
        let first = components.next().unwrap_or_default();
        let is_named = match &self.names {
            Names::Only(_) | Names::Matching(..) => {
                self.may_begin(first) && (self.recursive || components.next().is_none())
            }
            Names::Listed { paths, .. } => {
                let mut above = std::iter::successors(path.parent(), RelativePath::parent);
                paths.contains(path) || (self.recursive && above.any(|folder| paths.contains(&folder)))
            }
            Names::Contents => self.recursive,
            Names::Any => self.recursive || components.next().is_none(),
        };
        is_named && !path.components().any(journal::is_file_name)
    }
}

#[cfg(test)]
mod tests {
    use sealane_tree::Metadata;

    use super::*;

    fn entry(path: &str, kind: Kind) -> Entry {
        Entry { path: RelativePath::new(path).unwrap(), kind, metadata: Metadata::default(), digest: None }
    }

    fn takes(permit: &Permit, path: &str) -> bool {
        permit.check(&entry(path, Kind::File)).is_ok()
    }

    #[test]
    fn only_what_was_asked_for_is_taken() {
        let sources: [&[u8]; 3] = [b"/srv/good.txt", b"tree/", b"a/./b"];
        let flat = Permit::new(None, sources, false, false);
        for (path, expected) in [
            ("good.txt", true),
            ("tree", true),
            ("b", true),
            (".bashrc_", false),
            ("srv", false),
            ("good.txt/x", false),
            ("goodxtxt", false),
        ] {
            assert_eq!(takes(&flat, path), expected, "{path}");
        }
        assert!(flat.check(&entry("tree", Kind::Directory)).is_err(), "a folder without -r");
        let deep = Permit::new(None, sources, true, true);
        let journal = format!("tree/{}", journal::file_name([7; 16]));
        for (path, expected) in [("tree/x/y", true), ("other/x", false), (journal.as_str(), false)] {
            assert_eq!(takes(&deep, path), expected, "{path}");
        }
        let link = |to: &str| Kind::HardLink { to: RelativePath::new(to).unwrap() };
        assert!(deep.check(&entry("tree/x", link("tree/y"))).is_ok());
        assert!(deep.check(&entry("tree/x", link(".bashrc"))).is_err());
        assert!(flat.check(&entry("b", link("good.txt"))).is_err(), "a hard link that was not asked for");
        let pipe = || Kind::Special(sealane_tree::Special::Pipe);
        assert!(deep.check(&entry("tree/x", pipe())).is_err(), "a pipe that was not asked for");
        let deep = deep.with_specials(true);
        assert!(deep.check(&entry("tree/x", pipe())).is_ok() && deep.check(&entry("other", pipe())).is_err());
    }

    #[test]
    fn a_target_that_is_a_name_gets_that_name() {
        let sources: [&[u8]; 1] = [b"good.txt"];
        let file = Permit::new(Some(b"copy"), sources, false, false);
        assert!(takes(&file, "copy") && !takes(&file, "good.txt") && !takes(&file, "copy/x"));
        let error = file.check(&entry(".ssh", Kind::File)).unwrap_err();
        assert!(error.message.contains(".ssh"), "{error}");
    }

    #[test]
    fn of_a_pattern_only_what_it_stands_for_is_taken() {
        let sources: [&[u8]; 2] = [b"/var/log/*.log", b"logs-*/new"];
        let flat = Permit::matching(sources, false, false);
        for (path, expected) in [
            ("a.log", true),
            ("*.log", true),
            ("new", true),
            (".bashrc.log", false),
            ("a.txt", false),
            ("a.log/x", false),
            ("logs-1", false),
        ] {
            assert_eq!(takes(&flat, path), expected, "{path}");
        }
        assert!(takes(&Permit::matching(sources, true, false), "a.log/x"));
    }

    #[test]
    fn of_a_list_only_what_it_names_is_taken() {
        let list = ["a/b/c", "d"].map(|path| RelativePath::new(path).unwrap());
        let flat = Permit::listed(&list, false, false);
        for (path, expected) in
            [("a/b/c", true), ("d", true), ("a/b/x", false), ("a/b", false), ("d/x", false), ("x", false)]
        {
            assert_eq!(takes(&flat, path), expected, "{path}");
        }
        let folder = |path| flat.check(&entry(path, Kind::Directory)).is_ok();
        assert!(folder("a") && folder("a/b") && folder("d") && !folder("x") && !folder("a/x"));
        assert!(takes(&Permit::listed(&list, true, false), "d/x"));
        assert!(!takes(&Permit::listed(&list, true, false), "a/x"));
    }

    #[test]
    fn sources_that_are_too_many_to_be_named_have_any_name() {
        let flat = Permit::unnamed(false, false);
        assert!(takes(&flat, "any") && !takes(&flat, "any/thing"));
        assert!(takes(&Permit::unnamed(true, false), "any/thing"));
    }

    #[test]
    fn contents_have_any_name_but_only_with_recursion() {
        for (name, sources) in [(None, [b"tree/.".as_slice()]), (Some(ITSELF), [b"tree"])] {
            assert!(takes(&Permit::new(name, sources, true, false), "any/thing"));
            assert!(!takes(&Permit::new(name, sources, false, false), "any"));
        }
    }
}

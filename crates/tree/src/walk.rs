//! [`Walk`]: the entries of a source, in bounded memory.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use rustix::fs::{AtFlags, FileType, OFlags, Stat, fstat, statat};
use rustix::io::Errno;

use crate::changes::Changes;
use crate::descent::{Descent, DescentOptions, Found};
use crate::error::{EntryType, Error, Operation, Result, failed, root_failed};
use crate::filter::Filter;
use crate::filter_files::FolderRules;
use crate::metadata::Metadata;
use crate::path::{MAX_PATH_BYTES, RelativePath, ShownPath};
use crate::source::{RootKind, Selection, Source, SourceRoot};
use crate::temporary::TempName;
use crate::xattrs::{self, Xattrs};

/// Options of a walk.
#[derive(Clone, Debug)]
pub struct WalkOptions {
    /// Whether directories are entered; otherwise each is an [`Error::SkippedDirectory`].
    pub recursive: bool,
    /// Whether mount points are yielded as directories but not entered.
    pub one_file_system: bool,
    /// Whether directories come with their owner.
    pub owner: bool,
    /// The extended attributes that directories come with.
    pub xattrs: Xattrs,
    /// The filter that leaves entries out.
    pub filter: Filter,
    /// Changes of directories; a reader has its own.
    pub changes: Arc<Changes>,
}

impl Default for WalkOptions {
    /// The walk includes everything, without owners and attributes.
    fn default() -> Self {
        Self {
            recursive: true,
            one_file_system: false,
            owner: false,
            xattrs: Xattrs::default(),
            filter: Filter::default(),
            changes: Arc::default(),
        }
    }
}

/// The kind of an entry, as far as the walk knows it.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum EntryKind {
    /// A regular file; [`Reader::open`](crate::Reader::open) returns its metadata.
    File,
    /// A directory, with the metadata to restore.
    Directory(Metadata),
    /// A symbolic link; [`Reader::read_link`](crate::Reader::read_link) returns its destination.
    Symlink,
    /// A device, pipe or socket; [`Reader::read_special`](crate::Reader::read_special) says which.
    Other,
}

/// One entry of a source.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Entry {
    /// Index of its root.
    pub root: u32,
    /// Its name on the wire.
    pub path: RelativePath,
    /// The kind of entry.
    pub kind: EntryKind,
    /// Whether it is a directory whose entries are walked too.
    pub is_entered: bool,
}

/// An iterator over the entries of a source: depth first, a directory before its entries, in the order of the file
/// system. Failures are yielded as errors and the walk goes on; so are entries with the name of an unfinished file,
/// which an interrupted copy has left.
#[derive(Debug)]
pub struct Walk {
    source: Source,
    options: WalkOptions,
    next_root: u32,
    descent: Option<Under>,
    selected: Option<Selected>,
    rules: FolderRules,
    /// Filter files that could not be read, still to be yielded.
    unread: Vec<Error>,
}

/// A descent in progress.
#[derive(Debug)]
struct Under {
    root: u32,
    descent: Descent,
    /// Length, in bytes, of the part of the path that the filter does not see.
    unfiltered_bytes: usize,
}

/// A selection in progress.
#[derive(Debug)]
struct Selected {
    root: u32,
    /// Index of the next path of the selection.
    next: usize,
    /// Entries to be yielded before that: the folders above the last path, then the path itself.
    pending: VecDeque<(RelativePath, bool)>,
    /// The path descended into last: its entries were yielded.
    walked: Option<RelativePath>,
}

impl Source {
    /// Returns all entries of all roots, depth first.
    pub fn walk(&self, options: WalkOptions) -> Walk {
        Walk::new(self.clone(), options)
    }
}

impl Walk {
    pub(crate) fn new(source: Source, options: WalkOptions) -> Self {
        let rules = FolderRules::new(options.filter.files());
        Self { source, options, next_root: 0, descent: None, selected: None, rules, unread: Vec::new() }
    }

    /// Passes over the entries of the directory that was yielded last, and returns those with these names, without any that has
    /// been removed. If one of them is no regular file, it returns `None` and passes over nothing.
    pub fn leave_but<'a>(&mut self, names: impl Iterator<Item = &'a [u8]>) -> Option<Vec<Entry>> {
        let Under { root: index, descent, .. } = self.descent.as_mut()?;
        let root = self.source.root(*index).ok()?;
        let folder = descent.entered()?;
        let mut entries = Vec::new();
        for name in names {
            let stat = statat(folder, name, AtFlags::SYMLINK_NOFOLLOW);
            match stat.map(|stat| FileType::from_raw_mode(stat.st_mode)) {
                Ok(FileType::RegularFile) => {}
                Err(Errno::NOENT) => continue,
                _ => return None,
            }
            let below = RelativePath::within(descent.path(), name).ok()?;
            let path = root.name(below.as_bytes())?.ok()?;
            entries.push(Entry { root: *index, path, kind: EntryKind::File, is_entered: false });
        }
        descent.leave();
        Some(entries)
    }

    /// Starts with a root; returns `None` if it yields no entry itself.
    fn start(&mut self, index: u32, root: &SourceRoot) -> Option<Result<Entry>> {
        if root.selection.is_some() {
            let pending = VecDeque::new();
            self.selected = Some(Selected { root: index, next: 0, pending, walked: None });
            return None;
        }
        match &root.kind {
            RootKind::Entry(name, file_type) => {
                let path = root.prefix.clone()?;
                let kind = match file_type {
                    FileType::RegularFile => EntryKind::File,
                    FileType::Symlink => EntryKind::Symlink,
                    _ => EntryKind::Other,
                };
                let name = name.rsplit(|&byte| byte == b'/').next().unwrap_or(name);
                let wanted = self.options.filter.includes(name, false);
                wanted.then_some(Ok(Entry { root: index, path, kind, is_entered: false }))
            }
            RootKind::Directory if !self.options.recursive => {
                Some(Err(Error::SkippedDirectory { path: root.given.clone().into() }))
            }
            RootKind::Directory => {
                let options = descent_options(&self.options, root);
                let prefix_bytes = root.prefix.as_ref().map_or(0, |prefix| prefix.as_bytes().len() + 1);
                let max_path_bytes = MAX_PATH_BYTES.saturating_sub(prefix_bytes);
                let (descent, stat) = match Descent::new(&root.beneath, options, max_path_bytes) {
                    Ok(started) => started,
                    Err(errno) => return Some(Err(root_failed(&root.given, errno))),
                };
                let entry = root
                    .prefix
                    .clone()
                    .map(|path| directory(&self.options, root, index, path, &stat, descent.entered()));
                self.rules.forget();
                self.descent = Some(Under { root: index, descent, unfiltered_bytes: 0 });
                entry
            }
        }
    }

    /// Returns the next entry of the descent in progress, or `None` at its end.
    fn step(&mut self) -> Option<Result<Entry>> {
        let Self { source, options, descent, rules, unread, .. } = self;
        let Under { root: index, descent, unfiltered_bytes } = descent.as_mut()?;
        let root = match source.root(*index) {
            Ok(root) => root,
            Err(error) => return Some(Err(error)),
        };
        let found = descent.next(&root.beneath, |path, is_directory| {
            let filtered = path.get(*unfiltered_bytes..).unwrap_or_default();
            let top = path.get(..unfiltered_bytes.saturating_sub(1)).unwrap_or_default();
            let included = options.filter.decides(filtered, is_directory);
            included.unwrap_or_else(|| rules.includes(&root.beneath, top, path, is_directory))
        });
        let shown = |path: &ShownPath| root.given.join(OsStr::from_bytes(path.as_bytes())).into();
        unread.extend(rules.errors.drain(..).map(|error| error.shown_as(shown)));
        let found = found?;
        let path = match root.name(descent.path()) {
            Some(Ok(path)) => path,
            Some(Err(error)) => return Some(Err(error)),
            // Only a failure to continue the listing of the unnamed root itself comes without a name.
            None => {
                let errno = if let Found::Failed(errno) = found { errno } else { Errno::NAMETOOLONG };
                return Some(Err(root_failed(&root.given, errno)));
            }
        };
        let is_directory =
            matches!(found, Found::Directory(_) | Found::Failed(_) | Found::Unreachable(_) | Found::TooLong);
        if !is_directory && TempName::matches(path.file_name()) {
            return Some(Err(Error::ReservedName { path: root.show(&path) }));
        }
        let kind = match found {
            Found::File(_) => EntryKind::File,
            Found::Symlink => EntryKind::Symlink,
            Found::Other => EntryKind::Other,
            Found::Failed(errno) => {
                return Some(Err(failed(Operation::List, &path, errno).shown_as(|_| root.show(&path))));
            }
            Found::Unreachable(errno) => {
                return Some(Err(failed(Operation::Follow, &path, errno).shown_as(|_| root.show(&path))));
            }
            Found::TooLong => return Some(Err(Error::NameTooLong { path: root.show(&path) })),
            Found::Directory(stat) => {
                return Some(directory(options, root, *index, path, &stat, descent.entered()));
            }
        };
        Some(Ok(Entry { root: *index, path, kind, is_entered: false }))
    }
}

impl Walk {
    /// Returns the next entry of the selection in progress, or `None` at its end.
    fn select(&mut self) -> Option<Result<Entry>> {
        let source = self.source.clone();
        loop {
            let selected = self.selected.as_mut()?;
            let root = source.root(selected.root).ok()?;
            let selection = root.selection.as_ref()?;
            if let Some((path, is_whole)) = selected.pending.pop_front() {
                match self.select_one(root, selection, path, is_whole) {
                    Some(item) => return Some(item),
                    None => continue,
                }
            }
            let Some(path) = selection.paths.get(selected.next) else {
                self.selected = None;
                return None;
            };
            let previous = selected.next.checked_sub(1).and_then(|last| selection.paths.get(last));
            selected.next += 1;
            if selected.walked.as_ref().is_some_and(|walked| path.starts_with(walked)) {
                continue;
            }
            if selection.is_list {
                let folders: Vec<_> = std::iter::successors(path.parent(), RelativePath::parent).collect();
                // As in rsync, all entries of an excluded folder are excluded.
                if folders.iter().any(|folder| !self.options.filter.includes(folder.as_bytes(), true)) {
                    continue;
                }
                let is_new = |folder: &RelativePath| !previous.is_some_and(|last| last.starts_with(folder));
                let new = folders.into_iter().rev().filter(is_new);
                selected.pending.extend(new.map(|folder| (folder, false)));
            }
            selected.pending.push_back((path.clone(), true));
        }
    }

    /// Returns one path of a selection, or a folder above it; `None` if the filter leaves it out.
    fn select_one(
        &mut self,
        root: &SourceRoot,
        selection: &Selection,
        path: RelativePath,
        is_whole: bool,
    ) -> Option<Result<Entry>> {
        let selected = self.selected.as_mut()?;
        let index = selected.root;
        let cannot =
            |operation, errno| Some(Err(failed(operation, &path, errno).shown_as(|_| root.show(&path))));
        let stat = match root.beneath.open(path.as_bytes(), OFlags::PATH).and_then(fstat) {
            Ok(stat) => stat,
            Err(errno) => return cannot(Operation::Open, errno),
        };
        let file_type = FileType::from_raw_mode(stat.st_mode);
        let is_directory = file_type == FileType::Directory;
        let filtered = if selection.is_list { path.as_bytes() } else { path.file_name() };
        // A directory that the user names is not filtered itself, like a root.
        let is_filtered = is_whole && (selection.is_list || !is_directory);
        if is_filtered && !self.options.filter.includes(filtered, is_directory) {
            return None;
        }
        let kind = match file_type {
            _ if !is_directory && TempName::matches(path.file_name()) => {
                return Some(Err(Error::ReservedName { path: root.show(&path) }));
            }
            FileType::RegularFile => EntryKind::File,
            FileType::Symlink => EntryKind::Symlink,
            FileType::Directory if is_whole && self.options.recursive => {
                let options = descent_options(&self.options, root);
                let started = Descent::below(&root.beneath, path.as_bytes(), options, MAX_PATH_BYTES);
                let (descent, stat) = match started {
                    Ok(started) => started,
                    Err(errno) => return cannot(Operation::List, errno),
                };
                let entry = directory(&self.options, root, index, path.clone(), &stat, descent.entered());
                let unfiltered_bytes = if selection.is_list { 0 } else { path.as_bytes().len() + 1 };
                selected.walked = Some(path);
                self.rules.forget();
                self.descent = Some(Under { root: index, descent, unfiltered_bytes });
                return Some(entry);
            }
            FileType::Directory if selection.is_list => {
                let flags = OFlags::RDONLY | OFlags::DIRECTORY;
                let opened = match self.options.xattrs.any() {
                    true => root.beneath.open(path.as_bytes(), flags).map(Some),
                    false => Ok(None),
                };
                let opened = match opened {
                    Ok(opened) => opened,
                    Err(errno) => return cannot(Operation::Open, errno),
                };
                let entry = directory(&self.options, root, index, path, &stat, opened.as_ref());
                return Some(entry.map(|entry| Entry { is_entered: false, ..entry }));
            }
            FileType::Directory => {
                return Some(Err(Error::SkippedDirectory { path: root.show(&path) }));
            }
            _ => EntryKind::Other,
        };
        Some(Ok(Entry { root: index, path, kind, is_entered: false }))
    }
}

fn descent_options(options: &WalkOptions, root: &SourceRoot) -> DescentOptions {
    DescentOptions {
        one_file_system: options.one_file_system,
        inspect_files: false,
        follow: root.beneath.follows_links(),
    }
}

/// Returns the entry of a directory; it is `entered` if it is open.
fn directory(
    options: &WalkOptions,
    root: &SourceRoot,
    index: u32,
    path: RelativePath,
    stat: &Stat,
    entered: Option<&OwnedFd>,
) -> Result<Entry> {
    let mut metadata = Metadata::from_stat(stat, options.owner);
    options.changes.apply(EntryType::Directory, &mut metadata);
    if let (true, Some(fd)) = (options.xattrs.any(), entered) {
        metadata.xattrs = xattrs::read(fd.as_fd(), &path, options.xattrs)
            .map_err(|error| error.shown_as(|_| root.show(&path)))?;
        options.changes.apply_to_acls(&mut metadata.xattrs);
    }
    let is_entered = entered.is_some();
    Ok(Entry { root: index, path, kind: EntryKind::Directory(metadata), is_entered })
}

impl Iterator for Walk {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Result<Entry>> {
        loop {
            if let Some(error) = self.unread.pop() {
                return Some(Err(error));
            }
            if let Some(item) = self.step() {
                return Some(item);
            }
            self.descent = None;
            if let Some(item) = self.select() {
                return Some(item);
            }
            let source = self.source.clone();
            let index = self.next_root;
            let Ok(root) = source.root(index) else { return self.unread.pop().map(Err) };
            self.next_root += 1;
            if let Some(item) = self.start(index, root) {
                return Some(item);
            }
        }
    }
}

//! [`Walk`]: the entries of a source, in bounded memory.

use rustix::fs::{FileType, Stat};
use rustix::io::Errno;

use crate::descent::{Descent, DescentOptions, Found};
use crate::error::{Error, Operation, Result, failed, root_failed};
use crate::filter::Filter;
use crate::metadata::Metadata;
use crate::part::TempName;
use crate::path::{MAX_PATH_BYTES, RelativePath};
use crate::source::{RootKind, Source, SourceRoot};
use crate::xattrs;

/// What a walk does.
#[derive(Clone, Debug)]
pub struct WalkOptions {
    /// Directories are entered; otherwise each is an [`Error::SkippedDirectory`].
    pub recursive: bool,
    /// Mount points are yielded as directories but not entered.
    pub one_file_system: bool,
    /// Directories come with their owner.
    pub owner: bool,
    /// Directories come with their extended attributes.
    pub xattrs: bool,
    /// Which entries to leave out.
    pub filter: Filter,
}

impl Default for WalkOptions {
    /// Everything, without owners and attributes.
    fn default() -> Self {
        Self {
            recursive: true,
            one_file_system: false,
            owner: false,
            xattrs: false,
            filter: Filter::default(),
        }
    }
}

/// What an entry is, as far as the walk knows.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum EntryKind {
    /// A regular file; [`Reader::open`](crate::Reader::open) tells the rest.
    File,
    /// A directory, with what is to be restored of it.
    Directory(Metadata),
    /// A symbolic link; [`Reader::read_link`](crate::Reader::read_link) tells where to.
    Symlink,
    /// A device, pipe or socket, which cannot be copied.
    Other,
}

/// One entry of a source.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Entry {
    /// Index of its root.
    pub root: u32,
    /// Its name on the wire.
    pub path: RelativePath,
    /// What it is.
    pub kind: EntryKind,
    /// It is a directory, and what it holds is walked too.
    pub is_entered: bool,
}

/// An iterator over the entries of a source: depth first, a directory before what it contains, in the order of the
/// file system. What cannot be read is yielded as an error and the walk goes on; so is what has the name of an
/// unfinished file, which an interrupted copy has left.
#[derive(Debug)]
pub struct Walk {
    source: Source,
    options: WalkOptions,
    next_root: u32,
    descent: Option<(u32, Descent)>,
}

impl Walk {
    pub(crate) fn new(source: Source, options: WalkOptions) -> Self {
        Self { source, options, next_root: 0, descent: None }
    }

    /// Begins with a root; `None` where it yields nothing itself.
    fn start(&mut self, index: u32, root: &SourceRoot) -> Option<Result<Entry>> {
        match &root.kind {
            RootKind::Entry(name, file_type) => {
                let path = root.prefix.clone()?;
                let kind = match file_type {
                    FileType::RegularFile => EntryKind::File,
                    FileType::Symlink => EntryKind::Symlink,
                    _ => EntryKind::Other,
                };
                let wanted = self.options.filter.includes(name, false);
                wanted.then_some(Ok(Entry { root: index, path, kind, is_entered: false }))
            }
            RootKind::Directory if !self.options.recursive => {
                Some(Err(Error::SkippedDirectory { path: root.given.clone().into() }))
            }
            RootKind::Directory => {
                let options =
                    DescentOptions { one_file_system: self.options.one_file_system, inspect_files: false };
                let prefix_bytes = root.prefix.as_ref().map_or(0, |prefix| prefix.as_bytes().len() + 1);
                let max_path_bytes = MAX_PATH_BYTES.saturating_sub(prefix_bytes);
                let (descent, stat) = match Descent::new(&root.beneath, options, max_path_bytes) {
                    Ok(started) => started,
                    Err(errno) => return Some(Err(root_failed(&root.given, errno))),
                };
                let entry = root
                    .prefix
                    .clone()
                    .map(|path| directory(&self.options, root, index, path, &stat, &descent));
                self.descent = Some((index, descent));
                entry
            }
        }
    }

    /// The next entry of the descent in progress; `None` at its end.
    fn step(&mut self) -> Option<Result<Entry>> {
        let Self { source, options, descent, .. } = self;
        let (index, descent) = descent.as_mut()?;
        let root = match source.root(*index) {
            Ok(root) => root,
            Err(error) => return Some(Err(error)),
        };
        let found =
            descent.next(&root.beneath, |path, is_directory| options.filter.includes(path, is_directory))?;
        let path = match root.name(descent.path()) {
            Some(Ok(path)) => path,
            Some(Err(error)) => return Some(Err(error)),
            // Only a failure to go on listing the unnamed root itself comes without a name.
            None => {
                let errno = if let Found::Failed(errno) = found { errno } else { Errno::NAMETOOLONG };
                return Some(Err(root_failed(&root.given, errno)));
            }
        };
        let is_directory = matches!(found, Found::Directory(_) | Found::Failed(_) | Found::TooLong);
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
            Found::TooLong => return Some(Err(Error::NameTooLong { path: root.show(&path) })),
            Found::Directory(stat) => return Some(directory(options, root, *index, path, &stat, descent)),
        };
        Some(Ok(Entry { root: *index, path, kind, is_entered: false }))
    }
}

/// The entry of the directory that `descent` has just found.
fn directory(
    options: &WalkOptions,
    root: &SourceRoot,
    index: u32,
    path: RelativePath,
    stat: &Stat,
    descent: &Descent,
) -> Result<Entry> {
    let mut metadata = Metadata::from_stat(stat, options.owner);
    if let (true, Some(fd)) = (options.xattrs, descent.entered()) {
        metadata.xattrs = xattrs::read(fd, &path).map_err(|error| error.shown_as(|_| root.show(&path)))?;
    }
    let is_entered = descent.entered().is_some();
    Ok(Entry { root: index, path, kind: EntryKind::Directory(metadata), is_entered })
}

impl Iterator for Walk {
    type Item = Result<Entry>;

    fn next(&mut self) -> Option<Result<Entry>> {
        loop {
            if let Some(item) = self.step() {
                return Some(item);
            }
            self.descent = None;
            let source = self.source.clone();
            let index = self.next_root;
            let root = source.root(index).ok()?;
            self.next_root += 1;
            if let Some(item) = self.start(index, root) {
                return Some(item);
            }
        }
    }
}

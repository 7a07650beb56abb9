//! The walker: one mover walks a root, and puts its shares while others copy them.
//!
//! Guarantees: memory does not depend on the number of files, except for those with several names if hard links are
//! kept; an entry that cannot be examined is reported, and the walk continues; if the queue is full, the walker
//! copies a share itself. The jobs of a large file's ranges come before the job that gives the file its name.

use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use sealane_copy::{FarEndChoice, Options, Pattern, Sink};
use sealane_peer::chain;
use sealane_tree::{
    Anchor, EntryKind, Filter, Identity, Naming, Reader, Rule, Source, SourceRoot, WalkOptions,
};

use crate::error::{FleetError, Result};
use crate::queue::Job;
use crate::share::{Cutter, Entry, LISTED_BYTES_MAX, PATHS_BYTES_MAX, home, range_bytes};
use crate::work::{Large, Order, Report, Spread, Stamp};

/// Returns whether the name is that of a copy's journal, which is not part of a tree.
fn is_journal(name: &[u8]) -> bool {
    name.starts_with(b".sealane-") && (name.ends_with(b".journal") || name.ends_with(b".lease"))
}

/// Opens a root for a walk or a look.
///
/// # Errors
/// Fails if the root does not exist, or is not a folder.
pub(crate) fn open(path: &[u8], options: &Options) -> Result<Source> {
    let path = Path::new(OsStr::from_bytes(path));
    let root = SourceRoot::open_at(&Anchor::default(), path, &Naming::Contents, options.wishes.following);
    Ok(Source::new(vec![root.map_err(sealane_copy::Error::from)?]))
}

/// Walks a root, and passes each share to `put`, which may end the walk.
///
/// # Errors
/// Fails if the root cannot be opened, or `put` fails.
pub(crate) fn run(
    order: &Order,
    root: u32,
    options: &Options,
    report: &mut Report,
    mut put: impl FnMut(Job) -> Result<()>,
) -> Result<()> {
    let source = open(&order.root(root)?.path, options)?;
    let rule = |pattern: &Pattern| match pattern {
        Pattern::Include(glob) => Some(Rule::Include(glob.clone())),
        Pattern::Exclude(glob) => Some(Rule::Exclude(glob.clone())),
        // They are refused between many hosts.
        Pattern::File(_) | Pattern::GitIgnore => None,
    };
    let filter = Filter::new(options.wishes.patterns.iter().filter_map(rule))
        .map_err(|error| FleetError::Usage(chain(&error)))?;
    let one_file_system = options.wishes.one_file_system;
    let walk = source.walk(WalkOptions { one_file_system, filter, ..WalkOptions::default() });
    let mut reader = source.reader();
    let paths_bytes_max = if options.wishes.dry_run { LISTED_BYTES_MAX } else { PATHS_BYTES_MAX };
    let mut cutter = Cutter::new(root, order.share_bytes, paths_bytes_max);
    let mut seen = HashSet::new();
    for found in walk {
        let found = match found {
            Ok(found) => found,
            Err(error) => {
                let reason = chain(&error);
                let path = error.into_path().map(|path| path.as_bytes().to_vec()).unwrap_or_default();
                report.fail(path, &reason);
                continue;
            }
        };
        if matches!(found.kind, EntryKind::Directory(_)) || is_journal(found.path.file_name()) {
            continue;
        }
        let Some(entry) = look(&mut reader, &found, options.wishes.preserve.hard_links, &mut seen) else {
            continue;
        };
        // Files that cannot be opened are left to the session, and links have no size.
        if !entry.is_link && entry.modified != (0, 0) && !options.wishes.sizes.include(entry.bytes) {
            continue;
        }
        let target = match order.spread {
            Spread::Own => home(&entry.path, &order.targets).cloned(),
            Spread::Shared | Spread::Unknown => None,
        };
        if let Some(range_bytes) = range_bytes(entry.bytes, order.share_bytes).filter(|_| may_cut(options)) {
            let Entry { path, bytes, .. } = entry;
            let file = Large { root, target, path, bytes, modified: entry.modified, range_bytes };
            (0..file.division()?.count()).try_for_each(|index| put(file.range(index)?))?;
            put(file.name())?;
            continue;
        }
        if let Some(full) = cutter.push(&entry, target) {
            put(full)?;
        }
    }
    cutter.finish().try_for_each(put)
}

/// Returns whether large files may be copied in ranges: a comparison by content, or a digest, takes the whole file;
/// a copy that cannot be resumed keeps no unfinished file, and an SFTP server knows no ranges.
fn may_cut(options: &Options) -> bool {
    let is_whole =
        options.wishes.digest || options.wishes.upkeep.checksum || !options.resume || options.wishes.dry_run;
    !is_whole && options.wishes.sink == Sink::Files && options.remote.far_end != FarEndChoice::Sftp
}

/// Examines an entry; returns `None` for the second and further names of a file, which are made at the end.
fn look(
    reader: &mut Reader,
    found: &sealane_tree::Entry,
    hard_links: bool,
    seen: &mut HashSet<Identity>,
) -> Option<Entry> {
    let path = found.path.as_bytes().to_vec();
    // Entries that cannot be opened are left to the session that copies them, which reports the failure.
    let mut entry = Entry { path, bytes: 0, modified: (0, 0), is_link: false };
    let modified = match found.kind {
        EntryKind::File => {
            let Ok(file) = reader.open(found.root, &found.path) else { return Some(entry) };
            if hard_links && file.links() > 1 && !seen.insert(file.identity()) {
                return None;
            }
            entry.bytes = file.metadata().size_bytes;
            file.metadata().modified
        }
        EntryKind::Symlink => {
            let Ok((_, metadata)) = reader.read_link(found.root, &found.path) else { return Some(entry) };
            entry.is_link = true;
            metadata.modified
        }
        EntryKind::Directory(_) | EntryKind::Other => return Some(entry),
    };
    entry.modified = (modified.seconds, modified.nanoseconds);
    Some(entry)
}

/// Entries of a stamp.
const STAMP_ENTRIES: usize = 8;

/// Returns the stamp of a root.
///
/// # Errors
/// Fails if the folder cannot be read.
pub(crate) fn stamp(path: &[u8]) -> std::io::Result<Stamp> {
    let path = Path::new(OsStr::from_bytes(path));
    let inode = std::fs::metadata(path)?.ino();
    let mut entries = Vec::new();
    for entry in std::fs::read_dir(path)?.take(STAMP_ENTRIES) {
        let name = entry?.file_name();
        if let Some((inode, changed)) = entry_stamp(path, &name) {
            entries.push((name.into_vec(), inode, changed));
        }
    }
    Ok(Stamp { inode, entries })
}

fn entry_stamp(folder: &Path, name: &OsStr) -> Option<(u64, i64)> {
    let found = std::fs::symlink_metadata(folder.join(name)).ok()?;
    Some((found.ino(), found.ctime().wrapping_mul(1_000_000_000).wrapping_add(found.ctime_nsec())))
}

/// Returns whether a root is the folder that was examined elsewhere: most of its entries have not changed since then.
pub(crate) fn is_same(path: &[u8], stamp: &Stamp) -> bool {
    let path = Path::new(OsStr::from_bytes(path));
    let Ok(found) = std::fs::metadata(path) else { return false };
    let (mut same, mut other) = (0, 0);
    for (name, inode, changed) in &stamp.entries {
        match entry_stamp(path, OsStr::from_bytes(name)) {
            Some(found) if found == (*inode, *changed) => same += 1,
            Some(_) => other += 1,
            None => {}
        }
    }
    found.ino() == stamp.inode && same >= other
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_known_by_what_is_in_it() {
        let (one, other) = (tempfile::tempdir().expect("a folder"), tempfile::tempdir().expect("a folder"));
        for folder in [&one, &other] {
            for name in ["a", "b", "c"] {
                std::fs::write(folder.path().join(name), name).expect("a file");
            }
        }
        let path = |folder: &tempfile::TempDir| folder.path().as_os_str().as_bytes().to_vec();
        let stamp = stamp(&path(&one)).expect("it is there");
        assert!(is_same(&path(&one), &stamp) && !is_same(&path(&other), &stamp));
        std::fs::write(one.path().join("a"), "another").expect("a file");
        std::fs::remove_file(one.path().join("b")).expect("it is there");
        assert!(is_same(&path(&one), &stamp));
    }
}

//! The search for entries to send.
//!
//! Guarantees: memory is bounded by the queue, which makes the scan wait for the lanes; unreadable entries are
//! reported and the scan continues.

use std::sync::atomic::Ordering::Relaxed;

use sealane_peer::chain;
use sealane_tree::{Entry, EntryKind, Reader, ShownPath, Walk};

use crate::{
    journal::{self, is_file_name},
    proto::{
        entry::{equal_hash, listed_hash, path_hash},
        message::HAVE_PER_MESSAGE,
    },
    send::{
        equal::{Equal, Likeness},
        fill::Filling,
        lane::Sending,
        work::{Candidate, OtherNames, PACK_ENTRIES},
    },
};

/// The number of names per message; a directory takes two hashes.
const KNOWN_PER_MESSAGE: usize = HAVE_PER_MESSAGE;

/// The folder of the entry that was found last.
#[derive(Default)]
struct Folder {
    root: u32,
    path: Vec<u8>,
    likeness: Option<Likeness>,
}

impl Folder {
    /// Returns whether the receiver has this entry as it is, because it has the whole folder so, or all files of it but some
    /// others.
    fn is_equal(&mut self, equal: &Equal, found: &Entry) -> bool {
        match found.kind {
            // A folder is compared with what is in it.
            EntryKind::Directory(_) => equal.has(found.root, found.path.as_bytes()),
            EntryKind::File if matches!(self.likeness(equal, found), Likeness::Nearly { .. }) => {
                !equal.has_changed(&found.path)
            }
            _ => self.is_in_equal(equal, found),
        }
    }

    /// Returns whether the folder of this entry is equal at the receiver, and so has the same names there.
    fn is_in_equal(&mut self, equal: &Equal, found: &Entry) -> bool {
        matches!(self.likeness(equal, found), Likeness::Whole { .. })
    }

    /// Returns how far the folder of this entry is equal at the receiver.
    fn likeness(&mut self, equal: &Equal, found: &Entry) -> Likeness {
        if equal.is_empty() {
            return Likeness::Unknown;
        }
        let (path, _) = found.path.split();
        if self.root != found.root || self.path != path {
            self.root = found.root;
            self.path.clear();
            self.path.extend_from_slice(path);
            self.likeness = None;
        }
        *self.likeness.get_or_insert_with(|| equal.likeness(found.root, path))
    }
}

/// Walks the sources into the queue.
pub(crate) fn run(sending: &Sending, mut walk: Walk, reader: impl Fn() -> Reader) {
    let filling = &sending.filling;
    let mut pack = Vec::with_capacity(PACK_ENTRIES);
    let mut known = Vec::new();
    let mut folder = Folder::default();
    let mut inside = Vec::new();
    filling.counters.resumed_bytes.fetch_add(filling.possessions.equal.bytes, Relaxed);
    while let Some(found) = walk.next() {
        match found {
            // A receiver would mistake it for its own journal of an earlier run.
            Ok(found) if is_file_name(found.path.file_name()) => pass_over_journal(filling, &found, reader()),
            Ok(found) => {
                filling.progress.files_found.fetch_add(1, Relaxed);
                let equal = &filling.possessions.equal;
                let is_equal = folder.is_equal(equal, &found);
                if filling.manifest.is_wanted() {
                    // The names in an equal folder are those that the receiver has.
                    known.extend((!folder.is_in_equal(equal, &found)).then(|| path_hash(&found.path)));
                    let path = found.path.as_bytes();
                    let is_whole = is_equal && matches!(found.kind, EntryKind::Directory(_));
                    known.extend(match is_whole {
                        true => Some(equal_hash(path)),
                        false => found.is_entered.then(|| listed_hash(path)),
                    });
                }
                if let EntryKind::Directory(_) = found.kind
                    // The names in it must be told, unless the receiver has the same ones.
                    && (is_equal || !filling.manifest.is_wanted())
                    && let Some(contents) = equal.contents(found.root, found.path.as_bytes())
                    && let Some(changed) = walk.leave_but(contents.changed())
                {
                    let entries = u64::from(contents.entries);
                    filling.progress.files_found.fetch_add(entries + changed.len() as u64, Relaxed);
                    settle(filling, entries);
                    inside = changed;
                }
                if is_equal {
                    settle(filling, 1);
                } else {
                    pack.push(Candidate { found, others: OtherNames::Unknown });
                }
                // The folder comes before its files.
                let candidates = inside.drain(..);
                pack.extend(candidates.map(|found| Candidate { found, others: OtherNames::Unknown }));
            }
            Err(error) => tell_unread(filling, error),
        }
        if known.len() >= KNOWN_PER_MESSAGE {
            filling.manifest.hand_on(std::mem::take(&mut known));
            sending.control.ring();
        }
        while pack.len() >= PACK_ENTRIES {
            // The room stays for the next ones.
            let full = pack.drain(..PACK_ENTRIES).collect();
            if !filling.queue.push_found(full) {
                return;
            }
            sending.bells.ring();
        }
    }
    filling.manifest.hand_on(known);
    if !pack.is_empty() {
        filling.queue.push_found(pack);
    }
    finish(sending);
}

/// Passes over what a receiver would mistake for its own journal of an earlier run. The user hears of it if a copy that is under way
/// holds it: that of a finished copy is not needed, but the folder of a running one is not complete yet.
fn pass_over_journal(filling: &Filling, found: &Entry, mut reader: Reader) {
    let file = reader.open(found.root, &found.path);
    if file.is_ok_and(|file| journal::is_held(&file)) {
        let shown = reader.show(found.root, &found.path);
        let reason =
            format!("{shown} is the journal of a copy that is under way: copy again when it is done");
        filling.unfit(&shown, reason);
    }
}

/// Counts entries that the receiver has alike.
fn settle(filling: &Filling, entries: u64) {
    filling.counters.skipped.fetch_add(entries, Relaxed);
    filling.progress.files_measured.fetch_add(entries, Relaxed);
    filling.progress.files_done.fetch_add(entries, Relaxed);
}

/// Tells the user of an entry that cannot be read, or is of a kind that is not copied.
fn tell_unread(filling: &Filling, error: sealane_tree::Error) {
    let reason = chain(&error);
    let unfit = matches!(
        error,
        sealane_tree::Error::SkippedDirectory { .. } | sealane_tree::Error::ReservedName { .. }
    );
    let shown = error.into_path().unwrap_or_else(|| ShownPath::new([]));
    if unfit { filling.unfit(&shown, reason) } else { filling.failed(&shown, reason) }
}

/// Ends the scan: no more entries will be found.
pub(crate) fn finish(sending: &Sending) {
    sending.filling.queue.scan_complete();
    sending.filling.progress.scan_complete.store(true, Relaxed);
    sending.bells.ring();
    sending.control.ring();
}

#[cfg(test)]
mod tests {
    use std::{fs, sync::Arc};

    use sealane_tree::{Naming, RelativePath, Source, SourceRoot, WalkOptions};

    use super::*;
    use crate::{
        options::{Deletion, Upkeep, Wishes},
        proto::entry::bytes_hash,
        send::fill::Possessions,
        transfer::ends::{self, Plan},
    };

    /// Returns the hashes that a receiver gets that deletes the rest, where these folders are equal.
    fn known(tree: &std::path::Path, equal_folders: &[&str]) -> Vec<[u8; 16]> {
        let source = Source::new(vec![SourceRoot::open(tree, &Naming::Basename, false).unwrap()]);
        let upkeep = Upkeep { delete: Some(Deletion::default()), ..Upkeep::default() };
        let plan = Plan::bare();
        let plan = Plan { wishes: Wishes { upkeep, ..plan.wishes }, ..plan };
        let mut possessions = Possessions::default();
        for folder in equal_folders {
            let entries = (*folder == "tree/same/deep").then_some(50);
            possessions.equal.add(0, bytes_hash(folder.as_bytes()), 0, entries);
        }
        let (notices, _pending) = crossbeam_channel::unbounded();
        let sending = ends::sending(&plan, possessions, notices, Arc::default()).unwrap();
        let walk = source.walk(WalkOptions { recursive: true, ..WalkOptions::default() });
        run(&sending, walk, || source.reader());
        assert_eq!(sending.filling.progress.files_found.load(Relaxed), 100 + 4, "all are counted");
        std::iter::from_fn(|| sending.filling.manifest.take()).flatten().collect()
    }

    #[test]
    fn of_an_equal_folder_no_names_are_told() {
        let folder = tempfile::tempdir().unwrap();
        let tree = folder.path().join("tree");
        for name in ["same/deep", "other"] {
            fs::create_dir_all(tree.join(name)).unwrap();
            (0..50).for_each(|number| fs::write(tree.join(format!("{name}/{number}")), "x").unwrap());
        }
        let path = |path: &str| path_hash(&RelativePath::new(path).unwrap());
        let all = known(&tree, &[]);
        // Four folders, each by its name and as a list, and the files.
        assert_eq!(all.len(), 100 + 4 * 2);
        let some = known(&tree, &["tree", "tree/same", "tree/same/deep"]);
        let mut expected = vec![path("tree"), equal_hash(b"tree"), listed_hash(b"tree/other")];
        expected.extend([equal_hash(b"tree/same"), equal_hash(b"tree/same/deep")]);
        expected.extend((0..50).map(|number| path(&format!("tree/other/{number}"))));
        let sorted = |mut hashes: Vec<[u8; 16]>| {
            hashes.sort_unstable();
            hashes
        };
        assert_eq!(sorted(some), sorted(expected));
        assert_eq!(known(&tree, &["tree/same/deep"]).len(), 50 + 4 * 2);
    }
}

//! The receiving state machine on a scratch tree: whatever a sender with the keys sends, in any order, nothing
//! outside the target changes, every file with a final name was sent in full under this name, and without a journal
//! nothing else is left.
//!
//! The input consists of a byte of options and batches of records.

#![no_main]

use std::collections::{HashMap, HashSet};
use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::{Path, PathBuf};

use libfuzzer_sys::fuzz_target;
use sealane_copy::fuzzing::ReceivingEnd;
use sealane_copy::proto::compression::Expander;
use sealane_copy::proto::entry::{Announcement, Closing, Entry, Pack, decode};
use sealane_copy::proto::record::{DATA_BYTES_MAX, Header, Kind};
use sealane_fuzz::scripts::{Batch, batches};
use sealane_tree::Kind as EntryKind;

/// Digests of larger holes would take up the time of the run.
const DIGESTED_BYTES_MAX: u64 = 4 << 20;
const OWN_PREFIX: &[u8] = b".sealane-";

const WITH_JOURNAL: u8 = 1;
const WITH_DIGESTS: u8 = 2;
/// The receiver is killed halfway, and the next one continues.
const INTERRUPTED: u8 = 4;
/// Only a part of the entries was requested.
const NAMED: u8 = 8;
const NAMES: [&[u8]; 2] = [b"d", b"big"];

/// The files that may have a final name: a slow twin that never refuses anything.
#[derive(Default)]
struct Allowed {
    /// Sizes of whole files by path; `None` for any size.
    sizes: HashSet<(Vec<u8>, Option<u64>)>,
    links: HashSet<Vec<u8>>,
    announced: HashMap<u32, (Announcement, [u8; 16])>,
    /// Ranges that were sent of the file with this identity.
    ranges: HashMap<[u8; 16], Vec<(u64, u64)>>,
    /// Sizes in closing records.
    closed: HashSet<([u8; 16], Vec<u8>, u64)>,
}

impl Allowed {
    fn record(&mut self, header: &Header, body: &[u8]) {
        match header.kind {
            Kind::Pack => {
                for (entry, _) in Pack::new(body).map_while(Result::ok) {
                    self.entry(&entry);
                }
            }
            Kind::Open => {
                if let Ok(announcement) = decode::<Announcement>("announcement", body) {
                    let identity = announcement.entry.identity();
                    self.announced.entry(header.file).or_insert((announcement, identity));
                }
            }
            Kind::Data => self.range(header, Some(body.len() as u64)),
            Kind::Hole => self.range(header, decode::<u64>("hole", body).ok()),
            Kind::Close => {
                let Some((announcement, identity)) = self.announced.get(&header.file) else { return };
                if let Ok(Closing::Complete { size_bytes, .. }) = decode("closing", body) {
                    let path = announcement.entry.path.as_bytes().to_vec();
                    self.closed.insert((*identity, path, size_bytes));
                }
            }
            Kind::CompressedData | Kind::CompressedPack => {
                let mut room = vec![0; DATA_BYTES_MAX];
                let expanded = Expander::new().expect("memory").expand(body, &mut room);
                let (Ok(length), Some(kind)) = (expanded, header.kind.expanded()) else { return };
                self.record(&Header { kind, ..*header }, &room[..length]);
            }
            // A range that is kept was sent before, and no version is open here to be copied from.
            Kind::Kept | Kind::Copy | Kind::Acknowledge => {}
        }
    }

    fn entry(&mut self, entry: &Entry) {
        let path = entry.path.as_bytes().to_vec();
        match entry.kind {
            EntryKind::File => drop(self.sizes.insert((path, Some(entry.metadata.size_bytes)))),
            EntryKind::HardLink { .. } => drop(self.sizes.insert((path, None))),
            EntryKind::Symlink { .. } => drop(self.links.insert(path)),
            EntryKind::Directory | EntryKind::Attributes | EntryKind::Special(_) => {}
        }
    }

    fn range(&mut self, header: &Header, length: Option<u64>) {
        let Some((_, identity)) = self.announced.get(&header.file) else { return };
        if let Some(end) = length.and_then(|length| header.offset.checked_add(length)) {
            self.ranges.entry(*identity).or_default().push((header.offset, end));
        }
    }

    /// Must be called after everything was sent.
    fn conclude(&mut self) {
        for (identity, path, size_bytes) in self.closed.drain() {
            let mut ranges = self.ranges.get(&identity).cloned().unwrap_or_default();
            ranges.sort_unstable();
            let mut covered = 0;
            for (start, end) in ranges {
                if start <= covered {
                    covered = covered.max(end);
                }
            }
            if covered >= size_bytes {
                self.sizes.insert((path, Some(size_bytes)));
            }
        }
    }

    fn check(&self, target: &Path, folder: &Path, with_leftovers: bool) {
        for found in fs::read_dir(folder).expect("the target can be listed") {
            let path = found.expect("an entry").path();
            let name = path.file_name().expect("it has a name").as_encoded_bytes();
            let relative = path.strip_prefix(target).expect("it lies below").as_os_str().as_encoded_bytes();
            let metadata = path.symlink_metadata().expect("its metadata");
            if metadata.is_dir() {
                self.check(target, &path, with_leftovers);
                continue;
            }
            if metadata.is_symlink() {
                assert!(relative == b"away" || self.links.contains(relative), "{}", path.display());
                continue;
            }
            let sizes = [Some(metadata.len()), None].map(|size| (relative.to_vec(), size));
            let was_sent = sizes.iter().any(|allowed| self.sizes.contains(allowed));
            let was_there = relative == b"kept";
            let is_own = with_leftovers && name.starts_with(OWN_PREFIX);
            assert!(was_sent || was_there || is_own, "{} of {} bytes", path.display(), metadata.len());
        }
    }
}

fn receive(target: &Path, options: u8, batches: &[Batch<'_>], allowed: &mut Allowed) {
    let with_journal = options & WITH_JOURNAL != 0;
    let names = (options & NAMED != 0).then_some(&NAMES[..]);
    let receiver = ReceivingEnd::new(target, names, with_journal, options & WITH_DIGESTS != 0);
    // A journal of another name may prevent it; an existing target and a folder can be opened.
    let receiver = receiver.expect("the target can be received into");
    {
        let mut lanes = [receiver.lane(), receiver.lane()];
        // Numbers are valid within one transfer; ranges that were sent of a file count for the next transfer too.
        allowed.announced.clear();
        let mut has_failed = false;
        for Batch { lane, records } in batches {
            let records: Vec<_> = records.iter().map(|(header, body)| (header, *body)).collect();
            records.iter().for_each(|(header, body)| allowed.record(header, body));
            if lanes[*lane].put(&records).is_err() {
                receiver.poison();
                // The other lane may still be at its batch.
                if std::mem::replace(&mut has_failed, true) {
                    break;
                }
            }
        }
    }
    receiver.give_up();
}

fuzz_target!(|input: &[u8]| {
    let Some((&options, rest)) = input.split_first() else { return };
    let (batches, _) = batches(rest);
    let records = || batches.iter().flat_map(|batch| &batch.records);
    let announcements = records().filter_map(|(_, body)| decode::<Announcement>("announcement", body).ok());
    let largest = announcements.map(|announcement| announcement.entry.metadata.size_bytes).max();
    if options & WITH_DIGESTS != 0 && largest > Some(DIGESTED_BYTES_MAX) {
        return;
    }
    let scratch = tempfile::tempdir().expect("a scratch folder");
    let [target, outside] = ["target", "outside"].map(|name| -> PathBuf { scratch.path().join(name) });
    fs::create_dir(&target).expect("a folder");
    fs::create_dir(&outside).expect("a folder");
    fs::write(outside.join("secret"), "secret").expect("a file");
    // A file that is replaced in the target must not change under its other names.
    fs::hard_link(outside.join("secret"), target.join("kept")).expect("another name");
    symlink("../outside", target.join("away")).expect("a link");
    let before = fs::metadata(outside.join("secret")).expect("metadata");

    let mut allowed = Allowed::default();
    let middle = if options & INTERRUPTED == 0 { 0 } else { batches.len() / 2 };
    let (first, second) = batches.split_at(middle);
    if middle > 0 {
        receive(&target, options, first, &mut allowed);
    }
    receive(&target, options, second, &mut allowed);

    allowed.conclude();
    allowed.check(&target, &target, options & WITH_JOURNAL != 0);
    for entry in fs::read_dir(&target).expect("a folder").filter(|_| options & NAMED != 0) {
        let name = entry.expect("an entry").file_name();
        let name = name.as_encoded_bytes();
        let was_asked_for = NAMES.contains(&name) || matches!(name, b"kept" | b"away");
        assert!(was_asked_for || options & WITH_JOURNAL != 0 && name.starts_with(OWN_PREFIX), "{name:?}");
    }
    let names: Vec<_> =
        fs::read_dir(&outside).expect("a folder").map(|entry| entry.expect("an entry").file_name()).collect();
    assert_eq!(names, ["secret"]);
    assert_eq!(fs::read(outside.join("secret")).expect("a file"), b"secret");
    let after = fs::metadata(outside.join("secret")).expect("metadata");
    assert_eq!((before.mode(), before.mtime_nsec()), (after.mode(), after.mtime_nsec()));
    let mut above: Vec<_> = fs::read_dir(scratch.path())
        .expect("a folder")
        .map(|entry| entry.expect("an entry").file_name())
        .collect();
    above.sort();
    assert_eq!(above, ["outside", "target"]);
});

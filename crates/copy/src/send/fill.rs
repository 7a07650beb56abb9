//! Turning files into records.
//!
//! Guarantees: every entry that a lane takes ends in a record, in the skipped count, or in a notice that says
//! why not; a file that changes while it is read is never closed as complete; no more than one range of
//! content is in a lane's hands.

use std::{
    collections::{HashMap, HashSet},
    io::Read,
    ops::Range,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use crossbeam_channel::Sender;
use sealane_tree::{EntryKind, Identity as Inode, Kind, Metadata, OpenFile, Reader, RelativePath};

use crate::{
    digest::{GROUP_BYTES, TreeDigest, hash_group, hash_zero_group},
    error::chain,
    options::Preserve,
    proto::{
        entry::{self, Announcement, Closing, Entry},
        record::{DATA_BYTES_MAX, Kind as RecordKind},
    },
    send::{
        batch::{Builder, CLOSING_BYTES_MAX, Content},
        work::{Bytes, Candidate, Close, Queue, SendFile, Work},
    },
    summary::{Notice, Progress},
};

/// Files up to this size go whole, many to a record.
const SMALL_FILE_BYTES: u64 = 32 * 1024;
/// How often a small file that changes under the reader's hands is read again.
const SMALL_FILE_TRIES: usize = 3;

/// Why a file was given up, in no more bytes than a closing record takes.
fn shortened(mut reason: String) -> String {
    reason.truncate(reason.floor_char_boundary(CLOSING_BYTES_MAX / 2));
    reason
}

/// What the receiver has and need not be sent.
#[derive(Debug, Default)]
pub(crate) struct Possessions {
    pub(crate) done: HashSet<[u8; 16]>,
    pub(crate) partial: HashMap<[u8; 16], Vec<Range<u64>>>,
}

/// What the lanes of a sending end share while they fill batches.
#[derive(Debug)]
pub(crate) struct Filling {
    pub(crate) queue: Queue,
    pub(crate) possessions: Possessions,
    pub(crate) preserve: Preserve,
    pub(crate) digest: bool,
    pub(crate) dry_run: bool,
    pub(crate) notices: Sender<Notice>,
    pub(crate) progress: Arc<Progress>,
    pub(crate) counters: Counters,
    /// First name of every file that has several.
    pub(crate) inodes: Mutex<HashMap<Inode, RelativePath>>,
}

/// What was done, for the summary.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) bytes: AtomicU64,
    pub(crate) entries: AtomicU64,
    pub(crate) resent_bytes: AtomicU64,
    pub(crate) skipped: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) resumed_bytes: AtomicU64,
}

impl Filling {
    fn entry_failed(&self, path: &RelativePath, reason: impl ToString) {
        self.counters.failed.fetch_add(1, Relaxed);
        self.notice(Notice::EntryFailed { path: path.as_bytes().to_vec(), reason: reason.to_string() });
    }

    fn notice(&self, notice: Notice) {
        // The control thread is gone only when the transfer is over.
        let _ = self.notices.send(notice);
    }
}

/// What a lane has in hand between two batches.
#[derive(Debug)]
enum Hand {
    Range { file: Arc<SendFile>, range: Range<u64> },
    Pack(std::vec::IntoIter<Candidate>),
}

/// One lane's reader of files.
#[derive(Debug)]
pub(crate) struct Filler<'a> {
    shared: &'a Filling,
    reader: Reader,
    hand: Option<Hand>,
}

impl<'a> Filler<'a> {
    pub(crate) fn new(shared: &'a Filling, reader: Reader) -> Self {
        let reader = if shared.preserve.owner { reader.with_owner() } else { reader };
        Self { shared, reader, hand: None }
    }

    /// Puts as much into the batch as fits and is there. Work whose last byte went in is put down; the batch
    /// must be counted ([`Queue::batch_out`]) before the next call if it is not empty.
    pub(crate) fn fill(&mut self, batch: &mut Builder) {
        while batch.room() == DATA_BYTES_MAX {
            let hand = match self.hand.take() {
                Some(hand) => hand,
                None => match self.shared.queue.take() {
                    Some(Work::Range { file, range }) => Hand::Range { file, range },
                    Some(Work::Pack(pack)) => Hand::Pack(pack.into_iter()),
                    None => return,
                },
            };
            self.hand = match hand {
                Hand::Range { file, range } => self.fill_range(batch, file, range),
                Hand::Pack(pack) => self.fill_pack(batch, pack),
            };
            if self.hand.is_none() {
                // Counted as a batch before it is no longer counted as in hand.
                if !batch.is_empty() && !batch.counted {
                    self.shared.queue.batch_out();
                    batch.counted = true;
                }
                self.shared.queue.done();
            }
        }
    }

    /// Gives back what the lane has in hand, because it has no stream left to send it on.
    pub(crate) fn release(&mut self) {
        let Some(hand) = self.hand.take() else { return };
        match hand {
            Hand::Range { file, range } => self.shared.queue.put_back_range(file, range),
            Hand::Pack(pack) => {
                let candidates = pack.collect();
                self.shared.queue.give_back(Content::Pack { candidates, bytes: 0 });
            }
        }
        self.shared.queue.done();
    }

    fn fill_range(&self, batch: &mut Builder, file: Arc<SendFile>, range: Range<u64>) -> Option<Hand> {
        if !batch.announces(file.number) {
            if !batch.push_value(RecordKind::Open, file.number, 0, &file.announcement) {
                if batch.is_empty() {
                    file.fail("its name and attributes are too long to send".into());
                    return self.put_down(batch, &file);
                }
                return Some(Hand::Range { file, range });
            }
            batch.announced = Some(file.number);
        }
        if file.has_failed() {
            let start = range.start;
            batch.contents.push(Content::Range { file: file.clone(), start, end: start });
            return self.put_down(batch, &file);
        }
        let (holes, all) = self.push_holes(batch, &file).unwrap_or_else(|reason| {
            file.fail(reason);
            (false, true)
        });
        if !all {
            let start = range.start;
            batch.contents.push(Content::Range { file: file.clone(), start, end: start });
            return Some(Hand::Range { file, range });
        }
        let start = range.start;
        let (end, finished) = match &file.bytes {
            Bytes::File(open) => self.read_range(batch, &file, open, range.clone()),
            Bytes::Pipe(pipe) => self.read_pipe(batch, &file, pipe, range.clone()),
        };
        if end > start || finished || holes {
            // Also when it is empty: the closing record or holes may come with it, and must come back with it.
            self.shared.counters.bytes.fetch_add(end - start, Relaxed);
            batch.contents.push(Content::Range { file: file.clone(), start, end });
        }
        if finished { self.put_down(batch, &file) } else { Some(Hand::Range { file, range: end..range.end }) }
    }

    /// Returns how far it came, and whether the lane is through with its range.
    fn read_range(
        &self,
        batch: &mut Builder,
        file: &SendFile,
        open: &OpenFile,
        range: Range<u64>,
    ) -> (u64, bool) {
        let size_bytes = file.announcement.entry.metadata.size_bytes;
        let mut at = range.start;
        while at < range.end && !file.has_failed() {
            // Up to the next multiple of the record size, so that every record is a whole group of the digest.
            let length = (range.end - at).min(DATA_BYTES_MAX as u64 - at % DATA_BYTES_MAX as u64) as usize;
            if batch.room() < length {
                return (at, false);
            }
            let body = &mut batch.body()[..length];
            let failure = match open.read_at(at, body) {
                Ok(read) if read == length => None,
                Ok(_) => Some("it became shorter while it was read".to_owned()),
                Err(error) => Some(error.to_string()),
            };
            let failure = failure.or_else(|| {
                file.wants_digest()
                    .then(|| file.digest(hash_group(at, body, size_bytes)))?
                    .err()
                    .map(|error| chain(&error))
            });
            if let Some(reason) = failure {
                file.fail(reason);
                return (at, true);
            }
            batch.push(RecordKind::Data, file.number, at, length);
            at += length as u64;
        }
        (at, true)
    }

    fn read_pipe(
        &self,
        batch: &mut Builder,
        file: &SendFile,
        pipe: &Mutex<std::fs::File>,
        range: Range<u64>,
    ) -> (u64, bool) {
        let mut pipe = pipe.lock().expect("no lane panics holding the pipe");
        let mut at = range.start;
        while at < range.end && batch.room() == DATA_BYTES_MAX {
            match read_full(&mut pipe, batch.body()) {
                Ok(length) => {
                    if length > 0 {
                        batch.push(RecordKind::Data, file.number, at, length);
                        at += length as u64;
                    }
                    if length < DATA_BYTES_MAX {
                        file.end_pipe(at);
                        return (at, true);
                    }
                }
                Err(error) => {
                    file.fail(error.to_string());
                    return (at, true);
                }
            }
        }
        (at, at == range.end)
    }

    /// Returns whether there were some, and whether all had room.
    fn push_holes(&self, batch: &mut Builder, file: &SendFile) -> Result<(bool, bool), String> {
        let size_bytes = file.announcement.entry.metadata.size_bytes;
        let mut some = false;
        while let Some(hole) = file.take_hole() {
            let length = hole.end - hole.start;
            if !batch.push_value(RecordKind::Hole, file.number, hole.start, &length) {
                file.put_back_hole(&hole);
                return Ok((some, false));
            }
            some = true;
            if file.wants_digest() {
                for group in (hole.start..hole.end).step_by(GROUP_BYTES) {
                    file.digest(hash_zero_group(group, size_bytes)).map_err(|error| chain(&error))?;
                }
            }
        }
        Ok((some, true))
    }

    /// Nothing is left of the lane's range; whoever puts the last one down closes the file.
    fn put_down(&self, batch: &mut Builder, file: &SendFile) -> Option<Hand> {
        let path = &file.announcement.entry.path;
        let changed = match &file.bytes {
            Bytes::File(open) => !open.unchanged(),
            Bytes::Pipe(_) => false,
        };
        if changed {
            file.fail("it changed while it was read; copy it again".into());
        }
        let closing = match file.put_down()? {
            Close::Complete { digest, size_bytes } => {
                self.shared.counters.entries.fetch_add(1, Relaxed);
                if let Some(digest) = digest {
                    self.shared.notice(Notice::Digest { path: path.as_bytes().to_vec(), digest });
                }
                Closing::Complete { size_bytes, digest }
            }
            Close::Failed { reason } => {
                self.shared.entry_failed(path, &reason);
                Closing::Abandoned { reason: shortened(reason) }
            }
        };
        let fits = batch.push_closing(file.number, &closing);
        assert!(fits, "a batch keeps room for a closing record");
        None
    }

    fn fill_pack(&mut self, batch: &mut Builder, mut pack: std::vec::IntoIter<Candidate>) -> Option<Hand> {
        let mut written = 0;
        let mut bytes = 0;
        let mut candidates = Vec::with_capacity(pack.len());
        let mut full = false;
        while let Some(candidate) = pack.as_slice().first() {
            match self.write_candidate(candidate, &mut batch.body()[written..]) {
                Written::Entry { length, content_bytes } => {
                    written += length;
                    bytes += content_bytes;
                    candidates.extend(pack.next());
                }
                Written::Elsewhere => {
                    pack.next();
                }
                Written::NoRoom if written > 0 => {
                    full = true;
                    break;
                }
                Written::NoRoom => {
                    self.shared
                        .entry_failed(&candidate.found.path, "its name and attributes are too long to send");
                    pack.next();
                }
            }
        }
        if written > 0 {
            self.shared.counters.bytes.fetch_add(bytes, Relaxed);
            self.shared.counters.entries.fetch_add(candidates.len() as u64, Relaxed);
            batch.push(RecordKind::Pack, 0, 0, written);
            batch.contents.push(Content::Pack { candidates, bytes });
        }
        full.then_some(Hand::Pack(pack))
    }

    /// Writes one entry to the front of `body`, or finds another place for it.
    fn write_candidate(&mut self, candidate: &Candidate, body: &mut [u8]) -> Written {
        let found = &candidate.found;
        let path = &found.path;
        let entry = |kind, metadata| Entry { path: path.clone(), kind, metadata, digest: None };
        let written = match &found.kind {
            _ if candidate.link_to.is_some() => {
                let to = candidate.link_to.clone().expect("the guard has looked");
                Ok(self.write_bare(&entry(Kind::HardLink { to }, Metadata::default()), body))
            }
            EntryKind::File => self.write_file(candidate, body),
            EntryKind::Directory(metadata) => {
                Ok(self.write_bare(&entry(Kind::Directory, metadata.clone()), body))
            }
            EntryKind::Symlink => self
                .reader
                .read_link(found.root, path)
                .map(|(target, metadata)| self.write_bare(&entry(Kind::Symlink { target }, metadata), body))
                .map_err(|error| chain(&error)),
            EntryKind::Other => Err("it is a device, pipe or socket".to_owned()),
        };
        written.unwrap_or_else(|reason| {
            self.shared.entry_failed(path, reason);
            Written::Elsewhere
        })
    }

    /// Writes an entry without content.
    fn write_bare(&self, entry: &Entry, body: &mut [u8]) -> Written {
        if self.shared.dry_run {
            return self.would_send(&entry.path, 0);
        }
        match entry::encode(entry, body) {
            Some(length) => Written::Entry { length, content_bytes: 0 },
            None => Written::NoRoom,
        }
    }

    fn would_send(&self, path: &RelativePath, bytes: u64) -> Written {
        self.shared.counters.entries.fetch_add(1, Relaxed);
        self.shared.counters.bytes.fetch_add(bytes, Relaxed);
        self.shared.notice(Notice::WouldSend { path: path.as_bytes().to_vec(), bytes });
        Written::Elsewhere
    }

    fn write_file(&mut self, candidate: &Candidate, body: &mut [u8]) -> Result<Written, String> {
        let shared = self.shared;
        let path = &candidate.found.path;
        let mut tries = 0;
        loop {
            let open = self.reader.open(candidate.found.root, path).map_err(|error| chain(&error))?;
            if shared.preserve.hard_links && open.links() > 1 {
                let mut inodes = shared.inodes.lock().expect("no lane panics holding the inodes");
                let first = inodes.entry(open.identity()).or_insert_with(|| path.clone());
                if first != path {
                    let mut link = candidate.clone();
                    link.link_to = Some(first.clone());
                    shared.queue.push_link(link);
                    return Ok(Written::Elsewhere);
                }
            }
            let identity = entry::identity(path, open.metadata());
            let size_bytes = open.metadata().size_bytes;
            shared.progress.bytes_found.fetch_add(if tries == 0 { size_bytes } else { 0 }, Relaxed);
            if shared.possessions.done.contains(&identity) {
                shared.counters.skipped.fetch_add(1, Relaxed);
                shared.counters.resumed_bytes.fetch_add(size_bytes, Relaxed);
                shared.progress.bytes_moved.fetch_add(size_bytes, Relaxed);
                return Ok(Written::Elsewhere);
            }
            if shared.dry_run {
                return Ok(self.would_send(path, size_bytes));
            }
            let mut metadata = open.metadata().clone();
            if shared.preserve.xattrs {
                metadata.xattrs = open.read_xattrs(path).map_err(|error| chain(&error))?;
            }
            let mut entry = Entry { path: path.clone(), kind: Kind::File, metadata, digest: None };
            if size_bytes > SMALL_FILE_BYTES {
                shared.queue.push_file(self.large_file(entry, open, identity)?);
                return Ok(Written::Elsewhere);
            }
            // The length of the entry does not depend on the digest's value, so the content is read in place.
            entry.digest = shared.digest.then_some([0; 32]);
            let Some(length) = entry::encode(&entry, body) else { return Ok(Written::NoRoom) };
            let content_bytes = size_bytes as usize;
            let Some(content) = body[length..].get_mut(..content_bytes) else { return Ok(Written::NoRoom) };
            let read = open.read_at(0, content).map_err(|error| chain(&error))?;
            // Files of the kernel's own (/proc, /sys) have content and no size, or less of it than their size.
            let has_more = content_bytes == 0 && !matches!(open.read_at(0, &mut [0]), Ok(0));
            let as_stated = read == content_bytes && !has_more;
            if !as_stated && open.unchanged() {
                return Err(
                    "its content is not as long as its size; `cat` it into `sealane cp - TARGET`".to_owned()
                );
            }
            if as_stated && open.unchanged() {
                if shared.digest {
                    let digest = *blake3::hash(content).as_bytes();
                    entry.digest = Some(digest);
                    entry::encode(&entry, body);
                    shared.notice(Notice::Digest { path: path.as_bytes().to_vec(), digest });
                }
                return Ok(Written::Entry { length: length + content_bytes, content_bytes: size_bytes });
            }
            tries += 1;
            if tries == SMALL_FILE_TRIES {
                return Err("it changes while it is read".to_owned());
            }
        }
    }

    fn large_file(&self, entry: Entry, open: OpenFile, identity: [u8; 16]) -> Result<Arc<SendFile>, String> {
        let shared = self.shared;
        let size_bytes = entry.metadata.size_bytes;
        let alignment = if shared.digest { GROUP_BYTES as u64 } else { 1 };
        let data = align(open.extents(), alignment, size_bytes);
        let holes = complement(&data, size_bytes);
        // A digest needs every byte once, so a file that is there in part is read in full but sent in part
        // only where no digest is asked for.
        let known = if shared.digest { None } else { shared.possessions.partial.get(&identity) };
        let ranges = match known {
            Some(known) => {
                let kept: u64 = known.iter().map(|range| range.end - range.start).sum();
                shared.counters.resumed_bytes.fetch_add(kept, Relaxed);
                shared.progress.bytes_moved.fetch_add(kept, Relaxed);
                subtract(&data, known)
            }
            None => data,
        };
        // The file must be announced and closed even where nothing of it is left to send.
        let nothing = ranges.is_empty().then_some(size_bytes..size_bytes);
        let ranges = ranges.into_iter().chain(nothing);
        let digest = shared.digest.then(|| TreeDigest::new(size_bytes));
        let number = shared.queue.next_file();
        let announcement = Announcement { entry, growing: false };
        Ok(Arc::new(SendFile::new(number, announcement, Bytes::File(open), ranges, holes, digest)))
    }
}

/// Where an entry went.
enum Written {
    /// Into the record.
    Entry { length: usize, content_bytes: u64 },
    /// Skipped, failed, large, or a link: not in this record.
    Elsewhere,
    /// The record is full.
    NoRoom,
}

fn read_full(file: &mut std::fs::File, buffer: &mut [u8]) -> std::io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read(&mut buffer[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(filled)
}

/// Widens ranges to multiples of `alignment` and joins those that meet.
fn align(ranges: impl Iterator<Item = Range<u64>>, alignment: u64, size: u64) -> Vec<Range<u64>> {
    let mut aligned: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        let start = range.start / alignment * alignment;
        let end = range.end.div_ceil(alignment).saturating_mul(alignment).min(size);
        match aligned.last_mut() {
            Some(last) if start <= last.end => last.end = last.end.max(end),
            _ => aligned.push(start..end),
        }
    }
    aligned
}

/// What `ranges` (ascending, apart) leave out of `0..size`.
fn complement(ranges: &[Range<u64>], size: u64) -> Vec<Range<u64>> {
    subtract(std::slice::from_ref(&(0..size)), ranges)
}

/// What is in `from` and not in `take` (both ascending, apart).
fn subtract(from: &[Range<u64>], take: &[Range<u64>]) -> Vec<Range<u64>> {
    let mut left = Vec::new();
    for range in from {
        let mut start = range.start;
        for gap in take.iter().filter(|gap| gap.end > range.start && gap.start < range.end) {
            if gap.start > start {
                left.push(start..gap.start);
            }
            start = start.max(gap.end);
        }
        if start < range.end {
            left.push(start..range.end);
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_subtract_and_complement() {
        assert_eq!(subtract(&[0..10, 20..30], &[5..7, 8..25, 29..40]), [0..5, 7..8, 25..29]);
        assert_eq!(complement(&[2..4, 8..10], 10), [0..2, 4..8]);
        assert_eq!(complement(&[], 0), []);
    }

    #[test]
    fn ranges_align_and_join() {
        assert_eq!(align([1..2, 9..12, 30..31].into_iter(), 8, 31), [0..16, 24..31]);
        assert_eq!(align([1..2, 9..12].into_iter(), 1, 31), [1..2, 9..12]);
    }
}

//! Turns files into records: the work held by a lane, and ranges of large files.
//!
//! Guarantees: every entry that a lane takes ends in a record, in the skipped count, or in a notice with the reason;
//! a file that changes while it is read is never closed as complete; a lane holds at most one range of content.

pub(crate) mod delta;

use std::{
    collections::HashMap,
    convert::Infallible,
    io::Read,
    ops::Range,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use crossbeam_channel::{Receiver, Sender};
use sealane_peer::chain;
use sealane_tree::{
    Changes, Identity as Inode, Metadata, OpenFile, Reader, RelativePath, ShownPath, Timestamp,
};

use crate::{
    digest::{GROUP_BYTES, hash_group, hash_piece, hash_zero_group, is_group},
    options::{Sameness, Wishes},
    proto::{
        entry::{Closing, Copied, Entry, identity_by_seconds, known_identity, path_hash},
        record::{DATA_BYTES_MAX, Kind as RecordKind},
    },
    send::{
        batch::{Builder, CLOSING_BYTES_MAX},
        equal::Equal,
        manifest::{Manifest, Outgoing},
        moved::Moved,
        removal::Sent,
        work::{Bytes, Check, Claim, Close, Content, Errand, Pack, Queue, SendFile},
    },
    shared::drain_until,
    summary::{Notice, Progress},
};
use delta::Deltas;

/// Shortens the reason why a file was abandoned to the length that a closing record permits.
fn shortened(mut reason: String) -> String {
    reason.truncate(reason.floor_char_boundary(CLOSING_BYTES_MAX / 2));
    reason
}

/// The maximum number of identities that a sender keeps of the receiver's entries; the rest is sent again.
pub(crate) const POSSESSIONS_MAX: usize = 4 << 20;

/// The entries that the receiver has and that need not be sent.
#[derive(Debug, Default)]
pub(crate) struct Possessions {
    /// Files in place, with their attributes.
    pub(crate) done: HashMap<[u8; 16], [u8; 8]>,
    /// The pieces of partial files that the receiver claims to have.
    pub(crate) partial: HashMap<[u8; 16], Vec<Claim>>,
    /// Files that must not be replaced by older ones, by the hash of their path; all names that the receiver has, if entries are
    /// passed over because of them.
    pub(crate) dated: HashMap<[u8; 16], Timestamp>,
    /// Folders that are equal at both ends, with everything in them but their folders.
    pub(crate) equal: Equal,
    /// The sizes of other versions that the receiver has, by the hash of their path.
    pub(crate) versions: HashMap<[u8; 16], u64>,
    /// Those among them that may have been moved.
    pub(crate) moved: Moved,
    /// By what the receiver has told its files.
    pub(crate) sameness: Sameness,
    /// The receiver keeps whole seconds, and `done` is computed with them.
    pub(crate) whole_seconds: bool,
}

impl Possessions {
    /// Returns the attributes of this file at the receiver, if the receiver has it, as far as it reports them.
    pub(super) fn of(
        &self,
        path: &RelativePath,
        metadata: &Metadata,
        identity: &[u8; 16],
    ) -> Option<&[u8; 8]> {
        if self.done.is_empty() {
            return None;
        }
        if self.sameness != Sameness::Time {
            let known = self.done.get(&known_identity(path, metadata, self.sameness))?;
            let is_same = || {
                let there = self.dated.get(&path_hash(path));
                there.is_some_and(|&there| self.sameness.has(there, metadata.modified))
            };
            return (self.sameness == Sameness::Nothing || is_same()).then_some(known);
        }
        if !self.whole_seconds {
            return self.done.get(identity);
        }
        self.done.get(&identity_by_seconds(path, metadata))
    }

    /// Returns whether the receiver has some files, but no part of this one.
    pub(super) fn has_others_than(
        &self,
        path: &RelativePath,
        metadata: &Metadata,
        identity: &[u8; 16],
    ) -> bool {
        let nothing = self.done.is_empty() && self.partial.is_empty() && self.equal.is_empty();
        !nothing && self.of(path, metadata, identity).is_none() && !self.partial.contains_key(identity)
    }
}

/// The state shared by the lanes of a sending end while they fill batches.
#[derive(Debug)]
pub(crate) struct Filling {
    pub(crate) queue: Queue,
    pub(crate) possessions: Possessions,
    pub(crate) manifest: Manifest,
    /// Entries of a dry run, on their way to a receiver that reports the change each would cause.
    pub(crate) preview: Outgoing<Entry>,
    pub(crate) sent: Sent,
    /// Files whose content the receiver has are skipped, whatever their times.
    pub(crate) checksum: bool,
    pub(crate) wishes: Wishes,
    /// Changes of what is read.
    pub(crate) changes: Arc<Changes>,
    /// The receiver computes digests as well, and so needs all bytes of a file: its records carry no integrity tags.
    pub(crate) both_digest: bool,
    pub(crate) notices: Sender<Notice>,
    pub(crate) progress: Arc<Progress>,
    pub(crate) counters: Counters,
    /// The name under which a file with several names is sent.
    pub(crate) inodes: Mutex<HashMap<Inode, RelativePath>>,
    /// The comparison with other versions.
    pub(crate) deltas: Deltas,
}

impl Filling {
    /// Waits until `ended` is closed, which is when threads of a stopped transfer have ended, and returns their
    /// notices. Names and entries that they hand on meanwhile are discarded.
    pub(crate) fn drain_until(
        &self,
        ended: &Receiver<Infallible>,
        notices: &Receiver<Notice>,
    ) -> Vec<Notice> {
        drain_until(ended, notices, (self.manifest.waiting(), self.preview.waiting()))
    }
}

/// Counters for the summary.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) bytes: AtomicU64,
    pub(crate) entries: AtomicU64,
    pub(crate) resent_bytes: AtomicU64,
    pub(crate) skipped: AtomicU64,
    pub(crate) failed: AtomicU64,
    /// The number of failed entries that no repetition could copy.
    pub(crate) unfit: AtomicU64,
    pub(crate) resumed_bytes: AtomicU64,
    /// Bytes that compression has spared the line.
    pub(crate) spared_bytes: AtomicU64,
    /// Content bytes that the receiver has in other versions.
    pub(crate) matched_bytes: AtomicU64,
}

impl Filling {
    /// Returns whether the time of a file is one of its attributes.
    pub(in crate::send) fn is_apart_from_time(&self) -> bool {
        self.checksum || self.possessions.sameness.is_apart_from_time()
    }

    /// Returns whether an entry is passed over by what the receiver has under its name, as far as that is known here: in case
    /// of doubt the receiver decides.
    pub(in crate::send) fn passes_over(&self, path: &RelativePath, is_folder: bool) -> bool {
        let existing = self.wishes.upkeep.existing;
        if !existing.matters() {
            return false;
        }
        let names = &self.possessions.dated;
        let is_present = names.contains_key(&path_hash(path));
        (is_present || names.len() < POSSESSIONS_MAX) && existing.passes_over(is_present, is_folder)
    }

    /// Reports an entry that could not be sent, with a reason that names it.
    pub(crate) fn failed(&self, shown: &ShownPath, reason: String) {
        self.counters.failed.fetch_add(1, Relaxed);
        self.notice(Notice::EntryFailed { path: shown.as_bytes().to_vec(), reason });
    }

    /// Reports an entry that is never sent: its kind cannot be copied with these options.
    pub(crate) fn unfit(&self, shown: &ShownPath, reason: String) {
        self.counters.unfit.fetch_add(1, Relaxed);
        self.failed(shown, reason);
    }

    pub(in crate::send) fn notice(&self, notice: Notice) {
        // The control thread is gone only when the transfer is over.
        let _ = self.notices.send(notice);
    }
}

#[derive(Debug)]
enum Piece {
    Range { file: Arc<SendFile>, range: Range<u64>, check: Option<Check> },
    Pack(Pack),
}

/// A piece of work held by a lane. If it is dropped unfinished, the rest goes back to the queue.
#[derive(Debug)]
struct TakenPiece<'a> {
    queue: &'a Queue,
    left: Option<Piece>,
}

impl<'a> TakenPiece<'a> {
    /// Takes a piece of work, if there is any now.
    fn take(queue: &'a Queue) -> Option<Self> {
        let left = match queue.take()? {
            Errand::Range { file, range, check } => Piece::Range { file, range, check },
            Errand::Pack(pack) => Piece::Pack(Pack::new(pack)),
        };
        Some(Self { queue, left: Some(left) })
    }

    fn is_pack(&self) -> bool {
        matches!(self.left, Some(Piece::Pack(_)))
    }

    /// Finishes the work: all of it is in batches that the queue counts, or needs none.
    fn put_down(mut self) {
        self.left = None;
    }
}

impl Drop for TakenPiece<'_> {
    fn drop(&mut self) {
        match self.left.take() {
            Some(Piece::Range { file, range, check }) => self.queue.put_back_range(file, range, check),
            Some(Piece::Pack(pack)) => {
                let candidates = pack.into_candidates();
                self.queue.give_back(Content::Pack { candidates, bytes: 0 });
            }
            None => {}
        }
        self.queue.done();
    }
}

/// One lane's reader of files.
#[derive(Debug)]
pub(crate) struct Filler<'a> {
    pub(super) shared: &'a Filling,
    pub(super) reader: Reader,
    hand: Option<TakenPiece<'a>>,
}

impl<'a> Filler<'a> {
    pub(crate) fn new(shared: &'a Filling, reader: Reader) -> Self {
        let reader = if shared.wishes.preserve.owner.is_wanted() { reader.with_owner() } else { reader };
        let reader = reader.changing(Arc::clone(&shared.changes));
        Self { shared, reader, hand: None }
    }

    /// Puts as much available work into the batch as fits. Work is finished with its last byte; if the batch is not
    /// empty, it must be counted ([`Queue::batch_out`]) before the next call.
    pub(crate) fn fill(&mut self, batch: &mut Builder) {
        while batch.takes_more() {
            // Entries wait while enough large ones are compared.
            if self.shared.deltas.is_full() && matches!(&self.hand, Some(hand) if hand.is_pack()) {
                self.hand = None;
            }
            let taken = self.hand.take().or_else(|| TakenPiece::take(&self.shared.queue));
            let Some(mut hand) = taken else { return };
            let is_through = match &mut hand.left {
                Some(Piece::Range { file, range, check }) => self.fill_range(batch, file, range, check),
                Some(Piece::Pack(pack)) => self.fill_pack(batch, pack),
                None => true,
            };
            if !is_through {
                self.hand = Some(hand);
                continue;
            }
            // It is counted as a batch before it is no longer counted as held by the lane.
            if !batch.is_empty() && !batch.counted {
                self.shared.queue.batch_out();
                batch.counted = true;
            }
            hand.put_down();
        }
    }

    /// Returns the lane's work to the queue, because it has no stream left to send it on.
    pub(crate) fn release(&mut self) {
        self.hand = None;
    }

    /// Returns whether the lane has finished its range.
    fn fill_range(
        &self,
        batch: &mut Builder,
        file: &Arc<SendFile>,
        range: &mut Range<u64>,
        check: &mut Option<Check>,
    ) -> bool {
        if !batch.announces(file.number) {
            if !batch.push_value(RecordKind::Open, file.number, 0, &file.announcement) {
                if batch.is_empty() {
                    file.fail("its name and attributes are too long to send".into());
                    self.put_down(batch, file);
                    return true;
                }
                return false;
            }
            batch.announced = Some(file.number);
        }
        if file.has_failed() {
            let start = range.start;
            batch.contents.push(Content::Range { file: file.clone(), start, end: start });
            self.put_down(batch, file);
            return true;
        }
        if let Some(Check::Elsewhere(from)) = *check {
            let copied = Copied { from, bytes: range.end - range.start };
            if !batch.push_value(RecordKind::Copy, file.number, range.start, &copied) {
                return false;
            }
            self.shared.counters.matched_bytes.fetch_add(copied.bytes, Relaxed);
            let claim = Claim { range: range.clone(), check: Check::Elsewhere(from) };
            batch.contents.push(Content::Kept { file: file.clone(), claim });
            range.start = range.end;
            *check = None;
        }
        if let Some(claimed) = check.take() {
            match self.is_as_claimed(file, range, claimed) {
                Ok(true) => {
                    let length = range.end - range.start;
                    if !batch.push_value(RecordKind::Kept, file.number, range.start, &length) {
                        *check = Some(claimed);
                        return false;
                    }
                    self.shared.counters.resumed_bytes.fetch_add(length, Relaxed);
                    let claim = Claim { range: range.clone(), check: claimed };
                    batch.contents.push(Content::Kept { file: file.clone(), claim });
                    range.start = range.end;
                }
                Ok(false) => self.begins_again(file, range),
                Err(reason) => file.fail(reason),
            }
        }
        let (holes, all) = self.push_holes(batch, file).unwrap_or_else(|reason| {
            file.fail(reason);
            (false, true)
        });
        if !all {
            let start = range.start;
            batch.contents.push(Content::Range { file: file.clone(), start, end: start });
            return false;
        }
        let start = range.start;
        let (end, finished) = match &file.bytes {
            Bytes::File(_) if batch.left_room_bytes().is_some() => leave_range(batch, file, range.clone()),
            Bytes::File(open) => self.read_range(batch, file, open, range.clone()),
            Bytes::Pipe(pipe) => self.read_pipe(batch, file, pipe, range.clone()),
        };
        if end > start || finished || holes {
            // An empty range is included: the closing record or holes may belong to it, and must be repeated with it.
            self.shared.counters.bytes.fetch_add(end - start, Relaxed);
            batch.contents.push(Content::Range { file: file.clone(), start, end });
        }
        range.start = end;
        if finished {
            self.put_down(batch, file);
        }
        finished
    }

    /// Returns the offset that was reached, and whether the lane has finished its range.
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
            // The length reaches to the next multiple of the record size, so that every record is a whole group of
            // the digest.
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
                // Content between ranges that the receiver has is no whole group, and was digested when it was compared.
                (file.wants_digest() && is_group(at, length, size_bytes))
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

    /// Returns whether the receiver has what the source has in a range, by its claim. Adds the range to the digest, if
    /// there is one.
    fn is_as_claimed(&self, file: &SendFile, range: &Range<u64>, check: Check) -> Result<bool, String> {
        let Bytes::File(open) = &file.bytes else { return Ok(false) };
        let hash = match check {
            Check::Hash(hash) => hash,
            Check::Trusted => return Ok(!file.wants_digest()),
            Check::Elsewhere(_) => return Ok(false),
        };
        let size_bytes = file.announcement.entry.metadata.size_bytes;
        if range.end > size_bytes {
            return Ok(false);
        }
        let fill = |at, group: &mut [u8]| match open.read_at(at, group) {
            Ok(length) if length == group.len() => Ok(()),
            Ok(_) => Err("it became shorter while it was read".to_owned()),
            Err(error) => Err(error.to_string()),
        };
        let digest = |hash| file.digest(hash).map_err(|error| chain(&error));
        Ok(hash_piece(range.clone(), size_bytes, fill, digest)? == hash)
    }

    /// Sends a range although the receiver claims to have it: what is there differs.
    fn begins_again(&self, file: &SendFile, range: &Range<u64>) {
        self.shared.progress.bytes_found.fetch_add(range.end - range.start, Relaxed);
        if file.tells_difference() {
            self.shared.notice(Notice::BegunAgain { path: file.shown.as_bytes().to_vec() });
        }
    }

    /// Returns whether there were holes, and whether all fitted.
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

    /// The lane's range is finished; the lane that finishes the last range closes the file.
    fn put_down(&self, batch: &mut Builder, file: &SendFile) {
        if let Some(fault) = file.fault() {
            file.fail(fault);
        }
        let Some(closing) = file.put_down() else { return };
        self.shared.progress.files_done.fetch_add(1, Relaxed);
        let closing = match closing {
            Close::Complete { digest, size_bytes } => {
                self.shared.counters.entries.fetch_add(1, Relaxed);
                if let Some(digest) = digest.filter(|_| self.shared.wishes.digest) {
                    self.shared.notice(Notice::Digest {
                        path: file.announcement.entry.path.as_bytes().to_vec(),
                        digest,
                    });
                }
                Closing::Complete { size_bytes, digest }
            }
            Close::Failed { reason } => {
                self.shared.failed(&file.shown, format!("{}: {reason}", file.shown));
                Closing::Abandoned { reason: shortened(reason) }
            }
        };
        let fits = batch.push_closing(file.number, &closing);
        assert!(fits, "a batch keeps room for a closing record");
    }
}

/// Leaves a range in its file, for a connection to take it from there. Returns the offset that was reached, and whether
/// the lane has finished its range. Whoever sends it detects a file that has changed.
fn leave_range(batch: &mut Builder, file: &Arc<SendFile>, range: Range<u64>) -> (u64, bool) {
    let room = batch.left_room_bytes().unwrap_or_default();
    let bytes = (range.end - range.start).min(room as u64) as usize;
    if bytes > 0 {
        batch.push_left(file, range.start, bytes);
    }
    let end = range.start + bytes as u64;
    (end, end == range.end)
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

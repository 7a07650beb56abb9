//! The work of a sending end, and its holders.
//!
//! Guarantees: a piece of work is in the queue, held by a lane, in a batch in flight, or done, and always in one of
//! them, so [`Queue::is_done`] is true only when nothing can come back. The queue is bounded: the scan waits for the
//! lanes. Work that comes back from a cut stream is taken first.

use std::{
    collections::VecDeque,
    ops::Range,
    sync::{
        Arc, Condvar, Mutex, MutexGuard,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    time::Duration,
};

use sealane_tree::{Entry as Found, OpenFile, ShownPath};

use crate::{
    digest::{DigestError, GroupHash, TreeDigest},
    proto::entry::Announcement,
    send::ranges::complement,
};

/// The largest part of a file that one lane takes. Resuming after a cut sends at most the content in flight, so
/// smaller is safer; larger saves announcements. A multiple of the record size.
const RANGE_BYTES_MAX: u64 = 8 << 20;
/// The smallest part: one batch.
const RANGE_BYTES_MIN: u64 = 512 << 10;
/// A file is cut into at least this many ranges, unless they would be too small: when the last is taken, the other
/// lanes are nearly done as well.
const RANGES_MIN: u64 = 64;
/// The number of small entries that one lane takes.
pub(crate) const PACK_ENTRIES: usize = 128;
const QUEUE_MAX: usize = 256;
/// The reason why a file that changes is not copied.
const CHANGED: &str = "it changed while it was read; copy it again";

/// An entry that the scan found and no lane has examined.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    pub(crate) found: Found,
    pub(crate) others: OtherNames,
}

/// The known state of the other names of a candidate's file, if links are preserved.
#[derive(Clone, Debug)]
pub(crate) enum OtherNames {
    /// Nothing is known yet.
    Unknown,
    /// The receiver has the file under none of the names that the scan has found.
    Seen,
    /// This name was sent.
    Sent(sealane_tree::RelativePath),
}

/// Small entries held by a lane.
#[derive(Debug)]
pub(super) struct Pack {
    pub(super) candidates: std::vec::IntoIter<Candidate>,
    /// The first entry's file, if it was opened and then did not fit.
    pub(super) opened: Option<OpenFile>,
    /// The entries in the record that is not in the batch yet.
    pub(super) written: Vec<Candidate>,
}

impl Pack {
    pub(super) fn new(candidates: Vec<Candidate>) -> Self {
        Self { candidates: candidates.into_iter(), opened: None, written: Vec::new() }
    }

    pub(super) fn into_candidates(self) -> Vec<Candidate> {
        self.written.into_iter().chain(self.candidates).collect()
    }
}

/// The source of a large file's bytes.
#[derive(Debug)]
pub(crate) enum Bytes {
    File(Arc<OpenFile>),
    /// The bytes are read in order, once, by whatever lane.
    Pipe(Mutex<std::fs::File>),
}

/// A file that is sent in ranges over any number of streams.
#[derive(Debug)]
pub(crate) struct SendFile {
    /// Its number within the transfer.
    pub(crate) number: u32,
    pub(crate) announcement: Announcement,
    /// The user's name for it.
    pub(crate) shown: ShownPath,
    pub(crate) bytes: Bytes,
    range_bytes: u64,
    progress: Mutex<FileProgress>,
}

#[derive(Debug)]
struct FileProgress {
    /// Pieces that the receiver claims to have, and that no lane has compared.
    claimed: VecDeque<Claim>,
    /// Ranges that no lane has taken, and their offset in the receiver's version if that has them.
    left: VecDeque<(Range<u64>, Option<u64>)>,
    /// The number of ranges held by lanes.
    in_hand: usize,
    holes: Vec<Range<u64>>,
    /// The number of holes that were sent; back to 0 if sent records may be lost.
    holes_told: usize,
    digest: Option<TreeDigest>,
    size_bytes: u64,
    /// The reason why the file cannot be completed.
    failure: Option<String>,
    /// Whether the closing record was made; it is made again if a range comes back.
    closed: bool,
    /// Whether the user knows that what the receiver has differs.
    difference_told: bool,
}

/// A piece of a file that the receiver claims to have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Claim {
    pub(crate) range: Range<u64>,
    pub(crate) check: Check,
}

/// The proof of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Check {
    /// The piece that the receiver has read again has this hash ([`PieceHash`](crate::digest::PieceHash)).
    Hash([u8; 32]),
    /// The user trusts the receiver's journal.
    Trusted,
    /// The receiver's version has the piece from this offset on, which was found by comparing.
    Elsewhere(u64),
}

/// The content of the closing record once nothing is left.
#[derive(Debug)]
pub(crate) enum Close {
    Complete { digest: Option<[u8; 32]>, size_bytes: u64 },
    Failed { reason: String },
}

impl SendFile {
    /// Returns a file to be sent in the given ranges; `holes` read as zeros and are announced only.
    pub(crate) fn new(
        number: u32,
        announcement: Announcement,
        shown: ShownPath,
        bytes: Bytes,
        ranges: impl IntoIterator<Item = Range<u64>>,
        holes: Vec<Range<u64>>,
        digest: Option<TreeDigest>,
    ) -> Self {
        let size_bytes = announcement.entry.metadata.size_bytes;
        let range_bytes =
            (size_bytes / RANGES_MIN).clamp(RANGE_BYTES_MIN, RANGE_BYTES_MAX).next_power_of_two();
        let progress = FileProgress {
            size_bytes,
            left: ranges.into_iter().map(|range| (range, None)).collect(),
            in_hand: 0,
            holes_told: 0,
            holes,
            claimed: VecDeque::new(),
            digest,
            failure: None,
            closed: false,
            difference_told: false,
        };
        Self { number, announcement, shown, bytes, range_bytes, progress: Mutex::new(progress) }
    }

    /// The file is compared with the receiver's version. Until [`Self::all_planned`], somebody may add to what is to be sent.
    pub(in crate::send) fn compared(mut self) -> Self {
        self.progress.get_mut().expect("nobody has it yet").in_hand += 1;
        self
    }

    /// Takes back what no lane has taken, if it is at least this much, to be compared: as for a [compared](Self::compared) file,
    /// somebody adds it again.
    pub(in crate::send) fn compare_rest(&self, bytes_min: u64) -> Option<Vec<Range<u64>>> {
        let mut progress = self.progress();
        let bytes: u64 = progress.left.iter().map(|(range, _)| range.end - range.start).sum();
        if bytes < bytes_min || progress.failure.is_some() || progress.closed {
            return None;
        }
        progress.in_hand += 1;
        Some(progress.left.drain(..).map(|(range, _)| range).collect())
    }

    /// The digest is not needed any more, unless the user wants it.
    pub(in crate::send) fn forget_digest(&self, is_wanted: bool) {
        if !is_wanted {
            self.progress().digest = None;
        }
    }

    /// Adds ranges, each to be sent unless the receiver's version has it at an offset.
    pub(in crate::send) fn plan(&self, ranges: impl IntoIterator<Item = (Range<u64>, Option<u64>)>) {
        let mut progress = self.progress();
        if progress.failure.is_none() {
            progress.left.extend(ranges);
        }
    }

    /// Nothing is added any more. A lane must be told, which closes the file if nothing is left.
    pub(in crate::send) fn all_planned(&self) {
        let mut progress = self.progress();
        progress.in_hand -= 1;
        let end = progress.size_bytes;
        progress.left.push_back((end..end, None));
    }

    /// Returns the same file under another number, to be sent as a whole: `data` are its ranges that hold data.
    pub(in crate::send) fn again(&self, number: u32, data: Vec<Range<u64>>, with_digest: bool) -> Self {
        let (announcement, shown) = (self.announcement.clone(), self.shown.clone());
        let size_bytes = announcement.entry.metadata.size_bytes;
        let bytes = match &self.bytes {
            Bytes::File(open) => Bytes::File(open.clone()),
            Bytes::Pipe(_) => unreachable!("a pipe has no other version"),
        };
        let holes = complement(&data, size_bytes);
        let nothing = data.is_empty().then_some(size_bytes..size_bytes);
        let digest = with_digest.then(|| TreeDigest::new(size_bytes));
        Self::new(number, announcement, shown, bytes, data.into_iter().chain(nothing), holes, digest)
    }

    /// Returns whether the closing record was made.
    pub(in crate::send) fn is_closed(&self) -> bool {
        self.progress().closed
    }

    /// Returns the number of ranges that no lane has taken.
    pub(in crate::send) fn ranges_left(&self) -> usize {
        let progress = self.progress();
        progress.left.len() + progress.claimed.len()
    }

    fn progress(&self) -> MutexGuard<'_, FileProgress> {
        self.progress.lock().expect("no lane panics holding a file's progress")
    }

    /// Returns the next range, with the receiver's claim of it if it makes one; the caller holds it until
    /// [`Self::put_down`].
    fn take_range(&self) -> Option<(Range<u64>, Option<Check>)> {
        let mut progress = self.progress();
        if let Some(Claim { range, check }) = progress.claimed.pop_front() {
            progress.in_hand += 1;
            return Some((range, Some(check)));
        }
        let (range, elsewhere) = progress.left.pop_front()?;
        let cut = match self.bytes {
            _ if elsewhere.is_some() => range.end,
            Bytes::File(_) => range.end.min((range.start / self.range_bytes + 1) * self.range_bytes),
            // A pipe is read in order by one lane.
            Bytes::Pipe(_) => range.end,
        };
        if cut < range.end {
            progress.left.push_front((cut..range.end, None));
        }
        progress.in_hand += 1;
        Some((range.start..cut, elsewhere.map(Check::Elsewhere)))
    }

    /// Returns whether no range is left for another lane.
    pub(crate) fn is_taken(&self) -> bool {
        let progress = self.progress();
        progress.left.is_empty() && progress.claimed.is_empty()
    }

    /// Adds the pieces that the receiver claims to have: those that are like the source are not sent.
    pub(crate) fn with_claims(mut self, claims: &[Claim]) -> Self {
        self.progress.get_mut().expect("nobody has it yet").claimed = claims.iter().cloned().collect();
        self
    }

    /// Takes back a claim that no lane has compared.
    fn give_back_claim(&self, claim: Claim) {
        self.progress().claimed.push_front(claim);
    }

    /// Returns the next hole to send.
    pub(crate) fn take_hole(&self) -> Option<Range<u64>> {
        let mut progress = self.progress();
        let hole = progress.holes.get(progress.holes_told).cloned()?;
        progress.holes_told += 1;
        Some(hole)
    }

    /// Takes back a hole that did not fit: it and all later ones are still to be sent.
    pub(crate) fn put_back_hole(&self, hole: &Range<u64>) {
        let mut progress = self.progress();
        let before = progress.holes.partition_point(|other| other.start < hole.start);
        progress.holes_told = progress.holes_told.min(before);
    }

    /// Takes back a range from a cut stream.
    fn give_back(&self, range: Range<u64>) {
        if matches!(self.bytes, Bytes::Pipe(_)) {
            self.fail("a stream was lost, and a pipe cannot be read again".into());
        }
        let mut progress = self.progress();
        // This also happens after a failure: the closing record that reports it may have been lost.
        progress.left.push_front((range, None));
    }

    /// Handles the possible loss of the closing record and of the holes. Returns true if the closing record had been
    /// made; it will be made again.
    pub(crate) fn reopen(&self) -> bool {
        let mut progress = self.progress();
        progress.holes_told = 0;
        progress.failure.is_none() & std::mem::replace(&mut progress.closed, false)
    }

    /// The pipe ended at `size_bytes`.
    pub(crate) fn end_pipe(&self, size_bytes: u64) {
        let mut progress = self.progress();
        progress.size_bytes = size_bytes;
        progress.left.clear();
        progress.claimed.clear();
    }

    /// Abandons the file, which cannot be completed; nothing more of it is sent.
    pub(crate) fn fail(&self, reason: String) {
        let mut progress = self.progress();
        progress.failure.get_or_insert(reason);
        progress.left.clear();
        progress.claimed.clear();
    }

    pub(crate) fn has_failed(&self) -> bool {
        self.progress().failure.is_some()
    }

    /// Returns why what was sent is not the file's content, if it is not: it has failed, or has changed since it was
    /// opened.
    pub(crate) fn fault(&self) -> Option<String> {
        let changed = match &self.bytes {
            Bytes::File(open) => !open.unchanged(),
            Bytes::Pipe(_) => false,
        };
        let failure = self.progress().failure.clone();
        failure.or_else(|| changed.then(|| CHANGED.to_owned()))
    }

    /// Returns whether the user must be told that what the receiver has of the file differs: once.
    pub(crate) fn tells_difference(&self) -> bool {
        !std::mem::replace(&mut self.progress().difference_told, true)
    }

    /// Adds a part of the digest.
    pub(crate) fn digest(&self, hash: GroupHash) -> Result<(), DigestError> {
        self.progress().digest.as_mut().map_or(Ok(()), |digest| digest.add(hash))
    }

    /// Returns whether a digest is requested.
    pub(crate) fn wants_digest(&self) -> bool {
        self.progress().digest.is_some()
    }

    /// Records that a lane has read its range to the end. The last lane to do so gets the closing record to send.
    pub(crate) fn put_down(&self) -> Option<Close> {
        let mut progress = self.progress();
        progress.in_hand -= 1;
        let is_left = !progress.left.is_empty() || !progress.claimed.is_empty();
        if progress.in_hand > 0 || is_left || progress.closed {
            return None;
        }
        progress.closed = true;
        Some(match progress.failure.clone() {
            Some(reason) => Close::Failed { reason },
            None => Close::Complete {
                digest: progress.digest.as_ref().and_then(TreeDigest::finish),
                size_bytes: progress.size_bytes,
            },
        })
    }
}

/// Content of a batch, to be repeated if the batch is lost.
#[derive(Debug)]
pub(crate) enum Content {
    /// Part of a large file.
    Range { file: Arc<SendFile>, start: u64, end: u64 },
    /// A piece of a large file that the receiver has; nothing of it was sent.
    Kept { file: Arc<SendFile>, claim: Claim },
    /// Small entries.
    Pack { candidates: Vec<Candidate>, bytes: u64 },
}

impl Content {
    /// Returns the length of the file content in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        match self {
            Self::Range { start, end, .. } => end - start,
            Self::Kept { .. } => 0,
            Self::Pack { bytes, .. } => *bytes,
        }
    }
}

/// One piece of work, held by a lane.
#[derive(Debug)]
pub(crate) enum Errand {
    /// A range, which is sent unless the receiver's claim of it is right.
    Range {
        file: Arc<SendFile>,
        range: Range<u64>,
        check: Option<Check>,
    },
    Pack(Vec<Candidate>),
}

#[derive(Debug)]
enum Queued {
    File(Arc<SendFile>),
    Pack(Vec<Candidate>),
}

/// All work of one transfer.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
    room: Condvar,
    next_file: AtomicU32,
}

#[derive(Debug, Default)]
struct State {
    queued: VecDeque<Queued>,
    /// The number of pieces held by lanes or in batches in flight.
    out: usize,
    scan_complete: bool,
    /// Names of files with several names, to be sent after all other entries.
    last: Vec<Candidate>,
    /// Entries wait: they may be large files, of which enough are under way.
    holds_packs: bool,
    stopped: bool,
}

impl Queue {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics holding the queue")
    }

    /// Returns the next number for a large file.
    pub(crate) fn next_file(&self) -> u32 {
        self.next_file.fetch_add(1, Relaxed)
    }

    /// Adds entries that the scan found, waiting for room. Returns false if the transfer has stopped.
    pub(crate) fn push_found(&self, pack: Vec<Candidate>) -> bool {
        let mut state = self.state();
        while state.queued.len() >= QUEUE_MAX && !state.stopped {
            state = self
                .room
                .wait_timeout(state, Duration::from_secs(1))
                .expect("no thread panics holding the queue")
                .0;
        }
        state.queued.push_back(Queued::Pack(pack));
        !state.stopped
    }

    /// The scan has found everything.
    pub(crate) fn scan_complete(&self) {
        self.state().scan_complete = true;
    }

    /// Adds a candidate that a lane found to be a large file. It goes to the front, so that at most one lane's worth
    /// of large files is open at a time.
    pub(crate) fn push_file(&self, file: Arc<SendFile>) {
        self.state().queued.push_front(Queued::File(file));
    }

    /// Adds a candidate that must wait until the other names of its file have been found and everything else has
    /// arrived.
    pub(crate) fn push_last(&self, candidate: Candidate) {
        self.state().last.push(candidate);
    }

    /// Lets entries wait, or no more, while large files go on.
    pub(crate) fn hold_packs(&self, is_held: bool) {
        self.state().holds_packs = is_held;
    }

    /// Takes a piece of work, if there is any now.
    pub(crate) fn take(&self) -> Option<Errand> {
        let mut state = self.state();
        if state.queued.is_empty() && state.scan_complete && state.out == 0 && !state.last.is_empty() {
            let mut last = std::mem::take(&mut state.last);
            while !last.is_empty() {
                let pack = last.split_off(last.len().saturating_sub(PACK_ENTRIES));
                state.queued.push_back(Queued::Pack(pack));
            }
        }
        loop {
            let holds_packs = state.holds_packs;
            let next =
                state.queued.iter().position(|queued| !(holds_packs && matches!(queued, Queued::Pack(_))));
            let next = next?;
            let work = match &state.queued[next] {
                Queued::Pack(_) => {
                    let Some(Queued::Pack(pack)) = state.queued.remove(next) else { return None };
                    Errand::Pack(pack)
                }
                Queued::File(file) => {
                    let file = file.clone();
                    let range = file.take_range();
                    if range.is_none() || file.is_taken() {
                        state.queued.remove(next);
                    }
                    let Some((range, check)) = range else { continue };
                    Errand::Range { file, range, check }
                }
            };
            state.out += 1;
            self.room.notify_one();
            return Some(work);
        }
    }

    /// Counts a batch as in flight.
    pub(crate) fn batch_out(&self) {
        self.state().out += 1;
    }

    /// Counts work as done: a lane has put it into batches, or a batch was acknowledged.
    pub(crate) fn done(&self) {
        self.state().out -= 1;
    }

    /// Takes back content of a lost batch; call this before [`Self::done`] for the batch.
    pub(crate) fn give_back(&self, content: Content) {
        match content {
            Content::Range { file, start, end } => {
                file.give_back(start..end);
                self.push_file(file);
            }
            Content::Kept { file, claim } => {
                file.give_back_claim(claim);
                self.push_file(file);
            }
            Content::Pack { candidates, .. } => {
                self.state().queued.push_front(Queued::Pack(candidates));
            }
        }
    }

    /// Takes back a range that a lane did not begin or finish; call this before [`Self::done`].
    pub(crate) fn put_back_range(&self, file: Arc<SendFile>, range: Range<u64>, check: Option<Check>) {
        match check {
            Some(check) => file.give_back_claim(Claim { range, check }),
            None => file.give_back(range),
        }
        file.progress().in_hand -= 1;
        self.push_file(file);
    }

    /// Returns whether everything was sent and acknowledged.
    pub(crate) fn is_done(&self) -> bool {
        let state = self.state();
        state.scan_complete && state.queued.is_empty() && state.out == 0 && state.last.is_empty()
    }

    /// Returns whether the scan is complete and nothing is queued; lanes may still hold work.
    pub(crate) fn is_drained(&self) -> bool {
        let state = self.state();
        state.scan_complete && state.queued.is_empty()
    }

    /// Returns whether the work was stopped.
    pub(crate) fn is_stopped(&self) -> bool {
        self.state().stopped
    }

    /// Stops the work: lets a waiting scan return.
    pub(crate) fn stop(&self) {
        self.state().stopped = true;
        self.room.notify_all();
    }
}

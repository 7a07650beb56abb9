//! Large files of which the receiver has another version: finds what differs, so that only this is sent.
//!
//! A file passes through these states: it waits for a place among those under way; the receiver opens its version and tells its
//! size; the receiver tells the signature of the whole version, range by range as it is asked; segments of the file are read,
//! digested and compared, each by some thread; of what differs, finer signatures are asked for; and what each segment is made of
//! is added to the file's ranges, which lanes send like those of any file. In the end the receiver says whether it has built the
//! right content, and if not, the file is sent as a whole.
//!
//! Guarantees: every file that begins is counted as work until the receiver has settled it; a bounded number of files is under
//! way, with a bounded number of pieces in memory; the receiver tells no more than it was asked for; a file that changes or
//! cannot be read ends as any other does. Nothing that the receiver tells is trusted: a lie spoils its own file, whose digest is
//! then wrong there.

mod plan;
mod state;
mod worth;

use std::sync::{
    Arc, Condvar, Mutex, MutexGuard,
    atomic::{AtomicBool, Ordering::Relaxed},
};
use std::{
    ops::Range,
    time::{Duration, Instant},
};

use sealane_delta::{Cut, Index, Key, Piece, Span, pieces, pieces_like, unpack};

use crate::{
    digest::{GROUP_BYTES, hash_group},
    error::Error,
    options::Delta,
    proto::message::{Message, Sign},
    send::{
        lane::Sending,
        work::{Bytes, Queue, SendFile},
    },
    shared,
    summary::Notice,
};
use plan::{Group, Planned};
use state::{Compared, Phase, Segment, State};
use worth::Line;

/// The time between two looks at files whose ranges lanes have not taken yet.
const LOOK: Duration = Duration::from_millis(20);
/// The longest sleep.
const LONGEST: Duration = Duration::from_secs(1);

/// The comparison of all files of a sending end.
#[derive(Debug)]
pub(crate) struct Deltas {
    how: Delta,
    key: Key,
    /// The number of threads.
    threads: usize,
    /// The rate of the line, for those who compare only if that is worth it.
    line: Line,
    is_full: AtomicBool,
    /// Versions are written over: what they have at another place is gone, or will be.
    in_place: bool,
    state: Mutex<State>,
    work: Condvar,
}

/// The way in which a file is sent of which the receiver has a version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::send) enum Choice {
    /// It is sent.
    Whole,
    /// It is compared.
    Compared,
    /// It is sent until the rate of the line is known, and compared then if that is worth it.
    Tried,
}

/// The version that a file is compared with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::send) struct Old {
    /// Its size, as far as it is known.
    pub(in crate::send) bytes: u64,
    /// The hash of its path, if that is another than the file's.
    pub(in crate::send) elsewhere: Option<[u8; 16]>,
}

/// A piece of work for a thread that compares.
#[derive(Debug)]
enum Job {
    /// The signature of a version is complete.
    Index { number: u32, pieces: Vec<Piece> },
    /// Reads, digests and cuts a segment, like these pieces of the receiver's version.
    Cut { number: u32, file: Arc<SendFile>, old_bytes: u64, range: Range<u64>, like: Vec<Piece> },
    /// Compares a segment that is cut; without an index, it is sent.
    Match { number: u32, file: Arc<SendFile>, index: Option<Arc<Index>>, old_bytes: u64, segment: Segment },
    /// Compares once more, by the finer signatures of the group's ranges, if there are any.
    Refine { number: u32, file: Arc<SendFile>, group: Group, told: Option<Vec<Vec<Piece>>>, old_bytes: u64 },
}

impl Deltas {
    /// Returns the comparison of no file yet. Without a key there is none.
    pub(crate) fn new(how: Delta, key: Option<Key>, threads: usize, limit_rate: Option<u64>) -> Self {
        Self {
            how: if key.is_some() { how } else { Delta::Never },
            key: key.unwrap_or_else(|| Key::new(&[0; 32])),
            threads,
            line: Line::new(limit_rate),
            is_full: AtomicBool::new(false),
            in_place: false,
            state: Mutex::default(),
            work: Condvar::new(),
        }
    }

    /// Returns the same, for a receiver that writes over its versions or does not.
    pub(crate) fn in_place(self, in_place: bool) -> Self {
        Self { in_place, ..self }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics holding the files that are compared")
    }

    /// Returns whether any file may be compared.
    pub(crate) fn are_wanted(&self) -> bool {
        self.how != Delta::Never
    }

    /// Returns whether a file of this size may be compared.
    pub(in crate::send) fn takes(&self, bytes: u64) -> bool {
        self.are_wanted() && (worth::BYTES_MIN..=sealane_delta::FILE_BYTES_MAX).contains(&bytes)
    }

    /// Returns what is to be done about a file of this size, of which the receiver has a version of that size, which
    /// `is_likely` the same.
    pub(in crate::send) fn choose(&self, bytes: u64, old_bytes: u64, is_likely: bool) -> Choice {
        let fits = self.takes(bytes) && old_bytes <= sealane_delta::FILE_BYTES_MAX;
        match self.how {
            _ if !fits => Choice::Whole,
            Delta::Never => Choice::Whole,
            Delta::Always => Choice::Compared,
            // Nothing need be sent to learn about the line.
            Delta::Auto if is_likely && !self.line.is_known() => Choice::Compared,
            Delta::Auto if !self.line.is_known() => Choice::Tried,
            Delta::Auto if self.line.is_slow(self.threads) => Choice::Compared,
            Delta::Auto => Choice::Whole,
        }
    }

    /// Returns whether enough files wait: no others are looked for meanwhile.
    pub(in crate::send) fn is_full(&self) -> bool {
        self.is_full.load(Relaxed)
    }

    /// Takes over a file, of which these ranges hold `data`, and are `left` to be compared. The queue counts it as work.
    pub(in crate::send) fn begin(
        &self,
        queue: &Queue,
        file: Arc<SendFile>,
        (data, left): (Vec<Range<u64>>, &[Range<u64>]),
        old: Old,
    ) {
        queue.batch_out();
        let mut state = self.state();
        state.wait(Compared::new(file, data, left, old));
        if state.has_enough() {
            queue.hold_packs(true);
            self.is_full.store(true, Relaxed);
        }
    }

    /// Notes a file that is being sent, of which these ranges hold `data`. Once the rate of the line is known, what is left may be
    /// compared.
    pub(in crate::send) fn try_out(&self, file: Arc<SendFile>, data: Vec<Range<u64>>, old: Old) {
        self.state().tried.push((file, data, old));
        self.line.try_out();
    }

    /// Counts content that the receiver has.
    pub(in crate::send) fn arrived(&self, sending: &Sending, bytes: u64) {
        if self.how != Delta::Auto || !self.line.arrived(bytes, Instant::now()) {
            return;
        }
        let is_slow = self.line.is_slow(self.threads);
        let tried = std::mem::take(&mut self.state().tried);
        for (file, data, old) in tried {
            match is_slow.then(|| file.compare_rest(worth::BYTES_MIN)).flatten() {
                Some(left) => {
                    let bytes: u64 = left.iter().map(|range| range.end - range.start).sum();
                    sending.filling.progress.bytes_found.fetch_sub(bytes, Relaxed);
                    self.begin(&sending.filling.queue, file, (data, &left), old);
                }
                None => file.forget_digest(sending.filling.wishes.digest),
            }
        }
        sending.control.ring();
    }

    /// Returns whether there are messages for the receiver.
    pub(in crate::send) fn has_messages(&self) -> bool {
        self.are_wanted() && self.state().has_messages()
    }

    /// Returns the next message for the receiver.
    pub(crate) fn next_message(&self) -> Option<Message> {
        if !self.are_wanted() {
            return None;
        }
        self.state().next_message()
    }

    /// Ends all work.
    pub(crate) fn stop(&self) {
        self.state().is_over = true;
        self.work.notify_all();
    }

    /// Takes an answer of the receiver. Returns false if the message is none.
    pub(crate) fn hear(&self, sending: &Sending, message: Message) -> Result<bool, Error> {
        let unasked = || Error::protocol("the receiver answers what it was not asked");
        let mut state = self.state();
        match message {
            Message::VersionSize { file, bytes } => {
                let compared = state.files.get_mut(&file).ok_or_else(unasked)?;
                if !matches!(compared.phase, Phase::Opening) {
                    return Err(unasked());
                }
                compared.open(bytes);
                // The receiver's claims of it can be compared from now on.
                let (number, file) = (file, compared.file.clone());
                drop(state);
                if file.ranges_left() > 0 {
                    sending.filling.queue.push_file(file);
                    sending.bells.ring();
                }
                self.conclude(sending, number);
            }
            Message::Signature { number, pieces } => {
                let asked = state.answered(number).ok_or_else(unasked)?;
                let told = pieces.map(|pieces| unpack(&asked.spans, &pieces));
                let told = told.transpose().map_err(|error| Error::protocol(error.to_string()))?;
                state.told(asked, told);
            }
            Message::Settled { file, again } => {
                let compared = state.files.get_mut(&file).ok_or_else(unasked)?;
                if !compared.is_open || compared.settled.is_some() {
                    return Err(unasked());
                }
                compared.settled = Some(again);
                compared.abandon();
                drop(state);
                self.conclude(sending, file);
            }
            _ => return Ok(false),
        }
        self.work.notify_all();
        Ok(true)
    }

    /// Ends the comparison of a file if nothing of it is under way, and the file itself if the receiver has settled it.
    fn conclude(&self, sending: &Sending, number: u32) {
        let mut state = self.state();
        let Some(compared) = state.files.get_mut(&number) else { return };
        let filling = &sending.filling;
        if compared.is_through() {
            compared.phase = Phase::Planned;
            compared.file.all_planned();
            filling.queue.push_file(compared.file.clone());
            sending.bells.ring();
        }
        if !matches!(compared.phase, Phase::Planned) || (compared.is_open && compared.settled.is_none()) {
            return;
        }
        let Some(compared) = state.remove(number) else { return };
        let had_enough = self.is_full() && !state.has_enough();
        drop(state);
        if compared.settled == Some(true) {
            begin_again(sending, &compared);
        }
        if had_enough {
            self.is_full.store(false, Relaxed);
            filling.queue.hold_packs(false);
            sending.bells.ring();
        }
        sending.control.ring();
        sending.batches_done(1);
    }

    /// Waits for work; returns `None` at the end.
    fn next_job(&self) -> Option<Job> {
        let mut state = self.state();
        loop {
            if state.is_over {
                return None;
            }
            if let Some(job) = state.next_job() {
                return Some(job);
            }
            let patience = if state.waits_for_lanes() { LOOK } else { LONGEST };
            state = self.work.wait_timeout(state, patience).expect("no thread panics holding the files").0;
        }
    }

    fn work(&self, sending: &Sending, job: Job, room: &mut Vec<u8>) {
        match job {
            Job::Index { number, pieces } => {
                let index = Arc::new(Index::new(pieces));
                if let Some(compared) = self.state().files.get_mut(&number) {
                    compared.phase = Phase::Matching(Some(index));
                }
                self.work.notify_all();
                self.conclude(sending, number);
            }
            Job::Cut { number, file, old_bytes, range, like } => {
                let pieces = self.segment(&file, (old_bytes, &like), range.clone(), room);
                if let Some(compared) = self.state().files.get_mut(&number) {
                    compared.busy -= 1;
                    match pieces {
                        Ok(pieces) => compared.add(Segment { range, pieces }),
                        Err(reason) => {
                            file.fail(reason);
                            compared.abandon();
                        }
                    }
                }
                self.work.notify_one();
                self.conclude(sending, number);
            }
            Job::Match { number, file, index, old_bytes, segment } => {
                let mut groups = match index {
                    Some(index) => plan::groups(sealane_delta::compare(&index, &segment.pieces, old_bytes)),
                    None => vec![Group::whole(segment.range)],
                };
                let whole: Vec<_> = groups.extract_if(.., |group| group.spans.is_empty()).collect();
                for group in whole {
                    publish(sending, &file, group.planned);
                }
                let mut state = self.state();
                if let Some(compared) = state.files.get_mut(&number) {
                    compared.busy += groups.len();
                    compared.busy -= 1;
                    if file.has_failed() {
                        compared.abandon();
                    }
                }
                groups.into_iter().for_each(|group| state.ask(number, group));
                drop(state);
                sending.control.ring();
                self.conclude(sending, number);
            }
            Job::Refine { number, file, group, told, old_bytes } => {
                match self.refine(&file, group, told.as_deref(), old_bytes, room) {
                    Ok(planned) => publish(sending, &file, planned),
                    Err(reason) => file.fail(reason),
                }
                if let Some(compared) = self.state().files.get_mut(&number) {
                    compared.busy -= 1;
                }
                self.work.notify_one();
                self.conclude(sending, number);
            }
        }
    }

    /// Reads, digests and cuts a segment, like these pieces of an old version of this size.
    fn segment(
        &self,
        file: &SendFile,
        (old_bytes, like): (u64, &[Piece]),
        range: Range<u64>,
        room: &mut Vec<u8>,
    ) -> Result<Vec<Piece>, String> {
        let size_bytes = file.announcement.entry.metadata.size_bytes;
        let mut found = Vec::new();
        let fill = |at: u64, room: &mut [u8]| {
            read(file, at, room)?;
            for (group, at) in room.chunks(GROUP_BYTES).zip((at..).step_by(GROUP_BYTES)) {
                file.digest(hash_group(at, group, size_bytes)).map_err(|error| error.to_string())?;
            }
            Ok::<(), String>(())
        };
        let mean_log2 = sealane_delta::mean_log2(old_bytes);
        pieces_like(like, range, mean_log2, &self.key, room, fill, |piece| found.push(piece))?;
        found.shrink_to_fit();
        Ok(found)
    }

    /// Compares the pairs of a group once more.
    fn refine(
        &self,
        file: &SendFile,
        group: Group,
        told: Option<&[Vec<Piece>]>,
        old_bytes: u64,
        room: &mut Vec<u8>,
    ) -> Result<Vec<Planned>, String> {
        let mut told = told.unwrap_or_default().iter();
        let mut planned = Vec::with_capacity(group.planned.len());
        for part in group.planned {
            let Planned::Pair(pair) = part else {
                planned.push(part);
                continue;
            };
            let Some(old) = told.next() else {
                planned.push(Planned::New(pair.to));
                continue;
            };
            let index = Index::new(old.clone());
            let mut found = Vec::new();
            let how = (pair.old.cut, pair.shift());
            let fill = |at: u64, room: &mut [u8]| read(file, at, room);
            pieces(pair.to.clone(), how, &self.key, room, fill, |piece| found.push(piece))?;
            planned.extend(sealane_delta::compare(&index, &found, old_bytes).into_iter().map(Planned::last));
        }
        Ok(planned)
    }
}

/// Runs a thread that compares, until the transfer stops.
pub(crate) fn run(sending: &Sending) {
    let _watch = shared::watch(&sending.stop, &sending.bells, &sending.control);
    let deltas = &sending.filling.deltas;
    let mut room = Vec::new();
    while let Some(job) = deltas.next_job() {
        deltas.work(sending, job, &mut room);
    }
}

fn read(file: &SendFile, at: u64, room: &mut [u8]) -> Result<(), String> {
    let Bytes::File(open) = &file.bytes else { return Err("a pipe is read once".to_owned()) };
    match open.read_at(at, room) {
        Ok(length) if length == room.len() => Ok(()),
        Ok(_) => Err("it became shorter while it was read".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// Hands what a part of a file is made of to the lanes.
fn publish(sending: &Sending, file: &Arc<SendFile>, planned: Vec<Planned>) {
    let mut ranges = plan::settle(planned);
    if sending.filling.deltas.in_place {
        for (range, from) in &mut ranges {
            *from = from.filter(|from| *from == range.start);
        }
    }
    let sum = |is_sent: bool| -> u64 {
        let some = ranges.iter().filter(|(_, from)| from.is_none() == is_sent);
        some.map(|(range, _)| range.end - range.start).sum()
    };
    let (bytes, matched) = (sum(true), sum(false));
    sending.filling.deltas.line.compared(bytes + matched, matched);
    sending.filling.progress.bytes_found.fetch_add(bytes, Relaxed);
    file.plan(ranges);
    sending.filling.queue.push_file(file.clone());
    sending.bells.ring();
}

/// Has a file sent as a whole, because the receiver did not get it right by its own version: that may have changed meanwhile.
fn begin_again(sending: &Sending, compared: &Compared) {
    let filling = &sending.filling;
    let number = filling.queue.next_file();
    let file = compared.file.again(number, compared.data.clone(), filling.wishes.digest);
    let bytes: u64 = compared.data.iter().map(|range| range.end - range.start).sum();
    filling.progress.bytes_found.fetch_add(bytes, Relaxed);
    if compared.file.is_closed() {
        // It is closed and counted once more.
        filling.progress.files_done.fetch_sub(1, Relaxed);
        filling.counters.entries.fetch_sub(1, Relaxed);
    }
    filling.notice(Notice::BegunAgain { path: file.shown.as_bytes().to_vec() });
    filling.queue.push_file(Arc::new(file));
    sending.bells.ring();
}

/// Returns the spans into which a whole version is cut: the one that begins at an offset.
fn span_at(start: u64, old_bytes: u64) -> Span {
    let cut = Cut::Content(sealane_delta::mean_log2(old_bytes));
    Span { start, bytes: (old_bytes - start).min(sealane_delta::SPAN_BYTES_MAX), cut }
}

/// Returns the request for a signature, with the number that it has among all requests.
fn sign(file: u32, number: u32, spans: Vec<Span>) -> Message {
    Message::Sign(Sign { file, number, spans })
}

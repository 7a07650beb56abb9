//! The files that are compared, and what is asked about them.
//!
//! Guarantees: at most [`VERSIONS_MAX`] files are under way, with [`PIECES_MAX`] pieces in memory unless one file alone has more;
//! answers of at most [`PIECES_ASKED_MAX`] pieces are awaited.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    ops::Range,
    sync::Arc,
};

use sealane_delta::{Index, Piece, SPAN_BYTES_MAX, Span};

use super::{Job, Old, plan::Group, sign, span_at};
use crate::{
    proto::message::{Message, PIECES_ASKED_MAX, VERSIONS_MAX},
    send::work::SendFile,
};

/// The maximum number of pieces of all files under way.
const PIECES_MAX: u64 = 1 << 21;
/// The maximum number of pieces of segments that are cut and wait, give or take those that threads are cutting.
const CUT_MAX: usize = 1 << 20;
/// The number of files that wait before no others are looked for.
const WAITING_MAX: usize = 16;
/// The number of segments and groups of a file under way.
const BUSY_MAX: usize = 16;
/// The number of ranges of a file that lanes have not taken, before more are added: the receiver notes fragments.
const RANGES_MAX: usize = 8192;

/// How far a comparison is.
#[derive(Debug)]
pub(super) enum Phase {
    /// The receiver opens its version.
    Opening,
    /// The receiver signs its version: the next offset to ask for, the number of requests under way, and what it has told, by the
    /// offsets at which the spans begin.
    Signing { next: u64, open: usize, told: BTreeMap<u64, Vec<Piece>> },
    /// A thread makes the index.
    Indexing,
    /// Segments are compared; without an index they are only digested.
    Matching(Option<Arc<Index>>),
    /// Everything is handed to the lanes.
    Planned,
}

/// A segment of a file, and the pieces that it is cut into.
#[derive(Debug)]
pub(super) struct Segment {
    pub(super) range: Range<u64>,
    pub(super) pieces: Vec<Piece>,
}

/// A file that is compared.
#[derive(Debug)]
pub(super) struct Compared {
    pub(super) file: Arc<SendFile>,
    pub(super) phase: Phase,
    /// All ranges that hold data.
    pub(super) data: Vec<Range<u64>>,
    /// Segments that nobody has read.
    segments: VecDeque<Range<u64>>,
    /// Segments that wait for the receiver's signature, or for their turn.
    cut: VecDeque<Segment>,
    cut_pieces: usize,
    /// The number of segments in the hands of threads, and of groups.
    pub(super) busy: usize,
    /// The receiver has opened its version.
    pub(super) is_open: bool,
    /// The receiver cannot read its version any more.
    has_lost: bool,
    old_bytes: u64,
    elsewhere: Option<[u8; 16]>,
    /// The receiver's last word: whether it wants the file again.
    pub(super) settled: Option<bool>,
}

impl Compared {
    pub(super) fn new(
        file: Arc<SendFile>,
        data: Vec<Range<u64>>,
        left: &[Range<u64>],
        Old { bytes: old_bytes, elsewhere }: Old,
    ) -> Self {
        let segments = |range: &Range<u64>| {
            let (mut at, end) = (range.start, range.end);
            std::iter::from_fn(move || {
                let next = (at / SPAN_BYTES_MAX + 1).saturating_mul(SPAN_BYTES_MAX).min(end);
                let segment = at..next;
                at = next;
                (!segment.is_empty()).then_some(segment)
            })
        };
        let segments = left.iter().flat_map(segments).collect();
        let (phase, busy, is_open, has_lost, settled) = (Phase::Opening, 0, false, false, None);
        let (cut, cut_pieces) = (VecDeque::new(), 0);
        Self {
            file,
            phase,
            data,
            segments,
            cut,
            cut_pieces,
            busy,
            is_open,
            has_lost,
            old_bytes,
            elsewhere,
            settled,
        }
    }

    /// The receiver tells the size of its version, or that it has none.
    pub(super) fn open(&mut self, bytes: Option<u64>) {
        self.is_open = bytes.is_some();
        let bytes = bytes.filter(|&bytes| bytes > 0 && bytes <= sealane_delta::FILE_BYTES_MAX);
        self.phase = match bytes {
            Some(bytes) => {
                self.old_bytes = bytes;
                Phase::Signing { next: 0, open: 0, told: BTreeMap::new() }
            }
            None => Phase::Matching(None),
        };
    }

    /// Nothing more is compared: the file has failed, or nobody wants it any more.
    pub(super) fn abandon(&mut self) {
        self.segments.clear();
        self.cut.clear();
        self.cut_pieces = 0;
    }

    /// Adds a segment that is cut.
    pub(super) fn add(&mut self, segment: Segment) {
        self.cut_pieces += segment.pieces.len();
        self.cut.push_back(segment);
    }

    /// Returns whether everything is compared, but not noted yet.
    pub(super) fn is_through(&self) -> bool {
        let is_empty = self.segments.is_empty() && self.cut.is_empty() && self.busy == 0;
        matches!(self.phase, Phase::Matching(_)) && is_empty
    }

    /// Returns the pieces of the receiver's version that begin within the range of a segment; `None` if it is too early to cut that,
    /// because the receiver has not told them yet.
    fn old_pieces(&self, segment: &Range<u64>) -> Option<Vec<Piece>> {
        let is_within = |piece: &Piece| segment.contains(&piece.start);
        match &self.phase {
            Phase::Opening | Phase::Indexing | Phase::Planned => None,
            Phase::Matching(index) => {
                Some(index.as_ref().map_or_else(Vec::new, |index| index.within(segment).to_vec()))
            }
            Phase::Signing { told, .. } => {
                let first = segment.start / SPAN_BYTES_MAX * SPAN_BYTES_MAX;
                let spans = (first..segment.end.min(self.old_bytes)).step_by(SPAN_BYTES_MAX as usize);
                let told: Option<Vec<_>> = spans.map(|start| told.get(&start)).collect();
                Some(told?.into_iter().flatten().copied().filter(is_within).collect())
            }
        }
    }

    /// The number of pieces that it may have in memory.
    fn weight(&self) -> u64 {
        1 + (self.old_bytes >> sealane_delta::mean_log2(self.old_bytes))
    }
}

/// A request that the receiver has not answered.
#[derive(Debug)]
pub(super) struct Asked {
    file: u32,
    pub(super) spans: Vec<Span>,
    pieces: usize,
    what: What,
}

/// The reason of a request.
#[derive(Debug)]
pub(super) enum What {
    Whole,
    Finer(Group),
}

/// The state of all comparisons.
#[derive(Debug, Default)]
pub(super) struct State {
    pub(super) files: BTreeMap<u32, Compared>,
    /// Files that are sent until the rate of the line is known, with their data and the receiver's version.
    pub(super) tried: Vec<(Arc<SendFile>, Vec<Range<u64>>, Old)>,
    waiting: VecDeque<Compared>,
    jobs: VecDeque<Job>,
    /// Messages that wait for the control thread.
    outgoing: VecDeque<Message>,
    /// Groups whose signatures are to be asked for.
    groups: VecDeque<(u32, Group)>,
    asked: HashMap<u32, Asked>,
    next_number: u32,
    pieces_asked: usize,
    pub(super) is_over: bool,
}

impl State {
    /// Takes a file that waits for its place.
    pub(super) fn wait(&mut self, compared: Compared) {
        self.waiting.push_back(compared);
        self.admit();
    }

    fn admit(&mut self) {
        while let Some(next) = self.waiting.front() {
            let weight: u64 = self.files.values().map(Compared::weight).sum();
            let fits = self.files.len() < VERSIONS_MAX && weight + next.weight() <= PIECES_MAX;
            if !fits && !self.files.is_empty() {
                return;
            }
            let Some(next) = self.waiting.pop_front() else { return };
            let (file, path) = (next.file.number, next.file.announcement.entry.path.clone());
            self.outgoing.push_back(Message::Version { file, path, elsewhere: next.elsewhere });
            self.files.insert(file, next);
        }
    }

    /// Returns whether enough files wait.
    pub(super) fn has_enough(&self) -> bool {
        self.waiting.len() >= WAITING_MAX
    }

    /// Removes a file that is settled.
    pub(super) fn remove(&mut self, number: u32) -> Option<Compared> {
        let removed = self.files.remove(&number);
        self.admit();
        removed
    }

    /// Adds a group whose signature is to be asked for.
    pub(super) fn ask(&mut self, number: u32, group: Group) {
        self.groups.push_back((number, group));
    }

    pub(super) fn has_messages(&self) -> bool {
        !self.outgoing.is_empty() || !self.groups.is_empty()
    }

    pub(super) fn next_message(&mut self) -> Option<Message> {
        if let Some(message) = self.outgoing.pop_front() {
            return Some(message);
        }
        let room = PIECES_ASKED_MAX - self.pieces_asked;
        // Groups come first: they are in memory.
        if self.groups.front().is_some_and(|(_, group)| group.pieces <= room)
            && let Some((file, group)) = self.groups.pop_front()
        {
            let spans = group.spans.clone();
            return Some(self.request(file, spans, group.pieces, What::Finer(group)));
        }
        let mut found = None;
        for (&file, compared) in &mut self.files {
            let Phase::Signing { next, open, .. } = &mut compared.phase else { continue };
            if *next >= compared.old_bytes || compared.has_lost {
                continue;
            }
            let span = span_at(*next, compared.old_bytes);
            let pieces = span.pieces_max().unwrap_or(0);
            if pieces <= room {
                *next += span.bytes;
                *open += 1;
                found = Some((file, span, pieces));
            }
            break;
        }
        let (file, span, pieces) = found?;
        Some(self.request(file, vec![span], pieces, What::Whole))
    }

    fn request(&mut self, file: u32, spans: Vec<Span>, pieces: usize, what: What) -> Message {
        let number = self.next_number;
        self.next_number = number.wrapping_add(1);
        self.pieces_asked += pieces;
        self.asked.insert(number, Asked { file, spans: spans.clone(), pieces, what });
        sign(file, number, spans)
    }

    /// Returns the request with this number, which is answered now.
    pub(super) fn answered(&mut self, number: u32) -> Option<Asked> {
        let asked = self.asked.remove(&number)?;
        self.pieces_asked -= asked.pieces;
        Some(asked)
    }

    /// Takes the answer to a request.
    pub(super) fn told(&mut self, asked: Asked, told: Option<Vec<Vec<Piece>>>) {
        let number = asked.file;
        let Some(compared) = self.files.get_mut(&number) else { return };
        compared.has_lost |= told.is_none();
        match asked.what {
            What::Whole => {
                let Phase::Signing { next, open, told: all } = &mut compared.phase else { return };
                *open -= 1;
                for (span, pieces) in asked.spans.iter().zip(told.into_iter().flatten()) {
                    all.insert(span.start, pieces);
                }
                let is_complete =
                    *next >= compared.old_bytes || compared.has_lost || compared.settled.is_some();
                if *open == 0 && is_complete {
                    let pieces = std::mem::take(all).into_values().flatten().collect();
                    compared.phase = Phase::Indexing;
                    self.jobs.push_back(Job::Index { number, pieces });
                }
            }
            What::Finer(group) => {
                let (file, old_bytes) = (compared.file.clone(), compared.old_bytes);
                self.jobs.push_back(Job::Refine { number, file, group, told, old_bytes });
            }
        }
    }

    pub(super) fn next_job(&mut self) -> Option<Job> {
        if let Some(job) = self.jobs.pop_front() {
            return Some(job);
        }
        let cut_pieces: usize = self.files.values().map(|compared| compared.cut_pieces).sum();
        for (&number, compared) in &mut self.files {
            let (file, old_bytes) = (&compared.file, compared.old_bytes);
            if let Phase::Matching(index) = &compared.phase
                && compared.busy < BUSY_MAX
                && file.ranges_left() < RANGES_MAX
                && let Some(segment) = compared.cut.pop_front()
            {
                compared.busy += 1;
                compared.cut_pieces -= segment.pieces.len();
                let (file, index) = (file.clone(), index.clone().filter(|_| !compared.has_lost));
                return Some(Job::Match { number, file, index, old_bytes, segment });
            }
            let like = compared.segments.front().and_then(|next| compared.old_pieces(next));
            if let Some(like) = like.filter(|_| cut_pieces < CUT_MAX)
                && let Some(range) = compared.segments.pop_front()
            {
                compared.busy += 1;
                return Some(Job::Cut { number, file: compared.file.clone(), old_bytes, range, like });
            }
        }
        None
    }

    /// Returns whether segments wait for lanes that take ranges.
    pub(super) fn waits_for_lanes(&self) -> bool {
        let waits =
            |compared: &Compared| matches!(compared.phase, Phase::Matching(_)) && !compared.cut.is_empty();
        self.files.values().any(waits)
    }
}

#[cfg(test)]
mod tests {
    use sealane_tree::{Kind, Metadata, RelativePath, ShownPath};

    use super::*;
    use crate::{
        proto::{
            entry::{Announcement, Entry},
            message::PIECES_SIGNED_MAX,
        },
        send::work::Bytes,
    };

    /// Returns a file of this size that is compared with a version of that size.
    fn compared(number: u32, bytes: u64, old_bytes: u64) -> Compared {
        let path = RelativePath::new(format!("file{number}")).unwrap();
        let metadata = Metadata { size_bytes: bytes, ..Metadata::default() };
        let entry = Entry { path, kind: Kind::File, metadata, digest: None };
        let announcement = Announcement { entry, growing: false };
        let source = Bytes::Pipe(std::fs::File::open("/dev/null").unwrap().into());
        let shown = ShownPath::new(*b"file");
        let file = SendFile::new(number, announcement, shown, source, [], Vec::new(), None).compared();
        let whole = std::iter::once(0..bytes).collect::<Vec<_>>();
        Compared::new(Arc::new(file), whole.clone(), &whole, Old { bytes: old_bytes, elsewhere: None })
    }

    #[test]
    fn the_number_of_files_and_of_their_pieces_is_bounded() {
        let mut state = State::default();
        for number in 0..200 {
            state.wait(compared(number, 1 << 20, 1 << 20));
        }
        assert_eq!(state.files.len(), VERSIONS_MAX);
        assert!(state.has_enough());
        for number in 0..200 {
            assert!(state.remove(number).is_some(), "one makes room for another");
        }
        assert!(!state.has_enough() && state.files.is_empty());
        // Files of terabytes go one or two at a time, and one alone however large it is.
        for number in 0..5 {
            state.wait(compared(number, 1 << 40, 1 << 40));
        }
        assert!(state.files.len() == 1 || state.files.len() == 2, "{}", state.files.len());
        let mut state = State::default();
        state.wait(compared(0, 1 << 42, 1 << 42));
        assert_eq!(state.files.len(), 1);
    }

    #[test]
    fn no_more_is_asked_for_than_may_be_answered_at_a_time() {
        let mut state = State::default();
        state.wait(compared(0, 1 << 34, 1 << 34));
        assert!(matches!(state.next_message(), Some(Message::Version { file: 0, .. })));
        assert!(state.next_message().is_none(), "the receiver has not opened it");
        state.files.get_mut(&0).unwrap().open(Some(1 << 34));
        let (mut asked, mut next) = (VecDeque::new(), 0);
        loop {
            let message = state.next_message();
            if let Some(Message::Sign(sign)) = message {
                assert!(sign.pieces_max().is_some_and(|pieces| pieces <= PIECES_SIGNED_MAX));
                assert_eq!(sign.spans[0].start, next, "each range is asked for once, in order");
                next = sign.spans[0].range().end;
                asked.push_back(sign.number);
                assert!(state.pieces_asked <= PIECES_ASKED_MAX);
                continue;
            }
            assert!(message.is_none());
            let Some(number) = asked.pop_front() else { break };
            assert!(state.pieces_asked > 0);
            let answered = state.answered(number).unwrap();
            assert!(state.answered(number).is_none(), "an answer counts once");
            state.told(answered, Some(vec![Vec::new()]));
        }
        assert_eq!((next, state.pieces_asked), (1 << 34, 0));
        assert!(matches!(state.next_job(), Some(Job::Cut { .. } | Job::Index { .. })));
    }

    #[test]
    fn a_segment_is_cut_once_the_pieces_of_the_version_there_are_told() {
        let mut state = State::default();
        state.wait(compared(0, 4 * SPAN_BYTES_MAX, 2 * SPAN_BYTES_MAX));
        state.files.get_mut(&0).unwrap().open(Some(2 * SPAN_BYTES_MAX));
        state.next_message();
        let mut ask = || match state.next_message() {
            Some(Message::Sign(sign)) => sign.number,
            other => panic!("{other:?}"),
        };
        let asked = [ask(), ask()];
        assert!(state.next_job().is_none());
        let piece = |start| Piece { start, bytes: 1 << 16, hash: [3; 16] };
        for (number, start) in [(asked[0], 0), (asked[1], SPAN_BYTES_MAX)] {
            let answered = state.answered(number).unwrap();
            state.told(answered, Some(vec![vec![piece(start)]]));
            if start == 0 {
                let Some(Job::Cut { range, like, .. }) = state.next_job() else { panic!("none is cut") };
                assert_eq!((range, like), (0..SPAN_BYTES_MAX, vec![piece(0)]));
                assert!(state.next_job().is_none(), "the second is not told yet");
            }
        }
        let Some(Job::Index { pieces, .. }) = state.next_job() else { panic!("all is told") };
        assert_eq!(pieces, [piece(0), piece(SPAN_BYTES_MAX)]);
        state.files.get_mut(&0).unwrap().phase = Phase::Matching(Some(Arc::new(Index::new(pieces))));
        let Some(Job::Cut { range, like, .. }) = state.next_job() else { panic!("none is cut") };
        assert_eq!((range, like), (SPAN_BYTES_MAX..2 * SPAN_BYTES_MAX, vec![piece(SPAN_BYTES_MAX)]));
        let Some(Job::Cut { like, .. }) = state.next_job() else { panic!("the version ends before") };
        assert!(like.is_empty());
    }

    #[test]
    fn segments_that_are_cut_ahead_are_bounded() {
        let mut state = State::default();
        state.wait(compared(0, 1 << 40, 1 << 20));
        // All is told, but one answer more is awaited.
        let (told, next) = (BTreeMap::from([(0, Vec::new())]), 1 << 20);
        state.files.get_mut(&0).unwrap().phase = Phase::Signing { next, open: 1, told };
        let mut cut = 0_usize;
        while let Some(job) = state.next_job() {
            let Job::Cut { range, .. } = job else { panic!("{job:?}") };
            let piece = Piece { start: range.start, bytes: 1 << 16, hash: [0; 16] };
            let compared = state.files.get_mut(&0).unwrap();
            compared.busy -= 1;
            compared.add(Segment { range, pieces: vec![piece; 4096] });
            cut += 4096;
        }
        assert!((CUT_MAX..CUT_MAX + 4096).contains(&cut), "{cut}");
    }
}

//! A batch's jobs in parts, for several lanes: pieces of bodies whose blocks do not depend on each other, subtrees of
//! a message that is hashed by a tree, or the cipher beside the authenticator.
//!
//! Guarantees: once all parts are joined, the batch is as if it had run whole; a part has its own copy of its bytes,
//! so no two lanes ever share a buffer; nothing of a forged packet is copied back.

use std::sync::Arc;

use sealane_engine::{CHAINING_BYTES, Direction, Job, JobStatus, Session, Span, Tree, Work};

use sealane_lanes::Recycle;
use sealane_port::Batch;

/// The minimum size in bytes of a piece that is worth handing to another lane, for a cipher that costs more than a
/// copy.
const PIECE_BYTES_MIN: usize = 256;

/// The relation of a part's job to the batch.
#[derive(Clone, Copy, Debug)]
struct Piece {
    /// The index of the batch's job to which it belongs.
    job: usize,
    /// Its bytes in the batch's buffer.
    from: Span,
    /// Whether only its chaining value is needed.
    is_subtree: bool,
}

/// The part of a batch that another lane processes.
#[derive(Debug, Default)]
pub(crate) struct Part {
    pub(crate) work: Work,
    /// One piece per job of the work.
    pieces: Vec<Piece>,
    filled: usize,
    /// The batch's jobs that are joined from their subtrees; for a whole batch they are in its first part.
    trees: Vec<Tree>,
}

impl Recycle for Part {
    fn recycle(&mut self) {
        self.work.jobs.clear();
        self.work.sessions.clear();
        self.pieces.clear();
        self.filled = 0;
        self.trees.clear();
    }
}

impl Part {
    /// Makes a part with its own buffer.
    pub(crate) fn new(buffer_bytes: usize) -> Self {
        let buffer = sealane_engine::Buffer::new(buffer_bytes);
        Self { work: Work { buffer, ..Work::default() }, ..Self::default() }
    }

    /// Returns whether there is nothing to do.
    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Adds a copy of a piece's bytes in the batch's buffer as a separate job, with room for a chaining value if that
    /// is needed; returns false if there is no room for it.
    fn add(&mut self, source: &[u8], session: &Arc<Session>, piece: Piece, iv: [u8; 16]) -> bool {
        let (start, len) = (self.filled, piece.from.len as usize);
        let value_bytes = if piece.is_subtree { CHAINING_BYTES } else { 0 };
        let end = start + len + value_bytes;
        let fits = end <= self.work.buffer.capacity_bytes();
        let Some(session) = self.work.session(session).filter(|_| fits) else { return false };
        self.work.buffer.bytes_mut()[start..start + len].copy_from_slice(&source[piece.from.range()]);
        let here = Span::new(start as u32, piece.from.len);
        let tag = Span::new(here.end() as u32, value_bytes as u32);
        let (clear, body) = match piece.is_subtree {
            true => (here, Span::new(tag.start, 0)),
            false => (Span::new(here.start, 0), here),
        };
        self.work.jobs.push(Job { session, clear, body, tag, iv, ..Job::default() });
        self.pieces.push(piece);
        self.filled = end;
        true
    }

    /// Copies the results for bodies back into the batch.
    fn copy_back(&self, batch: &mut Batch) {
        let pieces = self.pieces.iter().zip(&self.work.jobs);
        for (piece, done) in pieces.filter(|(piece, _)| !piece.is_subtree) {
            let whole = batch.work.jobs.get_mut(piece.job);
            let Some(whole) = whole.filter(|whole| whole.status == JobStatus::Done) else { continue };
            if done.status == JobStatus::Done {
                let bytes = &self.work.buffer.bytes()[done.body.range()];
                batch.work.buffer.bytes_mut()[piece.from.range()].copy_from_slice(bytes);
            } else {
                whole.status = JobStatus::Malformed;
            }
        }
    }

    /// Returns the chaining values of a job's subtrees that were computed here, with the positions at which these
    /// begin.
    fn values(&self, job: usize) -> impl Iterator<Item = (u32, [u8; CHAINING_BYTES])> {
        let pieces = self.pieces.iter().zip(&self.work.jobs);
        let of_job = move |(piece, done): &(&Piece, &Job)| {
            piece.is_subtree && piece.job == job && done.status == JobStatus::Done
        };
        pieces.filter(of_job).filter_map(|(piece, done)| {
            let value = self.work.buffer.bytes()[done.tag.range()].first_chunk()?;
            Some((piece.from.start, *value))
        })
    }
}

/// Copies the results of all parts of a batch back into it; the order of the parts does not matter.
pub(crate) fn join_parts(parts: &[Part], batch: &mut Batch) {
    parts.iter().for_each(|part| part.copy_back(batch));
    for tree in parts.iter().flat_map(|part| &part.trees) {
        let values = parts.iter().flat_map(|part| part.values(tree.job()));
        batch.work.join_tree(tree, values);
    }
}

/// Leaves the authenticator's function in the batch and puts the cipher's into `part`. This runs before any of the
/// jobs.
pub(crate) fn split_functions(batch: &mut Batch, [mac, cipher]: [&Arc<Session>; 2], part: &mut Part) {
    part.work.direction = Direction::Open;
    let work = &mut batch.work;
    work.sessions.clear();
    let mac = work.session(mac).expect("the first of a work");
    for (index, job) in work.jobs.iter_mut().enumerate() {
        job.session = mac;
        let piece = Piece { job: index, from: job.body, is_subtree: false };
        part.add(work.buffer.bytes(), cipher, piece, job.iv);
    }
}

/// Leaves the first piece of every body in the batch and puts the others into `parts`, if blocks do not depend on
/// each other, and does the same with the subtrees of messages that are hashed by a tree; other jobs stay whole. This
/// runs before any of the jobs.
pub(crate) fn cut_blocks(batch: &mut Batch, parts: &mut [Part]) {
    if parts.is_empty() {
        return;
    }
    let work = &mut batch.work;
    for part in parts.iter_mut() {
        part.work.direction = work.direction;
    }
    for index in 0..work.jobs.len() {
        cut_cipher(work, index, parts);
        cut_digest(work, index, parts);
    }
}

fn cut_cipher(work: &mut Work, index: usize, parts: &mut [Part]) {
    let pieces = parts.len() + 1;
    let job = work.jobs[index];
    if (job.body.len as usize) < PIECE_BYTES_MIN * pieces {
        return;
    }
    // A piece is copied twice, to the lane and back.
    let session =
        work.sessions.get(usize::from(job.session)).filter(|session| session.is_slower_than_a_copy());
    let Some(session) = session.map(Arc::clone) else { return };
    let Some(split) = work.split(index, pieces) else { return };
    let Some((first, others)) = split.split_first() else { return };
    for (part, piece) in parts.iter_mut().zip(others) {
        let from = Piece { job: index, from: piece.body, is_subtree: false };
        let added = part.add(work.buffer.bytes(), &session, from, piece.iv);
        assert!(added, "a part's buffer is as long as the batch's");
    }
    work.jobs[index].body = first.body;
}

fn cut_digest(work: &mut Work, index: usize, parts: &mut [Part]) {
    let Some((tree, others)) = work.cut_tree(index, parts.len() + 1) else { return };
    let session = Arc::clone(&work.sessions[usize::from(work.jobs[index].session)]);
    // Subtrees have equal lengths except the last one: if that is short, it goes with the one before.
    let is_long = |piece: &&Job| 2 * piece.clear.len >= others[0].clear.len;
    let shares = others.iter().filter(is_long).count();
    let lanes = parts.len().min(shares);
    for (number, piece) in others.iter().enumerate() {
        let part = &mut parts[(number * lanes / shares).min(lanes - 1)];
        let from = Piece { job: index, from: piece.clear, is_subtree: true };
        let added = part.add(work.buffer.bytes(), &session, from, piece.iv);
        assert!(added, "a part has no job's first subtree, which is longer than all its chaining values");
    }
    parts[0].trees.push(tree);
}

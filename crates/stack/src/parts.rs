//! A batch's jobs in parts, for several lanes: pieces of bodies whose blocks need not wait for each other, or the cipher
//! beside the authenticator.
//!
//! Guarantees: once all parts are joined, the batch is as if it had run whole; a part carries its own copy of its bytes,
//! so no two lanes ever share a buffer; of a forged packet nothing is copied back.

use std::sync::Arc;

use sealane_engine::{Direction, Job, JobStatus, Session, Span, Work};

use crate::{Batch, Recycle};

/// Smallest piece worth handing to another lane, in bytes.
const PIECE_BYTES_MIN: usize = 256;

/// What another lane does of a batch.
#[derive(Debug, Default)]
pub(crate) struct Part {
    pub(crate) work: Work,
    /// Where each of the work's jobs belongs: the batch's job, and the bytes in the batch's buffer.
    pieces: Vec<(usize, Span)>,
    filled: usize,
}

impl Recycle for Part {
    fn recycle(&mut self) {
        self.work.jobs.clear();
        self.work.sessions.clear();
        self.pieces.clear();
        self.filled = 0;
    }
}

impl Part {
    /// With a buffer of its own.
    pub(crate) fn new(buffer_bytes: usize) -> Self {
        let buffer = sealane_engine::Buffer::new(buffer_bytes);
        Self { work: Work { buffer, ..Work::default() }, ..Self::default() }
    }

    /// Whether there is nothing to do.
    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    /// Takes a copy of `body` in the batch's buffer as a job of its own; false when there is no room for it.
    fn add(&mut self, source: &[u8], session: &Arc<Session>, job: usize, body: Span, iv: [u8; 16]) -> bool {
        let (start, len) = (self.filled, body.len as usize);
        let fits = start + len <= self.work.buffer.capacity_bytes();
        let Some(session) = self.work.session(session).filter(|_| fits) else { return false };
        self.work.buffer.bytes_mut()[start..start + len].copy_from_slice(&source[body.range()]);
        let here = Span::new(start as u32, body.len);
        let empty = |at: usize| Span::new(at as u32, 0);
        let (clear, tag) = (empty(start), empty(start + len));
        self.work.jobs.push(Job { session, clear, body: here, tag, iv, ..Job::default() });
        self.pieces.push((job, body));
        self.filled = start + len;
        true
    }

    /// Puts what was done back into the batch.
    pub(crate) fn join(&self, batch: &mut Batch) {
        for (&(job, body), done) in self.pieces.iter().zip(&self.work.jobs) {
            let Some(whole) = batch.work.jobs.get_mut(job).filter(|whole| whole.status == JobStatus::Done)
            else {
                continue;
            };
            if done.status == JobStatus::Done {
                let bytes = &self.work.buffer.bytes()[done.body.range()];
                batch.work.buffer.bytes_mut()[body.range()].copy_from_slice(bytes);
            } else {
                whole.status = JobStatus::Malformed;
            }
        }
    }
}

/// Leaves the authenticator's function in the batch and puts the cipher's into `part`. Runs before any of the jobs.
pub(crate) fn split_functions(batch: &mut Batch, [mac, cipher]: [&Arc<Session>; 2], part: &mut Part) {
    part.work.direction = Direction::Open;
    let work = &mut batch.work;
    work.sessions.clear();
    let mac = work.session(mac).expect("the first of a work");
    for (index, job) in work.jobs.iter_mut().enumerate() {
        job.session = mac;
        part.add(work.buffer.bytes(), cipher, index, job.body, job.iv);
    }
}

/// Leaves the first piece of every body in the batch and puts one of the others into each of `parts`, where blocks need
/// not wait for each other; other jobs stay whole. Runs before any of the jobs.
pub(crate) fn cut_blocks(batch: &mut Batch, parts: &mut [Part]) {
    let work = &mut batch.work;
    let pieces = parts.len() + 1;
    for part in parts.iter_mut() {
        part.work.direction = work.direction;
    }
    for index in 0..work.jobs.len() {
        let job = work.jobs[index];
        if (job.body.len as usize) < PIECE_BYTES_MIN * pieces {
            continue;
        }
        let Some(split) = work.split(index, pieces) else { continue };
        let Some((first, others)) = split.split_first() else { continue };
        let session = Arc::clone(&work.sessions[usize::from(job.session)]);
        for (part, piece) in parts.iter_mut().zip(others) {
            let added = part.add(work.buffer.bytes(), &session, index, piece.body, piece.iv);
            assert!(added, "a part's buffer is as long as the batch's");
        }
        work.jobs[index].body = first.body;
    }
}

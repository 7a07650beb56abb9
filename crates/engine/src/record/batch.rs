//! Records in a buffer.
//!
//! Guarantees: a job can name no byte outside its buffer; each job ends exactly as it would alone.

use std::sync::Arc;

use super::Session;
use crate::{Buffer, Direction, JobStatus as Ended, Work, run::Lane};

/// What became of a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JobStatus {
    /// Not run yet.
    Pending,
    /// Done; the body now has this many bytes (sealed, or plain).
    Done {
        /// Bytes of the body after the job.
        body_bytes: usize,
    },
    /// The tag is wrong, or the record too short to have one. Its bytes are not to be used.
    Forged,
    /// The ranges do not fit the buffer: a fault of the caller.
    OutOfRange,
}

/// One record: `header_bytes` that are authenticated only, then the body. It carries all it needs to run.
#[derive(Clone, Debug)]
pub struct Job {
    /// Algorithm and keys.
    pub session: Arc<Session>,
    /// Where the header starts in the buffer.
    pub offset: usize,
    /// Length of the header.
    pub header_bytes: usize,
    /// Length of the body: plain for [`Direction::Seal`] (room for the expansion must follow), sealed for
    /// [`Direction::Open`].
    pub body_bytes: usize,
    /// Number of the record under its key; the nonce is made of it, so it must never come twice when sealing.
    pub sequence: u64,
    /// Outcome.
    pub status: JobStatus,
}

/// Jobs over one buffer: the unit of submission.
#[derive(Debug)]
pub struct Batch {
    /// The bytes.
    pub buffer: Buffer,
    /// The records in them.
    pub jobs: Vec<Job>,
    /// Which way.
    pub direction: Direction,
    /// Place in the association's order; given before work fans out.
    pub ticket: u64,
}

impl Batch {
    /// Runs every pending job on the calling thread. Each job's outcome is in its status; the return value
    /// is the number that did not end in [`JobStatus::Done`].
    pub fn run(&mut self) -> usize {
        Runner::default().run(self)
    }
}

/// What a lane keeps from batch to batch, so that running one allocates nothing.
#[derive(Debug, Default)]
pub struct Runner {
    lane: Lane,
    work: Work,
}

impl Runner {
    /// [`Batch::run`], by this lane.
    pub fn run(&mut self, batch: &mut Batch) -> usize {
        let work = &mut self.work;
        std::mem::swap(&mut work.buffer, &mut batch.buffer);
        work.direction = batch.direction;
        work.jobs.clear();
        for job in batch.jobs.iter_mut().filter(|job| job.status == JobStatus::Pending) {
            let place = work.session(job.session.session());
            let record = job.session.record(batch.direction, work.buffer.bytes_mut(), job);
            match (place, record) {
                (Some(session), Ok(record)) => work.jobs.push(crate::Job { session, ..record }),
                (_, Err(status)) => job.status = status,
                // More keys than a work can name.
                (None, Ok(_)) => job.status = JobStatus::OutOfRange,
            }
        }
        self.lane.run(work);
        let mut ended = work.jobs.iter();
        let mut failed = 0;
        for job in &mut batch.jobs {
            if job.status == JobStatus::Pending
                && let Some(record) = ended.next()
            {
                job.status = match record.status {
                    Ended::Done => job.session.settle(batch.direction, work.buffer.bytes(), job, record),
                    Ended::Pending => JobStatus::Pending,
                    Ended::Forged => JobStatus::Forged,
                    Ended::Malformed => JobStatus::OutOfRange,
                };
            }
            failed += usize::from(!matches!(job.status, JobStatus::Done { .. }));
        }
        // Keys are not kept beyond their batch.
        work.sessions.clear();
        std::mem::swap(&mut work.buffer, &mut batch.buffer);
        failed
    }
}

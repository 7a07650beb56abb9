//! Records in a buffer.
//!
//! Guarantees: a job can name no byte outside its buffer: [`Batch::run`] checks every range before it touches one.

use std::sync::Arc;

use super::{Session, together};
use crate::{Buffer, Direction};

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
        together::run(self.direction, self.buffer.bytes_mut(), &mut self.jobs);
        self.jobs.iter().filter(|job| !matches!(job.status, JobStatus::Done { .. })).count()
    }
}

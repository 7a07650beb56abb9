//! The queue that hosts share, as two traits: [`Queue`] is what a worker may do, [`CoordinatorQueue`] what its
//! coordinator may do besides.
//!
//! Every implementation gives these guarantees, and one set of tests (`tests/queue.rs`) checks them:
//! * a job that was put is handed out until it has a result: the jobs of a lost worker are handed out again;
//! * a job has one result, the first; later ones are refused with an answer that says so;
//! * a job with the id of one that is waiting, held or done is not put a second time;
//! * a queue reports that it is over only when it was sealed and every job has its result;
//! * jobs, results and the waiting jobs together are bounded: a full queue reports that it is full.
//!
//! A job may be done twice (a worker may die between its work and its result), so a repetition must do no harm.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::error::{FleetError, Result};

/// The longest body of a job, in bytes.
pub const BODY_BYTES_MAX: usize = 512 << 10;
/// The longest result, in bytes.
pub const RESULT_BYTES_MAX: usize = 256 << 10;
/// The maximum number of results in one answer, and of their bytes without the last one.
pub(crate) const RESULTS_PER_ANSWER: usize = 1000;
pub(crate) const RESULT_BYTES_PER_ANSWER: usize = 256 << 10;

/// The name of a job: the same work has the same name, also in a later run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct JobId(pub [u8; 16]);

impl JobId {
    /// Returns the name of the work that these bytes describe.
    pub fn of(parts: &[&[u8]]) -> Self {
        let mut hasher = blake3::Hasher::new();
        for part in parts {
            hasher.update(&(part.len() as u64).to_le_bytes()).update(part);
        }
        let mut id = [0; 16];
        hasher.finalize_xof().fill(&mut id);
        Self(id)
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

impl FromStr for JobId {
    type Err = ();

    fn from_str(text: &str) -> std::result::Result<Self, ()> {
        if text.len() != 32 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(());
        }
        let number = u128::from_str_radix(text, 16).map_err(drop)?;
        Ok(Self(number.to_be_bytes()))
    }
}

/// An amount of work, as a progress bar counts it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Weight {
    /// The number of files, or of other units of the job.
    pub files: u64,
    /// The number of content bytes.
    pub bytes: u64,
}

impl Weight {
    /// Returns the sum of both, saturated at the largest number.
    #[must_use]
    pub fn plus(self, other: Self) -> Self {
        Self { files: self.files.saturating_add(other.files), bytes: self.bytes.saturating_add(other.bytes) }
    }
}

/// One piece of work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// Its name.
    pub id: JobId,
    /// Its amount.
    pub weight: Weight,
    /// The description for the worker; at most [`BODY_BYTES_MAX`].
    pub body: Vec<u8>,
}

/// A job in somebody's hands.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    /// The job as it was put.
    pub job: Job,
    /// The number of times it was handed out, this time included.
    pub attempt: u32,
    /// The queue's own name for this lease.
    pub token: u64,
}

/// The answer to [`Queue::put`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Put {
    /// The job waits.
    New,
    /// The job is already waiting, held or done.
    Known,
    /// There is no room now.
    Full,
}

/// The answer to [`Queue::take`].
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Taken {
    /// A job that the taker has from now on.
    Job(Lease),
    /// There is no job now.
    Nothing,
    /// There will be no more jobs.
    Over,
}

/// The answer to [`Queue::finish`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Finished {
    /// The result was accepted as the job's result.
    First,
    /// The job had one.
    Known,
}

/// A result.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// The position among all results, from 1.
    pub number: u64,
    /// The job that it belongs to.
    pub id: JobId,
    /// The result in the format of the worker; at most [`RESULT_BYTES_MAX`].
    pub result: Vec<u8>,
}

/// Work that hosts share, from a worker's side.
///
/// A lease that is dropped without [`finish`](Self::finish) or [`give_back`](Self::give_back) ends when the queue
/// learns that its holder is lost, or has been silent for too long.
pub trait Queue: Send + Sync {
    /// Puts a job.
    ///
    /// # Errors
    /// Fails if the job is too long, or if the queue cannot be reached or cannot keep it.
    fn put(&self, job: &Job) -> Result<Put>;

    /// Asks for work, and waits up to `wait` for it.
    ///
    /// # Errors
    /// The queue cannot be reached.
    fn take(&self, wait: Duration) -> Result<Taken>;

    /// Reports that the holder is at work, and its progress.
    ///
    /// # Errors
    /// Fails if the queue cannot be reached; then the holder should end its work.
    fn extend(&self, lease: &Lease, done: Weight) -> Result<()>;

    /// Gives a job its result. When this returns, the result is kept.
    ///
    /// # Errors
    /// Fails if the result is too long, or if the queue cannot be reached or cannot keep it.
    fn finish(&self, lease: Lease, result: &[u8]) -> Result<Finished>;

    /// Returns a job to the queue, to be handed out again after this time.
    ///
    /// # Errors
    /// Fails if the queue cannot be reached; the lease ends by itself then.
    fn give_back(&self, lease: Lease, after: Duration) -> Result<()>;

    /// Returns the result of a job, or `None` while it has none.
    ///
    /// # Errors
    /// Fails if the queue cannot be reached, or if its results cannot be read.
    fn result(&self, id: &JobId) -> Result<Option<Vec<u8>>>;

    /// Returns the last announcement; empty if there was none.
    ///
    /// # Errors
    /// The queue cannot be reached.
    fn announcement(&self) -> Result<Vec<u8>>;
}

/// The standing of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Standing {
    /// Jobs that wait.
    pub waiting: usize,
    /// Jobs in somebody's hands.
    pub held: usize,
    /// The weight of all jobs that were put.
    pub put: Weight,
    /// The weight of the jobs that got their result since this queue was created.
    pub finished: Weight,
    /// The finished part of the other jobs, as reported by their holders.
    pub under_way: Weight,
}

/// Work that hosts share, from the side of its coordinator.
pub trait CoordinatorQueue: Queue {
    /// Declares that no more jobs will come.
    ///
    /// # Errors
    /// The queue cannot be reached.
    fn seal(&self) -> Result<()>;

    /// Returns some of the results after the first `after` ones, in order; the list is empty only if there are none.
    ///
    /// # Errors
    /// Fails if the queue cannot be reached, or if its results cannot be read.
    fn results(&self, after: u64) -> Result<Vec<Outcome>>;

    /// Announces something to all workers; it replaces the previous announcement.
    ///
    /// # Errors
    /// Fails if the announcement is too long, or the queue cannot be reached.
    fn announce(&self, order: &[u8]) -> Result<()>;

    /// Ends the lease of a lost holder.
    fn expire(&self, token: u64);

    /// Its standing.
    ///
    /// # Errors
    /// The queue cannot be reached.
    fn standing(&self) -> Result<Standing>;
}

pub(crate) fn check_body(job: &Job) -> Result<()> {
    check("a job", job.body.len(), BODY_BYTES_MAX)
}

pub(crate) fn check_result(result: &[u8]) -> Result<()> {
    check("a result", result.len(), RESULT_BYTES_MAX)
}

pub(crate) fn check_order(order: &[u8]) -> Result<()> {
    check("an announcement", order.len(), BODY_BYTES_MAX)
}

fn check(what: &'static str, bytes: usize, most: usize) -> Result<()> {
    if bytes > most { Err(FleetError::TooLong { what, bytes }) } else { Ok(()) }
}

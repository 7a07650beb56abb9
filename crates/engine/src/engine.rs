//! What an engine is.
//!
//! Guarantees that every engine gives: it changes a work's bytes exactly as any other does; queues are bounded, and a
//! full one leaves work with its owner; work that was taken is handed back, once; a job that is handed back
//! [`Pending`](crate::JobStatus::Pending) has its bytes untouched, so it can run elsewhere.

use std::{collections::VecDeque, io, num::NonZeroUsize, os::fd::BorrowedFd};

use crate::{Protection, Work};

/// What jobs cost at an engine: `fixed_ns + byte_ns * bytes` each.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Nanoseconds a job.
    pub fixed_ns: f64,
    /// Nanoseconds a byte.
    pub byte_ns: f64,
}

impl Cost {
    /// Nanoseconds of a job of so many bytes.
    pub fn job_ns(self, bytes: usize) -> f64 {
        self.fixed_ns + self.byte_ns * bytes as f64
    }
}

/// Runs work.
pub trait Engine: Send + Sync {
    /// The name used in reports.
    fn name(&self) -> &'static str;

    /// What a job costs, where there are many. `None`: the engine cannot run it.
    fn cost(&self, protection: Protection) -> Option<Cost>;

    /// A lane's own door, for up to `depth` works at a time.
    ///
    /// # Errors
    /// The system refuses what the door takes.
    fn queue(&self, depth: NonZeroUsize) -> io::Result<Box<dyn Queue>>;
}

/// One lane's door to an engine.
pub trait Queue: Send {
    /// Takes work from the front until the queue is full; says how many were taken.
    fn submit(&mut self, from: &mut VecDeque<Work>) -> usize;

    /// The next work that is finished, in any order; never waits.
    fn finished(&mut self) -> Option<Work>;

    /// Works taken and not yet handed back.
    fn in_flight(&self) -> usize;

    /// Becomes readable when [`Self::finished`] may have something. `None` where everything is finished when
    /// [`Self::submit`] returns.
    fn fd(&self) -> Option<BorrowedFd<'_>>;
}

//! The interface of engines.
//!
//! Guarantees that every engine gives: it changes a work's bytes exactly as any other engine does; queues are
//! bounded, and a full queue leaves work with its owner; work that was taken is handed back once, in any order, with
//! its token; a job that is handed back [`Pending`](crate::JobStatus::Pending) has its bytes untouched, so it can run
//! elsewhere. [`Engine::trust`] says whether these guarantees can be relied on: hardware and other processes may
//! break them, and a [`Scheduler`](crate::Scheduler) makes up for that.
//!
//! A nonce never protects two texts: an engine computes a seal job again only over the bytes and with the IV that it
//! was given, and its owner never makes two jobs with the same IV.
//!
//! A lane uses a queue through a [`Submitter`](crate::Submitter), which follows the rules below.

use std::{
    collections::VecDeque,
    fmt, io,
    num::{NonZeroU32, NonZeroUsize},
    os::fd::BorrowedFd,
};

use crate::{Operation, Protection, Work};

/// The cost of jobs at an engine: `fixed_ns + byte_ns * bytes` per job.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cost {
    /// Nanoseconds per job.
    pub fixed_ns: f64,
    /// Nanoseconds per byte.
    pub byte_ns: f64,
}

impl Cost {
    /// Returns the nanoseconds of a job of `bytes` bytes.
    pub fn job_ns(self, bytes: usize) -> f64 {
        self.fixed_ns + self.byte_ns * bytes as f64
    }
}

/// The degree to which an engine's promises can be relied on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// The engine is code of this process: it gives every work back, and computes the same as any other engine.
    Full,
    /// The engine may hang, vanish, or answer late or wrongly. It is never given the only copy of a job's bytes.
    Checked {
        /// One job in this many is computed again in software before its result is used.
        one_in: NonZeroU32,
    },
}

/// Runs work.
pub trait Engine: Send + Sync + fmt::Debug {
    /// Returns the name used in reports.
    fn name(&self) -> &'static str;

    /// Returns the cost of a job when many are under way. Returns `None` if the engine cannot run such jobs.
    fn cost(&self, protection: Protection) -> Option<Cost>;

    /// Returns the nanoseconds for which a job of `bytes` bytes delays other jobs when many are under way: its share
    /// of the cost, if several run at a time.
    fn pace_ns(&self, cost: Cost, bytes: usize) -> f64 {
        cost.job_ns(bytes)
    }

    /// Returns the degree to which the engine can be relied on.
    fn trust(&self) -> Trust {
        Trust::Full
    }

    /// Returns a queue for one lane, for up to `depth` works at a time.
    ///
    /// # Errors
    /// Fails if the system refuses the queue's resources.
    fn queue(&self, depth: NonZeroUsize) -> io::Result<Box<dyn Queue>>;

    /// Returns a queue for public-key operations, for up to `depth` of them at a time; `None` if the engine has none,
    /// and whoever wants one computes it by itself.
    ///
    /// # Errors
    /// Fails if the system refuses the queue's resources.
    fn operations(&self, depth: NonZeroUsize) -> io::Result<Option<Box<dyn Queue<Operation>>>> {
        let _ = depth;
        Ok(None)
    }
}

/// One lane's queue at an engine, for works of one kind.
pub trait Queue<W = Work>: Send {
    /// Takes work from the front until the queue is full, or has no room because of others' work; returns the number
    /// of works taken.
    fn submit(&mut self, from: &mut VecDeque<W>) -> usize;

    /// Returns the next work that is finished, in any order; never waits. If it returns `None`, it has silenced
    /// [`Self::fd`].
    fn finished(&mut self) -> Option<W>;

    /// Returns the number of works taken and not yet handed back.
    fn in_flight(&self) -> usize;

    /// Returns whether a work is finished, if that can be seen without a system call. Unlike [`Self::finished`] it leaves
    /// [`Self::fd`] unchanged, so a lane may look again and again before it sleeps.
    fn has_finished(&self) -> Option<bool> {
        None
    }

    /// Returns a descriptor that becomes readable when [`Self::finished`] may have something, and, after a
    /// [`Self::submit`] that left work, when there may be room for it. A lane therefore calls `finished` until it
    /// returns `None`, then submits its work, calls `finished` once more, and then sleeps. The descriptor stays the
    /// same. Returns `None` if all works are finished when `submit` returns.
    fn fd(&self) -> Option<BorrowedFd<'_>>;
}

//! What an engine is.
//!
//! Guarantees that every engine gives: it changes a work's bytes exactly as any other does; queues are bounded, and a
//! full one leaves work with its owner; work that was taken is handed back, once, in any order, with its token; a job
//! that is handed back [`Pending`](crate::JobStatus::Pending) has its bytes untouched, so it can run elsewhere.
//! [`Engine::trust`] says whether that can be relied on: hardware and other processes break these promises, and a
//! [`Scheduler`](crate::Scheduler) keeps them in their place.
//!
//! A nonce never protects two texts: an engine computes a seal job again only over the bytes and with the IV that it
//! was given, and its owner never lays two jobs with one IV.
//!
//! A lane uses a queue by a [`Submitter`](crate::Submitter), which keeps to the rules below.

use std::{
    collections::VecDeque,
    fmt, io,
    num::{NonZeroU32, NonZeroUsize},
    os::fd::BorrowedFd,
};

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

/// How far an engine's promises can be relied on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trust {
    /// It is code of this process: it gives everything back, and computes what any other engine computes.
    Full,
    /// It may hang, vanish, answer late or wrongly. It is never given the only copy of a job's bytes.
    Checked {
        /// One job in so many is computed again in software before its result is used.
        one_in: NonZeroU32,
    },
}

/// Runs work.
pub trait Engine: Send + Sync + fmt::Debug {
    /// The name used in reports.
    fn name(&self) -> &'static str;

    /// What a job costs, where there are many. `None`: the engine cannot run it.
    fn cost(&self, protection: Protection) -> Option<Cost>;

    /// For how many nanoseconds a job of so many bytes keeps other jobs waiting where there are many: its share of the
    /// cost, if several run at a time.
    fn pace_ns(&self, cost: Cost, bytes: usize) -> f64 {
        cost.job_ns(bytes)
    }

    /// How far it can be relied on.
    fn trust(&self) -> Trust {
        Trust::Full
    }

    /// A lane's own door, for up to `depth` works at a time.
    ///
    /// # Errors
    /// The system refuses what the door takes.
    fn queue(&self, depth: NonZeroUsize) -> io::Result<Box<dyn Queue>>;
}

/// One lane's door to an engine.
pub trait Queue: Send {
    /// Takes work from the front until the queue is full, or has no room because of others' work; says how many were
    /// taken.
    fn submit(&mut self, from: &mut VecDeque<Work>) -> usize;

    /// The next work that is finished, in any order; never waits. `None` silences [`Self::fd`].
    fn finished(&mut self) -> Option<Work>;

    /// Works taken and not yet handed back.
    fn in_flight(&self) -> usize;

    /// Becomes readable when [`Self::finished`] may have something, and after a [`Self::submit`] that left work when
    /// there may be room for it. So a lane asks `finished` until there is nothing, then submits what it has, asks once
    /// more, then sleeps. The descriptor stays the same. `None` where everything is finished when `submit` returns.
    fn fd(&self) -> Option<BorrowedFd<'_>>;
}

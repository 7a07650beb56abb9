//! Public-key operations as loads of an engine.
//!
//! Guarantees: an operation owns its keys, its input and its random values, so it can run again on any engine with the
//! same answer; operations of one class, from any submitters, share a batch ([`sealane_transform::Kernels::asymmetric`]).

use std::{collections::VecDeque, fmt, io, num::NonZeroUsize};

use rustix::event::{PollFd, PollFlags, poll};
use sealane_transform::{ASYMMETRIC_LANES, Asymmetric, AsymmetricJob, Kernels};

use crate::{Engine, Queue, at_once::AtOnce, load::Load};

/// One public-key operation under way.
#[derive(Debug)]
pub struct Operation {
    /// The owner's number for it.
    pub token: u64,
    /// The operation, and its answer when it has run.
    pub job: AsymmetricJob,
}

/// The kernels of this machine.
pub(crate) struct Best(Kernels);

impl Default for Best {
    fn default() -> Self {
        Self(Kernels::best())
    }
}

impl Load for Operation {
    type Runner = Best;
    type Class = (Asymmetric, u8);

    fn share(&self) -> Option<f32> {
        Some(1.0 / ASYMMETRIC_LANES as f32)
    }

    fn class(&self) -> Self::Class {
        self.job.operation().class()
    }

    fn run(loads: &mut [Self], kernels: &mut Best) {
        kernels.0.asymmetric(loads.iter_mut().map(|operation| &mut operation.job));
    }

    fn run_gathered(loads: &mut [Self], kernels: &mut Best) {
        Self::run(loads, kernels);
    }
}

/// One caller's public-key operations at an engine, for callers that wait for their answers.
pub struct Operations {
    queue: Box<dyn Queue<Operation>>,
    waiting: VecDeque<Operation>,
}

impl fmt::Debug for Operations {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Operations").field("in_flight", &self.queue.in_flight()).finish_non_exhaustive()
    }
}

/// The number of operations that one caller has at the engine at a time.
const DEPTH: NonZeroUsize = NonZeroUsize::new(64).unwrap();

impl Operations {
    /// Makes a caller's queue at `engine`; an engine without public-key operations leaves them to the calling thread.
    ///
    /// # Errors
    /// Fails if the system refuses the queue's resources.
    pub fn new(engine: &dyn Engine) -> io::Result<Self> {
        let queue = match engine.operations(DEPTH)? {
            Some(queue) => queue,
            None => Box::new(AtOnce::new(DEPTH)),
        };
        Ok(Self { queue, waiting: VecDeque::new() })
    }

    /// Runs all jobs, and waits for their answers. They share batches with the jobs of other callers.
    pub fn run(&mut self, jobs: &mut Vec<AsymmetricJob>) {
        let numbered = jobs.drain(..).enumerate();
        self.waiting.extend(numbered.map(|(index, job)| Operation { token: index as u64, job }));
        let mut done = Vec::with_capacity(self.waiting.len());
        loop {
            self.queue.submit(&mut self.waiting);
            while let Some(operation) = self.queue.finished() {
                done.push(operation);
            }
            // Finished operations made room.
            if !self.waiting.is_empty() && self.queue.submit(&mut self.waiting) > 0 {
                continue;
            }
            if self.queue.in_flight() == 0 && self.waiting.is_empty() {
                break;
            }
            if let Some(bell) = self.queue.fd() {
                // An interrupted wait looks again.
                let _ = poll(&mut [PollFd::new(&bell, PollFlags::IN)], None);
            }
        }
        done.sort_unstable_by_key(|operation| operation.token);
        jobs.extend(done.into_iter().map(|operation| operation.job));
    }
}

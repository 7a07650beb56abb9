//! A caller's public-key operations at an engine.
//!
//! Guarantees: all jobs of a call are answered, in their order; as many as the engine takes are under way at a time.

use std::{collections::VecDeque, io, num::NonZeroUsize};

use rustix::event::{PollFd, PollFlags, poll};
use sealane_transform::AsymmetricJob;
use sealane_transform::debug_only;

use crate::{Engine, Operation, Queue, at_once::AtOnce};

/// One caller's public-key operations at an engine, for callers that wait for their answers.
pub struct Operations {
    queue: Box<dyn Queue<Operation>>,
    waiting: VecDeque<Operation>,
}

debug_only!(self: Operations { in_flight: self.queue.in_flight() });

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

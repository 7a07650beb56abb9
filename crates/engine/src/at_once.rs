//! The queue of loads that are computed when they are submitted.

use std::{collections::VecDeque, num::NonZeroUsize, os::fd::BorrowedFd};

use crate::{Queue, load::Load};

/// A queue whose loads are finished when `submit` returns.
pub(crate) struct AtOnce<L: Load> {
    runner: L::Runner,
    depth: usize,
    finished: VecDeque<L>,
}

impl<L: Load> AtOnce<L> {
    pub(crate) fn new(depth: NonZeroUsize) -> Self {
        let finished = VecDeque::with_capacity(depth.get());
        Self { runner: L::Runner::default(), depth: depth.get(), finished }
    }
}

impl<L: Load> Queue<L> for AtOnce<L> {
    fn submit(&mut self, from: &mut VecDeque<L>) -> usize {
        let count = from.len().min(self.depth - self.finished.len());
        let first = self.finished.len();
        self.finished.extend(from.drain(..count));
        L::run(&mut self.finished.make_contiguous()[first..], &mut self.runner);
        count
    }

    fn finished(&mut self) -> Option<L> {
        self.finished.pop_front()
    }

    fn in_flight(&self) -> usize {
        self.finished.len()
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }
}

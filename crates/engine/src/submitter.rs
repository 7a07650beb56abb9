//! The use of an engine by one lane.
//!
//! Guarantees: every work that was submitted comes back once, in any order, with the note that its owner gave along;
//! each of its jobs has an outcome; work for which the queue has no room waits here; an answer that comes twice, or
//! for a work that the queue was never given, is ignored.

use std::{collections::VecDeque, fmt, os::fd::BorrowedFd, thread};

use rustix::event::{PollFd, PollFlags, poll};

use crate::{JobStatus, Queue, Software, Work, notes::Notes, spinner::Spinner};

/// Submits one lane's work to an engine's queue. `T` is the data that the lane needs with a work when it comes back.
///
/// A job that the engine hands back [`Pending`](JobStatus::Pending) is computed by the calling thread. It has the
/// same bytes and the same IV as before, so its nonce protects one text.
pub struct Submitter<T> {
    queue: Box<dyn Queue>,
    /// Works for which the queue had no room, in the order in which they were given.
    waiting: VecDeque<Work>,
    notes: Notes<T>,
    software: Software,
    spinner: Spinner,
}

impl<T> fmt::Debug for Submitter<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Submitter").field("in_hand", &self.in_hand()).finish_non_exhaustive()
    }
}

impl<T> Submitter<T> {
    /// Makes a submitter to `queue`. Memory is kept for `works` works under way; more are accepted as well.
    pub fn new(queue: Box<dyn Queue>, works: usize) -> Self {
        let (waiting, notes) = (VecDeque::with_capacity(works), Notes::with_capacity(works));
        Self { queue, waiting, notes, software: Software::default(), spinner: Spinner::default() }
    }

    /// Gives a work to the engine as soon as its queue has room. This sets the work's token.
    pub fn submit(&mut self, mut work: Work, note: T) {
        work.token = self.notes.put(note);
        self.waiting.push_back(work);
        self.queue.submit(&mut self.waiting);
    }

    /// Returns the next work that is finished, with its note; never waits.
    pub fn finished(&mut self) -> Option<(Work, T)> {
        loop {
            while let Some(mut work) = self.queue.finished() {
                let Some(note) = self.notes.take(work.token) else { continue };
                if work.jobs.iter().any(|job| job.status == JobStatus::Pending) {
                    self.software.run(&mut work);
                }
                return Some((work, note));
            }
            // This comes last, so that room that appears after this look wakes the lane.
            if self.waiting.is_empty() || self.queue.submit(&mut self.waiting) == 0 {
                return None;
            }
        }
    }

    /// Returns the number of works that were submitted and have not come back.
    pub fn in_hand(&self) -> usize {
        self.notes.count()
    }

    /// Returns a descriptor that becomes readable when [`Self::finished`] may have something. Returns `None` while no
    /// work is under way, and if all works are finished when `submit` returns.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        if self.in_hand() == 0 { None } else { self.queue.fd() }
    }

    /// Returns the next work that is finished, with its note; waits as long as that takes; `None` if no work is under
    /// way.
    pub fn wait(&mut self) -> Option<(Work, T)> {
        while self.in_hand() > 0 {
            if self.queue.has_finished() == Some(false) {
                if !self.waiting.is_empty() {
                    self.queue.submit(&mut self.waiting);
                }
                self.spinner.wait(|| self.queue.has_finished() == Some(true));
            }
            let finished = self.finished();
            if finished.is_some() {
                return finished;
            }
            match self.queue.fd() {
                // An interruption of the poll leads to another look, as any other wake-up.
                Some(fd) => drop(poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], None)),
                None => thread::yield_now(),
            }
        }
        None
    }
}

impl<T: Default> Submitter<T> {
    /// Runs `work` and waits for it. No other work may be under way.
    ///
    /// # Panics
    /// Panics if another work is under way.
    pub fn run(&mut self, work: &mut Work) {
        assert_eq!(
            self.in_hand(),
            0,
            "works that were submitted are fetched before another one is waited for"
        );
        self.submit(std::mem::take(work), T::default());
        let (finished, _) = self.wait().expect("a work under way comes back");
        *work = finished;
    }
}

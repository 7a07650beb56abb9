//! A lane's use of an engine.
//!
//! Guarantees: every work that was submitted comes back once, and with it the note that its owner gave along, in any
//! order; each of its jobs has an outcome; work for which the queue has no room waits here; a queue that answers
//! twice, or for a work that it was never given, is not believed.

use std::{collections::VecDeque, fmt, os::fd::BorrowedFd, thread};

use rustix::event::{PollFd, PollFlags, poll};

use crate::{JobStatus, Queue, Software, Work, notes::Notes};

/// Submits one lane's work to an engine's queue. `T` is what the lane wants to know of a work when it comes back.
///
/// A job that the engine hands back [`Pending`](JobStatus::Pending) is computed here, by the calling thread. It has
/// the same bytes and the same IV as before, so its nonce protects one text.
pub struct Submitter<T> {
    queue: Box<dyn Queue>,
    /// Works that the queue had no room for, in the order in which they were given.
    waiting: VecDeque<Work>,
    notes: Notes<T>,
    software: Software,
}

impl<T> fmt::Debug for Submitter<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Submitter").field("in_hand", &self.in_hand()).finish_non_exhaustive()
    }
}

impl<T> Submitter<T> {
    /// Submits to `queue`. Memory is kept for `works` works under way; more are taken all the same.
    pub fn new(queue: Box<dyn Queue>, works: usize) -> Self {
        let (waiting, notes) = (VecDeque::with_capacity(works), Notes::with_capacity(works));
        Self { queue, waiting, notes, software: Software::default() }
    }

    /// Gives a work to the engine, as soon as its queue has room. The work's token is set here.
    pub fn submit(&mut self, mut work: Work, note: T) {
        work.token = self.notes.put(note);
        self.waiting.push_back(work);
        self.queue.submit(&mut self.waiting);
    }

    /// The next work that is finished, with its note; never waits.
    pub fn finished(&mut self) -> Option<(Work, T)> {
        loop {
            while let Some(mut work) = self.queue.finished() {
                let Some(note) = self.notes.take(work.token) else { continue };
                if work.jobs.iter().any(|job| job.status == JobStatus::Pending) {
                    self.software.run(&mut work);
                }
                return Some((work, note));
            }
            // Last, so that room that comes to be after this look wakes the lane.
            if self.waiting.is_empty() || self.queue.submit(&mut self.waiting) == 0 {
                return None;
            }
        }
    }

    /// Works that were submitted and have not come back.
    pub fn in_hand(&self) -> usize {
        self.notes.count()
    }

    /// Becomes readable when [`Self::finished`] may have something. `None` while no work is under way, and where
    /// everything is finished when it was submitted.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        if self.in_hand() == 0 { None } else { self.queue.fd() }
    }

    /// The next work that is finished, with its note, however long that takes; `None` if none is under way.
    pub fn wait(&mut self) -> Option<(Work, T)> {
        while self.in_hand() > 0 {
            let finished = self.finished();
            if finished.is_some() {
                return finished;
            }
            match self.queue.fd() {
                // An interruption of the poll is a reason to look again, as any other.
                Some(fd) => drop(poll(&mut [PollFd::from_borrowed_fd(fd, PollFlags::IN)], None)),
                None => thread::yield_now(),
            }
        }
        None
    }
}

impl<T: Default> Submitter<T> {
    /// Runs `work` and waits for it. Nothing else may be under way.
    ///
    /// # Panics
    /// When something else is.
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

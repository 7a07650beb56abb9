//! Wake-up of sleeping lanes.
//!
//! Guarantees: a wake-up is never lost: a lane announces that it is about to sleep, looks for work once more, and
//! only then sleeps; a thread that brings work looks for announcements after it has put the work down. A wake-up for
//! an awake lane is discarded.

use std::{io, os::fd::BorrowedFd, time::Duration};

use rustix::event::PollFd;

use crate::sync::{AtomicBool, SeqCst, Signal};

/// One bell per lane.
#[derive(Debug)]
pub struct Bells {
    bells: Vec<Bell>,
}

#[derive(Debug)]
struct Bell {
    signal: Signal,
    sleeping: AtomicBool,
}

impl Bells {
    /// Makes `lanes` bells.
    ///
    /// # Errors
    /// Fails if the process cannot open another descriptor.
    pub fn new(lanes: usize) -> io::Result<Self> {
        let bell =
            || -> io::Result<Bell> { Ok(Bell { signal: Signal::new()?, sleeping: AtomicBool::new(false) }) };
        Ok(Self { bells: (0..lanes).map(|_| bell()).collect::<Result<_, _>>()? })
    }

    /// Announces that the lane is about to sleep; it must look for work once more before it sleeps.
    pub fn announce(&self, lane: usize) {
        self.bells[lane].sleeping.store(true, SeqCst);
    }

    /// Records that the lane is awake again.
    pub fn awake(&self, lane: usize) {
        self.bells[lane].sleeping.store(false, SeqCst);
        self.bells[lane].signal.clear();
    }

    /// After [`Self::announce`], sleeps until the lane's bell rings or one of `fds` is ready, for at most `timeout`;
    /// returns false if the time has passed. A descriptor that cannot be polled counts as ready: its owner detects
    /// the error at its next use.
    pub fn sleep<'a>(&'a self, lane: usize, fds: &mut Vec<PollFd<'a>>, timeout: Duration) -> bool {
        let in_time = self.bells[lane].signal.wait(fds, timeout).unwrap_or(true);
        self.bells[lane].sleeping.store(false, SeqCst);
        in_time
    }

    /// Returns the descriptor that a thread which sleeps by itself polls beside its own descriptors, between
    /// [`Self::announce`] and [`Self::awake`].
    pub fn fd(&self, lane: usize) -> BorrowedFd<'_> {
        self.bells[lane].signal.fd()
    }

    /// Wakes every lane that sleeps.
    pub fn ring(&self) {
        (0..self.bells.len()).for_each(|lane| self.ring_one(lane));
    }

    /// Wakes one of the sleeping lanes, for work that any of them may do.
    pub fn ring_any(&self) {
        let _ = (0..self.bells.len()).any(|lane| self.wakes(lane));
    }

    /// Wakes one lane, if it sleeps.
    pub fn ring_one(&self, lane: usize) {
        self.wakes(lane);
    }

    fn wakes(&self, lane: usize) -> bool {
        let bell = &self.bells[lane];
        // The flag is read first, because most lanes are awake, and a read leaves the cache line in all caches.
        let was_sleeping = bell.sleeping.load(SeqCst) && bell.sleeping.swap(false, SeqCst);
        if was_sleeping {
            bell.signal.ring();
        }
        was_sleeping
    }
}

//! What every lane does all its life: work, and sleep while there is none.
//!
//! Guarantees: a lane sleeps only here, in one `poll` over its bell and what its work waits for, never longer than
//! [`LONGEST_SLEEP`]; it looks for work once more between announcing its sleep and sleeping, so no ring is lost.

use std::time::Duration;

use rustix::event::PollFd;

use crate::{Bells, Stop};

/// Longest sleep of a lane; everything that matters wakes it earlier.
pub const LONGEST_SLEEP: Duration = Duration::from_millis(200);

/// What a turn of a lane came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Something moved.
    Moved,
    /// Nothing could be done.
    Idle,
    /// Nothing will ever be to do again.
    Done,
}

/// A lane's work, in turns.
pub trait LaneWork {
    /// Does what can be done now, without waiting.
    fn step(&mut self) -> Turn;

    /// Adds the descriptors that the lane waits for, and says for how long at most: until the next deadline.
    fn wait_for<'a>(&'a mut self, fds: &mut Vec<PollFd<'a>>) -> Duration;

    /// The lane slept to the end of that time: neither its bell rang nor was a descriptor ready.
    fn slept_out(&mut self) {}
}

/// Runs a lane's work until it is done or `stop` is set.
pub fn run_lane<E: Clone>(lane: usize, bells: &Bells, stop: &Stop<E>, work: &mut impl LaneWork) {
    let mut announced = false;
    while !stop.is_set() {
        match work.step() {
            Turn::Moved => announced = false,
            Turn::Done => return,
            Turn::Idle if !announced => {
                bells.announce(lane);
                announced = true;
            }
            Turn::Idle => {
                announced = false;
                let mut fds = Vec::new();
                let longest = work.wait_for(&mut fds).min(LONGEST_SLEEP);
                let in_time = bells.sleep(lane, &mut fds, longest);
                drop(fds);
                if !in_time {
                    work.slept_out();
                }
            }
        }
    }
}

/// Tells somebody if the thread that holds it panics; others would wait for that thread for ever.
#[derive(Debug)]
pub struct OnPanic<F: Fn()>(pub F);

impl<F: Fn()> Drop for OnPanic<F> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0();
        }
    }
}

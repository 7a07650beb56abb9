//! The loop of every lane: it works, and sleeps while there is no work.
//!
//! Guarantees: a lane sleeps only here, in one `poll` over its bell and the descriptors for which its work waits,
//! never longer than [`LONGEST_SLEEP`]; it looks for work once more between announcing its sleep and sleeping, so no
//! wake-up is lost.

use std::time::Duration;

use rustix::event::PollFd;

use crate::{Bells, Stop};

/// The longest sleep of a lane; every event of importance wakes it earlier.
pub const LONGEST_SLEEP: Duration = Duration::from_millis(200);

/// The result of a turn of a lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// The lane made progress.
    Moved,
    /// The lane could do nothing now.
    Idle,
    /// The lane will never have work again.
    Done,
}

/// A lane's work, in turns.
pub trait LaneWork {
    /// Does all work that is possible now, without waiting.
    fn step(&mut self) -> Turn;

    /// Adds the descriptors for which the lane waits, and returns the longest time to wait: until the next deadline.
    fn wait_for<'a>(&'a mut self, fds: &mut Vec<PollFd<'a>>) -> Duration;

    /// Called when the lane has slept to the end of that time: neither its bell rang nor was a descriptor ready.
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

/// Calls a function if the thread that holds it panics; other threads would otherwise wait for that thread for ever.
#[derive(Debug)]
pub struct OnPanic<F: Fn()>(pub F);

impl<F: Fn()> Drop for OnPanic<F> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0();
        }
    }
}

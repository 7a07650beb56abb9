//! Work through an engine's queue, to its end.

use std::collections::VecDeque;

use rustix::event::{PollFd, PollFlags, poll};
use sealane_engine::{Queue, Work};

/// Runs `work` and waits for it. With an engine of this lane there is nothing to wait for.
pub(crate) fn run(queue: &mut dyn Queue, work: &mut Work) {
    let mut waiting = VecDeque::from([std::mem::take(work)]);
    let taken = queue.submit(&mut waiting);
    assert_eq!(taken, 1, "a queue from which everything was fetched has room");
    *work = loop {
        if let Some(finished) = queue.finished() {
            break finished;
        }
        if let Some(fd) = queue.fd() {
            // What interrupts a poll is looked at by the loop.
            let _ = poll(&mut [PollFd::new(&fd, PollFlags::IN)], None);
        }
    };
}

//! The priority of the service's threads.
//!
//! **Guarantee:** what a thread that has stepped back computes for one user takes next to nothing from programs that want the
//! processors, and from workers. Such a thread holds no lock for longer than a few instructions: others may wait for it.

use rustix::process::{getpriority_process, setpriority_process};
use rustix::thread::gettid;

/// The additional niceness of such a thread: a tenth of the weight of others.
const NICENESS: i32 = 10;

/// Lets other threads go first from now on. If the kernel refuses, they do not.
pub(crate) fn step_back() {
    let own = gettid();
    // It is that of one thread, where POSIX says a process (setpriority(2)).
    let niceness = getpriority_process(Some(own)).unwrap_or_default() + NICENESS;
    let _ = setpriority_process(Some(own), niceness);
}

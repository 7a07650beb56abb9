//! The primitives that threads share, imported in one place: the models in `tests/models.rs` compile the same sources
//! with a model checker's versions of them.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    time::Duration,
};

use rustix::{
    event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll},
    io::Errno,
};

pub(crate) use std::sync::{
    Mutex, MutexGuard,
    atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
};

/// A signal that any thread can give and one thread awaits.
#[derive(Debug)]
pub(crate) struct Signal(OwnedFd);

impl Signal {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    pub(crate) fn ring(&self) {
        // A counter that is full wakes as well.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// Resets the signal. It may be unset already.
    pub(crate) fn clear(&self) {
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Sleeps until the signal is given, or one of `fds` is ready, for at most `timeout`; returns false if the time
    /// has passed. Resets the signal.
    pub(crate) fn wait<'a>(&'a self, fds: &mut Vec<PollFd<'a>>, timeout: Duration) -> io::Result<bool> {
        fds.push(PollFd::from_borrowed_fd(self.fd(), PollFlags::IN));
        let in_time = wait(fds, timeout)?;
        // Resetting an unset signal at every wake-up would cost a system call as expensive as the wake-up itself.
        if fds.last().is_some_and(|own| !own.revents().is_empty()) {
            self.clear();
        }
        Ok(in_time)
    }
}

/// Waits until one of `fds` is ready, for at most `timeout`; returns false if the time has passed.
///
/// # Errors
/// Fails if `poll(2)` does; an interruption counts as a wake-up.
pub fn wait(fds: &mut [PollFd<'_>], timeout: Duration) -> io::Result<bool> {
    let timeout = Timespec::try_from(timeout).unwrap_or(Timespec { tv_sec: 3600, tv_nsec: 0 });
    match poll(fds, Some(&timeout)) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

//! What threads share, named in one place: the models in `tests/models.rs` compile the same sources over a scheduler's
//! versions of it.

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

/// Rung from any thread, awaited by one.
#[derive(Debug)]
pub(crate) struct Signal(OwnedFd);

impl Signal {
    pub(crate) fn new() -> io::Result<Self> {
        Ok(Self(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
    }

    pub(crate) fn ring(&self) {
        // A count that is full already wakes as well.
        let _ = rustix::io::write(&self.0, &1u64.to_ne_bytes());
    }

    /// Takes off what was rung. Nothing to take is as good.
    pub(crate) fn clear(&self) {
        let _ = rustix::io::read(&self.0, &mut [0; 8]);
    }

    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Sleeps until rung, or one of `fds` is ready, but no longer than `timeout`; false when it took so long. Takes off
    /// what was rung.
    pub(crate) fn wait<'a>(&'a self, fds: &mut Vec<PollFd<'a>>, timeout: Duration) -> io::Result<bool> {
        fds.push(PollFd::from_borrowed_fd(self.fd(), PollFlags::IN));
        let in_time = wait(fds, timeout)?;
        // A call for nothing at every waking would cost as much as the waking's own.
        if fds.last().is_some_and(|own| !own.revents().is_empty()) {
            self.clear();
        }
        Ok(in_time)
    }
}

/// Waits until one of `fds` is ready, but no longer than `timeout`; false when it took so long.
///
/// # Errors
/// What `poll(2)` says; an interruption counts as being woken.
pub fn wait(fds: &mut [PollFd<'_>], timeout: Duration) -> io::Result<bool> {
    let timeout = Timespec::try_from(timeout).unwrap_or(Timespec { tv_sec: 3600, tv_nsec: 0 });
    match poll(fds, Some(&timeout)) {
        Ok(ready) => Ok(ready > 0),
        Err(Errno::INTR) => Ok(true),
        Err(error) => Err(error.into()),
    }
}

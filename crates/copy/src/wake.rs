//! Waking lanes that wait for their sockets.
//!
//! Guarantees: a wake is never lost: a lane announces that it is about to sleep, looks for work once more,
//! and only then polls; whoever brings work looks for announcements after it put the work down.

use std::{
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::atomic::{AtomicBool, Ordering::SeqCst},
};

use rustix::event::{EventfdFlags, eventfd};

/// One bell for each lane.
#[derive(Debug)]
pub(crate) struct Bells {
    bells: Vec<Bell>,
}

#[derive(Debug)]
struct Bell {
    fd: OwnedFd,
    sleeping: AtomicBool,
}

impl Bells {
    /// Makes `lanes` bells.
    ///
    /// # Errors
    /// When the process has no descriptors left.
    pub(crate) fn new(lanes: usize) -> io::Result<Self> {
        let bell = || -> io::Result<Bell> {
            let fd = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
            Ok(Bell { fd, sleeping: AtomicBool::new(false) })
        };
        Ok(Self { bells: (0..lanes).map(|_| bell()).collect::<Result<_, _>>()? })
    }

    /// The lane is about to sleep; it must look for work once more before it does.
    pub(crate) fn announce(&self, lane: usize) {
        self.bells[lane].sleeping.store(true, SeqCst);
    }

    /// The lane is awake again.
    pub(crate) fn awake(&self, lane: usize) {
        if !self.bells[lane].sleeping.swap(false, SeqCst) {
            // Somebody rang: take the count off. Nothing to take is as good.
            let _ = rustix::io::read(&self.bells[lane].fd, &mut [0; 8]);
        }
    }

    /// What a sleeping lane polls beside its sockets.
    pub(crate) fn fd(&self, lane: usize) -> BorrowedFd<'_> {
        self.bells[lane].fd.as_fd()
    }

    /// Wakes every lane that sleeps.
    pub(crate) fn ring(&self) {
        for bell in &self.bells {
            if bell.sleeping.swap(false, SeqCst) {
                let _ = rustix::io::write(&bell.fd, &1u64.to_ne_bytes());
            }
        }
    }
}

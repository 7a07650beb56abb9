//! The kernel's means to sleep and to wake: two pipes, one for each end to ring the other.
//!
//! The doorbells in shared memory ([`crate::Bells`]) say whether the other end sleeps; only then is it rung. The kernel
//! takes bytes in a pipe as a sign that their writer is about to wait, and may run the reader on the writer's core; of two
//! ends that sleep in turn, neither waits then for an idle core to wake. eventfd(2) and futex(2) give no such sign, and
//! sockets take longer.
//!
//! **Guarantees:** to ring never waits, and raises no signal, because each end keeps the reading end of the pipe that it
//! writes; a bell that is rung before the other end sleeps keeps it from sleeping; a client whose service is gone does
//! not sleep; nothing that a client does to its descriptors makes the service wait.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{read, write};
use rustix::pipe::{PipeFlags, SpliceFlags, pipe_with, splice};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// The number of rings that are taken at a time: more than any pipe holds.
const RINGS_MAX: usize = 1 << 20;

/// The reason for which a sleep has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// The bell was rung.
    Rung,
    /// The time limit has passed, or a signal came.
    Otherwise,
    /// The other end is closed.
    Closed,
}

/// One end.
#[derive(Debug)]
pub struct Bell {
    /// The writing end of the pipe that wakes the other end.
    theirs: OwnedFd,
    /// The reading end of the pipe that wakes this end.
    own: OwnedFd,
    /// The reading end of `theirs`, which is only kept open.
    #[allow(dead_code, reason = "it is only kept open")]
    kept: OwnedFd,
}

impl Bell {
    /// Makes the service's end, and the descriptors of the client's.
    ///
    /// # Errors
    /// Fails if the kernel does.
    pub fn pair() -> io::Result<(Self, [OwnedFd; 3])> {
        let flags = PipeFlags::CLOEXEC | PipeFlags::NONBLOCK;
        let (of_service, to_service) = pipe_with(flags)?;
        let (of_client, to_client) = pipe_with(flags)?;
        let (kept_by_client, kept) = (of_service.try_clone()?, of_client.try_clone()?);
        let service = Self { theirs: to_client, own: of_service, kept };
        Ok((service, [to_service, of_client, kept_by_client]))
    }

    /// Makes the client's end of the descriptors that the service has sent.
    pub fn of([theirs, own, kept]: [OwnedFd; 3]) -> Self {
        Self { theirs, own, kept }
    }

    /// Wakes the other end.
    pub fn ring(&self) {
        // A pipe that is full of rings wakes as well.
        let _ = write(&self.theirs, &[1]);
    }

    /// Called by the client: takes all rings; never waits.
    pub fn silence(&self) -> Woken {
        match read(&self.own, &mut [0u8; 64][..]) {
            Ok(0) => Woken::Closed,
            Ok(_) => Woken::Rung,
            Err(_) => Woken::Otherwise,
        }
    }

    /// Called by the client: sleeps until the service rings, for `at_most` at the longest, and takes the rings.
    pub fn sleep(&self, at_most: Duration) -> Woken {
        let timeout = Timespec::try_from(at_most).unwrap_or_default();
        match poll(&mut [PollFd::new(&self.own, PollFlags::IN)], Some(&timeout)) {
            Ok(0) | Err(_) => Woken::Otherwise,
            Ok(_) => self.silence(),
        }
    }

    /// Called by the service: puts all rings into `nowhere`, which is /dev/null. The client shares the open file that a
    /// read(2) would be for, and could make it wait; this call does not wait whatever the file's flags are.
    pub fn discard(&self, nowhere: &OwnedFd) -> Woken {
        match splice(&self.own, None, nowhere, None, RINGS_MAX, SpliceFlags::NONBLOCK) {
            Ok(0) => Woken::Closed,
            Ok(_) => Woken::Rung,
            Err(_) => Woken::Otherwise,
        }
    }
}

impl AsFd for Bell {
    /// Returns a descriptor that is readable while there are rings, and when the other end is closed.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.own.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{OFlags, fcntl_setfl};

    const NO_TIME: Duration = Duration::from_millis(1);

    #[test]
    fn a_ring_wakes_and_a_closed_end_lets_nobody_sleep() {
        let (service, client) = Bell::pair().expect("pipes");
        let client = Bell::of(client);
        assert_eq!((client.silence(), client.sleep(NO_TIME)), (Woken::Otherwise, Woken::Otherwise));
        (0..3).for_each(|_| service.ring());
        assert_eq!((client.sleep(NO_TIME), client.silence()), (Woken::Rung, Woken::Otherwise));
        // Rings that nobody takes block nobody.
        (0..100_000).for_each(|_| service.ring());
        assert_eq!(client.silence(), Woken::Rung);
        drop(service);
        while client.silence() == Woken::Rung {}
        assert_eq!(client.sleep(NO_TIME), Woken::Closed);
        // Whoever rings a service that is gone gets no signal.
        client.ring();
    }

    #[test]
    fn no_client_makes_the_service_wait() {
        let nowhere = std::fs::File::options().write(true).open("/dev/null").expect("a file").into();
        let (service, client) = Bell::pair().expect("pipes");
        let client = Bell::of(client);
        // The file's flags are the client's as well.
        for fd in [&client.kept, &client.own] {
            fcntl_setfl(fd, OFlags::empty()).expect("flags");
        }
        assert_eq!(service.discard(&nowhere), Woken::Otherwise);
        (0..100_000).for_each(|_| client.ring());
        assert_eq!((service.discard(&nowhere), service.discard(&nowhere)), (Woken::Rung, Woken::Otherwise));
        client.ring();
        drop(client);
        (0..100_000).for_each(|_| service.ring());
        assert_eq!((service.discard(&nowhere), service.discard(&nowhere)), (Woken::Rung, Woken::Closed));
    }
}

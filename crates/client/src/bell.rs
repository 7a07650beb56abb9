//! The kernel's means to sleep and to wake: a pair of connected sockets, one end for each side to ring the other.
//!
//! The doorbells in shared memory ([`crate::Bells`]) say whether the other end sleeps; only then is it rung. The kernel
//! takes bytes in a socket, as in a pipe, as a sign that their writer is about to wait, and may run the reader on the
//! writer's core; of two ends that sleep in turn, neither waits then for an idle core to wake. eventfd(2) and futex(2)
//! give no such sign. A pipe is not safe: whoever has one end can hold the lock of both for as long as he likes, by
//! splice(2) into a socket that is full, or by memory whose pages come from a slow file system; and whoever shares an
//! open file with another process sets its flags.
//!
//! **Guarantees:** to ring never waits, and raises no signal; a bell that is rung before the other end sleeps keeps it
//! from sleeping; a client whose service is gone does not sleep. The two ends share no lock that is held while a process
//! waits, and no open file, so nothing that a client does to its end makes the service wait.

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair, sockopt,
};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

/// The number of rings that an end holds at the least, whoever takes them or not.
pub const RINGS_HELD: usize = 128;

/// The memory of each end for rings in bytes, of which the kernel takes twice as many; a ring takes 768 of them.
const BUFFER_BYTES: usize = 64 * 1024;

const _: () = assert!(2 * BUFFER_BYTES / 768 > RINGS_HELD);

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
    socket: OwnedFd,
    /// Whether each ring is received by itself.
    has_packets: bool,
}

impl Bell {
    /// Makes the service's end, and the descriptor of the client's.
    ///
    /// # Errors
    /// Fails if the kernel does.
    pub fn pair() -> io::Result<(Self, OwnedFd)> {
        Self::pair_of(SocketType::STREAM)
    }

    /// Makes them for a client of version 1, which writes to its end and reads from it as if they were pipes that do not wait: such
    /// a socket raises no signal when the service is gone.
    ///
    /// # Errors
    /// Fails if the kernel does.
    pub fn pair_for_version_1() -> io::Result<(Self, OwnedFd)> {
        Self::pair_of(SocketType::DGRAM)
    }

    fn pair_of(kind: SocketType) -> io::Result<(Self, OwnedFd)> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let (socket, client) = socketpair(AddressFamily::UNIX, kind, flags, None)?;
        for end in [&socket, &client] {
            sockopt::set_socket_send_buffer_size(end, BUFFER_BYTES)?;
        }
        Ok((Self { socket, has_packets: kind == SocketType::DGRAM }, client))
    }

    /// Makes the client's end of the descriptor that the service has sent.
    pub fn of(socket: OwnedFd) -> Self {
        Self { socket, has_packets: false }
    }

    /// Wakes the other end.
    pub fn ring(&self) {
        // A socket that is full of rings wakes as well.
        let _ = send(&self.socket, &[1], SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
    }

    /// Takes all rings; never waits.
    pub fn silence(&self) -> Woken {
        let mut woken = Woken::Otherwise;
        // Whoever sends more while they are taken is not waited for.
        for _ in 0..if self.has_packets { 4 * RINGS_HELD } else { 1 } {
            match recv(&self.socket, &mut [0u8; 512][..], RecvFlags::DONTWAIT) {
                Ok((_, 0)) if !self.has_packets => return Woken::Closed,
                Ok(_) => woken = Woken::Rung,
                Err(_) => break,
            }
        }
        woken
    }

    /// Sleeps until the other end rings, for `at_most` at the longest, and takes the rings.
    pub fn sleep(&self, at_most: Duration) -> Woken {
        let timeout = Timespec::try_from(at_most).unwrap_or_default();
        match poll(&mut [PollFd::new(&self.socket, PollFlags::IN)], Some(&timeout)) {
            Ok(0) | Err(_) => Woken::Otherwise,
            Ok(_) => self.silence(),
        }
    }

    /// Returns the end's socket.
    pub fn into_socket(self) -> OwnedFd {
        self.socket
    }
}

impl AsFd for Bell {
    /// Returns a descriptor that is readable while there are rings, and when the other end is closed.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fs::{OFlags, fcntl_setfl};

    const NO_TIME: Duration = Duration::from_millis(1);

    #[test]
    fn a_ring_wakes_and_a_closed_end_lets_nobody_sleep() {
        let (service, client) = Bell::pair().expect("sockets");
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
    fn an_end_holds_as_many_rings_as_are_promised() {
        let (service, client) = Bell::pair().expect("sockets");
        let client = Bell::of(client);
        (0..RINGS_HELD).for_each(|_| client.ring());
        let mut rings = [0u8; 2 * RINGS_HELD];
        let held = recv(&service.socket, &mut rings[..], RecvFlags::DONTWAIT).expect("rings").1;
        assert_eq!(held, RINGS_HELD);
    }

    #[test]
    fn no_client_makes_the_service_wait() {
        let (service, client) = Bell::pair().expect("sockets");
        let client = Bell::of(client);
        // The flags of the client's open file are the client's alone.
        fcntl_setfl(&client.socket, OFlags::empty()).expect("flags");
        assert_eq!(service.silence(), Woken::Otherwise);
        (0..100_000).for_each(|_| client.ring());
        assert_eq!((service.silence(), service.silence()), (Woken::Rung, Woken::Otherwise));
        client.ring();
        drop(client);
        (0..100_000).for_each(|_| service.ring());
        assert_eq!((service.silence(), service.silence()), (Woken::Rung, Woken::Closed));
    }
}

//! What the kernel and the network say of IPv4 packets that a socket sent: above all, that one was too long.
//!
//! A socket that listens to this sees to the length of its packets itself. By default the kernel believes whatever message quotes a
//! packet between a socket's addresses, and then cuts all that goes there (RFC 5927 says how easily such messages are forged).
//! Such a socket sends packets whole, as long as its device takes, or lets them be cut; what routers say of them is handed on
//! with the bytes that they quote, for whoever can tell whether these are of a packet of ours.
//!
//! Guarantees: no message changes what the socket does; errors that the kernel reports of earlier packets cost none of the later
//! ones; a call reads a bounded number of messages.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use arrayvec::ArrayVec;
use rustix::event::{PollFd, PollFlags};
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use sealane_stack::wait;

use crate::sys;

/// Bytes of a quoted packet that are handed on: ESP's header or AH's, as far as they are the same in all packets.
pub const QUOTE_BYTES: usize = 12;
/// Messages that one call reads at most.
const MESSAGES_MAX: usize = 16_384;

/// How often one packet is tried at most.
const TRIES_MAX: u32 = 1024;
/// How often it is tried that came to nothing while no message waited.
const OWN_TRIES_MAX: u32 = 3;

/// Tries of one packet after the other, where errors come back that may be of earlier ones. Each message that waits to be read
/// fails one call, and whoever reads it makes the one behind it fail another (`sock_dequeue_err_skb` in net/core/skbuff.c). With
/// none waiting an error is of the packet itself, or of a message that came just then.
#[derive(Debug, Default)]
pub(crate) struct Tries {
    at: Option<usize>,
    all: u32,
    own: u32,
}

impl Tries {
    /// Whether the packet at `at`, which `socket` did not take, is to be tried again.
    pub(crate) fn again(&mut self, at: usize, socket: BorrowedFd<'_>) -> bool {
        if self.at != Some(at) {
            *self = Self { at: Some(at), ..Self::default() };
        }
        let mut socket = [PollFd::from_borrowed_fd(socket, PollFlags::empty())];
        let waits = wait(&mut socket, Duration::ZERO).is_ok() && socket[0].revents().contains(PollFlags::ERR);
        self.all += 1;
        self.own += u32::from(!waits);
        self.all < TRIES_MAX && self.own < OWN_TRIES_MAX
    }
}

/// A packet was too long for a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TooLong {
    /// Where it was to go; from the kernel, and of raw sockets, without a port.
    pub to: SocketAddr,
    /// What the link takes, in bytes; routers of old say 0 (RFC 1191, section 5).
    pub mtu: u32,
    /// Whose link it is.
    pub teller: Teller,
}

/// Who says so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Teller {
    /// The kernel, of its own device.
    Kernel,
    /// Somebody who claims to be a router, and quotes of the packet what follows IP's and UDP's headers.
    Router(ArrayVec<u8, QUOTE_BYTES>),
}

/// Whether a socket's IPv4 packets leave whole. `None` in a port: the kernel sees to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Whole(bool);

impl Whole {
    /// Packets of `socket` leave whole from now on, and messages about them wait to be read.
    pub(crate) fn begin(socket: BorrowedFd<'_>) -> io::Result<Self> {
        sys::set_receive_errors(socket)?;
        sys::set_whole(socket, true)?;
        Ok(Self(true))
    }

    /// Whether they do.
    pub(crate) fn get(self) -> bool {
        self.0
    }

    /// Packets of `socket` leave whole, or may be cut by its kernel and by routers.
    pub(crate) fn set(&mut self, socket: BorrowedFd<'_>, is_whole: bool) {
        if self.0 != is_whole && sys::set_whole(socket, is_whole).is_ok() {
            self.0 = is_whole;
        }
    }
}

/// Hands on what was said of packets that were too long. Other messages are read, and dropped.
pub(crate) fn too_long(socket: BorrowedFd<'_>, mut hear: impl FnMut(TooLong)) {
    for _ in 0..MESSAGES_MAX {
        // No more messages, or the socket has failed, which those who use it find out.
        let Ok(message) = sys::receive_error(socket) else { return };
        hear_one(message, &mut hear);
    }
}

fn hear_one(message: sys::ErrorMessage, hear: &mut impl FnMut(TooLong)) {
    let Some(to) = message.to.filter(|_| message.error == Errno::MSGSIZE.raw_os_error().unsigned_abs())
    else {
        return;
    };
    let teller = match message.origin {
        libc::SO_EE_ORIGIN_LOCAL => Teller::Kernel,
        libc::SO_EE_ORIGIN_ICMP => Teller::Router(message.quoted),
        _ => return,
    };
    hear(TooLong { to, mtu: message.info, teller });
}

/// Whether a call failed because its socket or device can never be used again, or because it was used wrongly.
/// Every other error is about one packet or one destination: the network lost that packet, as any network may, and
/// the next call may succeed.
pub(crate) fn is_fatal(error: Errno) -> bool {
    // A list of the errors that cost one packet would have to foresee every firewall, route, driver and forged
    // message.
    const FATAL: [Errno; 10] = [
        // The descriptor or its object is gone, or is of another kind.
        Errno::BADF,
        Errno::BADFD,
        Errno::NOTSOCK,
        Errno::NODEV,
        Errno::NXIO,
        // Our own mistakes: a bad address of memory, a socket without a destination.
        Errno::FAULT,
        Errno::DESTADDRREQ,
        Errno::NOTCONN,
        // It was shut down.
        Errno::PIPE,
        Errno::SHUTDOWN,
    ];
    FATAL.contains(&error)
}

/// Whether an error says that a packet was lost, rather than that the socket is unusable or that the call is to be
/// made again. With messages waiting to be read, what they say comes back from whatever call is next.
pub(crate) fn is_of_packet(error: Errno) -> bool {
    !is_fatal(error) && !matches!(error, Errno::AGAIN | Errno::INTR)
}

/// A count of calls that fail one after the other because of earlier packets.
#[derive(Debug, Default)]
pub(crate) struct Failures(u32);

impl Failures {
    /// Counts one more failure. It pauses after every thousand, so that an endless error does not keep a core busy,
    /// and a flood of messages causes little delay.
    pub(crate) fn pause_now_and_then(&mut self) {
        self.0 += 1;
        if self.0.is_multiple_of(TRIES_MAX) {
            crate::pace::pause();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_error_of_a_route_a_firewall_or_a_message_is_fatal() {
        for error in [
            // Port 0, and a blackhole route; broadcast, and a prohibiting one; an unreachable one.
            Errno::INVAL,
            Errno::ACCESS,
            Errno::HOSTUNREACH,
            Errno::NETUNREACH,
            Errno::PERM,
            Errno::ADDRNOTAVAIL,
            Errno::AFNOSUPPORT,
            Errno::NOMEM,
            Errno::NOBUFS,
            Errno::MSGSIZE,
            Errno::CONNREFUSED,
            Errno::PROTO,
            Errno::NOPROTOOPT,
            Errno::OPNOTSUPP,
            Errno::HOSTDOWN,
            Errno::NONET,
            Errno::NETDOWN,
            Errno::TIMEDOUT,
            Errno::IO,
        ] {
            assert!(is_of_packet(error), "{error}");
        }
        for error in [Errno::AGAIN, Errno::INTR] {
            assert!(!is_of_packet(error) && !is_fatal(error), "{error}");
        }
        assert!(is_fatal(Errno::BADF) && !is_of_packet(Errno::BADF));
    }
}

//! Error messages of the kernel and the network about IPv4 packets that a socket sent; the main one is that a packet
//! was too long.
//!
//! A socket that reads these messages controls the length of its packets itself. By default the kernel believes any
//! message that quotes a packet between a socket's addresses, and from then on fragments all packets to that
//! destination (RFC 5927 describes how easily such messages are forged). This socket sends packets whole, up to the
//! limit of its device, or lets them be fragmented; messages of routers are handed on with the bytes that they quote,
//! so that the receiver of the message can check whether these belong to a packet of ours.
//!
//! Guarantees: no message changes the socket's behaviour; errors that the kernel reports about earlier packets cost
//! no later packet; a call reads a bounded number of messages.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use arrayvec::ArrayVec;
use rustix::event::{PollFd, PollFlags};
use rustix::fd::BorrowedFd;
use rustix::io::Errno;
use sealane_lanes::wait;

use crate::sys::{self, QUOTE_BYTES};
/// Most messages that one call reads.
const MESSAGES_MAX: usize = 16_384;

/// Most tries for one packet.
const TRIES_MAX: u32 = 1024;
/// Most failed tries while no message waits.
const OWN_TRIES_MAX: u32 = 3;

/// Counts tries of one packet after the other, because an error may be about an earlier packet. Each message that
/// waits to be read fails one call, and reading it makes the one behind it fail another (`sock_dequeue_err_skb` in
/// net/core/skbuff.c). If no message waits, an error is about the packet itself, or about a message that came just
/// then.
#[derive(Debug, Default)]
pub(crate) struct Tries {
    at: Option<usize>,
    all: u32,
    own: u32,
}

impl Tries {
    /// Returns whether the packet at `at`, which `socket` refused, is to be tried again.
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
    /// Destination of the packet; without a port if the message is from the kernel or about a raw socket.
    pub to: SocketAddr,
    /// Most bytes that the link takes; old routers report 0 (RFC 1191, section 5).
    pub mtu: u32,
    /// The sender of the message.
    pub teller: Teller,
}

/// The sender of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Teller {
    /// The kernel, of its own device.
    Kernel,
    /// A host that claims to be a router, and quotes the bytes of the packet behind IP's and UDP's headers.
    Router(ArrayVec<u8, QUOTE_BYTES>),
}

/// Whether a socket's IPv4 packets leave whole. A port holds `None` if the kernel decides about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Whole(bool);

impl Whole {
    /// Makes packets of `socket` leave whole, and messages about them wait to be read.
    pub(crate) fn begin(socket: BorrowedFd<'_>) -> io::Result<Self> {
        sys::set_receive_errors(socket)?;
        sys::set_whole(socket, true)?;
        Ok(Self(true))
    }

    /// Returns whether packets leave whole.
    pub(crate) fn get(self) -> bool {
        self.0
    }

    /// Makes packets of `socket` leave whole, or allows the kernel and routers to fragment them.
    pub(crate) fn set(&mut self, socket: BorrowedFd<'_>, is_whole: bool) {
        if self.0 != is_whole && sys::set_whole(socket, is_whole).is_ok() {
            self.0 = is_whole;
        }
    }
}

/// Calls `hear` with each message about a packet that was too long. Other messages are read, and dropped.
pub(crate) fn too_long(socket: BorrowedFd<'_>, mut hear: impl FnMut(TooLong)) {
    for _ in 0..MESSAGES_MAX {
        // There are no more messages, or the socket has failed, which its users find out.
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

/// Returns whether a call failed because its socket or device can never be used again, or because it was used
/// wrongly. Every other error is about one packet or one destination: that packet is lost, as on any network, and the
/// next call may succeed.
pub(crate) fn is_fatal(error: Errno) -> bool {
    // The list names fatal errors, because a list of the errors that cost one packet would have to foresee every
    // firewall, route, driver and forged message.
    const FATAL: [Errno; 10] = [
        // The descriptor or its object is gone, or is of another kind.
        Errno::BADF,
        Errno::BADFD,
        Errno::NOTSOCK,
        Errno::NODEV,
        Errno::NXIO,
        // These are our own mistakes: a bad memory address, a socket without a destination.
        Errno::FAULT,
        Errno::DESTADDRREQ,
        Errno::NOTCONN,
        // The socket was shut down.
        Errno::PIPE,
        Errno::SHUTDOWN,
    ];
    FATAL.contains(&error)
}

/// Returns whether an error means that a packet was lost, and not that the socket is unusable or that the call must
/// be repeated. While messages wait to be read, any call may return the error of one.
pub(crate) fn is_of_packet(error: Errno) -> bool {
    !is_fatal(error) && !matches!(error, Errno::AGAIN | Errno::INTR)
}

/// A count of consecutive calls that fail because of earlier packets.
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
            // The causes are: port 0, and a blackhole route; broadcast, and a prohibiting route; an unreachable
            // route.
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

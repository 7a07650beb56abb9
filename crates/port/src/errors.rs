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

/// Whether an error is about a packet that was lost on its way, as on any network, rather than the socket unusable. With messages
/// waiting to be read, what they say comes back from whatever call is next.
pub(crate) fn is_of_network(error: Errno) -> bool {
    // RFC 1122, section 3.2.2.1, as Linux has it (net/ipv4/icmp.c), and what the kernel says of its own.
    const LOST: [Errno; 12] = [
        Errno::MSGSIZE,
        Errno::CONNREFUSED,
        Errno::HOSTUNREACH,
        Errno::HOSTDOWN,
        Errno::NETUNREACH,
        Errno::NETDOWN,
        Errno::NONET,
        Errno::NOPROTOOPT,
        Errno::OPNOTSUPP,
        Errno::PROTO,
        Errno::NOBUFS,
        Errno::PERM,
    ];
    LOST.contains(&error)
}

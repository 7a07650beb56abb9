//! Ports: where packets enter and leave.
//!
//! A [`Port`] receives packets into a [`Batch`] and sends them from one; the layers above do not know its kind.
//! [`memory`] makes and takes packets without a kernel, [`capture`] reads and writes files, [`tun`] is a network
//! device of this host, [`udp`], [`raw`] and [`stream`] are sockets; [`errors`] has the messages about packets that
//! these sent. [`link`](mod@link) puts delay, rate, loss, reordering and duplication between any port and its user.
//!
//! **Guarantees:** these are the only system calls on packets; a port keeps the order of its packets and drops only
//! those that the kernel refuses, which it counts; there is no allocation per packet; a batch is never overfilled,
//! and a packet that does not fit into it is refused or waits. `unsafe` is confined to `sys`.
#![deny(unsafe_code)]

pub mod capture;
mod direct;
pub mod errors;
mod layer_notes;
pub mod link;
mod looks;
mod many;
pub mod memory;
mod pace;
mod packet;
pub mod raw;
mod room;
mod route;
pub mod stream;
mod sys;
pub mod tun;
pub mod udp;

use rustix::fd::{AsFd, BorrowedFd};
use std::io;
use std::time::Instant;

pub use layer_notes::{LayerNote, LayerNotes};
pub use packet::{Batch, Counts, Packet, Verdict};
pub use room::Room;

/// Makes packets of `socket` carry this mark from now on; rules of policy routing can match it. Needs
/// `CAP_NET_ADMIN`.
///
/// # Errors
/// The kernel refuses.
pub fn set_mark(socket: impl AsFd, mark: u32) -> io::Result<()> {
    sys::set_mark(socket.as_fd(), mark)
}

/// A place where packets enter and leave.
pub trait Port: Send {
    /// Appends packets to `batch`, in the layout of [`Room`], and returns their number; 0 means that there will never
    /// be more. A port whose descriptor blocks waits for the first one.
    ///
    /// # Errors
    /// Returns [`io::ErrorKind::WouldBlock`] if there is no packet now, and errors of the kernel.
    fn receive(&mut self, batch: &mut Batch) -> io::Result<usize>;

    /// Sends the packets of `batch` from the one at `from` on, in order, and returns the number that it is done with:
    /// packets that were refused on the way here ([`crate::Packet::is_passed`]) are skipped and count. If it
    /// is done with fewer than all, the rest waits for room.
    ///
    /// # Errors
    /// Returns [`io::ErrorKind::WouldBlock`] if it can take no packet now, and errors of the kernel.
    fn send(&mut self, batch: &Batch, from: usize) -> io::Result<usize>;

    /// Returns the descriptor to poll for more packets. Returns `None` if only [`Port::poll_timeout`] is to be waited
    /// for.
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Returns the time at which to call [`Port::receive`] again even if nothing arrives.
    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
}

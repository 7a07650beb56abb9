//! Ports: where packets enter and leave.
//!
//! A [`Port`] receives packets into a [`Batch`] and sends them from one; what it is made of, the layers above do not
//! know. [`memory`] makes and takes packets without a kernel, [`capture`] reads and writes files, [`tun`] is a network
//! device of this host, [`udp`], [`raw`] and [`stream`] are sockets; [`errors`] is what is said of packets that these sent. [`link`](mod@link) puts delay, rate, loss, reordering
//! and duplication between any port and its user.
//!
//! **Guarantees:** these are the only system calls on packets; a port keeps the order of what it is given and drops
//! only what the kernel refuses, which it counts; no packet costs an allocation; a batch is never overfilled, and what
//! does not fit into it is refused or waits. `unsafe` is confined to `sys`.
#![deny(unsafe_code)]

pub mod capture;
mod direct;
mod ends;
pub mod errors;
pub mod link;
mod many;
pub mod memory;
mod pace;
pub mod raw;
mod room;
mod route;
pub mod stream;
mod sys;
pub mod tun;
pub mod udp;

use rustix::fd::{AsFd, BorrowedFd};
use sealane_stack::Batch;
use std::io;
use std::time::Instant;

pub use ends::{Receiving, Sending, ends};
pub use room::Room;

/// Packets of `socket` carry this mark from now on, by which rules of policy routing tell them apart. Needs `CAP_NET_ADMIN`.
///
/// # Errors
/// The kernel refuses.
pub fn set_mark(socket: impl AsFd, mark: u32) -> io::Result<()> {
    sys::set_mark(socket.as_fd(), mark)
}

/// Where packets enter and leave.
pub trait Port: Send {
    /// Appends packets to `batch`, as [`Room`] lays them out, and says how many; 0: there will never be more. A port
    /// whose descriptor blocks waits for the first one.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] when there is none now, and whatever the kernel says.
    fn receive(&mut self, batch: &mut Batch) -> io::Result<usize>;

    /// Sends the packets of `batch` from the one at `from` on, in order, and says how many it is done with: those that
    /// were refused on the way here ([`sealane_stack::Packet::is_passed`]) are passed over and count. Fewer than all: the
    /// rest waits for room.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] when it can take none now, and whatever the kernel says.
    fn send(&mut self, batch: &Batch, from: usize) -> io::Result<usize>;

    /// What to poll for more. `None`: there is nothing to wait for but [`Port::poll_timeout`].
    fn fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// When to call [`Port::receive`] again even if nothing arrives.
    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
}

//! Sends many datagrams per call: sendmmsg(2).

use std::io::IoSlice;

use arrayvec::ArrayVec;
use rustix::fd::BorrowedFd;
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{MMsgHdr, SendAncillaryBuffer, SendFlags, SocketAddrAny, sendmmsg};

/// Sends datagrams, each of its pieces, to `to` or to the socket's peer; returns the number that the kernel took,
/// from the first on.
pub(crate) fn send_many<const N: usize, const PIECES: usize>(
    socket: BorrowedFd<'_>,
    datagrams: &ArrayVec<[IoSlice<'_>; PIECES], N>,
    to: Option<SocketAddrAny>,
) -> Result<usize, Errno> {
    let mut controls: [SendAncillaryBuffer<'_, '_, '_>; N] =
        std::array::from_fn(|_| SendAncillaryBuffer::default());
    let mut messages = ArrayVec::<MMsgHdr<'_>, N>::new();
    for (pieces, control) in datagrams.iter().zip(&mut controls) {
        messages.push(match &to {
            Some(to) => MMsgHdr::new_with_addr(to, pieces, control),
            None => MMsgHdr::new(pieces, control),
        });
    }
    retry_on_intr(|| sendmmsg(socket, &mut messages, SendFlags::NOSIGNAL))
}

//! The set-up socket: it carries packets (SOCK_SEQPACKET), so that a message is read whole or not at all, and
//! descriptors with them.
//!
//! **Guarantees:** at most [`MESSAGE_BYTES_MAX`] bytes and [`DESCRIPTORS_MAX`] descriptors are received; unexpected
//! descriptors are closed. To close a descriptor may take as long as another process likes, so whoever serves strangers
//! asks [`carries_descriptors`] first.

use crate::jail;
use crate::setup::{MESSAGE_BYTES_MAX, decode, encode};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, recvmsg, sendmsg,
    socket_with, sockopt,
};
use serde::{Deserialize, Serialize};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;
use zeroize::Zeroizing;

/// The maximum number of descriptors with one message.
const DESCRIPTORS_MAX: usize = 4;

/// Returns a new socket, connected to the service at `path`.
///
/// # Errors
/// Fails if the kernel does.
pub fn connect_to(path: &Path) -> io::Result<OwnedFd> {
    let socket = new_socket()?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    Ok(socket)
}

fn new_socket() -> io::Result<OwnedFd> {
    Ok(socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)?)
}

/// Does the same, by the folder that [`jail::hold`] has kept if the path leads to nothing; waits for `patience` at the longest
/// for a service that accepts nobody.
///
/// # Errors
/// Fails with `WouldBlock` if it does not accept, or if the kernel fails.
pub fn connect_within(path: &Path, patience: Duration) -> io::Result<OwnedFd> {
    let socket = new_socket()?;
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Send, Some(patience))?;
    match connect(&socket, &SocketAddrUnix::new(path)?) {
        Ok(()) => Ok(socket),
        Err(Errno::AGAIN) => Err(Errno::AGAIN.into()),
        Err(error) => jail::connect(&socket, path).unwrap_or_else(|| Err(error.into())).map(|()| socket),
    }
}

/// Sends a message with descriptors.
///
/// # Errors
/// Fails with `InvalidInput` if the message is too long, or if the kernel fails.
pub fn send<T: Serialize>(
    socket: impl AsFd,
    message: &T,
    descriptors: &[BorrowedFd<'_>],
    flags: SendFlags,
) -> io::Result<()> {
    let bytes =
        Zeroizing::new(encode(message).map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?);
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !descriptors.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(descriptors)) {
        return Err(io::ErrorKind::InvalidInput.into());
    }
    loop {
        match sendmsg(&socket, &[IoSlice::new(&bytes)], &mut ancillary, flags | SendFlags::NOSIGNAL) {
            Err(Errno::INTR) => {}
            sent => return sent.map(|_| ()).map_err(io::Error::from),
        }
    }
}

/// Returns whether the next message carries descriptors. They stay with the message, so that none is closed here for good.
///
/// # Errors
/// Fails with `WouldBlock` if there is no message, or if the kernel fails.
pub fn carries_descriptors(socket: impl AsFd) -> io::Result<bool> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::PEEK | RecvFlags::DONTWAIT | RecvFlags::CMSG_CLOEXEC;
    let found = recvmsg(&socket, &mut [IoSliceMut::new(&mut [0])], &mut ancillary, flags)?;
    let has_some = ancillary.drain().next().is_some();
    Ok(has_some || found.flags.contains(ReturnFlags::CTRUNC))
}

/// Receives a message and its descriptors; returns `None` at the connection's end.
///
/// # Errors
/// Fails with `InvalidData` if the bytes are not a message, or if the kernel fails.
pub fn receive<T: for<'a> Deserialize<'a>>(
    socket: impl AsFd,
    flags: RecvFlags,
) -> io::Result<Option<(T, Vec<OwnedFd>)>> {
    let mut bytes = Zeroizing::new(vec![0; MESSAGE_BYTES_MAX]);
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(DESCRIPTORS_MAX))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let received = loop {
        let mut parts = [IoSliceMut::new(&mut bytes)];
        match recvmsg(&socket, &mut parts, &mut ancillary, flags | RecvFlags::CMSG_CLOEXEC) {
            Err(Errno::INTR) => {}
            received => break received?,
        }
    };
    let mut descriptors = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(found) = message {
            descriptors.extend(found);
        }
    }
    if received.flags.intersects(ReturnFlags::TRUNC | ReturnFlags::CTRUNC) {
        return Err(io::ErrorKind::InvalidData.into());
    }
    if received.bytes == 0 {
        return Ok(None);
    }
    let message = decode(&bytes[..received.bytes]);
    message
        .map(|message| Some((message, descriptors)))
        .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

//! A byte stream as a port: the bytes that arrived are one packet, and one call sends packets one behind the other.
//! The user finds the boundaries of records.

use crate::Batch;
use crate::memory::no_room;
use crate::room::end_of;
use crate::{Port, Room, sys};
use rustix::fd::{AsFd, BorrowedFd};
use std::io::{self, IoSlice, Read, Write};
use std::net::TcpStream;

/// Most packets that one call writes.
const SLICES: usize = 64;

/// Makes a TCP socket take no more bytes as long as this many wait in it without having been sent: what would wait longer is
/// better dropped.
///
/// # Errors
/// The kernel refuses.
pub fn set_unsent_max(socket: impl AsFd, bytes: u32) -> io::Result<()> {
    sys::set_unsent_max(socket.as_fd(), bytes)
}

/// Returns the rate at which a TCP socket's bytes have arrived lately, in bytes per second; `None` if it is not known.
#[must_use]
pub fn delivery_rate(socket: impl AsFd) -> Option<u64> {
    sys::delivery_rate(socket.as_fd())
}

/// A TCP connection.
#[derive(Debug)]
pub struct Stream {
    socket: TcpStream,
    /// Most bytes of a received packet.
    packet_bytes: usize,
    room: Room,
    /// Bytes of the next packet that have left already.
    sent_bytes: usize,
}

impl Stream {
    /// Returns a port over a connected socket, whose received packets have at most `packet_bytes` (at least 1).
    #[must_use]
    pub fn new(socket: TcpStream, packet_bytes: usize, room: Room) -> Self {
        Self { socket, packet_bytes: packet_bytes.max(1), room, sent_bytes: 0 }
    }
}

impl Port for Stream {
    fn receive(&mut self, batch: &mut Batch) -> io::Result<usize> {
        let start = end_of(batch) + self.room.headroom_bytes;
        let end = start + self.packet_bytes;
        if self.room.push(batch, self.packet_bytes).is_none() {
            return Err(no_room());
        }
        let read = loop {
            match self.socket.read(&mut batch.work.buffer.bytes_mut()[start..end]) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        match read {
            Ok(bytes) if bytes > 0 => {
                let packet = batch.packets.last_mut().expect("it was just pushed");
                packet.pull_back(self.packet_bytes - bytes).expect("fewer bytes than it has");
                Ok(1)
            }
            other => {
                batch.packets.pop();
                other
            }
        }
    }

    /// A packet that was sent in part counts as not sent: it comes first in the next call.
    fn send(&mut self, batch: &Batch, from: usize) -> io::Result<usize> {
        let mut at = from;
        while at < batch.packets.len() {
            let mut slices = [IoSlice::new(&[]); SLICES];
            let mut used = 0;
            let mut end = at;
            while end < batch.packets.len() && used < SLICES {
                if batch.packets[end].is_passed() {
                    let skip = if end == at { self.sent_bytes } else { 0 };
                    slices[used] = IoSlice::new(&batch.bytes(end)[skip..]);
                    used += 1;
                }
                end += 1;
            }
            let mut left = if used == 0 {
                0
            } else {
                match self.socket.write_vectored(&slices[..used]) {
                    Ok(0) if slices[..used].iter().any(|slice| !slice.is_empty()) => {
                        return Err(io::ErrorKind::WriteZero.into());
                    }
                    Ok(bytes) => bytes,
                    Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock && at > from => break,
                    Err(error) => return Err(error),
                }
            };
            while at < end {
                let packet = batch.packets[at];
                let unsent = if packet.is_passed() { packet.len() - self.sent_bytes } else { 0 };
                if left < unsent {
                    self.sent_bytes += left;
                    break;
                }
                left -= unsent;
                self.sent_bytes = 0;
                at += 1;
            }
        }
        Ok(at - from)
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }
}

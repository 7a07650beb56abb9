//! Raw IP sockets: ESP and AH as protocols 50 and 51, without UDP around them. The kernel has no trains for these: each
//! packet pays its own way, so UDP is the faster path.

use crate::Port;
use crate::memory::no_room;
use crate::room::end_of;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::{AddressFamily, Protocol, RecvFlags, SendFlags, SocketFlags, SocketType};
use sealane_engine::Span;
use sealane_stack::{Batch, Packet};
use sealane_wire::Ipv4;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU32;
use std::sync::Arc;

/// Bytes of buffer that a received packet is given.
const RECEIVE_BYTES: usize = 65_536;
/// After so many packets a batch is full enough to be handed on at once.
const ENOUGH_PACKETS: usize = 32;

/// A raw socket between two addresses.
#[derive(Debug)]
pub struct Raw {
    socket: Arc<OwnedFd>,
    is_v4: bool,
    /// Packets that the kernel did not take.
    pub refused_packets: u64,
}

impl Raw {
    /// A socket for `protocol` between `local` and `peer`, which are of one family. Needs `CAP_NET_RAW`.
    ///
    /// # Errors
    /// When the addresses differ in family, the protocol is 0, or the kernel refuses.
    pub fn open(protocol: u8, local: IpAddr, peer: IpAddr, is_nonblocking: bool) -> io::Result<Self> {
        let is_v4 = local.is_ipv4();
        let protocol = NonZeroU32::new(protocol.into()).filter(|_| peer.is_ipv4() == is_v4);
        let protocol = Protocol::from_raw(protocol.ok_or(io::ErrorKind::InvalidInput)?);
        let family = if is_v4 { AddressFamily::INET } else { AddressFamily::INET6 };
        let mut flags = SocketFlags::CLOEXEC;
        if is_nonblocking {
            flags |= SocketFlags::NONBLOCK;
        }
        let socket = rustix::net::socket_with(family, SocketType::RAW, flags, Some(protocol))?;
        rustix::net::bind(&socket, &SocketAddr::new(local, 0))?;
        rustix::net::connect(&socket, &SocketAddr::new(peer, 0))?;
        Ok(Self { socket: Arc::new(socket), is_v4, refused_packets: 0 })
    }

    /// The same socket twice, so that one thread can receive while another sends.
    #[must_use]
    pub fn split(self) -> (Self, Self) {
        let twin = Self { socket: Arc::clone(&self.socket), is_v4: self.is_v4, refused_packets: 0 };
        (self, twin)
    }
}

impl Port for Raw {
    fn receive(&mut self, batch: &mut Batch) -> io::Result<usize> {
        let mut laid = 0;
        while laid < ENOUGH_PACKETS {
            let start = end_of(batch);
            let has_places = batch.packets.len() < batch.packets.capacity();
            let buffer = batch.work.buffer.bytes_mut();
            if buffer.len() < start + RECEIVE_BYTES || !has_places {
                return if laid == 0 { Err(no_room()) } else { Ok(laid) };
            }
            let into = &mut buffer[start..start + RECEIVE_BYTES];
            let flags = if laid == 0 { RecvFlags::empty() } else { RecvFlags::DONTWAIT };
            let bytes = match rustix::net::recv(&self.socket, &mut *into, flags) {
                Ok((_, bytes)) => bytes,
                Err(Errno::INTR) => continue,
                Err(_) if laid > 0 => return Ok(laid),
                Err(error) => return Err(error.into()),
            };
            // Over IPv4 the IP header comes along, over IPv6 it does not.
            let header_bytes = if self.is_v4 {
                let Ok(ip) = Ipv4::parse(&into[..bytes]) else {
                    self.refused_packets += 1;
                    continue;
                };
                ip.header_bytes()
            } else {
                0
            };
            let room = Span::new(start as u32, bytes as u32);
            let mut packet = Packet::new(room, header_bytes as u32).expect("a packet has its header");
            packet.push_back(bytes - header_bytes).expect("the room has its length");
            batch.packets.push(packet);
            laid += 1;
        }
        Ok(laid)
    }

    fn send(&mut self, batch: &Batch, from: usize) -> io::Result<usize> {
        for (index, packet) in batch.packets.iter().enumerate().skip(from) {
            if !packet.is_passed() || packet.is_empty() {
                continue;
            }
            let sent = rustix::io::retry_on_intr(|| {
                rustix::net::send(&self.socket, batch.bytes(index), SendFlags::NOSIGNAL)
            });
            match sent {
                Ok(_) => {}
                Err(Errno::AGAIN) if index > from => return Ok(index - from),
                Err(
                    Errno::MSGSIZE
                    | Errno::NOBUFS
                    | Errno::CONNREFUSED
                    | Errno::HOSTUNREACH
                    | Errno::NETUNREACH,
                ) => {
                    self.refused_packets += 1;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(batch.packets.len() - from)
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }
}

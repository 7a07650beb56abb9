//! Raw IP sockets: ESP and AH as protocols 50 and 51, without UDP around them. The kernel has no trains for these: each
//! packet pays its own way, so UDP is the faster path.

use crate::Port;
use crate::memory::no_room;
use crate::room::end_of;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::sockopt;
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
/// Asked of the kernel for each direction: bursts wait there, because a TUN device gives no back-pressure.
const SOCKET_BUFFER_BYTES: usize = 7 << 20;
/// After so many packets a batch is full enough to be handed on at once.
const ENOUGH_PACKETS: usize = 32;

/// A raw socket, between two addresses or of one.
#[derive(Debug)]
pub struct Raw {
    socket: Arc<OwnedFd>,
    is_v4: bool,
    /// Where packets go; `None`: where the socket is connected to.
    peer: Option<IpAddr>,
    /// The kernel takes no packets but the peer's.
    is_connected: bool,
    /// A packet that came behind another sender's, and its sender.
    pending: Option<(Option<IpAddr>, Vec<u8>)>,
    /// Who sent what was received last; all packets of one call have one sender.
    pub source: Option<IpAddr>,
    /// The traffic class (DSCP and ECN) in the IP header of the last packet received; over IPv6 the kernel does not tell it.
    pub received_traffic_class: u8,
    traffic_class: u8,
    /// Packets that the kernel did not take.
    pub refused_packets: u64,
}

impl Raw {
    /// A socket for `protocol` between `local` and `peer`, which are of one family. Needs `CAP_NET_RAW`.
    ///
    /// # Errors
    /// When the addresses differ in family, the protocol is 0, or the kernel refuses.
    pub fn open(protocol: u8, local: IpAddr, peer: IpAddr, is_nonblocking: bool) -> io::Result<Self> {
        if peer.is_ipv4() != local.is_ipv4() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let raw = Self::listen(protocol, local, is_nonblocking)?;
        rustix::net::connect(&raw.socket, &SocketAddr::new(peer, 0))?;
        Ok(Self { is_connected: true, ..raw })
    }

    /// A socket for `protocol` at `local`, for packets of anybody; what is sent goes to [`Self::set_peer`]. Needs
    /// `CAP_NET_RAW`.
    ///
    /// # Errors
    /// When the protocol is 0, or the kernel refuses.
    pub fn listen(protocol: u8, local: IpAddr, is_nonblocking: bool) -> io::Result<Self> {
        let is_v4 = local.is_ipv4();
        let protocol =
            Protocol::from_raw(NonZeroU32::new(protocol.into()).ok_or(io::ErrorKind::InvalidInput)?);
        let family = if is_v4 { AddressFamily::INET } else { AddressFamily::INET6 };
        let mut flags = SocketFlags::CLOEXEC;
        if is_nonblocking {
            flags |= SocketFlags::NONBLOCK;
        }
        let socket = rustix::net::socket_with(family, SocketType::RAW, flags, Some(protocol))?;
        rustix::net::bind(&socket, &SocketAddr::new(local, 0))?;
        for set in [sockopt::set_socket_recv_buffer_size_force, sockopt::set_socket_send_buffer_size_force] {
            // Beyond the system's limit only with CAP_NET_ADMIN; with less, bursts are lost sooner.
            let _ = set(&socket, SOCKET_BUFFER_BYTES);
        }
        Ok(Self::of(Arc::new(socket), is_v4, false))
    }

    fn of(socket: Arc<OwnedFd>, is_v4: bool, is_connected: bool) -> Self {
        Self {
            socket,
            is_v4,
            peer: None,
            is_connected,
            pending: None,
            source: None,
            received_traffic_class: 0,
            traffic_class: 0,
            refused_packets: 0,
        }
    }

    /// The same socket twice, so that one thread can receive while another sends.
    #[must_use]
    pub fn split(self) -> (Self, Self) {
        let twin =
            Self { peer: self.peer, ..Self::of(Arc::clone(&self.socket), self.is_v4, self.is_connected) };
        (self, twin)
    }

    /// Packets go to `peer` from now on.
    pub fn set_peer(&mut self, peer: IpAddr) {
        self.peer = Some(peer);
    }

    /// The traffic class of what is sent from now on, by this socket's every half.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn set_traffic_class(&mut self, class: u8) -> io::Result<()> {
        if class != self.traffic_class {
            if self.is_v4 {
                sockopt::set_ip_tos(&self.socket, class)?;
            } else {
                sockopt::set_ipv6_tclass(&self.socket, class.into())?;
            }
            self.traffic_class = class;
        }
        Ok(())
    }

    /// Lays one packet of `bytes` that stands at `start` of the batch's buffer.
    fn lay(&mut self, batch: &mut Batch, start: usize, bytes: usize) -> bool {
        // Over IPv4 the IP header comes along, over IPv6 it does not.
        let mut header_bytes = 0;
        if self.is_v4 {
            let Ok(ip) = Ipv4::parse(&batch.work.buffer.bytes()[start..start + bytes]) else {
                self.refused_packets += 1;
                return false;
            };
            header_bytes = ip.header_bytes();
            self.received_traffic_class = ip.traffic_class();
        }
        let room = Span::new(start as u32, bytes as u32);
        let mut packet = Packet::new(room, header_bytes as u32).expect("a packet has its header");
        packet.push_back(bytes - header_bytes).expect("the room has its length");
        batch.packets.push(packet);
        true
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
            let (source, bytes) = if let Some((source, packet)) = self.pending.take() {
                into[..packet.len()].copy_from_slice(&packet);
                (source, packet.len())
            } else {
                let flags = if laid == 0 { RecvFlags::empty() } else { RecvFlags::DONTWAIT };
                match rustix::net::recvfrom(&self.socket, &mut *into, flags) {
                    Ok((_, bytes, source)) => {
                        let source = source.and_then(|source| SocketAddr::try_from(source).ok());
                        (source.map(|source| source.ip()), bytes)
                    }
                    Err(Errno::INTR) => continue,
                    Err(_) if laid > 0 => return Ok(laid),
                    Err(error) => return Err(error.into()),
                }
            };
            // The kernel may tell the class of one packet only: a batch has one sender and one class.
            let class = if self.is_v4 { into[..bytes].get(1).copied().unwrap_or_default() } else { 0 };
            if laid > 0 && (source != self.source || class != self.received_traffic_class) {
                self.pending = Some((source, into[..bytes].to_vec()));
                return Ok(laid);
            }
            self.source = source;
            laid += usize::from(self.lay(batch, start, bytes));
        }
        Ok(laid)
    }

    fn send(&mut self, batch: &Batch, from: usize) -> io::Result<usize> {
        for (index, packet) in batch.packets.iter().enumerate().skip(from) {
            if !packet.is_passed() || packet.is_empty() {
                continue;
            }
            let sent = rustix::io::retry_on_intr(|| {
                let (bytes, flags) = (batch.bytes(index), SendFlags::NOSIGNAL);
                match self.peer {
                    Some(peer) => rustix::net::sendto(&self.socket, bytes, flags, &SocketAddr::new(peer, 0)),
                    None => rustix::net::send(&self.socket, bytes, flags),
                }
            });
            match sent {
                Ok(_) => {}
                Err(Errno::AGAIN) if index > from => return Ok(index - from),
                Err(
                    Errno::MSGSIZE
                    | Errno::NOBUFS
                    | Errno::CONNREFUSED
                    | Errno::PERM
                    | Errno::NETDOWN
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

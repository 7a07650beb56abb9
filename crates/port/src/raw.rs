//! Raw IP sockets: ESP and AH as protocols 50 and 51, without UDP around them. The kernel has no GSO for these:
//! each packet costs a full pass, so UDP is the faster path. A sender may go past IP ([`Raw::send_directly`]). If
//! packets come densely, the receiver lets a few gather, so that one wake-up serves many.

use crate::Port;
use crate::direct::Direct;
use crate::errors::{self, Failures, TooLong, Tries, is_of_packet, too_long};
use crate::many::send_many;
use crate::memory::no_room;
use crate::pace::{Pace, pause};
use crate::room::end_of;
use crate::sys::{self, MANY};
use crate::{Batch, Packet};
use arrayvec::ArrayVec;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::io::Errno;
use rustix::net::sockopt;
use rustix::net::{AddressFamily, Protocol, RecvFlags, SendFlags};
use rustix::net::{SocketAddrAny, SocketFlags, SocketType};
use sealane_engine::Span;
use sealane_wire::{IPV4_BYTES, IPV6_BYTES, Ipv4, Ipv6Fields};
use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::num::NonZeroU32;
use std::sync::Arc;

/// Bytes of buffer for a received packet.
const RECEIVE_BYTES: usize = 65_536;
/// Buffer requested from the kernel for each direction: bursts wait there, because a TUN device gives no
/// back-pressure.
const SOCKET_BUFFER_BYTES: usize = 7 << 20;
/// Number of packets at which a batch is handed on at once.
const ENOUGH_PACKETS: usize = 64;

/// A raw socket, between two addresses or for one local address.
#[derive(Debug)]
pub struct Raw {
    socket: Arc<OwnedFd>,
    is_v4: bool,
    /// Destination of packets; `None` if the socket is connected.
    peer: Option<IpAddr>,
    /// A packet that came behind one of another sender, with its sender.
    pending: Option<(Option<IpAddr>, Vec<u8>)>,
    /// Sender of the packets received last; all packets of one call have the same sender.
    pub source: Option<IpAddr>,
    /// The traffic class (DSCP and ECN) in the IP header of the last packet received; for IPv6 the kernel does not
    /// report it.
    pub received_traffic_class: u8,
    traffic_class: u8,
    pace: Pace,
    /// Set if the socket controls the length of its packets itself.
    lengths: Option<errors::Whole>,
    /// The data for packets that include their IP headers; `None` if they do not.
    whole: Option<Whole>,
    /// Mark of packets, for the host's rules; 0 if they have no mark.
    mark: u32,
    /// Set if the socket sends past IP.
    direct: Option<Direct>,
    /// Number of packets that the kernel did not take.
    pub refused_packets: u64,
}

/// The data of a socket whose packets include their IP headers.
#[derive(Clone, Debug)]
struct Whole {
    protocol: u8,
    local: IpAddr,
    /// A socket that takes complete IPv4 packets; for IPv6 the kernel makes the same header as this crate.
    sender: Option<Arc<OwnedFd>>,
}

/// Payload bytes of a fragment: with its header it fits into any path that IPv6 would take, and is a multiple of 8.
const PIECE_PAYLOAD_BYTES: usize = 1256;

impl Raw {
    /// Opens a socket for `protocol` between `local` and `peer`, which belong to one family. Needs `CAP_NET_RAW`.
    ///
    /// # Errors
    /// Fails if the addresses differ in family, the protocol is 0, or the kernel refuses.
    pub fn open(protocol: u8, local: IpAddr, peer: IpAddr, is_nonblocking: bool) -> io::Result<Self> {
        if peer.is_ipv4() != local.is_ipv4() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let raw = Self::listen(protocol, local, is_nonblocking)?;
        rustix::net::connect(&raw.socket, &SocketAddr::new(peer, 0))?;
        Ok(raw)
    }

    /// Opens a socket for `protocol` at `local`, for packets of any sender; packets are sent to the address of
    /// [`Self::set_peer`]. Needs `CAP_NET_RAW`.
    ///
    /// # Errors
    /// Fails if the protocol is 0, or the kernel refuses.
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
            // A size beyond the system's limit needs CAP_NET_ADMIN; with less, bursts are lost sooner.
            let _ = set(&socket, SOCKET_BUFFER_BYTES);
        }
        Ok(Self::of(Arc::new(socket), is_v4))
    }

    /// Opens such a socket for whole IP packets: received and sent packets begin with their IP header, as AH needs
    /// it, because it covers the header. For IPv6 the kernel does not show the header: it is made from the addresses,
    /// and packets with extension headers do not come. `local` is one address. Needs `CAP_NET_RAW`.
    ///
    /// # Errors
    /// Fails if the protocol is 0, `local` stands for all addresses, or the kernel refuses.
    pub fn listen_whole(protocol: u8, local: IpAddr) -> io::Result<Self> {
        if local.is_unspecified() {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        let raw = Self::listen(protocol, local, false)?;
        let sender = local.is_ipv4().then(|| {
            // The header is part of the packet (raw(7)).
            let any = Protocol::from_raw(NonZeroU32::new(255).expect("IPPROTO_RAW is not 0"));
            let sender = rustix::net::socket_with(
                AddressFamily::INET,
                SocketType::RAW,
                SocketFlags::CLOEXEC,
                Some(any),
            )?;
            let _ = sockopt::set_socket_send_buffer_size_force(&sender, SOCKET_BUFFER_BYTES);
            Ok::<_, io::Error>(Arc::new(sender))
        });
        Ok(Self { whole: Some(Whole { protocol, local, sender: sender.transpose()? }), ..raw })
    }

    fn of(socket: Arc<OwnedFd>, is_v4: bool) -> Self {
        Self {
            socket,
            is_v4,
            peer: None,
            pending: None,
            source: None,
            received_traffic_class: 0,
            traffic_class: 0,
            pace: Pace::default(),
            lengths: None,
            whole: None,
            mark: 0,
            direct: None,
            refused_packets: 0,
        }
    }

    /// Returns the bytes of memory that packets take which have not left the host; packets sent past IP count at the half
    /// that sends them.
    pub fn unsent_bytes(&self) -> u32 {
        sys::unsent_bytes(self.socket.as_fd())
    }

    /// Returns two handles of the socket, so that one thread can receive while another sends.
    #[must_use]
    pub fn split(self) -> (Self, Self) {
        let twin = Self {
            peer: self.peer,
            whole: self.whole.clone(),
            lengths: self.lengths,
            mark: self.mark,
            ..Self::of(Arc::clone(&self.socket), self.is_v4)
        };
        (self, twin)
    }

    /// Makes this half send packets under [`Self::set_whole`] directly to the device if that is an Ethernet device
    /// and the next hop is known. They bypass IP, and with it firewall rules for output, address translation and
    /// IPsec policies. The rest goes as ever. This is for packets without their IP headers, on a socket that controls
    /// their lengths. Needs `CAP_NET_RAW`, now.
    ///
    /// # Errors
    /// Fails if the kernel refuses, if packets include their IP headers, or if [`Self::report_too_long`] was not
    /// called.
    pub fn send_directly(&mut self, protocol: u8, local: IpAddr) -> io::Result<()> {
        let (IpAddr::V4(local), None, Some(_)) = (local, &self.whole, self.lengths) else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        let source = Some(local).filter(|local| !local.is_unspecified());
        self.direct = Some(Direct::open(protocol, source, self.mark, SOCKET_BUFFER_BYTES)?);
        Ok(())
    }

    /// Makes packets carry this mark from now on, see [`crate::set_mark`]. Call it before [`Self::split`].
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn set_mark(&mut self, mark: u32) -> io::Result<()> {
        crate::set_mark(&*self.socket, mark)?;
        self.mark = mark;
        self.sender().map_or(Ok(()), |sender| crate::set_mark(sender, mark))
    }

    /// Packets that went past IP.
    pub fn direct_packets(&self) -> u64 {
        self.direct.as_ref().map_or(0, |direct| direct.sent_packets)
    }

    /// Sends packets to `peer` from now on.
    pub fn set_peer(&mut self, peer: IpAddr) {
        self.peer = Some(peer);
    }

    /// Makes messages about IPv4 packets that were too long wait for [`Self::too_long`], without an effect by
    /// themselves. Packets leave whole, up to the limit of the device, until [`Self::set_whole`] says otherwise, or,
    /// if they include their IP headers, as these say. Call it before [`Self::split`].
    ///
    /// # Errors
    /// Fails if the kernel has no such options, or the socket is not an IPv4 socket.
    pub fn report_too_long(&mut self) -> io::Result<()> {
        if !self.is_v4 {
            return Err(io::ErrorKind::Unsupported.into());
        }
        if let Some(sender) = self.sender() {
            errors::Whole::begin(sender.as_fd())?;
        }
        self.lengths = Some(errors::Whole::begin(self.socket.as_fd())?);
        Ok(())
    }

    /// Returns the socket by which packets with their IP headers leave, if that is another one.
    fn sender(&self) -> Option<&Arc<OwnedFd>> {
        self.whole.as_ref()?.sender.as_ref()
    }

    /// Returns the socket by which packets leave.
    fn exit(&self) -> BorrowedFd<'_> {
        self.sender().unwrap_or(&self.socket).as_fd()
    }

    /// Makes packets leave whole from now on, or allows them to be fragmented. Without [`Self::report_too_long`] the
    /// kernel decides.
    pub fn set_whole(&mut self, is_whole: bool) {
        if let Some(lengths) = &mut self.lengths {
            lengths.set(self.socket.as_fd(), is_whole);
        }
    }

    /// Calls `hear` with each message about a packet that was too long.
    pub fn too_long(&self, mut hear: impl FnMut(TooLong)) {
        if self.lengths.is_none() {
            return;
        }
        too_long(self.socket.as_fd(), &mut hear);
        // A refusal of the kernel itself is reported by the socket that sent the packet.
        if let Some(sender) = self.sender() {
            too_long(sender.as_fd(), &mut hear);
        }
    }

    /// Sets the traffic class of packets sent from now on, by both halves of this socket.
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

    /// Returns the number of bytes in front of a packet for a header that the kernel neither shows nor takes.
    fn front_bytes(&self) -> usize {
        if self.whole.is_some() && !self.is_v4 { IPV6_BYTES } else { 0 }
    }

    /// Writes the header of an IPv6 packet of `bytes` behind `start`. Returns `false` if no header is possible.
    fn write_header(&self, whole: &Whole, batch: &mut Batch, start: usize, bytes: usize) -> bool {
        let (Some(IpAddr::V6(source)), IpAddr::V6(destination)) = (self.source, whole.local) else {
            return false;
        };
        let fields = Ipv6Fields {
            traffic_class: 0,
            flow_label: 0,
            next_header: whole.protocol,
            hop_limit: 64,
            source,
            destination,
        };
        fields.write(&mut batch.work.buffer.bytes_mut()[start..], bytes).is_ok()
    }

    /// Appends one packet of `bytes` that stands at `start` of the batch's buffer, behind [`Self::front_bytes`].
    fn lay(&mut self, batch: &mut Batch, start: usize, bytes: usize) -> bool {
        // The IP header is part of a received IPv4 packet, but not of an IPv6 packet.
        let mut header_bytes = 0;
        if self.is_v4 {
            let Ok(ip) = Ipv4::parse(&batch.work.buffer.bytes()[start..start + bytes]) else {
                self.refused_packets += 1;
                return false;
            };
            header_bytes = ip.header_bytes();
            self.received_traffic_class = ip.traffic_class();
        }
        let mut bytes = bytes;
        if let Some(whole) = &self.whole {
            if !self.is_v4 && !self.write_header(whole, batch, start, bytes) {
                self.refused_packets += 1;
                return false;
            }
            header_bytes = 0;
            bytes += self.front_bytes();
        }
        let room = Span::new(start as u32, bytes as u32);
        let mut packet = Packet::new(room, header_bytes as u32).expect("a packet has its header");
        packet.push_back(bytes - header_bytes).expect("the room has its length");
        batch.packets.push(packet);
        true
    }
}

/// Sends an IPv4 packet in fragments (RFC 791, section 3.2). Returns `None` if it must not be fragmented, has
/// options, or the kernel takes no fragments.
fn pieces(socket: &OwnedFd, peer: Option<IpAddr>, packet: &[u8]) -> Option<()> {
    let ip = Ipv4::parse(packet).ok()?;
    if ip.dont_fragment() || ip.is_fragment() || ip.header_bytes() != IPV4_BYTES {
        return None;
    }
    let to = SocketAddr::new(peer?, 0);
    let (header, payload) = packet.split_at(IPV4_BYTES);
    let chunks = payload.chunks(PIECE_PAYLOAD_BYTES);
    let last = chunks.len() - 1;
    for (at, chunk) in chunks.enumerate() {
        let mut piece = [header, chunk].concat();
        let piece_bytes = u16::try_from(piece.len()).ok()?;
        piece[2..4].copy_from_slice(&piece_bytes.to_be_bytes());
        let mut ip = Ipv4::parse(&mut piece[..]).ok()?;
        ip.set_fragment(u16::try_from(at * PIECE_PAYLOAD_BYTES).ok()?, at < last);
        ip.fill_checksum();
        rustix::io::retry_on_intr(|| rustix::net::sendto(socket, &piece, SendFlags::NOSIGNAL, &to)).ok()?;
    }
    Some(())
}

impl Raw {
    /// Does the same as [`Port::receive`] without waiting.
    ///
    /// # Errors
    /// Returns [`io::ErrorKind::WouldBlock`] if there is no packet now, and errors of the kernel.
    pub fn receive_now(&mut self, batch: &mut Batch) -> io::Result<usize> {
        let laid = self.take(batch, false)?;
        self.pace.after(laid);
        Ok(laid)
    }

    /// Does the work of [`Port::receive`], which adds the pace.
    fn take(&mut self, batch: &mut Batch, may_wait: bool) -> io::Result<usize> {
        let (mut laid, mut failures) = (0, Failures::default());
        let mut may_gather = self.pace.is_dense();
        while laid < ENOUGH_PACKETS {
            let start = end_of(batch);
            let has_places = batch.packets.len() < batch.packets.capacity();
            let buffer = batch.work.buffer.bytes_mut();
            let from = start + self.front_bytes();
            if buffer.len() < from + RECEIVE_BYTES || !has_places {
                return if laid == 0 { Err(no_room()) } else { Ok(laid) };
            }
            let into = &mut buffer[from..from + RECEIVE_BYTES];
            let (source, bytes) = if let Some((source, packet)) = self.pending.take() {
                into[..packet.len()].copy_from_slice(&packet);
                (source, packet.len())
            } else {
                let flags = if may_wait && laid == 0 { RecvFlags::empty() } else { RecvFlags::DONTWAIT };
                match rustix::net::recvfrom(&self.socket, &mut *into, flags) {
                    Ok((_, bytes, source)) => {
                        let source = source.and_then(|source| SocketAddr::try_from(source).ok());
                        (source.map(|source| source.ip()), bytes)
                    }
                    Err(Errno::INTR) => continue,
                    // The error is about an earlier packet of ours.
                    Err(error) if is_of_packet(error) => {
                        failures.pause_now_and_then();
                        continue;
                    }
                    Err(Errno::AGAIN) if laid > 0 && may_gather => {
                        may_gather = false;
                        pause();
                        continue;
                    }
                    Err(_) if laid > 0 => return Ok(laid),
                    Err(error) => return Err(error.into()),
                }
            };
            // The kernel may report the class of one packet only, so a batch has one sender and one class.
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

    /// Sends these packets of `batch` past IP, if this socket does that and they allow it; returns the number sent.
    fn past_ip(&mut self, batch: &Batch, indices: &[usize]) -> Option<usize> {
        let (direct, Some(IpAddr::V4(peer))) = (self.direct.as_mut()?, self.peer) else { return None };
        if !self.lengths.is_some_and(errors::Whole::get) {
            return None;
        }
        let payloads: ArrayVec<&[u8], MANY> = indices.iter().map(|&index| batch.bytes(index)).collect();
        direct.send(peer, self.traffic_class, &payloads)
    }

    /// Sends these packets of `batch` in one call and returns the number sent.
    fn send_many(&mut self, batch: &Batch, indices: &[usize]) -> Result<usize, Errno> {
        if let Some(sent) = self.past_ip(batch, indices) {
            return Ok(sent);
        }
        let from = self.front_bytes();
        let datagrams: ArrayVec<_, MANY> = indices
            .iter()
            .map(|&index| [IoSlice::new(batch.bytes(index).get(from..).unwrap_or_default())])
            .collect();
        let to = self.peer.map(|peer| SocketAddrAny::from(SocketAddr::new(peer, 0)));
        send_many(self.exit(), &datagrams, to)
    }
}

impl Port for Raw {
    fn receive(&mut self, batch: &mut Batch) -> io::Result<usize> {
        let laid = self.take(batch, true)?;
        self.pace.after(laid);
        Ok(laid)
    }

    fn send(&mut self, batch: &Batch, from: usize) -> io::Result<usize> {
        let (mut at, mut tries) = (from, Tries::default());
        loop {
            let is_sent =
                |&index: &usize| batch.packets[index].is_passed() && !batch.packets[index].is_empty();
            let indices: ArrayVec<usize, MANY> =
                (at..batch.packets.len()).filter(is_sent).take(MANY).collect();
            let Some(&first) = indices.first() else { return Ok(batch.packets.len() - from) };
            match self.send_many(batch, &indices) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(sent) => {
                    at = indices[sent.min(indices.len()) - 1] + 1;
                    continue;
                }
                // The error may be about an earlier packet, and this one was not looked at; if it is about this one,
                // it is fragmented.
                Err(error)
                    if self.lengths.is_some() && is_of_packet(error) && tries.again(first, self.exit()) =>
                {
                    if error == Errno::MSGSIZE && self.whole.is_none() {
                        self.set_whole(false);
                    }
                    continue;
                }
                Err(Errno::MSGSIZE) if self.whole.is_some() && self.is_v4 => {
                    // The kernel does not fragment a packet that includes its header.
                    let sent = self.sender().and_then(|sender| pieces(sender, self.peer, batch.bytes(first)));
                    self.refused_packets += u64::from(sent.is_none());
                }
                Err(Errno::AGAIN) if first > from => return Ok(first - from),
                Err(error) if is_of_packet(error) => self.refused_packets += 1,
                Err(error) => return Err(error.into()),
            }
            // The kernel refused the first of them.
            at = first + 1;
        }
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }
}

//! UDP: datagrams of equal length leave as a burst by one call (UDP_SEGMENT) and arrive as one (UDP_GRO),
//! so that the kernel's cost per datagram is paid once per burst. If the kernel or the path refuses GSO, one call
//! carries many datagrams instead (sendmmsg, recvmmsg).

use crate::errors::{Failures, TooLong, Tries, Whole, is_of_packet, too_long};
use crate::looks::Looks;
use crate::many::send_many;
use crate::memory::no_room;
use crate::pace::{Pace, pause};
use crate::room::end_of;
use crate::sys::{self, Burst, Headers, MANY};
use crate::{Batch, Packet};
use crate::{Port, Room};
use arrayvec::ArrayVec;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::io::Errno;
use rustix::net::sockopt;
use rustix::net::{AddressFamily, SocketAddrAny, SocketFlags, SocketType};
use sealane_engine::Span;
use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::Duration;

/// Most datagrams of a burst that every kernel with UDP_SEGMENT takes.
pub const BURST_MAX_DATAGRAMS: usize = 64;
/// Most bytes of a burst: the longest IP packet without IP's and UDP's headers.
pub const BURST_MAX_BYTES: usize = 65_535 - 20 - 8;
/// Bytes of buffer for a received burst.
const RECEIVE_BYTES: usize = 65_536;
/// Bytes left free before a batch's first burst if there is room: behind ESP's header and IV, mostly 16 bytes, the
/// payload then starts on a cache line.
const FRONT_BYTES: usize = 48;
/// Number of bytes at which a batch is handed on at once.
const ENOUGH_BYTES: usize = 16 * 1024;
/// Number of packets at which a batch is handed on at once, for small packets.
const ENOUGH_PACKETS: usize = 128;
/// Buffer requested from the kernel for each direction: bursts wait there, because a TUN device gives no
/// back-pressure.
const SOCKET_BUFFER_BYTES: usize = 7 << 20;
/// Room for a datagram without GRO.
const SLOT_BYTES: usize = 2048;

/// A UDP socket.
#[derive(Debug)]
pub struct Udp {
    socket: Arc<UdpSocket>,
    /// Destination of packets; `None` if the socket is connected.
    peer: Option<SocketAddr>,
    sends_gso: bool,
    receives_gro: bool,
    /// Sender of the datagrams received last; all datagrams of one call have one sender, one destination and one traffic
    /// class.
    pub source: Option<SocketAddr>,
    /// Our address that the datagrams received last were sent to; `None` unless [`Self::report_destinations`] was called.
    pub destination: Option<IpAddr>,
    /// The time for which the first of the datagrams received last waited in the socket; 0 unless [`Self::report_times`] was
    /// called.
    pub waited: Duration,
    /// Whether the socket was seen empty behind the datagrams received last.
    pub is_dry: bool,
    /// Our address that datagrams are sent from, with GSO; if the kernel refuses it, or for `None`, it chooses one.
    pub local: Option<IpAddr>,
    /// The traffic class (DSCP and ECN) in the IP header of the datagrams received last; without GRO 0.
    pub received_traffic_class: u8,
    /// The traffic class of sent datagrams; without GSO it stays 0.
    pub traffic_class: u8,
    /// Set if the socket controls the length of its packets itself.
    whole: Option<Whole>,
    pace: Pace,
    looks: Looks,
    /// A burst that came behind one of another sender.
    pending: Option<(Burst, Vec<u8>)>,
    /// Datagrams that the kernel did not take, because they are too long for the path or nobody listens.
    pub refused_packets: u64,
}

impl Udp {
    /// Returns a port over a bound socket. `peer` is the destination of packets if the socket is not connected.
    ///
    /// # Errors
    /// Fails if the socket's options cannot be set.
    pub fn new(socket: UdpSocket, peer: Option<SocketAddr>) -> io::Result<Self> {
        let receives_gro = sys::set_udp_gro(socket.as_fd()).is_ok();
        // If the kernel does not report it, congestion marks of the path are not seen.
        let _ = sys::set_receive_traffic_class(socket.as_fd());
        Ok(Self { sends_gso: true, receives_gro, ..Self::without_offloads(socket, peer)? })
    }

    /// Returns a port that uses neither GSO nor GRO, as on a kernel that has none.
    ///
    /// # Errors
    /// Fails if the socket's options cannot be set.
    pub fn without_offloads(socket: UdpSocket, peer: Option<SocketAddr>) -> io::Result<Self> {
        // A size beyond the system's limit needs CAP_NET_ADMIN; otherwise it is set up to the limit.
        if sockopt::set_socket_recv_buffer_size_force(&socket, SOCKET_BUFFER_BYTES).is_err() {
            sockopt::set_socket_recv_buffer_size(&socket, SOCKET_BUFFER_BYTES)?;
        }
        if sockopt::set_socket_send_buffer_size_force(&socket, SOCKET_BUFFER_BYTES).is_err() {
            sockopt::set_socket_send_buffer_size(&socket, SOCKET_BUFFER_BYTES)?;
        }
        Ok(Self {
            socket: Arc::new(socket),
            peer,
            sends_gso: false,
            receives_gro: false,
            source: None,
            destination: None,
            waited: Duration::ZERO,
            is_dry: false,
            local: None,
            received_traffic_class: 0,
            traffic_class: 0,
            whole: None,
            pace: Pace::default(),
            looks: Looks::default(),
            pending: None,
            refused_packets: 0,
        })
    }

    /// Returns two handles of the socket, so that one thread can receive while another sends.
    #[must_use]
    pub fn split(self) -> (Self, Self) {
        let twin = Self {
            socket: Arc::clone(&self.socket),
            pace: Pace::default(),
            looks: Looks::default(),
            pending: None,
            refused_packets: 0,
            ..self
        };
        (self, twin)
    }

    /// Returns the bytes of memory that packets take which have not left the host.
    pub fn unsent_bytes(&self) -> u32 {
        sys::unsent_bytes(self.socket.as_fd())
    }

    /// Makes packets carry this mark from now on, see [`crate::set_mark`].
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn set_mark(&self, mark: u32) -> io::Result<()> {
        crate::set_mark(&*self.socket, mark)
    }

    /// Makes [`Self::destination`] known. Call it before [`Self::split`].
    ///
    /// # Errors
    /// Fails if the kernel does not report destinations.
    pub fn report_destinations(&self) -> io::Result<()> {
        report_destinations(&self.socket)
    }

    /// Makes [`Self::waited`] known.
    ///
    /// # Errors
    /// Fails if the kernel does not report times.
    pub fn report_times(&self) -> io::Result<()> {
        sys::set_receive_times(self.socket.as_fd())
    }

    /// Returns up to `count` other ports of the same address and for the same packets, each with a buffer of its own, so that what
    /// waits in one keeps nothing waiting in another. This port alone receives. Call it before packets come, and after this port
    /// has got its options, but for the mark.
    ///
    /// # Errors
    /// Fails if the kernel refuses.
    pub fn siblings(&self, count: usize) -> io::Result<Vec<Self>> {
        let local = self.socket.local_addr()?;
        sys::set_shared(self.socket.as_fd())?;
        let mut siblings = Vec::with_capacity(count);
        for _ in 0..count {
            let family = if local.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
            let socket = rustix::net::socket_with(family, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
            sys::set_shared(socket.as_fd())?;
            if local.is_ipv6() {
                sockopt::set_ipv6_v6only(&socket, sockopt::ipv6_v6only(&*self.socket)?)?;
            }
            rustix::net::bind(&socket, &local)?;
            // The first socket in order is this port's, because it was bound first.
            sys::give_all_to_first(socket.as_fd())?;
            let mut sibling = Self::without_offloads(UdpSocket::from(socket), self.peer)?;
            sibling.sends_gso = self.sends_gso;
            if self.whole.is_some() {
                sibling.report_too_long()?;
            }
            siblings.push(sibling);
        }
        Ok(siblings)
    }

    /// Does the same as [`Port::receive`] without waiting.
    ///
    /// # Errors
    /// Returns [`io::ErrorKind::WouldBlock`] if there is no packet now, and errors of the kernel.
    pub fn receive_now(&mut self, batch: &mut Batch) -> io::Result<usize> {
        self.receive_within(batch, false)
    }

    fn receive_within(&mut self, batch: &mut Batch, may_wait: bool) -> io::Result<usize> {
        match self.receives_gro {
            true => self.receive_bursts(batch, may_wait),
            false => self.receive_singly(batch, may_wait),
        }
    }

    /// Sends packets to `peer` from now on.
    pub fn set_peer(&mut self, peer: SocketAddr) {
        self.peer = Some(peer);
    }

    /// Makes messages about IPv4 packets that were too long wait for [`Self::too_long`], without an effect by
    /// themselves, on a socket that serves IPv4. These packets leave whole, up to the limit of the device, until
    /// [`Self::set_whole`] says otherwise. Call it before [`Self::split`].
    ///
    /// # Errors
    /// Returns [`io::ErrorKind::Unsupported`] if the socket serves IPv6 alone, and fails if the kernel has no such
    /// options.
    pub fn report_too_long(&mut self) -> io::Result<()> {
        let local = self.socket.local_addr()?.ip();
        let serves_v4 =
            local.to_canonical().is_ipv4() || local.is_unspecified() && !sockopt::ipv6_v6only(&self.socket)?;
        if !serves_v4 {
            return Err(io::ErrorKind::Unsupported.into());
        }
        self.whole = Some(Whole::begin(self.socket.as_fd())?);
        Ok(())
    }

    /// Makes packets leave whole from now on, or allows them to be fragmented. Without [`Self::report_too_long`] the
    /// kernel decides.
    pub fn set_whole(&mut self, is_whole: bool) {
        if let Some(whole) = &mut self.whole {
            whole.set(self.socket.as_fd(), is_whole);
        }
    }

    /// Calls `hear` with each message about a packet that was too long.
    pub fn too_long(&self, hear: impl FnMut(TooLong)) {
        if self.whole.is_some() {
            too_long(self.socket.as_fd(), hear);
        }
    }

    /// Returns the number of packets at the front that can leave as one burst, and the datagrams' length.
    fn burst(packets: &[Packet]) -> (usize, usize) {
        let segment_bytes = packets[0].len();
        let mut bytes = segment_bytes;
        let mut count = 1;
        for packet in &packets[1..] {
            let fits = packet.is_passed() && !packet.is_empty() && packet.len() <= segment_bytes;
            if !fits || count == BURST_MAX_DATAGRAMS || bytes + packet.len() > BURST_MAX_BYTES {
                break;
            }
            bytes += packet.len();
            count += 1;
            if packet.len() < segment_bytes {
                break;
            }
        }
        (count, segment_bytes)
    }

    fn send_burst(&self, batch: &Batch, from: usize, count: usize, segment_bytes: usize) -> io::Result<()> {
        let bytes = batch.work.buffer.bytes();
        let mut slices = [IoSlice::new(&[]); BURST_MAX_DATAGRAMS];
        let mut used = 0;
        let mut whole: Option<Span> = None;
        for packet in &batch.packets[from..from + count] {
            let span = packet.span();
            // Packets that lie side by side are one slice.
            whole = Some(match whole {
                Some(before) if before.end() == span.start as usize => {
                    Span::new(before.start, before.len + span.len)
                }
                Some(before) => {
                    slices[used] = IoSlice::new(&bytes[before.range()]);
                    used += 1;
                    span
                }
                None => span,
            });
        }
        if let Some(last) = whole {
            slices[used] = IoSlice::new(&bytes[last.range()]);
            used += 1;
        }
        let segment_bytes = (count > 1).then_some(segment_bytes as u16);
        let headers = Headers { to: self.peer, from: self.local, traffic_class: self.traffic_class };
        sys::send_burst(self.socket.as_fd(), &slices[..used], segment_bytes, &headers).map(drop)
    }

    /// Sends datagrams without GSO, and returns the number sent.
    fn send_few(&self, batch: &Batch, from: usize, count: usize) -> io::Result<usize> {
        match self.local {
            // Only a call with GSO takes a source.
            Some(_) => self.send_burst(batch, from, 1, batch.packets[from].len()).map(|()| 1),
            None => self.send_singly(batch, from, count),
        }
    }

    /// Sends the datagrams in few calls, and returns the number sent.
    fn send_singly(&self, batch: &Batch, from: usize, count: usize) -> io::Result<usize> {
        let indices = from..from + count.min(BURST_MAX_DATAGRAMS);
        let datagrams: ArrayVec<_, BURST_MAX_DATAGRAMS> =
            indices.map(|index| [IoSlice::new(batch.bytes(index))]).collect();
        Ok(send_many(self.socket.as_fd(), &datagrams, self.peer.map(SocketAddrAny::from))?)
    }

    /// Returns whether a packet that the kernel did not take is lost, as on any network, and the socket still usable.
    fn is_lost(error: &io::Error) -> bool {
        Errno::from_io_error(error).is_some_and(is_of_packet)
    }

    /// Returns whether the kernel has no GSO for this path: the device cannot compute checksums, or a datagram is
    /// longer than the path takes.
    fn refuses_gso(error: &io::Error) -> bool {
        [Errno::IO, Errno::INVAL, Errno::MSGSIZE]
            .iter()
            .any(|refused| error.raw_os_error() == Some(refused.raw_os_error()))
    }

    fn receive_bursts(&mut self, batch: &mut Batch, may_wait: bool) -> io::Result<usize> {
        let mut gathering = Gathering::begin(batch, self.pace.is_dense());
        self.is_dry = false;
        loop {
            let laid = gathering.laid(batch);
            let Some(start) = place_of_burst(batch) else {
                return if laid == 0 { Err(no_room()) } else { Ok(laid) };
            };
            let into = &mut batch.work.buffer.bytes_mut()[start..start + RECEIVE_BYTES];
            let received = self.take_burst(into, may_wait && laid == 0);
            if laid > 0 {
                self.looks.after(received.is_ok());
            }
            let burst = match received {
                Ok(burst) => burst,
                Err(error) if self.goes_on_after(&error, laid, &mut gathering) => continue,
                Err(error) => return if laid == 0 { Err(error) } else { Ok(laid) },
            };
            if laid > 0 && !self.is_like_the_last(&burst) {
                self.pending = Some((burst, into[..burst.bytes].to_vec()));
                return Ok(laid);
            }
            if laid == 0 {
                self.waited = burst.waited;
            }
            self.lay(batch, start, &burst);
            if self.has_enough(batch, &burst, laid == 0, &mut gathering) {
                return Ok(gathering.laid(batch));
            }
        }
    }

    /// Returns the burst that came behind one of another sender, or else receives one.
    fn take_burst(&mut self, into: &mut [u8], may_wait: bool) -> io::Result<Burst> {
        let Some((burst, bytes)) = self.pending.take() else {
            return sys::receive_burst(self.socket.as_fd(), into, may_wait);
        };
        into[..bytes.len()].copy_from_slice(&bytes);
        Ok(burst)
    }

    /// Returns whether to receive again after an error, behind `laid` packets; pauses if more packets are to gather.
    fn goes_on_after(&mut self, error: &io::Error, laid: usize, gathering: &mut Gathering) -> bool {
        let is_dry = error.kind() == io::ErrorKind::WouldBlock;
        if error.kind() == io::ErrorKind::Interrupted {
            return true;
        }
        // The error is about an earlier packet of ours.
        if Self::is_lost(error) {
            gathering.failures.pause_now_and_then();
            return true;
        }
        if laid > 0 && is_dry && gathering.may_pause {
            gathering.may_pause = false;
            pause();
            return true;
        }
        self.is_dry = laid > 0 && is_dry;
        false
    }

    /// Returns whether a burst has the sender, the destination and the traffic class of those before it.
    fn is_like_the_last(&self, burst: &Burst) -> bool {
        (burst.source, burst.destination, burst.traffic_class)
            == (self.source, self.destination, self.received_traffic_class)
    }

    /// Makes packets of the datagrams of a burst, which lie in the batch's buffer from `start` on.
    fn lay(&mut self, batch: &mut Batch, start: usize, burst: &Burst) {
        self.source = burst.source;
        self.destination = burst.destination;
        self.received_traffic_class = burst.traffic_class;
        self.refused_packets += u64::from(burst.is_cut_short);
        let segment_bytes = segment_bytes_of(burst);
        for at in (0..burst.bytes).step_by(segment_bytes) {
            let bytes = segment_bytes.min(burst.bytes - at);
            if Room::NONE.push_at(batch, start + at, bytes).is_none() {
                self.refused_packets += 1;
            }
        }
    }

    /// Returns whether a batch is handed on after a burst, or more is looked for.
    fn has_enough(
        &mut self,
        batch: &Batch,
        burst: &Burst,
        is_first: bool,
        gathering: &mut Gathering,
    ) -> bool {
        // The packets of a burst have gathered at its sender.
        let single = usize::from(burst.segment_bytes.is_none());
        gathering.singles += single;
        self.pace.after(single);
        let enough_bytes = if gathering.singles > 1 { BURST_MAX_BYTES } else { ENOUGH_BYTES };
        let laid = gathering.laid(batch);
        if laid >= ENOUGH_PACKETS || laid > 0 && end_of(batch) - gathering.bytes_before >= enough_bytes {
            // Datagrams that did not fit into one burst come in the next, which has usually arrived by now.
            gathering.may_pause = false;
            return !(is_first && is_full(burst));
        }
        // There is hardly more.
        self.is_dry = is_first && !gathering.may_pause && !self.looks.pays();
        self.is_dry
    }

    fn receive_singly(&self, batch: &mut Batch, may_wait: bool) -> io::Result<usize> {
        let start = end_of(batch);
        let mut lengths = [0; MANY];
        let free = batch.packets.capacity() - batch.packets.len();
        let places = free.min(MANY).min((batch.work.buffer.capacity_bytes() - start) / SLOT_BYTES);
        if places == 0 {
            return Err(no_room());
        }
        let into = &mut batch.work.buffer.bytes_mut()[start..start + places * SLOT_BYTES];
        let mut failures = Failures::default();
        let received = loop {
            let socket = self.socket.as_fd();
            match sys::receive_many(socket, into, SLOT_BYTES, &mut lengths[..places], may_wait) {
                // The error is about an earlier packet of ours.
                Err(error) if Self::is_lost(&error) => failures.pause_now_and_then(),
                received => break received?,
            }
        };
        for (index, &bytes) in lengths[..received].iter().enumerate() {
            Room::NONE.push_at(batch, start + index * SLOT_BYTES, bytes).expect("its place was counted");
        }
        Ok(received)
    }
}

/// One call that receives bursts, so far.
struct Gathering {
    /// The batch's packets, and its bytes in use, before the call.
    packets_before: usize,
    bytes_before: usize,
    /// Whether a pause lets more packets gather, when no more are there.
    may_pause: bool,
    /// The number of datagrams that came alone.
    singles: usize,
    failures: Failures,
}

impl Gathering {
    fn begin(batch: &Batch, may_pause: bool) -> Self {
        Self {
            packets_before: batch.packets.len(),
            bytes_before: end_of(batch),
            may_pause,
            singles: 0,
            failures: Failures::default(),
        }
    }

    /// Returns the number of packets that the call has laid into the batch.
    fn laid(&self, batch: &Batch) -> usize {
        batch.packets.len() - self.packets_before
    }
}

/// Returns the place of the next burst in a batch's buffer, if the batch has room for the longest.
fn place_of_burst(batch: &Batch) -> Option<usize> {
    let end = end_of(batch);
    let buffer_bytes = batch.work.buffer.capacity_bytes();
    let start = if end == 0 && buffer_bytes >= FRONT_BYTES + RECEIVE_BYTES { FRONT_BYTES } else { end };
    let has_room = buffer_bytes >= start + RECEIVE_BYTES
        && batch.packets.capacity() - batch.packets.len() >= BURST_MAX_DATAGRAMS;
    has_room.then_some(start)
}

/// Returns the length of each datagram of a burst but the last.
fn segment_bytes_of(burst: &Burst) -> usize {
    burst.segment_bytes.unwrap_or(burst.bytes).max(1)
}

/// Returns whether a burst had no room for one more datagram.
fn is_full(burst: &Burst) -> bool {
    let segment_bytes = segment_bytes_of(burst);
    burst.segment_bytes.is_some()
        && (burst.bytes + segment_bytes > BURST_MAX_BYTES
            || burst.bytes == BURST_MAX_DATAGRAMS * segment_bytes)
}

/// Returns whether an error may be about the address that a datagram was to be sent from.
fn is_about_source(error: &io::Error) -> bool {
    let error = Errno::from_io_error(error);
    error.is_some_and(|error| matches!(error, Errno::INVAL | Errno::ADDRNOTAVAIL | Errno::NETUNREACH))
}

/// Makes [`receive_letter`] return the destinations of datagrams.
///
/// # Errors
/// Fails if the kernel does not report destinations.
pub fn report_destinations(socket: &UdpSocket) -> io::Result<()> {
    sys::set_receive_destination(socket.as_fd(), socket.local_addr()?.is_ipv6())
}

/// Receives one datagram, without waiting for it. Returns its length, its source, and our address that it was sent to, if the
/// kernel reports that.
///
/// # Errors
/// Returns [`io::ErrorKind::WouldBlock`] if there is no datagram, and errors of the kernel, some of which are about
/// earlier datagrams.
pub fn receive_letter(
    socket: &UdpSocket,
    into: &mut [u8],
) -> io::Result<(usize, SocketAddr, Option<IpAddr>)> {
    let letter = sys::receive_burst(socket.as_fd(), into, false)?;
    let source = letter.source.ok_or(io::ErrorKind::InvalidData)?;
    Ok((letter.bytes, source, letter.destination))
}

/// Sends one datagram from our address `from`; if the kernel refuses it, or for `None`, the kernel chooses an address.
///
/// # Errors
/// Returns errors of the kernel.
pub fn send_letter(socket: &UdpSocket, bytes: &[u8], to: SocketAddr, from: Option<IpAddr>) -> io::Result<()> {
    let send = |from| {
        let headers = Headers { to: Some(to), from, traffic_class: 0 };
        sys::send_burst(socket.as_fd(), &[IoSlice::new(bytes)], None, &headers).map(drop)
    };
    match send(from) {
        Err(error) if from.is_some() && is_about_source(&error) => send(None),
        sent => sent,
    }
}

impl Port for Udp {
    fn receive(&mut self, batch: &mut Batch) -> io::Result<usize> {
        self.receive_within(batch, true)
    }

    fn send(&mut self, batch: &Batch, from: usize) -> io::Result<usize> {
        let packets = &batch.packets;
        let (mut at, mut tries) = (from, Tries::default());
        while at < packets.len() {
            if !packets[at].is_passed() || packets[at].is_empty() {
                at += 1;
                continue;
            }
            let (count, segment_bytes) = Self::burst(&packets[at..]);
            let mut sent = if self.sends_gso || count == 1 {
                self.send_burst(batch, at, count, segment_bytes).map(|()| count)
            } else {
                self.send_few(batch, at, count)
            };
            if let Err(error) = &sent
                && count > 1
                && Self::refuses_gso(error)
            {
                // The error "too long for the path" concerns these datagrams alone.
                self.sends_gso &= error.raw_os_error() != Some(Errno::IO.raw_os_error());
                sent = self.send_few(batch, at, count);
            }
            match sent {
                Ok(count) => at += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock && at > from => break,
                // The address may not be ours any more.
                Err(error) if self.local.is_some() && is_about_source(&error) => self.local = None,
                // The error may be about an earlier packet, and this one was not looked at; if it is about this one,
                // it is fragmented.
                Err(error)
                    if self.whole.is_some()
                        && Self::is_lost(&error)
                        && tries.again(at, self.socket.as_fd()) =>
                {
                    if Errno::from_io_error(&error) == Some(Errno::MSGSIZE) {
                        self.set_whole(false);
                    }
                }
                Err(error) if Self::is_lost(&error) => {
                    // Each datagram of a burst that is too long is too long; those after the burst may not be.
                    self.refused_packets += 1;
                    at += 1;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(at - from)
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.socket.as_fd())
    }
}

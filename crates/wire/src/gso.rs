//! GSO packets: the large TCP and UDP packets that a TUN device with offloads gives and takes.
//!
//! [`Pieces`] cuts one into the packets that go over a network, as the device would have (every checksum complete,
//! IPv4 identifications counted up, PSH and FIN on the last piece alone, CWR on the first). [`Join`] makes one
//! GSO packet from packets that follow each other. **Guarantee:** cutting a joined GSO packet gives the packets
//! that were joined, byte for byte, except for the identification of packets that must not be fragmented, which has
//! no meaning (RFC 6864 section 4.1); a packet with a wrong checksum is never joined, so it arrives unchanged.

use crate::bytes::{array_at, put_u16, put_u32, u16_at, u32_at};
use crate::checksum::Sum;
use crate::ipv4::{IPV4_BYTES, Ipv4};
use crate::ipv6::{IPV6_BYTES, Ipv6};
use crate::malformed::{Malformed, at_least};
use crate::protocol;
use crate::tcp::{TCP_BYTES, Tcp, TcpFlags};
use crate::udp::{UDP_BYTES, Udp};
use crate::virtio::{Cut, VIRTIO_BYTES, Virtio};

/// Most bytes of an IP packet.
pub const PACKET_MAX_BYTES: usize = 65_535;

/// Bytes of a buffer for any GSO packet behind its virtio-net header; the length of IPv6's payload does not count its header.
pub const BUFFER_BYTES: usize = VIRTIO_BYTES + PACKET_MAX_BYTES + IPV6_BYTES;

/// Most datagrams of a GSO packet that every kernel takes (its `UDP_MAX_SEGMENTS`; newer ones take 128). A
/// GSO packet of more datagrams is refused as a whole.
const UDP_PIECES_MAX: usize = 64;

/// Offset of the checksum in a TCP header.
const TCP_CHECKSUM_AT: usize = 16;
/// Offset of the checksum in a UDP header.
const UDP_CHECKSUM_AT: usize = 6;

/// A packet from a TUN device, ready to be cut.
#[derive(Debug, Clone, Copy)]
pub struct Pieces<'a> {
    packet: &'a [u8],
    /// Offset of the data; for a packet that stays whole, its end.
    data_at: usize,
    /// Offset of the TCP or UDP header.
    upper_at: usize,
    piece_bytes: usize,
    count: usize,
    cut: Cut,
    /// Offsets of the start of a partial sum and of its field, for a packet that stays whole.
    partial: Option<(usize, usize)>,
    /// The part of the sum that all pieces' checksums share.
    common: Sum,
    /// The part of the sum that all pieces' IPv4 header checksums share.
    ip_common: Sum,
}

impl<'a> Pieces<'a> {
    /// Parses `packet` with the virtio-net header that came with it.
    ///
    /// # Errors
    /// Fails if the packet does not match the header.
    pub fn of(header: Virtio, packet: &'a [u8]) -> Result<Self, Malformed> {
        if header.cut == Cut::Whole {
            return Self::whole(header, packet);
        }
        let wrong =
            |field, value: usize| Malformed::Field { header: "GSO packet", field, value: value as u32 };
        let is_v4 = packet.first().is_some_and(|byte| byte >> 4 == 4);
        let (upper_at, protocol, common, ip_common, total_bytes) = if is_v4 {
            let ip = Ipv4::parse(packet)?;
            if ip.is_fragment() {
                return Err(wrong("fragment", ip.fragment_offset_bytes()));
            }
            let common = Sum::pseudo_ipv4(ip.source(), ip.destination(), ip.protocol(), 0);
            let header = &packet[..ip.header_bytes()];
            // The sum leaves out length, identification and checksum.
            let ip_common = Sum::new().bytes(&header[..2]).bytes(&header[6..10]).bytes(&header[12..]);
            (ip.header_bytes(), ip.protocol(), common, ip_common, ip.total_bytes())
        } else {
            let ip = Ipv6::parse(packet)?;
            let upper = ip.upper()?;
            if let Some(at) = upper.fragment_at {
                return Err(wrong("fragment", at));
            }
            let common = ip.pseudo_sum(upper.protocol, 0);
            (upper.offset_bytes, upper.protocol, common, Sum::new(), ip.total_bytes())
        };
        let expected = match header.cut {
            Cut::TcpV4 if is_v4 => protocol::TCP,
            Cut::TcpV6 if !is_v4 => protocol::TCP,
            Cut::Udp => protocol::UDP,
            _ => return Err(wrong("version", if is_v4 { 4 } else { 6 })),
        };
        if protocol != expected {
            return Err(wrong("protocol", protocol.into()));
        }
        let packet = &packet[..total_bytes];
        let upper = &packet[upper_at..];
        let (upper_bytes, common) = if protocol == protocol::TCP {
            let tcp = Tcp::parse(upper)?;
            let header = &upper[..tcp.header_bytes()];
            // The sum leaves out sequence number, offset, flags and checksum.
            let common = common.bytes(&header[..4]).bytes(&header[8..12]).bytes(&header[14..16]);
            (header.len(), common.bytes(&header[18..]))
        } else {
            Udp::parse(upper)?;
            (UDP_BYTES, common.bytes(&upper[..4]))
        };
        let piece_bytes = usize::from(header.piece_bytes);
        if piece_bytes == 0 {
            return Err(wrong("piece length", 0));
        }
        let data_at = upper_at + upper_bytes;
        let count = (packet.len() - data_at).div_ceil(piece_bytes).max(1);
        let (cut, partial) = (header.cut, None);
        Ok(Self { packet, data_at, upper_at, piece_bytes, count, cut, partial, common, ip_common })
    }

    fn whole(header: Virtio, packet: &'a [u8]) -> Result<Self, Malformed> {
        let partial = header.partial.map(|(start, offset)| (usize::from(start), usize::from(offset)));
        if let Some((start, offset)) = partial {
            at_least("virtio-net", packet, start + offset + 2)?;
        }
        let data_at = packet.len();
        let (common, ip_common) = (Sum::new(), Sum::new());
        let cut = Cut::Whole;
        Ok(Self { packet, data_at, upper_at: 0, piece_bytes: 1, count: 1, cut, partial, common, ip_common })
    }

    /// Returns the number of packets that the GSO packet is cut into: at least one.
    #[must_use]
    pub fn count(&self) -> usize {
        self.count
    }

    /// Returns the length of the headers that each packet has; for one that stays whole, its own.
    #[must_use]
    pub fn header_bytes(&self) -> usize {
        self.data_at
    }

    /// Returns the length of packet `index` in bytes.
    #[must_use]
    pub fn bytes(&self, index: usize) -> usize {
        self.data_at + self.data(index).len()
    }

    fn data(&self, index: usize) -> &'a [u8] {
        let data = &self.packet[self.data_at..];
        let start = index.saturating_mul(self.piece_bytes).min(data.len());
        &data[start..data.len().min(start + self.piece_bytes)]
    }

    /// Writes packet `index`, with all its checksums complete, to the front of `into`, and returns its length in
    /// bytes.
    ///
    /// # Errors
    /// Fails if `into` is too short.
    pub fn write(&self, index: usize, into: &mut [u8]) -> Result<usize, Malformed> {
        let data = self.data(index);
        let bytes = self.data_at + data.len();
        at_least("GSO packet", into, bytes)?;
        let (headers, into_data) = into[..bytes].split_at_mut(self.data_at);
        headers.copy_from_slice(&self.packet[..self.data_at]);
        if self.cut == Cut::Whole {
            into_data.copy_from_slice(data);
            if let Some((start, offset)) = self.partial {
                let checksum = Sum::new().bytes(&headers[start..]).checksum_udp();
                put_u16(headers, start + offset, checksum);
            }
            return Ok(bytes);
        }
        let (ip, upper) = headers.split_at_mut(self.upper_at);
        // The sums read the GSO packet and not the copy: loads from bytes just written would wait for the stores.
        let (given_ip, given) = self.packet.split_at(self.upper_at);
        if given_ip[0] >> 4 == 6 {
            put_u16(ip, 4, (bytes - IPV6_BYTES) as u16);
        } else {
            let identification = u16_at(given_ip, 4).wrapping_add(index as u16);
            let checksum = self.ip_common.word(bytes as u16).word(identification).checksum();
            put_u16(ip, 2, bytes as u16);
            put_u16(ip, 4, identification);
            put_u16(ip, 10, checksum);
        }
        let sum = self.common.double((bytes - self.upper_at) as u32).copying(data, into_data);
        if self.cut == Cut::Udp {
            let datagram_bytes = (bytes - self.upper_at) as u16;
            put_u16(upper, 4, datagram_bytes);
            put_u16(upper, UDP_CHECKSUM_AT, sum.word(datagram_bytes).checksum_udp());
            return Ok(bytes);
        }
        let sequence_number = u32_at(given, 4).wrapping_add((index * self.piece_bytes) as u32);
        put_u32(upper, 4, sequence_number);
        let mut flags = TcpFlags(given[13]);
        if index != 0 {
            flags = flags.without(TcpFlags::CWR);
        }
        if index + 1 < self.count {
            flags = flags.without(TcpFlags::PSH | TcpFlags::FIN);
        }
        upper[13] = flags.0;
        let checksum = sum.double(sequence_number).word(u16::from_be_bytes([given[12], flags.0])).checksum();
        put_u16(upper, TCP_CHECKSUM_AT, checksum);
        Ok(bytes)
    }
}

/// Sets the lengths of an IP header for a packet of `bytes`, and for IPv4 moves its identification by `count` and
/// computes its checksum. `ip` ends where the packet's next protocol starts.
fn set_ip_length(ip: &mut [u8], bytes: usize, count: u16) {
    if ip[0] >> 4 == 6 {
        put_u16(ip, 4, (bytes - IPV6_BYTES) as u16);
        return;
    }
    put_u16(ip, 2, bytes as u16);
    let identification = u16_at(ip, 4).wrapping_add(count);
    put_u16(ip, 4, identification);
    put_u16(ip, 10, 0);
    let checksum = Sum::new().bytes(ip).checksum();
    put_u16(ip, 10, checksum);
}

/// Takes the first `count` packets out of the GSO packet that `whole` consists of behind its virtio-net header, without moving
/// the data of the others. Returns the place at which the rest begins, with headers of its own; `None` if it is malformed or has no
/// more packets, and then it is unchanged.
pub fn behead(whole: &mut [u8], count: usize) -> Option<usize> {
    let (mut header, packet) = Virtio::parse(whole).ok()?;
    let pieces = Pieces::of(header, packet).ok()?;
    let (start, rest) = (count.checked_mul(pieces.piece_bytes)?, pieces.count.checked_sub(count)?);
    if count == 0 || rest == 0 || pieces.count == 1 {
        return (rest > 0).then_some(0);
    }
    let (upper_at, data_at, bytes) = (pieces.upper_at, pieces.data_at, pieces.packet.len() - start);
    let (cut, end) = (pieces.cut, VIRTIO_BYTES + pieces.packet.len());
    whole.copy_within(..VIRTIO_BYTES + data_at, start);
    let (virtio, packet) = whole[start..end].split_at_mut(VIRTIO_BYTES);
    let (ip, upper) = packet.split_at_mut(upper_at);
    set_ip_length(ip, bytes, count as u16);
    let addresses = if ip[0] >> 4 == 4 { &ip[12..20] } else { &ip[8..40] };
    let (protocol, checksum_at) = match cut {
        Cut::Udp => (protocol::UDP, UDP_CHECKSUM_AT),
        _ => (protocol::TCP, TCP_CHECKSUM_AT),
    };
    // The device completes the sum of the data.
    header.partial = Some((upper_at as u16, checksum_at as u16));
    let upper_bytes = upper.len() as u32;
    let pseudo = Sum::new().bytes(addresses).word(protocol.into()).double(upper_bytes).folded();
    if cut == Cut::Udp {
        put_u16(upper, 4, upper_bytes as u16);
    } else {
        let sequence_number = u32_at(upper, 4).wrapping_add(start as u32);
        put_u32(upper, 4, sequence_number);
        upper[13] = TcpFlags(upper[13]).without(TcpFlags::CWR).0;
    }
    put_u16(upper, checksum_at, pseudo);
    if rest == 1 {
        (header.cut, header.piece_bytes) = (Cut::Whole, 0);
    }
    header.is_ecn = false;
    virtio.copy_from_slice(&header.to_bytes());
    Some(start)
}

/// The properties by which packets may be joined with each other.
#[derive(Debug, Clone, Copy)]
struct Shape {
    is_tcp: bool,
    upper_at: usize,
    data_at: usize,
    /// The pseudo-header without the length.
    pseudo: Sum,
}

impl Shape {
    /// Returns `None` for a packet that is never joined.
    fn of(packet: &[u8]) -> Option<Self> {
        let is_v4 = packet.first()? >> 4 == 4;
        let (upper_at, protocol, pseudo) = if is_v4 {
            let ip = Ipv4::parse(packet).ok()?;
            // Options may differ in meaning per packet, and bytes behind the total length would be lost.
            let is_plain = ip.header_bytes() == IPV4_BYTES && ip.total_bytes() == packet.len();
            if !is_plain || ip.is_fragment() || !ip.checksum_is_right() {
                return None;
            }
            let pseudo = Sum::pseudo_ipv4(ip.source(), ip.destination(), ip.protocol(), 0);
            (IPV4_BYTES, ip.protocol(), pseudo)
        } else {
            let ip = Ipv6::parse(packet).ok()?;
            if ip.total_bytes() != packet.len() {
                return None;
            }
            (IPV6_BYTES, ip.next_header(), ip.pseudo_sum(ip.next_header(), 0))
        };
        let upper = &packet[upper_at..];
        let (is_tcp, upper_bytes) = match protocol {
            protocol::TCP => {
                let tcp = Tcp::parse(upper).ok()?;
                let odd = TcpFlags::SYN | TcpFlags::RST | TcpFlags::URG | TcpFlags::CWR;
                if tcp.flags().intersects(odd) || !tcp.flags().contains(TcpFlags::ACK) {
                    return None;
                }
                (true, tcp.header_bytes())
            }
            protocol::UDP => {
                let udp = Udp::parse(upper).ok()?;
                if udp.checksum() == 0 || udp.total_bytes() != upper.len() {
                    return None;
                }
                (false, UDP_BYTES)
            }
            _ => return None,
        };
        // A packet without data has nothing to join.
        if upper.len() == upper_bytes || !pseudo.double(upper.len() as u32).bytes(upper).is_right() {
            return None;
        }
        Some(Self { is_tcp, upper_at, data_at: upper_at + upper_bytes, pseudo })
    }
}

/// Returns whether `one` and `other` have the same `N` bytes at `at`.
fn same<const N: usize>(one: &[u8], other: &[u8], at: usize) -> bool {
    array_at::<N>(one, at) == array_at::<N>(other, at)
}

/// A GSO packet under construction, from packets pushed one after the other.
#[derive(Debug)]
pub struct Join {
    /// Room for the virtio-net header, then the packet.
    buffer: Box<[u8]>,
    /// Bytes of the buffer in use; 0 means no packet.
    used_bytes: usize,
    max_bytes: usize,
    joins_udp: bool,
    count: usize,
    /// Bytes of data of each packet but the last.
    piece_bytes: usize,
    /// The shape of packets that may follow; `None` if no packet may.
    open: Option<Shape>,
}

impl Join {
    /// Returns an empty GSO packet that grows to at most `max_bytes`. `joins_udp` says that the device accepts UDP
    /// GSO packets.
    #[must_use]
    pub fn new(max_bytes: usize, joins_udp: bool) -> Self {
        Self {
            buffer: vec![0; BUFFER_BYTES].into(),
            used_bytes: 0,
            max_bytes: max_bytes.min(PACKET_MAX_BYTES),
            joins_udp,
            count: 0,
            piece_bytes: 0,
            open: None,
        }
    }

    /// Returns an empty GSO packet for the same device.
    #[must_use]
    pub fn another(&self) -> Self {
        Self::new(self.max_bytes, self.joins_udp)
    }

    /// Returns whether there is no packet.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns the number of packets.
    #[must_use]
    pub const fn count(&self) -> usize {
        self.count
    }

    /// Adds `packet` behind the present ones. Returns `false` if it does not belong there; call [`Join::take`] first,
    /// then push it again. Bytes beyond the longest IP packet are cut off.
    pub fn push(&mut self, packet: &[u8]) -> bool {
        if self.is_empty() {
            self.begin(packet);
            return true;
        }
        let Some(first) = self.open.filter(|_| VIRTIO_BYTES + self.max_bytes > self.used_bytes) else {
            return false;
        };
        if !self.follows(first, packet) {
            return false;
        }
        // The checksum is verified after the bytes have been copied; if it is wrong, the copy is not used.
        let (headers, data) = packet.split_at(first.data_at);
        let into = &mut self.buffer[self.used_bytes..self.used_bytes + data.len()];
        let upper_bytes = (packet.len() - first.upper_at) as u32;
        let sum = first.pseudo.double(upper_bytes).bytes(&headers[first.upper_at..]).copying(data, into);
        if !sum.is_right() {
            return false;
        }
        self.used_bytes += data.len();
        self.count += 1;
        let mut is_last = data.len() < self.piece_bytes || !first.is_tcp && self.count == UDP_PIECES_MAX;
        if first.is_tcp {
            let flags = TcpFlags(packet[first.upper_at + 13]);
            self.buffer[VIRTIO_BYTES + first.upper_at + 13] = flags.0;
            is_last |= flags.intersects(TcpFlags::PSH | TcpFlags::FIN);
        }
        if is_last {
            self.open = None;
        }
        true
    }

    fn begin(&mut self, packet: &[u8]) {
        let packet = &packet[..packet.len().min(self.buffer.len() - VIRTIO_BYTES)];
        self.used_bytes = VIRTIO_BYTES + packet.len();
        self.buffer[VIRTIO_BYTES..self.used_bytes].copy_from_slice(packet);
        self.count = 1;
        self.open = Shape::of(packet).filter(|shape| shape.is_tcp || self.joins_udp);
        if let Some(shape) = self.open {
            self.piece_bytes = packet.len() - shape.data_at;
            if shape.is_tcp && TcpFlags(packet[shape.upper_at + 13]).intersects(TcpFlags::PSH | TcpFlags::FIN)
            {
                self.open = None;
            }
        }
    }

    /// Returns whether the headers of `packet` are those of the packet that follows next: everything that decides
    /// about joining is as in the first one.
    fn follows(&self, first: Shape, packet: &[u8]) -> bool {
        let there = &self.buffer[VIRTIO_BYTES..self.used_bytes];
        let (upper_at, data_at) = (first.upper_at, first.data_at);
        if packet.len() <= data_at
            || packet.len() - data_at > self.piece_bytes
            || there.len() + packet.len() - data_at > self.max_bytes
        {
            return false;
        }
        let (packet_bytes, upper_bytes) = (packet.len() as u32, (packet.len() - upper_at) as u16);
        let ip_follows = if upper_at == IPV4_BYTES {
            let (identification, count) = (u16_at(packet, 4), self.count as u16);
            let must_not_be_cut = packet[6] & 0x40 != 0;
            let begun = u16_at(there, 4);
            let counts =
                identification == begun.wrapping_add(count) || must_not_be_cut && identification == begun;
            counts
                && u32::from(u16_at(packet, 2)) == packet_bytes
                && same::<2>(there, packet, 0)
                && same::<4>(there, packet, 6)
                && same::<8>(there, packet, 12)
                && Sum::new().bytes(&packet[..IPV4_BYTES]).is_right()
        } else {
            u16_at(packet, 4) == upper_bytes
                && same::<4>(there, packet, 0)
                && same::<2>(there, packet, 6)
                && same::<32>(there, packet, 8)
        };
        if !ip_follows || !same::<4>(there, packet, upper_at) {
            return false;
        }
        if !first.is_tcp {
            return u16_at(packet, upper_at + 4) == upper_bytes
                && u16_at(packet, upper_at + UDP_CHECKSUM_AT) != 0;
        }
        let next = u32_at(there, upper_at + 4).wrapping_add((there.len() - data_at) as u32);
        let changeable = TcpFlags::PSH | TcpFlags::FIN;
        let flags = TcpFlags(packet[upper_at + 13]).without(changeable);
        let options = upper_at + TCP_BYTES..data_at;
        u32_at(packet, upper_at + 4) == next
            // The acknowledgment number, and the data offset.
            && same::<4>(there, packet, upper_at + 8)
            && packet[upper_at + 12] == there[upper_at + 12]
            && flags == TcpFlags(there[upper_at + 13]).without(changeable)
            && same::<2>(there, packet, upper_at + 14)
            && same::<2>(there, packet, upper_at + 18)
            && there[options.clone()] == packet[options]
    }

    /// Returns the GSO packet behind its virtio-net header, for one write to the device, and empties `self`. Returns
    /// `None` if there was no packet. A packet that was not joined with another is as it was pushed.
    pub fn take(&mut self) -> Option<&[u8]> {
        self.take_whole().map(|(buffer, used_bytes)| &buffer[..used_bytes])
    }

    /// Does the same, and returns the buffer with the length of what is in it. The caller may exchange it for another of
    /// [`BUFFER_BYTES`].
    pub fn take_whole(&mut self) -> Option<(&mut Box<[u8]>, usize)> {
        let (count, used_bytes) = (self.count, self.used_bytes);
        if count == 0 {
            return None;
        }
        self.count = 0;
        let mut header = Virtio::default();
        if count > 1 {
            header = self.finish();
        }
        self.used_bytes = 0;
        self.open = None;
        self.buffer[..VIRTIO_BYTES].copy_from_slice(&header.to_bytes());
        Some((&mut self.buffer, used_bytes))
    }

    /// Sets the lengths of a packet that has grown, and leaves its checksum to the device.
    fn finish(&mut self) -> Virtio {
        let packet = &mut self.buffer[VIRTIO_BYTES..self.used_bytes];
        // A joined packet has a shape; `open` may be `None` because the last packet closed it.
        let is_v4 = packet[0] >> 4 == 4;
        let upper_at = if is_v4 { IPV4_BYTES } else { IPV6_BYTES };
        let protocol = packet[if is_v4 { 9 } else { 6 }];
        let (ip, upper) = packet.split_at_mut(upper_at);
        let bytes = ip.len() + upper.len();
        set_ip_length(ip, bytes, 0);
        let addresses = if is_v4 { &ip[12..20] } else { &ip[8..40] };
        let pseudo = Sum::new().bytes(addresses).word(protocol.into()).double(upper.len() as u32);
        let (cut, checksum_at, upper_bytes) = if protocol == protocol::TCP {
            let cut = if is_v4 { Cut::TcpV4 } else { Cut::TcpV6 };
            (cut, TCP_CHECKSUM_AT, usize::from(upper[12] >> 4) * 4)
        } else {
            put_u16(upper, 4, upper.len() as u16);
            (Cut::Udp, UDP_CHECKSUM_AT, UDP_BYTES)
        };
        put_u16(upper, checksum_at, pseudo.folded());
        Virtio {
            partial: Some((upper_at as u16, checksum_at as u16)),
            cut,
            is_ecn: false,
            header_bytes: (upper_at + upper_bytes) as u16,
            piece_bytes: self.piece_bytes as u16,
        }
    }
}

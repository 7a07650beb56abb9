//! Puts whole IP packets into ESP and AH and takes them out, in tunnel and transport mode (RFC 4303, section 3.1; RFC
//! 4302, section 3.1).
//!
//! Guarantees: the protected packet's payload does not move; nothing is allocated; no bytes received can make these
//! functions panic or read outside the packet. In front of a packet there must be [`HEADROOM_BYTES`] of room, and
//! behind it [`TAILROOM_BYTES`].
//!
//! To send, a packet is framed (`seal`), an engine runs its job, and the packet is completed (`finish`). A received
//! packet is opened (`open`), run by an engine, and unframed (`unframe`).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use sealane_engine::{Job, Span};
use sealane_wire::{Ah, Esp, Ipv4, Ipv4Fields, Ipv6, Ipv6Fields, protocol};

use crate::{
    ah::{self, Alignment},
    association::{Inbound, Mode, Outbound, Parameters, Protocol},
    counters::DropReason,
    esp::{self, Given, Shape},
    marks::{self, Ecn},
    mutable::Saved,
    replay::ReplayWindow,
};

/// Room in front of a packet: an outer IPv6 header and the longest header of ESP and AH.
pub const HEADROOM_BYTES: usize = 128;
/// Room behind a packet: the longest padding, trailer and check value.
pub const TAILROOM_BYTES: usize = 64;

/// The hop limit of packets that originate here.
pub const HOPS: u8 = 64;

/// The addresses of the two ends of a tunnel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// Over IPv4.
    V4 {
        /// This gateway.
        source: Ipv4Addr,
        /// The peer.
        destination: Ipv4Addr,
    },
    /// Over IPv6.
    V6 {
        /// This gateway.
        source: Ipv6Addr,
        /// The peer.
        destination: Ipv6Addr,
    },
}

/// The fields of a tunnel's outer header that do not come from the inner one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outer {
    /// The addresses.
    pub ends: Ends,
    /// The hop limit of IPv6, the time to live of IPv4.
    pub hop_limit: u8,
    /// Forbids routers to fragment the packet (IPv4; RFC 4301, section 8.1).
    pub dont_fragment: bool,
    /// The identification (IPv4).
    pub identification: u16,
}

/// A framed packet.
#[derive(Debug)]
pub struct Framed {
    /// The job for an engine.
    pub job: Job,
    /// The place of the whole packet.
    pub packet: Span,
    /// The fields that are zero for AH.
    saved: Option<Saved>,
}

/// A received packet before its integrity is known.
#[derive(Debug)]
pub struct Opening {
    /// The job for an engine.
    pub job: Job,
    /// The packet's number.
    pub number: u64,
    packet: Span,
    /// The length of the IP headers in front of ESP or AH.
    headers_bytes: u32,
    saved: Option<Saved>,
}

/// The IP headers in front of ESP or AH, and the protocol behind them.
struct Header {
    /// The end of the headers, relative to the packet.
    bytes: u32,
    /// The place of the field that names the next protocol.
    named_at: u32,
    next: u8,
}

fn header(packet: &[u8]) -> Result<Header, DropReason> {
    match packet.first().map(|byte| byte >> 4) {
        Some(4) => {
            let ip = Ipv4::parse(packet).map_err(|_| DropReason::Malformed)?;
            if ip.is_fragment() {
                return Err(DropReason::Fragment);
            }
            Ok(Header { bytes: ip.header_bytes() as u32, named_at: 9, next: ip.protocol() })
        }
        Some(6) => {
            let upper = Ipv6::parse(packet).and_then(|ip| ip.upper()).map_err(|_| DropReason::Malformed)?;
            if upper.fragment_at.is_some() {
                return Err(DropReason::Fragment);
            }
            Ok(Header {
                bytes: upper.offset_bytes as u32,
                named_at: upper.named_at as u32,
                next: upper.protocol,
            })
        }
        _ => Err(DropReason::Malformed),
    }
}

/// Returns the length of the packet at the start of `bytes`, according to its own header.
fn total_bytes(bytes: &[u8]) -> Result<usize, DropReason> {
    match bytes.first().map(|byte| byte >> 4) {
        Some(4) => Ipv4::parse(bytes).map(|ip| ip.total_bytes()),
        Some(6) => Ipv6::parse(bytes).map(|ip| ip.total_bytes()),
        _ => return Err(DropReason::Malformed),
    }
    .map_err(|_| DropReason::Malformed)
}

/// Sets the next protocol in the IP headers of `packet`, and the length to its present one.
fn mend(packet: &mut [u8], named_at: u32, next: u8) -> Result<(), DropReason> {
    let total = u16::try_from(packet.len()).map_err(|_| DropReason::TooBig)?;
    packet[named_at as usize] = next;
    if packet[0] >> 4 == 4 {
        packet[2..4].copy_from_slice(&total.to_be_bytes());
        let mut ip = Ipv4::parse(packet).map_err(|_| DropReason::Malformed)?;
        ip.fill_checksum();
    } else {
        let payload = total.checked_sub(40).ok_or(DropReason::Malformed)?;
        packet[4..6].copy_from_slice(&payload.to_be_bytes());
    }
    Ok(())
}

/// Returns the part of a packet that transport mode carries if the IP header is not sent: the length of the header
/// that is left out, and the next protocol. Options of IPv4 cannot be left out; extension headers of IPv6 belong to
/// the part carried.
///
/// # Errors
/// Fails if the packet is malformed, is a fragment (RFC 4303, section 3.3.4), or has options.
pub fn carried(packet: &[u8]) -> Result<(u32, u8), DropReason> {
    match packet.first().map(|byte| byte >> 4) {
        Some(4) => match header(packet)? {
            Header { bytes: 20, next, .. } => Ok((20, next)),
            _ => Err(DropReason::SelectorMismatch),
        },
        Some(6) => {
            header(packet)?;
            Ok((40, packet[6]))
        }
        _ => Err(DropReason::Malformed),
    }
}

/// Writes the IP header that [`carried`] left out, in front of the data in `packet`.
///
/// # Errors
/// Fails if the packet would be longer than an IP packet can be.
pub fn give_header(packet: &mut [u8], ends: Ends, traffic_class: u8, next: u8) -> Result<(), DropReason> {
    // RFC 6864: a packet that must not be fragmented needs no identification.
    Outer { ends, hop_limit: HOPS, dont_fragment: true, identification: 0 }.write(packet, traffic_class, next)
}

/// Replaces the addresses in the IP header of `packet`, which must be of their family. Checksums of upper protocols
/// are not updated.
///
/// # Errors
/// Fails if the packet is of the other family.
pub fn readdress(packet: &mut [u8], ends: Ends, identification: u16) -> Result<(), DropReason> {
    match (ends, packet.first().map(|byte| byte >> 4)) {
        (Ends::V4 { source, destination }, Some(4)) if packet.len() >= 20 => {
            if packet[4..6] == [0, 0] {
                // A raw socket would choose an identification for 0, and AH covers the field.
                packet[4..6].copy_from_slice(&identification.max(1).to_be_bytes());
            }
            packet[12..16].copy_from_slice(&source.octets());
            packet[16..20].copy_from_slice(&destination.octets());
            Ipv4::parse(packet).map_err(|_| DropReason::Malformed)?.fill_checksum();
            Ok(())
        }
        (Ends::V6 { source, destination }, Some(6)) if packet.len() >= 40 => {
            packet[8..24].copy_from_slice(&source.octets());
            packet[24..40].copy_from_slice(&destination.octets());
            Ok(())
        }
        _ => Err(DropReason::Malformed),
    }
}

/// Returns the traffic class (service class and congestion bits) of an IP packet; `None` if `packet` is not an IP
/// packet.
pub fn traffic_class(packet: &[u8]) -> Option<u8> {
    match *packet {
        [first, second, ..] if first >> 4 == 4 => Some(second),
        [first, second, ..] if first >> 4 == 6 => Some(first << 4 | second >> 4),
        _ => None,
    }
}

impl Ends {
    /// Returns the ends `source` and `destination`; `None` if their families differ.
    pub fn of(source: IpAddr, destination: IpAddr) -> Option<Self> {
        match (source, destination) {
            (IpAddr::V4(source), IpAddr::V4(destination)) => Some(Self::V4 { source, destination }),
            (IpAddr::V6(source), IpAddr::V6(destination)) => Some(Self::V6 { source, destination }),
            _ => None,
        }
    }

    /// Returns the length of an IP header between these ends in bytes.
    pub fn header_bytes(self) -> u32 {
        match self {
            Self::V4 { .. } => 20,
            Self::V6 { .. } => 40,
        }
    }
}

impl Outer {
    fn header_bytes(&self) -> u32 {
        self.ends.header_bytes()
    }

    fn write(&self, into: &mut [u8], traffic_class: u8, next: u8) -> Result<(), DropReason> {
        let payload_bytes = into.len() - self.header_bytes() as usize;
        match self.ends {
            Ends::V4 { source, destination } => Ipv4Fields {
                traffic_class,
                identification: self.identification,
                dont_fragment: self.dont_fragment,
                time_to_live: self.hop_limit,
                protocol: next,
                source,
                destination,
            }
            .write(into, payload_bytes),
            Ends::V6 { source, destination } => Ipv6Fields {
                traffic_class,
                flow_label: 0,
                next_header: next,
                hop_limit: self.hop_limit,
                source,
                destination,
            }
            .write(into, payload_bytes),
        }
        .map_err(|_| DropReason::TooBig)
    }
}

/// Frames the IP packet at `packet` of `bytes`: in tunnel mode inside `outer`, in transport mode behind its own header.
///
/// # Errors
/// Fails if the packet is malformed, has no room around it, would become too long, or is a fragment in transport mode
/// (RFC 4303, section 3.3.4).
pub fn seal(
    outbound: &Outbound,
    bytes: &mut [u8],
    packet: Span,
    outer: &Outer,
    alignment: Alignment,
    given: &Given,
) -> Result<Framed, DropReason> {
    let Parameters { protocol, mode, suite, .. } = *outbound.association().parameters();
    let start = packet.start as usize;
    if start < HEADROOM_BYTES || bytes.len() < packet.end() + TAILROOM_BYTES {
        return Err(DropReason::NoRoom);
    }
    let inner = &bytes[packet.range()];
    let inner_header = header(inner).or_else(|reason| match (reason, mode) {
        // In tunnel mode the ports that a fragment hides do not matter.
        (DropReason::Fragment, Mode::Tunnel) => Ok(Header { bytes: 0, named_at: 0, next: 0 }),
        _ => Err(reason),
    })?;
    let class = traffic_class(inner).ok_or(DropReason::Malformed)?;
    let (header_bytes, payload, next) = match mode {
        Mode::Tunnel => {
            let next = if inner[0] >> 4 == 4 { protocol::IPV4 } else { protocol::IPV6 };
            (outer.header_bytes(), packet, next)
        }
        Mode::Transport => {
            let payload = Span::new(packet.start + inner_header.bytes, packet.len - inner_header.bytes);
            (inner_header.bytes, payload, inner_header.next)
        }
    };
    let is_ipv6 = match (mode, outer.ends) {
        (Mode::Tunnel, Ends::V6 { .. }) => true,
        (Mode::Tunnel, Ends::V4 { .. }) => false,
        (Mode::Transport, _) => inner[0] >> 4 == 6,
    };
    let shape = Shape::of(suite);
    let (own_bytes, end) = match protocol {
        Protocol::Esp => {
            let at = payload.start - shape.header_bytes();
            (shape.header_bytes(), at + shape.packet_bytes(payload.len))
        }
        Protocol::Ah => (ah::header_bytes(suite, alignment, is_ipv6) as u32, payload.end() as u32),
    };
    let framed_at = payload.start - own_bytes - header_bytes;
    let framed = Span::new(framed_at, end - framed_at);
    match mode {
        Mode::Tunnel => {
            outer.write(&mut bytes[framed.range()], marks::encapsulated(class), protocol.number())?
        }
        Mode::Transport => {
            bytes.copy_within(start..start + header_bytes as usize, framed_at as usize);
            mend(&mut bytes[framed.range()], inner_header.named_at, protocol.number())?;
        }
    }
    match protocol {
        Protocol::Esp => {
            let at = payload.start - own_bytes;
            let (job, _) = esp::lay(outbound, bytes, at, payload.len, next, given);
            Ok(Framed { job, packet: framed, saved: None })
        }
        Protocol::Ah => {
            let (ah_bytes, headers_bytes) = (own_bytes as usize, header_bytes as usize);
            let (job, saved) = ah::lay(outbound, bytes, framed, ah_bytes, headers_bytes, next, given)?;
            Ok(Framed { job, packet: framed, saved: Some(saved) })
        }
    }
}

impl Framed {
    /// Completes the packet after the engine has run its job, and returns it as it is sent.
    pub fn finish<'a>(&self, bytes: &'a mut [u8]) -> &'a [u8] {
        let packet = &mut bytes[self.packet.range()];
        if let Some(saved) = &self.saved {
            saved.restore(packet);
        }
        packet
    }
}

/// Returns the protocol and SPI that an IP packet names, if it carries ESP or AH.
pub fn named(packet: &[u8]) -> Option<(Protocol, u32)> {
    let header = header(packet).ok()?;
    let behind = packet.get(header.bytes as usize..)?;
    match header.next {
        protocol::ESP => Esp::parse(behind).ok().map(|esp| (Protocol::Esp, esp.spi())),
        protocol::AH => Ah::parse(behind).ok().map(|ah| (Protocol::Ah, ah.spi())),
        _ => None,
    }
}

/// Checks the IP packet at `packet` of `bytes` before its integrity is known.
///
/// # Errors
/// Fails if the packet cannot be genuine or its number is not new.
pub fn open(
    inbound: &Inbound,
    window: &ReplayWindow,
    bytes: &mut [u8],
    packet: Span,
    session: u16,
) -> Result<Opening, DropReason> {
    let given = bytes.get(packet.range()).ok_or(DropReason::Malformed)?;
    // Bytes that a link added behind the packet are not part of it.
    let packet = Span::new(packet.start, total_bytes(given)? as u32);
    let header = header(&bytes[packet.range()])?;
    let protocol = inbound.association().parameters().protocol;
    if header.next != protocol.number() {
        return Err(DropReason::Malformed);
    }
    match protocol {
        Protocol::Esp => {
            let at = packet.start + header.bytes;
            let esp = Span::new(at, packet.len - header.bytes);
            let (job, number) = esp::open(inbound, window, bytes, esp, session)?;
            Ok(Opening { job, number, packet, headers_bytes: header.bytes, saved: None })
        }
        Protocol::Ah => {
            let (job, number, saved) = ah::open(inbound, window, bytes, packet, session)?;
            Ok(Opening { job, number, packet, headers_bytes: header.bytes, saved: Some(saved) })
        }
    }
}

impl Opening {
    /// Accepts the packet's number after the engine has run `job`, and returns the place of the protected packet. It
    /// is called once per packet, in order.
    ///
    /// # Errors
    /// Fails if the packet is not genuine, not new, or not one that its association carries.
    pub fn unframe(
        &self,
        inbound: &Inbound,
        window: &mut ReplayWindow,
        job: &Job,
        bytes: &mut [u8],
    ) -> Result<Span, DropReason> {
        esp::accept(window, job, self.number)?;
        self.strip(inbound, bytes)
    }

    /// Returns the place of the protected packet without checking the engine's result, for measurements on
    /// preconstructed packets.
    ///
    /// # Errors
    /// Fails if the packet is not one that its association carries.
    pub fn strip(&self, inbound: &Inbound, bytes: &mut [u8]) -> Result<Span, DropReason> {
        if let Some(saved) = &self.saved {
            saved.restore(&mut bytes[self.packet.range()]);
        }
        let Parameters { protocol, mode, suite, .. } = *inbound.association().parameters();
        let headers = Span::new(self.packet.start, self.headers_bytes);
        let (payload, next) = match protocol {
            Protocol::Esp => {
                let esp = Span::new(headers.end() as u32, self.packet.len - headers.len);
                esp::payload(suite, bytes, esp)?
            }
            Protocol::Ah => {
                let at = headers.end();
                let ah = Ah::parse(&bytes[at..self.packet.end()]).map_err(|_| DropReason::Malformed)?;
                let start = (at + ah.header_bytes()) as u32;
                (Span::new(start, self.packet.end() as u32 - start), ah.next_header())
            }
        };
        match mode {
            Mode::Tunnel => unwrap(bytes, headers, payload, next),
            Mode::Transport => {
                let start = payload.start - headers.len;
                let named_at = header(&bytes[self.packet.range()])?.named_at;
                bytes.copy_within(headers.range(), start as usize);
                let packet = Span::new(start, headers.len + payload.len);
                mend(&mut bytes[packet.range()], named_at, next)?;
                Ok(packet)
            }
        }
    }
}

/// Returns the place of the packet inside a tunnel's payload, with the congestion mark of the outer header applied
/// (RFC 6040, section 4.2).
fn unwrap(bytes: &mut [u8], headers: Span, payload: Span, next: u8) -> Result<Span, DropReason> {
    let class = traffic_class(&bytes[headers.range()]).ok_or(DropReason::Malformed)?;
    let outer = Ecn::of(class);
    inner_packet(bytes, payload, next, outer)
}

/// Returns the place of the packet in the payload of a tunnel's packet, with the congestion mark of the outer header
/// applied; `next` is the payload's protocol number.
///
/// # Errors
/// Fails if the payload is not an IP packet or is a dummy, or if its marks contradict the outer header's.
pub fn inner_packet(bytes: &mut [u8], payload: Span, next: u8, outer: Ecn) -> Result<Span, DropReason> {
    let inner = &mut bytes[payload.range()];
    let version = match next {
        protocol::IPV4 => 4,
        protocol::IPV6 => 6,
        // Dummy packets (RFC 4303, section 2.6) are dropped here too.
        _ => return Err(DropReason::SelectorMismatch),
    };
    if inner.first().map(|byte| byte >> 4) != Some(version) {
        return Err(DropReason::Malformed);
    }
    let total = total_bytes(inner)?;
    let class = traffic_class(inner).ok_or(DropReason::Malformed)?;
    let mark = marks::decapsulated(Ecn::of(class), outer).ok_or(DropReason::CongestionMark)?;
    if mark != Ecn::of(class) {
        if version == 4 {
            Ipv4::parse(inner).map_err(|_| DropReason::Malformed)?.set_ecn(mark as u8);
        } else {
            Ipv6::parse(inner).map_err(|_| DropReason::Malformed)?.set_ecn(mark as u8);
        }
    }
    // Padding for traffic-flow confidentiality (RFC 4303, section 2.7) may follow the packet.
    Ok(Span::new(payload.start, total as u32))
}

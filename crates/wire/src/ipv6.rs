//! IPv6 (RFC 8200) and its extension headers.

use crate::bytes::{fields, put_u16, u16_at, u32_at};
use crate::checksum::Sum;
use crate::malformed::{Malformed, at_least};
use crate::protocol;
use std::net::Ipv6Addr;

/// Bytes of the header without extensions.
pub const IPV6_BYTES: usize = 40;

/// The header or payload behind a packet's extension headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Upper {
    /// Its protocol, see [`crate::protocol`].
    pub protocol: u8,
    /// Its offset in the packet.
    pub offset_bytes: usize,
    /// Offset of the `next header` byte that names its protocol.
    pub named_at: usize,
    /// Offset of the fragment header, if there is one.
    pub fragment_at: Option<usize>,
}

/// An IPv6 packet. The view hides bytes behind the payload length.
#[derive(Debug, Clone, Copy)]
pub struct Ipv6<B>(B);

impl<B: AsRef<[u8]>> Ipv6<B> {
    /// Returns a view of `packet`.
    ///
    /// # Errors
    /// Fails if it is cut short or not version 6.
    pub fn parse(packet: B) -> Result<Self, Malformed> {
        let bytes = packet.as_ref();
        at_least("IPv6", bytes, IPV6_BYTES)?;
        if bytes[0] >> 4 != 6 {
            let value = (bytes[0] >> 4).into();
            return Err(Malformed::Field { header: "IPv6", field: "version", value });
        }
        at_least("IPv6", bytes, IPV6_BYTES + usize::from(u16_at(bytes, 4)))?;
        Ok(Self(packet))
    }

    /// Returns the view's bytes.
    pub fn into_inner(self) -> B {
        self.0
    }

    /// Returns DSCP and ECN together.
    pub fn traffic_class(&self) -> u8 {
        (u16_at(self.0.as_ref(), 0) >> 4) as u8
    }

    /// Returns the differentiated services code point.
    pub fn dscp(&self) -> u8 {
        self.traffic_class() >> 2
    }

    /// Returns the explicit congestion notification (RFC 3168).
    pub fn ecn(&self) -> u8 {
        self.traffic_class() & 3
    }

    /// Returns the flow's label, 20 bits.
    pub fn flow_label(&self) -> u32 {
        u32_at(self.0.as_ref(), 0) & 0xf_ffff
    }

    fields! {
        /// Returns the length in bytes of everything behind the header, extensions included.
        payload_bytes: usize = u16_at(4);
        /// Returns the source address.
        source: Ipv6Addr = array_at::<16>(8);
        /// Returns the destination address.
        destination: Ipv6Addr = array_at::<16>(24);
        /// Returns the protocol of the header that follows, see [`crate::protocol`].
        next_header: u8 = u8_at(6);
        /// Hops left.
        hop_limit: u8 = u8_at(7);
    }

    /// Returns the length of the packet in bytes.
    pub fn total_bytes(&self) -> usize {
        IPV6_BYTES + self.payload_bytes()
    }

    /// Returns the bytes behind the header, extensions included.
    pub fn payload(&self) -> &[u8] {
        &self.0.as_ref()[IPV6_BYTES..self.total_bytes()]
    }

    /// Returns the first header behind hop-by-hop options, routing, fragment and destination options. The walk stops
    /// at ESP, at AH, and behind the fragment header of any fragment but the first, because the bytes there are not a
    /// header.
    ///
    /// # Errors
    /// Fails if an extension header is cut short.
    pub fn upper(&self) -> Result<Upper, Malformed> {
        let packet = &self.0.as_ref()[..self.total_bytes()];
        let mut upper =
            Upper { protocol: self.next_header(), offset_bytes: IPV6_BYTES, named_at: 6, fragment_at: None };
        // Each turn advances by at least eight bytes.
        loop {
            let at = upper.offset_bytes;
            let extension_bytes = match upper.protocol {
                protocol::HOP_BY_HOP | protocol::ROUTING | protocol::DESTINATION_OPTIONS => {
                    at_least("IPv6 extension", packet, at + 8)?;
                    (usize::from(packet[at + 1]) + 1) * 8
                }
                protocol::FRAGMENT => {
                    at_least("IPv6 extension", packet, at + 8)?;
                    upper.fragment_at.get_or_insert(at);
                    8
                }
                _ => return Ok(upper),
            };
            at_least("IPv6 extension", packet, at + extension_bytes)?;
            let is_later_piece = upper.protocol == protocol::FRAGMENT && u16_at(packet, at + 2) >> 3 != 0;
            upper.protocol = packet[at];
            upper.named_at = at;
            upper.offset_bytes = at + extension_bytes;
            if is_later_piece {
                return Ok(upper);
            }
        }
    }

    /// Returns the pseudo-header for a checksum over `upper_bytes` of `protocol`.
    pub fn pseudo_sum(&self, protocol: u8, upper_bytes: usize) -> Sum {
        Sum::pseudo_ipv6(self.source(), self.destination(), protocol, upper_bytes)
    }
}

/// Editing.
impl<B: AsRef<[u8]> + AsMut<[u8]>> Ipv6<B> {
    /// Sets DSCP and ECN.
    pub fn set_traffic_class(&mut self, value: u8) {
        let kept = u16_at(self.0.as_ref(), 0) & 0xf00f;
        put_u16(self.0.as_mut(), 0, kept | u16::from(value) << 4);
    }

    /// Sets ECN (RFC 3168) to the two low bits of `ecn`, and keeps DSCP.
    pub fn set_ecn(&mut self, ecn: u8) {
        self.set_traffic_class(self.traffic_class() & !3 | ecn & 3);
    }

    /// Sets the hops left.
    pub fn set_hop_limit(&mut self, value: u8) {
        self.0.as_mut()[7] = value;
    }
}

/// The fields of a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ipv6Fields {
    /// DSCP and ECN.
    pub traffic_class: u8,
    /// The flow's label: 20 bits; higher bits are cut off.
    pub flow_label: u32,
    /// Protocol of the header that follows, see [`crate::protocol`].
    pub next_header: u8,
    /// Hops left.
    pub hop_limit: u8,
    /// Address of the sender.
    pub source: Ipv6Addr,
    /// Address of the receiver.
    pub destination: Ipv6Addr,
}

impl Ipv6Fields {
    /// Writes the header to the front of `into`, for a payload of `payload_bytes`.
    ///
    /// # Errors
    /// Fails if `into` is too short, or the payload is longer than 65,535 bytes.
    pub fn write(&self, into: &mut [u8], payload_bytes: usize) -> Result<(), Malformed> {
        at_least("IPv6", into, IPV6_BYTES)?;
        let payload_bytes = u16::try_from(payload_bytes).map_err(|_| Malformed::Field {
            header: "IPv6",
            field: "payload length",
            value: payload_bytes as u32,
        })?;
        let first = 6 << 28 | u32::from(self.traffic_class) << 20 | self.flow_label & 0xf_ffff;
        into[..4].copy_from_slice(&first.to_be_bytes());
        put_u16(into, 4, payload_bytes);
        into[6] = self.next_header;
        into[7] = self.hop_limit;
        into[8..24].copy_from_slice(&self.source.octets());
        into[24..40].copy_from_slice(&self.destination.octets());
        Ok(())
    }
}

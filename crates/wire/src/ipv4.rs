//! IPv4 (RFC 791), with the traffic class of RFC 2474 and RFC 3168.

use crate::bytes::{fields, put_u16, u16_at};
use crate::checksum::{Sum, update};
use crate::malformed::{Malformed, at_least};
use std::net::Ipv4Addr;

/// Bytes of a header without options.
pub const IPV4_BYTES: usize = 20;

const DONT_FRAGMENT: u16 = 0x4000;
const MORE_FRAGMENTS: u16 = 0x2000;
const OFFSET: u16 = 0x1fff;

/// An IPv4 packet. The view hides bytes behind the total length, such as the padding of a short Ethernet frame.
#[derive(Debug, Clone, Copy)]
pub struct Ipv4<B>(B);

impl<B: AsRef<[u8]>> Ipv4<B> {
    /// Returns a view of `packet`. The header checksum is not verified here, see [`Ipv4::checksum_is_right`].
    ///
    /// # Errors
    /// Fails if the packet is cut short, is not version 4, or its lengths contradict each other.
    pub fn parse(packet: B) -> Result<Self, Malformed> {
        let bytes = packet.as_ref();
        at_least("IPv4", bytes, IPV4_BYTES)?;
        let field = |field, value| Malformed::Field { header: "IPv4", field, value };
        if bytes[0] >> 4 != 4 {
            return Err(field("version", (bytes[0] >> 4).into()));
        }
        let header_bytes = usize::from(bytes[0] & 15) * 4;
        if header_bytes < IPV4_BYTES {
            return Err(field("header length", header_bytes as u32));
        }
        let total_bytes = usize::from(u16_at(bytes, 2));
        if total_bytes < header_bytes {
            return Err(field("total length", total_bytes as u32));
        }
        at_least("IPv4", bytes, total_bytes)?;
        Ok(Self(packet))
    }

    /// Returns the view's bytes.
    pub fn into_inner(self) -> B {
        self.0
    }

    /// Returns the length in bytes of the header and its options.
    pub fn header_bytes(&self) -> usize {
        usize::from(self.0.as_ref()[0] & 15) * 4
    }

    fields! {
        /// Returns the length of the packet in bytes.
        total_bytes: usize = u16_at(2);
        /// Returns the identification, which all fragments of a packet share.
        identification: u16 = u16_at(4);
        /// Returns the header's checksum.
        checksum: u16 = u16_at(10);
        /// Returns the source address.
        source: Ipv4Addr = array_at::<4>(12);
        /// Returns the destination address.
        destination: Ipv4Addr = array_at::<4>(16);
        /// Returns the type of service: DSCP and ECN together.
        traffic_class: u8 = u8_at(1);
        /// Returns the number of hops left.
        time_to_live: u8 = u8_at(8);
        /// Returns the protocol of the payload, see [`crate::protocol`].
        protocol: u8 = u8_at(9);
    }

    /// Returns the differentiated services code point.
    pub fn dscp(&self) -> u8 {
        self.traffic_class() >> 2
    }

    /// Returns the explicit congestion notification (RFC 3168): 0 not capable, 1 and 2 capable, 3 congested.
    pub fn ecn(&self) -> u8 {
        self.traffic_class() & 3
    }

    /// Returns whether the packet must not be fragmented.
    pub fn dont_fragment(&self) -> bool {
        u16_at(self.0.as_ref(), 6) & DONT_FRAGMENT != 0
    }

    /// Returns whether more fragments follow this one.
    pub fn more_fragments(&self) -> bool {
        u16_at(self.0.as_ref(), 6) & MORE_FRAGMENTS != 0
    }

    /// Returns the offset of this fragment in the whole payload, in bytes.
    pub fn fragment_offset_bytes(&self) -> usize {
        usize::from(u16_at(self.0.as_ref(), 6) & OFFSET) * 8
    }

    /// Returns whether this is a fragment of a packet.
    pub fn is_fragment(&self) -> bool {
        u16_at(self.0.as_ref(), 6) & (MORE_FRAGMENTS | OFFSET) != 0
    }

    /// Returns whether the header's checksum is right.
    pub fn checksum_is_right(&self) -> bool {
        Sum::new().bytes(&self.0.as_ref()[..self.header_bytes()]).is_right()
    }

    /// Returns the options with their padding.
    pub fn options(&self) -> &[u8] {
        &self.0.as_ref()[IPV4_BYTES..self.header_bytes()]
    }

    /// Returns the bytes from the end of the header to the packet's total length, without a link's padding.
    pub fn payload(&self) -> &[u8] {
        &self.0.as_ref()[self.header_bytes()..self.total_bytes()]
    }

    /// Returns the pseudo-header for a checksum over this packet's payload.
    pub fn pseudo_sum(&self) -> Sum {
        let upper_bytes = self.total_bytes() - self.header_bytes();
        Sum::pseudo_ipv4(self.source(), self.destination(), self.protocol(), upper_bytes)
    }
}

/// Methods that edit the packet. They leave the checksum as it is ([`Ipv4::fill_checksum`] computes it) unless they
/// say otherwise.
impl<B: AsRef<[u8]> + AsMut<[u8]>> Ipv4<B> {
    /// Sets DSCP and ECN.
    pub fn set_traffic_class(&mut self, value: u8) {
        self.0.as_mut()[1] = value;
    }

    /// Sets ECN and updates the checksum (RFC 6040 does so to packets that leave a tunnel).
    pub fn set_ecn(&mut self, ecn: u8) {
        let old = u16_at(self.0.as_ref(), 0);
        self.set_traffic_class(self.traffic_class() & !3 | ecn & 3);
        self.mend(old, u16_at(self.0.as_ref(), 0));
    }

    /// Sets the offset of this fragment, and whether more follow. `offset_bytes` is a multiple of 8.
    pub fn set_fragment(&mut self, offset_bytes: u16, more: bool) {
        let kept = u16_at(self.0.as_ref(), 6) & !(MORE_FRAGMENTS | OFFSET);
        put_u16(self.0.as_mut(), 6, kept | (offset_bytes / 8) | if more { MORE_FRAGMENTS } else { 0 });
    }

    /// Sets the number of hops left and updates the checksum.
    pub fn set_time_to_live(&mut self, value: u8) {
        let old = u16_at(self.0.as_ref(), 8);
        self.0.as_mut()[8] = value;
        self.mend(old, u16_at(self.0.as_ref(), 8));
    }

    /// Sets the source address.
    pub fn set_source(&mut self, value: Ipv4Addr) {
        self.0.as_mut()[12..16].copy_from_slice(&value.octets());
    }

    /// Sets the checksum field to the given value (AH computes over 0).
    pub fn set_checksum(&mut self, value: u16) {
        put_u16(self.0.as_mut(), 10, value);
    }

    /// Computes the header's checksum.
    pub fn fill_checksum(&mut self) {
        self.set_checksum(0);
        let checksum = Sum::new().bytes(&self.0.as_ref()[..self.header_bytes()]).checksum();
        self.set_checksum(checksum);
    }

    fn mend(&mut self, old: u16, new: u16) {
        let checksum = update(self.checksum(), old, new);
        self.set_checksum(checksum);
    }
}

/// The fields of a header without options.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ipv4Fields {
    /// DSCP and ECN.
    pub traffic_class: u8,
    /// The identification, which all fragments of a packet share.
    pub identification: u16,
    /// Whether the packet must not be fragmented.
    pub dont_fragment: bool,
    /// Hops left.
    pub time_to_live: u8,
    /// Protocol of the payload, see [`crate::protocol`].
    pub protocol: u8,
    /// Address of the sender.
    pub source: Ipv4Addr,
    /// Address of the receiver.
    pub destination: Ipv4Addr,
}

impl Ipv4Fields {
    /// Writes the header, its checksum included, to the front of `into`, for a payload of `payload_bytes`.
    ///
    /// # Errors
    /// Fails if `into` is too short, or the packet would be longer than 65,535 bytes.
    pub fn write(&self, into: &mut [u8], payload_bytes: usize) -> Result<(), Malformed> {
        at_least("IPv4", into, IPV4_BYTES)?;
        let total_bytes = u16::try_from(IPV4_BYTES.saturating_add(payload_bytes)).map_err(|_| {
            Malformed::Field { header: "IPv4", field: "payload length", value: payload_bytes as u32 }
        })?;
        let header = &mut into[..IPV4_BYTES];
        header[0] = 0x45;
        header[1] = self.traffic_class;
        put_u16(header, 2, total_bytes);
        put_u16(header, 4, self.identification);
        put_u16(header, 6, if self.dont_fragment { DONT_FRAGMENT } else { 0 });
        header[8] = self.time_to_live;
        header[9] = self.protocol;
        put_u16(header, 10, 0);
        header[12..16].copy_from_slice(&self.source.octets());
        header[16..20].copy_from_slice(&self.destination.octets());
        let checksum = Sum::new().bytes(header).checksum();
        put_u16(header, 10, checksum);
        Ok(())
    }
}

//! Ethernet II, and FDDI with LLC and SNAP (RFC 1042, RFC 1390): the frames that carry IP on a local network.

use crate::bytes::{fields, put_u16, u16_at};
use crate::malformed::{Malformed, at_least};

/// A station's 48-bit address.
pub type MacAddress = [u8; 6];

/// Bytes of an Ethernet II header.
pub const ETHERNET_BYTES: usize = 14;
/// Bytes of the headers of FDDI, LLC and SNAP together.
pub const FDDI_SNAP_BYTES: usize = 21;

/// Protocols that a frame may carry.
pub mod ethertype {
    /// IPv4 (RFC 894).
    pub const IPV4: u16 = 0x0800;
    /// ARP (RFC 826).
    pub const ARP: u16 = 0x0806;
    /// IPv6 (RFC 2464).
    pub const IPV6: u16 = 0x86dd;
}

/// An Ethernet II frame without its check sequence.
#[derive(Debug, Clone, Copy)]
pub struct Ethernet<B>(B);

impl<B: AsRef<[u8]>> Ethernet<B> {
    /// Returns a view of `frame`.
    ///
    /// # Errors
    /// Fails if the frame is shorter than the header, or has a length (IEEE 802.3) where Ethernet II has a type.
    pub fn parse(frame: B) -> Result<Self, Malformed> {
        let bytes = frame.as_ref();
        at_least("Ethernet", bytes, ETHERNET_BYTES)?;
        let kind = u16_at(bytes, 12);
        if kind < 0x600 {
            return Err(Malformed::Field { header: "Ethernet", field: "type", value: kind.into() });
        }
        Ok(Self(frame))
    }

    fields! {
        /// Returns the destination address.
        destination: MacAddress = array_at(0);
        /// Returns the source address.
        source: MacAddress = array_at(6);
        /// Returns the protocol of the payload, see [`ethertype`].
        ethertype: u16 = u16_at(12);
    }

    /// Returns the bytes behind the header, with the padding of short frames.
    pub fn payload(&self) -> &[u8] {
        &self.0.as_ref()[ETHERNET_BYTES..]
    }
}

/// The fields of an Ethernet II header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EthernetFields {
    /// Address of the receiver.
    pub destination: MacAddress,
    /// Address of the sender.
    pub source: MacAddress,
    /// Protocol of the payload, see [`ethertype`].
    pub ethertype: u16,
}

impl EthernetFields {
    /// Writes the header to the front of `into`.
    ///
    /// # Errors
    /// Fails if `into` is too short.
    pub fn write(&self, into: &mut [u8]) -> Result<(), Malformed> {
        at_least("Ethernet", into, ETHERNET_BYTES)?;
        into[..6].copy_from_slice(&self.destination);
        into[6..12].copy_from_slice(&self.source);
        put_u16(into, 12, self.ethertype);
        Ok(())
    }
}

/// Frame control of asynchronous LLC frames, the only ones that carry IP.
const FRAME_CONTROL_LLC: u8 = 0x50;
/// LLC's SAPs and control for SNAP, and SNAP's organisation code for Ethernet types.
const LLC_SNAP: [u8; 6] = [0xaa, 0xaa, 0x03, 0, 0, 0];

/// An FDDI frame with LLC and SNAP, without its check sequence.
#[derive(Debug, Clone, Copy)]
pub struct Fddi<B>(B);

impl<B: AsRef<[u8]>> Fddi<B> {
    /// Returns a view of `frame`.
    ///
    /// # Errors
    /// Fails if the frame is shorter than the headers, is not an LLC frame, or has other LLC and SNAP headers than
    /// IP's.
    pub fn parse(frame: B) -> Result<Self, Malformed> {
        let bytes = frame.as_ref();
        at_least("FDDI", bytes, FDDI_SNAP_BYTES)?;
        // The low four bits of frame control are the priority.
        if bytes[0] & 0xf0 != FRAME_CONTROL_LLC {
            return Err(Malformed::Field { header: "FDDI", field: "frame control", value: bytes[0].into() });
        }
        if bytes[13..19] != LLC_SNAP {
            return Err(Malformed::Field { header: "FDDI", field: "SAP", value: u16_at(bytes, 13).into() });
        }
        Ok(Self(frame))
    }

    fields! {
        /// Returns the destination address.
        destination: MacAddress = array_at(1);
        /// Returns the source address.
        source: MacAddress = array_at(7);
        /// Returns the protocol of the payload, see [`ethertype`].
        ethertype: u16 = u16_at(19);
    }

    /// Returns the bytes behind the headers.
    pub fn payload(&self) -> &[u8] {
        &self.0.as_ref()[FDDI_SNAP_BYTES..]
    }
}

/// The fields of FDDI, LLC and SNAP headers that carry IP.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FddiFields {
    /// Address of the receiver.
    pub destination: MacAddress,
    /// Address of the sender.
    pub source: MacAddress,
    /// Protocol of the payload, see [`ethertype`].
    pub ethertype: u16,
}

impl FddiFields {
    /// Writes the headers to the front of `into`.
    ///
    /// # Errors
    /// Fails if `into` is too short.
    pub fn write(&self, into: &mut [u8]) -> Result<(), Malformed> {
        at_least("FDDI", into, FDDI_SNAP_BYTES)?;
        into[0] = FRAME_CONTROL_LLC;
        into[1..7].copy_from_slice(&self.destination);
        into[7..13].copy_from_slice(&self.source);
        into[13..19].copy_from_slice(&LLC_SNAP);
        put_u16(into, 19, self.ethertype);
        Ok(())
    }
}

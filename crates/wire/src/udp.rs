//! UDP (RFC 768).

use crate::bytes::{fields, put_u16, u16_at};
use crate::checksum::Sum;
use crate::malformed::{Malformed, at_least};

/// Bytes of the header.
pub const UDP_BYTES: usize = 8;

/// A UDP datagram. The view hides bytes behind its length.
#[derive(Debug, Clone, Copy)]
pub struct Udp<B>(B);

impl<B: AsRef<[u8]>> Udp<B> {
    /// Returns a view of `datagram`. The checksum is not verified here, see [`Udp::checksum_is_right`].
    ///
    /// # Errors
    /// Fails if the datagram is cut short, or its length field is less than a header's.
    pub fn parse(datagram: B) -> Result<Self, Malformed> {
        let bytes = datagram.as_ref();
        at_least("UDP", bytes, UDP_BYTES)?;
        let total_bytes = usize::from(u16_at(bytes, 4));
        if total_bytes < UDP_BYTES {
            return Err(Malformed::Field { header: "UDP", field: "length", value: total_bytes as u32 });
        }
        at_least("UDP", bytes, total_bytes)?;
        Ok(Self(datagram))
    }

    fields! {
        /// Returns the sender's port.
        source_port: u16 = u16_at(0);
        /// Returns the receiver's port.
        destination_port: u16 = u16_at(2);
        /// Returns the length in bytes of header and data.
        total_bytes: usize = u16_at(4);
        /// Returns the checksum; 0 means that there is no checksum.
        checksum: u16 = u16_at(6);
    }

    /// Returns whether the checksum is right, or absent. `pseudo` is the packet's pseudo-header.
    pub fn checksum_is_right(&self, pseudo: Sum) -> bool {
        self.checksum() == 0 || pseudo.bytes(&self.0.as_ref()[..self.total_bytes()]).is_right()
    }

    /// Returns the data.
    pub fn payload(&self) -> &[u8] {
        &self.0.as_ref()[UDP_BYTES..self.total_bytes()]
    }
}

/// Methods that edit the datagram. They leave the checksum as it is.
impl<B: AsRef<[u8]> + AsMut<[u8]>> Udp<B> {
    fields! {
        /// Sets the sender's port.
        set_source_port(u16) = put_u16(0);
        /// Sets the receiver's port.
        set_destination_port(u16) = put_u16(2);
        /// Sets the checksum field to the given value.
        set_checksum(u16) = put_u16(6);
    }

    /// Computes the checksum. `pseudo` is the packet's pseudo-header.
    pub fn fill_checksum(&mut self, pseudo: Sum) {
        self.set_checksum(0);
        let checksum = pseudo.bytes(&self.0.as_ref()[..self.total_bytes()]).checksum_udp();
        self.set_checksum(checksum);
    }
}

/// The fields of a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UdpFields {
    /// The sender's port.
    pub source_port: u16,
    /// The receiver's port.
    pub destination_port: u16,
}

impl UdpFields {
    /// Writes the header without a checksum to the front of `into`, for `payload_bytes` of data.
    ///
    /// # Errors
    /// Fails if `into` is too short, or the datagram would be longer than 65,535 bytes.
    pub fn write(&self, into: &mut [u8], payload_bytes: usize) -> Result<(), Malformed> {
        at_least("UDP", into, UDP_BYTES)?;
        let total_bytes = u16::try_from(UDP_BYTES.saturating_add(payload_bytes)).map_err(|_| {
            Malformed::Field { header: "UDP", field: "payload length", value: payload_bytes as u32 }
        })?;
        put_u16(into, 0, self.source_port);
        put_u16(into, 2, self.destination_port);
        put_u16(into, 4, total_bytes);
        put_u16(into, 6, 0);
        Ok(())
    }
}

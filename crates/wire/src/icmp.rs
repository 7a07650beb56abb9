//! ICMP (RFC 792) and ICMPv6 (RFC 4443), which share their first eight bytes.

use crate::bytes::{array_at, put_u16, u16_at};
use crate::checksum::Sum;
use crate::malformed::{Malformed, at_least};

/// Bytes of the header, the four that depend on the type included.
pub const ICMP_BYTES: usize = 8;

/// Types of ICMP messages.
pub mod icmp_kind {
    /// Answer to an echo request.
    pub const ECHO_REPLY: u8 = 0;
    /// Destination unreachable; code 4: fragmentation needed, with the next hop's MTU in the last two bytes (RFC 1191).
    pub const UNREACHABLE: u8 = 3;
    /// Echo request.
    pub const ECHO_REQUEST: u8 = 8;
    /// Time exceeded.
    pub const TIME_EXCEEDED: u8 = 11;
}

/// Types of ICMPv6 messages.
pub mod icmp6_kind {
    /// Destination unreachable.
    pub const UNREACHABLE: u8 = 1;
    /// Packet too big, with the next hop's MTU in the last four bytes.
    pub const TOO_BIG: u8 = 2;
    /// Time exceeded.
    pub const TIME_EXCEEDED: u8 = 3;
    /// Echo request.
    pub const ECHO_REQUEST: u8 = 128;
    /// Answer to an echo request.
    pub const ECHO_REPLY: u8 = 129;
}

/// An ICMP or ICMPv6 message. The latter's checksum covers a pseudo-header; the former's begins with [`Sum::new`].
#[derive(Debug, Clone, Copy)]
pub struct Icmp<B>(B);

impl<B: AsRef<[u8]>> Icmp<B> {
    /// A view of `message`. The checksum is not verified here, see [`Icmp::checksum_is_right`].
    ///
    /// # Errors
    /// When it is cut short.
    pub fn parse(message: B) -> Result<Self, Malformed> {
        at_least("ICMP", message.as_ref(), ICMP_BYTES)?;
        Ok(Self(message))
    }

    /// The message's type, see [`icmp_kind`] and [`icmp6_kind`].
    pub fn kind(&self) -> u8 {
        self.0.as_ref()[0]
    }

    /// What within the type it is.
    pub fn code(&self) -> u8 {
        self.0.as_ref()[1]
    }

    /// The checksum.
    pub fn checksum(&self) -> u16 {
        u16_at(self.0.as_ref(), 2)
    }

    /// Whether the checksum is right.
    pub fn checksum_is_right(&self, pseudo: Sum) -> bool {
        pseudo.bytes(self.0.as_ref()).is_right()
    }

    /// The four bytes that depend on the type: an echo's identifier and sequence number, an MTU.
    pub fn rest(&self) -> [u8; 4] {
        array_at(self.0.as_ref(), 4)
    }

    /// What is behind the header: an echo's data, or the packet that caused an error.
    pub fn payload(&self) -> &[u8] {
        &self.0.as_ref()[ICMP_BYTES..]
    }
}

/// Editing.
impl<B: AsRef<[u8]> + AsMut<[u8]>> Icmp<B> {
    /// Computes the checksum.
    pub fn fill_checksum(&mut self, pseudo: Sum) {
        put_u16(self.0.as_mut(), 2, 0);
        let checksum = pseudo.bytes(self.0.as_ref()).checksum();
        put_u16(self.0.as_mut(), 2, checksum);
    }

    /// What is behind the header, to be edited.
    pub fn payload_mut(&mut self) -> &mut [u8] {
        &mut self.0.as_mut()[ICMP_BYTES..]
    }
}

/// The fields of a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IcmpFields {
    /// The message's type.
    pub kind: u8,
    /// What within the type it is.
    pub code: u8,
    /// The four bytes that depend on the type.
    pub rest: [u8; 4],
}

impl IcmpFields {
    /// Writes the header with a checksum of 0 to the front of `into`.
    ///
    /// # Errors
    /// When that is too short.
    pub fn write(&self, into: &mut [u8]) -> Result<(), Malformed> {
        at_least("ICMP", into, ICMP_BYTES)?;
        into[..4].copy_from_slice(&[self.kind, self.code, 0, 0]);
        into[4..8].copy_from_slice(&self.rest);
        Ok(())
    }
}

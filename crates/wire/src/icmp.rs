//! ICMP (RFC 792) and ICMPv6 (RFC 4443), which share their first eight bytes.

use crate::bytes::{array_at, fields, put_u16};
use crate::checksum::Sum;
use crate::malformed::{Malformed, at_least};

/// Bytes of the header, including the four that depend on the type.
pub const ICMP_BYTES: usize = 8;

/// Types of ICMP messages.
pub mod icmp_kind {
    /// Answer to an echo request.
    pub const ECHO_REPLY: u8 = 0;
    /// Destination unreachable; code 4: fragmentation needed, with the next hop's MTU in the last two bytes (RFC 1191).
    pub const UNREACHABLE: u8 = 3;
    /// Echo request (RFC 792), with identifier and sequence number in the last four bytes.
    pub const ECHO_REQUEST: u8 = 8;
    /// Time exceeded: the time to live ran out (code 0), or fragments were missing for too long (code 1).
    pub const TIME_EXCEEDED: u8 = 11;
}

/// Types of ICMPv6 messages.
pub mod icmp6_kind {
    /// Destination unreachable.
    pub const UNREACHABLE: u8 = 1;
    /// Packet too big, with the next hop's MTU in the last four bytes.
    pub const TOO_BIG: u8 = 2;
    /// Time exceeded: the hop limit ran out (code 0), or fragments were missing for too long (code 1).
    pub const TIME_EXCEEDED: u8 = 3;
    /// Echo request (RFC 4443, section 4.1), with identifier and sequence number in the last four bytes.
    pub const ECHO_REQUEST: u8 = 128;
    /// Answer to an echo request.
    pub const ECHO_REPLY: u8 = 129;
}

/// An ICMP or ICMPv6 message. The checksum of ICMPv6 covers a pseudo-header; that of ICMP starts from [`Sum::new`].
#[derive(Debug, Clone, Copy)]
pub struct Icmp<B>(B);

impl<B: AsRef<[u8]>> Icmp<B> {
    /// Returns a view of `message`. The checksum is not verified here, see [`Icmp::checksum_is_right`].
    ///
    /// # Errors
    /// Fails if the message is cut short.
    pub fn parse(message: B) -> Result<Self, Malformed> {
        at_least("ICMP", message.as_ref(), ICMP_BYTES)?;
        Ok(Self(message))
    }

    fields! {
        /// Returns the checksum as it was sent; [`Self::checksum_is_right`] verifies it.
        checksum: u16 = u16_at(2);
        /// Returns the message's type, see [`icmp_kind`] and [`icmp6_kind`].
        kind: u8 = u8_at(0);
        /// Returns the code, which refines the type.
        code: u8 = u8_at(1);
    }

    /// Returns whether the checksum is right.
    pub fn checksum_is_right(&self, pseudo: Sum) -> bool {
        pseudo.bytes(self.0.as_ref()).is_right()
    }

    /// Returns the four bytes that depend on the type, such as an echo's identifier and sequence number, or an MTU.
    pub fn rest(&self) -> [u8; 4] {
        array_at(self.0.as_ref(), 4)
    }

    /// Returns the bytes behind the header: an echo's data, or the packet that caused an error.
    pub fn payload(&self) -> &[u8] {
        &self.0.as_ref()[ICMP_BYTES..]
    }
}

/// Methods that edit the message.
impl<B: AsRef<[u8]> + AsMut<[u8]>> Icmp<B> {
    /// Computes the checksum.
    pub fn fill_checksum(&mut self, pseudo: Sum) {
        put_u16(self.0.as_mut(), 2, 0);
        let checksum = pseudo.bytes(self.0.as_ref()).checksum();
        put_u16(self.0.as_mut(), 2, checksum);
    }
}

/// The fields of a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IcmpFields {
    /// The message's type.
    pub kind: u8,
    /// The code, which refines the type.
    pub code: u8,
    /// The four bytes that depend on the type.
    pub rest: [u8; 4],
}

impl IcmpFields {
    /// Writes the header with a checksum of 0 to the front of `into`.
    ///
    /// # Errors
    /// Fails if `into` is too short.
    pub fn write(&self, into: &mut [u8]) -> Result<(), Malformed> {
        at_least("ICMP", into, ICMP_BYTES)?;
        into[..4].copy_from_slice(&[self.kind, self.code, 0, 0]);
        into[4..8].copy_from_slice(&self.rest);
        Ok(())
    }
}

//! TCP (RFC 9293), its options (RFC 7323, RFC 2018) and ECN's flags (RFC 3168).

use crate::bytes::{fields, put_u16, put_u32, u32_at};
use crate::checksum::Sum;
use crate::malformed::{Malformed, at_least};
use std::fmt;
use std::ops::BitOr;

/// Bytes of a header without options.
pub const TCP_BYTES: usize = 20;

/// Most bytes of options in a header.
const OPTIONS_MAX_BYTES: usize = 40;

/// The flags of a segment.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct TcpFlags(pub u8);

impl TcpFlags {
    /// No flag.
    pub const NONE: Self = Self(0);
    /// No more data from the sender.
    pub const FIN: Self = Self(1);
    /// Sequence numbers start here.
    pub const SYN: Self = Self(2);
    /// The connection is gone.
    pub const RST: Self = Self(4);
    /// Data should be handed on.
    pub const PSH: Self = Self(8);
    /// The acknowledgment number counts.
    pub const ACK: Self = Self(16);
    /// The urgent pointer counts.
    pub const URG: Self = Self(32);
    /// Congestion was met (RFC 3168).
    pub const ECE: Self = Self(64);
    /// The sender has slowed down (RFC 3168).
    pub const CWR: Self = Self(128);

    /// Returns whether all of `flags` are set.
    #[must_use]
    pub const fn contains(self, flags: Self) -> bool {
        self.0 & flags.0 == flags.0
    }

    /// Returns whether any of `flags` is set.
    #[must_use]
    pub const fn intersects(self, flags: Self) -> bool {
        self.0 & flags.0 != 0
    }

    /// Returns these flags without `flags`.
    #[must_use]
    pub const fn without(self, flags: Self) -> Self {
        Self(self.0 & !flags.0)
    }
}

impl fmt::Debug for TcpFlags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let letters = [(1, 'F'), (2, 'S'), (4, 'R'), (8, 'P'), (16, '.'), (32, 'U'), (64, 'E'), (128, 'W')];
        letters.iter().filter(|(bit, _)| self.0 & bit != 0).try_for_each(|(_, letter)| write!(f, "{letter}"))
    }
}

impl BitOr for TcpFlags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

/// A TCP segment.
#[derive(Debug, Clone, Copy)]
pub struct Tcp<B>(B);

impl<B: AsRef<[u8]>> Tcp<B> {
    /// Returns a view of `segment`. The checksum is not verified here, see [`Tcp::checksum_is_right`].
    ///
    /// # Errors
    /// Fails if the segment is cut short, or its data offset is less than a header's.
    pub fn parse(segment: B) -> Result<Self, Malformed> {
        let bytes = segment.as_ref();
        at_least("TCP", bytes, TCP_BYTES)?;
        let header_bytes = usize::from(bytes[12] >> 4) * 4;
        if header_bytes < TCP_BYTES {
            return Err(Malformed::Field { header: "TCP", field: "data offset", value: header_bytes as u32 });
        }
        at_least("TCP", bytes, header_bytes)?;
        Ok(Self(segment))
    }

    /// Returns the length in bytes of the header and its options.
    pub fn header_bytes(&self) -> usize {
        usize::from(self.0.as_ref()[12] >> 4) * 4
    }

    fields! {
        /// Returns the sender's port.
        source_port: u16 = u16_at(0);
        /// Returns the receiver's port.
        destination_port: u16 = u16_at(2);
        /// Returns the number of the first byte of data, or of SYN.
        sequence_number: u32 = u32_at(4);
        /// Returns the number of the byte expected next.
        acknowledgment_number: u32 = u32_at(8);
        /// Returns the number of bytes that the sender accepts, before scaling.
        window: u16 = u16_at(14);
        /// Returns the checksum as it was sent; [`Self::checksum_is_right`] verifies it.
        checksum: u16 = u16_at(16);
        /// Returns the end of urgent data, counted from the sequence number.
        urgent_pointer: u16 = u16_at(18);
    }

    /// Returns the control bits (RFC 9293, section 3.1).
    pub fn flags(&self) -> TcpFlags {
        TcpFlags(self.0.as_ref()[13])
    }

    /// Returns whether the checksum is right. `pseudo` is the packet's pseudo-header.
    pub fn checksum_is_right(&self, pseudo: Sum) -> bool {
        pseudo.bytes(self.0.as_ref()).is_right()
    }

    /// Returns the options as bytes.
    pub fn option_bytes(&self) -> &[u8] {
        &self.0.as_ref()[TCP_BYTES..self.header_bytes()]
    }

    /// Returns the options one by one; each may be malformed.
    pub fn options(&self) -> TcpOptions<'_> {
        TcpOptions(self.option_bytes())
    }

    /// Returns the data.
    pub fn payload(&self) -> &[u8] {
        &self.0.as_ref()[self.header_bytes()..]
    }
}

/// Methods that edit the segment. They leave the checksum as it is.
impl<B: AsRef<[u8]> + AsMut<[u8]>> Tcp<B> {
    fields! {
        /// Sets the sender's port.
        set_source_port(u16) = put_u16(0);
        /// Sets the receiver's port.
        set_destination_port(u16) = put_u16(2);
        /// Sets the window, scaled.
        set_window(u16) = put_u16(14);
        /// Sets the checksum field to the given value.
        set_checksum(u16) = put_u16(16);
    }

    /// Computes the checksum. `pseudo` is the packet's pseudo-header.
    pub fn fill_checksum(&mut self, pseudo: Sum) {
        self.set_checksum(0);
        let checksum = pseudo.bytes(self.0.as_ref()).checksum();
        self.set_checksum(checksum);
    }
}

/// The fields of a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TcpFields {
    /// The sender's port.
    pub source_port: u16,
    /// The receiver's port.
    pub destination_port: u16,
    /// Number of the first byte of data, or of SYN.
    pub sequence_number: u32,
    /// Number of the byte expected next.
    pub acknowledgment_number: u32,
    /// The control bits (RFC 9293, section 3.1).
    pub flags: TcpFlags,
    /// Bytes that the sender takes, scaled.
    pub window: u16,
    /// End of urgent data, counted from the sequence number.
    pub urgent_pointer: u16,
}

impl TcpFields {
    /// Writes header and options, padded with zeros to a multiple of 4, to the front of `into`, with a checksum of 0.
    /// Returns the bytes written.
    ///
    /// # Errors
    /// Fails if `into` is too short, or there are more than 40 bytes of options.
    pub fn write(&self, into: &mut [u8], options: &[u8]) -> Result<usize, Malformed> {
        if options.len() > OPTIONS_MAX_BYTES {
            let value = options.len() as u32;
            return Err(Malformed::Field { header: "TCP", field: "options length", value });
        }
        let header_bytes = TCP_BYTES + options.len().next_multiple_of(4);
        at_least("TCP", into, header_bytes)?;
        put_u16(into, 0, self.source_port);
        put_u16(into, 2, self.destination_port);
        put_u32(into, 4, self.sequence_number);
        put_u32(into, 8, self.acknowledgment_number);
        into[12] = (header_bytes as u8 / 4) << 4;
        into[13] = self.flags.0;
        put_u16(into, 14, self.window);
        put_u16(into, 16, 0);
        put_u16(into, 18, self.urgent_pointer);
        into[TCP_BYTES..TCP_BYTES + options.len()].copy_from_slice(options);
        into[TCP_BYTES + options.len()..header_bytes].fill(0);
        Ok(header_bytes)
    }
}

/// One option.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TcpOption<'a> {
    /// Padding between options.
    NoOperation,
    /// Most bytes of data that the sender accepts in a segment.
    MaxSegmentBytes(u16),
    /// The number of bits by which windows are shifted.
    WindowScale(u8),
    /// The sender understands SACK.
    SackPermitted,
    /// Ranges received beyond the acknowledgment number: pairs of 4-byte sequence numbers, first and one past the
    /// last.
    Sack(&'a [u8]),
    /// The sender's clock, and the latest value of the receiver's clock that it saw.
    Timestamps {
        /// The sender's clock.
        value: u32,
        /// The receiver's clock as last seen.
        echo: u32,
    },
    /// Any other.
    Other {
        /// The option's kind.
        kind: u8,
        /// The bytes behind kind and length.
        data: &'a [u8],
    },
}

impl TcpOption<'_> {
    /// Writes the option to the front of `into`, and returns the number of bytes written.
    ///
    /// # Errors
    /// Fails if `into` is too short or the option longer than 255 bytes.
    pub fn write(self, into: &mut [u8]) -> Result<usize, Malformed> {
        let mut fixed = [0; 8];
        let (kind, data): (u8, &[u8]) = match self {
            Self::NoOperation => {
                at_least("TCP option", into, 1)?;
                into[0] = 1;
                return Ok(1);
            }
            Self::MaxSegmentBytes(bytes) => {
                put_u16(&mut fixed, 0, bytes);
                (2, &fixed[..2])
            }
            Self::WindowScale(bits) => {
                fixed[0] = bits;
                (3, &fixed[..1])
            }
            Self::SackPermitted => (4, &[]),
            Self::Sack(blocks) => (5, blocks),
            Self::Timestamps { value, echo } => {
                put_u32(&mut fixed, 0, value);
                put_u32(&mut fixed, 4, echo);
                (8, &fixed)
            }
            Self::Other { kind, data } => (kind, data),
        };
        let bytes = data.len() + 2;
        let length = u8::try_from(bytes).map_err(|_| Malformed::Field {
            header: "TCP option",
            field: "length",
            value: bytes as u32,
        })?;
        at_least("TCP option", into, bytes)?;
        into[..2].copy_from_slice(&[kind, length]);
        into[2..bytes].copy_from_slice(data);
        Ok(bytes)
    }
}

/// The options of a segment, up to the end-of-options mark. The iterator ends after an error.
#[derive(Debug, Clone)]
pub struct TcpOptions<'a>(&'a [u8]);

impl<'a> TcpOptions<'a> {
    /// Returns the options in `bytes`.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }
}

impl<'a> Iterator for TcpOptions<'a> {
    type Item = Result<TcpOption<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        let rest = std::mem::take(&mut self.0);
        let (&kind, behind) = rest.split_first()?;
        match kind {
            0 => return None,
            1 => {
                self.0 = behind;
                return Some(Ok(TcpOption::NoOperation));
            }
            _ => {}
        }
        let Some(&length) = behind.first() else {
            return Some(Err(Malformed::Short { header: "TCP option", need: 2, have: 1 }));
        };
        if length < 2 {
            let value = length.into();
            return Some(Err(Malformed::Field { header: "TCP option", field: "length", value }));
        }
        if let Err(short) = at_least("TCP option", rest, length.into()) {
            return Some(Err(short));
        }
        let (option, rest) = rest.split_at(length.into());
        self.0 = rest;
        let data = &option[2..];
        Some(Ok(match (kind, data) {
            (2, &[high, low]) => TcpOption::MaxSegmentBytes(u16::from_be_bytes([high, low])),
            (3, &[bits]) => TcpOption::WindowScale(bits),
            (4, []) => TcpOption::SackPermitted,
            (5, blocks) if !blocks.is_empty() && blocks.len() % 8 == 0 => TcpOption::Sack(blocks),
            (8, data) if data.len() == 8 => {
                TcpOption::Timestamps { value: u32_at(data, 0), echo: u32_at(data, 4) }
            }
            _ => TcpOption::Other { kind, data },
        }))
    }
}

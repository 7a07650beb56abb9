//! The virtio-net header that a TUN device puts before a packet (virtio 1.3 section 5.1.6, in the host's byte order
//! as `linux/virtio_net.h` has it). It names the checksum that is not complete yet, and says how a large packet is to
//! be cut.

use crate::malformed::{Malformed, at_least};

/// Bytes of the header.
pub const VIRTIO_BYTES: usize = 10;

const NEEDS_CHECKSUM: u8 = 1;
const ECN: u8 = 0x80;

/// The way in which a large packet is to be cut.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Cut {
    /// The packet is not cut: it is an ordinary one.
    #[default]
    Whole,
    /// TCP over IPv4, into segments.
    TcpV4,
    /// TCP over IPv6, into segments.
    TcpV6,
    /// UDP, into datagrams with their own headers.
    Udp,
}

/// The header's fields.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Virtio {
    /// Offset of the bytes covered by the incomplete sum, and from there the offset of its field, which holds the sum
    /// of the pseudo-header. `None` if all sums are complete.
    pub partial: Option<(u16, u16)>,
    /// The way in which the packet is to be cut.
    pub cut: Cut,
    /// Whether a segment has CWR, which only the first piece keeps.
    pub is_ecn: bool,
    /// Bytes of the headers before the data.
    pub header_bytes: u16,
    /// Bytes of data in each piece but the last.
    pub piece_bytes: u16,
}

impl Virtio {
    /// Returns the header and the packet behind it.
    ///
    /// # Errors
    /// Fails if `bytes` is cut short, or the packet is to be cut in an unknown way.
    pub fn parse(bytes: &[u8]) -> Result<(Self, &[u8]), Malformed> {
        at_least("virtio-net", bytes, VIRTIO_BYTES)?;
        let word = |at| u16::from_ne_bytes([bytes[at], bytes[at + 1]]);
        let cut = match bytes[1] & !ECN {
            0 => Cut::Whole,
            1 => Cut::TcpV4,
            4 => Cut::TcpV6,
            5 => Cut::Udp,
            other => {
                return Err(Malformed::Field {
                    header: "virtio-net",
                    field: "GSO type",
                    value: other.into(),
                });
            }
        };
        let header = Self {
            partial: (bytes[0] & NEEDS_CHECKSUM != 0).then(|| (word(6), word(8))),
            cut,
            is_ecn: bytes[1] & ECN != 0,
            header_bytes: word(2),
            piece_bytes: word(4),
        };
        Ok((header, &bytes[VIRTIO_BYTES..]))
    }

    /// Returns the header's bytes.
    #[must_use]
    pub fn to_bytes(self) -> [u8; VIRTIO_BYTES] {
        let (start, offset) = self.partial.unwrap_or_default();
        let kind = match self.cut {
            Cut::Whole => 0,
            Cut::TcpV4 => 1,
            Cut::TcpV6 => 4,
            Cut::Udp => 5,
        };
        let mut bytes = [0; VIRTIO_BYTES];
        bytes[0] = if self.partial.is_some() { NEEDS_CHECKSUM } else { 0 };
        bytes[1] = kind | if self.is_ecn { ECN } else { 0 };
        for (at, word) in [(2, self.header_bytes), (4, self.piece_bytes), (6, start), (8, offset)] {
            bytes[at..at + 2].copy_from_slice(&word.to_ne_bytes());
        }
        bytes
    }
}

//! Segments as values: decoded header fields and options, and payload by reference into a pool of the caller's.

use crate::Seq;
use core::fmt;
use core::ops::{BitOr, Deref};

/// The control bits of a segment (RFC 9293, section 3.1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Flags(pub u8);

impl Flags {
    /// No bit.
    pub const NONE: Self = Self(0);
    /// No more data from the sender.
    pub const FIN: Self = Self(1);
    /// Synchronise sequence numbers.
    pub const SYN: Self = Self(2);
    /// Reset the connection.
    pub const RST: Self = Self(4);
    /// Hand the data on at once.
    pub const PSH: Self = Self(8);
    /// The acknowledgement field counts.
    pub const ACK: Self = Self(16);
    /// The urgent pointer counts. The urgent pointer counts; this crate ignores it and delivers urgent bytes in line,
    /// as RFC 6093 wants.
    pub const URG: Self = Self(32);

    /// Returns whether all bits of `other` are set.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl BitOr for Flags {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl fmt::Debug for Flags {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (bit, letter) in [(1, 'F'), (2, 'S'), (4, 'R'), (8, 'P'), (16, '.'), (32, 'U')] {
            if self.0 & bit != 0 {
                write!(f, "{letter}")?;
            }
        }
        Ok(())
    }
}

/// The timestamps option (RFC 7323, section 3.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Timestamps {
    /// The sender's clock, in its own unit.
    pub value: u32,
    /// The latest value of the other end's clock.
    pub echo: u32,
}

/// Blocks of a selective acknowledgement (RFC 2018), each from its first byte to one behind its last.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct SackBlocks {
    blocks: [(Seq, Seq); Self::MAX],
    count: u8,
}

impl SackBlocks {
    /// The number of blocks that 40 bytes of options hold.
    pub const MAX: usize = 4;

    /// Adds a block, or drops it if there is no room.
    pub fn push(&mut self, from: Seq, to: Seq) {
        if let Some(place) = self.blocks.get_mut(usize::from(self.count)) {
            *place = (from, to);
            self.count += 1;
        }
    }
}

impl Deref for SackBlocks {
    type Target = [(Seq, Seq)];

    fn deref(&self) -> &Self::Target {
        &self.blocks[..usize::from(self.count)]
    }
}

impl fmt::Debug for SackBlocks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// The options of a segment. Other options are ignored, as RFC 9293, section 3.2 asks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Options {
    /// Most payload bytes that the sender accepts in a segment; on SYN only.
    pub mss: Option<u16>,
    /// The number of bits by which the sender shifts its windows; on SYN only.
    pub window_scale: Option<u8>,
    /// The sender understands [`Options::sack`]; on SYN only.
    pub sack_permitted: bool,
    /// The sender's clock and its echo of ours (RFC 7323); once both SYNs had them, every segment but a reset has them.
    pub timestamps: Option<Timestamps>,
    /// Blocks that have arrived beyond the acknowledgement.
    pub sack: SackBlocks,
}

/// A TCP header without ports and checksum, which the surrounding layers handle.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Header {
    /// The number of the first byte, or of SYN.
    pub seq: Seq,
    /// The next byte that the sender waits for.
    pub ack: Seq,
    /// Control bits.
    pub flags: Flags,
    /// The window field, not scaled.
    pub window: u16,
    /// The options that are understood; 40 bytes at most on the wire.
    pub options: Options,
}

/// Bytes of a pool's slot. The caller defines slots and pools; this crate only cuts payloads and hands them on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Payload {
    /// The slot's number.
    pub slot: u32,
    /// Offset of the payload in the slot.
    pub start: u32,
    /// Length of the payload in bytes.
    pub bytes: u32,
}

impl Payload {
    /// A payload without bytes. A payload owns its slot only if it has bytes.
    pub const EMPTY: Self = Self { slot: 0, start: 0, bytes: 0 };

    /// Returns the payload without its first `bytes`.
    #[must_use]
    pub const fn skip(self, bytes: u32) -> Self {
        let bytes = if bytes < self.bytes { bytes } else { self.bytes };
        Self { slot: self.slot, start: self.start + bytes, bytes: self.bytes - bytes }
    }

    /// Returns the payload's first `bytes`.
    #[must_use]
    pub const fn take(self, bytes: u32) -> Self {
        let bytes = if bytes < self.bytes { bytes } else { self.bytes };
        Self { slot: self.slot, start: self.start, bytes }
    }
}

/// A segment that has arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Segment {
    /// All that was read of the segment but ports and checksum.
    pub header: Header,
    /// The bytes behind the header, in the slot that they arrived in; none in a pure acknowledgement.
    pub payload: Payload,
}

/// The payload of a segment to be sent: parts of up to [`Parts::MAX`] messages, to be laid one behind the other.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Parts {
    parts: [Payload; Self::MAX],
    count: u8,
}

impl Parts {
    /// Most messages that share a segment.
    pub const MAX: usize = 4;

    /// Adds a part; the caller has checked that there is room.
    pub(crate) fn push(&mut self, part: Payload) {
        self.parts[usize::from(self.count)] = part;
        self.count += 1;
    }

    /// Returns the total length of the parts in bytes.
    pub fn bytes(&self) -> u32 {
        self.iter().map(|part| part.bytes).sum()
    }
}

impl Deref for Parts {
    type Target = [Payload];

    fn deref(&self) -> &Self::Target {
        &self.parts[..usize::from(self.count)]
    }
}

impl fmt::Debug for Parts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// A segment to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Transmit {
    /// All but ports and checksum, which the layer below adds.
    pub header: Header,
    /// Its payload. The slots stay the connection's until they are handed back, so a layer below that changes bytes
    /// writes them elsewhere.
    pub parts: Parts,
}

/// Returns the segment that answers a segment of no connection (RFC 9293, section 3.10.7.1), or `None` for a reset,
/// which is never answered.
pub fn reset_for(header: &Header, payload_bytes: u32) -> Option<Header> {
    if header.flags.has(Flags::RST) {
        return None;
    }
    if header.flags.has(Flags::ACK) {
        return Some(Header { seq: header.ack, flags: Flags::RST, ..Header::default() });
    }
    let syn = u32::from(header.flags.has(Flags::SYN));
    let fin = u32::from(header.flags.has(Flags::FIN));
    let ack = header.seq + payload_bytes + syn + fin;
    Some(Header { ack, flags: Flags::RST | Flags::ACK, ..Header::default() })
}

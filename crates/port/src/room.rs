//! The layout of received packets in a batch's buffer.

use crate::{Batch, Packet};
use sealane_engine::Span;

const CACHE_LINE_BYTES: usize = 64;

/// The room around a received packet, for the headers and trailers that layers will add. Packets lie side by side: if
/// the layers fill the room exactly, a batch leaves as one burst without a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Bytes before the packet.
    pub headroom_bytes: usize,
    /// Bytes that always follow the packet before padding (ESP: 2, for the padding's length and the protocol).
    pub trailer_bytes: usize,
    /// The multiple to which packet and trailer are padded (ESP: 4, or a cipher's block); at least 1.
    pub align_bytes: usize,
    /// Bytes behind the padding (ESP: the check value).
    pub tailroom_bytes: usize,
}

impl Room {
    /// No room.
    pub const NONE: Self = Self { headroom_bytes: 0, trailer_bytes: 0, align_bytes: 1, tailroom_bytes: 0 };

    /// Returns the number of bytes of a packet of `bytes` and its room.
    #[must_use]
    pub const fn total_bytes(self, bytes: usize) -> usize {
        self.headroom_bytes
            + (bytes + self.trailer_bytes).next_multiple_of(self.align_bytes)
            + self.tailroom_bytes
    }

    /// Returns the offset of a batch's first room, chosen so that its packet starts on a cache line, and often the
    /// later ones too.
    const fn first_at(self) -> usize {
        self.headroom_bytes.next_multiple_of(CACHE_LINE_BYTES) - self.headroom_bytes
    }

    /// Appends a packet of `bytes`, whose content is already in the buffer. Returns `None` if the batch has no room
    /// for it.
    pub fn push(self, batch: &mut Batch, bytes: usize) -> Option<Span> {
        let start = if batch.packets.is_empty() { self.first_at() } else { end_of(batch) };
        self.push_at(batch, start, bytes)
    }

    /// Does the same at a given offset.
    pub(crate) fn push_at(self, batch: &mut Batch, start: usize, bytes: usize) -> Option<Span> {
        let end = start.checked_add(self.total_bytes(bytes))?;
        if end > batch.work.buffer.capacity_bytes() || batch.packets.len() == batch.packets.capacity() {
            return None;
        }
        let room = Span::new(u32::try_from(start).ok()?, u32::try_from(end - start).ok()?);
        let mut packet = Packet::new(room, self.headroom_bytes as u32)?;
        let span = packet.push_back(bytes)?;
        batch.packets.push(packet);
        Some(span)
    }

    /// Appends a copy of `bytes`. Returns `false` if the batch has no room for it.
    pub fn push_bytes(self, batch: &mut Batch, bytes: &[u8]) -> bool {
        let Some(span) = self.push(batch, bytes.len()) else { return false };
        batch.work.buffer.bytes_mut()[span.range()].copy_from_slice(bytes);
        true
    }
}

/// Returns the offset at which the room of a batch's last packet ends.
pub(crate) fn end_of(batch: &Batch) -> usize {
    batch.packets.last().map_or(0, |last| last.room().end())
}

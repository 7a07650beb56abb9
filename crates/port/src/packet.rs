//! Packets in batches.
//!
//! Guarantees: a header or trailer is added and removed without moving the payload, as long as there is room, and
//! never outside the packet's own room; a batch that was cleared keeps its memory, so steady work allocates nothing;
//! a packet that a layer refuses records the reason, once, and stays in its place without bytes, so that order is
//! kept.

use sealane_engine::{Buffer, Direction, Span, Work};

use sealane_lanes::Ticket;

use crate::LayerNotes;

/// The fate of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The packet goes on.
    #[default]
    Passed,
    /// The packet's bytes make no sense to a layer, or are too few.
    Malformed,
    /// A checksum or digest without a key is wrong: the packet was damaged on the way.
    Damaged,
    /// The packet's tag is wrong: it was altered on the way, or made with other keys.
    Forged,
    /// The packet has been seen before, or is too old to decide.
    Replayed,
    /// The packet's room has no place for a layer's header or trailer.
    TooLong,
    /// No flow or port accepts the packet.
    Unwanted,
    /// There are no more sequence numbers under the packet's keys.
    Exhausted,
    /// A layer has taken the packet's content; nothing is left to go on.
    Consumed,
}

impl Verdict {
    /// All verdicts.
    pub const ALL: [Self; 9] = [
        Self::Passed,
        Self::Malformed,
        Self::Damaged,
        Self::Forged,
        Self::Replayed,
        Self::TooLong,
        Self::Unwanted,
        Self::Exhausted,
        Self::Consumed,
    ];

    /// Returns the name of its counter.
    pub const fn counter(self) -> &'static str {
        match self {
            Self::Passed => "passed_packets",
            Self::Malformed => "malformed_packets",
            Self::Damaged => "damaged_packets",
            Self::Forged => "forged_packets",
            Self::Replayed => "replayed_packets",
            Self::TooLong => "too_long_packets",
            Self::Unwanted => "unwanted_packets",
            Self::Exhausted => "exhausted_packets",
            Self::Consumed => "consumed_packets",
        }
    }
}

/// The number of packets by verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts([u64; Verdict::ALL.len()]);

impl Counts {
    /// Counts every packet of a batch.
    pub fn add(&mut self, batch: &Batch) {
        for packet in &batch.packets {
            self.0[packet.verdict as usize] += 1;
        }
    }

    /// Adds the counts of `other`.
    pub fn merge(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(own, other)| *own += other);
    }

    /// Returns the number of packets with a verdict.
    pub fn of(&self, verdict: Verdict) -> u64 {
        self.0[verdict as usize]
    }
}

/// Bytes in a separate room within a batch's buffer, with headroom before and tailroom behind them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Packet {
    room: Span,
    start: u32,
    end: u32,
    /// The verdict on the packet.
    pub verdict: Verdict,
}

impl Packet {
    /// Makes a packet without bytes, `headroom_bytes` into `room`; returns `None` if the room is shorter.
    pub fn new(room: Span, headroom_bytes: u32) -> Option<Self> {
        let start = room.start.checked_add(headroom_bytes.min(room.len))?;
        room.start.checked_add(room.len)?;
        (headroom_bytes <= room.len).then_some(Self { room, start, end: start, verdict: Verdict::Passed })
    }

    /// Returns the span of its bytes.
    pub const fn span(self) -> Span {
        Span::new(self.start, self.end - self.start)
    }

    /// Returns the number of its bytes.
    pub const fn len(self) -> usize {
        (self.end - self.start) as usize
    }

    /// Returns whether it has no bytes.
    pub const fn is_empty(self) -> bool {
        self.start == self.end
    }

    /// Returns the part of the buffer that belongs to it.
    pub const fn room(self) -> Span {
        self.room
    }

    /// Returns the number of bytes that may be added in front.
    pub const fn headroom_bytes(self) -> usize {
        (self.start - self.room.start) as usize
    }

    /// Returns the number of bytes that may be added behind.
    pub const fn tailroom_bytes(self) -> usize {
        (self.room.start + self.room.len - self.end) as usize
    }

    /// Returns whether it goes on.
    pub fn is_passed(self) -> bool {
        self.verdict == Verdict::Passed
    }

    /// Refuses the packet: it goes no further, but keeps its place, without bytes.
    pub fn refuse(&mut self, verdict: Verdict) {
        self.verdict = verdict;
        self.end = self.start;
    }

    /// Adds `bytes` in front and returns their span. If there is no room, returns `None` and leaves the packet
    /// unchanged.
    pub fn push_front(&mut self, bytes: usize) -> Option<Span> {
        let start = self.start.checked_sub(u32::try_from(bytes).ok()?).filter(|&at| at >= self.room.start)?;
        let added = Span::new(start, self.start - start);
        self.start = start;
        Some(added)
    }

    /// Adds `bytes` behind and returns their span. If there is no room, returns `None` and leaves the packet
    /// unchanged.
    pub fn push_back(&mut self, bytes: usize) -> Option<Span> {
        if bytes > self.tailroom_bytes() {
            return None;
        }
        let added = Span::new(self.end, bytes as u32);
        self.end += added.len;
        Some(added)
    }

    /// Removes `bytes` from its front and returns their span; returns `None` if it has fewer.
    pub fn pull_front(&mut self, bytes: usize) -> Option<Span> {
        if bytes > self.len() {
            return None;
        }
        let taken = Span::new(self.start, bytes as u32);
        self.start += taken.len;
        Some(taken)
    }

    /// Removes `bytes` from its end and returns their span; returns `None` if it has fewer.
    pub fn pull_back(&mut self, bytes: usize) -> Option<Span> {
        if bytes > self.len() {
            return None;
        }
        self.end -= bytes as u32;
        Some(Span::new(self.end, bytes as u32))
    }
}

/// Packets of one flow that are processed together: the unit of all operations. A single packet is a batch of one.
///
/// Trait `Port`, in crate `port`, receives into batches and sends from them.
#[derive(Debug, Default)]
pub struct Batch {
    /// The bytes of all packets, and the jobs that a layer has left for the engine.
    pub work: Work,
    /// The packets, in the order of their flow.
    pub packets: Vec<Packet>,
    /// The number of its flow.
    pub flow: u32,
    /// Its place in the flow's order.
    pub ticket: Ticket,
    /// The number of its first packet among all packets of the flow, given with the ticket: nonces and sequence
    /// numbers are derived from it.
    pub first: u64,
    /// The lane to whose stock it belongs.
    pub home: usize,
    /// The layers' notes on the packets.
    pub notes: LayerNotes,
    /// The packets are laid out, but their bytes are still to be written, by a layer.
    pub is_unwritten: bool,
}

impl Batch {
    /// Returns an empty batch over a new buffer of `buffer_bytes`, which has memory for `packets` packets.
    pub fn new(buffer_bytes: usize, packets: usize) -> Self {
        let jobs = Vec::with_capacity(packets);
        let work = Work { buffer: Buffer::new(buffer_bytes), jobs, ..Work::default() };
        Self { work, packets: Vec::with_capacity(packets), ..Self::default() }
    }

    /// Appends an empty packet of up to `bytes` bytes, with `headroom_bytes` before and `tailroom_bytes` behind them.
    /// Returns `None` if the buffer has not enough room left, or the batch has no memory for one more packet.
    pub fn push(
        &mut self,
        headroom_bytes: usize,
        bytes: usize,
        tailroom_bytes: usize,
    ) -> Option<&mut Packet> {
        if self.packets.len() == self.packets.capacity() {
            return None;
        }
        // Rooms start on a cache line, so that lanes do not share lines, and because kernels are faster with aligned
        // data.
        let start = self.packets.last().map_or(0, |last| last.room.end()).next_multiple_of(64);
        let room = headroom_bytes.checked_add(bytes)?.checked_add(tailroom_bytes)?;
        let end = start.checked_add(room).filter(|&end| end <= self.work.buffer.capacity_bytes())?;
        u32::try_from(end).ok()?;
        let packet = Packet::new(Span::new(start as u32, room as u32), headroom_bytes as u32)?;
        self.packets.push(packet);
        self.packets.last_mut()
    }

    /// Appends a packet with content; returns whether there was room.
    pub fn push_bytes(&mut self, headroom_bytes: usize, bytes: &[u8], tailroom_bytes: usize) -> bool {
        let Some(packet) = self.push(headroom_bytes, bytes.len(), tailroom_bytes) else { return false };
        let span = packet.push_back(bytes.len()).expect("it was laid out for so many bytes");
        self.work.buffer.bytes_mut()[span.range()].copy_from_slice(bytes);
        true
    }

    /// Returns a packet's bytes.
    ///
    /// # Panics
    /// Panics if there is no such packet.
    pub fn bytes(&self, packet: usize) -> &[u8] {
        &self.work.buffer.bytes()[self.packets[packet].span().range()]
    }

    /// Returns a packet's bytes for writing.
    ///
    /// # Panics
    /// Panics if there is no such packet.
    pub fn bytes_mut(&mut self, packet: usize) -> &mut [u8] {
        &mut self.work.buffer.bytes_mut()[self.packets[packet].span().range()]
    }

    /// Returns the bytes of all packets that go on.
    pub fn passed(&self) -> impl Iterator<Item = &[u8]> {
        let bytes = self.work.buffer.bytes();
        self.packets.iter().filter(|packet| packet.is_passed()).map(|packet| &bytes[packet.span().range()])
    }

    /// Resets the batch to its initial state and keeps its memory.
    pub fn clear(&mut self) {
        self.packets.clear();
        self.clear_jobs(Direction::Seal);
        self.flow = 0;
        self.ticket = Ticket::default();
        self.first = 0;
        self.notes.clear();
        self.is_unwritten = false;
    }

    /// Removes the jobs and the sessions; jobs that are added afterwards run in `direction`.
    pub fn clear_jobs(&mut self, direction: Direction) {
        self.work.jobs.clear();
        self.work.sessions.clear();
        self.work.direction = direction;
    }
}

impl sealane_lanes::Recycle for Batch {
    fn recycle(&mut self) {
        self.clear();
    }
}

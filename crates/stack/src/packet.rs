//! Packets in batches.
//!
//! Guarantees: a header or trailer is added and taken off without moving the payload, as long as there is room, and
//! never outside the packet's own room; a batch that was cleared keeps its memory, so steady work allocates nothing; a
//! packet that a layer refuses says why, once, and stays in its place with no bytes, so that order is kept.

use sealane_engine::{Buffer, Direction, Span, Work};
use sealane_tcp::{Segment, Transmit};

use crate::flow::Ticket;

/// What is to become of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// It goes on.
    #[default]
    Passed,
    /// Its bytes do not make sense to a layer, or are too few.
    Malformed,
    /// A checksum or digest without a key is wrong: it was damaged on the way.
    Damaged,
    /// Its tag is wrong: it was altered on the way, or made with other keys.
    Forged,
    /// It has been seen before, or is too old to tell.
    Replayed,
    /// Its room has no place for a layer's header or trailer.
    TooLong,
    /// No flow or port takes it.
    Unwanted,
    /// There are no more sequence numbers under its keys.
    Exhausted,
    /// A layer has taken what was in it; nothing is left to go on.
    Consumed,
}

impl Verdict {
    /// All of them.
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

    /// The name of its counter.
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

/// Packets by verdict.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts([u64; Verdict::ALL.len()]);

impl Counts {
    /// Counts every packet of a batch.
    pub fn add(&mut self, batch: &Batch) {
        for packet in &batch.packets {
            self.0[packet.verdict as usize] += 1;
        }
    }

    /// Adds what another counted.
    pub fn merge(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(own, other)| *own += other);
    }

    /// Packets with a verdict.
    pub fn of(&self, verdict: Verdict) -> u64 {
        self.0[verdict as usize]
    }
}

/// Bytes that lie in a room of their own within a batch's buffer, with headroom before and tailroom behind them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Packet {
    room: Span,
    start: u32,
    end: u32,
    /// Whether it goes on.
    pub verdict: Verdict,
}

impl Packet {
    /// No bytes, `headroom_bytes` into `room`; `None` if the room is shorter.
    pub fn new(room: Span, headroom_bytes: u32) -> Option<Self> {
        let start = room.start.checked_add(headroom_bytes.min(room.len))?;
        room.start.checked_add(room.len)?;
        (headroom_bytes <= room.len).then_some(Self { room, start, end: start, verdict: Verdict::Passed })
    }

    /// Where its bytes are.
    pub const fn span(self) -> Span {
        Span::new(self.start, self.end - self.start)
    }

    /// How many bytes it has.
    pub const fn len(self) -> usize {
        (self.end - self.start) as usize
    }

    /// Whether it has no bytes.
    pub const fn is_empty(self) -> bool {
        self.start == self.end
    }

    /// The part of the buffer that is its own.
    pub const fn room(self) -> Span {
        self.room
    }

    /// Bytes that may be added in front.
    pub const fn headroom_bytes(self) -> usize {
        (self.start - self.room.start) as usize
    }

    /// Bytes that may be added behind.
    pub const fn tailroom_bytes(self) -> usize {
        (self.room.start + self.room.len - self.end) as usize
    }

    /// Whether it goes on.
    pub fn is_passed(self) -> bool {
        self.verdict == Verdict::Passed
    }

    /// It goes no further: it keeps its place, without bytes.
    pub fn refuse(&mut self, verdict: Verdict) {
        self.verdict = verdict;
        self.end = self.start;
    }

    /// Adds `bytes` in front and says where they are. Where there is no room the packet is left as it is.
    pub fn push_front(&mut self, bytes: usize) -> Option<Span> {
        let start = self.start.checked_sub(u32::try_from(bytes).ok()?).filter(|&at| at >= self.room.start)?;
        let added = Span::new(start, self.start - start);
        self.start = start;
        Some(added)
    }

    /// Adds `bytes` behind and says where they are. Where there is no room the packet is left as it is.
    pub fn push_back(&mut self, bytes: usize) -> Option<Span> {
        if bytes > self.tailroom_bytes() {
            return None;
        }
        let added = Span::new(self.end, bytes as u32);
        self.end += added.len;
        Some(added)
    }

    /// Takes `bytes` off its front and says where they were; `None` if it has fewer.
    pub fn pull_front(&mut self, bytes: usize) -> Option<Span> {
        if bytes > self.len() {
            return None;
        }
        let taken = Span::new(self.start, bytes as u32);
        self.start += taken.len;
        Some(taken)
    }

    /// Takes `bytes` off its end and says where they were; `None` if it has fewer.
    pub fn pull_back(&mut self, bytes: usize) -> Option<Span> {
        if bytes > self.len() {
            return None;
        }
        self.end -= bytes as u32;
        Some(Span::new(self.end, bytes as u32))
    }
}

/// Packets of one flow that travel together: the unit of everything. One packet is a batch of one.
///
/// Trait `Port`, in crate `port`, receives into batches and sends from them.
#[derive(Debug, Default)]
pub struct Batch {
    /// The bytes of all packets, and the jobs that a layer has left for the engine.
    pub work: Work,
    /// The packets, in the order of their flow.
    pub packets: Vec<Packet>,
    /// Which flow.
    pub flow: u32,
    /// Its place in the flow's order.
    pub ticket: Ticket,
    /// Number of its first packet among all of the flow, given with the ticket: what nonces and sequence numbers are
    /// made of.
    pub first: u64,
    /// The lane to whose stock it belongs.
    pub(crate) home: usize,
    /// What TCP has read of the packets, before its turn.
    pub(crate) segments: Vec<Segment>,
    /// What TCP wants the packets to become, after its turn.
    pub(crate) transmits: Vec<Transmit>,
}

impl Batch {
    /// An empty batch over a new buffer of `buffer_bytes`, which has memory for `packets` packets.
    pub fn new(buffer_bytes: usize, packets: usize) -> Self {
        let jobs = Vec::with_capacity(packets);
        let work = Work { buffer: Buffer::new(buffer_bytes), jobs, ..Work::default() };
        Self { work, packets: Vec::with_capacity(packets), ..Self::default() }
    }

    /// Lays out another empty packet of up to `bytes` bytes behind the last one, with `headroom_bytes` before and
    /// `tailroom_bytes` behind them. `None` when the buffer has no such room left, or the batch no memory for one more
    /// packet.
    pub fn push(
        &mut self,
        headroom_bytes: usize,
        bytes: usize,
        tailroom_bytes: usize,
    ) -> Option<&mut Packet> {
        if self.packets.len() == self.packets.capacity() {
            return None;
        }
        // Rooms start on a cache line: lanes do not share lines, and kernels like it.
        let start = self.packets.last().map_or(0, |last| last.room.end()).next_multiple_of(64);
        let room = headroom_bytes.checked_add(bytes)?.checked_add(tailroom_bytes)?;
        let end = start.checked_add(room).filter(|&end| end <= self.work.buffer.capacity_bytes())?;
        u32::try_from(end).ok()?;
        let packet = Packet::new(Span::new(start as u32, room as u32), headroom_bytes as u32)?;
        self.packets.push(packet);
        self.packets.last_mut()
    }

    /// The same with content.
    pub fn push_bytes(&mut self, headroom_bytes: usize, bytes: &[u8], tailroom_bytes: usize) -> bool {
        let Some(packet) = self.push(headroom_bytes, bytes.len(), tailroom_bytes) else { return false };
        let span = packet.push_back(bytes.len()).expect("it was laid out for so many bytes");
        self.work.buffer.bytes_mut()[span.range()].copy_from_slice(bytes);
        true
    }

    /// A packet's bytes.
    ///
    /// # Panics
    /// When there is no such packet.
    pub fn bytes(&self, packet: usize) -> &[u8] {
        &self.work.buffer.bytes()[self.packets[packet].span().range()]
    }

    /// The same, to write.
    ///
    /// # Panics
    /// When there is no such packet.
    pub fn bytes_mut(&mut self, packet: usize) -> &mut [u8] {
        &mut self.work.buffer.bytes_mut()[self.packets[packet].span().range()]
    }

    /// The bytes of all packets that go on.
    pub fn passed(&self) -> impl Iterator<Item = &[u8]> {
        let bytes = self.work.buffer.bytes();
        self.packets.iter().filter(|packet| packet.is_passed()).map(|packet| &bytes[packet.span().range()])
    }

    /// Whether its packets are laid out, and their bytes still to be written.
    pub(crate) fn is_unwritten(&self) -> bool {
        !self.transmits.is_empty()
    }

    /// Makes it as good as new, and keeps its memory.
    pub fn clear(&mut self) {
        self.packets.clear();
        self.clear_jobs(Direction::Seal);
        self.flow = 0;
        self.ticket = Ticket::default();
        self.first = 0;
        self.segments.clear();
        self.transmits.clear();
    }

    /// Forgets the jobs, and the sessions with them; those that follow run in `direction`.
    pub fn clear_jobs(&mut self, direction: Direction) {
        self.work.jobs.clear();
        self.work.sessions.clear();
        self.work.direction = direction;
    }
}

impl crate::pool::Recycle for Batch {
    fn recycle(&mut self) {
        self.clear();
    }
}

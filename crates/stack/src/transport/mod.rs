//! One end of a TCP connection between batches of messages and batches of segments: the work of layer `tcp` in its
//! turn.

mod frames;
mod held;

use std::{collections::VecDeque, sync::Arc, time::Duration};

use sealane_tcp::{Config, Connection, HEADER_BYTES_MAX, Out, Payload, Secrets, Segment, Time, Transmit};

use crate::{Outbox, Overhead, Way};
use sealane_port::{Batch, LayerNote, Packet, Verdict};

pub(crate) use frames::{FRAME_BYTES, Frames};
pub(crate) use held::Held;
use held::{PACKETS_MAX, Slot};

/// The maximum number of segments and messages per call.
const CALL_MAX: usize = 64;
/// While more segments than this wait for batches, no segments are received.
const SENDS_MAX: usize = 1024;
/// While more delivered bytes than this wait for batches, no segments are received.
const UNDELIVERED_BYTES_MAX: usize = 1 << 20;
/// The maximum number of batches of messages that are kept until they are acknowledged; the source is asked while
/// there are fewer.
pub(crate) const BATCHES_KEPT: usize = 24;
/// The time after which sending is tried again if there was no batch.
const RETRY: Duration = Duration::from_millis(1);

/// The segments that were parsed from a batch's packets, before the connection's turn.
#[derive(Debug, Default)]
pub(crate) struct Parsed(pub(crate) Vec<Segment>);

impl LayerNote for Parsed {
    fn clear(&mut self) {
        self.0.clear();
    }
}

/// The segments that are to be written into a batch's packets, after the connection's turn.
#[derive(Debug, Default)]
pub(crate) struct Laid(pub(crate) Vec<Transmit>);

impl LayerNote for Laid {
    fn clear(&mut self) {
        self.0.clear();
    }
}

/// The place of a received payload, by its slot's number.
#[derive(Debug, Default)]
enum Received {
    #[default]
    Free,
    /// The payload is in this packet of the present batch.
    AtHand(usize),
    /// The payload was copied, because it came early; the number is its start in its batch's buffer, by which it is
    /// named.
    Kept(Vec<u8>, usize),
}

/// A batch of which the connection has not taken all messages.
#[derive(Debug)]
struct Queued {
    place: usize,
    /// The number of the next packet.
    next: usize,
}

/// A connection and the data that wait around it.
#[derive(Debug)]
pub(crate) struct State {
    config: Config,
    secrets: Secrets,
    opens: bool,
    is_framed: bool,
    overhead_below: Overhead,
    connection: Option<Box<Connection>>,
    out: Out,
    /// Segments that wait for a batch into which they are written.
    sends: VecDeque<Transmit>,
    held: Arc<Held>,
    free_places: Vec<usize>,
    /// The number of unacknowledged messages at each place.
    unacknowledged: Box<[usize]>,
    queue: VecDeque<Queued>,
    /// Batches that have no place yet.
    overflow: VecDeque<Batch>,
    received: Vec<Received>,
    free_slots: Vec<u32>,
    segments: Vec<Segment>,
    delivered: Vec<Payload>,
    frames: Frames,
    /// Messages that wait for a batch in which they go up.
    undelivered: VecDeque<Vec<u8>>,
    undelivered_bytes: usize,
    /// Delivered bytes whose consumption was not yet reported to the connection.
    unconsumed_bytes: u32,
    retry_at: Option<Time>,
}

impl State {
    pub(crate) fn new(
        config: Config,
        secrets: Secrets,
        opens: bool,
        is_framed: bool,
        overhead_below: Overhead,
        held: Arc<Held>,
    ) -> Self {
        let out = Out::new(&config, CALL_MAX);
        let slots = config.reassembly_segments + 2 * PACKETS_MAX as u32;
        Self {
            config,
            secrets,
            opens,
            is_framed,
            overhead_below,
            connection: None,
            out,
            sends: VecDeque::new(),
            free_places: (0..held.places()).collect(),
            unacknowledged: vec![0; held.places()].into(),
            held,
            queue: VecDeque::new(),
            overflow: VecDeque::new(),
            received: (0..slots).map(|_| Received::Free).collect(),
            free_slots: (0..slots).collect(),
            segments: Vec::new(),
            delivered: Vec::new(),
            frames: Frames::default(),
            undelivered: VecDeque::new(),
            undelivered_bytes: 0,
            unconsumed_bytes: 0,
            retry_at: None,
        }
    }

    /// Returns the number of batches of messages that are kept here.
    fn batches_kept(&self) -> usize {
        self.held.places() - self.free_places.len() + self.overflow.len()
    }

    /// Returns whether more messages are useful: false if so many wait for the window that more would only wait here
    /// while their buffers leave the caches.
    pub(crate) fn has_room(&self) -> bool {
        let is_ahead = match &self.connection {
            None => !self.overflow.is_empty(),
            Some(connection) => connection.unsent_bytes() > connection.congestion_window_bytes() / 2,
        };
        !is_ahead && self.batches_kept() < BATCHES_KEPT
    }

    /// Returns the time at which to call [`Self::on_deadline`].
    pub(crate) fn deadline(&self) -> Option<Time> {
        match &self.connection {
            None => self.opens.then_some(Time::ZERO),
            Some(connection) => [connection.deadline(), self.retry_at].into_iter().flatten().min(),
        }
    }

    pub(crate) fn on_deadline(&mut self, now: Time, out: &mut Outbox<'_>) {
        if self.connection.is_none() && self.opens {
            let connection = Connection::connect(&self.config, self.secrets, now, &mut self.out);
            self.connection = Some(Box::new(connection));
        }
        if let Some(connection) = &mut self.connection {
            connection.on_deadline(now, &mut self.out);
        }
        self.drain(out);
        self.go_on(now, out);
    }

    /// Takes a batch of messages.
    pub(crate) fn send(&mut self, batch: Batch, now: Time, out: &mut Outbox<'_>) {
        self.overflow.push_back(batch);
        self.go_on(now, out);
    }

    /// Takes a batch of segments, which were parsed into it.
    pub(crate) fn receive(&mut self, mut batch: Batch, now: Time, out: &mut Outbox<'_>) {
        let is_full = self.sends.len() > SENDS_MAX || self.undelivered_bytes > UNDELIVERED_BYTES_MAX;
        self.segments.clear();
        let Parsed(parsed) = batch.notes.of();
        for segment in parsed.drain(..).filter(|_| !is_full) {
            let mut segment = segment;
            let packet = segment.payload.slot as usize;
            if segment.payload.bytes > 0 {
                let Some(slot) = self.free_slots.pop() else { continue };
                self.received[slot as usize] = Received::AtHand(packet);
                segment.payload.slot = slot;
            } else {
                segment.payload = Payload::EMPTY;
            }
            self.segments.push(segment);
        }
        if self.connection.is_none() && !self.opens {
            self.accept(now);
            // This sends the answer to a SYN that came alone.
            self.drain(out);
        }
        let mut segments = std::mem::take(&mut self.segments);
        let mut taken = 0;
        while let Some(connection) = &mut self.connection
            && taken < segments.len()
        {
            match connection.receive(&segments[taken..], now, &mut self.out) {
                0 => break,
                count => taken += count,
            }
            self.drain(out);
        }
        for segment in segments.drain(..).skip(taken).filter(|segment| segment.payload.bytes > 0) {
            self.free(segment.payload.slot);
        }
        self.segments = segments;
        self.deliver(batch, out);
        self.go_on(now, out);
    }

    /// Answers the first SYN.
    fn accept(&mut self, now: Time) {
        use sealane_tcp::Flags;
        let syn = self.segments.iter().position(|segment| {
            segment.header.flags.has(Flags::SYN) && !segment.header.flags.has(Flags::ACK)
        });
        if let Some(syn) = syn {
            let header = self.segments[syn].header;
            let connection = Connection::accept(&self.config, self.secrets, &header, now, &mut self.out);
            self.connection = Some(Box::new(connection));
            for segment in self.segments.drain(..=syn).filter(|segment| segment.payload.bytes > 0) {
                self.received[segment.payload.slot as usize] = Received::Free;
                self.free_slots.push(segment.payload.slot);
            }
        }
    }

    fn free(&mut self, slot: u32) {
        self.received[slot as usize] = Received::Free;
        self.free_slots.push(slot);
    }

    /// Processes the output of a call.
    fn drain(&mut self, out: &Outbox<'_>) {
        self.sends.extend(self.out.send.drain(..));
        self.delivered.append(&mut self.out.deliver);
        for slot in self.out.acked.drain(..).chain(self.out.abandoned.drain(..)) {
            let place = Slot::of(slot).place;
            self.unacknowledged[place] -= 1;
            if self.unacknowledged[place] == 0 {
                if let Some(batch) = self.held.take(place) {
                    out.discard(batch);
                }
                self.free_places.push(place);
            }
        }
        for slot in self.out.refused.drain(..) {
            self.received[slot as usize] = Received::Free;
            self.free_slots.push(slot);
        }
        self.out.events.clear();
    }

    /// Sends up the delivered payloads, in their own batch if it holds them in order and whole, and as copies
    /// otherwise; copies payloads that came early.
    fn deliver(&mut self, mut batch: Batch, out: &mut Outbox<'_>) {
        let delivered = std::mem::take(&mut self.delivered);
        if self.goes_up_in(&batch, &delivered) {
            for payload in &delivered {
                self.unconsumed_bytes += payload.bytes;
            }
            let mut pieces = delivered.iter().peekable();
            for (index, packet) in
                batch.packets.iter_mut().enumerate().filter(|(_, packet)| packet.is_passed())
            {
                let is_at_hand = |payload: &&&Payload| matches!(self.received[payload.slot as usize], Received::AtHand(at) if at == index);
                match pieces.next_if(|payload| is_at_hand(&payload)) {
                    Some(payload) => {
                        let before = payload.start - packet.span().start
                            + if self.is_framed { FRAME_BYTES as u32 } else { 0 };
                        let behind = packet.span().end() - (payload.start + payload.bytes) as usize;
                        packet.pull_front(before as usize);
                        packet.pull_back(behind);
                    }
                    None => self.keep(index, packet, batch.work.buffer.bytes()),
                }
            }
            delivered.iter().for_each(|payload| self.free(payload.slot));
            self.delivered = delivered;
            self.delivered.clear();
            let says = |packet: &Packet| packet.verdict != Verdict::Consumed;
            if batch.packets.iter().any(says) {
                out.put(Way::Up, batch);
            } else {
                out.discard(batch);
            }
            return;
        }
        for payload in &delivered {
            self.unconsumed_bytes += payload.bytes;
            let received = std::mem::take(&mut self.received[payload.slot as usize]);
            let (start, bytes) = (payload.start as usize, payload.bytes as usize);
            let piece = match &received {
                Received::AtHand(_) => &batch.work.buffer.bytes()[start..][..bytes],
                Received::Kept(kept, began) => &kept[start - began..][..bytes],
                Received::Free => unreachable!("a slot is delivered once"),
            };
            let Self { undelivered, undelivered_bytes, frames, .. } = self;
            let mut take = |message: &[u8]| {
                *undelivered_bytes += message.len();
                undelivered.push_back(message.to_vec());
            };
            if self.is_framed {
                frames.read(piece, take);
            } else {
                take(piece);
            }
            self.free_slots.push(payload.slot);
        }
        self.delivered = delivered;
        self.delivered.clear();
        for (index, packet) in batch.packets.iter_mut().enumerate().filter(|(_, packet)| packet.is_passed()) {
            self.keep(index, packet, batch.work.buffer.bytes());
        }
        out.discard(batch);
    }

    /// Returns whether the delivered payloads are in `batch`, in order, and each is one message.
    fn goes_up_in(&self, batch: &Batch, delivered: &[Payload]) -> bool {
        let mut last = None;
        self.undelivered.is_empty()
            && delivered.iter().all(|payload| {
                let Received::AtHand(packet) = self.received[payload.slot as usize] else { return false };
                let is_next = last.is_none_or(|last| last < packet);
                last = Some(packet);
                let piece = &batch.work.buffer.bytes()[payload.start as usize..][..payload.bytes as usize];
                is_next && (!self.is_framed || self.frames.is_whole(piece))
            })
    }

    /// Ends the way of a packet; keeps a copy of its payload if the connection still needs it.
    fn keep(&mut self, index: usize, packet: &mut Packet, bytes: &[u8]) {
        let span = packet.span();
        packet.refuse(Verdict::Consumed);
        if span.is_empty() {
            return;
        }
        let is_at_hand = |segment: &Received| matches!(segment, Received::AtHand(at) if *at == index);
        if let Some(kept) = self.received.iter_mut().find(|segment| is_at_hand(segment)) {
            *kept = Received::Kept(bytes[span.range()].to_vec(), span.start as usize);
        }
    }

    /// Does all work that is possible without waiting: passes messages to the connection, and its segments and
    /// deliveries into batches.
    fn go_on(&mut self, now: Time, out: &mut Outbox<'_>) {
        self.send_up(out);
        if self.undelivered.is_empty()
            && self.unconsumed_bytes > 0
            && let Some(connection) = &mut self.connection
        {
            connection.consume(std::mem::take(&mut self.unconsumed_bytes), now, &mut self.out);
            self.drain(out);
        }
        self.offer(now, out);
        self.send_down(out);
        let is_waiting = !self.sends.is_empty() || !self.undelivered.is_empty();
        self.retry_at = is_waiting.then(|| now + RETRY);
    }

    /// Gives places to batches and their messages to the connection, as many as it takes.
    fn offer(&mut self, now: Time, out: &Outbox<'_>) {
        loop {
            while let Some(batch) = self.overflow.pop_front() {
                let messages = batch.packets.iter().filter(|packet| !packet.is_empty()).count();
                if messages == 0 || batch.packets.len() > PACKETS_MAX {
                    out.discard(batch);
                    continue;
                }
                let Some(place) = self.free_places.pop() else {
                    self.overflow.push_front(batch);
                    break;
                };
                self.unacknowledged[place] = messages;
                self.held.put(place, batch);
                self.queue.push_back(Queued { place, next: 0 });
            }
            let (Some(connection), Some(queued)) = (&mut self.connection, self.queue.front_mut()) else {
                return;
            };
            let mut found = [(Payload::EMPTY, 0); CALL_MAX];
            let count = self.held.messages(queued.place, queued.next, &mut found);
            let messages = found.map(|(message, _)| message);
            if count == 0 {
                self.queue.pop_front();
                continue;
            }
            let place = queued.place;
            match connection.send(&messages[..count], now, &mut self.out) {
                Ok(taken) => {
                    if let Some(last) = taken.checked_sub(1) {
                        queued.next = found[last].1 + 1;
                    }
                    self.drain(out);
                    if taken < count {
                        return;
                    }
                }
                // The connection has ended, so the messages will not be sent.
                Err(sealane_tcp::Closing) => {
                    self.queue.pop_front();
                    self.unacknowledged[place] = 0;
                    if let Some(batch) = self.held.take(place) {
                        out.discard(batch);
                    }
                    self.free_places.push(place);
                }
            }
        }
    }

    /// Lays out packets for segments, which [`crate::Layer::leave`] writes.
    fn send_down(&mut self, out: &mut Outbox<'_>) {
        while !self.sends.is_empty() {
            let Some(mut batch) = out.take(0) else { return };
            while let Some(transmit) = self.sends.front() {
                let Overhead { head_bytes, tail_bytes } = self.overhead_below;
                let bytes = transmit.parts.bytes() as usize;
                if batch.push(head_bytes + HEADER_BYTES_MAX, bytes, tail_bytes).is_none() {
                    break;
                }
                let Laid(transmits) = batch.notes.of();
                transmits.extend(self.sends.pop_front());
            }
            assert!(!batch.packets.is_empty(), "a batch holds a segment with its headers");
            batch.is_unwritten = true;
            out.put(Way::Down, batch);
        }
    }

    /// Copies delivered messages into batches.
    fn send_up(&mut self, out: &mut Outbox<'_>) {
        while !self.undelivered.is_empty() {
            let Some(mut batch) = out.take(0) else { return };
            while let Some(message) = self.undelivered.front() {
                if !batch.push_bytes(0, message, 0) && !batch.packets.is_empty() {
                    break;
                }
                self.undelivered_bytes -= message.len();
                self.undelivered.pop_front();
            }
            if batch.packets.is_empty() {
                out.discard(batch);
            } else {
                out.put(Way::Up, batch);
            }
        }
    }
}

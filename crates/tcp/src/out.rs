//! The results of a call, for the caller to process. The caller keeps one `Out` per lane, drains it after every call,
//! outside the lock, and uses it again; its lists then never grow.

use crate::segment::{Header, Parts, Payload, Transmit};
use crate::{Config, Event};
use alloc::vec::Vec;

/// Most events of one call: established, ended by the peer, closed, and some to spare.
const EVENTS_MAX: usize = 8;

/// The results of a call.
#[derive(Debug)]
pub struct Out {
    /// Segments to be sent, in order.
    pub send: Vec<Transmit>,
    /// Received payloads in order, to be consumed. Their slots belong to the caller again; each is delivered at most
    /// once.
    pub deliver: Vec<Payload>,
    /// Slots of messages that the peer has acknowledged whole.
    pub acked: Vec<u32>,
    /// Slots of received payloads that are not needed: duplicates, and data outside the window.
    pub refused: Vec<u32>,
    /// Slots of messages that will not be sent, or not be acknowledged, because the connection has ended.
    pub abandoned: Vec<u32>,
    /// Events for the application.
    pub events: Vec<Event>,
    send_max: usize,
    batch_max: usize,
}

impl Out {
    /// Returns an `Out` with room for the results of a batch of at most `batch` segments on a connection with this
    /// configuration. One call sends at most four times as many segments; the rest waits for the next call.
    pub fn new(config: &Config, batch: usize) -> Self {
        let batch = batch.max(1);
        let messages = config.send_messages.clamp(1, 1 << 24).next_power_of_two() as usize;
        let held = config.reassembly_segments.clamp(1, 1 << 24).next_power_of_two() as usize;
        let send_max = 4 * batch;
        Self {
            send: Vec::with_capacity(send_max),
            deliver: Vec::with_capacity(batch + held),
            acked: Vec::with_capacity(messages),
            refused: Vec::with_capacity(batch + held),
            abandoned: Vec::with_capacity(messages),
            events: Vec::with_capacity(EVENTS_MAX),
            send_max,
            batch_max: batch,
        }
    }

    /// Empties all lists and keeps their room.
    pub fn clear(&mut self) {
        self.send.clear();
        self.deliver.clear();
        self.acked.clear();
        self.refused.clear();
        self.abandoned.clear();
        self.events.clear();
    }

    /// Returns whether all lists are empty.
    pub fn is_empty(&self) -> bool {
        self.send.is_empty()
            && self.deliver.is_empty()
            && self.acked.is_empty()
            && self.refused.is_empty()
            && self.abandoned.is_empty()
            && self.events.is_empty()
    }

    /// Returns the most segments that one call takes.
    pub fn batch_max(&self) -> usize {
        self.batch_max
    }

    /// Adds a segment with this header and no payload yet. The segment is built where it stays: copying it would cost
    /// more than filling it in.
    #[inline]
    pub(crate) fn push(&mut self, header: &Header) -> &mut Transmit {
        let at = self.send.len();
        self.send.push(Transmit { header: *header, parts: Parts::default() });
        &mut self.send[at]
    }

    pub(crate) fn is_send_full(&self) -> bool {
        self.send.len() >= self.send_max
    }
}

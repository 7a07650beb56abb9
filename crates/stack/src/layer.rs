//! What a layer of a stack is.
//!
//! A layer does its work on whole batches. What any lane may do at any time is a **free** step: [`Layer::enter`] lays out
//! headers and leaves jobs for the engine, [`Layer::leave`] takes up what the engine has done. What must happen in the
//! flow's order is a **serial** step: [`Layer::serial`] gets batches one after the other and says what leaves the layer,
//! either way. What such a layer can do out of order it does before, in `enter`, and after, in `leave`, on any lane. No layer knows lanes, engines or ports; time comes in as `now`.

use std::{collections::VecDeque, fmt, sync::Arc, time::Instant};

use sealane_engine::Session;

use crate::{Batch, run::Stocks};

/// Which way packets go through a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Way {
    /// From the first layer to the last: they are sent.
    Down,
    /// From the last layer to the first: they were received.
    Up,
}

/// Bytes that a layer adds to a packet on its way down, at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Room {
    /// In front.
    pub head_bytes: usize,
    /// Behind.
    pub tail_bytes: usize,
}

impl Room {
    /// Room for both.
    pub const fn and(self, other: Self) -> Self {
        Self {
            head_bytes: self.head_bytes + other.head_bytes,
            tail_bytes: self.tail_bytes + other.tail_bytes,
        }
    }
}

/// One layer of one association. It serves both ways and every lane.
pub trait Layer: Send + Sync + fmt::Debug {
    /// What it adds on the way down.
    fn room(&self) -> Room {
        Room::default()
    }

    /// Most bytes of a packet that it takes from above, if those below it take `below` bytes.
    fn packet_bytes(&self, below: usize) -> usize {
        let Room { head_bytes, tail_bytes } = self.room();
        below.saturating_sub(head_bytes + tail_bytes)
    }

    /// Whether it is run in the flow's order, by [`Self::serial`], between [`Self::enter`] and [`Self::leave`], which
    /// then add no jobs. Of a layer that is serial both ways one way is run at a time.
    fn is_serial(&self, _way: Way) -> bool {
        false
    }

    /// Begins with a batch, on any lane: moves the packets' bounds, writes headers, adds jobs to its work. The work's
    /// jobs and sessions are empty before.
    fn enter(&self, _way: Way, _batch: &mut Batch) {}

    /// Ends with a batch, on any lane, once its jobs have run: refuses packets whose job has failed.
    fn leave(&self, _way: Way, _batch: &mut Batch) {}

    /// Takes a batch in the flow's order and puts into `out` what leaves the layer, either way.
    fn serial(&self, way: Way, batch: Batch, _now: Instant, out: &mut Outbox<'_>) {
        out.put(way, batch);
    }

    /// Whether it takes more from above now. While a layer does not, its flow's source is not asked.
    fn has_room(&self) -> bool {
        true
    }

    /// When [`Self::handle_timeout`] wants to be called.
    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    /// The time that [`Self::poll_timeout`] told has come, or is not far.
    fn handle_timeout(&self, _now: Instant, _out: &mut Outbox<'_>) {}

    /// The sessions of the authenticator and of the cipher, each alone, where the layer's jobs open what was enciphered
    /// and then authenticated: the two functions can run on two lanes then.
    fn functions(&self, _way: Way) -> Option<[&Arc<Session>; 2]> {
        None
    }
}

/// What leaves a serial step.
#[derive(Debug)]
pub struct Outbox<'a> {
    pool: &'a Stocks,
    lane: usize,
    down: VecDeque<Batch>,
    up: VecDeque<Batch>,
}

impl<'a> Outbox<'a> {
    /// An empty one of a lane, whose batches come from `pool`.
    pub(crate) fn new(pool: &'a Stocks, lane: usize) -> Self {
        Self { pool, lane, down: VecDeque::new(), up: VecDeque::new() }
    }

    /// An empty batch to be filled, of a flow. `None` when all are under way: then there is nothing to be done but to
    /// try again later.
    pub fn take(&self, flow: u32) -> Option<Batch> {
        let mut batch = self.pool.take(self.lane)?;
        batch.flow = flow;
        Some(batch)
    }

    /// Sends a batch on its way from this layer.
    pub fn put(&mut self, way: Way, batch: Batch) {
        match way {
            Way::Down => self.down.push_back(batch),
            Way::Up => self.up.push_back(batch),
        }
    }

    /// Gives a batch back of which nothing is left.
    pub fn discard(&self, batch: Batch) {
        self.pool.give(batch);
    }

    /// The next batch that leaves one way.
    pub fn next(&mut self, way: Way) -> Option<Batch> {
        match way {
            Way::Down => self.down.pop_front(),
            Way::Up => self.up.pop_front(),
        }
    }
}

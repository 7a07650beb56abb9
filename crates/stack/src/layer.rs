//! The interface of the layers of a stack.
//!
//! A layer processes whole batches. Work that any lane may do at any time is a **free** step: [`Layer::enter`] lays
//! out headers and leaves jobs for the engine, [`Layer::leave`] evaluates the results of the engine. Work that must
//! happen in the flow's order is a **serial** step: [`Layer::serial`] gets batches one after the other and decides
//! which batches leave the layer, in both directions. Such a layer does the part of its work that needs no order
//! before, in `enter`, and after, in `leave`, on any lane. No layer depends on lanes, engines or ports; the time is
//! the parameter `now`.

use std::{collections::VecDeque, fmt, sync::Arc, time::Instant};

use sealane_engine::Session;

use crate::run::Stocks;
use sealane_port::Batch;

/// The direction in which packets pass through a stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Way {
    /// From the first layer to the last: they are sent.
    Down,
    /// From the last layer to the first: they were received.
    Up,
}

/// The maximum number of bytes that a layer adds to a packet on its way down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overhead {
    /// The bytes in front.
    pub head_bytes: usize,
    /// The bytes behind.
    pub tail_bytes: usize,
}

impl Overhead {
    /// Returns the sum of both.
    pub const fn and(self, other: Self) -> Self {
        Self {
            head_bytes: self.head_bytes + other.head_bytes,
            tail_bytes: self.tail_bytes + other.tail_bytes,
        }
    }
}

/// One layer of one association. It serves both directions and every lane.
pub trait Layer: Send + Sync + fmt::Debug {
    /// Returns the bytes that it adds on the way down.
    fn overhead(&self) -> Overhead {
        Overhead::default()
    }

    /// Returns the maximum number of bytes of a packet that it takes from above, if those below it take `below`
    /// bytes.
    fn packet_bytes(&self, below: usize) -> usize {
        let Overhead { head_bytes, tail_bytes } = self.overhead();
        below.saturating_sub(head_bytes + tail_bytes)
    }

    /// Returns whether it runs in the flow's order, by [`Self::serial`], between [`Self::enter`] and [`Self::leave`],
    /// which then add no jobs. A layer that is serial in both directions runs in one direction at a time.
    fn is_serial(&self, _way: Way) -> bool {
        false
    }

    /// Starts the processing of a batch, on any lane: moves the packets' bounds, writes headers, adds jobs to its
    /// work. The work's jobs and sessions are empty before.
    fn enter(&self, _way: Way, _batch: &mut Batch) {}

    /// Ends the processing of a batch, on any lane, once its jobs have run: refuses packets whose job has failed.
    fn leave(&self, _way: Way, _batch: &mut Batch) {}

    /// Takes a batch in the flow's order and puts the batches that leave the layer into `out`, in both directions.
    fn serial(&self, way: Way, batch: Batch, _now: Instant, out: &mut Outbox<'_>) {
        out.put(way, batch);
    }

    /// Returns whether it takes more from above now. While a layer takes no more, its flow's source is not asked.
    fn has_room(&self) -> bool {
        true
    }

    /// Returns the time at which to call [`Self::handle_timeout`].
    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    /// Called when the time that [`Self::poll_timeout`] returned has come, or is near.
    fn handle_timeout(&self, _now: Instant, _out: &mut Outbox<'_>) {}

    /// Returns the sessions of the authenticator and of the cipher, each alone, if the layer's jobs open packets that
    /// were enciphered and then authenticated: the two functions can then run on two lanes.
    fn functions(&self, _way: Way) -> Option<[&Arc<Session>; 2]> {
        None
    }
}

/// The batches that leave a serial step.
#[derive(Debug)]
pub struct Outbox<'a> {
    pool: &'a Stocks,
    lane: usize,
    down: VecDeque<Batch>,
    up: VecDeque<Batch>,
}

impl<'a> Outbox<'a> {
    /// Returns an empty outbox of a lane, whose batches come from `pool`.
    pub(crate) fn new(pool: &'a Stocks, lane: usize) -> Self {
        Self { pool, lane, down: VecDeque::new(), up: VecDeque::new() }
    }

    /// Returns an empty batch of a flow, to be filled. Returns `None` when all batches are under way; the caller can
    /// only try again later.
    pub fn take(&self, flow: u32) -> Option<Batch> {
        let mut batch = self.pool.take(self.lane)?;
        batch.flow = flow;
        Some(batch)
    }

    /// Sends a batch on from this layer.
    pub fn put(&mut self, way: Way, batch: Batch) {
        match way {
            Way::Down => self.down.push_back(batch),
            Way::Up => self.up.push_back(batch),
        }
    }

    /// Gives back a batch of which nothing is left.
    pub fn discard(&self, batch: Batch) {
        self.pool.give(batch);
    }

    /// Returns the next batch that leaves in one direction.
    pub fn next(&mut self, way: Way) -> Option<Batch> {
        match way {
            Way::Down => self.down.pop_front(),
            Way::Up => self.up.pop_front(),
        }
    }
}

//! One direction of a flow: free steps, and between them the points at which its order is restored.
//!
//! Guarantees: a batch that leaves such a point has its numbers and its ticket for the next point before another lane
//! can produce a later batch.

use std::{
    collections::VecDeque,
    io,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    },
    time::Instant,
};

use super::{Ends, Plan, Sink, Source, Stocks};
use crate::{Layer, Stack, Way};
use sealane_lanes::{At, Flow, Ticket};
use sealane_port::{Batch, Counts};
use sealane_transform::debug_only;

/// The state in whose order numbers are given.
pub(super) struct Entry {
    source: Option<Box<dyn Source>>,
    /// The number of packets so far.
    packets: u64,
}

/// The state that takes batches in order, at the end of a line.
#[derive(Default)]
pub(super) struct Exit {
    sink: Option<Box<dyn Sink>>,
    /// A batch that the sink has not fully taken, and the number of its packets that are done.
    rest: Option<(Batch, usize)>,
    counts: Counts,
}

pub(super) struct Line {
    pub(super) flow: usize,
    pub(super) way: Way,
    /// The layers in the order of the direction.
    pub(super) layers: Vec<Arc<dyn Layer>>,
    /// The steps at which order is restored: serial layers, and the end.
    points: Vec<usize>,
    /// The order between two points, one per point.
    orders: Vec<Flow<Entry, Batch, Exit>>,
    /// The number of batches that have arrived at each point, if order is not kept.
    arrivals: Option<Vec<AtomicU64>>,
    /// The batches that have left the point before and wait for a ticket, per point.
    pending: Vec<Mutex<VecDeque<Batch>>>,
    /// One lock per layer from the application's side on, shared by both directions, for the turn at a serial layer.
    turns: Arc<[Mutex<()>]>,
    /// Whether the sink takes nothing for now.
    pub(super) blocked: AtomicBool,
    /// Whether there is a source that may still have packets.
    has_source: AtomicBool,
    source_fd: Option<OwnedFd>,
    sink_fd: Option<OwnedFd>,
}

debug_only!(Line { flow, way });

impl Line {
    pub(super) fn new(
        plan: &Plan,
        flow: usize,
        stack: &Stack,
        way: Way,
        ends: Ends,
        turns: Arc<[Mutex<()>]>,
    ) -> io::Result<Self> {
        let own = |fd: Option<BorrowedFd<'_>>| fd.map(|fd| fd.try_clone_to_owned()).transpose();
        let source_fd = own(ends.source.as_ref().and_then(|source| source.fd()))?;
        let sink_fd = own(ends.sink.as_ref().and_then(|sink| sink.fd()))?;
        let layers: Vec<_> =
            (0..stack.layers().len()).filter_map(|step| stack.layer(way, step).cloned()).collect();
        let serial = (0..layers.len()).filter(|&step| layers[step].is_serial(way));
        let points: Vec<usize> = serial.chain([layers.len()]).collect();
        let has_source = AtomicBool::new(ends.source.is_some());
        let (mut source, mut sink) = (ends.source, ends.sink);
        let orders = (0..points.len())
            .map(|point| {
                let entry = Entry { source: source.take(), packets: 0 };
                let last = point + 1 == points.len();
                let exit = Exit { sink: sink.take_if(|_| last), ..Exit::default() };
                Flow::new(plan.in_flight, entry, exit)
            })
            .collect();
        let arrivals = (!plan.keeps_order).then(|| points.iter().map(|_| AtomicU64::new(0)).collect());
        let pending = points.iter().map(|_| Mutex::new(VecDeque::with_capacity(plan.batches))).collect();
        let blocked = AtomicBool::new(false);
        Ok(Self {
            flow,
            way,
            layers,
            points,
            orders,
            arrivals,
            pending,
            turns,
            blocked,
            has_source,
            source_fd,
            sink_fd,
        })
    }

    /// Returns the place of a step among the stack's layers; the end belongs to the last layer before it.
    pub(super) fn at(&self, step: usize) -> At {
        let last = self.layers.len().saturating_sub(1);
        let layer = match self.way {
            Way::Down => step.min(last),
            Way::Up => last.saturating_sub(step),
        };
        At { flow: self.flow, layer, part: 0 }
    }

    /// Returns the point at a step, if order is restored there.
    pub(super) fn point_at(&self, step: usize) -> Option<usize> {
        self.points.binary_search(&step).ok()
    }

    /// Returns whether it has a layer that is run in order.
    pub(super) fn has_serial(&self) -> bool {
        self.points.len() > 1
    }

    /// Returns the lock for the turn of a step's layer.
    pub(super) fn turn(&self, step: usize) -> &Mutex<()> {
        match self.way {
            Way::Down => &self.turns[step],
            Way::Up => &self.turns[self.turns.len() - 1 - step],
        }
    }

    /// Returns whether a batch could be taken at a point now.
    pub(super) fn is_ready(&self, point: usize) -> bool {
        self.orders[point].is_ready() && self.is_clear(point + 1)
    }

    /// Returns whether every layer takes more from above.
    pub(super) fn has_room(&self) -> bool {
        self.way == Way::Up || self.layers.iter().all(|layer| layer.has_room())
    }

    /// Returns the step of a point.
    pub(super) fn step_of(&self, point: usize) -> usize {
        self.points[point]
    }

    /// Returns whether a point is the end of the line.
    pub(super) fn is_end(&self, point: usize) -> bool {
        point + 1 == self.points.len()
    }

    pub(super) fn order(&self, point: usize) -> &Flow<Entry, Batch, Exit> {
        &self.orders[point]
    }

    /// Returns the place of a batch that has come to a point: its ticket's, or the next one if order is not kept. As
    /// many batches arrive as were given a ticket, so the next place is free as well.
    pub(super) fn place(&self, point: usize, ticket: Ticket) -> Ticket {
        match &self.arrivals {
            None => ticket,
            Some(arrivals) => Ticket { number: arrivals[point].fetch_add(1, SeqCst), ..ticket },
        }
    }

    pub(super) fn counts(&self) -> Counts {
        self.orders[self.points.len() - 1].with_restored(|exit| exit.counts)
    }

    pub(super) fn source_fd(&self) -> Option<BorrowedFd<'_>> {
        self.source_fd.as_ref().map(|fd| fd.as_fd())
    }

    /// Returns whether there is a source that may still have packets.
    pub(super) fn has_source(&self) -> bool {
        self.has_source.load(SeqCst)
    }

    /// Returns the time at which to ask the source again even if nothing becomes readable.
    pub(super) fn source_timeout(&self) -> Option<Instant> {
        self.orders[0].with_given(|entry| entry.source.as_ref().and_then(|source| source.poll_timeout()))
    }

    pub(super) fn sink_fd(&self) -> Option<BorrowedFd<'_>> {
        self.sink_fd.as_ref().map(|fd| fd.as_fd())
    }

    /// Fills `batch` from the source and gives it its place. Without a free place nothing is received; without
    /// packets no place is given, and the result is `false`.
    pub(super) fn receive(&self, batch: &mut Batch) -> io::Result<bool> {
        let mut failure = None;
        let given = self.orders[0].give(|entry, _| {
            let packets = match entry.source.as_mut()?.receive(batch) {
                Ok(0) => {
                    self.has_source.store(false, SeqCst);
                    return None;
                }
                Ok(packets) => packets,
                Err(error) => {
                    failure = Some(error).filter(|error| error.kind() != io::ErrorKind::WouldBlock);
                    return None;
                }
            };
            let first = entry.packets;
            entry.packets += packets as u64;
            Some(first)
        });
        if let Some((ticket, first)) = given {
            (batch.ticket, batch.first, batch.flow) = (ticket, first, self.flow as u32);
        }
        match failure {
            Some(error) => Err(error),
            None => Ok(given.is_some()),
        }
    }

    fn pending(&self, point: usize) -> MutexGuard<'_, VecDeque<Batch>> {
        self.pending[point].lock().expect("no lane panics holding what is pending")
    }

    /// Returns whether no batch waits to go on towards a point.
    pub(super) fn is_clear(&self, point: usize) -> bool {
        self.pending(point).is_empty()
    }

    /// Sends the batches that have left the point before on towards `point`: each batch gets its place, or waits for
    /// one. Batches with a place go to `ready`. Returns whether all batches got one.
    pub(super) fn send_on(
        &self,
        point: usize,
        batches: impl Iterator<Item = Batch>,
        mut ready: impl FnMut(Batch),
    ) -> bool {
        let mut pending = self.pending(point);
        pending.extend(batches);
        while let Some(batch) = pending.front_mut() {
            let packets = batch.packets.len() as u64;
            let place = self.orders[point].give(|entry, _| {
                entry.packets += packets;
                Some(entry.packets - packets)
            });
            let Some((ticket, first)) = place else { return false };
            (batch.ticket, batch.first, batch.flow) = (ticket, first, self.flow as u32);
            if let Some(batch) = pending.pop_front() {
                ready(batch);
            }
        }
        true
    }

    /// Passes the batches that have arrived at the end to the sink, in order. Returns the number of batches.
    pub(super) fn finish(&self, pool: &Stocks) -> io::Result<usize> {
        let mut failure = None;
        let end = &self.orders[self.points.len() - 1];
        let mut note = |result: io::Result<bool>| {
            let done = result.map_err(|error| failure = Some(error)).unwrap_or(false);
            self.blocked.store(!done, SeqCst);
            done
        };
        let note = std::cell::RefCell::new(&mut note);
        let mut rests = 0;
        let taken = end.drain(
            |exit| match exit.rest.take() {
                None => true,
                Some((batch, from)) => {
                    let done = (note.borrow_mut())(exit.send(batch, from, pool));
                    rests += usize::from(done);
                    done
                }
            },
            |exit, batch| {
                (note.borrow_mut())(exit.send(batch, 0, pool));
            },
        );
        let taken = taken + rests;
        failure.map_or(Ok(taken), Err)
    }
}

/// Turns an error of kind `WouldBlock` into 0.
fn none_now(result: io::Result<usize>) -> io::Result<usize> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
        result => result,
    }
}

impl Exit {
    /// Returns true if the sink has taken the whole batch; otherwise keeps the rest.
    fn send(&mut self, batch: Batch, mut from: usize, pool: &Stocks) -> io::Result<bool> {
        if let Some(sink) = &mut self.sink {
            while from < batch.packets.len() {
                let sent = none_now(sink.send(&batch, from))?;
                from += sent;
                if sent == 0 {
                    self.rest = Some((batch, from));
                    return Ok(false);
                }
            }
        }
        self.counts.add(&batch);
        pool.give(batch);
        Ok(true)
    }
}

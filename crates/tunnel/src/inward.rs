//! Inward: trains of peers become packets for the device.
//!
//! Guarantees: nothing reaches the device that was not genuine, new, and of the peer whose networks it names; every other
//! packet is counted under its reason; what a stranger sends costs a look at its SPI. Nothing is allocated a packet.
//!
//! An arrival goes through two hands: [`Opener::open`] on any lane, [`Acceptor::accept`] in arrival order.

use std::{net::SocketAddr, sync::Arc, time::Instant};

use sealane_engine::{Direction, Job, Queue, Span};
use sealane_ipsec::{
    association::{Inbound, Protocol},
    counters::DropReason,
    database::View,
    esp,
    flow::{Way, flow},
    frame,
    lifetime::Age,
    marks::Ecn,
    policy::{Action, PeerId, PolicyCache},
    selector::Flow,
};
use sealane_stack::{Batch, Packet, Recycle, Verdict};
use sealane_wire::Esp;

use crate::{engine::run, peers::Peers};

/// A packet under way through the engine.
#[derive(Debug)]
struct Pending {
    index: usize,
    inbound: Arc<Inbound>,
    number: u64,
    job: usize,
}

/// What was received in one call.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub(crate) batch: Batch,
    /// Where it came from.
    pub(crate) source: Option<SocketAddr>,
    pending: Vec<Pending>,
}

const PACKETS_MAX: usize = 512;
/// Two trains: the port asks for the room of one beside what is there.
const BUFFER_BYTES: usize = 2 * 65_536;

impl Arrival {
    /// An empty one.
    pub(crate) fn new() -> Self {
        let batch = Batch::new(BUFFER_BYTES, PACKETS_MAX);
        Self { batch, source: None, pending: Vec::with_capacity(PACKETS_MAX) }
    }
}

impl Recycle for Arrival {
    fn recycle(&mut self) {
        self.batch.clear();
        self.source = None;
        self.pending.clear();
    }
}

/// Finds associations and runs jobs, on any lane.
pub(crate) struct Opener<'a> {
    peers: &'a Peers,
    view: View<'a>,
    queue: Box<dyn Queue>,
}

impl<'a> Opener<'a> {
    /// A lane over `peers`, opening through `queue`.
    pub(crate) fn new(peers: &'a Peers, queue: Box<dyn Queue>) -> Self {
        Self { peers, view: peers.database().view(), queue }
    }

    /// Opens what arrived.
    pub(crate) fn open(&mut self, arrival: &mut Arrival, now: Instant) {
        arrival.batch.clear_jobs(Direction::Open);
        for index in 0..arrival.batch.packets.len() {
            if let Err(reason) = self.begin(arrival, index, now) {
                self.peers.drops().count(reason);
                arrival.batch.packets[index].refuse(Verdict::Unwanted);
            }
        }
        run(&mut *self.queue, &mut arrival.batch.work);
    }

    /// Finds a packet's association and lays its job.
    fn begin(&mut self, arrival: &mut Arrival, index: usize, now: Instant) -> Result<(), DropReason> {
        let Arrival { batch, pending, .. } = arrival;
        let packet = batch.packets[index].span();
        let spi = Esp::parse(batch.bytes(index)).map_err(|_| DropReason::Malformed)?.spi();
        let inbound = match pending.last() {
            Some(last) if last.inbound.association().parameters().spi == spi => Arc::clone(&last.inbound),
            // The keep-alives and the marker of RFC 3948 have no association either.
            _ => {
                let found = self.view.load().inbound.get(&(Protocol::Esp, spi));
                let found = Arc::clone(found.ok_or(DropReason::UnknownSpi)?);
                if found.association().age(now) == Age::Hard {
                    return Err(DropReason::Expired);
                }
                found
            }
        };
        let session = batch.work.session(inbound.association().session());
        let session = session.expect("fewer sessions than packets");
        let bytes = batch.work.buffer.bytes();
        let (job, number) = esp::open(&inbound, &inbound.window(), bytes, packet, session)?;
        pending.push(Pending { index, inbound, number, job: batch.work.jobs.len() });
        batch.work.jobs.push(job);
        Ok(())
    }
}

/// Takes what is genuine, in arrival order.
pub(crate) struct Acceptor<'a> {
    peers: &'a Peers,
    view: View<'a>,
    cache: PolicyCache,
    /// The flow that was looked up last, and the peer that it may come from.
    last: Option<(Flow, PeerId)>,
}

impl<'a> Acceptor<'a> {
    /// Over `peers`.
    pub(crate) fn new(peers: &'a Peers) -> Self {
        let mut view = peers.database().view();
        let cache = PolicyCache::new(Arc::clone(&view.load().policies));
        Self { peers, view, cache, last: None }
    }

    /// Leaves in the batch the packets for the device.
    pub(crate) fn accept(&mut self, arrival: &mut Arrival) {
        let Arrival { batch, pending, source } = arrival;
        for run in pending.chunk_by(|one, other| Arc::ptr_eq(&one.inbound, &other.inbound)) {
            let inbound = &run[0].inbound;
            let association = inbound.association();
            let peer = association.parameters().peer;
            let (mut packets, mut inner_bytes, mut outer_bytes) = (0, 0, 0);
            let mut window = inbound.window();
            for &Pending { index, number, job, .. } in run {
                let is_newest = number > window.top();
                let job: Job = batch.work.jobs[job];
                let outer = batch.packets[index];
                let inner = esp::accept(&mut window, &job, number).and_then(|()| {
                    // A peer is where its newest genuine packet came from.
                    if let (true, Some(source)) = (is_newest, *source) {
                        self.peers.heard(peer, source);
                    }
                    self.inner(batch, inbound, outer)
                });
                match inner {
                    Ok(inner) => {
                        packets += 1;
                        inner_bytes += u64::from(inner.len);
                        outer_bytes += outer.len() as u64;
                        shrink(&mut batch.packets[index], inner);
                    }
                    Err(reason) => {
                        self.peers.drops().count(reason);
                        batch.packets[index].refuse(Verdict::Unwanted);
                    }
                }
            }
            drop(window);
            association.carried().add(packets, inner_bytes);
            self.peers.received(peer, packets, outer_bytes);
        }
    }

    /// The inner packet, if the peer may send it.
    fn inner(&mut self, batch: &mut Batch, inbound: &Inbound, outer: Packet) -> Result<Span, DropReason> {
        let parameters = inbound.association().parameters();
        let bytes = batch.work.buffer.bytes_mut();
        let (payload, next) = esp::payload(parameters.suite, bytes, outer.span())?;
        // The socket does not tell the outer header's mark; the inner one stays.
        let inner = frame::inner_packet(bytes, payload, next, Ecn::NotCapable)?;
        let flow = flow(&bytes[inner.range()], Way::In)?;
        let is_other = self.cache.follow(&self.view.load().policies);
        if is_other || self.last != Some((flow, parameters.peer)) {
            // RFC 4301, section 5.2: what came out must be what this association may carry.
            self.last = None;
            if self.cache.decide(&flow)? != Action::Protect(parameters.peer) {
                return Err(DropReason::SelectorMismatch);
            }
            self.last = Some((flow, parameters.peer));
        }
        Ok(inner)
    }
}

/// Leaves of `packet` the part that is `inner`.
fn shrink(packet: &mut Packet, inner: Span) {
    let outer = packet.span();
    let front = (inner.start - outer.start) as usize;
    let behind = outer.end() - inner.end();
    let is_within = packet.pull_front(front).is_some() && packet.pull_back(behind).is_some();
    assert!(is_within, "a payload lies within its packet");
}

//! Outward: what the device gives becomes sealed trains for peers.
//!
//! Guarantees: numbers are given in arrival order before anything is sealed; a packet that policy does not let into the tunnel is
//! counted under its reason and goes nowhere; nothing is allocated a packet.
//!
//! A load goes through three hands: [`Router::plan`] in arrival order, [`Sealer::seal`] on any lane, [`send`] in arrival order.

use std::{io, net::SocketAddr, sync::Arc, time::Instant};

use sealane_engine::{Direction, Queue};
use sealane_ipsec::{
    association::{Mode, Outbound, Parameters},
    counters::DropReason,
    database::{Request, View},
    esp::{self, Given, Shape},
    flow::{FlowMark, Way, flow},
    frame,
    lifetime::Age,
    marks,
    policy::{Action, PeerId, PolicyCache},
    segment_size,
    selector::Flow,
    suite::Iv,
};
use sealane_port::{Port, Room};
use sealane_stack::{Batch, Recycle, Verdict};
use sealane_wire::protocol;

use crate::{engine::run, outside::Outside, peers::Peers, site::Site};

/// Packets that follow each other to one peer under one association.
#[derive(Debug)]
struct Run {
    /// Packets of the batch, up to this one.
    end: usize,
    outbound: Arc<Outbound>,
    peer: PeerId,
    endpoint: SocketAddr,
    /// Of the outer headers.
    traffic_class: u8,
    first_number: u64,
}

/// A batch of the device's packets with what they were given.
#[derive(Debug)]
pub struct Load {
    /// As [`room`] lays it out.
    pub batch: Batch,
    runs: Vec<Run>,
}

impl Load {
    /// An empty one, whose buffer takes two superpackets with their room.
    pub fn new() -> Self {
        Self { batch: Batch::new(BATCH_BYTES, BATCH_PACKETS), runs: Vec::with_capacity(BATCH_PACKETS) }
    }
}

impl Default for Load {
    fn default() -> Self {
        Self::new()
    }
}

impl Recycle for Load {
    fn recycle(&mut self) {
        self.batch.clear();
        self.runs.clear();
    }
}

const BATCH_BYTES: usize = 3 * 65_536;
const BATCH_PACKETS: usize = 512;

/// The room around each packet of the device that all of a site's suites fit into; with one suite they fill it exactly, so that
/// packets lie back to back and a train is one slice.
pub fn room(site: &Site) -> Room {
    let suites = || site.peers.iter().map(crate::site::PeerSite::suite);
    let most = |length: fn(&Shape) -> usize| {
        suites().map(|suite| length(&Shape::of(suite))).max().unwrap_or_default()
    };
    Room {
        headroom_bytes: most(|shape| shape.header_bytes() as usize),
        trailer_bytes: 2,
        align_bytes: most(|shape| shape.align_bytes() as usize).max(1),
        tailroom_bytes: most(|shape| shape.check_bytes() as usize),
    }
}

/// Where a flow's packets go.
#[derive(Debug)]
struct Destination {
    outbound: Arc<Outbound>,
    peer: PeerId,
    endpoint: SocketAddr,
}

/// Decides, in arrival order.
#[derive(Debug)]
pub struct Router<'a> {
    peers: &'a Peers,
    view: View<'a>,
    cache: PolicyCache,
}

impl<'a> Router<'a> {
    /// Over `peers`.
    pub fn new(peers: &'a Peers) -> Self {
        let mut view = peers.database().view();
        let cache = PolicyCache::new(Arc::clone(&view.load().policies));
        Self { peers, view, cache }
    }

    /// Gives every packet of `load` its association and number, or drops it.
    pub fn plan(&mut self, load: &mut Load, now: Instant) {
        let Load { batch, runs } = load;
        // What was decided last, and of which flow.
        let mut last: (Option<FlowMark>, Result<Destination, DropReason>) =
            (None, Err(DropReason::Malformed));
        for index in 0..batch.packets.len() {
            segment_size::clamp(batch.bytes_mut(index), self.peers.mtu());
            let mark = FlowMark::of(batch.bytes(index));
            let is_other = mark.is_none() || mark != last.0;
            if is_other {
                let decided = flow(batch.bytes(index), Way::Out).and_then(|flow| self.route(&flow, now));
                last = (mark, decided);
            }
            let outcome = &last.1;
            // RFC 4301, section 5.1.2: the outer service class is the inner one's; its congestion bits by RFC 6040.
            let traffic_class = frame::traffic_class(batch.bytes(index)).map_or(0, marks::encapsulated);
            match outcome {
                Ok(Destination { outbound, peer, endpoint }) => match runs.last_mut() {
                    Some(run)
                        if run.end == index
                            && run.traffic_class == traffic_class
                            && (!is_other
                                || Arc::ptr_eq(&run.outbound, outbound) && run.endpoint == *endpoint) =>
                    {
                        run.end += 1;
                    }
                    _ => runs.push(Run {
                        end: index + 1,
                        outbound: Arc::clone(outbound),
                        peer: *peer,
                        endpoint: *endpoint,
                        traffic_class,
                        first_number: 0,
                    }),
                },
                &Err(reason) => {
                    self.peers.drops().count(reason);
                    batch.packets[index].refuse(Verdict::Unwanted);
                    // It belongs to whatever run it stands in, and takes no number.
                    if let Some(run) = runs.last_mut() {
                        run.end = index + 1;
                    }
                }
            }
        }
        self.number(batch, runs);
    }

    fn number(&self, batch: &mut Batch, runs: &mut [Run]) {
        let mut start = 0;
        for run in runs {
            let packets = &mut batch.packets[start..run.end];
            start = run.end;
            let count = packets.iter().filter(|packet| packet.is_passed()).count() as u64;
            match run.outbound.numbers().reserve(count) {
                Some(numbers) => run.first_number = numbers.start,
                None => {
                    self.peers.drops().add(DropReason::NumbersExhausted, count);
                    self.peers.request(Request::Expired(run.peer));
                    packets.iter_mut().for_each(|packet| packet.refuse(Verdict::Exhausted));
                }
            }
        }
    }

    fn route(&mut self, flow: &Flow, now: Instant) -> Result<Destination, DropReason> {
        let snapshot = self.view.load();
        self.cache.follow(&snapshot.policies);
        // The device has no clear way out: to bypass it is the routing table's.
        let Action::Protect(peer) = self.cache.decide(flow)? else { return Err(DropReason::NoPolicy) };
        let Some(outbound) = snapshot.outbound.get(&peer) else {
            self.peers.request(Request::Acquire(peer));
            return Err(DropReason::NoAssociation);
        };
        debug_assert_eq!(outbound.association().parameters().mode, Mode::Tunnel);
        match outbound.association().age(now) {
            Age::Young => {}
            Age::Soft => self.peers.request(Request::Rekey(peer)),
            Age::Hard => {
                self.peers.request(Request::Expired(peer));
                return Err(DropReason::Expired);
            }
        }
        let endpoint = self.peers.endpoint(peer).ok_or(DropReason::NoAssociation)?;
        let is_own_train = flow.protocol == protocol::UDP
            && flow.remote_port == Some(endpoint.port())
            && flow.local_port == Some(self.peers.listen_port());
        if flow.remote == endpoint.ip() && (is_own_train || flow.protocol == protocol::ESP) {
            return Err(DropReason::Loop);
        }
        Ok(Destination { outbound: Arc::clone(outbound), peer, endpoint })
    }
}

/// Lays and seals, on any lane.
pub struct Sealer {
    queue: Box<dyn Queue>,
    ivs: Ivs,
}

impl Sealer {
    /// Seals through `queue`.
    pub fn new(queue: Box<dyn Queue>) -> Self {
        Self { queue, ivs: Ivs::default() }
    }

    /// Makes ESP packets of the load's.
    pub fn seal(&mut self, load: &mut Load) {
        let Load { batch, runs } = load;
        batch.clear_jobs(Direction::Seal);
        let mut start = 0;
        for own in runs.iter() {
            let association = own.outbound.association();
            let Parameters { suite, .. } = *association.parameters();
            let shape = Shape::of(suite);
            let session = batch.work.session(association.session()).expect("fewer sessions than packets");
            let (mut number, mut payload_bytes) = (own.first_number, 0);
            for packet in &mut batch.packets[start..own.end] {
                if !packet.is_passed() {
                    continue;
                }
                let inner = packet.span();
                let bytes = batch.work.buffer.bytes_mut();
                let version = bytes[inner.start as usize] >> 4;
                let next = match version {
                    4 => protocol::IPV4,
                    6 => protocol::IPV6,
                    // Only what we make ourselves: a dummy (RFC 4303, section 2.6).
                    _ => protocol::NONE,
                };
                let behind = shape.packet_bytes(inner.len) - shape.header_bytes() - inner.len;
                let header = packet.push_front(shape.header_bytes() as usize);
                let (Some(header), Some(_)) = (header, packet.push_back(behind as usize)) else {
                    unreachable!("the room was measured for every suite of the site");
                };
                let given = Given { number, iv: self.ivs.next(suite.iv()), session };
                let (job, _) = esp::lay(&own.outbound, bytes, header.start, inner.len, next, &given);
                batch.work.jobs.push(job);
                number += 1;
                payload_bytes += u64::from(inner.len);
            }
            association.carried().add(number - own.first_number, payload_bytes);
            start = own.end;
        }
        run(&mut *self.queue, &mut batch.work);
    }
}

/// Sends dummy packets, which the receiver drops: it learns that we live, and where.
pub struct Dummies {
    load: Load,
    sealer: Sealer,
    outside: Outside,
    room: Room,
}

impl Dummies {
    /// Through `outside`, sealed through `queue`.
    pub fn new(queue: Box<dyn Queue>, outside: Outside, room: Room) -> Self {
        Self { load: Load::new(), sealer: Sealer::new(queue), outside, room }
    }

    /// Sends one, if there is an association and a place to send to.
    ///
    /// # Errors
    /// The socket is unusable.
    pub fn send(&mut self, peers: &Peers, peer: PeerId) -> io::Result<()> {
        let snapshot = peers.database().snapshot();
        let (Some(outbound), Some(endpoint)) = (snapshot.outbound.get(&peer), peers.endpoint(peer)) else {
            return Ok(());
        };
        let Some(numbers) = outbound.numbers().reserve(1) else { return Ok(()) };
        let Room { headroom_bytes, trailer_bytes, align_bytes, tailroom_bytes } = self.room;
        self.load.recycle();
        let behind = trailer_bytes + align_bytes + tailroom_bytes;
        let is_laid = self.load.batch.push_bytes(headroom_bytes, &[0; 4], behind);
        assert!(is_laid, "an empty batch has room");
        let outbound = Arc::clone(outbound);
        let (end, traffic_class, first_number) = (1, 0, numbers.start);
        self.load.runs.push(Run { end, outbound, peer, endpoint, traffic_class, first_number });
        self.sealer.seal(&mut self.load);
        self.outside.aim(endpoint, 0);
        self.outside.send(&self.load.batch, 0).map(drop)
    }
}

/// Sends the load's packets, run by run.
///
/// # Errors
/// The socket is unusable.
pub fn send(peers: &Peers, outside: &mut Outside, load: &mut Load) -> io::Result<()> {
    let Load { batch, runs } = load;
    let mut start = 0;
    for run in runs.iter() {
        // The port sends all that a batch has to one place.
        let later = batch.packets.split_off(run.end);
        outside.aim(run.endpoint, run.traffic_class);
        let refused = outside.refused_packets();
        let mut at = start;
        while at < run.end {
            at += outside.send(batch, at)?;
        }
        peers.drops().add(DropReason::NoRoom, outside.refused_packets() - refused);
        let sent = batch.packets[start..].iter().filter(|packet| packet.is_passed());
        let (packets, bytes) =
            sent.fold((0, 0), |(packets, bytes), packet| (packets + 1, bytes + packet.len() as u64));
        peers.sent(run.peer, packets, bytes);
        batch.packets.extend(later);
        start = run.end;
    }
    Ok(())
}

/// Random IVs, drawn from the system for many packets at a time.
struct Ivs {
    bytes: [u8; 4096],
    used: usize,
}

impl Default for Ivs {
    fn default() -> Self {
        Self { bytes: [0; 4096], used: 4096 }
    }
}

impl Ivs {
    fn next(&mut self, iv: Iv) -> [u8; 16] {
        let Iv::Random(_) = iv else { return [0; 16] };
        if self.used + 16 > self.bytes.len() {
            getrandom::fill(&mut self.bytes).expect("the system has random bytes once it has booted");
            self.used = 0;
        }
        let next = self.bytes[self.used..].first_chunk().expect("16 bytes are left");
        self.used += 16;
        *next
    }
}

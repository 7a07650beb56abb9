//! Outward: packets of the device become sealed bursts for peers.
//!
//! Guarantees: sequence numbers are assigned in order of arrival before anything is sealed; a packet that policy
//! keeps out of the tunnel is counted under its reason and dropped; there is no allocation per packet.
//!
//! A load passes through three steps: [`Router::plan`] in order of arrival, [`Sealer`] on any lane, [`send`] in order
//! of arrival. Of a device with several queues each has a router of its own, and packets under an association that they share leave
//! in the order of its numbers.

use std::{io, net::IpAddr, sync::Arc, time::Instant};

use sealane_engine::{Direction, Job, JobStatus, Queue, Submitter, Work};
use sealane_ipsec::{
    ah::Alignment,
    association::{Mode, Outbound, Parameters, Protocol, Way},
    counters::DropReason,
    database::{Outbounds, Request, ShareBy, View},
    esp::{self, Given, Shape},
    flow::{Bound, FlowMark, flow},
    frame::{self, Ends, Framed, Outer},
    lifetime::Age,
    marks,
    policy::{Action, PeerId, PolicyCache},
    segment_size,
    selector::Flow,
    suite::Iv,
    too_big,
    turns::Turn,
};
use sealane_lanes::Recycle;
use sealane_port::{Batch, Packet, Verdict};
use sealane_port::{Port, Room};
use sealane_wire::{IPV6_BYTES, Ipv6, protocol};

use crate::{
    beside::Awaits,
    keep_alive::KEEP_ALIVE,
    outside::Outside,
    path::Answers,
    peers::Peers,
    pipeline::{LOADS, Loads, Processor, Sent},
    site::Site,
};

/// Consecutive packets to one peer under one association.
#[derive(Debug)]
struct Run {
    /// The end of the run in the batch.
    end: usize,
    outbound: Arc<Outbound>,
    peer: PeerId,
    endpoint: Way,
    /// The traffic class of the outer headers.
    traffic_class: u8,
    /// Forbids fragmentation outside: the packets fit.
    is_whole: bool,
    first_number: u64,
    /// The turn to leave, if other queues may number packets under the association.
    turn: Option<Turn>,
}

/// A batch of the device's packets, with the data assigned to them.
#[derive(Debug)]
pub struct Load {
    /// The packets, with the room that [`room`] returns.
    pub batch: Batch,
    runs: Vec<Run>,
    /// The reasons for which packets were dropped after they had been numbered.
    refused: Vec<DropReason>,
    /// The AH packets, whose headers are completed after the engine has made their tags.
    framed: Vec<Framed>,
    /// The number of runs that have left.
    sent_runs: usize,
}

impl Load {
    /// Returns an empty load; its buffer takes two GSO packets with their room.
    pub fn new() -> Self {
        let runs = Vec::with_capacity(BATCH_PACKETS);
        let (refused, framed) = (Vec::new(), Vec::new());
        Self { batch: Batch::new(BATCH_BYTES, BATCH_PACKETS), runs, refused, framed, sent_runs: 0 }
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
        self.refused.clear();
        self.framed.clear();
        self.sent_runs = 0;
    }
}

impl Awaits for Load {
    fn awaited(&self) -> Option<(&Arc<Outbound>, Turn)> {
        let run = self.runs.get(self.sent_runs)?;
        Some((&run.outbound, run.turn?))
    }
}

const BATCH_BYTES: usize = 3 * 65_536;
const BATCH_PACKETS: usize = 512;

/// Returns the room around each packet of the device that suffices for all of a site's suites. With one suite the
/// sealed packets fill it exactly, so that they lie back to back and a burst is one slice.
pub fn room(site: &Site) -> Room {
    if site.protocol == Protocol::Ah {
        return Room { headroom_bytes: frame::HEADROOM_BYTES, ..Room::NONE };
    }
    let suites: Vec<_> = site.peers.iter().flat_map(crate::site::PeerSite::suites).collect();
    let most = |length: fn(&Shape) -> usize| {
        suites.iter().map(|&suite| length(&Shape::of(suite))).max().unwrap_or_default()
    };
    Room {
        headroom_bytes: most(|shape| shape.header_bytes() as usize),
        trailer_bytes: 2,
        align_bytes: most(|shape| shape.align_bytes() as usize).max(1),
        tailroom_bytes: most(|shape| shape.check_bytes() as usize),
    }
}

/// The peer and the limits for a flow's packets.
#[derive(Debug)]
struct Destination {
    outbound: Arc<Outbound>,
    peer: PeerId,
    endpoint: Way,
    /// The longest packet that senders inside may send.
    bytes_max: u16,
    /// The longest packet that fits into one outside; it is less than `bytes_max` on a path that is narrower than it
    /// should be.
    whole_bytes_max: u16,
}

/// Decides on packets, in order of arrival.
#[derive(Debug)]
pub struct Router<'a> {
    peers: &'a Peers,
    view: View<'a>,
    cache: PolicyCache,
    answers: Option<Answers>,
    by: ShareBy,
}

impl<'a> Router<'a> {
    /// Returns a router over `peers`.
    pub fn new(peers: &'a Peers) -> Self {
        let mut view = peers.database().view();
        let cache = PolicyCache::new(Arc::clone(&view.load().policies));
        Self { peers, view, cache, answers: None, by: ShareBy::Flow }
    }

    /// Makes the router that of the packets of one of several queues, by its number.
    #[must_use]
    pub fn of_queue(self, queue: u16) -> Self {
        Self { by: ShareBy::Queue(queue), ..self }
    }

    /// Makes the router answer senders inside whose packets are too long for their paths.
    #[must_use]
    pub fn answering(self, answers: Answers) -> Self {
        Self { answers: Some(answers), ..self }
    }

    /// Assigns an association and a number to every packet of `load`, or drops it.
    pub fn plan(&mut self, load: &mut Load, now: Instant) {
        let Load { batch, runs, .. } = load;
        // The last decision, with its flow.
        let mut last: (Option<FlowMark>, Result<Destination, DropReason>) =
            (None, Err(DropReason::Malformed));
        for index in 0..batch.packets.len() {
            let mark = FlowMark::of(batch.bytes(index));
            let is_other = mark.is_none() || mark != last.0;
            if is_other {
                let decided = flow(batch.bytes(index), Bound::Out).and_then(|flow| self.route(&flow, now));
                last = (mark, decided);
            }
            let mut outcome = last.1.as_ref();
            let mut is_whole = true;
            if let Ok(Destination { bytes_max, whole_bytes_max, .. }) = outcome {
                let packet = batch.bytes_mut(index);
                segment_size::clamp(packet, *bytes_max);
                is_whole = packet.len() <= usize::from(*whole_bytes_max);
                // A packet that may be fragmented passes: the outer packet is fragmented (RFC 4301, section 8.1).
                if packet.len() > usize::from(*bytes_max) && too_big::is_whole(packet) {
                    if let Some(answers) = &mut self.answers {
                        // The reader of the device detects errors of the device.
                        let _ = answers.too_big(packet, *bytes_max, now);
                    }
                    outcome = Err(&DropReason::TooBig);
                }
            }
            // RFC 4301, section 5.1.2: the outer service class is the inner one's; the congestion bits follow RFC
            // 6040.
            let traffic_class = frame::traffic_class(batch.bytes(index)).map_or(0, marks::encapsulated);
            match outcome {
                Ok(Destination { outbound, peer, endpoint, .. }) => match runs.last_mut() {
                    Some(run)
                        if run.end == index
                            && run.traffic_class == traffic_class
                            && run.is_whole == is_whole
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
                        is_whole,
                        first_number: 0,
                        turn: None,
                    }),
                },
                Err(&reason) => {
                    self.peers.drops().count(reason);
                    batch.packets[index].refuse(Verdict::Unwanted);
                    // A dropped packet belongs to the run around it, and takes no number.
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
            let reserve = || run.outbound.numbers().reserve(count);
            let reserved = match self.by {
                ShareBy::Flow => reserve().map(|numbers| (numbers, None)),
                ShareBy::Queue(_) => {
                    let given = run.outbound.turns().give(reserve);
                    given.map(|(numbers, turn)| (numbers, Some(turn)))
                }
            };
            match reserved {
                Some((numbers, turn)) => (run.first_number, run.turn) = (numbers.start, turn),
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
        // The device has no way out in clear: bypassing it is a matter of the routing table.
        let Action::Protect(peer) = self.cache.decide(flow)? else { return Err(DropReason::NoPolicy) };
        let all = snapshot.outbound.get(&peer);
        let Some((all, outbound)) = all.and_then(|all| Some((all, all.taking(flow, self.by)?))) else {
            self.peers.acquire(peer, flow);
            return Err(DropReason::NoAssociation);
        };
        if all.lacks_share(flow, self.by) {
            self.peers.request(Request::Share(peer));
        }
        match outbound.association().age(now) {
            Age::Young => {}
            Age::Soft => self.peers.request(Request::Rekey(peer)),
            Age::Hard => {
                self.peers.request(Request::Expired(peer));
                return Err(DropReason::Expired);
            }
        }
        let endpoint = self.peers.way_of(outbound.association()).ok_or(DropReason::NoAssociation)?;
        let is_own_burst = flow.protocol == protocol::UDP
            && flow.remote_port == Some(endpoint.remote.port())
            && flow.local_port == Some(self.peers.listen().port());
        let is_own_packet = match endpoint.stream {
            Some(_) => flow.protocol == protocol::TCP && flow.remote_port == Some(endpoint.remote.port()),
            None => flow.protocol == self.peers.protocol().number(),
        };
        if flow.remote == endpoint.remote.ip() && (is_own_burst || is_own_packet) {
            return Err(DropReason::Loop);
        }
        let own = self.peers.get(peer);
        let is_v4 = flow.remote.is_ipv4();
        let (bytes_max, whole_bytes_max) = (own.inner_bytes_max(is_v4), own.whole_bytes_max(is_v4));
        Ok(Destination { outbound: Arc::clone(outbound), peer, endpoint, bytes_max, whole_bytes_max })
    }
}

/// Writes and seals packets, on any lane.
pub struct Sealer {
    engine: Loads<Load>,
    ivs: Ivs,
    /// Our own address, which AH covers.
    local: IpAddr,
}

impl Sealer {
    /// Returns a sealer through `queue`, with the own address `local`.
    pub fn new(queue: Box<dyn Queue>, local: IpAddr) -> Self {
        Self { engine: Submitter::new(queue, LOADS.get()), ivs: Ivs::default(), local }
    }
}

/// Makes ESP or AH packets of the load's packets.
impl Processor<Load> for Sealer {
    fn begin(&mut self, load: &mut Load) -> Option<Work> {
        let Load { batch, runs, refused, framed: framed_packets, .. } = load;
        batch.clear_jobs(Direction::Seal);
        let mut start = 0;
        for own in runs.iter() {
            let association = own.outbound.association();
            let session = batch.work.session(association.session()).expect("fewer sessions than packets");
            let (mut number, mut payload_bytes) = (own.first_number, 0);
            for packet in &mut batch.packets[start..own.end] {
                if !packet.is_passed() {
                    continue;
                }
                let inner_bytes = packet.len();
                let given = Given { number, iv: self.ivs.next(association.parameters().suite.iv()), session };
                let bytes = batch.work.buffer.bytes_mut();
                let laid = match association.parameters().protocol {
                    Protocol::Esp => lay(&own.outbound, bytes, packet, &given),
                    Protocol::Ah => {
                        let framed = frame_ah(own, self.local, bytes, packet, &given);
                        framed.map(|framed| {
                            let job = framed.job;
                            framed_packets.push(framed);
                            job
                        })
                    }
                };
                // An assigned number is used up.
                number += 1;
                match laid {
                    Ok(job) => {
                        batch.work.jobs.push(job);
                        payload_bytes += inner_bytes as u64;
                    }
                    Err(reason) => {
                        refused.push(reason);
                        packet.refuse(Verdict::Unwanted);
                    }
                }
            }
            association.carried().add(number - own.first_number, payload_bytes);
            start = own.end;
        }
        Some(std::mem::take(&mut batch.work))
    }

    fn end(&mut self, load: &mut Load, work: Work) {
        let Load { batch, refused, framed, .. } = load;
        batch.work = work;
        for framed in framed.drain(..) {
            framed.finish(batch.work.buffer.bytes_mut());
        }
        refuse_unsealed(batch, refused);
    }

    fn engine(&mut self) -> &mut Loads<Load> {
        &mut self.engine
    }
}

/// Refuses packets that no engine has sealed; they would leave in clear.
fn refuse_unsealed(batch: &mut Batch, refused: &mut Vec<DropReason>) {
    let Batch { work, packets, .. } = batch;
    if work.jobs.iter().all(|job| job.status == JobStatus::Done) {
        return;
    }
    for (packet, job) in packets.iter_mut().filter(|packet| packet.is_passed()).zip(&work.jobs) {
        if job.status != JobStatus::Done {
            refused.push(DropReason::Malformed);
            packet.refuse(Verdict::Unwanted);
        }
    }
}

/// Writes an ESP packet around `packet`, or in transport mode around its payload.
fn lay(outbound: &Outbound, bytes: &mut [u8], packet: &mut Packet, given: &Given) -> Result<Job, DropReason> {
    let Parameters { suite, mode, .. } = *outbound.association().parameters();
    let shape = Shape::of(suite);
    let next = match (bytes[packet.span().start as usize] >> 4, mode) {
        (4 | 6, Mode::Transport) => {
            let (header_bytes, next) = frame::carried(&bytes[packet.span().range()])?;
            packet.pull_front(header_bytes as usize).ok_or(DropReason::Malformed)?;
            next
        }
        (4, Mode::Tunnel) => protocol::IPV4,
        (6, Mode::Tunnel) => protocol::IPV6,
        // Only our own packets come here: dummies (RFC 4303, section 2.6).
        _ => protocol::NONE,
    };
    let payload_bytes = packet.span().len;
    let behind = shape.packet_bytes(payload_bytes) - shape.header_bytes() - payload_bytes;
    let header = packet.push_front(shape.header_bytes() as usize);
    let (Some(header), Some(_)) = (header, packet.push_back(behind as usize)) else {
        unreachable!("the room was measured for every suite of the site");
    };
    Ok(esp::lay(outbound, bytes, header.start, payload_bytes, next, given).0)
}

/// Frames `packet` by AH: inside a new header between the ends, or behind its own header with their addresses.
fn frame_ah(
    run: &Run,
    local: IpAddr,
    bytes: &mut [u8],
    packet: &mut Packet,
    given: &Given,
) -> Result<Framed, DropReason> {
    let ends = Ends::of(local, run.endpoint.remote.ip()).ok_or(DropReason::NoAssociation)?;
    // The identification must not be 0, which the kernel would replace (raw(7)), because AH covers it.
    let identification = given.number as u16 | 1;
    let inner = packet.span();
    if run.outbound.association().parameters().mode == Mode::Transport {
        if let Ok(ip) = Ipv6::parse(&bytes[inner.range()]) {
            let upper = ip.upper().map_err(|_| DropReason::Malformed)?;
            if upper.fragment_at.is_some() {
                return Err(DropReason::Fragment);
            }
            // The kernel, which writes the outer header, puts AH directly behind it.
            if upper.offset_bytes != IPV6_BYTES {
                return Err(DropReason::SelectorMismatch);
            }
        }
        frame::readdress(&mut bytes[inner.range()], ends, identification)?;
    }
    // RFC 4301, section 8.1: the outer packet may be fragmented if the inner one may.
    let dont_fragment = run.is_whole && too_big::is_whole(&bytes[inner.range()]);
    let outer = Outer { ends, hop_limit: frame::HOPS, dont_fragment, identification };
    let framed = frame::seal(&run.outbound, bytes, inner, &outer, Alignment::Rfc, given)?;
    let front_bytes = (inner.start - framed.packet.start) as usize;
    packet.push_front(front_bytes).expect("the room was measured for AH");
    Ok(framed)
}

/// Sends dummy packets, which the receiver drops: it learns our endpoint and that we are alive.
pub struct Dummies {
    load: Load,
    sealer: Sealer,
    outside: Outside,
    room: Room,
}

impl Dummies {
    /// Returns a sender through `outside`, which seals through `queue`.
    pub fn new(queue: Box<dyn Queue>, outside: Outside, site: &Site) -> Self {
        let sealer = Sealer::new(queue, site.listen.ip());
        Self { load: Load::new(), sealer, outside, room: room(site) }
    }

    /// Keeps a NAT's mapping on the way to a peer, if there is an association and an endpoint: by a keep-alive byte
    /// (RFC 3948) or, without UDP, by a dummy.
    ///
    /// # Errors
    /// Fails if the socket is unusable.
    pub fn keep_alive(&mut self, peers: &Peers, peer: PeerId) -> io::Result<()> {
        let Outside::Udp(_) = self.outside else { return self.send(peers, peer) };
        let has_keys = peers.database().snapshot().outbound.contains_key(&peer);
        // A connection needs no keeping (RFC 9329, section 6.5).
        let way = peers.way(peer).filter(|way| way.stream.is_none());
        let (true, Some(endpoint)) = (has_keys, way) else { return Ok(()) };
        self.load.recycle();
        let is_laid = self.load.batch.push_bytes(0, KEEP_ALIVE, 0);
        assert!(is_laid, "an empty batch has room");
        self.outside.aim(endpoint, 0, true);
        self.outside.send(&self.load.batch, 0).map(drop)
    }

    /// Sends a dummy, if there is an association and an endpoint.
    ///
    /// # Errors
    /// Fails if the socket is unusable.
    pub fn send(&mut self, peers: &Peers, peer: PeerId) -> io::Result<()> {
        let snapshot = peers.database().snapshot();
        let Some(outbound) = snapshot.outbound.get(&peer).and_then(Outbounds::newest) else { return Ok(()) };
        let Some(endpoint) = peers.way_of(outbound.association()) else { return Ok(()) };
        let Some(numbers) = outbound.numbers().reserve(1) else { return Ok(()) };
        self.load.recycle();
        // ESP itself marks a packet as empty; for AH, an IP packet does so.
        let dummy = match peers.protocol() {
            Protocol::Esp => vec![0; 4],
            Protocol::Ah => {
                let Some(ends) = Ends::of(peers.listen().ip(), endpoint.remote.ip()) else { return Ok(()) };
                let mut dummy = vec![0; ends.header_bytes() as usize];
                let is_written = frame::give_header(&mut dummy, ends, 0, protocol::NONE);
                is_written.expect("a header has the length of a header");
                dummy
            }
        };
        let is_laid = self.room.push_bytes(&mut self.load.batch, &dummy);
        assert!(is_laid, "an empty batch has room");
        let outbound = Arc::clone(outbound);
        let (end, traffic_class, is_whole, first_number) = (1, 0, true, numbers.start);
        let turn = None;
        let run = Run { end, outbound, peer, endpoint, traffic_class, is_whole, first_number, turn };
        self.load.runs.push(run);
        self.sealer.work(&mut self.load);
        self.outside.aim(endpoint, 0, true);
        self.outside.send(&self.load.batch, 0).map(drop)
    }
}

/// Sends the load's packets, run by run, each by the socket of its peer's line. Stops before a run whose turn has not come, and
/// continues there when it is called again.
///
/// # Errors
/// Fails if the socket is unusable.
pub fn send(peers: &Peers, outsides: &mut [Outside], load: &mut Load) -> io::Result<Sent> {
    let Load { batch, runs, refused, sent_runs, .. } = load;
    refused.drain(..).for_each(|reason| peers.drops().count(reason));
    while let Some(run) = runs.get(*sent_runs) {
        if run.turn.is_some_and(|turn| !run.outbound.turns().is_next(turn)) {
            return Ok(Sent::Waits);
        }
        let start = sent_runs.checked_sub(1).map_or(0, |before| runs[before].end);
        // The port sends all packets of a batch to one endpoint.
        let later = batch.packets.split_off(run.end);
        if let Some(stream) = run.endpoint.stream {
            let dropped = peers.streams().map_or(0, |streams| streams.send(stream, batch, start, run.end));
            peers.drops().add(DropReason::NoRoom, dropped);
        } else {
            let line = run.peer.0 as usize % outsides.len();
            let outside = &mut outsides[line];
            outside.aim(run.endpoint, run.traffic_class, run.is_whole);
            let (refused, direct) = (outside.refused_packets(), outside.direct_packets());
            let mut at = start;
            while at < run.end {
                at += outside.send(batch, at)?;
            }
            peers.drops().add(DropReason::NoRoom, outside.refused_packets() - refused);
            peers.sent_directly(run.peer, outside.direct_packets() - direct);
        }
        count_sent(peers, run.peer, &batch.packets[start..]);
        batch.packets.extend(later);
        run.turn.iter().for_each(|&turn| run.outbound.turns().end(turn));
        *sent_runs += 1;
    }
    Ok(Sent::Whole)
}

fn count_sent(peers: &Peers, peer: PeerId, packets: &[Packet]) {
    let sent = packets.iter().filter(|packet| packet.is_passed());
    let (packets, bytes) =
        sent.fold((0, 0), |(packets, bytes), packet| (packets + 1, bytes + packet.len() as u64));
    peers.sent(peer, packets, bytes);
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

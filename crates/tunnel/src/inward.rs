//! Inward: bursts of peers become packets for the device.
//!
//! Guarantees: only packets reach the device that are genuine, new, and from the networks of their peer; every other
//! packet is counted under its reason; a stranger's packet costs one look-up of its SPI. There is no allocation per
//! packet.
//!
//! An arrival passes through two steps: [`Opener`] on any lane, then [`Acceptor::accept`] in order of arrival.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use sealane_engine::{Direction, Job, Queue, Span, Submitter, Work};
use sealane_ipsec::{
    association::{Inbound, Parameters, Protocol, Way},
    counters::DropReason,
    database::View,
    esp,
    flow::{Bound, FlowMark, flow},
    frame::{self, Ends, Opening},
    lifetime::Age,
    marks::Ecn,
    policy::{Action, PeerId, PolicyCache},
    segment_size,
};
use sealane_lanes::Recycle;
use sealane_port::{Batch, Packet, Verdict};
use sealane_wire::{Esp, protocol};

use crate::{
    keep_alive::KEEP_ALIVE,
    keying::mailbox::NON_ESP_MARKER,
    peers::Peers,
    pipeline::{LOADS, Loads, Processor},
};

/// A packet whose job is at the engine; both have the same index.
#[derive(Clone, Copy, Debug)]
struct Pending {
    index: usize,
    number: u64,
}

/// Consecutive packets under one association.
#[derive(Debug)]
struct Run {
    /// The end of the run among the pending packets.
    end: usize,
    inbound: Arc<Inbound>,
}

/// The packets received in one call.
#[derive(Debug)]
pub struct Arrival {
    /// The ESP packets; after [`Acceptor::accept`], the packets that they carried.
    pub batch: Batch,
    /// The way to the sender.
    pub source: Option<Way>,
    /// The traffic class in the IP header.
    pub traffic_class: u8,
    /// The time at which they were received.
    pub time: Instant,
    /// The time for which the first of them had waited in the socket by then.
    pub waited: Duration,
    /// Nothing was left in the socket.
    pub was_last: bool,
    pending: Vec<Pending>,
    /// The openings of AH packets, with the indices of `pending`.
    openings: Vec<Opening>,
    runs: Vec<Run>,
}

const PACKETS_MAX: usize = 512;
/// Room for two bursts, the most that the port receives at once, and for the packets that transport mode makes of
/// them, whose headers may be longer than those that are removed.
const BUFFER_BYTES: usize = 5 * 65_536;

impl Arrival {
    /// Returns an empty arrival.
    pub fn new() -> Self {
        let batch = Batch::new(BUFFER_BYTES, PACKETS_MAX);
        let (pending, runs) = (Vec::with_capacity(PACKETS_MAX), Vec::with_capacity(PACKETS_MAX));
        let time = Instant::now();
        Self {
            batch,
            source: None,
            traffic_class: 0,
            time,
            waited: Duration::ZERO,
            was_last: false,
            pending,
            openings: Vec::new(),
            runs,
        }
    }
}

impl Default for Arrival {
    fn default() -> Self {
        Self::new()
    }
}

impl Recycle for Arrival {
    fn recycle(&mut self) {
        self.batch.clear();
        self.source = None;
        self.traffic_class = 0;
        (self.waited, self.was_last) = (Duration::ZERO, false);
        self.pending.clear();
        self.openings.clear();
        self.runs.clear();
    }
}

/// Looks up associations and runs jobs, on any lane.
pub struct Opener<'a> {
    peers: &'a Peers,
    view: View<'a>,
    engine: Loads<Arrival>,
}

impl<'a> Opener<'a> {
    /// Returns a lane's opener over `peers`, which opens through `queue`.
    pub fn new(peers: &'a Peers, queue: Box<dyn Queue>) -> Self {
        Self { peers, view: peers.database().view(), engine: Submitter::new(queue, LOADS.get()) }
    }

    /// Passes a datagram behind the non-ESP marker (RFC 3948, section 2.2) to the key makers; `None` if it is ESP, or
    /// if no key maker accepts datagrams.
    fn deliver(&self, datagram: &[u8], source: Option<Way>) -> Option<Result<(), DropReason>> {
        let mailbox = self.peers.mailbox()?;
        if !datagram.starts_with(&NON_ESP_MARKER) {
            return None;
        }
        let is_taken = source.is_some_and(|source| mailbox.put(datagram, source));
        if !is_taken {
            return Some(Err(DropReason::NoRoom));
        }
        self.peers.bells().ring();
        Some(Ok(()))
    }

    /// Returns the association of packets with this SPI. The marker of RFC 3948 is not the SPI of any association.
    fn find(&mut self, spi: u32, now: Instant) -> Result<Arc<Inbound>, DropReason> {
        let found =
            self.view.load().inbound.get(&(self.peers.protocol(), spi)).ok_or(DropReason::UnknownSpi)?;
        if found.association().age(now) == Age::Hard {
            return Err(DropReason::Expired);
        }
        Ok(Arc::clone(found))
    }

    fn refuse(&self, batch: &mut Batch, index: usize, reason: DropReason) {
        self.peers.drops().count(reason);
        batch.packets[index].refuse(Verdict::Unwanted);
    }
}

/// Opens the packets of an arrival. Queries to an association are made once for consecutive packets under it.
impl Processor<Arrival> for Opener<'_> {
    fn begin(&mut self, arrival: &mut Arrival) -> Option<Work> {
        let Arrival { batch, time, pending, openings, runs, source, .. } = arrival;
        let protocol = self.peers.protocol();
        batch.clear_jobs(Direction::Open);
        let mut index = 0;
        while index < batch.packets.len() {
            if self.peers.has_ports() && batch.bytes(index) == KEEP_ALIVE {
                // A keep-alive has already served its purpose on the way (RFC 3948, section 2.3).
                batch.packets[index].refuse(Verdict::Consumed);
                index += 1;
                continue;
            }
            if let Some(delivered) = self.deliver(batch.bytes(index), *source) {
                match delivered {
                    Ok(()) => batch.packets[index].refuse(Verdict::Consumed),
                    Err(reason) => self.refuse(batch, index, reason),
                }
                index += 1;
                continue;
            }
            let found = spi(protocol, batch, index).and_then(|spi| Ok((spi, self.find(spi, *time)?)));
            let (own_spi, inbound) = match found {
                Ok(found) => found,
                Err(reason) => {
                    if let (DropReason::UnknownSpi, Ok(spi), Some(source)) =
                        (reason, spi(protocol, batch, index), *source)
                    {
                        self.peers.note_stray(spi, source);
                    }
                    self.refuse(batch, index, reason);
                    index += 1;
                    continue;
                }
            };
            let session = batch.work.session(inbound.association().session());
            let session = session.expect("fewer sessions than packets");
            let window = inbound.window();
            while index < batch.packets.len() && spi(protocol, batch, index) == Ok(own_spi) {
                let (bytes, packet) = (batch.work.buffer.bytes_mut(), batch.packets[index].span());
                let opened = match protocol {
                    Protocol::Esp => esp::open(&inbound, &window, bytes, packet, session),
                    Protocol::Ah => frame::open(&inbound, &window, bytes, packet, session).map(|opening| {
                        let opened = (opening.job, opening.number);
                        openings.push(opening);
                        opened
                    }),
                };
                match opened {
                    Ok((job, number)) => {
                        pending.push(Pending { index, number });
                        batch.work.jobs.push(job);
                    }
                    Err(reason) => self.refuse(batch, index, reason),
                }
                index += 1;
            }
            drop(window);
            runs.push(Run { end: pending.len(), inbound });
        }
        (!batch.work.jobs.is_empty()).then(|| std::mem::take(&mut batch.work))
    }

    fn end(&mut self, arrival: &mut Arrival, work: Work) {
        arrival.batch.work = work;
    }

    fn engine(&mut self) -> &mut Loads<Arrival> {
        &mut self.engine
    }
}

fn spi(protocol: Protocol, batch: &Batch, index: usize) -> Result<u32, DropReason> {
    match protocol {
        Protocol::Esp => {
            Esp::parse(batch.bytes(index)).map(|esp| esp.spi()).map_err(|_| DropReason::Malformed)
        }
        Protocol::Ah => match frame::named(batch.bytes(index)) {
            Some((Protocol::Ah, spi)) => Ok(spi),
            _ => Err(DropReason::Malformed),
        },
    }
}

/// Accepts genuine packets, in order of arrival.
pub struct Acceptor<'a> {
    peers: &'a Peers,
    view: View<'a>,
    cache: PolicyCache,
    /// The flow that was looked up last, and the inbound SPI under which it may come.
    last: Option<(FlowMark, u32)>,
}

impl<'a> Acceptor<'a> {
    /// Returns an acceptor over `peers`.
    pub fn new(peers: &'a Peers) -> Self {
        let mut view = peers.database().view();
        let cache = PolicyCache::new(Arc::clone(&view.load().policies));
        Self { peers, view, cache, last: None }
    }

    /// Reduces the batch to the packets for the device.
    pub fn accept(&mut self, arrival: &mut Arrival) {
        let Arrival { batch, pending, openings, runs, source, traffic_class, .. } = arrival;
        if self.cache.follow(&self.view.load().policies) {
            self.last = None;
        }
        let mut first = 0;
        for Run { end, inbound } in runs {
            let association = inbound.association();
            let peer = association.parameters().peer;
            let (mut packets, mut inner_bytes, mut outer_bytes) = (0, 0, 0);
            let mut newest = None;
            let mut window = inbound.window();
            for (place, &Pending { index, number }) in pending.iter().enumerate().take(*end).skip(first) {
                let newest_if_taken = if number > window.top() { Some(number) } else { newest };
                let job: Job = batch.work.jobs[place];
                let outer = batch.packets[index];
                let inner = match openings.get(place) {
                    None => esp::accept(&mut window, &job, number).and_then(|()| {
                        newest = newest_if_taken;
                        self.inner(batch, inbound, outer, *traffic_class)
                    }),
                    Some(opening) => {
                        let bytes = batch.work.buffer.bytes_mut();
                        opening.unframe(inbound, &mut window, &job, bytes).and_then(|inner| {
                            newest = newest_if_taken;
                            self.inner_of_ah(bytes, inbound, inner)
                        })
                    }
                };
                match inner {
                    // A dummy (RFC 4303, section 2.6) has served its purpose by being genuine.
                    Ok(inner) if inner.is_empty() => batch.packets[index].refuse(Verdict::Consumed),
                    Ok(inner) => {
                        packets += 1;
                        inner_bytes += u64::from(inner.len);
                        outer_bytes += outer.len() as u64;
                        if inner.start < outer.span().start || inner.end() > outer.span().end() {
                            // The packet was written again, behind the batch's other packets.
                            batch.packets[index].refuse(Verdict::Consumed);
                        } else {
                            shrink(&mut batch.packets[index], inner);
                        }
                    }
                    Err(reason) => {
                        self.peers.drops().count(reason);
                        batch.packets[index].refuse(Verdict::Unwanted);
                    }
                }
            }
            drop(window);
            first = *end;
            // The endpoint of a peer is the source of its newest genuine packet.
            if let (Some(number), Some(source)) = (newest, *source) {
                self.peers.heard_under(association, source, number);
            }
            association.carried().add(packets, inner_bytes);
            self.peers.received(peer, packets, outer_bytes);
        }
    }

    /// Returns the inner packet, if the peer may send it.
    fn inner(
        &mut self,
        batch: &mut Batch,
        inbound: &Inbound,
        outer: Packet,
        traffic_class: u8,
    ) -> Result<Span, DropReason> {
        let Parameters { suite, peer, .. } = *inbound.association().parameters();
        let (payload, next) = esp::payload(suite, batch.work.buffer.bytes(), outer.span())?;
        if next == protocol::NONE {
            return Ok(Span::new(payload.start, 0));
        }
        if let Some(ends) = self.ends(peer) {
            let inner = give_header(batch, payload, ends, traffic_class, next)?;
            let admitted = self.admit(batch.work.buffer.bytes_mut(), inbound, inner);
            if admitted.is_err() {
                batch.packets.pop();
            }
            return admitted.map(|()| inner);
        }
        let bytes = batch.work.buffer.bytes_mut();
        let inner = frame::inner_packet(bytes, payload, next, Ecn::of(traffic_class))?;
        self.admit(bytes, inbound, inner)?;
        Ok(inner)
    }

    /// Returns the inner packet of an AH packet, if the peer may send it.
    fn inner_of_ah(&mut self, bytes: &mut [u8], inbound: &Inbound, inner: Span) -> Result<Span, DropReason> {
        let peer = inbound.association().parameters().peer;
        let packet = &mut bytes[inner.range()];
        let next = if packet[0] >> 4 == 4 { packet[9] } else { packet[6] };
        if next == protocol::NONE {
            return Ok(Span::new(inner.start, 0));
        }
        if let Some(ends) = self.ends(peer) {
            frame::readdress(packet, ends, 0)?;
        }
        self.admit(bytes, inbound, inner)?;
        Ok(inner)
    }

    /// Returns the inner addresses of a peer's packets, if its associations determine them.
    fn ends(&self, peer: PeerId) -> Option<Ends> {
        let hosts = self.peers.get(peer).hosts?;
        Ends::of(hosts.remote, hosts.local)
    }

    /// RFC 4301, section 5.2: the packet must be one that this association may carry.
    fn admit(&mut self, bytes: &mut [u8], inbound: &Inbound, inner: Span) -> Result<(), DropReason> {
        let &Parameters { peer, spi, .. } = inbound.association().parameters();
        let mark = FlowMark::of(&bytes[inner.range()]);
        if mark.is_none() || self.last != mark.map(|mark| (mark, spi)) {
            self.last = None;
            let flow = flow(&bytes[inner.range()], Bound::In)?;
            if self.cache.decide(&flow)? != Action::Protect(peer) || !inbound.association().takes(&flow) {
                return Err(DropReason::SelectorMismatch);
            }
            self.last = mark.map(|mark| (mark, spi));
        }
        let packet = &mut bytes[inner.range()];
        let is_v4 = packet.first().is_some_and(|byte| byte >> 4 == 4);
        segment_size::clamp(packet, self.peers.get(peer).inner_bytes_max(is_v4));
        Ok(())
    }
}

/// Writes another packet behind the batch's last one: `payload` behind a header of its own. There is not enough room
/// in front of the payload: ESP's header is shorter than that of IP.
fn give_header(
    batch: &mut Batch,
    payload: Span,
    ends: Ends,
    traffic_class: u8,
    next: u8,
) -> Result<Span, DropReason> {
    let header_bytes = ends.header_bytes() as usize;
    let bytes = header_bytes + payload.len as usize;
    let packet = batch.push(0, bytes, 0).ok_or(DropReason::NoRoom)?;
    let inner = packet.push_back(bytes).expect("it was laid out for so many bytes");
    let buffer = batch.work.buffer.bytes_mut();
    buffer.copy_within(payload.range(), inner.start as usize + header_bytes);
    // The path's congestion mark is in the outer header, which replaces the inner one.
    if let Err(reason) = frame::give_header(&mut buffer[inner.range()], ends, traffic_class, next) {
        batch.packets.pop();
        return Err(reason);
    }
    Ok(inner)
}

/// Reduces `packet` to its part `inner`.
fn shrink(packet: &mut Packet, inner: Span) {
    let outer = packet.span();
    let front = (inner.start - outer.start) as usize;
    let behind = outer.end() - inner.end();
    let is_within = packet.pull_front(front).is_some() && packet.pull_back(behind).is_some();
    assert!(is_within, "a payload lies within its packet");
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The port receives at most two bursts at once, of few long packets or of many short ones.
    #[test]
    fn there_is_room_for_what_transport_mode_makes_of_two_bursts() {
        let ends = Ends::of("2001:db8::1".parse().unwrap(), "2001:db8::2".parse().unwrap()).unwrap();
        for (count, bytes) in [(2 * 44, 1474), (127 + 64, 685), (2, 65_507)] {
            let mut arrival = Arrival::new();
            let batch = &mut arrival.batch;
            for _ in 0..count {
                batch.push(0, bytes, 0).unwrap().push_back(bytes).unwrap();
            }
            for index in 0..count {
                // ESP with the shortest header and check value.
                let outer = batch.packets[index].span();
                let payload = Span::new(outer.start + 8, outer.len - 8 - 2 - 12);
                let inner = give_header(batch, payload, ends, 0, protocol::UDP);
                assert!(inner.is_ok(), "{count} packets of {bytes} bytes, the one at {index}: {inner:?}");
            }
        }
    }
}

//! Runs the lanes of one end of a tunnel from memory to memory, without a device, a socket or another end.
//!
//! Guarantees: the lanes are those of a gateway ([`Pipeline`], and the processors of [`outward`](crate::outward) and
//! [`inward`](crate::inward)); every packet is sealed and opened under a number of its own; packets that leave out of
//! order are counted.

use std::{
    io,
    net::Ipv4Addr,
    num::NonZeroUsize,
    path::Path,
    sync::{
        Arc, Barrier, Mutex,
        atomic::{AtomicI64, AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::Instant,
};

use sealane_engine::{Engine as _, Implementations, Inline, Work};
use sealane_ipsec::{
    association::{AssociationError, Inbound, Mode, Outbound, Parameters, Protocol},
    lifetime::Lifetime,
    policy::PeerId,
    sequence::SequenceBits,
    suite::Suite,
};
use sealane_lanes::{Bells, Recycle};
use sealane_port::Batch;
use sealane_wire::{Ipv4Fields, UdpFields, protocol};

use crate::{
    inward::{Acceptor, Arrival, Opener},
    outward::{Load, Router, Sealer, room},
    peers::Peers,
    pipeline::{Loads, Pipeline, Processor},
    site::Site,
};

/// The number of packets in a load, as many as a GSO packet has.
pub const LOAD_PACKETS: usize = 44;
/// The length of each packet in bytes; sealed, it fits into 1,500.
pub const PACKET_BYTES: usize = 1436;
/// The length of the part of an inner packet whose bytes matter: IP, UDP, and its number.
const HEAD_BYTES: usize = 36;
/// The number of loads that are prepared for a receiver at a time.
const READY_LOADS: usize = 64;

/// Both ends of a tunnel with one association from the first to the second.
#[derive(Debug)]
pub struct Alone {
    sites: [Site; 2],
    peers: [Peers; 2],
    implementations: Implementations,
}

impl Alone {
    /// Makes a tunnel under `suite`, with keys derived from `seed`.
    ///
    /// # Errors
    /// Fails if the suite is not an ESP suite.
    pub fn new(suite: Suite, implementations: Implementations, seed: u8) -> Result<Self, AssociationError> {
        let now = Instant::now();
        let site = |listen: &str, peer: &str, network: &str| {
            let text = format!(
                "device = \"sl0\"\nlisten = \"{listen}:4500\"\nmtu = {PACKET_BYTES}\n[[peers]]\nname = \"other\"\nendpoint = \"{peer}:4500\"\n\
                 networks = [\"{network}\"]\n[peers.manual]\nsuite = \"{suite}\"\n\
                 send = {{ spi = 256, key-file = \"a\" }}\nreceive = {{ spi = 256, key-file = \"b\" }}\n"
            );
            Site::parse(Path::new("site.toml"), &text).expect("a good site file")
        };
        let sites =
            [site("192.0.2.1", "192.0.2.2", "10.2.0.0/16"), site("192.0.2.2", "192.0.2.1", "10.1.0.0/16")];
        let bells = || Bells::new(1).expect("a process has a descriptor for a bell");
        let peers = [0, 1].map(|end: usize| Peers::new(&sites[end], now, bells()));
        let (outbound, inbound) =
            association(implementations, suite, 256, PeerId(0), seed, Lifetime::default(), now)?;
        peers[0].database().install_outbound(outbound);
        peers[1].database().install_inbound(inbound).expect("the first of its index");
        Ok(Self { sites, peers, implementations })
    }

    fn sealer(&self) -> Sealer {
        let queue = Inline::new(self.implementations).queue(NonZeroUsize::MIN);
        Sealer::new(queue.expect("an inline queue takes nothing"), self.sites[0].listen.ip())
    }

    fn opener(&self) -> Opener<'_> {
        let queue = Inline::new(self.implementations).queue(NonZeroUsize::MIN);
        Opener::new(&self.peers[1], queue.expect("an inline queue takes nothing"))
    }
}

/// The result of a slice of work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Slice {
    /// The number of packets that left.
    pub packets: u64,
    /// The seconds from the start of the first lane to the end of the last one.
    pub seconds: f64,
    /// The maximum number of loads that were finished before one that was taken earlier.
    pub depth_loads: u64,
    /// The number of packets that left after one with a higher number.
    pub disordered: u64,
}

/// The state that all lanes of a tunnel share, beside its [`Pipeline`].
#[derive(Debug, Default)]
struct Shared {
    /// The number of loads left in this slice.
    left: AtomicI64,
    /// The highest number of a finished load; numbers begin at 1.
    highest: AtomicU64,
    depth: AtomicU64,
}

impl Shared {
    fn take(&self) -> io::Result<()> {
        // The error marks the end of the slice, and is not a failure.
        if self.left.fetch_sub(1, Relaxed) > 0 { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
    }

    fn done(&self, load: u64) {
        let before = self.highest.fetch_max(load, Relaxed);
        self.depth.fetch_max(before.saturating_sub(load), Relaxed);
    }
}

/// A processor that counts its loads when they are finished; the function returns a load's number.
struct Counted<'a, H, T>(&'a mut H, &'a Shared, fn(&T) -> u64);

impl<T, H: Processor<T>> Processor<T> for Counted<'_, H, T> {
    fn begin(&mut self, load: &mut T) -> Option<Work> {
        self.0.begin(load)
    }

    fn end(&mut self, load: &mut T, work: Work) {
        self.0.end(load, work);
        self.1.done(self.2(load));
    }

    fn engine(&mut self) -> &mut Loads<T> {
        self.0.engine()
    }
}

/// Counts the packets that leave.
#[derive(Debug, Default)]
struct Sink {
    packets: u64,
    last: Option<u64>,
    disordered: u64,
}

impl Sink {
    fn take(&mut self, number: u64) {
        self.packets += 1;
        self.disordered += u64::from(self.last.is_some_and(|last| number <= last));
        self.last = Some(number);
    }
}

/// Numbers the loads.
#[derive(Debug, Default)]
struct Source {
    loads: u64,
    packets: u64,
}

/// Returns both sides of an association in tunnel mode, with keys derived from `seed`.
///
/// # Errors
/// Fails if the suite is not an ESP suite.
pub fn association(
    implementations: Implementations,
    suite: Suite,
    spi: u32,
    peer: PeerId,
    seed: u8,
    lifetime: Lifetime,
    now: Instant,
) -> Result<(Arc<Outbound>, Arc<Inbound>), AssociationError> {
    let (protocol, mode, sequence) = (Protocol::Esp, Mode::Tunnel, SequenceBits::Extended);
    let parameters = Parameters { spi, peer, protocol, mode, suite, sequence, lifetime };
    let material = vec![seed; suite.material_bytes()];
    let outbound = Outbound::new(implementations, parameters, &material, 1, now)?;
    let inbound = Inbound::new(implementations, parameters, &material, 4096, now)?;
    Ok((Arc::new(outbound), Arc::new(inbound)))
}

/// Writes the head of a UDP packet that fills `packet` and carries `number`; the bytes behind the head stay
/// unchanged.
pub fn write_packet(packet: &mut [u8], destination: Ipv4Addr, number: u64) {
    let fields = Ipv4Fields {
        traffic_class: 0,
        identification: number as u16,
        dont_fragment: true,
        time_to_live: 64,
        protocol: protocol::UDP,
        source: [10, 1, 0, 1].into(),
        destination,
    };
    let upper_bytes = packet.len() - 20;
    fields.write(packet, upper_bytes).expect("there is room");
    let udp = UdpFields { source_port: 7, destination_port: 9 };
    udp.write(&mut packet[20..], upper_bytes - 8).expect("there is room");
    packet[28..HEAD_BYTES].copy_from_slice(&number.to_be_bytes());
}

/// Places the load's packets as a device does; only their heads are written.
fn lay(load: &mut Load, site: &Site, source: &mut Source) {
    let room = room(site);
    source.loads += 1;
    load.batch.first = source.loads;
    for _ in 0..LOAD_PACKETS {
        source.packets += 1;
        let span = room.push(&mut load.batch, PACKET_BYTES).expect("a load has room");
        let bytes = &mut load.batch.work.buffer.bytes_mut()[span.range()];
        write_packet(bytes, [10, 2, 0, 1].into(), source.packets);
    }
}

/// Returns the last 8 bytes of an inner packet's head.
fn number(packet: &[u8]) -> u64 {
    packet.get(28..HEAD_BYTES).and_then(|bytes| bytes.try_into().ok()).map_or(0, u64::from_be_bytes)
}

/// Returns the sequence number in an ESP packet.
fn shown(packet: &[u8]) -> u64 {
    packet.get(4..8).and_then(|bytes| bytes.try_into().ok()).map_or(0, u32::from_be_bytes).into()
}

/// One direction of an end, with its lanes.
trait Processors: Sync {
    /// Runs lane `lane` until all loads of the slice are taken.
    fn lane(&self, lane: usize, tally: &Tally);
}

/// The counters of a tunnel's lanes.
#[derive(Debug, Default)]
struct Tally {
    shared: Shared,
    sink: Mutex<Sink>,
}

impl Tally {
    /// Counts a load that leaves, by its packets' numbers.
    fn sent(&self, numbers: impl Iterator<Item = u64>) {
        let mut sink = self.sink.lock().expect("nobody panics counting");
        numbers.for_each(|number| sink.take(number));
    }

    /// Returns the number of packets that left so far, and of those that left out of order.
    fn ended(&self) -> (u64, u64) {
        let sink = self.sink.lock().expect("nobody panics counting");
        (sink.packets, sink.disordered)
    }
}

/// One direction of a tunnel, with its counters.
struct Tunnel<H> {
    processors: H,
    tally: Tally,
}

impl<H> Tunnel<H> {
    fn new(processors: H) -> Self {
        Self { processors, tally: Tally::default() }
    }
}

fn slice<H: Processors>(tunnels: &[Tunnel<H>], lanes: usize, loads: usize) -> Slice {
    let start = Barrier::new(tunnels.len() * lanes);
    let before: Vec<_> = tunnels.iter().map(|tunnel| tunnel.tally.ended()).collect();
    let mut seconds = 0.0;
    thread::scope(|scope| {
        let mut running = Vec::new();
        for tunnel in tunnels {
            tunnel.tally.shared.depth.store(0, Relaxed);
            tunnel.tally.shared.left.store((loads / tunnels.len()) as i64, Relaxed);
            for lane in 0..lanes {
                let start = &start;
                running.push(scope.spawn(move || {
                    start.wait();
                    // Each lane reads the clock itself, because this function may be scheduled only after they have
                    // finished.
                    let began = Instant::now();
                    tunnel.processors.lane(lane, &tunnel.tally);
                    (began, Instant::now())
                }));
            }
        }
        let times: Vec<(Instant, Instant)> =
            running.into_iter().map(|lane| lane.join().expect("a lane does not panic")).collect();
        let began = times.iter().map(|times| times.0).min();
        let ended = times.iter().map(|times| times.1).max();
        seconds = began.zip(ended).map_or(0.0, |(began, ended)| (ended - began).as_secs_f64());
    });
    let (mut packets, mut disordered, mut depth_loads) = (0, 0, 0);
    for (tunnel, before) in tunnels.iter().zip(before) {
        let after = tunnel.tally.ended();
        packets += after.0 - before.0;
        disordered += after.1 - before.1;
        depth_loads = depth_loads.max(tunnel.tally.shared.depth.load(Relaxed));
    }
    Slice { packets, seconds, depth_loads, disordered }
}

/// A tunnel's sending direction.
struct Sending<'a> {
    pipeline: Pipeline<(Router<'a>, Source), Load, ()>,
    sealers: Vec<Mutex<Sealer>>,
    site: &'a Site,
}

impl Processors for Sending<'_> {
    fn lane(&self, lane: usize, tally: &Tally) {
        let mut sealer = self.sealers[lane].lock().expect("one lane has it");
        let ended = self.pipeline.run(
            &mut Counted(&mut *sealer, &tally.shared, |load: &Load| load.batch.first),
            |_| None,
            |(router, source), load| {
                tally.shared.take()?;
                lay(load, self.site, source);
                router.plan(load, Instant::now());
                Ok(())
            },
            |(), load| {
                tally.sent(load.batch.passed().map(shown));
                Ok(())
            },
        );
        debug_assert!(ended.is_err());
    }
}

/// The sending ends of several tunnels.
pub struct Senders<'a>(Vec<Tunnel<Sending<'a>>>, usize);

impl<'a> Senders<'a> {
    /// Returns the sending ends of these tunnels, with `lanes` lanes each.
    pub fn new(tunnels: &'a [Alone], lanes: usize) -> Self {
        let pipelines = tunnels.iter().map(|tunnel| Sending {
            pipeline: Pipeline::new(lanes, Load::new, (Router::new(&tunnel.peers[0]), Source::default()), ()),
            sealers: (0..lanes).map(|_| Mutex::new(tunnel.sealer())).collect(),
            site: &tunnel.sites[0],
        });
        Self(pipelines.map(Tunnel::new).collect(), lanes)
    }

    /// Sends this number of loads, shared evenly by the tunnels.
    pub fn slice(&mut self, loads: usize) -> Slice {
        slice(&self.0, self.1, loads)
    }
}

/// A tunnel's receiving direction.
struct Receiving<'a> {
    /// The batches that are ready and the used arrivals, by load.
    pipeline: Pipeline<Ready, Arrival, Acceptor<'a>>,
    openers: Vec<Mutex<Opener<'a>>>,
    maker: Mutex<Maker<'a>>,
}

/// The sealed batches in turn, and the buffers of those that were received.
type Ready = Arc<Mutex<(Vec<Batch>, Vec<Batch>)>>;

/// Makes the batches that a peer would send.
struct Maker<'a> {
    router: Router<'a>,
    sealer: Sealer,
    load: Load,
    site: &'a Site,
    source: Source,
    ready: Ready,
}

impl Maker<'_> {
    /// Seals batches until `loads` are ready; the first one is the last of the list.
    fn make(&mut self, loads: usize) {
        let (mut ready, mut used) =
            std::mem::take(&mut *self.ready.lock().expect("nobody panics holding it"));
        while ready.len() < loads {
            self.load.recycle();
            lay(&mut self.load, self.site, &mut self.source);
            self.router.plan(&mut self.load, Instant::now());
            self.sealer.work(&mut self.load);
            let fresh = || Batch::new(2 * 65_536, 2 * LOAD_PACKETS);
            let mut batch = used.pop().unwrap_or_else(fresh);
            batch.clear();
            for packet in self.load.batch.passed() {
                assert!(batch.push_bytes(0, packet, 0), "a burst fits");
            }
            batch.first = self.source.loads;
            ready.push(batch);
        }
        ready.reverse();
        *self.ready.lock().expect("nobody panics holding it") = (ready, used);
    }
}

impl Processors for Receiving<'_> {
    fn lane(&self, lane: usize, tally: &Tally) {
        let mut opener = self.openers[lane].lock().expect("one lane has it");
        let ended = self.pipeline.run(
            &mut Counted(&mut *opener, &tally.shared, |arrival: &Arrival| arrival.batch.first),
            |_| None,
            |ready, arrival| {
                tally.shared.take()?;
                arrival.time = Instant::now();
                let mut ready = ready.lock().expect("nobody panics holding it");
                let batch = ready.0.pop().ok_or(io::ErrorKind::UnexpectedEof)?;
                let used = std::mem::replace(&mut arrival.batch, batch);
                ready.1.push(used);
                Ok(())
            },
            |acceptor, arrival| {
                acceptor.accept(arrival);
                tally.sent(arrival.batch.passed().map(number));
                Ok(())
            },
        );
        debug_assert!(ended.is_err());
    }
}

/// The receiving ends of several tunnels.
pub struct Receivers<'a>(Vec<Tunnel<Receiving<'a>>>, usize);

impl<'a> Receivers<'a> {
    /// Returns the receiving ends of these tunnels, with `lanes` lanes each.
    pub fn new(tunnels: &'a [Alone], lanes: usize) -> Self {
        let pipelines = tunnels.iter().map(|tunnel| {
            let ready = Ready::default();
            Receiving {
                pipeline: Pipeline::new(
                    lanes,
                    Arrival::new,
                    Arc::clone(&ready),
                    Acceptor::new(&tunnel.peers[1]),
                ),
                openers: (0..lanes).map(|_| Mutex::new(tunnel.opener())).collect(),
                maker: Mutex::new(Maker {
                    router: Router::new(&tunnel.peers[0]),
                    sealer: tunnel.sealer(),
                    load: Load::new(),
                    site: &tunnel.sites[0],
                    source: Source::default(),
                    ready,
                }),
            }
        });
        Self(pipelines.map(Tunnel::new).collect(), lanes)
    }

    /// Receives this number of loads, shared evenly by the tunnels. The loads are made before the slice begins.
    ///
    /// # Panics
    /// Panics if `loads` is more than [`Self::LOADS_MAX`].
    pub fn slice(&mut self, loads: usize) -> Slice {
        assert!(loads <= Self::LOADS_MAX, "as many as are made ready");
        for tunnel in &self.0 {
            tunnel.processors.maker.lock().expect("nobody panics making").make(loads / self.0.len());
        }
        slice(&self.0, self.1, loads)
    }

    /// The maximum length of a slice, which lies in memory as a whole.
    const LOADS_MAX: usize = READY_LOADS;
}

impl std::fmt::Debug for Senders<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Senders({} tunnels of {} lanes)", self.0.len(), self.1)
    }
}

impl std::fmt::Debug for Receivers<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Receivers({} tunnels of {} lanes)", self.0.len(), self.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_sent_leaves_once_and_in_order_whatever_the_lanes() {
        let suite = "aes-128-gcm".parse().expect("a suite");
        let tunnels =
            [3, 4].map(|seed| Alone::new(suite, Implementations::default(), seed).expect("good parameters"));
        for (tunnels, lanes) in [(&tunnels[..1], 1), (&tunnels[..1], 2), (&tunnels[..1], 3), (&tunnels, 1)] {
            let mut receivers = Receivers::new(tunnels, lanes);
            let mut senders = Senders::new(tunnels, lanes);
            for _ in 0..3 {
                for slice in [receivers.slice(24), senders.slice(24)] {
                    assert_eq!((slice.packets, slice.disordered), (24 * LOAD_PACKETS as u64, 0), "{lanes}");
                    assert!(lanes > 1 || slice.depth_loads == 0, "{slice:?}");
                }
            }
        }
    }
}

//! A stack under test with its drivers, on lanes of its own, that runs in slices.
//!
//! Guarantees: rigs that are compared take turns, so that other load affects all of them alike; a rig sleeps outside
//! of its turn; all its threads have ended when it is dropped.

use super::assignments;
use super::catalogue;
use super::demux::Demux;
use super::driver::{Driver, Gate, MessageSink, MessageSource, SEGMENTS, Wire, WireSink, WireSource};
use crate::LabError;
use crate::experiment::{ANY, Coordinates, RATE, Sample, at, derive};
use crate::load::{LOST_MAX, MachineTime, is_disturbed, waited_seconds};
use crate::rng::Rng;
use crate::speed::usage;
use rustix::event::PollFd;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use sealane_engine::record::Secret;
use sealane_engine::{Engine, EngineChoice};
use sealane_lanes::{LaneWork, Placement, Turn, available_lanes, run_lane};
use sealane_stack::{Context, Crew, End, Ends, FlowPlan, Lane, LaneCounts, Plan, Spec, Stack};
use sealane_transform::{Kernels, Tier};
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// The direction of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// From the application to the wire.
    Send,
    /// From the wire to the application.
    Receive,
}

impl Direction {
    /// Both directions.
    pub(super) const ALL: [Self; 2] = [Self::Send, Self::Receive];

    /// Returns the name in tables.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::Receive => "receive",
        }
    }
}

/// The configuration of a measurement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Setup {
    /// The stack as text, such as `des/tcp/md5/ip/fddi`.
    pub(super) stack: String,
    /// The unit of concurrency.
    pub(super) placement: Placement,
    /// The number of threads; per connection if connections are apart.
    pub(super) lanes: usize,
    /// The number of connections.
    pub(super) connections: usize,
    /// Whether each connection has lanes and buffers of its own: a thread for each connection.
    pub(super) is_apart: bool,
    /// The direction of messages.
    pub(super) direction: Direction,
    /// The tier of ciphers and digests; `None` selects the fastest.
    pub(super) tier: Option<Tier>,
    /// The length of a message in bytes.
    pub(super) message_bytes: usize,
    /// Whether the order of packets is restored after lanes have changed it.
    pub(super) keeps_order: bool,
    /// The number of processors that the threads may use, where they are more than these; all if none is given.
    pub(super) processors: Option<usize>,
}

impl Setup {
    /// Returns a setup of one lane, one connection and 4 KB messages.
    pub(super) fn new(stack: &str, direction: Direction, tier: Option<Tier>) -> Self {
        Self {
            stack: stack.to_owned(),
            placement: Placement::Packet,
            lanes: 1,
            connections: 1,
            is_apart: false,
            direction,
            tier,
            message_bytes: 4096,
            keeps_order: true,
            processors: None,
        }
    }

    /// Returns the total number of threads.
    pub(super) fn threads(&self) -> usize {
        if self.is_apart { self.lanes * self.connections } else { self.lanes }
    }

    /// Returns the number of processors that work at most: one for each thread, unless threads share fewer.
    pub(super) fn busy(&self) -> usize {
        self.processors.unwrap_or_else(|| self.threads())
    }

    /// Returns the coordinates of the setup among cells of an id.
    pub(super) fn place(&self, id: &str) -> Coordinates {
        let [connections, lanes] = [self.connections, self.busy()].map(|count| count.to_string());
        let by = match self.placement {
            _ if self.is_apart => THREADS.to_owned(),
            Placement::Layer(assignment) => assignments::name(assignment, &self.stack, self.lanes),
            placement => placement.name().to_owned(),
        };
        at([
            ("id", id),
            ("stack", &*self.stack),
            ("way", self.direction.name()),
            ("tier", if has_tiers(&self.stack) { self.tier.map_or("best", Tier::name) } else { ANY }),
            ("lanes", &*lanes),
            ("by", &by),
            ("connections", &*connections),
            ("order", if self.keeps_order { "kept" } else { "as it comes" }),
        ])
    }
}

/// Returns whether a layer of the stack has tiers: a stack without cryptography is the same at each, and stands beside all.
pub(super) fn has_tiers(stack: &str) -> bool {
    !["tcp/ip/fddi", "udp/ip/fddi"].contains(&stack)
}

/// The name of the unit of concurrency in which each connection has a thread.
pub(super) const THREADS: &str = "thread-per-connection";

/// The results of a slice.
#[derive(Clone, Debug, Default)]
pub(super) struct Slice {
    pub(super) mb_per_s: f64,
    pub(super) messages: u64,
    /// Messages of each connection.
    pub(super) shares: Vec<u64>,
    /// The sum of all lanes' counts in the slice; the depth is the rig's largest so far.
    pub(super) counts: LaneCounts,
    /// The number of times a lane had to wait for the active map.
    pub(super) map_waits: u64,
    /// Bytes of the jobs that each lane ran.
    pub(super) lane_bytes: Vec<u64>,
    /// Context switches of the process.
    pub(super) switches: u64,
    pub(super) seconds: f64,
    /// Whether others took so much of the lanes' time that the slice should be repeated.
    pub(super) is_disturbed: bool,
}

/// The least average of batches per connection: with fewer, the shares depend on the length of a slice rather than on
/// fairness.
const BATCHES_OF_A_SHARE: usize = 10;

/// The number of times a slice that moved nothing is extended.
const LONGER: usize = 100;

impl Slice {
    /// Returns the values by measure. The fairness among connections is included only if each has moved enough.
    pub(super) fn sample(&self) -> Sample {
        let messages = self.messages.max(1) as f64;
        let floats = |counts: &[u64]| counts.iter().map(|&count| count as f64).collect::<Vec<_>>();
        let (shares, bytes) = (floats(&self.shares), floats(&self.lane_bytes));
        let is_fair_to_tell = messages >= (BATCHES_OF_A_SHARE * SEGMENTS * shares.len()) as f64;
        let values = [
            (RATE, Some(self.mb_per_s)),
            ("us", Some(4096.0 / self.mb_per_s)),
            ("locked_ns", Some(self.counts.turn_ns as f64 / messages)),
            ("lock_wait", Some(self.counts.found_busy as f64 / messages)),
            ("map_wait", Some(self.map_waits as f64 / messages)),
            ("hand_offs", Some(self.counts.handed_over as f64 / messages)),
            ("switches_per_s", Some(self.switches as f64 / self.seconds)),
            ("reorder_depth", Some(self.counts.reorder_depth as f64)),
            ("lane_balance", derive::max_over_min(&bytes).map(|times| 1.0 / times)),
            ("jain", derive::jain(&shares).filter(|_| is_fair_to_tell)),
            ("max_over_min", derive::max_over_min(&shares).filter(|_| is_fair_to_tell)),
        ];
        let values = values.into_iter().filter_map(|(measure, value)| Some((measure, value?)));
        let is_finite = |(_, value): &(&str, f64)| value.is_finite();
        Sample::of(values.filter(is_finite), self.is_disturbed)
    }
}

/// Threads that are the lanes of crews. They end when this is dropped.
pub(super) struct Lanes {
    crews: Vec<Arc<Crew>>,
    threads: Vec<JoinHandle<()>>,
}

impl Lanes {
    /// Starts `lanes` for each crew, on so many processors if a number is given; `are_alone` says whether each may have a CPU
    /// to itself.
    pub(super) fn start(
        crews: &[Arc<Crew>],
        (lanes, processors): (usize, Option<usize>),
        engine: &Arc<dyn Engine>,
        are_alone: bool,
    ) -> std::io::Result<Self> {
        let processors = processors.map(first_processors).transpose()?;
        let looks = if are_alone { 64 } else { 0 };
        let mut started = Self { crews: crews.to_vec(), threads: Vec::new() };
        for crew in crews {
            for lane in 0..lanes {
                let (crew, engine) = (Arc::clone(crew), Arc::clone(engine));
                let run = move || match processors
                    .map_or(Ok(()), |processors| sched_setaffinity(None, &processors).map_err(drop))
                    .and_then(|()| crew.lane(lane, &*engine).map_err(drop))
                {
                    Ok(work) => {
                        run_lane(lane, crew.bells(), crew.stop(), &mut Eager { lane: work, looks });
                    }
                    Err(()) => crew.stop().finish(crew.bells()),
                };
                // The thread of one of many connections needs little stack.
                let builder = thread::Builder::new().name("lane".to_owned()).stack_size(512 << 10);
                started.threads.push(builder.spawn(run)?);
            }
        }
        Ok(started)
    }
}

impl Drop for Lanes {
    fn drop(&mut self) {
        self.crews.iter().for_each(|crew| crew.stop().finish(crew.bells()));
        // A lane that panicked has reported that on standard error.
        self.threads.drain(..).for_each(|thread| drop(thread.join()));
    }
}

/// Returns the first processors that this program may use.
fn first_processors(count: usize) -> std::io::Result<CpuSet> {
    let allowed = sched_getaffinity(None)?;
    let mut first = CpuSet::new();
    (0..CpuSet::MAX_CPU).filter(|&at| allowed.is_set(at)).take(count).for_each(|at| first.set(at));
    Ok(first)
}

/// Returns the CPU seconds that lanes have lost to others: their waiting time for a CPU, and stolen time. Lanes that
/// share CPUs wait for each other, so for them the time that other processes ran is used.
pub(super) fn lost_seconds(are_alone: bool) -> f64 {
    let machine = MachineTime::now().unwrap_or_default();
    let others = if are_alone {
        waited_seconds().unwrap_or(0.0)
    } else {
        let own = usage::now();
        machine.busy_seconds - own.user_seconds - own.system_seconds
    };
    others + machine.stolen_seconds
}

/// A stack with its drivers and lanes.
pub(super) struct Rig {
    message_bytes: usize,
    gate: Gate,
    drivers: Vec<Arc<Driver>>,
    demuxes: Vec<Arc<Demux>>,
    crews: Vec<Arc<Crew>>,
    lanes: usize,
    /// Whether each lane may have a CPU to itself.
    are_alone: bool,
    /// The threads, which end when this is dropped.
    _threads: Lanes,
}

impl Rig {
    pub(super) fn new(setup: &Setup, engine: &EngineChoice, rng: &mut Rng) -> Result<Self, LabError> {
        let unavailable =
            |error: &dyn std::fmt::Display| LabError::Unavailable(format!("stack {}: {error}", setup.stack));
        let spec: Spec = setup.stack.parse().map_err(|error| unavailable(&error))?;
        let kernels = Kernels::select(setup.tier, None).map_err(|error| unavailable(&error))?;
        let gate = Gate::default();
        let receives = setup.direction == Direction::Receive;
        let of_crew = if setup.is_apart { 1 } else { setup.connections };
        let (mut drivers, mut secrets) = (Vec::new(), Vec::new());
        for association in 0..setup.connections as u32 {
            let mut secret = [0; 32];
            rng.fill(&mut secret);
            let secret = Secret::new(secret);
            drivers.push(Driver::new(&spec, &secret, association, setup.message_bytes, receives, &gate)?);
            secrets.push(secret);
        }
        // Lanes that take packets of any connection share a map; a lane with a connection of its own filters for
        // itself.
        let is_shared = setup.placement == Placement::Packet;
        let known = if is_shared { of_crew } else { drivers.len() };
        let demuxes: Vec<Arc<Demux>> =
            drivers.chunks(known).map(|drivers| Arc::new(demux(is_shared, drivers))).collect();
        let mut flows = Vec::new();
        let mut packet_bytes = 0;
        for (association, (driver, secret)) in drivers.iter().zip(secrets).enumerate() {
            let context = Context::new(kernels, secret, End::Near)
                .with_association(association as u32)
                .ignoring_verdicts();
            let stack = catalogue()
                .stack(&spec, &context)
                .map_err(|error| LabError::Stack(format!("stack {spec}: {error}")))?;
            let demux = Arc::clone(&demuxes[association / known]);
            let stack =
                over_wire(stack, Wire { driver: Arc::clone(driver), demux, flow: association % known });
            let room = stack.overhead();
            packet_bytes = setup.message_bytes + room.head_bytes + room.tail_bytes + 128;
            let source = MessageSource::new(driver, setup.message_bytes, room, rng);
            flows.push(flow(stack, source, driver));
        }
        let lanes = NonZeroUsize::new(setup.lanes).ok_or_else(|| unavailable(&"no lanes"))?;
        // All drivers have the same stack.
        let batch = drivers.first().map_or(1, |driver| driver.batch());
        let in_flight = if of_crew == 1 { 4 + 4 * setup.lanes } else { 4 };
        let plan = Plan {
            placement: setup.placement,
            lanes,
            batches: 64 + 8 * setup.lanes + 8 * of_crew,
            buffer_bytes: batch * packet_bytes.next_multiple_of(64),
            packets: batch,
            in_flight,
            keeps_order: setup.keeps_order,
        };
        let mut crews = Vec::new();
        while !flows.is_empty() {
            let flows = flows.drain(..of_crew).collect();
            crews.push(Arc::new(Crew::new(plan, flows).map_err(|error| unavailable(&error))?));
        }
        let engine = engine.make(kernels).map_err(|error| unavailable(&error))?;
        let are_alone = are_alone(&crews, setup.lanes) && setup.processors.is_none();
        let threads = Lanes::start(&crews, (setup.lanes, setup.processors), &engine, are_alone);
        let rig = Self {
            message_bytes: setup.message_bytes,
            gate,
            drivers,
            demuxes,
            lanes: setup.lanes,
            are_alone,
            _threads: threads.map_err(|error| unavailable(&error))?,
            crews,
        };
        rig.open().map_err(|error| unavailable(&error))?;
        Ok(rig)
    }

    /// Waits for the handshakes.
    fn open(&self) -> Result<(), &'static str> {
        const LONGEST: Duration = Duration::from_secs(10);
        let began = Instant::now();
        while !self.drivers.iter().all(|driver| driver.is_open()) {
            if began.elapsed() > LONGEST {
                return Err("a connection does not open");
            }
            // The driver does not wake lanes, so each step of a handshake would take a lane's longest sleep.
            self.ring();
            thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    fn ring(&self) {
        self.crews.iter().for_each(|crew| crew.bells().ring());
    }

    fn shares(&self) -> Vec<u64> {
        self.drivers.iter().map(|driver| driver.messages.load(Relaxed)).collect()
    }

    /// Returns the shares and their time, to `within`: among hundreds of runnable threads, this one may have to wait
    /// between the clock and the counters.
    fn shares_at(&self, within: Duration) -> (Instant, Vec<u64>) {
        const TRIES: usize = 20;
        let mut at = Instant::now();
        let mut shares = self.shares();
        for _ in 0..TRIES {
            if at.elapsed() <= within {
                break;
            }
            at = Instant::now();
            shares = self.shares();
        }
        (at, shares)
    }

    /// Waits, with the gate closed, until nothing moves any more: the remaining packets would run in the next rig's
    /// slice.
    fn settle(&self) {
        const LOOKS: usize = 100;
        const QUIET: usize = 2;
        self.ring();
        let (mut before, mut quiet) = (self.shares(), 0);
        for _ in 0..LOOKS {
            thread::sleep(Duration::from_millis(1));
            let now = self.shares();
            quiet = if now == before { quiet + 1 } else { 0 };
            before = now;
            if quiet == QUIET {
                break;
            }
        }
    }

    fn lane_counts(&self) -> Vec<LaneCounts> {
        self.crews.iter().flat_map(|crew| (0..self.lanes).map(|lane| crew.lane_counts(lane))).collect()
    }

    fn map_waits(&self) -> u64 {
        self.demuxes.iter().map(|demux| demux.waits()).sum()
    }

    /// Lets the rig run for a while without counting, and then counts for `duration`.
    pub(super) fn slice(&self, settle: Duration, duration: Duration) -> Slice {
        self.gate.store(true, Relaxed);
        self.ring();
        thread::sleep(settle);
        let lost = lost_seconds(self.are_alone);
        let (began, shares) = self.shares_at(duration / 100);
        let (counts, waits, usage) = (self.lane_counts(), self.map_waits(), usage::now());
        thread::sleep(duration);
        let (mut ended, mut later) = self.shares_at(duration / 100);
        // On a busy host possibly no lane has run: a slice that moved nothing has no cost per packet, so it is
        // extended.
        for _ in 0..LONGER {
            if later != shares {
                break;
            }
            thread::sleep(duration);
            (ended, later) = self.shares_at(duration / 100);
        }
        let (counted, waited, used) = (self.lane_counts(), self.map_waits(), usage::now().since(usage));
        let seconds = (ended - began).as_secs_f64();
        let lost = lost_seconds(self.are_alone) - lost;
        self.gate.store(false, Relaxed);
        self.settle();
        let shares: Vec<u64> = later.iter().zip(&shares).map(|(later, before)| later - before).collect();
        let messages: u64 = shares.iter().sum();
        let lane_bytes =
            counted.iter().zip(&counts).map(|(later, before)| later.bytes - before.bytes).collect();
        Slice {
            mb_per_s: messages as f64 * self.message_bytes as f64 / seconds / 1e6,
            messages,
            shares,
            counts: difference(&counted, &counts),
            map_waits: waited - waits,
            lane_bytes,
            switches: (used.voluntary_switches + used.involuntary_switches).max(0) as u64,
            is_disturbed: if self.are_alone {
                lost > LOST_MAX * seconds * (self.crews.len() * self.lanes) as f64
            } else {
                is_disturbed(lost, 0.0, ended - began)
            },
            seconds,
        }
    }
}

/// Returns whether each lane may have a CPU to itself.
fn are_alone(crews: &[Arc<Crew>], lanes: usize) -> bool {
    crews.len() * lanes <= available_lanes()
}

/// Returns the demultiplexer of these drivers' packets, with no flow if their ports cannot be read.
fn demux(is_shared: bool, drivers: &[Arc<Driver>]) -> Demux {
    let ports_at = drivers.first().and_then(|driver| driver.ports_at()).unwrap_or(usize::MAX);
    Demux::new(is_shared, ports_at, drivers.iter().map(|driver| driver.packet()))
}

/// Returns the stack with the driver's lowest layer, which has no name.
fn over_wire(stack: Stack, wire: Wire) -> Stack {
    let spec = format!("{stack}/null").parse().expect("a stack and a layer more are a stack");
    let mut layers = stack.layers().to_vec();
    layers.push(Arc::new(wire));
    Stack::new(spec, layers)
}

/// The number of a processor's pauses between two checks for work: about a microsecond.
const PAUSES: u32 = 16;

/// A lane that checks for work several times before it sleeps: if it shares its processor with no other thread, the
/// wait is shorter than to sleep and be woken.
///
/// Between two checks it does not touch the others' cache lines.
struct Eager<'a> {
    lane: Lane<'a>,
    looks: u32,
}

impl LaneWork for Eager<'_> {
    fn step(&mut self) -> Turn {
        for _ in 0..self.looks {
            match self.lane.step() {
                Turn::Idle => (0..PAUSES).for_each(|_| std::hint::spin_loop()),
                turn => return turn,
            }
        }
        self.lane.step()
    }

    fn wait_for<'a>(&'a mut self, fds: &mut Vec<PollFd<'a>>) -> Duration {
        self.lane.wait_for(fds)
    }
}

fn flow(stack: Stack, source: MessageSource, driver: &Arc<Driver>) -> FlowPlan {
    FlowPlan {
        stack,
        down: Ends { source: Some(Box::new(source)), sink: Some(Box::new(WireSink(Arc::clone(driver)))) },
        up: Ends {
            source: Some(Box::new(WireSource(Arc::clone(driver)))),
            sink: Some(Box::new(MessageSink(Arc::clone(driver)))),
        },
    }
}

fn difference(later: &[LaneCounts], before: &[LaneCounts]) -> LaneCounts {
    let mut sum = LaneCounts::default();
    for (later, before) in later.iter().zip(before) {
        sum.handed_over += later.handed_over - before.handed_over;
        sum.found_busy += later.found_busy - before.found_busy;
        sum.batches += later.batches - before.batches;
        sum.bytes += later.bytes - before.bytes;
        sum.turns += later.turns - before.turns;
        sum.turn_ns += later.turn_ns - before.turn_ns;
        sum.reorder_depth = sum.reorder_depth.max(later.reorder_depth);
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::super::{LONG_BYTES, TREES};
    use super::*;
    use sealane_port::Verdict;
    use sealane_stack::Way;

    /// Runs a rig until some messages have passed; the tests use it to check whether they could be cut or shared out.
    #[track_caller]
    fn check(setup: &Setup) -> Slice {
        let rig = Rig::new(setup, &EngineChoice::default(), &mut Rng::new(7)).unwrap();
        let (settle, duration) = (Duration::ZERO, Duration::from_millis(20));
        let slices = (0..200).map(|_| rig.slice(settle, duration));
        let slice = slices.into_iter().find(|slice| slice.messages > 20);
        slice.unwrap_or_else(|| panic!("{setup:?}: no messages in 4 s"))
    }

    #[test]
    fn every_stack_of_the_paper_runs_both_ways_by_any_unit() {
        for stack in [
            "tcp/ip/fddi",
            "tcp/md5/ip/fddi",
            "des/tcp/md5/ip/fddi",
            "3des/udp/md5/ip/fddi",
            "tcp/ip/ah(hmac-sha1-96)/fddi",
            "udp/ip/esp(aes-128-cbc,hmac-sha1-96)/fddi",
        ] {
            for direction in Direction::ALL {
                for placement in Placement::ALL {
                    let one = Setup::new(stack, direction, Some(Tier::Native));
                    let slice = check(&Setup { lanes: 2, placement, ..one });
                    assert_eq!(slice.shares.len(), 1);
                    assert_eq!(slice.lane_bytes.len(), 2);
                }
            }
        }
    }

    /// TCP itself restores the order of segments, so nothing stops.
    #[test]
    fn a_rig_runs_where_order_is_not_kept() {
        let one = Setup::new("tcp/md5/ip/fddi", Direction::Receive, Some(Tier::Native));
        check(&Setup { lanes: 4, keeps_order: false, ..one });
    }

    #[test]
    fn packets_of_other_connections_are_told_apart() {
        for placement in [Placement::Packet, Placement::Connection] {
            let one = Setup::new("tcp/ip/fddi", Direction::Receive, None);
            let setup = Setup { lanes: 2, connections: 3, placement, ..one };
            let mut rig = Rig::new(&setup, &EngineChoice::default(), &mut Rng::new(7)).unwrap();
            let duration = Duration::from_millis(20);
            assert!((0..200).any(|_| rig.slice(Duration::ZERO, duration).messages > 20), "{placement}");
            let unwanted = |rig: &Rig| {
                (0..3).map(|flow| rig.crews[0].counts(flow, Way::Up).of(Verdict::Unwanted)).sum::<u64>()
            };
            assert_eq!(unwanted(&rig), 0, "{placement}");
            // The same packets are looked up in a table of other connections.
            let others = rig.drivers.drain(1..).collect::<Vec<_>>();
            let demux = demux(placement == Placement::Packet, &others);
            let ports_at = others[0].ports_at().unwrap();
            assert_eq!(demux.finder().find(rig.drivers[0].packet(), ports_at), None, "{placement}");
        }
    }

    /// Each of two lanes computes a share of each packet's digest; packets of 4 KB stay whole.
    #[test]
    fn trees_over_long_links_are_cut_both_ways() {
        for stack in TREES {
            for direction in Direction::ALL {
                let one = Setup::new(stack, direction, Some(Tier::Native));
                let long = Setup { message_bytes: LONG_BYTES, lanes: 2, placement: Placement::Block, ..one };
                // On a busy machine the second lane may sleep through a slice.
                let is_cut = (0..50).any(|_| check(&long).counts.handed_over > 0);
                assert!(is_cut, "{stack}, {}", direction.name());
            }
        }
        let short = Setup::new("blake3/udp/ip/fddi", Direction::Send, Some(Tier::Native));
        let short = Setup { lanes: 2, placement: Placement::Block, ..short };
        let is_cut = check(&short).counts.handed_over > 0;
        assert_eq!(is_cut, Kernels::select(short.tier, None).unwrap().blake3_leaves(false) <= 2);
    }

    #[test]
    fn connections_have_threads_of_their_own_or_share_them() {
        for is_apart in [false, true] {
            let one = Setup::new("aes-128-gcm/tcp/ip/fddi", Direction::Send, None);
            let setup = Setup { connections: 5, is_apart, placement: Placement::Connection, ..one };
            let slice = check(&setup);
            assert_eq!(slice.shares.len(), 5);
            assert_eq!(setup.threads(), if is_apart { 5 } else { 1 });
        }
    }

    #[test]
    fn what_the_driver_cannot_do_is_refused_with_the_reason() {
        let refused = |stack: &str| {
            let setup = Setup::new(stack, Direction::Receive, None);
            Rig::new(&setup, &EngineChoice::default(), &mut Rng::new(7))
                .err()
                .unwrap_or_else(|| panic!("{stack}"))
                .to_string()
        };
        assert!(refused("md5/ip/fddi").contains("needs a transport"));
        assert!(refused("tcp/aes-128-gcm/ip/fddi").contains("enciphered below TCP"));
        assert!(refused("udp/ip/ether").contains("no packet holds 4096 bytes"));
        assert!(refused("tcp/rot13").contains("unknown layer"));
    }
}

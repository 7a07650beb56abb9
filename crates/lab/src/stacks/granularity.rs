//! One connection whose two ends divide their work by different units (N36): a sender by packets, say, and a receiver
//! by blocks, which CBC allows. The stack under test is at both ends, and nothing is preconstructed.
//!
//! Guarantees: each message has a number at its start and at its end; a message counts once the receiving application
//! has it whole and in order; both ends have as many lanes; between two slices everything that was sent has arrived.

use super::bounds::{at_least, ratio};
use super::rig::{Lanes, lost_seconds};
use super::{Bench, LONG_BYTES, TREES, Timing, catalogue, rate};
use crate::LabError;
use crate::experiment::{Cell, Claim, Coordinates, Experiment, Measure, Outcome, RATE, Sample, at, find};
use crate::load::is_disturbed;
use crate::rng::Rng;
use sealane_engine::EngineChoice;
use sealane_engine::record::Secret;
use sealane_lanes::{Assignment, Placement, available_lanes};
use sealane_port::Batch;
use sealane_port::Room;
use sealane_port::memory::Cable;
use sealane_stack::ends;
use sealane_stack::{Context, Crew, End, Ends, FlowPlan, Overhead, Sink, Source, Spec};
use sealane_transform::{Kernels, Tier};
use std::io::{self, ErrorKind};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, OnceLock, Weak};
use std::thread;
use std::time::{Duration, Instant};

/// The id of these cells.
const BOTH: &str = "N36 both ends";
/// The share of sent messages that have arrived.
const ARRIVED: &str = "arrived";
/// The axis of the lanes of each end.
const LANES: &str = "lanes each";
/// Layers given to the lanes in turn.
const LAYERS: Placement = Placement::Layer(Assignment::IN_TURN);

/// The stacks, the bytes of their messages, and the units by which each end may divide its work.
const CASES: [(&str, usize, &[Placement]); 4] = [
    ("des/tcp/ip/fddi", 4096, &[Placement::Packet, Placement::Block, LAYERS]),
    ("des-ecb/tcp/ip/fddi", 4096, &[Placement::Packet, Placement::Block]),
    ("etm(des,hmac-md5)/tcp/ip/fddi", 4096, &[Placement::Packet, Placement::Function]),
    (TREES[0], LONG_BYTES, &[Placement::Packet, Placement::Block]),
];

/// The maximum of messages per batch, as of the driver's segments, and of packets on the cable in each direction.
const BATCH: usize = 8;
const CABLE_PACKETS: usize = 64;
/// The longest wait for the first message, and for the last ones of a slice.
const PATIENCE: Duration = Duration::from_secs(10);
const STEP: Duration = Duration::from_millis(1);
/// Bytes of a message's number, at its start and at its end.
const NUMBER_BYTES: usize = 8;

/// One cell.
#[derive(Clone, Debug)]
struct Setup {
    stack: &'static str,
    message_bytes: usize,
    sender: Placement,
    receiver: Placement,
    /// Lanes of each end.
    lanes: usize,
}

impl Setup {
    fn place(&self) -> Coordinates {
        let lanes = self.lanes.to_string();
        at([
            ("id", BOTH),
            ("stack", self.stack),
            ("sender", self.sender.name()),
            ("receiver", self.receiver.name()),
            (LANES, &lanes),
        ])
    }
}

/// Counters of messages.
#[derive(Debug, Default)]
struct Messages {
    /// Whether the application sends.
    is_open: AtomicBool,
    sent: AtomicU64,
    arrived: AtomicU64,
    /// Messages with a wrong number at either end.
    wrong: AtomicU64,
}

/// The sending application.
struct Sending {
    messages: Arc<Messages>,
    message_bytes: usize,
    room: Overhead,
    rng: Rng,
}

impl Source for Sending {
    fn receive(&mut self, batch: &mut Batch) -> io::Result<usize> {
        let mut packets = 0;
        while packets < BATCH && self.messages.is_open.load(SeqCst) {
            let Overhead { head_bytes, tail_bytes } = self.room;
            let Some(packet) = batch.push(head_bytes, self.message_bytes, tail_bytes) else { break };
            packet.push_back(self.message_bytes).expect("it was laid out for so many bytes");
            let message = batch.bytes_mut(packets);
            // A buffer is random from its first use on (N18): later it holds ciphertext.
            if message[message.len() / 2..].iter().take(64).all(|&byte| byte == 0) {
                self.rng.fill(message);
            }
            let number = self.messages.sent.fetch_add(1, SeqCst).to_be_bytes();
            message[..NUMBER_BYTES].copy_from_slice(&number);
            let end = message.len() - NUMBER_BYTES;
            message[end..].copy_from_slice(&number);
            packets += 1;
        }
        if packets == 0 { Err(ErrorKind::WouldBlock.into()) } else { Ok(packets) }
    }
}

/// The receiving application.
struct Receiving {
    messages: Arc<Messages>,
    message_bytes: usize,
}

impl Sink for Receiving {
    fn send(&mut self, batch: &Batch, from: usize) -> io::Result<usize> {
        for index in from..batch.packets.len() {
            if !batch.packets[index].is_passed() {
                continue;
            }
            let (message, expected) = (batch.bytes(index), self.messages.arrived.load(SeqCst).to_be_bytes());
            let is_right = message.len() == self.message_bytes
                && message.starts_with(&expected)
                && message.ends_with(&expected);
            let counter = if is_right { &self.messages.arrived } else { &self.messages.wrong };
            counter.fetch_add(1, SeqCst);
        }
        Ok(batch.packets.len() - from)
    }
}

/// The crew at the other end of the cable, once it exists.
type Other = Arc<OnceLock<Weak<Crew>>>;

/// An end of the cable that wakes the other end's lanes, which have no descriptor to sleep on.
struct Waking<E>(E, Other);

impl<E> Waking<E> {
    fn wake(&self, moved: io::Result<usize>) -> io::Result<usize> {
        let has_moved = moved.as_ref().is_ok_and(|&packets| packets > 0);
        if let Some(crew) = self.1.get().filter(|_| has_moved).and_then(Weak::upgrade) {
            crew.bells().ring();
        }
        moved
    }
}

impl<E: Source> Source for Waking<E> {
    fn receive(&mut self, batch: &mut Batch) -> io::Result<usize> {
        let moved = self.0.receive(batch);
        self.wake(moved)
    }
}

impl<E: Sink> Sink for Waking<E> {
    fn send(&mut self, batch: &Batch, from: usize) -> io::Result<usize> {
        let moved = self.0.send(batch, from);
        self.wake(moved)
    }
}

/// Both ends of a connection, with lanes of their own.
struct Connection {
    message_bytes: usize,
    messages: Arc<Messages>,
    crews: Vec<Arc<Crew>>,
    /// Lanes of each end.
    lanes: usize,
    /// Their threads, which end when this is dropped.
    _threads: Lanes,
    are_alone: bool,
}

impl Connection {
    fn new(setup: &Setup, engine: &EngineChoice, rng: &mut Rng) -> Result<Self, LabError> {
        let unavailable =
            |error: &dyn std::fmt::Display| LabError::Unavailable(format!("stack {}: {error}", setup.stack));
        let spec: Spec = setup.stack.parse().map_err(|error| unavailable(&error))?;
        let kernels = Kernels::select(Some(Tier::Native), None).map_err(|error| unavailable(&error))?;
        let mut secret = [0; 32];
        rng.fill(&mut secret);
        let secret = Secret::new(secret);
        let stack = |end| {
            let context = Context::new(kernels, secret.clone(), end);
            catalogue().stack(&spec, &context).map_err(|error| unavailable(&error))
        };
        let (near, far) = (stack(End::Near)?, stack(End::Far)?);
        let overhead = near.overhead();
        let room =
            Room { headroom_bytes: overhead.head_bytes, tailroom_bytes: overhead.tail_bytes, ..Room::NONE };
        let messages = Arc::new(Messages::default());
        let message_bytes = setup.message_bytes;
        let source = Sending {
            messages: Arc::clone(&messages),
            message_bytes,
            room: overhead,
            rng: Rng::new(rng.next_u64()),
        };
        let sink = Receiving { messages: Arc::clone(&messages), message_bytes };
        let (one, other) = Cable::pair(room, CABLE_PACKETS);
        let [near_end, far_end] = [one, other].map(ends);
        let others: [Other; 2] = Default::default();
        let waking = |at: usize| Arc::clone(&others[1 - at]);
        let ((near_in, near_out), (far_in, far_out)) =
            (near_end.map_err(|error| unavailable(&error))?, far_end.map_err(|error| unavailable(&error))?);
        let flows = [
            FlowPlan {
                stack: near,
                down: Ends {
                    source: Some(Box::new(source)),
                    sink: Some(Box::new(Waking(near_out, waking(0)))),
                },
                up: Ends { source: Some(Box::new(Waking(near_in, waking(0)))), sink: None },
            },
            FlowPlan {
                stack: far,
                down: Ends { source: None, sink: Some(Box::new(Waking(far_out, waking(1)))) },
                up: Ends { source: Some(Box::new(Waking(far_in, waking(1)))), sink: Some(Box::new(sink)) },
            },
        ];
        let lanes = NonZeroUsize::new(setup.lanes).ok_or_else(|| unavailable(&"no lanes"))?;
        let packet_bytes = message_bytes + overhead.head_bytes + overhead.tail_bytes + 128;
        let mut crews = Vec::new();
        for (flow, placement) in flows.into_iter().zip([setup.sender, setup.receiver]) {
            let plan = sealane_stack::Plan {
                placement,
                lanes,
                batches: 72 + 8 * setup.lanes,
                buffer_bytes: BATCH * packet_bytes.next_multiple_of(64),
                packets: BATCH,
                in_flight: 4 + 4 * setup.lanes,
                keeps_order: true,
            };
            crews.push(Arc::new(Crew::new(plan, vec![flow]).map_err(|error| unavailable(&error))?));
        }
        for (crew, other) in crews.iter().zip(&others) {
            // Each is set once.
            let _ = other.set(Arc::downgrade(crew));
        }
        let are_alone = crews.len() * setup.lanes <= available_lanes();
        let engine = engine.make(kernels).map_err(|error| unavailable(&error))?;
        let threads = Lanes::start(&crews, (setup.lanes, None), &engine, are_alone);
        let connection = Self {
            message_bytes,
            messages,
            crews,
            lanes: setup.lanes,
            _threads: threads.map_err(|error| unavailable(&error))?,
            are_alone,
        };
        connection.open().map_err(|reason| unavailable(&reason))?;
        Ok(connection)
    }

    /// Waits for the first messages.
    fn open(&self) -> Result<(), &'static str> {
        self.set_open(true);
        let began = Instant::now();
        while self.messages.arrived.load(SeqCst) == 0 {
            if began.elapsed() > PATIENCE {
                return Err("no message arrives");
            }
            self.ring();
            thread::sleep(STEP);
        }
        self.settle();
        Ok(())
    }

    fn set_open(&self, is_open: bool) {
        self.messages.is_open.store(is_open, SeqCst);
        self.ring();
    }

    fn ring(&self) {
        self.crews.iter().for_each(|crew| crew.bells().ring());
    }

    /// Lets everything that was sent arrive, and returns the share that has.
    fn settle(&self) -> f64 {
        self.set_open(false);
        let began = Instant::now();
        loop {
            let (sent, arrived) = (self.messages.sent.load(SeqCst), self.messages.arrived.load(SeqCst));
            // A message may have been taken before the application was stopped, and be counted a moment later.
            if (sent == arrived && began.elapsed() > 2 * STEP) || began.elapsed() > PATIENCE {
                return arrived as f64 / sent as f64;
            }
            thread::sleep(STEP);
        }
    }

    fn slice(&self, settle: Duration, duration: Duration) -> Sample {
        self.set_open(true);
        thread::sleep(settle);
        let lost = lost_seconds(self.are_alone);
        let handed_over = self.handed_over();
        let (began, before) = (Instant::now(), self.messages.arrived.load(SeqCst));
        thread::sleep(duration);
        // On a busy host possibly no lane has run.
        while self.messages.arrived.load(SeqCst) == before && began.elapsed() < PATIENCE {
            thread::sleep(STEP);
        }
        let (ended, after) = (Instant::now(), self.messages.arrived.load(SeqCst));
        let handed_over = self.handed_over() - handed_over;
        let lost = lost_seconds(self.are_alone) - lost;
        let (messages, seconds) = ((after - before) as f64, (ended - began).as_secs_f64());
        let values = [
            (RATE, messages * self.message_bytes as f64 / seconds / 1e6),
            ("hand_offs", handed_over as f64 / messages.max(1.0)),
            (ARRIVED, self.settle()),
        ];
        Sample::of(values, is_disturbed(lost, 0.0, ended - began))
    }

    fn handed_over(&self) -> u64 {
        let lanes = self.crews.iter().flat_map(|crew| (0..self.lanes).map(|lane| crew.lane_counts(lane)));
        lanes.map(|counts| counts.handed_over).sum()
    }
}

/// Measures every pair of units at the two ends of a connection.
pub(super) fn outcome(bench: &mut Bench<'_>) -> Result<Option<Outcome>, LabError> {
    // Both ends share the machine, and a unit means nothing to one lane.
    let lanes = (bench.most_lanes() / 2).max(2);
    for (stack, message_bytes, units) in CASES {
        let pairs = units.iter().flat_map(|&sender| units.iter().map(move |&receiver| (sender, receiver)));
        let setups: Vec<Setup> =
            pairs.map(|(sender, receiver)| Setup { stack, message_bytes, sender, receiver, lanes }).collect();
        let make = |setup: &Setup| Connection::new(setup, &bench.request.engine, &mut bench.rng);
        let connections = setups.iter().map(make).collect::<Result<Vec<_>, _>>()?;
        let places = setups.iter().map(Setup::place).collect();
        let Timing { settle, slice } = bench.timing;
        let sample = |cell: usize| Ok(connections[cell].slice(settle, slice));
        let cells = bench.cells_by(format!("{BOTH} {stack}"), places, sample)?;
        bench.cells.extend(cells);
    }
    let measures = vec![
        rate(),
        Measure::times(ARRIVED, "arrived, of those sent").decimals(3),
        Measure::new("hand_offs", "hand-offs").decimals(2),
    ];
    let notes = [
        "The paper names modes in which “sender and receiver use different granularity” as an avenue, without a figure. Here the \
         same stack is at both ends of one connection over a cable in memory, tier native; a message has arrived once the \
         receiver has it whole, in order and with its numbers.",
        "CBC is sealed block after block, so that a sender by block keeps a packet whole, and opened in pieces; ECB and the tree of \
         BLAKE3 are cut at both ends; encrypt-then-MAC gives its second function away only when it is opened.",
        "Lanes are those of each end; with more than the machine has processors, both ends take turns on them.",
    ];
    let axes = ["stack", "sender", "receiver", LANES];
    let title = "Different units at the two ends of one connection";
    let experiment = Experiment::new("both-ends", "N36", title, &axes, measures).notes(&notes);
    Ok(bench.outcome(experiment, &[BOTH], Vec::new(), claims))
}

/// Returns the claims about ends that differ: the pair is no slower than the slower of the two pairs of equal units. The share of
/// messages that arrive is a column of the table.
fn claims(cells: &[Cell]) -> Vec<Claim> {
    let mut claims = Vec::new();
    for cell in cells.iter().filter(|cell| cell.at["sender"] != cell.at["receiver"]) {
        let [stack, sender, receiver, lanes] =
            ["stack", "sender", "receiver", LANES].map(|axis| &*cell.at[axis]);
        let about = format!("{stack}, {lanes} lanes an end, sender by {sender}, receiver by {receiver}");
        let equal = |unit: &str| find(cells, &cell.elsewhere(&[("sender", unit), ("receiver", unit)]));
        let (Some(one), Some(other)) = (equal(sender), equal(receiver)) else { continue };
        let rate = |cell: &Cell| cell.figure(RATE).unwrap_or(f64::INFINITY);
        let slower = if rate(one) <= rate(other) { one } else { other };
        let statement = format!(
            "{about}: no slower than with {} at both ends, the slower of the two, within 10 %.",
            slower.at["sender"]
        );
        claims.push(ratio("N36", statement, RATE, [cell, slower], at_least(0.9)));
    }
    claims
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever the units of the two ends are, the receiver finds every message in its place.
    #[test]
    fn ends_with_different_units_understand_each_other() {
        for (stack, message_bytes, units) in CASES {
            for &sender in units {
                for &receiver in units {
                    let setup = Setup { stack, message_bytes, sender, receiver, lanes: 2 };
                    let engine = EngineChoice::default();
                    let connection = Connection::new(&setup, &engine, &mut Rng::new(7)).unwrap();
                    let sample = connection.slice(Duration::ZERO, Duration::from_millis(5));
                    assert_eq!(sample.value(ARRIVED), Some(1.0), "{setup:?}");
                    assert!(sample.value(RATE).unwrap() > 0.0, "{setup:?}");
                    assert_eq!(connection.messages.wrong.load(SeqCst), 0, "{setup:?}");
                }
            }
        }
    }

    /// The receiver's count is of messages in order and whole.
    #[test]
    fn a_message_that_is_late_or_cut_is_not_counted() {
        let messages = Arc::new(Messages::default());
        let mut sink = Receiving { messages: Arc::clone(&messages), message_bytes: 32 };
        let message =
            |first: u64, last: u64| [first.to_be_bytes(), [7; 8], [8; 8], last.to_be_bytes()].concat();
        let mut batch = Batch::new(4096, 8);
        for bytes in
            [message(1, 1), message(0, 1), message(0, 0)[..24].to_vec(), message(0, 0), message(1, 1)]
        {
            assert!(batch.push_bytes(0, &bytes, 0));
        }
        assert_eq!(sink.send(&batch, 0).unwrap(), 5);
        assert_eq!((messages.arrived.load(SeqCst), messages.wrong.load(SeqCst)), (2, 3));
    }

    #[test]
    fn claims_compare_with_the_slower_of_two_equal_ends() {
        let cell = |sender: &str, receiver: &str, rate: f64| {
            let place =
                [("id", BOTH), ("stack", "s"), ("sender", sender), ("receiver", receiver), (LANES, "2")];
            Cell::new(place).with(RATE, rate).with(ARRIVED, 1.0)
        };
        let cells =
            [cell("packet", "packet", 5.0), cell("block", "block", 3.0), cell("packet", "block", 4.0)];
        let claims = claims(&cells);
        assert_eq!(claims.len(), 1);
        assert!(claims[0].statement.contains("no slower than with block at both ends"), "{claims:?}");
        assert_eq!(claims[0].shape.places()[1]["sender"], "block");
    }
}

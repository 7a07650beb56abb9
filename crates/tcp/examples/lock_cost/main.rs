//! Measures how long a lock is held per message of 4 KB, by this crate and by smoltcp, and how often memory is
//! allocated.
//!
//! Two lanes share one connection and do nothing but send: each takes the lock for a batch of messages, and again for
//! the acknowledgement that a driver makes up at once (Nahum et al., section 3.3: a driver that acts as the peer, in
//! memory, as fast as it can). The measured time lies between taking the lock and releasing it. The two
//! implementations alternate in short rounds, so that the noise of the machine affects both alike.
//!
//! `cargo run --release -p sealane-tcp --example lock_cost`

#[path = "../../../../testing/allocations.rs"]
mod allocations;
mod foreign;
mod own;

use std::sync::Barrier;
use std::thread;
use std::time::{Duration, Instant};

/// Bytes of a message. FDDI's segments hold it whole, as in the paper.
const MESSAGE_BYTES: u32 = 4096;
const MTU: usize = 4352;
const LANES: usize = 2;
const ROUND: Duration = Duration::from_millis(150);
const ROUNDS: usize = 7;

/// The measurements of one lane.
#[derive(Debug, Clone, Copy, Default)]
struct Held {
    ns: u64,
    locks: u64,
    messages: u64,
    allocations: u64,
}

/// A stack behind a lock.
trait Stack: Sync {
    /// Sends `batch` messages and processes their acknowledgement; adds the cost to `held`.
    fn pass(&self, lane: &mut Lane, batch: usize, held: &mut Held);
}

/// The data that a lane owns.
struct Lane {
    out: sealane_tcp::Out,
    /// The number up to which the last pass has sent without acknowledging it.
    owed: Option<sealane_tcp::Seq>,
    packets: Vec<Vec<u8>>,
    message: Vec<u8>,
}

impl Lane {
    fn new() -> Self {
        Self {
            out: sealane_tcp::Out::new(&own::config(), 64),
            owed: None,
            packets: (0..512).map(|_| Vec::with_capacity(MTU)).collect(),
            message: vec![7; MESSAGE_BYTES as usize],
        }
    }
}

/// Runs all lanes for a round; the first tenth of it is not measured.
fn round(stack: &dyn Stack, lanes: &mut [Lane], batch: usize) -> Held {
    let barrier = Barrier::new(lanes.len());
    let lanes = thread::scope(|scope| {
        let run = |lane: &mut Lane| {
            barrier.wait();
            let start = Instant::now();
            let mut held = Held::default();
            while start.elapsed() < ROUND / 10 {
                stack.pass(lane, batch, &mut held);
            }
            held = Held::default();
            let before = allocations::count();
            while start.elapsed() < ROUND {
                stack.pass(lane, batch, &mut held);
            }
            held.allocations = allocations::count() - before;
            held
        };
        let handles: Vec<_> = lanes.iter_mut().map(|lane| scope.spawn(move || run(lane))).collect();
        handles.into_iter().map(|handle| handle.join().expect("a lane runs")).collect::<Vec<_>>()
    });
    lanes.into_iter().fold(Held::default(), |sum, held| Held {
        ns: sum.ns + held.ns,
        locks: sum.locks + held.locks,
        messages: sum.messages + held.messages,
        allocations: sum.allocations.max(held.allocations),
    })
}

/// Returns the time that two readings of the clock take: it is part of every measured interval.
fn clock_ns() -> f64 {
    let mut least = f64::MAX;
    for _ in 0..20 {
        let (mut sum, times) = (0, 10_000);
        for _ in 0..times {
            sum += Instant::now().elapsed().as_nanos();
        }
        least = least.min(sum as f64 / f64::from(times));
    }
    least
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn main() {
    let clock_ns = clock_ns();
    println!("{LANES} lanes, messages of {MESSAGE_BYTES} bytes, {ROUNDS} rounds of {ROUND:?} each, medians");
    println!("the clock's {clock_ns:.0} ns a lock are taken off");
    println!(
        "messages a lock   held ns a message: sealane   smoltcp   ratio   allocations a message: sealane   smoltcp"
    );
    let mut lanes: Vec<Lane> = (0..LANES).map(|_| Lane::new()).collect();
    for batch in [1, 8, 32] {
        let own = own::Own::new();
        lanes.iter_mut().for_each(|lane| lane.owed = None);
        let foreign = foreign::Foreign::new();
        let (mut ours, mut theirs) = (Vec::new(), Vec::new());
        let mut allocations = [0.0; 2];
        for _ in 0..ROUNDS {
            let stacks: [&dyn Stack; 2] = [&own, &foreign];
            for (index, (stack, samples)) in stacks.into_iter().zip([&mut ours, &mut theirs]).enumerate() {
                let held = round(stack, &mut lanes, batch);
                let messages = held.messages.max(1) as f64;
                samples.push((held.ns as f64 - clock_ns * held.locks as f64) / messages);
                allocations[index] = held.allocations as f64 / messages;
            }
        }
        let (ours, theirs) = (median(ours), median(theirs));
        println!(
            "{batch:15}   {ours:26.1}   {theirs:7.1}   {:5.2}   {:30.3}   {:7.3}",
            ours / theirs,
            allocations[0],
            allocations[1]
        );
    }
}

//! Engines and memories, cycle by cycle.
//!
//! An engine issues in order, one instruction per cycle. A thread that waits yields: the next one in turn that can
//! run does, and the swap loses as many cycles as a taken branch. Each cycle of an engine is executing, aborted (lost
//! by a branch or swap) or idle (no thread can run, or a full FIFO stalls the engine); the three add up to its time.
//!
//! A channel serves commands in the order of their arrival. Since no command overtakes another, the completion time
//! of a command is known when it is issued, so the simulation advances from reference to reference, in the order of
//! time and then of engines.

use crate::machine::{Machine, Shared};
use crate::program::{Base, Program, Reference, SLOTS, Step};
use serde::Serialize;

/// Bytes between the packet buffers of two threads.
const BUFFER_BYTES: u64 = 2048;

/// Bytes between the data of two flows in one memory.
const FLOW_BYTES: u64 = 4096 + 256;

/// Cycles by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct States {
    /// An instruction ran.
    pub executing: u64,
    /// Cycles lost by a branch or a swap.
    pub aborted: u64,
    /// Waiting.
    pub idle: u64,
}

impl States {
    /// Returns the sum of all states.
    pub const fn total(&self) -> u64 {
        self.executing + self.aborted + self.idle
    }
}

/// The work of a channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ChannelUse {
    /// Commands served.
    pub served: u64,
    /// Cycles taken.
    pub busy: u64,
    /// The time at which the last command has left it.
    pub until: u64,
}

/// The result of a simulation.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Outcome {
    /// Each engine's cycles.
    pub engines: Vec<States>,
    /// Channels of scratch, SRAM and DRAM.
    pub channels: [Vec<ChannelUse>; 3],
    /// References that engines issued.
    pub issued: u64,
    /// Bytes of messages done after the first tenth of the time.
    pub bytes: u64,
    /// Cycles after the first tenth.
    pub cycles: u64,
}

impl Outcome {
    /// Cycles of all engines by state.
    pub fn states(&self) -> States {
        self.engines.iter().fold(States::default(), |sum, one| States {
            executing: sum.executing + one.executing,
            aborted: sum.aborted + one.aborted,
            idle: sum.idle + one.idle,
        })
    }

    /// Returns the megabits of message per second.
    pub fn megabits_per_s(&self, mhz: u64) -> f64 {
        if self.cycles == 0 { 0.0 } else { (self.bytes * 8 * mhz) as f64 / self.cycles as f64 }
    }
}

struct Channel {
    /// The time at which the last command will have left it.
    free: u64,
    /// Start times of the last commands, as many as the FIFO is deep, in a ring whose oldest is at `oldest`.
    starts: Vec<u64>,
    oldest: usize,
    found: ChannelUse,
}

struct Bank {
    channels: Vec<Channel>,
    interleave: u64,
}

impl Bank {
    fn new(machine: &Machine, memory: Shared) -> Self {
        let memory = machine.memory(memory);
        let channel = || Channel {
            free: 0,
            starts: vec![0; memory.fifo as usize],
            oldest: 0,
            found: ChannelUse::default(),
        };
        Self {
            channels: (0..memory.channels).map(|_| channel()).collect(),
            interleave: memory.interleave_bytes,
        }
    }

    /// Issues a command at `now`; returns the times at which the FIFO takes it and the channel starts it.
    fn issue(&mut self, now: u64, address: u64, occupancy: u64) -> (u64, u64) {
        // Divisions are slow, and a single channel has all addresses.
        let number = match self.channels.len() {
            1 => 0,
            count if self.interleave.is_power_of_two() => {
                (address >> self.interleave.trailing_zeros()) as usize % count
            }
            count => (address / self.interleave) as usize % count,
        };
        let channel = &mut self.channels[number];
        // The FIFO has room when the command that came as many before as the FIFO is deep has started.
        let oldest = &mut channel.starts[channel.oldest];
        let taken = now.max(*oldest);
        let start = taken.max(channel.free);
        *oldest = start;
        channel.oldest += 1;
        if channel.oldest == channel.starts.len() {
            channel.oldest = 0;
        }
        channel.free = start + occupancy;
        channel.found.served += 1;
        channel.found.busy += occupancy;
        (taken, start)
    }
}

struct Thread {
    /// Index of the next operation, of prologue and steps in a row.
    at: usize,
    /// The base addresses, by [`Base`].
    bases: [u64; 3],
    /// The completion time of each slot's reference; the last slot belongs to operations without a wait.
    slots: [u64; SLOTS + 1],
}

struct Engine {
    now: u64,
    current: usize,
    /// Whether the current thread has reached its operation's reference.
    is_at_reference: bool,
    threads: Vec<Thread>,
    /// The time at which each thread can run.
    ready: Vec<u64>,
    found: States,
}

/// Bits of an engine's number; [`Machine`] has 64 engines at most.
const NUMBER_BITS: u32 = 6;

/// The slot of an operation without a wait.
const NO_SLOT: u8 = SLOTS as u8;

/// Consecutive steps with their costs: a wait, bytes done, cycles, a reference, in this order.
#[derive(Clone, Copy)]
struct Operation {
    slot: u8,
    done_bytes: u64,
    run: u64,
    abort: u64,
    reference: Option<Priced>,
}

/// A reference with its costs.
#[derive(Clone, Copy)]
struct Priced {
    memory: u8,
    base: u8,
    /// [`NO_SLOT`]: the thread waits at once.
    slot: u8,
    address: u64,
    occupancy: u64,
    latency: u64,
}

struct Chip<'a> {
    branch: u64,
    end: u64,
    warm: u64,
    /// The prologue's, then the lap's.
    operations: &'a [Operation],
    /// Index at which the lap begins.
    lap: usize,
    lap_bytes: u64,
    banks: [Bank; 3],
    issued: u64,
    bytes: u64,
}

/// Runs `program` on every thread of `engines` engines with `threads` threads for about `cycles` cycles.
pub fn simulate(machine: &Machine, program: &Program, engines: u64, threads: u64, cycles: u64) -> Outcome {
    // A lap must take time, or the loop would not end.
    if !program
        .steps
        .iter()
        .any(|step| matches!(step, Step::Run(1..) | Step::Abort(1..) | Step::Reference(_)))
    {
        return Outcome::default();
    }
    let mut operations = priced(machine, &program.prologue);
    let lap = operations.len();
    operations.extend(priced(machine, &program.steps));
    let mut chip = Chip {
        branch: machine.branch_cycles,
        end: cycles,
        warm: cycles / 10,
        operations: &operations,
        lap,
        lap_bytes: u64::from(program.lap_bytes),
        banks: Shared::ALL.map(|memory| Bank::new(machine, memory)),
        issued: 0,
        bytes: 0,
    };
    let thread = |number: u64| Thread {
        at: 0,
        bases: [number * BUFFER_BYTES, number * FLOW_BYTES, 0],
        slots: [0; SLOTS + 1],
    };
    let threads = threads.max(1);
    let engine = |number: u64| Engine {
        now: 0,
        current: 0,
        is_at_reference: false,
        threads: (0..threads).map(|at| thread(number * threads + at)).collect(),
        ready: vec![0; threads as usize],
        found: States::default(),
    };
    let engines = engines.clamp(1, 1 << NUMBER_BITS);
    let mut all: Vec<Engine> = (0..engines).map(engine).collect();
    // The engines' times, each with the engine's number in its low bits: the engine with the least is next.
    let mut turns: Vec<u64> = (0..engines).collect();
    loop {
        // The earliest engine runs until it would overtake the next. The result is unpredictable, so this has no
        // branch.
        let (mut first, mut second) = (u64::MAX, u64::MAX);
        for &turn in &turns {
            second = second.min(first.max(turn));
            first = first.min(turn);
        }
        if first >> NUMBER_BITS >= cycles {
            break;
        }
        let number = first & ((1 << NUMBER_BITS) - 1);
        let engine = &mut all[number as usize];
        chip.advance(engine, (second >> NUMBER_BITS).min(cycles - 1));
        turns[number as usize] = engine.now << NUMBER_BITS | number;
    }
    let uses = |bank: &Bank| {
        let of = |channel: &Channel| ChannelUse { until: channel.free, ..channel.found };
        bank.channels.iter().map(of).collect()
    };
    Outcome {
        engines: all.iter().map(|engine| engine.found).collect(),
        channels: [uses(&chip.banks[0]), uses(&chip.banks[1]), uses(&chip.banks[2])],
        issued: chip.issued,
        bytes: chip.bytes,
        cycles: cycles - chip.warm,
    }
}

/// Steps as operations. The order of running and lost cycles between a wait and a reference does not matter, because
/// it has no effect outside the thread.
fn priced(machine: &Machine, steps: &[Step]) -> Vec<Operation> {
    const NOTHING: Operation = Operation { slot: NO_SLOT, done_bytes: 0, run: 0, abort: 0, reference: None };
    let mut operations = Vec::new();
    let mut one = NOTHING;
    for step in steps {
        let is_begun = one.run + one.abort > 0;
        if is_begun && matches!(step, Step::Done(_)) || matches!(step, Step::Await(_)) {
            operations.push(one);
            one = NOTHING;
        }
        match *step {
            Step::Run(cycles) => one.run += u64::from(cycles),
            Step::Abort(cycles) => one.abort += u64::from(cycles),
            Step::Await(slot) => one.slot = slot,
            Step::Done(bytes) => one.done_bytes += u64::from(bytes),
            Step::Reference(reference) => {
                one.reference = Some(price(machine, reference));
                operations.push(one);
                one = NOTHING;
            }
        }
    }
    operations.push(one);
    let is_nothing = |one: &Operation| {
        one.slot == NO_SLOT && one.done_bytes + one.run + one.abort == 0 && one.reference.is_none()
    };
    operations.retain(|one| !is_nothing(one));
    operations
}

fn price(machine: &Machine, one: Reference) -> Priced {
    let memory = machine.memory(one.memory);
    Priced {
        memory: one.memory as u8,
        base: one.base as u8,
        slot: one.slot.unwrap_or(NO_SLOT),
        address: u64::from(one.address),
        occupancy: memory.occupancy_cycles(u64::from(one.bytes), machine.mhz),
        latency: memory.latency_cycles(u64::from(one.bytes), one.is_write, machine.mhz),
    }
}

impl Chip<'_> {
    /// Runs an engine until its next reference would come after `limit`, or its time is over.
    fn advance(&mut self, engine: &mut Engine, limit: u64) {
        while engine.now < self.end {
            let thread = &mut engine.threads[engine.current];
            let Some(operation) = self.operations.get(thread.at) else {
                thread.bases[Base::Message as usize] += self.lap_bytes;
                thread.at = self.lap;
                continue;
            };
            if !engine.is_at_reference {
                let complete = thread.slots[usize::from(operation.slot)];
                if complete > engine.now {
                    self.swap(engine, complete);
                    continue;
                }
                if engine.now > self.warm {
                    self.bytes += operation.done_bytes;
                }
                engine.now += operation.run + operation.abort;
                engine.found.executing += operation.run;
                engine.found.aborted += operation.abort;
            }
            let Some(one) = &operation.reference else {
                thread.at += 1;
                continue;
            };
            engine.is_at_reference = engine.now > limit;
            if engine.is_at_reference {
                return;
            }
            let address = thread.bases[usize::from(one.base)] + one.address;
            let (taken, start) =
                self.banks[usize::from(one.memory)].issue(engine.now, address, one.occupancy);
            self.issued += 1;
            engine.found.idle += taken - engine.now;
            engine.found.executing += 1;
            engine.now = taken + 1;
            thread.at += 1;
            if one.slot == NO_SLOT {
                self.swap(engine, start + one.latency);
            } else {
                thread.slots[usize::from(one.slot)] = start + one.latency;
            }
        }
    }

    /// Makes the current thread wait until `complete`: the next one in turn that can run does, and if none can, the
    /// one that can first.
    fn swap(&self, engine: &mut Engine, complete: u64) {
        engine.now += self.branch;
        engine.found.aborted += self.branch;
        engine.ready[engine.current] = complete;
        let (before, after) = engine.ready.split_at(engine.current + 1);
        let (mut next, mut ready) = (engine.current, u64::MAX);
        for (number, &at) in (engine.current + 1..).zip(after).chain((0..).zip(before)) {
            if at <= engine.now {
                (next, ready) = (number, engine.now);
                break;
            }
            if at < ready {
                (next, ready) = (number, at);
            }
        }
        engine.found.idle += ready - engine.now;
        engine.now = ready;
        engine.current = next;
    }
}

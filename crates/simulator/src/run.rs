//! Engines and memories, cycle by cycle.
//!
//! An engine issues in order, one instruction a cycle. A thread that waits gives way: the next one in turn that can go
//! on does, and the swap loses as many cycles as a taken branch. Each cycle of an engine is executing, aborted (lost by a
//! branch or swap) or idle (no thread can go on, or a full FIFO holds the engine up); the three add up to its time.
//!
//! A channel serves commands in the order they arrive. Since nothing overtakes, when a command will be complete is known
//! when it is issued, so the simulation goes from reference to reference, in the order of time and then of engines.

use crate::machine::{Machine, Shared};
use crate::program::{Base, Program, Reference, SLOTS, Step};
use serde::Serialize;
use std::collections::VecDeque;

/// Bytes between the packet buffers of two threads.
const BUFFER_BYTES: u64 = 2048;

/// Bytes between the data of two flows in one memory.
const FLOW_BYTES: u64 = 4096 + 256;

/// Cycles by state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct States {
    /// An instruction ran.
    pub executing: u64,
    /// Lost by a branch or a swap.
    pub aborted: u64,
    /// Waiting.
    pub idle: u64,
}

impl States {
    /// All of them.
    pub const fn total(&self) -> u64 {
        self.executing + self.aborted + self.idle
    }
}

/// What a channel did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct ChannelUse {
    /// Commands served.
    pub served: u64,
    /// Cycles taken.
    pub busy: u64,
    /// When the last command had left it.
    pub until: u64,
}

/// What a simulation found.
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

    /// Megabits of message in a second.
    pub fn megabits_per_s(&self, mhz: u64) -> f64 {
        if self.cycles == 0 { 0.0 } else { (self.bytes * 8 * mhz) as f64 / self.cycles as f64 }
    }
}

struct Channel {
    free: u64,
    /// Starts of the last commands, as many as the FIFO is deep.
    starts: VecDeque<u64>,
    found: ChannelUse,
}

struct Bank {
    channels: Vec<Channel>,
    interleave: u64,
    depth: usize,
}

impl Bank {
    fn new(machine: &Machine, memory: Shared) -> Self {
        let memory = machine.memory(memory);
        let channel = || Channel { free: 0, starts: VecDeque::new(), found: ChannelUse::default() };
        Self {
            channels: (0..memory.channels).map(|_| channel()).collect(),
            interleave: memory.interleave_bytes,
            depth: memory.fifo as usize,
        }
    }

    /// A command at `now`: when the FIFO takes it, and when the channel starts it.
    fn issue(&mut self, now: u64, address: u64, occupancy: u64) -> (u64, u64) {
        let number = address / self.interleave % self.channels.len() as u64;
        let channel = &mut self.channels[number as usize];
        let taken = match channel.starts.front() {
            // The oldest of a full FIFO must have started.
            Some(start) if channel.starts.len() == self.depth => now.max(*start),
            _ => now,
        };
        if channel.starts.len() == self.depth {
            channel.starts.pop_front();
        }
        let start = taken.max(channel.free);
        channel.starts.push_back(start);
        channel.free = start + occupancy;
        channel.found.served += 1;
        channel.found.busy += occupancy;
        channel.found.until = channel.free;
        (taken, start)
    }
}

#[derive(Clone, Copy)]
struct Thread {
    at: usize,
    in_prologue: bool,
    message: u64,
    flow: u64,
    ready: u64,
    slots: [u64; SLOTS],
}

struct Engine {
    now: u64,
    current: usize,
    threads: Vec<Thread>,
    found: States,
}

/// A step with what its reference costs.
#[derive(Clone, Copy)]
struct Priced {
    step: Step,
    occupancy: u64,
    latency: u64,
}

struct Chip<'a> {
    branch: u64,
    end: u64,
    warm: u64,
    prologue: &'a [Priced],
    steps: &'a [Priced],
    lap_bytes: u64,
    banks: [Bank; 3],
    issued: u64,
    bytes: u64,
}

/// Runs `program` on every thread of `engines` engines with `threads` threads for about `cycles` cycles.
pub fn simulate(machine: &Machine, program: &Program, engines: u64, threads: u64, cycles: u64) -> Outcome {
    let price = |steps: &[Step]| steps.iter().map(|step| priced(machine, *step)).collect::<Vec<_>>();
    let (prologue, steps) = (price(&program.prologue), price(&program.steps));
    // A lap must take time, or it would never end.
    if !program
        .steps
        .iter()
        .any(|step| matches!(step, Step::Run(1..) | Step::Abort(1..) | Step::Reference(_)))
    {
        return Outcome::default();
    }
    let mut chip = Chip {
        branch: machine.branch_cycles,
        end: cycles,
        warm: cycles / 10,
        prologue: &prologue,
        steps: &steps,
        lap_bytes: u64::from(program.lap_bytes),
        banks: Shared::ALL.map(|memory| Bank::new(machine, memory)),
        issued: 0,
        bytes: 0,
    };
    let thread = |number: u64| Thread {
        at: 0,
        in_prologue: !prologue.is_empty(),
        message: number * BUFFER_BYTES,
        flow: number * FLOW_BYTES,
        ready: 0,
        slots: [0; SLOTS],
    };
    let engine = |number: u64| Engine {
        now: 0,
        current: 0,
        threads: (0..threads.max(1)).map(|at| thread(number * threads + at)).collect(),
        found: States::default(),
    };
    let mut all: Vec<Engine> = (0..engines.max(1)).map(engine).collect();
    loop {
        // The earliest engine goes on until it would overtake the next.
        let (mut first, mut now, mut limit) = (0, u64::MAX, u64::MAX);
        for (number, engine) in all.iter().enumerate() {
            if engine.now < now {
                (first, limit, now) = (number, now, engine.now);
            } else {
                limit = limit.min(engine.now);
            }
        }
        if now >= cycles {
            break;
        }
        chip.advance(&mut all[first], limit);
    }
    let uses = |bank: &Bank| bank.channels.iter().map(|channel| channel.found).collect();
    Outcome {
        engines: all.iter().map(|engine| engine.found).collect(),
        channels: [uses(&chip.banks[0]), uses(&chip.banks[1]), uses(&chip.banks[2])],
        issued: chip.issued,
        bytes: chip.bytes,
        cycles: cycles - chip.warm,
    }
}

fn priced(machine: &Machine, step: Step) -> Priced {
    let (mut occupancy, mut latency) = (0, 0);
    if let Step::Reference(one) = step {
        let memory = machine.memory(one.memory);
        occupancy = memory.occupancy_cycles(u64::from(one.bytes), machine.mhz);
        latency = memory.latency_cycles(u64::from(one.bytes), one.is_write, machine.mhz);
    }
    Priced { step, occupancy, latency }
}

impl Chip<'_> {
    /// Lets an engine go on until its next reference would come after `limit`, or its time is over.
    fn advance(&mut self, engine: &mut Engine, limit: u64) {
        while engine.now < self.end {
            let thread = &mut engine.threads[engine.current];
            let steps = if thread.in_prologue { self.prologue } else { self.steps };
            let Some(Priced { step, occupancy, latency }) = steps.get(thread.at).copied() else {
                if !thread.in_prologue {
                    thread.message += self.lap_bytes;
                }
                thread.in_prologue = false;
                thread.at = 0;
                continue;
            };
            match step {
                Step::Run(cycles) => {
                    engine.now += u64::from(cycles);
                    engine.found.executing += u64::from(cycles);
                }
                Step::Abort(cycles) => {
                    engine.now += u64::from(cycles);
                    engine.found.aborted += u64::from(cycles);
                }
                Step::Reference(one) => {
                    if engine.now > limit {
                        return;
                    }
                    let (taken, done) = self.refer(one, engine.now, thread, occupancy, latency);
                    engine.found.idle += taken - engine.now;
                    engine.found.executing += 1;
                    engine.now = taken + 1;
                    thread.at += 1;
                    match one.slot {
                        Some(slot) => thread.slots[usize::from(slot)] = done,
                        None => {
                            thread.ready = done;
                            self.swap(engine);
                        }
                    }
                    continue;
                }
                Step::Await(slot) => {
                    let done = thread.slots[usize::from(slot)];
                    thread.at += 1;
                    if done > engine.now {
                        thread.ready = done;
                        self.swap(engine);
                    }
                    continue;
                }
                Step::Done(bytes) => {
                    if engine.now > self.warm && engine.now <= self.end {
                        self.bytes += u64::from(bytes);
                    }
                }
            }
            thread.at += 1;
        }
    }

    /// Issues a reference: when its FIFO takes it, and when it is complete.
    fn refer(
        &mut self,
        one: Reference,
        now: u64,
        thread: &Thread,
        occupancy: u64,
        latency: u64,
    ) -> (u64, u64) {
        let from = match one.base {
            Base::Message => thread.message,
            Base::Flow => thread.flow,
            Base::Common => 0,
        };
        let bank = &mut self.banks[one.memory as usize];
        let (taken, start) = bank.issue(now, from + u64::from(one.address), occupancy);
        self.issued += 1;
        (taken, start + latency)
    }

    /// The current thread waits: the next in turn that can go on does, and if none can, the one that will first.
    fn swap(&self, engine: &mut Engine) {
        engine.now += self.branch;
        engine.found.aborted += self.branch;
        let count = engine.threads.len();
        let (mut next, mut ready) = (engine.current, u64::MAX);
        for step in 1..=count {
            let number = (engine.current + step) % count;
            let at = engine.threads[number].ready;
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

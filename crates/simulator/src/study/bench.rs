//! Simulations by their parameters, each run once.

use crate::lower::{Optimisation, lower};
use crate::machine::{BUILT_IN, Machine};
use crate::placement::Parallelism;
use crate::program::Classes;
use crate::run::{States, simulate};
use crate::traced_kernel::{TEN, TracedKernel};
use std::collections::BTreeMap;

/// One simulation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cell {
    /// Place in the bench's machines.
    pub machine: usize,
    /// Place in [`TEN`].
    pub work: usize,
    /// How far the kernel is optimised.
    pub level: Optimisation,
    /// Number of engines that run.
    pub engines: u64,
    /// Threads of each.
    pub threads: u64,
    /// The work that threads share.
    pub parallelism: Parallelism,
}

impl Cell {
    /// Returns the cell of level 0 with one thread.
    pub fn raw(machine: usize, work: usize) -> Self {
        let parallelism = Parallelism::Flow;
        Self { machine, work, level: Optimisation::Raw, engines: 1, threads: 1, parallelism }
    }

    /// Returns this cell at another level and size.
    pub fn at(self, level: Optimisation, engines: u64, threads: u64) -> Self {
        Self { level, engines, threads, ..self }
    }
}

/// The result of one simulation.
#[derive(Clone, Debug, PartialEq)]
pub struct Found {
    /// Megabits of message per second.
    pub megabits_per_s: f64,
    /// Cycles of all engines by state.
    pub states: States,
    /// Busy share of the scratch, SRAM and DRAM channels, in per cent.
    pub busy: [f64; 3],
    /// Instructions of a lap.
    pub instructions: Classes,
    /// Cycles of a lap that ran or were lost by branches.
    pub cycles: Classes,
}

impl Found {
    /// Returns the share of a state, in per cent.
    pub fn share(&self, of: impl Fn(&States) -> u64) -> f64 {
        percent(of(&self.states), self.states.total())
    }

    /// Returns the shares of one thread's time, in per cent: ALU, branches, constants and others, memory. Waits, and
    /// cycles lost by swaps, count as memory.
    pub fn breakdown(&self) -> [f64; 4] {
        let total = self.states.total();
        let counted = self.cycles.total().max(1);
        let lost = self.cycles.branch + self.cycles.jump - self.instructions.branch - self.instructions.jump;
        // A lap's cycles without commands and waits are scaled to the cycles that ran.
        let ran = self.states.executing as f64 / (counted - lost).max(1) as f64;
        let share = |cycles: u64| 100.0 * cycles as f64 * ran / total.max(1) as f64;
        let alu = share(self.cycles.simple + self.cycles.complex);
        let branch = share(self.cycles.branch + self.cycles.jump);
        let other = share(self.cycles.immediate + self.cycles.other);
        [alu, branch, other, (100.0 - alu - branch - other).max(0.0)]
    }
}

/// Returns the share of `part` in `whole`, in per cent.
pub(super) fn percent(part: u64, whole: u64) -> f64 {
    100.0 * part as f64 / whole.max(1) as f64
}

/// The machines and the works, and the results so far.
#[derive(Debug)]
pub struct Bench<'a> {
    /// The paper's machines in their order, then others.
    pub machines: Vec<Machine>,
    works: &'a [TracedKernel],
    found: BTreeMap<Cell, Found>,
}

/// Sets the memory clocks of Fig 9: +16.5 % for DRAM, commands included, and +33.5 % for SRAM.
pub(super) fn faster_memory(machine: &mut Machine) {
    machine.dram.bus_mhz = machine.dram.bus_mhz * 1165 / 1000;
    machine.dram.command_cycles = (machine.dram.command_cycles * 1000).div_ceil(1165);
    machine.sram.bus_mhz = machine.sram.bus_mhz * 1335 / 1000;
}

/// Returns the traces of all ten.
pub fn works() -> Vec<TracedKernel> {
    TEN.iter().filter_map(|name| TracedKernel::new(name)).collect()
}

/// Returns the paper's machines.
pub fn built_in() -> [Machine; 3] {
    BUILT_IN.map(|(name, _)| Machine::built_in(name).expect("named by the list itself"))
}

impl<'a> Bench<'a> {
    /// Returns a bench.
    pub fn new(machines: Vec<Machine>, works: &'a [TracedKernel]) -> Self {
        Self { machines, works, found: BTreeMap::new() }
    }

    /// Returns the algorithms, by the place that [`Cell::work`] names.
    pub fn works(&self) -> &'a [TracedKernel] {
        self.works
    }

    /// Runs a cell, or remembers it.
    pub fn run(&mut self, cell: Cell) -> &Found {
        let (machines, works) = (&self.machines, self.works);
        self.found.entry(cell).or_insert_with(|| {
            let machine = &machines[cell.machine];
            let size = (cell.engines, cell.threads);
            let program = lower(&works[cell.work], machine, cell.level, size, cell.parallelism);
            let cycles = if size == (1, 1) { 1_000_000 } else { 400_000 };
            let outcome = simulate(machine, &program, cell.engines, cell.threads, cycles);
            let busy = outcome.channels.each_ref().map(|channels| {
                let busy = channels.iter().map(|channel| channel.busy).sum::<u64>();
                percent(busy, channels.iter().map(|channel| channel.until.max(cycles)).sum())
            });
            Found {
                megabits_per_s: outcome.megabits_per_s(machine.mhz),
                states: outcome.states(),
                busy,
                instructions: program.instructions,
                cycles: program.cycles,
            }
        })
    }

    /// Returns the instructions of a kernel's code at level 0, with each place of its source once.
    pub fn code(&self, machine: usize, work: usize) -> Classes {
        let code = self.works[work].code();
        lower(&code, &self.machines[machine], Optimisation::Raw, (1, 1), Parallelism::Flow).instructions
    }

    /// Returns the throughput of a cell.
    pub fn rate(&mut self, cell: Cell) -> f64 {
        self.run(cell).megabits_per_s
    }

    /// Returns the speed of `cell` divided by that of `base`.
    pub fn gain(&mut self, cell: Cell, base: Cell) -> f64 {
        self.rate(cell) / self.rate(base).max(f64::MIN_POSITIVE)
    }
}

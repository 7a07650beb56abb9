//! Public-key operations, which the paper names as its future work: the mixes of their loops beside the ten's, and our own
//! sentences about them.
//!
//! A loop is traced for one pass; what an operation does once (an inversion, a padding) is not counted. Waits for
//! memories are not either, so that cycles are those in which an engine runs or loses a branch.

use super::claims::{Bound, Checked};
use super::figure::{Figure, Kind};
use super::figures::{CLASSES, mean_row, owned, shares};
use crate::lower::{Optimisation, lower};
use crate::machine::Machine;
use crate::placement::Parallelism;
use crate::program::Program;
use crate::traced_kernel::TracedKernel;
use sealane_transform::{PUBLIC_LOOPS, PublicLoop};

/// The loops of public-key operations, beside the ten.
#[derive(Debug)]
pub struct PublicKey<'a> {
    loops: Vec<(&'static PublicLoop, TracedKernel)>,
    ten: &'a [TracedKernel],
}

/// Returns the program of a pass or a lap at level 0.
fn program(work: &TracedKernel, machine: &Machine) -> Program {
    lower(work, machine, Optimisation::Raw, (1, 1), Parallelism::Flow)
}

/// Returns the share of multiplications and rotations by variables.
fn complex(work: &TracedKernel, machine: &Machine) -> f64 {
    let found = program(work, machine).instructions;
    found.complex as f64 / found.total().max(1) as f64
}

fn least(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(f64::INFINITY, f64::min)
}

fn most(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(f64::NEG_INFINITY, f64::max)
}

impl<'a> PublicKey<'a> {
    /// Traces the loops.
    pub fn new(ten: &'a [TracedKernel]) -> Self {
        Self { loops: PUBLIC_LOOPS.iter().map(|one| (one, TracedKernel::of_loop(one))).collect(), ten }
    }

    /// Returns both tables, for the paper's machines.
    pub(super) fn figures(&self, machines: &[Machine; 3]) -> [Figure; 2] {
        [self.mix(&machines[2]), self.cycles(machines)]
    }

    fn mix(&self, machine: &Machine) -> Figure {
        let row = |work: &TracedKernel| (work.name.to_owned(), shares(&program(work, machine).instructions));
        let mut rows: Vec<_> = self.loops.iter().map(|(_, work)| row(work)).collect();
        let ten: Vec<_> = self.ten.iter().map(row).collect();
        rows.push(("the ten, mean".to_owned(), mean_row(&ten).1));
        Figure {
            title: "Public-key operations: dynamic instruction mix, IXP2800, level 0".to_owned(),
            note: "Per cent of the instructions of a pass: a bit of an exponent or a scalar, a step of the ladder, the transform \
                of a polynomial, a permutation. Numbers of 256 bits lie in registers and longer ones in local memory.",
            kind: Kind::Stacked,
            columns: owned(&CLASSES),
            rows,
        }
    }

    fn cycles(&self, machines: &[Machine; 3]) -> Figure {
        let row = |(one, work): &(&PublicLoop, TracedKernel)| {
            let (operation, passes) = one.operation;
            let programs = machines.each_ref().map(|machine| program(work, machine));
            let instructions = programs[2].instructions.total();
            let millions = |count: u64| (count * passes) as f64 / 1e6;
            let mut row = vec![instructions as f64, passes as f64, millions(instructions)];
            row.extend(programs.iter().map(|program| millions(program.cycles.total())));
            (format!("{}, {operation}", one.name), row.into_iter().map(Some).collect())
        };
        let columns = ["instructions a pass", "passes", "10^6 instructions"].map(str::to_owned);
        let cycles = machines.iter().map(|machine| format!("10^6 cycles, {}", machine.name));
        Figure {
            title: "Public-key operations: instructions and cycles, level 0".to_owned(),
            note: "Instructions are the IXP2800's. Cycles are those that run or are lost by branches, without waits for memories. \
                Of ML-KEM and ML-DSA these are two of the parts; what operations do once is not counted. A signature of ML-DSA takes \
                5.1 attempts in the mean, with a key that is not prepared.",
            kind: Kind::Table,
            columns: columns.into_iter().chain(cycles).collect(),
            rows: self.loops.iter().map(row).collect(),
        }
    }

    /// Checks our sentences on machines of which the first is the IXP1200 and the last the IXP2800.
    pub fn check(&self, machines: &[Machine]) -> Vec<Checked> {
        let ([older, ..], [.., newer]) = (machines, machines) else { return Vec::new() };
        let multiplying = || self.loops.iter().filter(|(one, _)| one.multiplies).map(|(_, work)| work);
        let slower = |work: &TracedKernel| {
            let cycles = |machine| program(work, machine).cycles.total() as f64;
            cycles(older) / cycles(newer).max(1.0)
        };
        let keccak = self.loops.iter().filter(|(one, _)| one.name.ends_with("Keccak")).map(|(_, work)| {
            let found = program(work, newer).instructions;
            100.0 * found.simple as f64 / found.total().max(1) as f64
        });
        let cycles = |name: &str| {
            let of = |(one, work): &(&PublicLoop, TracedKernel)| {
                program(work, newer).cycles.total() * one.operation.1
            };
            self.loops.iter().find(|(one, _)| one.name == name).map_or(0.0, |found| of(found) as f64)
        };
        let parts = ["NTT", "Keccak"].map(|part| cycles(&format!("ml-dsa-65, {part}")));
        let checked =
            |sentence, measure, value, bound| Checked { source: "B26", sentence, measure, value, bound };
        vec![
            checked(
                "RSA, Diffie-Hellman and curves have more complex instructions than any of the ten",
                "least share over the ten's largest, IXP2800",
                least(multiplying().map(|work| complex(work, newer)))
                    / most(self.ten.iter().map(|work| complex(work, newer))).max(f64::MIN_POSITIVE),
                Bound::AtLeast(1.0),
            ),
            checked(
                "without a multiplier they lose more than any of the ten does",
                "least ratio of cycles, IXP1200 over IXP2800, over the ten's largest",
                least(multiplying().map(slower)) / most(self.ten.iter().map(slower)).max(f64::MIN_POSITIVE),
                Bound::AtLeast(1.0),
            ),
            checked(
                "the permutation of ML-KEM and ML-DSA is made of simple instructions, as the paper's mean of the ten or more",
                "IXP2800, %",
                least(keccak),
                Bound::AtLeast(78.9),
            ),
            checked(
                "a signature of ML-DSA transforms longer than it hashes: without vectors a multiplier helps it more than an engine for Keccak",
                "cycles of transforms over those of permutations, IXP2800",
                parts[0] / parts[1].max(1.0),
                Bound::AtLeast(1.0),
            ),
        ]
    }
}

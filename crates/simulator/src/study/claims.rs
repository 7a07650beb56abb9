//! The paper's sentences as figures with bounds.
//!
//! A sentence holds if its figure is within its bound under every set of guesses, fails if that is so under no set, and
//! otherwise depends on the guesses that turn it. No bound is tuned: if the paper prints a number, our figure must be
//! that number within [`TOLERANCE`]; if the paper prints a limit, the limit is the bound; otherwise the bound is the plain
//! meaning of the words.

use super::bench::{Bench, Cell, faster_memory, percent};
use crate::lower::Optimisation::{self, Bursts, Overlapped, Raw};
use crate::machine::Machine;
use serde::Serialize;

/// The bound of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// The least value.
    AtLeast(f64),
    /// The greatest value.
    AtMost(f64),
    /// The least and the greatest value.
    Between(f64, f64),
    /// The paper's own number, within [`TOLERANCE`].
    Paper(f64),
}

/// The share of the paper's number by which ours may differ. The paper prints neither a spread nor its compilers' code, so that its
/// numbers cannot be met to the digit; a tenth is what the lab calls alike in every other study.
pub const TOLERANCE: f64 = 0.1;

impl Bound {
    /// Returns whether a figure is within the bound.
    pub fn holds(self, value: f64) -> bool {
        let (least, most) = self.ends();
        least.is_none_or(|least| value >= least) && most.is_none_or(|most| value <= most)
    }

    /// Returns the least and the greatest permitted figure.
    pub fn ends(self) -> (Option<f64>, Option<f64>) {
        match self {
            Self::AtLeast(least) => (Some(least), None),
            Self::AtMost(most) => (None, Some(most)),
            Self::Between(least, most) => (Some(least), Some(most)),
            Self::Paper(number) => (Some(number * (1.0 - TOLERANCE)), Some(number * (1.0 + TOLERANCE))),
        }
    }
}

/// A sentence under one set of guesses.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Checked {
    /// The place in the paper.
    pub source: &'static str,
    /// The statement, in our words.
    pub sentence: &'static str,
    /// The meaning of our figure.
    pub measure: &'static str,
    /// Our figure.
    pub value: f64,
    /// The values with which the sentence holds.
    pub bound: Bound,
}

/// A sentence with our figure under each set of guesses, or by each compiler.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Sentence {
    /// The place in the paper.
    pub source: &'static str,
    /// The statement, in our words.
    pub sentence: &'static str,
    /// The meaning of our figure.
    pub measure: &'static str,
    /// The values with which the sentence holds.
    pub bound: Bound,
    /// The figures by the set of guesses or the compiler; the first figure is ours.
    pub values: Vec<(String, f64)>,
}

impl From<Checked> for Sentence {
    fn from(Checked { source, sentence, measure, value, bound }: Checked) -> Self {
        Self { source, sentence, measure, bound, values: vec![("the machines' files".to_owned(), value)] }
    }
}

impl Sentence {
    /// Returns our figure, the least and the greatest figure; `None` if there is no figure.
    pub fn range(&self) -> Option<[f64; 3]> {
        let values = || self.values.iter().map(|(_, value)| *value);
        Some([values().next()?, values().reduce(f64::min)?, values().reduce(f64::max)?])
    }

    /// Returns the sets under which the verdict differs from that under the first set.
    pub fn turned_by(&self) -> Vec<&str> {
        let Some(first) = self.values.first() else { return Vec::new() };
        let holds = |value: &(String, f64)| self.bound.holds(value.1);
        self.values.iter().filter(|value| holds(value) != holds(first)).map(|(name, _)| &**name).collect()
    }
}

const MD5: usize = 0;
const SHA1: usize = 1;
const RC4: usize = 2;
const SEAL: usize = 3;
const AES: usize = 4;
const DES: usize = 5;
const RC5: usize = 6;
const RC6: usize = 7;
const BLOWFISH: usize = 8;
const IDEA: usize = 9;
const ALL: [usize; 10] = [MD5, SHA1, RC4, SEAL, AES, DES, RC5, RC6, BLOWFISH, IDEA];
const HASHES: [usize; 2] = [MD5, SHA1];
const STREAMS: [usize; 2] = [RC4, SEAL];
const BLOCKS: [usize; 6] = [AES, DES, RC5, RC6, BLOWFISH, IDEA];
const CIPHERS: [usize; 8] = [RC4, SEAL, AES, DES, RC5, RC6, BLOWFISH, IDEA];
/// The programs that ran on the IXP1200, for which the paper's compiler refused SHA-1.
const WITHOUT_SHA1: [usize; 9] = [MD5, RC4, SEAL, AES, DES, RC5, RC6, BLOWFISH, IDEA];
const IXP1200: usize = 0;
const IXP2400: usize = 1;
const IXP2800: usize = 2;

/// The programs that ran on a machine.
fn ran(machine: usize) -> Vec<usize> {
    if machine == IXP1200 { WITHOUT_SHA1.to_vec() } else { ALL.to_vec() }
}

fn least(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().fold(f64::INFINITY, f64::min)
}

fn most(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().fold(f64::NEG_INFINITY, f64::max)
}

fn mean(values: impl IntoIterator<Item = f64>) -> f64 {
    let (sum, count) = values.into_iter().fold((0.0, 0.0), |(sum, count), value| (sum + value, count + 1.0));
    sum / f64::max(count, 1.0)
}

/// The bench and the sentences found so far.
struct Checks<'a, 'b> {
    bench: &'a mut Bench<'b>,
    found: Vec<Checked>,
}

/// Checks every sentence on a bench whose first three machines are the paper's.
pub fn check(bench: &mut Bench<'_>) -> Vec<Checked> {
    let mut checks = Checks { bench, found: Vec::new() };
    checks.mix();
    checks.throughput();
    checks.pipeline();
    checks.breakdown();
    checks.parallelism();
    checks.bursts();
    checks.advice();
    checks.found
}

impl Checks<'_, '_> {
    fn add(
        &mut self,
        source: &'static str,
        sentence: &'static str,
        measure: &'static str,
        value: f64,
        bound: Bound,
    ) {
        self.found.push(Checked { source, sentence, measure, value, bound });
    }

    fn raw(&mut self, machine: usize, work: usize) -> f64 {
        self.bench.rate(Cell::raw(machine, work))
    }

    fn raws(&mut self, machine: usize, works: &[usize]) -> Vec<f64> {
        works.iter().map(|&work| self.raw(machine, work)).collect()
    }

    fn idle(&mut self, machine: usize, work: usize) -> f64 {
        self.bench.run(Cell::raw(machine, work)).share(|states| states.idle)
    }

    fn idles(&mut self, machine: usize, works: &[usize]) -> Vec<f64> {
        works.iter().map(|&work| self.idle(machine, work)).collect()
    }

    /// Returns the share of memory and branches in the time of a thread.
    fn time(&mut self, machine: usize, work: usize) -> (f64, f64) {
        let [_, branch, _, memory] = self.bench.run(Cell::raw(machine, work)).breakdown();
        (memory, branch)
    }

    fn gain(&mut self, work: usize, to: (Optimisation, u64, u64), from: (Optimisation, u64, u64)) -> f64 {
        let cell = Cell::raw(IXP2800, work);
        self.bench.gain(cell.at(to.0, to.1, to.2), cell.at(from.0, from.1, from.2))
    }

    fn gains(
        &mut self,
        works: &[usize],
        to: (Optimisation, u64, u64),
        from: (Optimisation, u64, u64),
    ) -> Vec<f64> {
        works.iter().map(|&work| self.gain(work, to, from)).collect()
    }

    /// Returns the instructions of a class in per cent, at level 0 of a machine.
    fn share(&mut self, machine: usize, work: usize, class: usize) -> f64 {
        let found = self.bench.run(Cell::raw(machine, work)).instructions;
        let classes = [found.simple, found.complex, found.branch + found.jump, found.memory(), found.other];
        percent(classes[class], found.total())
    }

    fn mix(&mut self) {
        let source = "Table V";
        for (class, sentence, paper) in [
            (0, "simple ALU instructions are 78.9 %", 78.9),
            (1, "complex ones 5.9 %", 5.9),
            (2, "branches 2.0 %", 2.0),
            (3, "memory and immediates 10.8 %", 10.8),
            (4, "others 2.4 %", 2.4),
        ] {
            let value = mean(ALL.map(|work| self.share(IXP2800, work, class)));
            self.add(source, sentence, "mean over ten, IXP2800, %", value, Bound::Paper(paper));
        }
        for (class, sentence, bound) in [
            (0, "on the IXP1200 simple ALU instructions are 71.5 %", Bound::Paper(71.5)),
            (1, "on the IXP1200 complex ones 1.2 %", Bound::Paper(1.2)),
            (2, "on the IXP1200 branches 10.1 %", Bound::Paper(10.1)),
            (3, "on the IXP1200 memory and immediates at most 12.0 %", Bound::AtMost(12.0)),
        ] {
            let value = mean(WITHOUT_SHA1.map(|work| self.share(IXP1200, work, class)));
            self.add("Section IV-C", sentence, "mean over nine, %", value, bound);
        }
        let code = |work| {
            let code = self.bench.code(IXP2800, work);
            percent(code.immediate + code.other, code.total())
        };
        let value = mean(ALL.map(code));
        let sentence = "immediates and others are more of the code than of its run";
        let run = |work| self.bench.run(Cell::raw(IXP2800, work)).breakdown()[2];
        let run = mean(ALL.map(run));
        self.add("Fig 2, Fig 5", sentence, "points, mean, IXP2800", value - run, Bound::AtLeast(0.0));
        let value = self.share(IXP2800, MD5, 3);
        self.add(source, "MD5 has 0.2 % memory and immediates", "%", value, Bound::Paper(0.2));
        let value = self.share(IXP2800, AES, 3);
        self.add(source, "AES has 24.5 % memory and immediates", "%", value, Bound::Paper(24.5));
    }

    fn throughput(&mut self) {
        let source = "Fig 3";
        for (machine, slowest, spread, last) in [
            (IXP1200, RC6, "on the IXP1200 MD5 is 45 times the slowest", "on the IXP1200 RC6 is the slowest"),
            (IXP2400, AES, "on the IXP2400 MD5 is 45 times the slowest", "on the IXP2400 AES is the slowest"),
            (IXP2800, AES, "on the IXP2800 MD5 is 45 times the slowest", "on the IXP2800 AES is the slowest"),
        ] {
            let works = ran(machine);
            let rates = self.raws(machine, &works);
            let lowest = least(rates.iter().copied());
            let first = rates[MD5] / most(rates.iter().copied());
            self.add(source, spread, "MD5 over the slowest", rates[MD5] / lowest, Bound::AtLeast(45.0));
            self.add(source, "MD5 is the fastest", "MD5 over the fastest", first, Bound::AtLeast(1.0));
            let over = self.raw(machine, slowest) / lowest;
            self.add(source, last, "over the slowest", over, Bound::AtMost(1.0));
            let hashes: Vec<usize> = HASHES.into_iter().filter(|work| works.contains(work)).collect();
            let hashes = least(self.raws(machine, &hashes)) / most(self.raws(machine, &CIPHERS));
            self.add(
                source,
                "hashes are at least twice as fast as ciphers",
                "slowest hash over fastest cipher",
                hashes,
                Bound::AtLeast(2.0),
            );
            let streams = mean(self.raws(machine, &STREAMS)) / mean(self.raws(machine, &BLOCKS));
            self.add(
                source,
                "stream ciphers are faster than block ciphers",
                "mean over mean",
                streams,
                Bound::AtLeast(1.0),
            );
        }
        let slow = most(self.raws(IXP1200, &[RC6, IDEA]))
            / least(self.raws(IXP1200, &[RC4, SEAL, AES, DES, RC5, BLOWFISH]));
        let sentence = "on the IXP1200 RC6 and IDEA are the slowest two";
        self.add(source, sentence, "faster of both over slowest of the others", slow, Bound::AtMost(1.0));
        for (machine, sentence) in [
            (IXP2400, "DES beats AES and Blowfish, IXP2400"),
            (IXP2800, "DES beats AES and Blowfish, IXP2800"),
        ] {
            let value = self.raw(machine, DES) / most(self.raws(machine, &[AES, BLOWFISH]));
            self.add(source, sentence, "DES over the better of both", value, Bound::AtLeast(1.0));
        }
        let gains: Vec<f64> =
            ALL.iter().map(|&work| self.raw(IXP2800, work) / self.raw(IXP2400, work)).collect();
        let others = most(ALL.into_iter().filter(|&work| work != SEAL).map(|work| gains[work]));
        let seal = "of 133 % more clock SEAL gets all";
        self.add(source, seal, "SEAL, 2800 over 2400", gains[SEAL], Bound::AtLeast(2.3));
        self.add(source, "nobody else does", "best of the others", others, Bound::AtMost(2.3));
    }

    fn pipeline(&mut self) {
        let source = "Fig 4";
        let machines = [
            (IXP1200, "idle averages over 42 %, IXP1200"),
            (IXP2400, "idle averages over 42 %, IXP2400"),
            (IXP2800, "idle averages over 42 %, IXP2800"),
        ];
        let mut executing = 0.0f64;
        for (machine, sentence) in machines {
            let idle = mean(self.idles(machine, &ran(machine)));
            self.add(source, sentence, "mean, %", idle, Bound::AtLeast(42.0));
            for work in ran(machine) {
                let found = self.bench.run(Cell::raw(machine, work)).share(|states| states.executing);
                executing = executing.max(found);
            }
        }
        let never = "engines never execute more than 60 % of the time";
        self.add(source, never, "most of all, %", executing, Bound::AtMost(60.0));
        let six = least(self.idles(IXP2800, &[AES, RC4, RC5, RC6, BLOWFISH, SEAL]));
        let sentence = "on the IXP2800 AES, RC4/5/6, Blowfish and SEAL idle over half the time";
        self.add(source, sentence, "least of them, %", six, Bound::AtLeast(50.0));
        let rises = least(ALL.map(|work| self.idle(IXP2800, work) - self.idle(IXP2400, work)));
        let all = "from IXP2400 to IXP2800 all idle more";
        self.add(source, all, "least rise, points", rises, Bound::AtLeast(0.0));
        let more =
            ALL.into_iter().filter(|&work| self.idle(IXP2400, work) > self.idle(IXP1200, work)).count();
        let sentence = "from IXP1200 to IXP2X00 six algorithms idle more";
        self.add(source, sentence, "algorithms, IXP2400", more as f64, Bound::Between(6.0, 6.0));
        let lost = most(ALL.map(|work| self.bench.run(Cell::raw(IXP2800, work)).share(|s| s.aborted)));
        self.add(source, "the IXP2X00 rarely aborts", "most on the IXP2800, %", lost, Bound::AtMost(10.0));
    }

    fn breakdown(&mut self) {
        let source = "Fig 5";
        for (machine, sentence) in [
            (IXP1200, "memory takes over half the time, IXP1200"),
            (IXP2800, "memory takes over half the time, IXP2800"),
        ] {
            let memory =
                mean(ran(machine).into_iter().map(|work| self.time(machine, work).0).collect::<Vec<_>>());
            self.add(source, sentence, "mean, %", memory, Bound::AtLeast(50.0));
        }
        let hashes = least(HASHES.map(|work| self.time(IXP2800, work).0));
        let sentence = "hashes spend at least 21.7 % on memory, IXP2800";
        self.add(source, sentence, "lower of both, %", hashes, Bound::AtLeast(21.7));
        for (work, sentence) in [
            (RC6, "RC6 on the IXP1200 spends about half its time on branches"),
            (IDEA, "IDEA on the IXP1200 spends about half its time on branches"),
        ] {
            let value = self.time(IXP1200, work).1;
            self.add(source, sentence, "%", value, Bound::Between(40.0, 60.0));
        }
        let others = WITHOUT_SHA1.into_iter().filter(|work| ![RC6, IDEA].contains(work));
        let branches = most(others.map(|work| self.time(IXP1200, work).1).collect::<Vec<_>>());
        let sentence = "others at most 4 %";
        self.add(source, sentence, "most of the others, IXP1200, %", branches, Bound::AtMost(4.0));
        let unused = least(
            [AES, BLOWFISH, SEAL]
                .map(|work| 100.0 - self.bench.run(Cell::raw(IXP2800, work)).share(|s| s.executing)),
        );
        let sentence = "AES, Blowfish and SEAL leave over 70 % of an engine unused";
        self.add(source, sentence, "least of them, %", unused, Bound::AtLeast(70.0));
    }

    fn parallelism(&mut self) {
        let source = "Fig 8";
        let single = 100.0 * (mean(self.gains(&ALL, (Overlapped, 1, 1), (Raw, 1, 1))) - 1.0);
        let sentence = "optimisation for one thread gains 145 %";
        self.add(source, sentence, "level 2 over 0, mean, %", single, Bound::Paper(145.0));
        let doubled = least(self.gains(&ALL, (Overlapped, 2, 1), (Overlapped, 1, 1)));
        let sentence = "a second engine nearly doubles every algorithm";
        self.add(source, sentence, "least, one thread each", doubled, Bound::AtLeast(1.8));
        let eight = most(self.gains(&ALL, (Overlapped, 1, 8), (Overlapped, 1, 4)));
        let sentence = "eight threads give no more than four";
        self.add(source, sentence, "most, one engine", eight, Bound::AtMost(1.1));
        let linear = least(self.gains(&[DES, IDEA, SHA1], (Overlapped, 8, 8), (Overlapped, 1, 8)));
        let sentence = "at eight engines DES, IDEA and SHA-1 are near linear";
        self.add(source, sentence, "least, eight threads", linear, Bound::AtLeast(7.0));
        let aes = self.gain(AES, (Overlapped, 8, 8), (Overlapped, 1, 8));
        self.add(source, "AES is not", "eight engines over one", aes, Bound::AtMost(6.0));
        let flat = most(self.gains(&[AES, RC5], (Overlapped, 8, 8), (Overlapped, 4, 8)));
        let sentence = "AES and RC5 hardly gain beyond four engines";
        self.add(source, sentence, "better of both, eight over four", flat, Bound::AtMost(1.2));
    }

    fn bursts(&mut self) {
        let source = "Fig 9";
        let gains = self.gains(&ALL, (Bursts, 8, 8), (Overlapped, 8, 8));
        let rise = |gain: f64| 100.0 * (gain - 1.0);
        let value = rise(mean(gains.iter().copied()));
        let measure = "level 3 over 2, mean, %";
        self.add(source, "the largest bursts gain 72.1 %", measure, value, Bound::Paper(72.1));
        let (low, high) = (least([RC4, RC5, RC6].map(|work| gains[work])), [SEAL, AES, DES, BLOWFISH, IDEA]);
        let rest = most(high.into_iter().chain(HASHES).map(|work| gains[work]));
        self.add(
            source,
            "RC4/5/6 gain most",
            "least of them over most of the rest",
            low / rest,
            Bound::AtLeast(1.0),
        );
        let hard = rise(most([DES, IDEA].map(|work| gains[work])));
        self.add(source, "DES and IDEA gain less than 10 %", "better of both, %", hard, Bound::AtMost(10.0));
        let hashes = rise(most(HASHES.map(|work| gains[work])));
        self.add(source, "hashes gain nothing", "better of both, %", hashes, Bound::Between(-1.0, 1.0));
        let faster = self.changed(faster_memory);
        let sentence = "memory clocks of +16.5 % (DRAM) and +33.5 % (SRAM) gain 14.5 %";
        self.add(source, sentence, "level 2, mean, %", rise(faster), Bound::Paper(14.5));
        let better = rise(mean(gains)) - rise(faster);
        let sentence = "bursts contribute more than a faster memory";
        self.add(source, sentence, "points", better, Bound::AtLeast(0.0));
    }

    /// Returns the mean gain of level 2 on 8 engines of 8 threads if another machine stands for the IXP2800.
    fn changed(&mut self, change: impl Fn(&mut Machine)) -> f64 {
        let mut machine = self.bench.machines[IXP2800].clone();
        change(&mut machine);
        let mut bench = Bench::new(vec![machine], self.bench.works());
        mean(ALL.map(|work| {
            let cell = Cell::raw(0, work).at(Overlapped, 8, 8);
            let base = Cell { machine: IXP2800, ..cell };
            bench.rate(cell) / self.bench.rate(base).max(f64::MIN_POSITIVE)
        }))
    }

    fn advice(&mut self) {
        let source = "Section VII";
        let rise = |gain: f64| 100.0 * (gain - 1.0);
        let local = self.changed(|machine| machine.local_bytes = 8192);
        let queues = self.changed(|machine| {
            machine.dram.fifo *= 4;
            machine.sram.fifo *= 4;
            machine.scratch.fifo *= 4;
        });
        let latency = self.changed(|machine| {
            for memory in [&mut machine.dram, &mut machine.sram, &mut machine.scratch] {
                memory.read_cycles = memory.read_cycles.div_ceil(2);
                memory.write_cycles = memory.write_cycles.div_ceil(2);
            }
        });
        let measure = "level 2, 8 × 8, mean, %";
        for (sentence, value) in [
            ("more than 4 KB of internal memory (8 KB here) help", local),
            ("larger queues (four times here) help", queues),
            ("a memory of shorter latency (half here) helps", latency),
        ] {
            self.add(source, sentence, measure, rise(value), Bound::AtLeast(1.0));
        }
    }
}

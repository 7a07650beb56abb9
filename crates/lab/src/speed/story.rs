//! NPCryptBench and ATOMIC-2 on this machine: what each tier gains, what each kernel does, where its parallelism lies,
//! and what the caches give, beside the figures that the papers print.
//!
//! The paper's levels are our tiers: 0 `reference`, 1 `generic`, 2 `native`, 3 `batch`. Its ten algorithms run as bare
//! kernels (ECB), as it has them; RC5 with its 16 rounds.

use super::clock::{Gate, Leave};
use super::row::Row;
use super::summary::{RATE, cell};
use super::work::{Runner as _, Task};
use super::{CacheState, Length, Measurement, Plan, Rule, SpeedError, SpeedOptions};
use crate::experiment::{
    Axis, Cell, Drawn, Experiment, Measure, Outcome, Plot, Role, Value, View, Written, derive,
};
use crate::report::number::counted;
use crate::stats::{CONFIDENCE, Interval, mean_interval};
use sealane_transform::{Algorithm, Direction, Kernels, Mix, Tier, instruction_mix};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

/// The paper's algorithms, with the bytes of its Table II (B8) and Table IV: fastest memory and beyond (B13).
const TEN: [(&str, &str, &str); 10] = [
    ("md5", "0", "0"),
    ("sha1", "0", "0"),
    ("rc4", "256", "1024"),
    ("seal3", "< 4096", "4 + < 4096"),
    ("aes-128-ecb", "4096", "176 + 5120"),
    ("des-ecb", "512", "2176"),
    ("rc5-r16-ecb", "0", "136"),
    ("rc6-ecb", "0", "176"),
    ("blowfish-ecb", "4096", "72 + 4096"),
    ("idea-ecb", "0", "208"),
];

/// What the block-level tables divide.
const MESSAGE_BYTES: usize = 16 << 10;

/// The tables of the story by id, in the order in which they are told.
pub const PARTS: [&str; 8] =
    ["ladder", "mix", "tables", "flows", "batches", "blocks", "shared-message", "caches"];

/// How much of the story may be told.
#[derive(Debug)]
pub struct Story {
    rule: Rule,
    lanes: Vec<usize>,
    plans: Vec<(Part, Plan)>,
    parts: Vec<&'static str>,
}

/// A part of the story that is measured cell by cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Ladder,
    Flows,
    Batches,
    Blocks,
    Cache(CacheState),
}

impl Part {
    /// The table that is made of it.
    const fn table(self) -> &'static str {
        match self {
            Self::Ladder => "ladder",
            Self::Flows => "flows",
            Self::Batches => "batches",
            Self::Blocks => "blocks",
            Self::Cache(_) => "caches",
        }
    }
}

fn ten() -> Vec<Algorithm> {
    TEN.iter().filter_map(|(name, _, _)| name.parse().ok()).collect()
}

/// The ciphers whose blocks do not depend on each other.
fn divisible() -> Vec<Algorithm> {
    ten().into_iter().filter(|algorithm| algorithm.to_string().ends_with("-ecb")).collect()
}

impl Story {
    /// Lays out every cell of the tables `only`, or of all [`PARTS`], measured by a rule, on lanes up to `lanes_max`.
    ///
    /// # Errors
    /// As [`Plan::new`].
    pub fn new(rule: Rule, lanes_max: usize, only: &[impl AsRef<str>]) -> Result<Self, SpeedError> {
        let is_asked =
            |part: &&str| only.is_empty() || only.iter().any(|id| id.as_ref().eq_ignore_ascii_case(part));
        let parts: Vec<&str> = PARTS.into_iter().filter(is_asked).collect();
        let packets = SpeedOptions {
            algorithms: ten(),
            lengths: vec![Length::Equal(1408)],
            rule,
            ..SpeedOptions::default()
        };
        let mut lanes: Vec<usize> =
            (0..).map(|power| 1 << power).take_while(|&lanes| lanes <= lanes_max).collect();
        if !lanes.contains(&lanes_max) {
            lanes.push(lanes_max);
        }
        let mut plans = vec![
            (
                Part::Ladder,
                SpeedOptions { tiers: Tier::ALL.into_iter().map(Some).collect(), ..packets.clone() },
            ),
            (Part::Flows, SpeedOptions { lanes: lanes.clone(), ..packets.clone() }),
            (Part::Batches, SpeedOptions { batches: vec![1, 2, 4, 8, 16, 64, 512], ..packets.clone() }),
        ];
        let blocks = SpeedOptions {
            algorithms: divisible(),
            lengths: vec![Length::Equal(MESSAGE_BYTES)],
            tiers: vec![Some(Tier::Native), None],
            batches: vec![1],
            ..packets.clone()
        };
        plans.push((Part::Blocks, blocks));
        let touching = ["touch", "inet", "md5", "sha1", "aha-i", "bh-140", "aes-128-ctr", "des-cbc"];
        for cache in CacheState::ALL {
            let algorithms = touching.iter().filter_map(|name| name.parse().ok()).collect();
            // Like beside like: lanes, which not all of them have, would hide where messages come from.
            let tiers = vec![Some(Tier::Native)];
            plans.push((Part::Cache(cache), SpeedOptions { algorithms, tiers, cache, ..packets.clone() }));
        }
        let plans = plans
            .into_iter()
            .filter(|(part, _)| parts.contains(&part.table()))
            .map(|(part, options)| Ok((part, Plan::new(&options)?)))
            .collect::<Result<_, SpeedError>>()?;
        Ok(Self { rule, lanes, plans, parts })
    }

    /// Number of cells.
    pub fn len(&self) -> usize {
        self.plans.iter().map(|(_, plan)| plan.len()).sum::<usize>() + self.shared_messages()
    }

    /// Cells of messages that all lanes share.
    fn shared_messages(&self) -> usize {
        if self.parts.contains(&"shared-message") { divisible().len() * self.lanes.len() } else { 0 }
    }

    /// Whether there is nothing to tell.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// About how long it takes.
    pub fn estimate_seconds(&self) -> f64 {
        self.plans.iter().map(|(_, plan)| plan.estimate().as_secs_f64()).sum::<f64>()
            + self.shared_messages() as f64 * self.rule.side_seconds()
    }

    /// Measures all of it and calls `step` after each cell. `None` after `stop`.
    ///
    /// # Errors
    /// As [`Plan::run`].
    pub fn run(&self, stop: &AtomicBool, mut step: impl FnMut()) -> Result<Option<Vec<Outcome>>, SpeedError> {
        let mut found: Vec<(Part, Measurement)> = Vec::new();
        for (part, plan) in &self.plans {
            let complete = plan.run::<SpeedError>(stop, |one| {
                step();
                found.push((*part, one));
                Ok(())
            })?;
            if !complete {
                return Ok(None);
            }
        }
        let mut together = Vec::new();
        let shared = if self.shared_messages() > 0 { divisible() } else { Vec::new() };
        for algorithm in shared {
            let mut rates = Vec::new();
            for &lanes in &self.lanes {
                let Some(rate) = shared_rate(algorithm, lanes, self.rule, stop)? else { return Ok(None) };
                rates.push(rate);
                step();
            }
            together.push((algorithm, rates));
        }
        let of = |wanted: Part| -> Vec<&Measurement> {
            found.iter().filter(|(part, _)| *part == wanted).map(|(_, one)| one).collect()
        };
        let told = self.parts.iter().map(|part| match *part {
            "ladder" => ladder(&of(Part::Ladder)),
            "mix" => mixes(),
            "tables" => tables(),
            "flows" => flows(&of(Part::Flows)),
            "batches" => batches(&of(Part::Batches)),
            "blocks" => blocks(&of(Part::Blocks)),
            "shared-message" => shared_message(&together, &self.lanes),
            _ => caches(CacheState::ALL.map(|cache| (cache, of(Part::Cache(cache))))),
        });
        Ok(Some(told.collect()))
    }
}

fn mean(values: &[f64]) -> Option<f64> {
    crate::stats::mean(values)
}

/// Where the paper is.
const PAPER: &str =
    "Yue, Lin, Tan: NPCryptBench, a cryptographic benchmark suite for network processors (2006)";

fn experiment((id, covers, title): (&str, &str, &str), axes: &[&str], measures: Vec<Measure>) -> Experiment {
    Experiment { paper: PAPER.to_owned(), ..Experiment::new(id, covers, title, axes, measures) }
}

fn rate_measure() -> Vec<Measure> {
    vec![Measure::rate(RATE, "MB/s"), Measure::times("times", "times one lane")]
}

fn cells(found: &[&Measurement]) -> Vec<Cell> {
    found.iter().map(|one| cell(one)).collect()
}

/// B2, B10, B18, B22–B25.
fn ladder(found: &[&Measurement]) -> Outcome {
    let gain = |id, name| Measure::times(id, name).written(Written::Gain);
    let [reference, generic, native, batch] = Tier::ALL.map(|tier| Measure::rate(tier.name(), tier.name()));
    let measures = vec![
        reference,
        generic,
        gain("generic gain", "gain"),
        native,
        gain("native gain", "gain"),
        batch,
        gain("batch gain", "gain"),
        gain("single", "single over reference"),
        gain("lanes", "batch over single"),
    ];
    let (mut singles, mut batches) = (Vec::new(), Vec::new());
    let mut level_0: Vec<(f64, String)> = Vec::new();
    let mut cells = Vec::new();
    for algorithm in ten() {
        let of =
            |tier: Tier| found.iter().find(|one| one.algorithm == algorithm && one.row.tier == tier.name());
        let rows = Tier::ALL.map(of).map(|one| one.map(|one| &one.row));
        let rates = rows.map(|row| row.map(|row| row.mb_per_s));
        let [reference, generic, native, batch] = rates;
        let best = |until: usize| rates[..until].iter().flatten().copied().reduce(f64::max);
        let over = |value: Option<f64>, base: Option<f64>| Some(value? / base?);
        let single = over(best(3), reference);
        let lanes = over(batch, best(3));
        singles.extend(single);
        batches.extend(lanes);
        level_0.extend(reference.map(|rate| (rate, algorithm.to_string())));
        let mut cell = Cell::new([("algorithm", &*algorithm.to_string())]);
        for (tier, row) in Tier::ALL.into_iter().zip(rows) {
            cell = cell.with_some(tier.name(), row.map(Row::rate));
        }
        let gains = [
            ("generic gain", over(generic, reference)),
            ("native gain", over(native, best(2))),
            ("batch gain", lanes),
            ("single", single),
            ("lanes", lanes),
        ];
        cells.push(gains.into_iter().fold(cell, |cell, (id, gain)| cell.with_some(id, gain)));
    }
    let last = |name: &str, role, single: Option<f64>, lanes: Option<f64>| {
        Cell::new([("algorithm", name)]).with_some("single", single).with_some("lanes", lanes).of_role(role)
    };
    cells.push(last("mean of gains", Role::Summary, mean(&singles), mean(&batches)));
    // One algorithm with instructions of its own outweighs all others in the mean.
    let geometric =
        |ratios: &[f64]| mean(&ratios.iter().map(|ratio| ratio.ln()).collect::<Vec<_>>()).map(f64::exp);
    cells.push(last("geometric mean", Role::Summary, geometric(&singles), geometric(&batches)));
    cells.push(last("the paper", Role::Published, Some(2.45), Some(1.72)));
    let mut experiment =
        experiment(("ladder", "B2, B10, B18, B22–B25", "Tier over tier"), &["algorithm"], measures).notes(&[
            "MB/s of one core: 1408-byte messages, batches of 512. A dash is a tier without a kernel of its own: native are \
             kernels by instructions that a processor has for the algorithm itself, which most of the ten never got.",
            "The paper's gains are means over its algorithms on the IXP2800: level 2 over level 0 on one thread, and \
             level 3 on 8 engines of 8 threads.",
        ]);
    level_0.sort_by(|one, other| one.0.total_cmp(&other.0));
    let md5 = level_0.iter().find(|(_, name)| name == "md5");
    if let (Some((slowest, name)), Some((md5, _))) = (level_0.first(), md5) {
        experiment.notes.push(format!(
            "At level 0 MD5 is {:.0} times the slowest, which is {name}; in the paper at least 45 times, the slowest \
             being AES (IXP2X00) or RC6 (IXP1200).",
            md5 / slowest
        ));
    }
    let plot = Plot {
        measures: ["single", "lanes"].map(str::to_owned).to_vec(),
        ..Plot::new(Drawn::Bars, "algorithm", "single", &[]).titled("What tiers gain")
    };
    Outcome::new(experiment.shown(View::Cells, vec![plot]), cells)
}

/// B16 and B17.
fn mixes() -> Outcome {
    const BYTES: usize = 4096;
    const KINDS: [&str; 6] = ["simple ALU", "complex ALU", "branch", "immediate", "load", "store"];
    let shares = |mix: &Mix| {
        let total = mix.total().max(1) as f64;
        [mix.simple_alu, mix.complex_alu, mix.branch + mix.jump, mix.immediate, mix.load, mix.store]
            .map(|count| 100.0 * count as f64 / total)
    };
    let cell = |name: &str, shares: [f64; 6]| {
        let cell = Cell::new([("algorithm", name)]);
        KINDS.into_iter().zip(shares).fold(cell, |cell, (kind, share)| cell.with(kind, share))
    };
    let mut sum = [0.0; 6];
    let mut cells = Vec::new();
    for algorithm in ten() {
        let Some(mix) = instruction_mix(algorithm, BYTES) else { continue };
        let shares = shares(&mix);
        sum.iter_mut().zip(shares).for_each(|(sum, share)| *sum += share);
        let per_byte = mix.total() as f64 / BYTES as f64;
        cells.push(cell(&algorithm.to_string(), shares).with("operations", per_byte));
    }
    let count = cells.len().max(1) as f64;
    cells.push(cell("mean", sum.map(|sum| sum / count)).of_role(Role::Summary));
    let published = |name, shares| cell(name, shares).of_role(Role::Published);
    cells.push(published("NPCryptBench 1.01", [78.9, 5.9, 2.0, 3.3, 7.0, 0.5]));
    cells.push(published("CommBench, payload", [58.0, f64::NAN, 14.0, 1.0, 18.0, 8.0]));
    cells.push(published("CommBench, header", [41.0, f64::NAN, 19.0, 2.0, 27.0, 6.0]));
    let mut measures: Vec<Measure> =
        KINDS.iter().map(|kind| Measure::new(kind, kind).unit("%").decimals(1)).collect();
    measures.push(Measure::new("operations", "operations a byte").decimals(1));
    let plot = Plot {
        measures: KINDS.map(str::to_owned).to_vec(),
        ..Plot::new(Drawn::Stacked, "algorithm", KINDS[0], &[])
    };
    let experiment = experiment(("mix", "B16, B17", "Dynamic instruction mix"), &["algorithm"], measures).notes(&[
        "Per cent of the operations that reference kernels do for 4096 bytes, counted by a counting machine word; \
         the paper's other 2.4 % are instructions of its processor.",
    ]);
    Outcome::new(experiment.shown(View::Cells, vec![plot]), cells)
}

/// B8 and B13.
fn tables() -> Outcome {
    let measures = vec![
        Measure::count("tables", "tables").unit("bytes"),
        Measure::count("working set", "working set").unit("bytes"),
        Measure::published("Table II", "Table II", PAPER),
        Measure::published("Table IV", "Table IV", PAPER),
    ];
    let cells = TEN.iter().filter_map(|(name, published, placed)| {
        let facts = name.parse::<Algorithm>().ok()?.facts();
        let cell = Cell::new([("algorithm", *name)])
            .with("tables", facts.table_bytes as f64)
            .with("working set", facts.working_set_bytes as f64);
        Some(cell.with("Table II", *published).with("Table IV", *placed))
    });
    let experiment = experiment(("tables", "B8, B13", "Table bytes"), &["algorithm"], measures).notes(&[
        "Constant or key-dependent tables of the reference form, and what an association keeps hot; beside the \
         paper's Table II, and its Table IV: bytes in the fastest memory + bytes beyond it on the IXP2X00.",
    ]);
    Outcome::new(experiment, cells.collect())
}

/// With values of an axis in words.
fn in_words(mut outcome: Outcome, axis: &str, words: impl Fn(&str) -> String) -> Outcome {
    for one in outcome.experiment.axes.iter_mut().filter(|one| one.name == axis) {
        *one = one.clone().in_words(&words);
    }
    outcome
}

/// B24, flow level.
fn flows(found: &[&Measurement]) -> Outcome {
    let experiment =
        experiment(("flows", "B24", "Flow-level parallelism"), &["algorithm", "lanes"], rate_measure()).notes(&[
            "MB/s of cores with flows of their own. In the paper, 1 to 2 engines nearly double every algorithm, and at \
             8 only DES, IDEA and SHA-1 still grow in line.",
        ]);
    let plot = Plot::new(Drawn::Lines, "lanes", "times", &["algorithm"]).titled("Flows over lanes");
    let mut cells = cells(found);
    derive::over_first(&mut cells, "lanes", "1", RATE, "times");
    let view = View::pivot_with_times(&["algorithm"], "lanes", RATE, "times");
    let outcome = Outcome::new(experiment.shown(view, vec![plot]), cells);
    in_words(outcome, "lanes", |lanes| counted(lanes, "lane"))
}

/// B24, the threads of one engine: messages under way at once on one core.
fn batches(found: &[&Measurement]) -> Outcome {
    let experiment = experiment(
        ("batches", "B24", "Messages at once on one core"),
        &["algorithm", "batch"],
        rate_measure(),
    )
    .notes(&[
        "MB/s with what the dispatcher takes: vector lanes are to this core what threads were to the paper's \
                 engines, where nothing grew from 4 to 8.",
    ]);
    let plot = Plot::new(Drawn::Lines, "batch", RATE, &["algorithm"]).titled("Messages at once");
    let view = View::pivot(&["algorithm"], "batch", RATE);
    let outcome = Outcome::new(experiment.shown(view, vec![plot]), cells(found));
    in_words(outcome, "batch", |batch| format!("{batch} at once"))
}

/// B24, block level within a core.
fn blocks(found: &[&Measurement]) -> Outcome {
    let ways = ["block after block", "in lanes"];
    let cells = found.iter().map(|one| {
        let mut cell = cell(one);
        let way = ways[usize::from(one.row.tier == Tier::Batch.name())];
        cell.at.insert("way".to_owned(), way.to_owned());
        cell
    });
    let title = "Block-level parallelism on one core";
    let mut experiment =
        experiment(("blocks", "B24", title), &["algorithm"], rate_measure()).notes(&[
            "MB/s for one message of 16 KiB, block after block, and cut so that its blocks fill the vector lanes.",
            "AES is not cut: one message alone keeps its units busy.",
        ]);
    experiment.axes.push(Axis::new("way", ways));
    let plot = Plot::new(Drawn::Bars, "algorithm", RATE, &["way"]);
    let view = View::pivot_with_times(&["algorithm"], "way", RATE, "times");
    Outcome::new(experiment.shown(view, vec![plot]), cells.collect())
}

/// [`block_level`] by a rule. `None` after `stop`.
fn shared_rate(
    algorithm: Algorithm,
    lanes: usize,
    rule: Rule,
    stop: &AtomicBool,
) -> Result<Option<Value>, SpeedError> {
    let (count, warm_up_seconds, seconds) = match rule {
        Rule::Slices { seconds } => (1, 0.0, seconds),
        Rule::Runs { count, warm_up_seconds, seconds } => (count, warm_up_seconds, seconds),
    };
    let mut rates = Vec::new();
    for _ in 0..count {
        if warm_up_seconds > 0.0 && !stop.load(Ordering::Relaxed) {
            block_level(algorithm, lanes, warm_up_seconds)?;
        }
        if stop.load(Ordering::Relaxed) {
            return Ok(None);
        }
        rates.push(block_level(algorithm, lanes, seconds)?);
    }
    Ok(mean(&rates).map(|value| match mean_interval(&rates, CONFIDENCE) {
        Some(Interval { low, high }) => Value::Range { value, low, high },
        None => Value::Number(value),
    }))
}

/// MB/s of one message after the other, each divided over all lanes, which wait for each other at its end.
fn block_level(algorithm: Algorithm, lanes: usize, seconds: f64) -> Result<f64, SpeedError> {
    let kernels = Kernels::select(None, None)?;
    let parts = (512 / lanes).max(1);
    let granule = super::row::fitting(algorithm, 1);
    let bytes = super::row::fitting(algorithm, MESSAGE_BYTES / 512).max(granule);
    let task = Task {
        algorithm,
        direction: Direction::Encrypt,
        lengths: vec![bytes; parts],
        batch: parts,
        keys: 1,
        seed: 1,
    };
    // Both ends of a message are the same for all lanes only if all of them do the same number of calls.
    let mut calls = 1_u32;
    kernels.with(&task, &mut |work| {
        let start = Instant::now();
        const TRIES: u32 = 8;
        (0..TRIES).for_each(|_| {
            work();
        });
        let one = start.elapsed().as_secs_f64() / f64::from(TRIES);
        calls = ((seconds / one.max(1e-9)) as u32).clamp(1, 1 << 24);
    })?;
    let gate = Gate::new(lanes);
    let lane = || -> Result<(f64, u64), SpeedError> {
        let _leave = Leave(&gate);
        let mut found = (f64::INFINITY, 0);
        kernels.with(&task, &mut |work| {
            gate.pass();
            let start = Instant::now();
            let mut bytes = 0;
            for _ in 0..calls {
                let mut left = parts as u64;
                while left > 0 {
                    let done = work();
                    left = left.saturating_sub(done.messages.max(1));
                    bytes += done.bytes;
                }
                gate.pass();
            }
            found = (start.elapsed().as_secs_f64(), bytes);
        })?;
        Ok(found)
    };
    let results: Vec<Result<(f64, u64), SpeedError>> = thread::scope(|scope| {
        let handles: Vec<_> = (0..lanes).map(|_| scope.spawn(lane)).collect();
        handles.into_iter().map(|handle| handle.join().unwrap_or(Err(SpeedError::LaneFailed))).collect()
    });
    let results = results.into_iter().collect::<Result<Vec<_>, _>>()?;
    let seconds = results.iter().map(|result| result.0).fold(0.0, f64::max);
    let bytes: u64 = results.iter().map(|result| result.1).sum();
    Ok(bytes as f64 / seconds / 1e6)
}

fn shared_message(found: &[(Algorithm, Vec<Value>)], lanes: &[usize]) -> Outcome {
    let cells = found.iter().flat_map(|(algorithm, rates)| {
        let cell = |(lanes, rate): (&usize, &Value)| {
            Cell::new([("algorithm", &*algorithm.to_string()), ("lanes", &*lanes.to_string())])
                .with(RATE, rate.clone())
        };
        lanes.iter().zip(rates).map(cell)
    });
    let title = "Block-level parallelism over cores";
    let experiment =
        experiment(("shared-message", "B24", title), &["algorithm", "lanes"], rate_measure()).notes(&[
            "MB/s for 16 KiB after 16 KiB, each divided over cores that wait for each other at its end. Every core has its share \
             in memory of its own, so that what is lost to the flows above is the price of waiting alone: a message that \
             one core has written would cost its way between caches as well.",
        ]);
    let mut cells: Vec<Cell> = cells.collect();
    derive::over_first(&mut cells, "lanes", "1", RATE, "times");
    let plot = Plot::new(Drawn::Lines, "lanes", "times", &["algorithm"]);
    let view = View::pivot_with_times(&["algorithm"], "lanes", RATE, "times");
    in_words(Outcome::new(experiment.shown(view, vec![plot]), cells), "lanes", |lanes| counted(lanes, "lane"))
}

/// A2 and A9: caches on and off.
fn caches(found: [(CacheState, Vec<&Measurement>); 3]) -> Outcome {
    let cells = found.iter().flat_map(|(cache, found)| {
        found.iter().map(|one| {
            let mut cell = cell(one);
            cell.at.insert("from".to_owned(), cache.name().to_owned());
            cell
        })
    });
    let mut experiment =
        Experiment::new("caches", "A2, A9", "Where messages come from", &["algorithm"], rate_measure()).notes(&[
            "MB/s for messages one at a time, in the nearest cache that holds 512 of them, in the second-level cache, and in \
             memory: ATOMIC-2 measured MD5 with its caches off, with the external one, and with both.",
        ]);
    experiment.paper = "ATOMIC-2: fast security (ISI, 1995)".to_owned();
    experiment.axes.push(Axis::new("from", CacheState::ALL.map(CacheState::name)).in_words(|state| {
        match state {
            "l2" => "second-level cache",
            "out" => "memory",
            nearest => nearest,
        }
        .to_owned()
    }));
    let plot = Plot::new(Drawn::Bars, "algorithm", RATE, &["from"]);
    let view = View::pivot_with_times(&["algorithm"], "from", RATE, "memory over hot");
    Outcome::new(experiment.shown(view, vec![plot]), cells.collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ten_are_in_the_catalogue() {
        assert_eq!(ten().len(), 10);
        assert_eq!(divisible().len(), 6);
    }

    #[test]
    fn the_mix_adds_up() {
        let mix = mixes();
        assert_eq!(mix.cells.len(), 14);
        let kinds = &mix.experiment.plots[0].measures;
        for cell in &mix.cells[..11] {
            let sum: f64 = kinds.iter().filter_map(|kind| cell.figure(kind)).sum();
            assert!((99.0..=101.0).contains(&sum), "{cell:?}");
        }
    }

    #[test]
    fn it_is_told_with_every_table_filled() {
        let stop = AtomicBool::new(false);
        let story = Story::new(Rule::Slices { seconds: 0.001 }, 2, &[""; 0]).unwrap();
        let mut steps = 0;
        let told = story.run(&stop, || steps += 1).unwrap().unwrap();
        assert_eq!((steps, told.len()), (story.len(), PARTS.len()));
        assert!(told.iter().map(|outcome| &*outcome.experiment.id).eq(PARTS));
        for outcome in &told {
            let tables = crate::report::tables::main(outcome);
            let rows: Vec<_> = tables.iter().flat_map(|table| &table.rows).collect();
            let title = &outcome.experiment.title;
            assert!(!rows.is_empty(), "{title}");
            let of_paper = outcome.cells.iter().filter(|cell| cell.role == Role::Published).count();
            let is_told =
                |row: &&&crate::report::table::Row| row.cells[1..].iter().any(|text| text.value != "–");
            assert_eq!(rows.iter().filter(is_told).count(), rows.len(), "{title}");
            assert!(rows.len() >= of_paper + 6, "{title}");
        }
        let ladder = &told[0];
        assert!(ladder.cells[..10].iter().all(|cell| cell.figure("reference").is_some()), "{ladder:?}");
    }

    /// By a paper's rule every rate is a mean with an interval.
    #[test]
    fn parts_are_told_by_themselves() {
        let rule = Rule::Runs { count: 2, warm_up_seconds: 0.0, seconds: 0.001 };
        let stop = AtomicBool::new(false);
        let story = Story::new(rule, 1, &["shared-message", "tables", "ladder"]).unwrap();
        let told = story.run(&stop, || ()).unwrap().unwrap();
        let ids: Vec<&str> = told.iter().map(|outcome| &*outcome.experiment.id).collect();
        assert_eq!(ids, ["ladder", "tables", "shared-message"]);
        for (cell, measure) in [(&told[0].cells[0], "reference"), (&told[2].cells[0], RATE)] {
            assert!(cell.interval(measure).is_some(), "{cell:?}");
        }
        assert!(Story::new(rule, 1, &["tables"]).unwrap().is_empty());
    }

    #[test]
    fn a_stop_ends_it() {
        let story = Story::new(Rule::Slices { seconds: 1.0 }, 1, &[""; 0]).unwrap();
        assert!(story.run(&AtomicBool::new(true), || ()).unwrap().is_none());
    }
}

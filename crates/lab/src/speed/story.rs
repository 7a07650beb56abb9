//! NPCryptBench and ATOMIC-2 on this machine: what each tier gains, what each kernel does, where its parallelism lies,
//! and what the caches give, beside the figures that the papers print.
//!
//! The paper's levels are our tiers: 0 `reference`, 1 `generic`, 2 `native`, 3 `batch`. Its ten algorithms run as bare
//! kernels (ECB), as it has them; RC5 with its 16 rounds.

use super::clock::{Gate, Leave};
use super::page::{Section, chart};
use super::table::{Table, figure, gain};
use super::work::{Runner as _, Task};
use super::{CacheState, Length, Measurement, Plan, SpeedError, SpeedOptions};
use crate::report::number::ratio;
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

/// How much of the story may be told.
#[derive(Debug)]
pub struct Story {
    seconds: f64,
    lanes: Vec<usize>,
    plans: Vec<(Part, Plan)>,
}

/// The story, told.
#[derive(Clone, Debug)]
pub struct Told {
    /// Tables with their plots, in the order they are read.
    pub sections: Vec<Section>,
    /// What they were made of, so far as it was measured cell by cell.
    pub found: Vec<Measurement>,
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

fn ten() -> Vec<Algorithm> {
    TEN.iter().filter_map(|(name, _, _)| name.parse().ok()).collect()
}

/// The ciphers whose blocks do not depend on each other.
fn divisible() -> Vec<Algorithm> {
    ten().into_iter().filter(|algorithm| algorithm.to_string().ends_with("-ecb")).collect()
}

impl Story {
    /// Lays out every cell: `seconds` each, lanes up to `lanes_max`.
    ///
    /// # Errors
    /// As [`Plan::new`].
    pub fn new(seconds: f64, lanes_max: usize) -> Result<Self, SpeedError> {
        let packets = SpeedOptions {
            algorithms: ten(),
            lengths: vec![Length::Equal(1408)],
            seconds,
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
            plans.push((Part::Cache(cache), SpeedOptions { algorithms, cache, ..packets.clone() }));
        }
        let plans = plans
            .into_iter()
            .map(|(part, options)| Ok((part, Plan::new(&options)?)))
            .collect::<Result<_, SpeedError>>()?;
        Ok(Self { seconds, lanes, plans })
    }

    /// Number of cells.
    pub fn len(&self) -> usize {
        self.plans.iter().map(|(_, plan)| plan.len()).sum::<usize>() + divisible().len() * self.lanes.len()
    }

    /// Whether there is nothing to tell.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// About how long it takes.
    pub fn estimate_seconds(&self) -> f64 {
        self.plans.iter().map(|(_, plan)| plan.estimate().as_secs_f64()).sum::<f64>()
            + (divisible().len() * self.lanes.len()) as f64 * self.seconds
    }

    /// Measures all of it and calls `step` after each cell. `None` after `stop`.
    ///
    /// # Errors
    /// As [`Plan::run`].
    pub fn run(&self, stop: &AtomicBool, mut step: impl FnMut()) -> Result<Option<Told>, SpeedError> {
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
        for algorithm in divisible() {
            let mut rates = Vec::new();
            for &lanes in &self.lanes {
                if stop.load(Ordering::Relaxed) {
                    return Ok(None);
                }
                rates.push(block_level(algorithm, lanes, self.seconds)?);
                step();
            }
            together.push((algorithm, rates));
        }
        let of = |wanted: Part| -> Vec<&Measurement> {
            found.iter().filter(|(part, _)| *part == wanted).map(|(_, one)| one).collect()
        };
        let sections = vec![
            ladder(&of(Part::Ladder)),
            mixes(),
            Section::plain(tables()),
            flows(&of(Part::Flows), &self.lanes),
            batches(&of(Part::Batches)),
            Section::plain(blocks(&of(Part::Blocks))),
            Section::plain(shared_message(&together, &self.lanes)),
            caches(CacheState::ALL.map(|cache| of(Part::Cache(cache)))),
        ];
        Ok(Some(Told { sections, found: found.into_iter().map(|(_, one)| one).collect() }))
    }
}

fn rate(found: &[&Measurement], algorithm: Algorithm, is_it: impl Fn(&Measurement) -> bool) -> Option<f64> {
    found.iter().find(|one| one.algorithm == algorithm && is_it(one)).map(|one| one.row.mb_per_s)
}

fn lane_count(lanes: usize) -> String {
    if lanes == 1 { "1 lane".to_owned() } else { format!("{lanes} lanes") }
}

fn mean(values: &[f64]) -> Option<f64> {
    crate::stats::mean(values)
}

/// B2, B10, B18, B22–B25.
fn ladder(found: &[&Measurement]) -> Section {
    let mut table = Table::new(
        "Tier over tier",
        &[
            "MB/s of one core: 1408-byte messages, batches of 512. A dash is a tier without a kernel of its own.",
            "The paper's gains are means over its algorithms on the IXP2800: level 2 over level 0 on one thread, and \
             level 3 on 8 engines of 8 threads.",
        ],
        &[
            "algorithm",
            "reference",
            "generic",
            "gain",
            "native",
            "gain",
            "batch",
            "gain",
            "single over reference",
            "batch over single",
        ],
        1,
    );
    let mut singles = Vec::new();
    let mut batches = Vec::new();
    let mut level_0: Vec<(f64, String)> = Vec::new();
    let mut series = vec![Vec::new(), Vec::new()];
    let mut labels = Vec::new();
    for algorithm in ten() {
        let of = |tier: Tier| rate(found, algorithm, |one| one.row.tier == tier.name());
        let rates = Tier::ALL.map(of);
        let [reference, generic, native, batch] = rates;
        let best = |until: usize| rates[..until].iter().flatten().copied().reduce(f64::max);
        let over = |value: Option<f64>, base: Option<f64>| Some(value? / base?);
        let single = over(best(3), reference);
        let lanes = over(batch, best(3));
        singles.extend(single);
        batches.extend(lanes);
        level_0.extend(reference.map(|rate| (rate, algorithm.to_string())));
        series[0].push(single);
        series[1].push(lanes);
        labels.push(algorithm.to_string());
        table.rows.push(vec![
            algorithm.to_string(),
            figure(reference),
            figure(generic),
            gain(over(generic, reference)),
            figure(native),
            gain(over(native, best(2))),
            figure(batch),
            gain(lanes),
            gain(single),
            gain(lanes),
        ]);
    }
    let last = |name: &str, single: String, batch: String| {
        let mut row = vec![name.to_owned()];
        row.resize(8, String::new());
        row.extend([single, batch]);
        row
    };
    table.rows.push(last("mean of gains", gain(mean(&singles)), gain(mean(&batches))));
    // One algorithm with instructions of its own outweighs all others in the mean.
    let geometric =
        |ratios: &[f64]| mean(&ratios.iter().map(|ratio| ratio.ln()).collect::<Vec<_>>()).map(f64::exp);
    table.rows.push(last("geometric mean", gain(geometric(&singles)), gain(geometric(&batches))));
    table.rows.push(last("the paper", "+145 %".to_owned(), "+72 %".to_owned()));
    level_0.sort_by(|one, other| one.0.total_cmp(&other.0));
    let md5 = level_0.iter().find(|(_, name)| name == "md5");
    if let (Some((slowest, name)), Some((md5, _))) = (level_0.first(), md5) {
        table.notes.push(format!(
            "At level 0 MD5 is {:.0} times the slowest, which is {name}; in the paper at least 45 times, the slowest \
             being AES (IXP2X00) or RC6 (IXP1200).",
            md5 / slowest
        ));
    }
    let names = ["best single message over reference", "batch over best single message"];
    let series = names.iter().map(|&name| name.to_owned()).zip(series).collect();
    let chart = chart("ladder", "bars", ("What tiers gain", "", "times"), labels, series);
    Section::plotted(table, vec![chart])
}

/// B16 and B17.
fn mixes() -> Section {
    let mut table = Table::new(
        "Dynamic instruction mix",
        &[
            "Per cent of the operations that reference kernels do for 4096 bytes, counted by a counting machine word; \
             the paper's other 2.4 % are instructions of its processor.",
        ],
        &[
            "algorithm",
            "simple ALU",
            "complex ALU",
            "branch",
            "immediate",
            "load",
            "store",
            "operations a byte",
        ],
        1,
    );
    const BYTES: usize = 4096;
    let shares = |mix: &Mix| {
        let total = mix.total().max(1) as f64;
        [mix.simple_alu, mix.complex_alu, mix.branch + mix.jump, mix.immediate, mix.load, mix.store]
            .map(|count| 100.0 * count as f64 / total)
    };
    let row = |name: &str, shares: [f64; 6], last: String| {
        let mut row = vec![name.to_owned()];
        row.extend(shares.map(|share| format!("{share:.1}")));
        row.push(last);
        row
    };
    let mut sum = [0.0; 6];
    let mut count = 0.0;
    for algorithm in ten() {
        let Some(mix) = instruction_mix(algorithm, BYTES) else { continue };
        let shares = shares(&mix);
        sum.iter_mut().zip(shares).for_each(|(sum, share)| *sum += share);
        count += 1.0;
        let per_byte = mix.total() as f64 / BYTES as f64;
        table.rows.push(row(&algorithm.to_string(), shares, format!("{per_byte:.1}")));
    }
    table.rows.push(row("mean", sum.map(|sum| sum / f64::max(count, 1.0)), String::new()));
    table.rows.push(row("NPCryptBench 1.01", [78.9, 5.9, 2.0, 3.3, 7.0, 0.5], String::new()));
    for (name, shares) in [
        ("CommBench, payload", ["58", "", "14", "1", "18", "8"]),
        ("CommBench, header", ["41", "", "19", "2", "27", "6"]),
    ] {
        let mut row = vec![name.to_owned()];
        row.extend(shares.map(str::to_owned));
        row.push(String::new());
        table.rows.push(row);
    }
    Section::plain(table)
}

/// B8 and B13.
fn tables() -> Table {
    let mut table = Table::new(
        "Table bytes",
        &[
            "Constant or key-dependent tables of the reference form, and what an association keeps hot; beside the \
             paper's Table II, and its Table IV: bytes in the fastest memory + bytes beyond it on the IXP2X00.",
        ],
        &["algorithm", "tables", "working set", "Table II", "Table IV"],
        1,
    );
    for (name, published, placed) in TEN {
        let Ok(algorithm) = name.parse::<Algorithm>() else { continue };
        let facts = algorithm.facts();
        table.rows.push(vec![
            name.to_owned(),
            facts.table_bytes.to_string(),
            facts.working_set_bytes.to_string(),
            published.to_owned(),
            placed.to_owned(),
        ]);
    }
    table
}

/// B24, flow level.
fn flows(found: &[&Measurement], lanes: &[usize]) -> Section {
    let mut columns = vec!["algorithm".to_owned()];
    columns.extend(lanes.iter().map(|&lanes| lane_count(lanes)));
    columns.push("times".to_owned());
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let mut table = Table::new(
        "Flow-level parallelism",
        &[
            "MB/s of cores with flows of their own. In the paper, 1 to 2 engines nearly double every algorithm, and at \
           8 only DES, IDEA and SHA-1 still grow in line.",
        ],
        &columns,
        1,
    );
    let mut series = Vec::new();
    for algorithm in ten() {
        let rates: Vec<_> =
            lanes.iter().map(|&lanes| rate(found, algorithm, |one| one.row.lanes == lanes)).collect();
        let mut row = vec![algorithm.to_string()];
        row.extend(rates.iter().map(|rate| figure(*rate)));
        let base = rates.first().copied().flatten();
        let times = |rate: &Option<f64>| Some((*rate)? / base?);
        row.push(rates.last().and_then(times).map_or_else(|| "–".to_owned(), ratio));
        table.rows.push(row);
        series.push((algorithm.to_string(), rates.iter().map(times).collect()));
    }
    let labels = lanes.iter().map(usize::to_string).collect();
    let chart = chart("flows", "lines", ("Flows over lanes", "lanes", "times one lane"), labels, series);
    Section::plotted(table, vec![chart])
}

/// B24, the threads of one engine: messages under way at once on one core.
fn batches(found: &[&Measurement]) -> Section {
    let mut sizes: Vec<usize> = found.iter().map(|one| one.row.batch).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let mut columns = vec!["algorithm".to_owned()];
    columns.extend(sizes.iter().map(|size| format!("{size} at once")));
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let mut table = Table::new(
        "Messages at once on one core",
        &[
            "MB/s with what the dispatcher takes: vector lanes are to this core what threads were to the paper's \
           engines, where nothing grew from 4 to 8.",
        ],
        &columns,
        1,
    );
    let mut series = Vec::new();
    for algorithm in ten() {
        let rates: Vec<_> =
            sizes.iter().map(|&size| rate(found, algorithm, |one| one.row.batch == size)).collect();
        let mut row = vec![algorithm.to_string()];
        row.extend(rates.iter().map(|rate| figure(*rate)));
        table.rows.push(row);
        series.push((algorithm.to_string(), rates));
    }
    let labels = sizes.iter().map(usize::to_string).collect();
    let chart = chart("batches", "lines", ("Messages at once", "messages", "MB/s"), labels, series);
    Section::plotted(table, vec![chart])
}

/// B24, block level within a core.
fn blocks(found: &[&Measurement]) -> Table {
    let mut table = Table::new(
        "Block-level parallelism on one core",
        &[
            "MB/s for one message of 16 KiB, block after block, and cut so that its blocks fill the vector lanes.",
            "AES is not cut: one message alone keeps its units busy.",
        ],
        &["algorithm", "block after block", "in lanes", "times"],
        1,
    );
    for algorithm in divisible() {
        let of =
            |in_lanes: bool| rate(found, algorithm, |one| (one.row.tier == Tier::Batch.name()) == in_lanes);
        let (single, lanes) = (of(false), of(true));
        let times = single.zip(lanes).map(|(single, lanes)| lanes / single);
        let times = times.map_or_else(|| "–".to_owned(), ratio);
        table.rows.push(vec![algorithm.to_string(), figure(single), figure(lanes), times]);
    }
    table
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

fn shared_message(found: &[(Algorithm, Vec<f64>)], lanes: &[usize]) -> Table {
    let mut columns = vec!["algorithm".to_owned()];
    columns.extend(lanes.iter().map(|&lanes| lane_count(lanes)));
    columns.push("times".to_owned());
    let columns: Vec<&str> = columns.iter().map(String::as_str).collect();
    let mut table = Table::new(
        "Block-level parallelism over cores",
        &[
            "MB/s for one message of 16 KiB after the other, its blocks divided over cores that wait for each other at \
           its end: what is lost to the flows above is the price of waiting.",
        ],
        &columns,
        1,
    );
    for (algorithm, rates) in found {
        let mut row = vec![algorithm.to_string()];
        row.extend(rates.iter().map(|&rate| figure(Some(rate))));
        let times = rates.first().zip(rates.last()).map(|(one, all)| all / one);
        row.push(times.map_or_else(|| "–".to_owned(), ratio));
        table.rows.push(row);
    }
    table
}

/// A2 and A9: caches on and off.
fn caches(found: [Vec<&Measurement>; 3]) -> Section {
    let mut table = Table::new(
        "Where messages come from",
        &[
            "MB/s for messages in the nearest cache that holds a batch, in the second-level cache, and in memory: \
           ATOMIC-2 measured MD5 with its caches off, with the external one, and with both.",
        ],
        &["algorithm", "hot", "second-level cache", "memory", "memory over hot"],
        1,
    );
    let mut labels = Vec::new();
    let mut series: Vec<Vec<Option<f64>>> = vec![Vec::new(); 3];
    for one in &found[0] {
        let rates = [0, 1, 2].map(|state: usize| rate(&found[state], one.algorithm, |_| true));
        let mut row = vec![one.row.algorithm.clone()];
        row.extend(rates.map(figure));
        let kept = rates[2].zip(rates[0]).map(|(memory, hot)| memory / hot);
        row.push(kept.map_or_else(|| "–".to_owned(), ratio));
        table.rows.push(row);
        labels.push(one.row.algorithm.clone());
        series.iter_mut().zip(rates).for_each(|(series, rate)| series.push(rate));
    }
    let series = CacheState::ALL.iter().map(|cache| cache.name().to_owned()).zip(series).collect();
    let chart = chart("caches", "bars", ("Where messages come from", "", "MB/s"), labels, series);
    Section::plotted(table, vec![chart])
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
        let section = mixes();
        assert_eq!(section.table().rows.len(), 14);
        for row in &section.table().rows[..11] {
            let sum: f64 = row[1..7].iter().map(|share| share.parse::<f64>().unwrap()).sum();
            assert!((99.0..=101.0).contains(&sum), "{row:?}");
        }
    }

    #[test]
    fn it_is_told_with_every_table_filled() {
        let stop = AtomicBool::new(false);
        let story = Story::new(0.001, 2).unwrap();
        let mut steps = 0;
        let Told { sections, found } = story.run(&stop, || steps += 1).unwrap().unwrap();
        assert_eq!((steps, sections.len()), (story.len(), 8));
        assert!(!found.is_empty());
        for section in &sections {
            let table = section.table();
            assert!(!table.rows.is_empty(), "{}", table.title);
            assert!(table.rows.iter().all(|row| row.len() == table.columns.len()), "{}", table.title);
        }
        let ladder = sections[0].table();
        assert!(ladder.rows.iter().take(10).all(|row| row[1] != "–"), "{ladder:?}");
    }

    #[test]
    fn a_stop_ends_it() {
        let story = Story::new(1.0, 1).unwrap();
        assert!(story.run(&AtomicBool::new(true), || ()).unwrap().is_none());
    }
}

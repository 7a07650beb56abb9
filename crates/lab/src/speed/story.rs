//! NPCryptBench and ATOMIC-2 on this machine: the gain of each tier, the speed of each kernel, the sources of
//! parallelism, and the effect of the caches, beside the figures that the papers print; and public-key operations, which
//! NPCryptBench left for later.
//!
//! The paper's levels are our tiers: 0 `reference`, 1 `generic`, 2 `native`, 3 `batch`. Its ten algorithms run as
//! bare kernels (ECB), as in the paper; RC5 with its 16 rounds.

use super::clock::{Gate, Leave};
use super::public_key::{PublicKeyOptions, operations};
use super::row::Row;
use super::tables::cell;
use super::work::{Runner as _, Task};
use super::{CacheState, Length, Rule, SpeedError, SpeedOptions, double_boxes, report, sizes, yardstick};
use crate::LabError;
use crate::error::unavailable;
use crate::experiment::{
    Axis, Cell, Claim, Drawn, Experiment, Measure, Outcome, Plan, Plot, RATE, Repetition, Role, Runs, Sample,
    Shape, Value, View, Written, at, by, derive,
};
use crate::load::Watch;
use crate::report::Report;
use crate::report::number::{counted, ratio};
use crate::request::Request;
use crate::stats::Centre;
use crate::studies::{ATOMIC_TITLE, NPCRYPTBENCH_TITLE};
use sealane_transform::{
    ASYMMETRIC_WAYS, Algorithm, Asymmetric, Direction, Kernels, Mix, PACKET_KERNELS, TEN, Tier,
    instruction_mix,
};
use std::io::Write;
use std::thread;
use std::time::Instant;

/// The length of a message that the block-level tables divide.
const MESSAGE_BYTES: usize = 16 << 10;

/// The tables of the story by id, in their order.
pub const PARTS: [&str; 11] = [
    "ladder",
    "mix",
    "tables",
    "flows",
    "batches",
    "blocks",
    "shared-message",
    "caches",
    "yardstick",
    "public-key",
    "double-s-boxes",
];

fn ten() -> Vec<Algorithm> {
    TEN.iter().filter_map(|name| name.parse().ok()).collect()
}

/// Returns the ciphers whose blocks do not depend on each other.
fn divisible() -> Vec<Algorithm> {
    ten().into_iter().filter(|algorithm| algorithm.to_string().ends_with("-ecb")).collect()
}

/// State that the parts share.
struct Teller<'a> {
    rule: Rule,
    lanes: Vec<usize>,
    seed: u64,
    progress: &'a mut dyn Write,
}

/// Runs the requested parts, on the requested numbers of lanes.
pub(super) fn run(request: &Request, progress: &mut dyn Write) -> Result<Report, LabError> {
    let began = Instant::now();
    let lanes = request.lane_counts();
    let mut teller = Teller { rule: request.profile.into(), lanes, seed: request.seed, progress };
    let mut outcomes = Vec::new();
    for part in PARTS.into_iter().filter(|part| request.wants(&[part])) {
        let outcome = match part {
            "ladder" => teller.ladder()?,
            "mix" => mixes(),
            "tables" => {
                outcomes.push(sizes::tables());
                sizes::placed()
            }
            "flows" => teller.flows()?,
            "batches" => teller.batches()?,
            "blocks" => teller.blocks()?,
            "shared-message" => teller.shared_message()?,
            "caches" => teller.caches()?,
            "yardstick" => teller.yardstick()?,
            "double-s-boxes" => double_boxes::outcome(teller.rule)?,
            _ => teller.public_key()?,
        };
        outcomes.push(outcome);
    }
    let title = "The papers' kernels on this machine";
    Ok(Report { profile: Some(request.profile), ..report(title, began.elapsed().as_secs_f64(), outcomes) })
}

fn experiment((id, covers, title): (&str, &str, &str), axes: &[&str], measures: Vec<Measure>) -> Experiment {
    Experiment::new(id, covers, title, axes, measures).of(NPCRYPTBENCH_TITLE)
}

fn rate_measure() -> Vec<Measure> {
    vec![Measure::rate(RATE, "MB/s"), Measure::times("times", "times one lane")]
}

/// Returns a table over lanes, with their gain.
fn over_lanes(experiment: Experiment, mut cells: Vec<Cell>, plot: Plot) -> Outcome {
    derive::over_first(&mut cells, "lanes", "1", RATE, "times");
    let view = View::pivot_with_times(&["algorithm"], "lanes", RATE, "times");
    let outcome = Outcome::new(experiment.shown(view, vec![plot.with_ideal()]), cells);
    outcome.in_words("lanes", |lanes| counted(lanes, "lane"))
}

/// The row of means of gains.
const MEAN: &str = "mean of gains";
/// The paper's mean gains over its ten algorithms (B22, B25): the measure, the gain as a ratio, and its meaning.
const PAPERS_GAINS: [(&str, f64, &str); 2] = [
    ("single", 2.45, "level 2 over level 0 on one thread (+145 %)"),
    ("lanes", 1.72, "level 3 over level 2, on 8 engines of 8 threads there (+72 %)"),
];
/// Equality within a tenth, as in the lab's other studies: the paper prints no spread.
const ALIKE: f64 = 0.1;

/// Returns the claims that the means of gains are the paper's.
fn gain_claims(means: &[Option<Value>; 2]) -> Vec<Claim> {
    let claim = |((measure, paper, words), mean): (&(&str, f64, &str), &Option<Value>)| {
        let ours = mean.as_ref()?.number()?;
        let statement = format!(
            "{words}: the paper's mean is {paper} times, ours {}, {} of the paper's; within a tenth, because the paper prints no \
             spread.",
            ratio(ours),
            ratio(ours / paper)
        );
        let bounds = (Some(paper * (1.0 - ALIKE)), Some(paper * (1.0 + ALIKE)));
        Some(Claim::bound((statement, "B22"), measure, at([("algorithm", MEAN)]), bounds))
    };
    PAPERS_GAINS.iter().zip(means).filter_map(claim).collect()
}

/// The rates of MD5 on an Alpha of 190 MHz with its caches kept from helping, and with them (RFC 1810), in Mb/s.
const ALPHA: [f64; 2] = [87.0, 100.0];

/// Returns the claims about messages from the caches and from memory (A2), and about the alternate hash (A9).
fn cache_claims() -> Vec<Claim> {
    let cell = |algorithm: &str, from: CacheState| at([("algorithm", algorithm), ("from", from.name())]);
    let [hot, out] = [CacheState::Hot, CacheState::Out];
    let pair = |algorithm: &str| [cell(algorithm, out), cell(algorithm, hot)];
    let [memory, cached] = ALPHA;
    let kept = memory / cached;
    let [md5_out, md5_hot] = pair("md5");
    let statement = format!(
        "MD5 from memory keeps at least {} of its rate from the nearest cache, as an Alpha did: {memory} of {cached} Mb/s (RFC \
         1810). A memory that is nearer to the processor's speed keeps more.",
        ratio(kept)
    );
    let mut claims =
        vec![Claim::ratio((statement, "A2"), RATE, (md5_out.clone(), md5_hot.clone()), (Some(kept), None))];
    let statement =
        "Touching the data alone loses more by coming from memory than MD5, whose arithmetic hides the wait.";
    let shape = Shape::RatioOfRatios {
        numerator: pair("touch"),
        denominator: [md5_out, md5_hot],
        low: None,
        high: Some(1.0),
    };
    claims.push(Claim::new((statement, "A2"), RATE, shape));
    for (from, words) in [(hot, "from the nearest cache"), (out, "from memory")] {
        let statement = format!(
            "The alternate hash is over twice as fast as MD5 {words}: the paper prints “over twice” and no figure, and ours is a \
             reconstruction, so twice is the bound."
        );
        let places = (cell("aha-i", from), cell("md5", from));
        claims.push(Claim::ratio((statement, "A9"), RATE, places, (Some(2.0), None)));
    }
    claims
}

/// Returns the rates of an algorithm's tiers, and what each gains over those below it.
fn tiers_of(algorithm: &str, rows: &[Row]) -> Cell {
    let of = |tier: Tier| rows.iter().find(|row| row.algorithm == algorithm && row.tier == tier.name());
    let found = Tier::ALL.map(of);
    let [reference, generic, native, batch] = found.map(|row| row.map(Row::rate));
    let rate = |row: &Option<&Row>| row.map_or(0.0, |row| row.mb_per_s);
    let best = |until: usize| {
        let rows = found[..until].iter().filter(|row| row.is_some());
        rows.max_by(|one, other| rate(one).total_cmp(&rate(other)))?.map(Row::rate)
    };
    let over = |value: &Option<Value>, base: Option<Value>| derive::ratio(value.as_ref()?, base.as_ref()?);
    let gains = [
        ("generic gain", over(&generic, reference.clone())),
        ("native gain", over(&native, best(2))),
        ("batch gain", over(&batch, best(3))),
        ("single", over(&best(3), reference)),
        ("lanes", over(&batch, best(3))),
    ];
    let runs = found.iter().flatten().map(|row| row.runs).sum();
    let mut cell = Cell::new([("algorithm", algorithm)]).behind(runs);
    for (tier, row) in Tier::ALL.into_iter().zip(found) {
        cell = cell.with_some(tier.name(), row.map(Row::rate));
    }
    gains.into_iter().fold(cell, |cell, (id, gain)| cell.with_some(id, gain))
}

/// Returns how many times the slowest algorithm MD5 is at level 0, if both have been measured.
fn md5_note(cells: &[Cell]) -> Option<String> {
    let mut level_0 =
        cells.iter().filter_map(|cell| Some((cell.figure("reference")?, &cell.at["algorithm"])));
    let (slowest, name) = level_0.clone().min_by(|one, other| one.0.total_cmp(&other.0))?;
    let (md5, _) = level_0.find(|(_, name)| *name == "md5")?;
    Some(format!(
        "At level 0 MD5 is {:.0} times the slowest, which is {name}; in the paper at least 45 times, the slowest being AES (IXP2X00) \
         or RC6 (IXP1200).",
        md5 / slowest
    ))
}

impl Teller<'_> {
    /// Returns the options for the ten algorithms with packets of 1408 bytes.
    fn packets(&self) -> SpeedOptions {
        let lengths = vec![Length::Equal(1408)];
        SpeedOptions { algorithms: ten(), lengths, rule: self.rule, ..SpeedOptions::default() }
    }

    /// Measures rows, each with the interval of its slices.
    fn rows(&mut self, options: &SpeedOptions) -> Result<Vec<Row>, LabError> {
        let mut rows = super::run::messages(options, self.progress)?;
        rows.iter_mut().for_each(|row| row.mb_per_s_interval = row.mb_per_s_interval.or(row.spread));
        Ok(rows)
    }

    /// Measures the tiers (B2, B10, B18, B22–B25).
    fn ladder(&mut self) -> Result<Outcome, LabError> {
        let rows = self.rows(&SpeedOptions { tiers: Tier::ALL.map(Some).into(), ..self.packets() })?;
        let gain = |id, name| Measure::times(id, name).written(Written::Gain);
        let [reference, generic, native, batch] =
            Tier::ALL.map(|tier| Measure::rate(tier.name(), tier.name()));
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
        let mut cells: Vec<Cell> = TEN.map(|algorithm| tiers_of(algorithm, &rows)).into();
        let gains = ["single", "lanes"].map(|measure| {
            cells.iter().filter_map(|cell| cell.values.get(measure).cloned()).collect::<Vec<Value>>()
        });
        let all: Runs = cells.iter().map(Cell::runs).sum();
        let last = |name: &str, role, [single, lanes]: [Option<Value>; 2]| {
            Cell::new([("algorithm", name)])
                .behind(all)
                .with_some("single", single)
                .with_some("lanes", lanes)
                .of_role(role)
        };
        // One algorithm with instructions of its own would dominate the mean.
        let geometric = gains.each_ref().map(|gains| derive::mean_on(gains, f64::ln, f64::exp));
        let arithmetic = gains.each_ref().map(|gains| derive::mean_on(gains, |x| x, |x| x));
        let claims = gain_claims(&arithmetic);
        let means = [
            last(MEAN, Role::Summary, arithmetic),
            last("geometric mean", Role::Summary, geometric),
            last("the paper", Role::Published, PAPERS_GAINS.map(|gain| Some(gain.1.into()))),
        ];
        let title = ("ladder", "B2, B10, B18, B22–B25", "Tier over tier");
        let mut experiment = experiment(title, &["algorithm"], measures).notes(&[
            "MB/s of one core: 1408-byte messages, batches of 512. A dash is a tier without a kernel of its own: native are kernels \
             by instructions that a processor has for the algorithm itself, which most of the ten never got.",
            "The paper's gains are means over its algorithms on the IXP2800: level 2 over level 0 on one thread, and level 3 on 8 \
             engines of 8 threads.",
        ]);
        experiment.notes.extend(md5_note(&cells));
        cells.extend(means);
        experiment.claims = claims;
        let plot = Plot {
            measures: ["single", "lanes"].map(str::to_owned).to_vec(),
            ..Plot::new(Drawn::Bars, "algorithm", "single", &[]).titled("What tiers gain")
        };
        Ok(Outcome::new(experiment.shown(View::Cells, vec![plot]), cells))
    }

    /// Measures parallelism at the level of flows (B24).
    fn flows(&mut self) -> Result<Outcome, LabError> {
        let rows = self.rows(&SpeedOptions { lanes: self.lanes.clone(), ..self.packets() })?;
        let title = ("flows", "B24", "Flow-level parallelism");
        let experiment = experiment(title, &["algorithm", "lanes"], rate_measure()).notes(&[
            "MB/s of cores with flows of their own. In the paper, 1 to 2 engines nearly double every algorithm, and at 8 only DES, \
             IDEA and SHA-1 still grow in line.",
        ]);
        let plot = Plot::new(Drawn::Lines, "lanes", "times", &["algorithm"]).titled("Flows over lanes");
        Ok(over_lanes(experiment, rows.iter().map(cell).collect(), plot))
    }

    /// Measures the threads of one engine (B24) as messages under way at once on one core.
    fn batches(&mut self) -> Result<Outcome, LabError> {
        let rows = self.rows(&SpeedOptions { batches: vec![1, 2, 4, 8, 16, 64, 512], ..self.packets() })?;
        let title = ("batches", "B24", "Messages at once on one core");
        let experiment = experiment(title, &["algorithm", "batch"], rate_measure()).notes(&[
            "MB/s with what the dispatcher takes: elements of vectors are to this core what threads were to the paper's engines, where \
             nothing grew from 4 to 8.",
        ]);
        let plot =
            Plot::new(Drawn::Lines, "batch", RATE, &["algorithm"]).titled("Messages at once").logarithmic();
        let view = View::pivot(&["algorithm"], "batch", RATE);
        let outcome = Outcome::new(experiment.shown(view, vec![plot]), rows.iter().map(cell).collect());
        Ok(outcome.in_words("batch", |batch| format!("{batch} at once")))
    }

    /// Measures parallelism at the level of blocks within a core (B24).
    fn blocks(&mut self) -> Result<Outcome, LabError> {
        let rows = self.rows(&SpeedOptions {
            algorithms: divisible(),
            lengths: vec![Length::Equal(MESSAGE_BYTES)],
            tiers: vec![Some(Tier::Native), None],
            batches: vec![1],
            ..self.packets()
        })?;
        let ways = ["block after block", "in lanes"];
        let way = |row: &Row| ways[usize::from(row.tier == Tier::Batch.name())].to_owned();
        let title = ("blocks", "B24", "Block-level parallelism on one core");
        let experiment = experiment(title, &["algorithm"], rate_measure()).notes(&[
            "MB/s for one message of 16 KiB, block after block, and cut so that its blocks fill the vectors.",
            "AES is not cut: one message alone keeps its units busy.",
        ]);
        Ok(across(experiment, &rows, (Axis::new("way", ways), "times"), way))
    }

    /// Measures with caches and without (A2 and A9).
    fn caches(&mut self) -> Result<Outcome, LabError> {
        let touching = ["touch", "inet", "md5", "sha1", "aha-i", "bh-140", "aes-128-ctr", "des-cbc"];
        let algorithms: Vec<Algorithm> = touching.iter().filter_map(|name| name.parse().ok()).collect();
        let (mut rows, mut states) = (Vec::new(), Vec::new());
        for cache in CacheState::ALL {
            // Only comparable kernels are used: several messages side by side, which some of them lack, would hide the location of messages.
            let tiers = vec![Some(Tier::Native)];
            rows.extend(self.rows(&SpeedOptions {
                algorithms: algorithms.clone(),
                tiers,
                cache,
                ..self.packets()
            })?);
            states.resize(rows.len(), cache);
        }
        let title = "Where messages come from";
        let experiment = Experiment::new("caches", "A2, A9", title, &["algorithm"], rate_measure()).notes(&[
            "MB/s for messages one at a time, in the nearest cache that holds 512 of them, in the second-level cache, and in memory: \
             ATOMIC-2 measured MD5 with its caches off, with the external one, and with both.",
        ]);
        let experiment = experiment.of(ATOMIC_TITLE).claiming(cache_claims());
        let axis = Axis::new("from", CacheState::ALL.map(CacheState::name)).in_words(|state| {
            let words = match state {
                "l2" => "second-level cache",
                "out" => "memory",
                nearest => nearest,
            };
            words.to_owned()
        });
        let mut states = states.iter();
        let state = |_: &Row| states.next().map_or_else(String::new, |state| state.name().to_owned());
        Ok(across(experiment, &rows, (axis, "memory over hot"), state))
    }

    /// Measures UDP beside MD5 (A3).
    fn yardstick(&mut self) -> Result<Outcome, LabError> {
        let rows = self.rows(&SpeedOptions {
            algorithms: "md5".parse().into_iter().collect(),
            lengths: vec![Length::Equal(yardstick::BYTES)],
            tiers: vec![Some(Tier::Native)],
            batches: vec![1],
            ..self.packets()
        })?;
        let md5 = rows.first().ok_or_else(|| LabError::Unavailable("MD5 was not measured".to_owned()))?;
        yardstick::outcome(md5, self.rule.side_seconds())
    }

    /// Measures public-key operations by tier, the paper's future work (B26).
    fn public_key(&mut self) -> Result<Outcome, LabError> {
        let tiers = [Tier::Reference, Tier::Native, Tier::Batch];
        let options = PublicKeyOptions {
            algorithms: Asymmetric::ALL.to_vec(),
            tiers: tiers.map(Some).to_vec(),
            batches: vec![ASYMMETRIC_WAYS],
            rule: self.rule,
            ..PublicKeyOptions::default()
        };
        let rows = super::run::operations(&options, self.progress)?;
        let [reference, native, batch] = tiers.map(|tier| operations(tier.name(), tier.name()));
        let times = |id: &str, name| Measure::times(id, name);
        let measures = vec![
            reference,
            native,
            times("native times", "times reference"),
            batch,
            times("batch times", "times reference"),
            times("lanes", "batch over native"),
        ];
        let mut cells = Vec::new();
        for (algorithm, step) in Asymmetric::ALL
            .into_iter()
            .flat_map(|algorithm| algorithm.steps().iter().map(move |step| (algorithm.name(), step.name)))
        {
            let of = |tier: &Tier| {
                rows.iter().find(|row| (row.algorithm, row.step, row.tier) == (algorithm, step, tier.name()))
            };
            let found = tiers.each_ref().map(of);
            let [reference, native, batch] = found.map(|row| row.map(|row| row.ops_per_s));
            let over = |value: Option<f64>, base: Option<f64>| Some(value? / base?);
            let mut cell = Cell::new([("algorithm", algorithm), ("step", step)])
                .with_some("native times", over(native, reference))
                .with_some("batch times", over(batch, reference))
                .with_some("lanes", over(batch, native));
            for (tier, row) in tiers.into_iter().zip(found) {
                cell = cell.with_some(tier.name(), row.map(|row| row.rate()));
            }
            cells.push(cell);
        }
        // It is a study of its own: B26 itself is about hardware.
        let title = ("public-key", "public-key, B26", "Public-key operations, tier over tier");
        let experiment = experiment(title, &["algorithm", "step"], measures).notes(&[
            "Operations a second of one core: reference follows the definition, native is AWS-LC's operation, batch computes eight \
             side by side. A dash is a tier without a kernel of its own. The paper names asymmetric ciphers as its future work and \
             has no figures; `sealane lab run network-processor` counts the instructions of their loops.",
        ]);
        let plot =
            Plot::new(Drawn::Bars, "algorithm", "lanes", &["step"]).titled("What eight side by side gain");
        Ok(Outcome::new(experiment.shown(View::Cells, vec![plot]), cells))
    }

    /// Measures parallelism at the level of blocks over cores (B24).
    fn shared_message(&mut self) -> Result<Outcome, LabError> {
        let (rounds, warm_up_seconds, seconds) = match self.rule {
            Rule::Slices { seconds } => (1, 0.0, seconds),
            Rule::Runs { count, warm_up_seconds, seconds } => (count, warm_up_seconds, seconds),
        };
        let units: Vec<(Algorithm, usize)> = divisible()
            .into_iter()
            .flat_map(|one| self.lanes.iter().map(move |&lanes| (one, lanes)))
            .collect();
        let places = units.iter().map(|(algorithm, lanes)| {
            at([("algorithm", &*algorithm.to_string()), ("lanes", &*lanes.to_string())])
        });
        let title = ("shared-message", "B24", "Block-level parallelism over cores");
        let experiment = experiment(title, &["algorithm", "lanes"], rate_measure()).notes(&[
            "MB/s for 16 KiB after 16 KiB, each divided over cores that wait for each other at its end. Every core has its share in \
             memory of its own, so that what is lost to the flows above is the price of waiting alone: a message that one core has \
             written would cost its way between caches as well.",
        ]);
        let repetition = Repetition { rounds, centre: Centre::Mean, ..Repetition::default() };
        let plan = Plan::new(Experiment { repetition, ..experiment }, places.collect(), self.seed);
        let mut sampler = by(|cell| {
            let (algorithm, lanes) = units[cell];
            let run = |seconds| block_level(algorithm, lanes, seconds).map_err(unavailable);
            if warm_up_seconds > 0.0 {
                run(warm_up_seconds)?;
            }
            let watch = Watch::begin();
            let rate = run(seconds)?;
            Ok(Sample::slice(RATE, rate, watch.is_disturbed(0.0)))
        });
        let cells = plan.measure(&mut sampler, self.progress)?;
        let plot = Plot::new(Drawn::Lines, "lanes", "times", &["algorithm"]);
        Ok(over_lanes(plan.experiment, cells, plot))
    }
}

/// Returns a table with a column for each value of an axis that rows do not have.
fn across(
    mut experiment: Experiment,
    rows: &[Row],
    (axis, times): (Axis, &str),
    mut value: impl FnMut(&Row) -> String,
) -> Outcome {
    let cells = rows.iter().map(|row| {
        let mut cell = cell(row);
        cell.at.insert(axis.name.clone(), value(row));
        cell
    });
    let cells = cells.collect();
    let plot = Plot::new(Drawn::Bars, "algorithm", RATE, &[&axis.name]).logarithmic();
    let view = View::pivot_with_times(&["algorithm"], &axis.name, RATE, times);
    experiment.axes.push(axis);
    Outcome::new(experiment.shown(view, vec![plot]), cells)
}

/// The names of the two means: of the ten ciphers and digests, and of kernels of packet processing.
const MEANS: [&str; 2] = ["mean", "mean of packet kernels"];
/// The measure of loads and stores together.
const MEMORY: &str = "loads and stores";

/// Returns the paper's sentences about its suite beside those of packet processing (B17).
fn mix_claims() -> Vec<Claim> {
    let place = |name: &str| at([("algorithm", name)]);
    let claim = |words: &str, measure: &str, [less, more]: [&str; 2]| {
        let statement = format!("{words} than kernels of packet processing, our own of both.");
        Claim::ratio((statement, "B17"), measure, (place(less), place(more)), (None, Some(1.0)))
    };
    let [ours, packets] = MEANS;
    vec![
        claim("Ciphers and digests have fewer branches", "branch", [ours, packets]),
        claim("Ciphers and digests have fewer loads and stores", MEMORY, [ours, packets]),
        Claim::ratio(
            (
                "Ciphers and digests have more simple arithmetic than kernels of packet processing, our own of both.".to_owned(),
                "B17",
            ),
            "simple ALU",
            (place(ours), place(packets)),
            (Some(1.0), None),
        ),
    ]
}

/// Returns the mixes of instructions (B16 and B17).
fn mixes() -> Outcome {
    const BYTES: usize = 4096;
    const KINDS: [&str; 6] = ["simple ALU", "complex ALU", "branch", "immediate", "load", "store"];
    let shares = |mix: &Mix| {
        let total = mix.total().max(1) as f64;
        [mix.simple_alu, mix.complex_alu, mix.branch + mix.jump, mix.immediate, mix.load, mix.store]
            .map(|count| 100.0 * count as f64 / total)
    };
    let cell = |name: &str, shares: [f64; 6]| {
        let cell = Cell::new([("algorithm", name)]).with(MEMORY, shares[4] + shares[5]);
        KINDS.into_iter().zip(shares).fold(cell, |cell, (kind, share)| cell.with(kind, share))
    };
    let mean = |name: &str, all: &[[f64; 6]]| {
        let sum = |at: usize| all.iter().map(|shares| shares[at]).sum::<f64>() / all.len().max(1) as f64;
        // Counts are the same in every run.
        let mean = Cell::new([("algorithm", name)]).of_role(Role::Summary);
        let with = |cell: Cell, at: usize| cell.with(KINDS[at], Value::exact(sum(at)));
        (0..KINDS.len()).fold(mean, with).with(MEMORY, Value::exact(sum(4) + sum(5)))
    };
    let mut cells = Vec::new();
    let mut ciphers = Vec::new();
    for algorithm in ten() {
        let Some(mix) = instruction_mix(algorithm, BYTES) else { continue };
        ciphers.push(shares(&mix));
        let per_byte = mix.total() as f64 / BYTES as f64;
        cells.push(cell(&algorithm.to_string(), shares(&mix)).with("operations", per_byte));
    }
    cells.push(mean(MEANS[0], &ciphers));
    let packets: Vec<[f64; 6]> = PACKET_KERNELS.iter().map(|kernel| shares(&kernel.mix())).collect();
    cells.extend(PACKET_KERNELS.iter().zip(&packets).map(|(kernel, shares)| cell(kernel.name, *shares)));
    cells.push(mean(MEANS[1], &packets));
    let published = |name, shares| cell(name, shares).of_role(Role::Published);
    cells.push(published("NPCryptBench 1.01", [78.9, 5.9, 2.0, 3.3, 7.0, 0.5]));
    cells.push(published("CommBench, payload", [58.0, f64::NAN, 14.0, 1.0, 18.0, 8.0]));
    cells.push(published("CommBench, header", [41.0, f64::NAN, 19.0, 2.0, 27.0, 6.0]));
    cells.push(published("NPBench", [f64::NAN, f64::NAN, 10.9, f64::NAN, 19.3, 8.9]));
    let net_bench = published("NetBench", [f64::NAN, f64::NAN, 16.2, f64::NAN, f64::NAN, f64::NAN]);
    cells.push(net_bench.with(MEMORY, 27.7));
    let mut measures: Vec<Measure> =
        KINDS.iter().map(|kind| Measure::new(kind, kind).unit("%").decimals(1)).collect();
    measures.push(Measure::new(MEMORY, MEMORY).unit("%").decimals(1));
    measures.push(Measure::new("operations", "operations a byte").decimals(1));
    let kernels: Vec<String> =
        PACKET_KERNELS.iter().map(|kernel| format!("{} ({})", kernel.name, kernel.work)).collect();
    let kernels = format!(
        "Kernels of packet processing, as NPBench, NetBench and CommBench have them: {}.",
        kernels.join(", ")
    );
    let plot = Plot {
        measures: KINDS.map(str::to_owned).to_vec(),
        ..Plot::new(Drawn::Stacked, "algorithm", KINDS[0], &[])
    };
    let experiment = experiment(("mix", "B16, B17", "Dynamic instruction mix"), &["algorithm"], measures).notes(&[
        "Per cent of the operations that reference kernels do for 4096 bytes, counted by a counting machine word; \
         the paper's other 2.4 % are instructions of its processor.",
        &kernels,
        "The paper's table leaves open which columns NPBench's and NetBench's other shares are in, so they are left out.",
    ]);
    let experiment = experiment.claiming(mix_claims());
    Outcome::new(experiment.shown(View::Cells, vec![plot]), cells)
}

/// Returns the MB/s of one message after the other, each divided over all lanes, which wait for each other at its
/// end.
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Profile;

    fn told(only: &[&str], profile: Profile) -> Vec<Outcome> {
        let only = only.iter().map(|&part| part.to_owned()).collect();
        let request = Request { only, profile, lanes: vec![1, 2], ..Request::default() };
        run(&request, &mut std::io::sink()).unwrap().outcomes
    }

    #[test]
    fn the_ten_are_in_the_catalogue() {
        assert_eq!(ten().len(), 10);
        assert_eq!(divisible().len(), 6);
    }

    #[test]
    fn the_mix_adds_up() {
        let mix = mixes();
        assert_eq!(mix.cells.len(), 10 + 1 + 5 + 1 + 5);
        let kinds = &mix.experiment.plots[0].measures;
        for cell in &mix.cells[..11] {
            let sum: f64 = kinds.iter().filter_map(|kind| cell.figure(kind)).sum();
            assert!((99.0..=101.0).contains(&sum), "{cell:?}");
        }
    }

    #[test]
    fn it_is_told_with_every_table_filled() {
        let told = told(&[], Profile::Smoke);
        let ids = PARTS.into_iter().flat_map(|part| match part {
            "tables" => vec![part, "placement"],
            _ => vec![part],
        });
        assert!(told.iter().map(|outcome| &*outcome.experiment.id).eq(ids));
        for outcome in &told {
            let tables = crate::report::tables::main(outcome);
            let rows: Vec<_> = tables.iter().flat_map(|table| &table.rows).collect();
            let title = &outcome.experiment.title;
            let of_paper = outcome.cells.iter().filter(|cell| cell.role == Role::Published).count();
            let is_told =
                |row: &&&crate::report::table::Row| row.cells[1..].iter().any(|text| text.value != "–");
            assert_eq!(rows.iter().filter(is_told).count(), rows.len(), "{title}");
            let steps: usize = Asymmetric::ALL.iter().map(|algorithm| algorithm.steps().len()).sum();
            let least = match &*outcome.experiment.id {
                "public-key" => steps,
                "yardstick" => of_paper + 1,
                // Two forms, both ways.
                "double-s-boxes" => 4,
                _ => of_paper + 6,
            };
            assert!(rows.len() >= least, "{title}");
        }
        let ladder = &told[0];
        assert!(ladder.cells[..10].iter().all(|cell| cell.figure("reference").is_some()), "{ladder:?}");
    }
}

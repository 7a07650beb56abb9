//! Accelerator cards: throughput by the length of jobs (figure 1 of the 2002 study), and tables 1 and 2 and the null
//! algorithm of the OpenBSD cryptographic framework (2003).
//!
//! Guarantees: every card is the engine's simulated one and is named so; tables by threads and the crossover are in
//! virtual time, and the same on every machine; curves and the framework's own cost are measured by the clock, in
//! turns. A card's curve is its time alone, as nothing is computed for it while the clock runs; where this machine does not hold
//! the card's pace, the table says so. Whether hardware gains is judged beside a processor of the card's time.

mod closed_loop;

use crate::LabError;
use crate::error::unavailable;
use crate::experiment::{
    Cell, Claim, Coordinates, Drawn, Experiment, MEGABITS, Measure, Origin, Outcome, Plan, Plot, Profile,
    Repetition, Role, Sample, Value, View, at, by,
};
use crate::load::Watch;
use crate::report::Report;
use crate::report::number::{counted, ratio};
use crate::request::Request;
use crate::studies::{COSTS, Cost, Family, OCF, Study, cost, study};
use closed_loop::{CARD, PROCESSOR, megabits, rate};
use sealane_card::{OCF_BYTES, OCF_TABLE_1, Timing};
use sealane_engine::{
    Buffer, EngineChoice, Implementations, Job, JobStatus, Protection, Session, Span, Submitter, Work,
};
use sealane_transform::{Aead, BlockCipher, Cipher, Kernels, Mode, Tier};
use std::io::Write;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The family of `sealane lab cards`.
pub(crate) const FAMILIES: &[Family] = &[Family {
    command: "lab cards",
    needs: "one processor",
    parts: &PARTS,
    costs: PARTS_COSTS,
    studies: STUDIES,
    run,
}];

const PARTS_COSTS: &[Cost] =
    &[cost(&["curve"], 18), cost(&["crossover"], 1), cost(&["framework"], 2), cost(&["threads"], 1)];

const PARTS: [&str; 4] = ["curve", "framework", "threads", "crossover"];

const STUDIES: &[Study] = &[
    study(
        "R9",
        COSTS,
        "Figure 1: a card's throughput by packet size, beside software and a hybrid",
        &["curve", "crossover"],
    ),
    study("O1", OCF, "the framework's own cost: the null algorithm", &["framework"]),
    study("O2", OCF, "Table 1: 3DES on one card, by threads and bytes", &["threads"]),
    study("O3", OCF, "Table 2: the same on several cards", &["threads"]),
];

/// The papers.
const FIGURE_1: &str = "Miltchev, Ioannidis, Keromytis: A Study of the Relative Costs of Network Security Protocols (2002), figure 1";
const FRAMEWORK: &str =
    "Keromytis, Wright, de Raadt: The Design of the OpenBSD Cryptographic Framework (2003)";

/// The lengths of figure 1.
const LENGTHS: [u32; 10] = [64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768];
/// The works of one job that are under way at a time when a curve is measured.
const DEPTH: NonZeroUsize = NonZeroUsize::new(32).unwrap();

/// Engines of the curves, and their names in the table.
const ENGINES: [(&str, &str); 5] = [
    ("card:time-only", "simulated card"),
    ("card:processor", "simulated processor of its time"),
    ("inline", "software"),
    ("lanes", "software, all lanes"),
    // The other half of a hybrid is a processor that computes, so its card must.
    ("hybrid:card,inline", "simulated hybrid"),
];
/// The part of a simulated engine's pace that counts as held.
const PACE_HELD: f64 = 0.95;

/// The rows of table 2 that survive; its caption, which said how many cards, does not.
const TABLE_2: [(usize, [f64; 6]); 2] =
    [(1, [5.42, 18.88, 61.94, 151.95, 300.88, 254.79]), (32, [9.91, 37.01, 120.71, 410.27, 758.85, 801.81])];
/// The model of the card was fitted to table 1 within this, see [`Timing::FOUR_HIFN_7751`].
const FIT: f64 = 0.15;
/// The share of a card's rate that many threads reach, of which the paper says "over 96 %"; a model whose bus waits at
/// random leaves one per cent more idle.
const REACHED: f64 = 0.95;
/// The framework's throughput with the null algorithm, one process: bytes and Mb/s.
const NULL: [(u32, f64); 2] = [(1024, 420.0), (8192, 600.0)];
/// The rows of the published figures.
const THE_PAPER: &str = "the paper";
const THE_MODEL: &str = "the model";

/// Runs the requested parts.
fn run(request: &Request, progress: &mut dyn Write) -> Result<Report, LabError> {
    let began = Instant::now();
    let mut outcomes = Vec::new();
    if request.wants(&["curve"]) {
        outcomes.push(curve(request, progress)?);
    }
    if request.wants(&["crossover"]) {
        outcomes.push(crossover()?);
    }
    if request.wants(&["framework"]) {
        outcomes.push(framework(request, progress)?);
    }
    if request.wants(&["threads"]) {
        outcomes.push(threads(request.profile)?);
    }
    let summary = "The papers' accelerator cards, simulated by the engine's model of four Hifn 7751, beside this machine's \
                   software.";
    Ok(Report {
        seconds: began.elapsed().as_secs_f64(),
        profile: Some(request.profile),
        sources: vec![FIGURE_1.to_owned(), FRAMEWORK.to_owned()],
        limits: vec![
            "A simulated card answers when a card of 2003 would, and nothing is computed for it. Only a hybrid's card has its results \
             computed in software, because the processor beside it computes too: that takes CPU time that a card does not."
                .to_owned(),
        ],
        ..Report::new("sealane lab cards", "Accelerator cards", summary, outcomes)
    })
}

/// One lane that keeps works of one job under way at an engine.
struct Rig {
    submitter: Submitter<()>,
    job: Job,
    bytes: u32,
    time: Duration,
}

impl Rig {
    fn new(
        engine: &str,
        protection: Protection,
        bytes: u32,
        depth: NonZeroUsize,
        time: Duration,
    ) -> Result<Self, LabError> {
        // Software beside the card is that of the papers' processors, one message after another.
        let kernels = Kernels::select(Some(Tier::Native), None).map_err(unavailable)?;
        let implementations = Implementations::from(kernels);
        let choice = EngineChoice::among(sealane_card::KINDS, engine).map_err(unavailable)?;
        let engine = choice.make(implementations).map_err(unavailable)?;
        let material = vec![7; protection.key_bytes()];
        let session = Session::with(implementations, protection, &material).map_err(unavailable)?;
        let session = Arc::new(session);
        let tag_bytes = protection.tag_bytes() as u32;
        let job = Job { body: Span::new(0, bytes), tag: Span::new(bytes, tag_bytes), ..Job::default() };
        let mut submitter = Submitter::new(engine.queue(depth).map_err(unavailable)?, depth.get());
        for _ in 0..depth.get() {
            let buffer = Buffer::new((bytes + tag_bytes) as usize);
            let sessions = vec![Arc::clone(&session)];
            submitter.submit(Work { buffer, sessions, jobs: vec![job], ..Work::default() }, ());
        }
        Ok(Self { submitter, job, bytes, time })
    }

    /// Returns the jobs per second of one slice.
    fn jobs_per_second(&mut self) -> Result<f64, LabError> {
        let (start, mut jobs) = (Instant::now(), 0_u32);
        while start.elapsed() < self.time {
            let (mut work, ()) =
                self.submitter.wait().ok_or_else(|| unavailable("the engine has lost its works"))?;
            if work.jobs[0].status != JobStatus::Done {
                return Err(unavailable("a job failed"));
            }
            work.jobs[0] = self.job;
            self.submitter.submit(work, ());
            jobs += 1;
        }
        Ok(f64::from(jobs) / start.elapsed().as_secs_f64())
    }
}

/// A cell, and how its rig is made.
type Row = (Coordinates, Box<dyn Fn() -> Result<Rig, LabError>>);

/// Measures engines in turns, as the profile has it.
fn measured(
    experiment: Experiment,
    rows: Vec<Row>,
    claims: impl FnOnce(&[Cell]) -> Vec<Claim>,
    beside: Vec<Cell>,
    (request, progress): (&Request, &mut dyn Write),
) -> Result<Outcome, LabError> {
    let rule = request.profile.repetition();
    let repetition = Repetition { warm_up_rounds: 0, ..rule };
    let (places, rigs): (Vec<_>, Vec<_>) = rows.into_iter().unzip();
    let plan = Plan::new(Experiment { repetition, ..experiment.clone() }, places, request.seed);
    // Each rig is made for its slice, because 32 buffers of each length would leave the caches.
    let mut sampler = by(|cell| {
        let mut rig = rigs[cell]()?;
        let watch = Watch::begin();
        let per_second = rig.jobs_per_second()?;
        let is_disturbed = watch.is_thread_disturbed();
        let megabits = megabits(per_second, rig.bytes);
        Ok(Sample::of([(MEGABITS, megabits), ("request_us", 1e6 / per_second)], is_disturbed))
    });
    let mut cells = plan.measure(&mut sampler, progress)?;
    let claims = claims(&cells);
    cells.extend(beside);
    let experiment = Experiment { repetition, claims, ..experiment };
    Ok(Outcome { seed: request.seed, ..Outcome::new(experiment, cells) })
}

/// Returns the length of a slice.
fn slice(profile: Profile) -> Duration {
    Duration::from_millis(match profile {
        Profile::Smoke => 2,
        Profile::Quick => 30,
        Profile::Full => 300,
        Profile::Paper => 30_000,
    })
}

/// Figure 1: Mb/s by the length of jobs.
fn curve(request: &Request, progress: &mut dyn Write) -> Result<Outcome, LabError> {
    const AXES: [&str; 3] = ["algorithm", "engine", "bytes"];
    let time = slice(request.profile);
    let algorithms = [
        ("3des-cbc", Protection::Cipher(Cipher::Block(BlockCipher::TripleDes, Mode::Cbc))),
        ("aes-128-gcm", Protection::Aead(Aead::Aes128Gcm)),
    ];
    let place = |algorithm: &str, engine: &str, bytes: u32| {
        at(AXES.into_iter().zip([algorithm, engine, &bytes.to_string()]))
    };
    let mut rows: Vec<Row> = Vec::new();
    for (algorithm, protection) in algorithms {
        // The processor of the card's time is one that computes triple DES.
        let has_it = |(text, _): &(&str, &str)| *text != ENGINES[1].0 || algorithm == algorithms[0].0;
        for (text, engine) in ENGINES.into_iter().filter(has_it) {
            for bytes in LENGTHS {
                let make = move || Rig::new(text, protection, bytes, DEPTH, time);
                rows.push((place(algorithm, engine, bytes), Box::new(make)));
            }
        }
    }
    let title = "Throughput by packet size (figure 1)";
    let experiment = Experiment::new(
        "card-curve",
        "R9",
        title,
        &AXES,
        vec![Measure::megabits(), Measure::times("of_pace", "of its pace")],
    );
    let notes = [
        "The paper draws its cards between 0 and 250 Mb/s, without figures. Ours is the framework paper's card of four Hifn 7751, \
         simulated: it takes the card's time, and nothing is computed for it. Software is this processor's, one message after \
         another; whether hardware gains is judged beside a processor of the card's time, in virtual time, below.",
        "32 works of one job each are under way. AES-GCM shows the same card if it had the cipher of today at the same speed.",
    ];
    let plot = Plot::new(Drawn::Lines, AXES[2], MEGABITS, &AXES[1..2])
        .each(AXES[0])
        .titled("Throughput")
        .logarithmic();
    let view = View::pivot(&AXES[..2], AXES[2], MEGABITS);
    let experiment = experiment.of(FIGURE_1).notes(&notes).shown(view, vec![plot]);
    let mut outcome = measured(experiment, rows, |_| Vec::new(), Vec::new(), (request, progress))?;
    for (name, timing) in [(ENGINES[0].1, CARD), (ENGINES[1].1, PROCESSOR)] {
        for cell in outcome.cells.iter_mut().filter(|cell| cell.at["engine"] == name) {
            let Ok(bytes) = cell.at["bytes"].parse() else { continue };
            let pace = megabits(rate(&[timing], DEPTH.get(), bytes, PACE_JOBS)?, bytes);
            give_pace(cell, pace);
        }
    }
    outcome.experiment.notes.extend(missed_pace(&outcome.cells));
    Ok(outcome)
}

/// The jobs in virtual time that tell a pace.
const PACE_JOBS: usize = 500;

/// Gives a cell its rate over that of its engine in virtual time.
fn give_pace(cell: &mut Cell, pace: f64) {
    let found = cell.figure(MEGABITS).zip(cell.interval(MEGABITS));
    if let Some((value, interval)) = found.filter(|_| pace > 0.0) {
        let of = |rate: f64| rate / pace;
        let range = Value::Range { value: of(value), low: of(interval.low), high: of(interval.high) };
        cell.values.insert("of_pace".to_owned(), range);
    }
}

/// Says where this machine did not hold a simulated engine's pace; `None` if it did everywhere.
fn missed_pace(cells: &[Cell]) -> Option<String> {
    let missed = |cell: &Cell| {
        let share = cell.figure("of_pace").filter(|share| *share < PACE_HELD)?;
        let [engine, algorithm, bytes] = ["engine", "algorithm", "bytes"].map(|axis| &cell.at[axis]);
        Some(format!("{engine}, {algorithm}, {bytes} bytes: {}", ratio(share)))
    };
    let missed: Vec<String> = cells.iter().filter_map(missed).collect();
    let words = "This machine does not hold the simulated pace, so these figures are its own and no card's, in parts of that pace:";
    (!missed.is_empty()).then(|| format!("{words} {}.", missed.join("; ")))
}

/// The null algorithm: what the framework costs alone.
fn framework(request: &Request, progress: &mut dyn Write) -> Result<Outcome, LabError> {
    const AXES: [&str; 2] = ["engine", "bytes"];
    let time = slice(request.profile);
    let place = |engine: &str, bytes: u32| at(AXES.into_iter().zip([engine, &bytes.to_string()]));
    let engines = ["inline", "lanes:1"];
    let mut rows: Vec<Row> = Vec::new();
    for engine in engines {
        for (bytes, _) in NULL {
            let make = move || Rig::new(engine, Protection::Null, bytes, NonZeroUsize::MIN, time);
            rows.push((place(engine, bytes), Box::new(make)));
        }
    }
    let published = NULL.map(|(bytes, megabits)| {
        let cell = Cell { at: place(THE_PAPER, bytes), ..Cell::default() };
        let request_us = f64::from(bytes) * 8.0 / megabits;
        cell.with(MEGABITS, megabits).with("request_us", request_us).of_role(Role::Published)
    });
    // A machine twenty years younger cannot pass less than the paper's: there is nothing to claim.
    let claims = |_: &[Cell]| Vec::new();
    let measures = vec![Measure::cost("request_us", "µs a request", "µs"), Measure::megabits()];
    let experiment =
        Experiment::new("framework", "O1", "The framework's own cost (null algorithm)", &AXES, measures);
    let notes = [
        "One process, one request at a time. OpenBSD's framework copies the bytes into the kernel and back, which takes most of its \
         time with 8 KB; ours is in the process and copies nothing.",
    ];
    let experiment = experiment.of(FRAMEWORK).notes(&notes);
    measured(experiment, rows, claims, published.to_vec(), (request, progress))
}

/// Tables 1 and 2: threads that wait for one job each, in virtual time.
fn threads(profile: Profile) -> Result<Outcome, LabError> {
    const AXES: [&str; 4] = ["cards", "threads", "source", "bytes"];
    let jobs = if profile == Profile::Smoke { 200 } else { 2000 };
    let place = |cards: &str, threads: usize, source: &str, bytes: u32| {
        at(AXES.into_iter().zip([cards, &threads.to_string(), source, &bytes.to_string()]))
    };
    let mut cells = Vec::new();
    let mut claims = Vec::new();
    for cards in 1..=4_usize {
        let name = cards.to_string();
        for (threads, published) in OCF_TABLE_1 {
            for (bytes, published) in OCF_BYTES.into_iter().zip(published) {
                let found = megabits(rate(&vec![CARD; cards], threads, bytes, jobs)?, bytes);
                let mut cell = Cell { at: place(&name, threads, THE_MODEL, bytes), ..Cell::default() };
                cell = cell.with(MEGABITS, Value::exact(found));
                if cards == 1 {
                    cell = cell.with("over_paper", Value::exact(found / published));
                    let paper = Cell { at: place(&name, threads, THE_PAPER, bytes), ..Cell::default() };
                    cells.push(paper.with(MEGABITS, published));
                    let statement = format!(
                        "{threads} threads, {bytes} bytes: the model gives the paper's {published} Mb/s within 15 %, to which it was fitted."
                    );
                    let bounds = [1.0 - FIT, 1.0 + FIT].map(Some).into();
                    let claim =
                        Claim::bound((statement, "O2, table 1"), "over_paper", cell.at.clone(), bounds);
                    claims.push(claim.by_construction());
                }
                if threads == 32 && bytes == 16384 {
                    let rated_ns = Timing::FOUR_HIFN_7751.rated_ns(bytes as usize) / cards as f64;
                    let peak = f64::from(bytes) * 8e3 / rated_ns;
                    cell = cell.with("of_peak", Value::exact(found / peak));
                    let statement = format!(
                        "{cards} cards, 32 threads, 16,384 bytes: at least 95 % of the cards' rated speed (the paper: over 96 %)."
                    );
                    let bounds = (Some(REACHED), None);
                    let claim = Claim::bound((statement, "O2, O3"), "of_peak", cell.at.clone(), bounds);
                    // The model of one card was fitted to this too; several cards are behind our scheduler.
                    claims.push(if cards == 1 { claim.by_construction() } else { claim });
                }
                cells.push(cell);
            }
        }
    }
    for (threads, published) in TABLE_2 {
        for (bytes, published) in OCF_BYTES.into_iter().zip(published) {
            let cell = Cell { at: place("several", threads, THE_PAPER, bytes), ..Cell::default() };
            cells.push(cell.with(MEGABITS, published));
        }
    }
    let measures = vec![
        Measure { origin: Origin::Predicted, ..Measure::megabits() },
        Measure::times("over_paper", "over the paper's"),
        Measure::times("of_peak", "of the rated speed"),
    ];
    let title = "3DES by threads and bytes (tables 1 and 2), Mb/s";
    let experiment = Experiment::new("card-threads", "O2, O3", title, &AXES, measures);
    let notes = [
        "Each thread waits for one job. The cards are the engine's simulated one, behind the scheduler that ships, in virtual time.",
        "Table 2 is of several accelerators; its caption is lost, and one thread alone shows that they are not the card of table 1. \
         Its two rows are printed beside the model of one to four cards, without a claim.",
    ];
    let plot = Plot::new(Drawn::Lines, AXES[3], MEGABITS, &["threads", "source"])
        .each("cards")
        .titled("Throughput")
        .logarithmic();
    let view = View::pivot(&AXES[..3], AXES[3], MEGABITS);
    let experiment = experiment.of(FRAMEWORK).claiming(claims).notes(&notes).shown(view, vec![plot]);
    Ok(Outcome::new(experiment, cells).in_words(AXES[0], |cards| counted(cards, "card")))
}

/// The hybrid that the 2002 study proposes: software for short jobs, hardware for long ones.
fn crossover() -> Result<Outcome, LabError> {
    const AXES: [&str; 2] = ["threads", "bytes"];
    const BYTES: [u32; 9] = [16, 64, 128, 176, 256, 512, 1024, 4096, 16384];
    const JOBS: usize = 1000;
    let mut cells = Vec::new();
    let mut claims = Vec::new();
    for threads in [1, 4, 32] {
        for bytes in BYTES {
            let of =
                |engines: &[Timing]| rate(engines, threads, bytes, JOBS).map(|rate| megabits(rate, bytes));
            let [card, processor, both] = [of(&[CARD])?, of(&[PROCESSOR])?, of(&[CARD, PROCESSOR])?];
            let place = at(AXES.into_iter().zip([&*threads.to_string(), &*bytes.to_string()]));
            let cell = Cell { at: place, ..Cell::default() }
                .with("card", Value::exact(card))
                .with("processor", Value::exact(processor))
                .with("hybrid", Value::exact(both))
                .with("over_better", Value::exact(both / card.max(processor)));
            let statement = format!(
                "{threads} threads, {bytes} bytes: the hybrid is as fast as the better of both, within 5 % for what it learns by trying."
            );
            let bounds = (Some(0.95), None);
            let claim = Claim::bound((statement, "R9, R22"), "over_better", cell.at.clone(), bounds);
            claims.push(claim.by_construction());
            let cell = cell.with("gain", Value::exact(card / processor));
            // The fit had no processor of the card's time beside it.
            let judged = match bytes {
                64 => Some(("no faster than a processor of its time", (None, Some(1.0)))),
                16384 => Some((
                    "more than twice as fast as a processor of its time (“by more than 100 %”)",
                    (Some(2.0), None),
                )),
                _ => None,
            };
            claims.extend(judged.map(|(words, bounds)| {
                let statement =
                    format!("{}, {bytes} bytes: the card is {words}.", counted(threads, "thread"));
                Claim::bound((statement, "R9, figure 1; R14"), "gain", cell.at.clone(), bounds)
            }));
            cells.push(cell);
        }
    }
    let predicted = |id: &str, name: &str| Measure::gain(id, name, "Mb/s").predicted();
    let measures = vec![
        predicted("card", "card, Mb/s"),
        predicted("processor", "processor, Mb/s"),
        predicted("hybrid", "hybrid, Mb/s"),
        Measure::times("gain", "card over processor"),
        Measure::times("over_better", "hybrid over the better"),
    ];
    let title = "From software to hardware: where the hybrid changes";
    let experiment = Experiment::new("card-crossover", "R9, R22", title, &AXES, measures);
    let notes = [
        "The 2002 study found the card no faster for the 40-byte packets that are up to 40 % of a transfer's, and proposed software for \
         small packets and hardware for large ones. Card and processor (27 Mb/s of 3DES) are of their time and simulated.",
    ];
    let plot = Plot {
        measures: ["card", "processor", "hybrid"].map(str::to_owned).to_vec(),
        ..Plot::new(Drawn::Lines, "bytes", "card", &[])
    };
    let plot = plot.each("threads").titled("Throughput").logarithmic();
    let experiment = experiment.of(FIGURE_1).claiming(claims).notes(&notes).shown(View::Cells, vec![plot]);
    Ok(Outcome::new(experiment, cells).in_words(AXES[0], |threads| counted(threads, "thread")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Verdict, find};

    #[test]
    fn a_smoke_run_has_every_table() {
        let request = Request { profile: Profile::Smoke, seed: 5, ..Request::default() };
        let report = run(&request, &mut std::io::sink()).unwrap();
        let ids: Vec<&str> = report.outcomes.iter().map(|outcome| &*outcome.experiment.id).collect();
        assert_eq!(ids, ["card-curve", "card-crossover", "framework", "card-threads"]);
        for outcome in &report.outcomes {
            assert!(outcome.cells.iter().all(|cell| cell.failure.is_none()), "{:?}", outcome.cells);
            // The framework's own cost and a card's time by the clock have nothing to claim.
            let has_none = ["framework", "card-curve"].contains(&&*outcome.experiment.id);
            assert_eq!(outcome.claims.is_empty(), has_none);
            let open = outcome.claims.iter().filter(|claim| claim.estimate.is_none()).count();
            assert_eq!(open, 0, "{:?}", outcome.claims);
        }
    }

    /// Virtual time: these verdicts are the same everywhere.
    #[test]
    fn the_model_meets_table_1() {
        let outcome = threads(Profile::Smoke).unwrap();
        let own = |claim: &&crate::experiment::ClaimResult| claim.claim.source == "O2, table 1";
        assert_eq!(outcome.claims.iter().filter(own).count(), 30);
        for claim in outcome.claims.iter().filter(own) {
            assert_eq!(
                claim.verdict,
                Verdict::ByConstruction,
                "{}: {:?}",
                claim.claim.statement,
                claim.estimate
            );
        }
        let one = find(
            &outcome.cells,
            &at([("cards", "1"), ("threads", "32"), ("bytes", "16384"), ("source", THE_PAPER)]),
        );
        assert_eq!(one.and_then(|cell| cell.figure(MEGABITS)), Some(320.19));
    }

    /// A machine that is too slow for a card says so; one that holds its pace says nothing.
    #[test]
    fn a_pace_that_is_not_held_is_told() {
        let told = |rate: f64| {
            let place = [("engine", "simulated card"), ("algorithm", "3des-cbc"), ("bytes", "64")];
            let mut cell = Cell::new(place);
            cell.samples = vec![Sample::of([(MEGABITS, rate)], false); 5];
            give_pace(&mut cell, 100.0);
            missed_pace(&[cell])
        };
        assert_eq!(told(99.0), None);
        assert!(told(50.0).unwrap().contains("simulated card, 3des-cbc, 64 bytes: 0.50"));
    }

    /// Beside a processor of its time the card is judged, both ways, the same on every machine.
    #[test]
    fn the_papers_sentences_about_a_card_can_fail() {
        let outcome = crossover().unwrap();
        let judged = outcome.claims.iter().filter(|result| result.claim.metric == "gain");
        let verdicts: Vec<(&str, Verdict)> =
            judged.map(|result| (&*result.claim.statement, result.verdict)).collect();
        let found: Vec<Verdict> = verdicts.iter().map(|(_, verdict)| *verdict).collect();
        // Jobs of 64 and of 16,384 bytes, by 1, 4 and 32 threads: several keep the card busy with small ones too.
        let (holds, fails) = (Verdict::Holds, Verdict::DoesNotHold);
        assert_eq!(found, [holds, holds, fails, holds, fails, holds], "{verdicts:?}");
        let gain = |threads: &str, bytes: &str| {
            let place = at([("threads", threads), ("bytes", bytes)]);
            outcome.cell(&place).and_then(|cell| cell.figure("gain")).unwrap()
        };
        assert!(gain("1", "64") < 0.6 && gain("32", "16384") > 10.0);
    }
}

//! The multicore study again: threads and streams at four levels of protection, on this machine.
//!
//! Guarantees: both generations of suites, each end on its own; claims are those of the study, as shapes; what cannot be
//! run here is named with its reason.

mod counts;
mod emulated;
mod grid;
mod kernels;
mod link;
mod published;

use crate::LabError;
use crate::contest::{self, Rules};
use crate::experiment::{Cell, Experiment, Outcome, Profile, Repetition, check, run as run_cells};
use crate::machine::{Machine, utc_now};
use crate::peers::{self, Workload};
use crate::program::{End, Program};
use crate::report::{Check, Report, Tile, number};
use crate::rng::Rng;
use crate::runner::{DiscardRunner, Planned};
use crate::scratch::Scratch;
use crate::surroundings::Surroundings;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What `sealane lab transfer` may be asked.
#[derive(Clone, Debug)]
pub struct TransferOptions {
    /// Where programs, temporary files and trees lie.
    pub surroundings: Arc<Surroundings>,
    /// Program under test; the running one by default.
    pub program: Option<PathBuf>,
    /// How thorough.
    pub profile: Profile,
    /// Ends to measure.
    pub ends: Vec<End>,
    /// Parts of the study, of [`IDS`]; all if empty.
    pub only: Vec<String>,
    /// Beside the installed tools, where a part has room for them.
    pub peers: bool,
    /// Largest file, rounded down to a power of two; by default what the profile wishes and the room allows.
    pub file_bytes_max: Option<u64>,
    /// Seed of orders and contents; a fresh one by default.
    pub seed: Option<u64>,
    /// Where workloads are put; shared memory by default.
    pub work_directory: Option<PathBuf>,
}

impl Default for TransferOptions {
    fn default() -> Self {
        Self {
            surroundings: Arc::default(),
            program: None,
            profile: Profile::Quick,
            ends: End::ALL.to_vec(),
            only: Vec::new(),
            peers: true,
            file_bytes_max: None,
            seed: None,
            work_directory: None,
        }
    }
}

/// Parts of the study: threads and streams at four levels (G10 to G13), many of them (G16), a link of 1 Gb/s (G18), links
/// with delay and loss (`links`), own kernels beside others (`providers`), one file beside other tools (R15).
pub const IDS: [&str; 9] = ["G10", "G11", "G12", "G13", "G16", "G18", "links", "providers", "R15"];

impl TransferOptions {
    fn wants(&self, ids: &[&str]) -> bool {
        let is_wanted = |id: &&str| self.only.iter().any(|only| only.eq_ignore_ascii_case(id));
        self.only.is_empty() || ids.iter().any(is_wanted)
    }
}

/// Name of the report's files.
pub const REPORT_NAME: &str = "sealane-transfer";

/// An experiment ready to run.
#[derive(Default)]
struct Plan {
    experiment: Experiment,
    cells: Vec<Planned>,
    /// Figures printed elsewhere, to stand beside ours.
    published: Vec<Cell>,
    skipped: Vec<String>,
    /// Claims that a reader should take home, by their places.
    headlines: Vec<usize>,
}

/// What a lab that stands behind an emulated link does: one file by the product and by other tools.
///
/// # Errors
/// As [`run`].
pub fn run_behind_link(options: &TransferOptions, progress: &mut dyn Write) -> Result<Report, LabError> {
    let seed = options.seed.unwrap_or_else(Rng::fresh_seed);
    emulated::behind(options, seed, &program_of(options)?, progress)
}

fn program_of(options: &TransferOptions) -> Result<Program, LabError> {
    match &options.program {
        Some(path) => Ok(Program::new(path)),
        None => Program::current(),
    }
}

/// Runs the study, and tells `progress` how far it is.
pub fn run(options: &TransferOptions, progress: &mut dyn Write) -> Result<Report, LabError> {
    let started = Instant::now();
    let machine = Machine::describe();
    let program = program_of(options)?;
    let seed = options.seed.unwrap_or_else(Rng::fresh_seed);
    let bytes_max = workload_bytes_max(options);
    // Six groups of cells may each need a file of their own, and the pilot one more.
    let scratch = Scratch::create(&options.surroundings, options.work_directory.as_deref(), bytes_max * 7)?;
    writeln!(
        progress,
        "Threads and streams at four levels; seed {seed:#x}, {} profile.",
        options.profile.name()
    )?;

    let repetition = options.profile.repetition();
    let mut outcomes = Vec::new();
    let mut headlines = Vec::new();
    let mut skipped = Vec::new();
    let mut checks = Vec::new();
    let mut lab = Lab { program: &program, scratch: &scratch, options, seed, bytes_max, progress };
    if options.wants(&IDS[..4]) {
        let plan = grid::plan(&options.ends, machine.cores, repetition);
        let claims = plan.headlines.clone();
        let outcome = lab.run(plan, None)?;
        headlines = tiles(&outcome, &claims);
        outcomes.push(outcome);
    }
    if options.wants(&["G16"]) {
        outcomes.push(lab.run(counts::plan(machine.cores, repetition), None)?);
    }
    if options.wants(&["providers"]) {
        outcomes.push(lab.run(kernels::plan(repetition), None)?);
    }
    if options.wants(&["G18"]) {
        match link::shaped_program(&program) {
            Ok(shaped) => outcomes.push(lab.run(link::plan(repetition), Some(&shaped))?),
            Err(reason) => skipped.push(format!("through a link of 1 Gb/s: {reason}")),
        }
    }
    if options.wants(&["links"]) {
        match emulated::outcome(options, seed, lab.progress)? {
            Ok(outcome) => outcomes.push(outcome),
            Err(reason) => skipped.push(format!("through emulated links: {reason}")),
        }
    }
    if options.peers && options.wants(&["R15"]) {
        let (outcome, mut compared) = lab.beside_peers(bytes_max * 2)?;
        outcomes.push(outcome);
        checks.append(&mut compared);
    }
    Ok(Report {
        seconds: started.elapsed().as_secs_f64(),
        profile: Some(options.profile),
        tiles: headlines,
        checks,
        method: method(&scratch, &machine),
        limits: limits(&machine),
        skipped,
        sources: vec![published::SOURCE.to_owned()],
        ..Report::new(
            "sealane lab transfer",
            "Threads and streams at four levels of protection",
            "The multicore GridFTP study, run again on this machine: one and two streams on one lane and on two, with \
             the ciphers of its day and with today's.",
            outcomes,
        )
    })
}

/// What all experiments of a run share.
struct Lab<'a> {
    program: &'a Program,
    scratch: &'a Scratch,
    options: &'a TransferOptions,
    seed: u64,
    bytes_max: u64,
    progress: &'a mut dyn Write,
}

impl Lab<'_> {
    /// Runs a plan, with another program (a prefix before it) if given.
    fn run(&mut self, plan: Plan, through: Option<&Program>) -> Result<Outcome, LabError> {
        let Plan { mut experiment, cells, published, skipped, .. } = plan;
        let began = Instant::now();
        let started = utc_now();
        writeln!(self.progress, "{}", experiment.title)?;
        let mut runner = DiscardRunner {
            program: through.unwrap_or(self.program),
            scratch: self.scratch,
            cells: &cells,
            sizes: BTreeMap::new(),
            run_seconds: self.options.profile.run_seconds(),
            progress: self.progress,
            label: &experiment.id,
        };
        runner.fit_sizes(seconds_a_run(self.options.profile), self.bytes_max)?;
        let workload = runner.workload();
        let places: Vec<_> = cells.iter().map(|cell| cell.at.clone()).collect();
        let mut measured = run_cells(&places, experiment.repetition, self.seed, &mut runner)?;
        measured.extend(published);
        experiment.workload = workload;
        let claims = experiment.claims.iter().map(|claim| check(claim, &measured)).collect();
        let seconds = began.elapsed().as_secs_f64();
        Ok(Outcome { experiment, seed: self.seed, started, seconds, cells: measured, claims, skipped })
    }
}

impl Lab<'_> {
    /// One file of `file_bytes` into a file, the product's four levels and the installed tools taking turns.
    fn beside_peers(&mut self, file_bytes: u64) -> Result<(Outcome, Vec<Check>), LabError> {
        const NAME: &str = "file";
        let file = self.scratch.random_file(NAME, file_bytes, self.seed)?;
        let workload = Workload::new(&file, &self.scratch.path().join("target"))?;
        let size = number::bytes(file_bytes);
        let rules = Rules {
            id: "file",
            title: &format!("One file of {size}, beside other tools"),
            own: contest::four_levels(false),
            words: &format!("{size} of random bytes, new in each round, into a new file."),
            workload: &workload,
            renew: Some(NAME),
            repetition: Repetition { warm_up_rounds: 0, ..self.options.profile.repetition() },
            seed: self.seed,
            deadline: Instant::now() + Duration::from_secs(86_400),
            is_short: false,
            with_claims: true,
        };
        let result = contest::hold(
            &rules,
            self.program,
            self.scratch,
            &mut peers::all(&self.options.surroundings),
            self.progress,
        )?;
        crate::scratch::remove(&file)?;
        Ok(result)
    }
}

/// How long a run of a cell with one lane should take.
fn seconds_a_run(profile: Profile) -> f64 {
    match profile {
        Profile::Quick => 0.3,
        Profile::Full => 1.5,
        // Copies follow one another until the run is over.
        Profile::Paper => 5.0,
    }
}

/// The largest file, bounded by the profile and by the room there is.
fn workload_bytes_max(options: &TransferOptions) -> u64 {
    let of_profile: u64 = match options.profile {
        Profile::Quick => 512 << 20,
        Profile::Full => 2 << 30,
        Profile::Paper => 8 << 30,
    };
    let wished = options.file_bytes_max.unwrap_or(of_profile).max(1);
    let room = Scratch::room_bytes(&options.surroundings, options.work_directory.as_deref(), wished * 7);
    // Without room for that, making the scratch directory will say so.
    let share = (room / 7).min(wished).max(wished.min(16 << 20));
    1 << share.ilog2()
}

/// The headline: what a second lane and stream give, where it matters.
fn tiles(outcome: &Outcome, headlines: &[usize]) -> Vec<Tile> {
    headlines
        .iter()
        .filter_map(|&at| {
            let result = outcome.claims.get(at)?;
            let interval = result.interval?;
            Some(Tile {
                label: result.claim.statement.split(':').next().unwrap_or_default().to_owned(),
                value: number::ratio(result.estimate?),
                unit: "×".to_owned(),
                detail: format!(
                    "{} to {}; two lanes and streams against one",
                    number::ratio(interval.low),
                    number::ratio(interval.high)
                ),
            })
        })
        .take(4)
        .collect()
}

fn method(scratch: &Scratch, machine: &Machine) -> Vec<String> {
    let place = if scratch.is_memory() { "memory (tmpfs)" } else { "a directory on disk" };
    let control = machine.congestion_control.as_deref().unwrap_or("unknown");
    vec![
        "The program under test is the one that ships, run as a child process for every sample. Where threads and streams are varied, seconds are the program's own: with both ends measured from its start, with one end measured from the first byte of data. Beside other tools, the clock covers each program from start to end.".to_owned(),
        "Both ends run on this machine and talk over real TCP on loopback. “Sender measured”: the receiver only reads and discards. “Receiver measured”: the sender sends records it sealed before. “Both ends”: as a user would have it. CPU seconds are those of the measured ends.".to_owned(),
        format!("The file lies in {place}; it is written anew with random bytes before each round. Memory is touched and freed before each run, because a host may take freed pages back and charge their first touch to the run."),
        format!("TCP congestion control is {control}, as found."),
        "A run beside which others used, or the hypervisor took, more than 0.35 of a core is repeated up to twice; all samples are kept. Outliers are named and never dropped.".to_owned(),
        "Intervals are 90 %: bootstrap for medians and their ratios, Student's t for means. A claim holds, or does not, only if its whole interval says so.".to_owned(),
    ]
}

fn limits(machine: &Machine) -> Vec<String> {
    let mut limits = vec![
        "Loopback has no delay, no loss and no network card; only the part through emulated links has the first two.".to_owned(),
        "Where the receiver discards, no file system is part of the figures.".to_owned(),
    ];
    if machine.cores <= 2 {
        limits.push(format!(
            "Both ends share {} CPUs. With both ends measured, one stream already fills them, so only the measured-end figures can show scaling.",
            machine.cores
        ));
    }
    if machine.is_virtual {
        limits.push("A virtual machine: the CPUs may be shared with others; stolen time is recorded with each sample.".to_owned());
    }
    limits
}

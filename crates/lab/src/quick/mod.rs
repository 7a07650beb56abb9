//! The first command a new user runs: what protection costs on this machine, in under two minutes, without root and
//! without a second host.
//!
//! Guarantees: every copy of the product is compared byte for byte with its source at least once per level; what is not
//! installed is named; nothing is left behind but the report.

mod resume;
mod tree;

use crate::LabError;
use crate::contest::{self, OWN, Rules};
use crate::experiment::{CPU_PER_GIB, Outcome, Profile, RATE, Repetition, at};
use crate::machine::Machine;
use crate::peers::{self, Kind, OWN_OVER_SSH, Peer, Workload};
use crate::program::{Level, Program};
use crate::report::{Check, Report, Tile, number};
use crate::rng::Rng;
use crate::scratch::Scratch;
use crate::stats::{Centre, Summary};
use crate::surroundings::Surroundings;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What `sealane lab quick` may be asked.
#[derive(Clone, Debug)]
pub struct QuickOptions {
    /// Where programs, temporary files and trees lie.
    pub surroundings: Arc<Surroundings>,
    /// Program under test; the running one by default.
    pub program: Option<PathBuf>,
    /// Size of the one file; less where there is no room.
    pub file_bytes: u64,
    /// Tree to take a sample of; the first of the usual places by default.
    pub tree: Option<PathBuf>,
    /// Size of the sample.
    pub tree_bytes_max: u64,
    /// Compare with installed tools.
    pub peers: bool,
    /// After this long no further run is started.
    pub limit: Duration,
    /// Seed of orders and contents; a fresh one by default.
    pub seed: Option<u64>,
    /// Where workloads are put; shared memory by default.
    pub work_directory: Option<PathBuf>,
}

impl Default for QuickOptions {
    fn default() -> Self {
        Self {
            surroundings: Arc::default(),
            program: None,
            file_bytes: 1 << 30,
            tree: None,
            tree_bytes_max: 200_000_000,
            peers: true,
            limit: Duration::from_secs(100),
            seed: None,
            work_directory: None,
        }
    }
}

/// Name of the report's files.
pub const REPORT_NAME: &str = "sealane-report";

const FILE_NAME: &str = "file";
const TREE_NAME: &str = "tree";
const TARGET_NAME: &str = "target";

/// The rule here: three rounds show the spread, and say themselves that they are too few for an interval.
const REPETITION: Repetition =
    Repetition { warm_up_rounds: 0, rounds: 3, retries_per_round: 0, centre: Centre::Median };

/// Runs everything, and tells `progress` how far it is.
pub fn run(options: &QuickOptions, progress: &mut dyn Write) -> Result<Report, LabError> {
    let started = Instant::now();
    let program = match &options.program {
        Some(path) => Program::new(path),
        None => Program::current()?,
    };
    let seed = options.seed.unwrap_or_else(Rng::fresh_seed);
    let (file_bytes, tree_bytes_max) = sizes(options);
    let scratch = Scratch::create(
        &options.surroundings,
        options.work_directory.as_deref(),
        needed_bytes(file_bytes, tree_bytes_max),
    )?;
    let mut skipped = Vec::new();
    if file_bytes < options.file_bytes {
        skipped.push(format!(
            "a file of {}: there is room for {} only",
            number::bytes(options.file_bytes),
            number::bytes(file_bytes)
        ));
    }
    // The file has the first part of the time, the tree the rest.
    let file_deadline = started + options.limit.mul_f64(0.6);
    let tree_deadline = started + options.limit;
    let mut quick =
        Quick { program: &program, scratch: &scratch, seed, checks: Vec::new(), skipped, progress };
    let mut peers = if options.peers { peers::all(&options.surroundings) } else { Vec::new() };
    if options.peers {
        // What logs in first is compared with what does so too.
        peers.push(peers::own_over_ssh(&options.surroundings, &program.path));
    }

    quick.say("Taking a real tree and making a random file ...")?;
    let tree = quick.take_tree(options, tree_bytes_max)?;
    let tree_workload = quick.workload(&scratch.path().join(TREE_NAME))?;
    let file = scratch.random_file(FILE_NAME, file_bytes, seed)?;
    let file_workload = quick.workload(&file)?;

    quick.say("Killing a copy midway and running it again ...")?;
    let resumed = quick.resume(&file_workload)?;

    let title = format!("One file of {}", number::bytes(file_bytes));
    let workload = format!("{} of random bytes, new in each round.", number::bytes(file_bytes));
    let file_outcome = quick.contest("file", &title, &workload, &file_workload, &mut peers, file_deadline)?;

    let title =
        format!("A tree of {} files, {}", number::quantity(tree.files as f64), number::bytes(tree.bytes));
    let workload = format!("A sample of {}, copied to memory first.", tree.origin.display());
    let tree_outcome = quick.contest("tree", &title, &workload, &tree_workload, &mut peers, tree_deadline)?;
    drop(peers);

    let Quick { checks, skipped, .. } = quick;
    let machine = Machine::describe();
    let summary = format!(
        "One file and one tree, copied to a second process at four levels of protection, beside the tools installed here. {}",
        sentence(&file_outcome)
    );
    Ok(Report {
        seconds: started.elapsed().as_secs_f64(),
        profile: Some(Profile::Quick),
        tiles: tiles(&file_outcome, &tree_outcome, resumed.as_ref(), file_bytes),
        checks,
        method: method(&scratch, &machine),
        limits: limits(&machine),
        skipped,
        ..Report::new(
            "sealane lab quick",
            "What protection costs on this machine",
            &summary,
            vec![file_outcome, tree_outcome],
        )
    })
}

/// Source and copy of the file, the same of the tree, and the blocks of many small files.
fn needed_bytes(file_bytes: u64, tree_bytes: u64) -> u64 {
    file_bytes * 2 + tree_bytes * 3
}

/// File and tree sizes, halved until they fit.
fn sizes(options: &QuickOptions) -> (u64, u64) {
    let (mut file, mut tree) = (options.file_bytes, options.tree_bytes_max);
    let room = Scratch::room_bytes(
        &options.surroundings,
        options.work_directory.as_deref(),
        needed_bytes(file, tree),
    );
    while needed_bytes(file, tree) > room && file > 16 << 20 {
        file /= 2;
        tree /= 2;
    }
    (file, tree)
}

/// What the steps share.
struct Quick<'a> {
    program: &'a Program,
    scratch: &'a Scratch,
    seed: u64,
    checks: Vec<Check>,
    skipped: Vec<String>,
    progress: &'a mut dyn Write,
}

impl Quick<'_> {
    fn say(&mut self, line: &str) -> Result<(), LabError> {
        writeln!(self.progress, "{line}")?;
        Ok(self.progress.flush()?)
    }

    fn workload(&self, source: &Path) -> Result<Workload, LabError> {
        Workload::new(source, &self.scratch.path().join(TARGET_NAME))
    }

    fn take_tree(&mut self, options: &QuickOptions, bytes_max: u64) -> Result<tree::TreeSample, LabError> {
        let target = self.scratch.path().join(TREE_NAME);
        let candidates = options.tree.as_ref().map_or(&*options.surroundings.trees, std::slice::from_ref);
        for candidate in candidates {
            crate::scratch::remove(&target)?;
            let sample = tree::take(candidate, &target, bytes_max)?;
            if sample.files >= 100 || options.tree.is_some() && sample.files > 0 {
                if sample.left_out > 0 {
                    self.skipped.push(format!(
                        "{} entries of {}: links, devices, pipes, or unreadable files; tools treat them differently",
                        sample.left_out,
                        candidate.display()
                    ));
                }
                return Ok(sample);
            }
        }
        crate::scratch::remove(&target)?;
        self.skipped.push("a real tree: none was found, so one was generated".to_owned());
        tree::generate(&target, bytes_max, self.seed)
    }

    fn resume(&mut self, workload: &Workload) -> Result<Option<resume::Resumed>, LabError> {
        workload.clear_target()?;
        let resumed =
            resume::kill_and_resume(self.program, workload.source(), workload.target(), workload.bytes());
        let resumed = match resumed {
            Ok(resumed) => resumed,
            Err(error) => {
                let what = "killed midway (SIGKILL), then run again".to_owned();
                self.checks.push(Check { what, found: error.to_string(), is_good: false });
                return Ok(None);
            }
        };
        self.say(&format!("  {}", resumed.check.found))?;
        self.checks.push(resumed.check.clone());
        Ok(Some(resumed))
    }

    /// The four levels and every peer that carries the workload, taking turns until the time is up.
    fn contest(
        &mut self,
        id: &str,
        title: &str,
        words: &str,
        workload: &Workload,
        peers: &mut [Box<dyn Peer>],
        deadline: Instant,
    ) -> Result<Outcome, LabError> {
        let rules = Rules {
            id,
            title,
            own: contest::four_levels(workload.kind() == Kind::Tree),
            words,
            workload,
            renew: (workload.kind() == Kind::File).then_some(FILE_NAME),
            repetition: REPETITION,
            seed: self.seed,
            deadline,
            is_short: true,
            with_claims: false,
        };
        let (outcome, mut checks) = contest::hold(&rules, self.program, self.scratch, peers, self.progress)?;
        self.checks.append(&mut checks);
        Ok(outcome)
    }
}

fn own(outcome: &Outcome, level: Level, metric: &str) -> Option<Summary> {
    outcome.cell(&at([("level", level.name()), ("tool", OWN)]))?.summary(metric)
}

/// The reservation that a headline states where other work disturbed every run of ours at one of these levels.
fn doubt(outcome: &Outcome, levels: &[Level]) -> &'static str {
    let all_disturbed = |level: &&Level| {
        let cell = outcome.cell(&at([("level", level.name()), ("tool", OWN)]));
        cell.is_some_and(|cell| {
            !cell.samples.is_empty() && cell.samples.iter().all(|sample| sample.is_disturbed)
        })
    };
    let is_doubtful = levels.iter().any(|level| all_disturbed(&level));
    if is_doubtful { "; other work disturbed every run: measure again when nothing else runs" } else { "" }
}

/// The fastest other program at `level` by its median rate, among those that log in by ssh or those that do not.
fn best_peer(outcome: &Outcome, level: Level, over_ssh: bool) -> Option<(String, f64)> {
    let is_own = |name: &str| name == OWN || name == OWN_OVER_SSH;
    let peers = outcome.cells.iter().filter(|cell| {
        let tool = &*cell.at["tool"];
        cell.at["level"] == level.name() && !is_own(tool) && peers::is_over_ssh(tool) == over_ssh
    });
    peers
        .filter_map(|cell| Some((cell.at["tool"].clone(), cell.summary(RATE)?.median)))
        .max_by(|left, right| left.1.total_cmp(&right.1))
}

fn sentence(file: &Outcome) -> String {
    let private = own(file, Level::Private, CPU_PER_GIB);
    let clear = own(file, Level::Clear, CPU_PER_GIB);
    let doubt = doubt(file, &[Level::Private, Level::Clear]);
    match (private, clear) {
        (Some(private), Some(clear)) if private.median > clear.median => format!(
            "Full encryption adds {} CPU seconds per GiB to {}, at both ends together{doubt}.",
            number::quantity(private.median - clear.median),
            number::quantity(clear.median)
        ),
        (Some(private), Some(clear)) => format!(
            "Full encryption takes {} CPU seconds per GiB at both ends together, no more than the {} measured without: \
             what it adds is lost in this run's noise{doubt}.",
            number::quantity(private.median),
            number::quantity(clear.median)
        ),
        _ => String::new(),
    }
}

fn tiles(file: &Outcome, tree: &Outcome, resumed: Option<&resume::Resumed>, file_bytes: u64) -> Vec<Tile> {
    let mut tiles = Vec::new();
    let mut tile = |label: &str, value: String, unit: &str, detail: String| {
        tiles.push(Tile { label: label.to_owned(), value, unit: unit.to_owned(), detail });
    };
    // Each beside those that do as much: a login by ssh takes longer than some trees.
    let against = |outcome: &Outcome, level: Level, rate: f64| {
        let mut words = Vec::new();
        if let Some((name, best)) = best_peer(outcome, level, false) {
            words.push(format!("{} × {name}, the fastest without ssh here", number::ratio(rate / best)));
        }
        let place = at([("level", level.name()), ("tool", OWN_OVER_SSH)]);
        let ours = outcome.cell(&place).and_then(|cell| cell.summary(RATE));
        if let (Some(ours), Some((name, best))) = (ours, best_peer(outcome, level, true)) {
            words.push(format!(
                "over ssh {} MB/s, {} × {name}, the fastest there",
                number::quantity(ours.median),
                number::ratio(ours.median / best)
            ));
        }
        match words.is_empty() {
            true => "no other program at this level here".to_owned(),
            false => words.join("; "),
        }
    };
    if let Some(rate) = own(file, Level::Private, RATE) {
        let detail = against(file, Level::Private, rate.median) + doubt(file, &[Level::Private]);
        tile("One file, private", number::quantity(rate.median), "MB/s", detail);
    }
    if let Some(cpu) = own(file, Level::Private, CPU_PER_GIB) {
        let clear = own(file, Level::Clear, CPU_PER_GIB).map_or(f64::NAN, |clear| clear.median);
        let doubt = doubt(file, &[Level::Private, Level::Clear]);
        let detail = format!("clear: {}; both ends together{doubt}", number::quantity(clear));
        tile("Cost, private", number::quantity(cpu.median), "CPU s/GiB", detail);
    }
    if let Some(rate) = own(tree, Level::Private, RATE) {
        let detail = against(tree, Level::Private, rate.median) + doubt(tree, &[Level::Private]);
        tile("The tree, private", number::quantity(rate.median), "MB/s", detail);
    }
    if let Some(kept) = resumed.and_then(|resumed| resumed.kept_bytes) {
        let share = kept as f64 / file_bytes as f64 * 100.0;
        let detail = match resumed.and_then(|resumed| resumed.resent_bytes) {
            Some(resent) => {
                format!("after SIGKILL midway; {} of what had moved sent again", number::bytes(resent))
            }
            None => "after SIGKILL midway".to_owned(),
        };
        tile("Kept after a kill", number::quantity(share), "%", detail);
    }
    tiles
}

fn method(scratch: &Scratch, machine: &Machine) -> Vec<String> {
    let place = if scratch.is_memory() { "memory (tmpfs)" } else { "a directory on disk" };
    vec![
        "The product runs as it ships: a child process that starts the far end, another process, and talks to it over real TCP on loopback. The clock covers it from start to end.".to_owned(),
        format!("Sources and copies lie in {place}. The target directory is emptied, and memory touched and freed, before each run."),
        "Contestants take turns, each once a round in a new random order, so that slow changes of the machine affect all alike.".to_owned(),
        format!("The times of scp, sftp, rsync, rclone and tar include an ssh login; so does that of \"{OWN_OVER_SSH}\", which is the one to compare with them."),
        "CPU seconds are those of all processes of a copy at both ends; time stolen by a hypervisor is not among them.".to_owned(),
        format!("TCP congestion control is {}, as found.", machine.congestion_control.as_deref().unwrap_or("unknown")),
        format!("{} rounds: ranges are minimum to maximum, because three samples cannot give a 90 % interval of a median. `sealane lab transfer --profile full` takes ten.", REPETITION.rounds),
    ]
}

fn limits(machine: &Machine) -> Vec<String> {
    let mut limits = vec![
        "Loopback has no delay, no loss and no network card; no disk is involved where memory was used."
            .to_owned(),
    ];
    if machine.cores <= 2 {
        limits.push(format!(
            "Both ends share {} CPUs, so one stream already fills them. Figures for one end, and what a second stream brings, are in `sealane lab transfer`.",
            machine.cores
        ));
    }
    if machine.is_virtual {
        limits.push(
            "A virtual machine: wall time may vary by a fifth between runs; CPU seconds are steadier."
                .to_owned(),
        );
    }
    limits
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::{Cell, Experiment, Sample};

    /// A reader of the headline alone must know that nothing stands behind it but a busy machine.
    #[test]
    fn a_headline_of_disturbed_runs_says_so() {
        let outcome = |disturbed: [bool; 2]| {
            let samples = disturbed.iter().enumerate().map(|(round, &is_disturbed)| Sample {
                is_disturbed,
                ..Sample::slice(CPU_PER_GIB, 0.5, round)
            });
            let cell = |level: Level| Cell {
                samples: samples.clone().collect(),
                ..Cell::new([("level", level.name()), ("tool", OWN)])
            };
            let cells = vec![cell(Level::Private), cell(Level::Clear)];
            Outcome::new(Experiment::new("file", "", "", &["level", "tool"], Vec::new()), cells)
        };
        assert!(sentence(&outcome([true, true])).contains("disturbed every run"));
        assert!(!sentence(&outcome([true, false])).contains("disturbed"));
        let tiles = tiles(&outcome([true, true]), &outcome([false, false]), None, 1);
        assert!(tiles.iter().all(|tile| tile.detail.contains("disturbed every run")), "{tiles:?}");
    }
}

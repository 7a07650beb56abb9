//! The product's levels and the installed peers on the same bytes, taking turns.
//!
//! Guarantees: each contestant's first copy is compared byte for byte, after the clock has stopped; when the time is up,
//! contestants that have had a turn keep what they have.

use crate::LabError;
use crate::experiment::{
    Axis, CPU_PER_GIB, Claim, Coordinates, Copied, Experiment, Outcome, RATE, Repetition, Runner, Sample,
    View, at, check, run as run_cells,
};
use crate::machine::utc_now;
use crate::peers::{Kind, Peer, PeerRun, Workload};
use crate::program::{CopyRequest, Level, Program};
use crate::report::Check;
use crate::report::number::bytes;
use crate::runner::{measure, rate_words};
use crate::scratch::Scratch;
use std::collections::BTreeSet;
use std::io::Write;
use std::time::{Duration, Instant};

/// The product's name in tables.
pub(crate) const OWN: &str = "sealane cp";

/// Who copies.
enum Contestant {
    /// The product, as asked.
    Own(CopyRequest),
    /// A peer, by its place.
    Peer(usize),
}

/// What is to be copied, how often, and what it is called in the report.
pub(crate) struct Rules<'a> {
    pub(crate) id: &'a str,
    pub(crate) title: &'a str,
    /// The product, as it is asked, each with its place.
    pub(crate) own: Vec<(Coordinates, CopyRequest)>,
    /// The workload in words.
    pub(crate) words: &'a str,
    pub(crate) workload: &'a Workload,
    /// The file in the scratch directory to fill anew before each round, if the workload is one.
    pub(crate) renew: Option<&'a str>,
    pub(crate) repetition: Repetition,
    pub(crate) seed: u64,
    /// No peer starts later, nor one whose last run says that it would end later. The product has its first turn in any
    /// case.
    pub(crate) deadline: Instant,
    /// Whether peers that start a program for each file are left out of a tree: one run of them may take minutes.
    pub(crate) is_short: bool,
    /// Whether being no slower and no dearer than each peer is at stake.
    pub(crate) with_claims: bool,
}

/// Runs contestants on one workload.
struct Contest<'a> {
    program: &'a Program,
    scratch: &'a Scratch,
    rules: &'a Rules<'a>,
    workload: &'a Workload,
    contestants: Vec<Contestant>,
    places: Vec<Coordinates>,
    peers: &'a mut [Box<dyn Peer>],
    /// How long each contestant's last turn took.
    last_turn: Vec<Duration>,
    /// What was compared with what result.
    checks: Vec<Check>,
    compared: BTreeSet<usize>,
    progress: &'a mut dyn Write,
}

/// Lets the four levels and every peer that carries the workload take turns. Gives the outcome and what was compared.
pub(crate) fn hold(
    rules: &Rules<'_>,
    program: &Program,
    scratch: &Scratch,
    peers: &mut [Box<dyn Peer>],
    progress: &mut dyn Write,
) -> Result<(Outcome, Vec<Check>), LabError> {
    writeln!(progress, "{}: {OWN} and installed tools, taking turns ...", rules.title)?;
    let (began, started) = (Instant::now(), utc_now());
    let mut cells: Vec<_> =
        rules.own.iter().cloned().map(|(place, request)| (place, Contestant::Own(request))).collect();
    let mut skipped = Vec::new();
    let mut tools: Vec<String> = Vec::new();
    for (place, _) in &cells {
        if !tools.contains(&place["tool"]) {
            tools.push(place["tool"].clone());
        }
    }
    for (index, peer) in peers.iter_mut().enumerate() {
        if !peer.carries(rules.workload.kind()) {
            continue;
        }
        if rules.is_short && rules.workload.kind() == Kind::Tree && peer.name().starts_with("rclone") {
            skipped.push(format!(
                "{}: takes minutes for a tree; `sealane lab transfer` has the time",
                peer.name()
            ));
            continue;
        }
        match peer.probe() {
            Ok(_) => {
                tools.push(peer.name().to_owned());
                let place = at([("level", peer.level().name()), ("tool", peer.name())]);
                cells.push((place, Contestant::Peer(index)));
            }
            Err(absent) => skipped.push(format!("{}: {}", peer.name(), absent.reason)),
        }
    }
    let claims = if rules.with_claims { claims(peers, &cells) } else { Vec::new() };
    let (places, contestants): (Vec<Coordinates>, Vec<Contestant>) = cells.into_iter().unzip();
    let mut contest = Contest {
        program,
        scratch,
        rules,
        workload: rules.workload,
        contestants,
        last_turn: vec![Duration::ZERO; places.len()],
        places: places.clone(),
        peers,
        checks: Vec::new(),
        compared: BTreeSet::new(),
        progress,
    };
    let cells = run_cells(&places, rules.repetition, rules.seed, &mut contest)?;
    rules.workload.clear_target()?;
    for cell in cells.iter().filter(|cell| cell.samples.is_empty()) {
        let reason = cell.failure.as_deref().unwrap_or("not run");
        skipped.push(format!("{} ({}): {reason}", cell.at["tool"], cell.at["level"]));
    }
    let checks = contest.checks;
    let outcome = Outcome {
        seed: rules.seed,
        started,
        seconds: began.elapsed().as_secs_f64(),
        claims: claims.iter().map(|claim| check(claim, &cells)).collect(),
        experiment: experiment(rules, tools, claims),
        cells,
        skipped,
    };
    Ok((outcome, checks))
}

fn experiment(rules: &Rules<'_>, tools: Vec<String>, claims: Vec<Claim>) -> Experiment {
    Experiment {
        id: rules.id.to_owned(),
        covers: "R15".to_owned(),
        title: rules.title.to_owned(),
        method: vec![
            "Servers of peers are started before the clock; the product starts its far end within it.".to_owned(),
            "Each copy goes into an empty directory; the first of each contestant is compared byte for byte, after the clock has stopped.".to_owned(),
        ],
        axes: vec![Axis::new("level", Level::ALL.map(Level::name)), Axis::new("tool", tools)],
        workload: rules.words.to_owned(),
        repetition: rules.repetition,
        claims,
        view: View::Bars { groups: "level".to_owned(), names: "tool".to_owned(), own: OWN.to_owned() },
        ..Experiment::default()
    }
}

/// Against every peer that really moves files over a connection.
fn claims(peers: &[Box<dyn Peer>], cells: &[(Coordinates, Contestant)]) -> Vec<Claim> {
    let mut claims = Vec::new();
    for (place, contestant) in cells {
        let Contestant::Peer(index) = contestant else { continue };
        let peer = &peers[*index];
        if !peer.leaves_a_copy() || peer.name() == "cp" {
            continue;
        }
        let mut own_place = place.clone();
        own_place.insert("tool".to_owned(), OWN.to_owned());
        for (statement, metric, low, high) in [
            ("is not slower than", RATE, Some(1.0), None),
            ("needs no more CPU per byte than", CPU_PER_GIB, None, Some(1.0)),
        ] {
            let statement = format!("{OWN} {statement} {} ({})", peer.name(), peer.level().name());
            let places = (own_place.clone(), place.clone());
            claims.push(Claim::ratio((statement, "target"), metric, places, (low, high)));
        }
    }
    claims
}

/// The product at its four levels.
pub(crate) fn four_levels(recursive: bool) -> Vec<(Coordinates, CopyRequest)> {
    let asked = |level: Level| {
        let request =
            CopyRequest { level: Some(level), recursive, resume: Some(false), ..CopyRequest::default() };
        (at([("level", level.name()), ("tool", OWN)]), request)
    };
    Level::ALL.into_iter().map(asked).collect()
}

impl Contest<'_> {
    fn name(&self, cell: usize) -> String {
        let place = &self.places[cell];
        match &self.contestants[cell] {
            Contestant::Own(_) => format!("{} --level {}", place["tool"], place["level"]),
            Contestant::Peer(_) => format!("{} ({})", place["tool"], place["level"]),
        }
    }

    /// Compares the copy once for each contestant; the product's result is a check of the report.
    fn compare_once(&mut self, cell: usize) -> Result<(), LabError> {
        let leaves_a_copy = match &self.contestants[cell] {
            Contestant::Own(_) => true,
            Contestant::Peer(index) => self.peers[*index].leaves_a_copy(),
        };
        if !leaves_a_copy || !self.compared.insert(cell) {
            return Ok(());
        }
        let result = self.workload.verify();
        if matches!(self.contestants[cell], Contestant::Own(_)) {
            let files = if self.workload.files() == 1 { "file" } else { "files" };
            let found = match &result {
                Ok(()) => {
                    format!(
                        "{} {files}, {} equal byte for byte",
                        self.workload.files(),
                        bytes(self.workload.bytes())
                    )
                }
                Err(error) => error.to_string(),
            };
            self.checks.push(Check { what: self.name(cell), found, is_good: result.is_ok() });
        }
        result
    }
}

impl Runner for Contest<'_> {
    fn prepare(&mut self, content_seed: u64) -> Result<(), LabError> {
        if let Some(name) = self.rules.renew {
            self.scratch.random_file(name, self.workload.bytes(), content_seed)?;
        }
        Ok(())
    }

    fn sample(&mut self, cell: usize) -> Result<Sample, LabError> {
        let began = Instant::now();
        let is_first_own =
            matches!(self.contestants[cell], Contestant::Own(_)) && !self.compared.contains(&cell);
        if began + self.last_turn[cell] > self.rules.deadline && !is_first_own {
            return Err(LabError::Unavailable("no time left".to_owned()));
        }
        self.workload.clear_target()?;
        let warm_bytes = self.workload.bytes() / 4 * 5;
        let result = match &self.contestants[cell] {
            Contestant::Own(request) => {
                let source = [self.workload.source().to_owned()];
                measure(
                    self.program,
                    request,
                    &source,
                    self.workload.target(),
                    Some(self.workload.bytes()),
                    warm_bytes,
                )
                .map(|(copied, tier, is_disturbed)| Sample {
                    tier,
                    is_disturbed,
                    ..Sample::copied(copied)
                })
            }
            Contestant::Peer(index) => {
                crate::load::warm_memory(warm_bytes);
                self.peers[*index].run(self.workload).map(|run| sample_of(&run, self.workload))
            }
        };
        let result = result.and_then(|sample| {
            self.compare_once(cell)?;
            Ok(sample)
        });
        let name = self.name(cell);
        match &result {
            Ok(sample) => writeln!(self.progress, "  {name:<34} {}", rate_words(sample))?,
            Err(error) => {
                writeln!(self.progress, "  {name:<34} {error}")?;
                // A peer's failure is a line in the table; our own is a failure of the check.
                if matches!(self.contestants[cell], Contestant::Own(_)) && self.compared.insert(cell) {
                    self.checks.push(Check { what: name, found: error.to_string(), is_good: false });
                }
            }
        }
        self.progress.flush()?;
        self.last_turn[cell] = began.elapsed();
        result
    }

    fn round_done(&mut self, _round: isize, _rounds: usize) -> Result<(), LabError> {
        Ok(())
    }
}

fn sample_of(run: &PeerRun, workload: &Workload) -> Sample {
    let copied = Copied {
        bytes: run.bytes,
        files: workload.files(),
        wall_seconds: run.seconds,
        cpu_seconds: run.cpu_seconds,
        other_cpu_seconds: run.other_cpu_seconds,
        stolen_seconds: run.stolen_seconds,
        ..Copied::default()
    };
    Sample { is_disturbed: run.is_disturbed(), ..Sample::copied(copied) }
}

//! Measures the product and the installed peers in turns, on the same bytes.
//!
//! Guarantees: each contestant's first copy is compared byte for byte, after the clock has stopped; when the time is
//! up, contestants that have had a turn keep their samples, and the product always has its first turn.

use crate::LabError;
use crate::experiment::{
    Axis, CPU_PER_GIB, Claim, Coordinates, Experiment, Outcome, Plan, RATE, Repetition, Sample, Sampler,
    View, at,
};
use crate::peers::{Kind, OWN, Peer, Workload, warm};
use crate::program::Level;
use crate::report::Check;
use crate::report::number::{bytes, quantity};
use crate::scratch::Scratch;
use std::collections::BTreeSet;
use std::io::Write;
use std::time::Instant;

/// The data to copy, the number of copies, and the names in the report.
pub(crate) struct Rules<'a> {
    pub(crate) id: &'a str,
    pub(crate) title: &'a str,
    /// The studies that it answers, by id.
    pub(crate) covers: &'a str,
    /// The workload in words.
    pub(crate) words: &'a str,
    pub(crate) workload: &'a Workload,
    /// The directory and the name of the file that is filled anew before each round, if the workload is a file.
    pub(crate) renew: Option<(&'a Scratch, &'a str)>,
    pub(crate) repetition: Repetition,
    pub(crate) seed: u64,
    /// The time after which no run starts. With a deadline, peers that start a program per file are excluded from
    /// trees, because one run may take minutes.
    pub(crate) deadline: Option<Instant>,
    /// Whether the report claims that the product is no slower and uses no more CPU than each peer.
    pub(crate) with_claims: bool,
}

/// Runs all contestants that support the workload, in turns. Returns the outcome and the comparisons.
pub(crate) fn hold(
    rules: &Rules<'_>,
    peers: &mut [Box<dyn Peer>],
    progress: &mut dyn Write,
) -> Result<(Outcome, Vec<Check>), LabError> {
    writeln!(progress, "{}: {OWN} and installed tools, taking turns ...", rules.title)?;
    let kind = rules.workload.kind();
    let (mut contestants, mut skipped, mut versions) = (Vec::new(), Vec::new(), Vec::new());
    for peer in peers.iter_mut().filter(|peer| peer.carries(kind)) {
        if rules.deadline.is_some() && kind == Kind::Tree && peer.name().starts_with("rclone") {
            let name = peer.name();
            skipped
                .push(format!("{name}: takes minutes for a tree; `sealane lab run transfer` has the time"));
            continue;
        }
        match peer.probe() {
            Ok(version) => {
                if !peer.is_own() {
                    versions.push(format!("{}: {}", peer.name(), version.0));
                }
                contestants.push(peer);
            }
            Err(absent) => skipped.push(format!("{}: {}", peer.name(), absent.reason)),
        }
    }
    let place = |peer: &dyn Peer| at([("level", peer.level().name()), ("tool", peer.name())]);
    let mut tools: Vec<&str> = contestants.iter().map(|peer| peer.name()).collect();
    let mut seen = BTreeSet::new();
    tools.retain(|&tool| seen.insert(tool));
    let experiment = Experiment {
        axes: vec![Axis::new("level", Level::ALL.map(Level::name)), Axis::new("tool", tools)],
        workload: rules.words.to_owned(),
        repetition: rules.repetition,
        claims: contestants
            .iter()
            .filter(|_| rules.with_claims)
            .flat_map(|peer| claims(&***peer, place))
            .collect(),
        view: View::bars("level", "tool", OWN),
        ..Experiment::new(rules.id, rules.covers, rules.title, &[], Vec::new())
    };
    let experiment = experiment.method(&[
        "Servers of peers are started before the clock; the product starts its far end within it.",
        "Each copy goes into an empty directory; the first of each contestant is compared byte for byte, after the clock has stopped.",
    ]);
    versions.dedup();
    let rivals = (!versions.is_empty()).then(|| format!("Rivals of this run: {}.", versions.join("; ")));
    let experiment = Experiment { notes: rivals.into_iter().collect(), ..experiment };
    let plan = Plan {
        experiment,
        places: contestants.iter().map(|peer| place(&***peer)).collect(),
        skipped,
        seed: rules.seed,
        deadline: rules.deadline,
        ..Plan::default()
    };
    let mut contest = Contest { rules, contestants, checks: Vec::new(), compared: BTreeSet::new() };
    let mut outcome = plan.run(&mut contest, progress, |_| ())?;
    rules.workload.clear_target()?;
    for cell in outcome.cells.iter().filter(|cell| cell.samples.is_empty()) {
        let reason = cell.failure.as_deref().unwrap_or("not run");
        outcome.skipped.push(format!("{} ({}): {reason}", cell.at["tool"], cell.at["level"]));
    }
    Ok((outcome, contest.checks))
}

/// Returns claims against every peer that moves files over a connection.
fn claims(peer: &dyn Peer, place: impl Fn(&dyn Peer) -> Coordinates) -> Vec<Claim> {
    if peer.is_own() || !peer.leaves_a_copy() || peer.name() == "cp" {
        return Vec::new();
    }
    let level = peer.level().name();
    let claim = |statement: &str, metric, bounds| {
        let statement = format!("{OWN} {statement} {} ({level})", peer.name());
        let own = at([("level", level), ("tool", OWN)]);
        Claim::ratio((statement, "target"), metric, (own, place(peer)), bounds)
    };
    vec![
        claim("is not slower than", RATE, (Some(1.0), None)),
        claim("needs no more CPU per byte than", CPU_PER_GIB, (None, Some(1.0))),
    ]
}

/// Contestants on one workload.
struct Contest<'a> {
    rules: &'a Rules<'a>,
    contestants: Vec<&'a mut Box<dyn Peer>>,
    /// The comparisons and their results.
    checks: Vec<Check>,
    compared: BTreeSet<usize>,
}

impl Contest<'_> {
    fn name(&self, cell: usize) -> String {
        let peer = &self.contestants[cell];
        let level = peer.level().name();
        if peer.is_own() {
            format!("{} --level {level}", peer.name())
        } else {
            format!("{} ({level})", peer.name())
        }
    }

    /// Compares the copy once for each contestant; the product's result is a check of the report.
    fn compare_once(&mut self, cell: usize) -> Result<(), LabError> {
        if !self.contestants[cell].leaves_a_copy() || !self.compared.insert(cell) {
            return Ok(());
        }
        let workload = self.rules.workload;
        let result = workload.verify();
        let files = if workload.files() == 1 { "file" } else { "files" };
        let found = match &result {
            Ok(()) => {
                format!("{} {files}, {} equal byte for byte", workload.files(), bytes(workload.bytes()))
            }
            Err(error) => error.to_string(),
        };
        self.check(cell, found, result.is_ok());
        result
    }

    /// A peer's failure is a line in the table; a failure of the product is a failed check.
    fn check(&mut self, cell: usize, found: String, is_good: bool) {
        if self.contestants[cell].is_own() {
            self.checks.push(Check { what: self.name(cell), found, is_good });
        }
    }
}

impl Sampler for Contest<'_> {
    fn prepare(&mut self, content_seed: u64) -> Result<(), LabError> {
        self.rules.renew.map_or(Ok(()), |(scratch, name)| {
            scratch.random_file(name, self.rules.workload.bytes(), content_seed).map(drop)
        })
    }

    fn sample(&mut self, cell: usize) -> Result<Sample, LabError> {
        let workload = self.rules.workload;
        workload.clear_target()?;
        warm(workload.bytes());
        let result = self.contestants[cell].run(workload);
        let result = result.and_then(|sample| self.compare_once(cell).map(|()| sample));
        if let Err(error) = &result
            && self.compared.insert(cell)
        {
            self.check(cell, error.to_string(), false);
        }
        result
    }

    fn owes(&self, cell: usize) -> bool {
        self.contestants[cell].is_own() && !self.compared.contains(&cell)
    }

    fn line(&self, cell: usize, result: &Result<Sample, LabError>) -> Option<String> {
        let words = |sample: &Sample, measure| sample.value(measure).map_or_else(|| "–".to_owned(), quantity);
        let found = match result {
            Ok(sample) => format!("{} MB/s, {} CPU s/GiB", words(sample, RATE), words(sample, CPU_PER_GIB)),
            Err(error) => error.to_string(),
        };
        Some(format!("{:<34} {found}", self.name(cell)))
    }
}

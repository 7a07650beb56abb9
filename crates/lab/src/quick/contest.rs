//! The product's levels and the installed peers on the same bytes, taking turns.
//!
//! Guarantees: each contestant's first copy is compared byte for byte, after the clock has stopped; when the time is up,
//! contestants that have had a turn keep what they have.

use crate::LabError;
use crate::experiment::{Coordinates, Runner, Sample, at};
use crate::peers::{Peer, PeerRun, Workload};
use crate::program::{CopyRequest, Level, Program};
use crate::report::Check;
use crate::report::number::bytes;
use crate::runner::{measure, rate_words};
use crate::scratch::Scratch;
use std::collections::BTreeSet;
use std::io::Write;
use std::time::Instant;

/// The product's name in tables.
pub(super) const OWN: &str = "sealane cp";

/// Who copies.
pub(super) enum Contestant {
    /// The product, as asked.
    Own(CopyRequest),
    /// A peer, by its place.
    Peer(usize),
}

/// Runs contestants on one workload.
pub(super) struct Contest<'a> {
    pub(super) program: &'a Program,
    pub(super) scratch: &'a Scratch,
    pub(super) workload: &'a Workload,
    pub(super) contestants: Vec<Contestant>,
    pub(super) places: Vec<Coordinates>,
    pub(super) peers: &'a mut [Box<dyn Peer>],
    /// The file to fill anew before each round, if the workload is one.
    pub(super) renew: Option<(&'a str, u64)>,
    pub(super) deadline: Instant,
    /// What was compared with what result.
    pub(super) checks: Vec<Check>,
    pub(super) compared: BTreeSet<usize>,
    pub(super) progress: &'a mut dyn Write,
}

/// The four levels as contestants, each with its place.
pub(super) fn own_contestants(recursive: bool) -> Vec<(Coordinates, Contestant)> {
    Level::ALL
        .iter()
        .map(|&level| {
            let request =
                CopyRequest { level: Some(level), recursive, resume: Some(false), ..CopyRequest::default() };
            (at([("level", level.name()), ("tool", OWN)]), Contestant::Own(request))
        })
        .collect()
}

impl Contest<'_> {
    fn name(&self, cell: usize) -> String {
        let place = &self.places[cell];
        match &self.contestants[cell] {
            Contestant::Own(_) => format!("{OWN} --level {}", place["level"]),
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
        if let Some((name, bytes)) = self.renew {
            self.scratch.random_file(name, bytes, content_seed)?;
        }
        Ok(())
    }

    fn sample(&mut self, cell: usize) -> Result<Sample, LabError> {
        if Instant::now() > self.deadline {
            return Err(LabError::Unavailable("no further run: the time was up".to_owned()));
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
        result
    }

    fn round_done(&mut self, _round: isize, _rounds: usize) -> Result<(), LabError> {
        Ok(())
    }
}

fn sample_of(run: &PeerRun, workload: &Workload) -> Sample {
    Sample {
        bytes: run.bytes,
        files: workload.files(),
        wall_seconds: run.seconds,
        cpu_seconds: run.cpu_seconds,
        other_cpu_seconds: run.other_cpu_seconds,
        stolen_seconds: run.stolen_seconds,
        is_disturbed: run.is_disturbed(),
        ..Sample::default()
    }
}

//! Copies random files of a suitable size, which the receiver discards: the sampler of every grid of this study.
//!
//! Guarantees: cells of a group copy the same number of bytes; the clock covers the program, or the measured end's
//! work.

use crate::LabError;
use crate::experiment::{
    Cell, Coordinates, Copied, Experiment, Found, Outcome, Plan, Profile, Repetition, Sample, Sampler,
};
use crate::load::warm_memory;
use crate::peers::copy;
use crate::program::{CopyRequest, End, Program};
use crate::report::number::bytes;
use crate::request::Request;
use crate::scratch::Scratch;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

/// A cell and its request.
#[derive(Clone, Debug)]
pub(super) struct Planned {
    /// Its place.
    pub(super) at: Coordinates,
    /// The request to the program.
    pub(super) request: CopyRequest,
    /// The group of the cell: cells of a group copy the same number of bytes, so that they can be compared.
    pub(super) group: &'static str,
}

/// An experiment of copies, ready to run.
#[derive(Default)]
pub(super) struct Grid {
    pub(super) experiment: Experiment,
    pub(super) cells: Vec<Planned>,
    /// Published figures, to show beside ours.
    pub(super) published: Vec<Cell>,
    pub(super) skipped: Vec<String>,
}

/// State that all experiments of a run share.
#[derive(Clone, Copy)]
pub(super) struct Copies<'a> {
    pub(super) request: &'a Request,
    pub(super) program: &'a Program,
    pub(super) scratch: &'a Scratch,
    pub(super) bytes_max: u64,
    /// The CPUs that the program may use.
    pub(super) cores: usize,
    /// The rule of every grid.
    pub(super) repetition: Repetition,
}

/// The smallest workload: below it start-up dominates.
const BYTES_MIN: u64 = 4 << 20;

/// Returns the intended duration of a run of a cell with one lane.
fn seconds_a_run(profile: Profile) -> f64 {
    match profile {
        Profile::Smoke => 0.01,
        Profile::Quick => 0.25,
        Profile::Full => 1.5,
        // Copies follow one another until the run is over.
        Profile::Paper => 5.0,
    }
}

impl Copies<'_> {
    /// Runs a grid.
    pub(super) fn run(&self, grid: Grid, progress: &mut dyn Write) -> Result<Outcome, LabError> {
        let Grid { mut experiment, cells, published, skipped } = grid;
        writeln!(progress, "{}", experiment.title)?;
        let sizes = self.fit_sizes(&cells)?;
        experiment.workload = workload(&sizes);
        let places = cells.iter().map(|cell| cell.at.clone()).collect();
        let seed = self.request.seed;
        let plan = Plan { experiment, places, beside: published, skipped, seed, deadline: None };
        plan.run(&mut Discarded { copies: self, cells, sizes }, progress, |_| ())
    }

    /// Chooses for each group a power of two of bytes that its first cell copies in about the duration of a run.
    pub(super) fn fit_sizes(&self, cells: &[Planned]) -> Result<BTreeMap<&'static str, u64>, LabError> {
        let (seconds, bytes_max) = (seconds_a_run(self.request.profile), self.bytes_max);
        let bytes_min = BYTES_MIN.min(bytes_max);
        let mut sizes = BTreeMap::new();
        for cell in cells {
            if sizes.contains_key(cell.group) {
                continue;
            }
            let mut size = bytes_min;
            loop {
                let file = self.scratch.random_file("pilot", size, size)?;
                // A group whose pilot fails still gets a size: its cells will report the failure.
                let Ok(finished) = self.program.copy(&cell.request, &[file], &self.target()) else { break };
                let taken = finished.done.seconds.max(1e-3);
                if taken >= seconds / 4.0 || size >= bytes_max {
                    let wanted = (size as f64 * seconds / taken) as u64;
                    size = (1 << wanted.max(1).ilog2()).clamp(bytes_min, bytes_max);
                    break;
                }
                size = (size * 4).min(bytes_max);
            }
            sizes.insert(cell.group, size);
        }
        crate::scratch::remove(&self.scratch.path().join("pilot"))?;
        Ok(sizes)
    }

    fn target(&self) -> PathBuf {
        self.scratch.path().join("discarded")
    }
}

/// Returns the sizes in words, for the report.
pub(super) fn workload(sizes: &BTreeMap<&str, u64>) -> String {
    let mut groups: Vec<_> = sizes.iter().collect();
    groups.sort_by_key(|&(_, &size)| Reverse(size));
    let sizes: Vec<String> =
        groups.iter().map(|(group, size)| format!("{} ({group})", bytes(**size))).collect();
    format!("One file of random bytes, new in each round, discarded by the receiver: {}.", sizes.join(", "))
}

/// Takes the samples of a grid.
struct Discarded<'a> {
    copies: &'a Copies<'a>,
    cells: Vec<Planned>,
    sizes: BTreeMap<&'static str, u64>,
}

fn name(size: u64) -> String {
    format!("random-{size}")
}

impl Discarded<'_> {
    /// Copies repeatedly, for at least `seconds` and at least once, and returns one run.
    fn copies(&self, cell: usize, seconds: f64) -> Result<Sample, LabError> {
        let Planned { request, group, .. } = &self.cells[cell];
        let size = self.sizes[group];
        let sources = [self.copies.scratch.path().join(name(size))];
        let mut sum: Option<(Copied, Sample)> = None;
        let began = Instant::now();
        while sum.is_none() || began.elapsed().as_secs_f64() < seconds {
            warm_memory(64 << 20);
            let mut sample = copy(self.copies.program, request, &sources, &self.copies.target(), size)?;
            let Found::Copy(mut copied) = sample.found else { continue };
            // The program counts from the first byte of data if one end is measured: the sealing of data by the other
            // end before is excluded. The creation of a namespace is excluded too.
            copied.wall_seconds = copied.program_seconds.unwrap_or(copied.wall_seconds);
            copied.cpu_seconds = match request.end {
                Some(End::Send) => copied.cpu_local_seconds,
                Some(End::Receive) => copied.cpu_remote_seconds,
                _ => None,
            }
            .unwrap_or(copied.cpu_seconds);
            if let Some((earlier, first)) = sum {
                copied += earlier;
                sample.is_disturbed |= first.is_disturbed;
            }
            sum = Some((copied, Sample { found: Found::Copy(copied), ..sample }));
        }
        Ok(sum.map(|(_, sample)| sample).expect("a copy is made before the time is up"))
    }
}

impl Sampler for Discarded<'_> {
    fn prepare(&mut self, content_seed: u64) -> Result<(), LabError> {
        let mut sizes: Vec<u64> = self.sizes.values().copied().collect();
        sizes.sort_unstable();
        sizes.dedup();
        for size in sizes {
            self.copies.scratch.random_file(&name(size), size, content_seed ^ size)?;
        }
        Ok(())
    }

    fn sample(&mut self, cell: usize) -> Result<Sample, LabError> {
        let Some((warm_up_seconds, seconds)) = self.copies.request.profile.run_seconds() else {
            return self.copies(cell, 0.0);
        };
        self.copies(cell, warm_up_seconds)?;
        self.copies(cell, seconds)
    }
}

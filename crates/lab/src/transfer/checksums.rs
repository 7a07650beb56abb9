//! A checksum in flight, beside one after the copy (G5): the time until the user knows that the copy is right.
//!
//! Guarantees: all ways copy the same bytes to a file and use the same digest; a checksum afterwards is that of both ends
//! at the same time, as on two machines, and both are compared.

use super::copies::Copies;
use super::grid::PAPER;
use crate::LabError;
use crate::experiment::{
    Axis, CPU_PER_GIB, Claim, Coordinates, Copied, Drawn, Experiment, Found, Outcome, Plan, Plot, RATE,
    Repetition, Sample, Sampler, View, WALL, at, of_runs,
};
use crate::peers::{Own, Peer as _, Workload, timed, warm};
use crate::program::{Level, Program};
use crate::report::number::bytes;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::thread;
use std::time::Duration;

/// The part's name, which is that of the paper's row.
pub(super) const PART: &str = "G5";

/// Levels without verification of the content, and with it.
const LEVELS: [Level; 2] = [Level::Clear, Level::Private];
/// The ways: without a checksum, during the copy, after it.
const WAYS: [&str; 3] = ["without", "in flight", "afterwards"];
/// The most that a checksum in flight may cost: the paper has no figure, and a tenth is what the lab calls alike.
const FREE: f64 = 1.1;

const NAME: &str = "checksums";

fn place(level: Level, way: &str) -> Coordinates {
    at([("level", level.name()), ("checksum", way)])
}

/// Returns the wall and CPU time of a digest of one file, which is written to `target`.
fn digest(program: &Program, file: &Path, target: &Path) -> Result<(Duration, Duration), LabError> {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "exec \"$1\" blake3 -- \"$2\" >\"$3\"", "sh"]);
    command.arg(&program.path).arg(file).arg(target);
    timed(command)
}

/// The first word of a line of digests.
fn digest_of(file: &Path) -> Result<String, LabError> {
    let text = fs::read_to_string(file).map_err(LabError::file("cannot read", file))?;
    Ok(text.split_whitespace().next().unwrap_or_default().to_owned())
}

struct Turns<'a> {
    copies: Copies<'a>,
    workload: Workload,
    cells: Vec<(Level, &'static str)>,
}

impl Turns<'_> {
    /// Digests both ends at the same time, and adds that to the copy.
    fn checked_afterwards(&self, copied: &mut Copied) -> Result<(), LabError> {
        let program = self.copies.program;
        let target = |end: &str| self.copies.scratch.path().join(format!("{NAME}-{end}"));
        let ends =
            [(self.workload.source().to_owned(), target("source")), (self.workload.copy(), target("copy"))];
        let took = thread::scope(|scope| {
            let both = ends.each_ref().map(|(file, target)| scope.spawn(|| digest(program, file, target)));
            both.map(|end| {
                end.join().unwrap_or_else(|_| Err(LabError::Unavailable("a digest panicked".to_owned())))
            })
        });
        let [source, copy] = took;
        let ((wall, cpu), (other_wall, other_cpu)) = (source?, copy?);
        let [source, copy] = ends.map(|(_, target)| digest_of(&target));
        if source? != copy? {
            return Err(LabError::Unavailable("the digests of both ends differ".to_owned()));
        }
        copied.wall_seconds += wall.max(other_wall).as_secs_f64();
        copied.cpu_seconds += (cpu + other_cpu).as_secs_f64();
        Ok(())
    }
}

impl Sampler for Turns<'_> {
    fn prepare(&mut self, content_seed: u64) -> Result<(), LabError> {
        self.copies.scratch.random_file(NAME, self.workload.bytes(), content_seed).map(drop)
    }

    fn sample(&mut self, cell: usize) -> Result<Sample, LabError> {
        let (level, way) = self.cells[cell];
        self.workload.clear_target()?;
        warm(self.workload.bytes());
        let mut own = Own::new(self.copies.program, way, level);
        own.request.digest = way == WAYS[1];
        let mut sample = own.run(&self.workload)?;
        if let (true, Found::Copy(copied)) = (way == WAYS[2], &mut sample.found) {
            self.checked_afterwards(copied)?;
        }
        Ok(sample)
    }
}

/// Runs the study.
pub(super) fn outcomes(copies: &Copies<'_>, progress: &mut dyn Write) -> Result<Vec<Outcome>, LabError> {
    let file = copies.scratch.random_file(NAME, copies.bytes_max, copies.request.seed)?;
    let workload = Workload::new(&file, &copies.scratch.path().join("checked"))?;
    let mut experiment = experiment(copies.repetition);
    experiment.workload = format!(
        "One file of {} of random bytes, new in each round, into a new file.",
        bytes(copies.bytes_max)
    );
    writeln!(progress, "{}", experiment.title)?;
    let cells: Vec<(Level, &str)> =
        LEVELS.into_iter().flat_map(|level| WAYS.map(|way| (level, way))).collect();
    let places = cells.iter().map(|&(level, way)| place(level, way)).collect();
    let plan = Plan::new(experiment, places, copies.request.seed);
    let mut turns = Turns { copies: *copies, workload, cells };
    let outcome = plan.run(&mut turns, progress, |_| ())?;
    crate::scratch::remove(&file)?;
    turns.workload.clear_target()?;
    Ok(vec![outcome])
}

fn experiment(repetition: Repetition) -> Experiment {
    let mut claims = Vec::new();
    for level in LEVELS {
        let [none, in_flight, afterwards] = WAYS.map(|way| place(level, way));
        let words = level.name();
        let statement = format!(
            "{words}: a checksum afterwards takes longer than one in flight, because both ends read everything again"
        );
        let places = (afterwards, in_flight.clone());
        claims.push(Claim::ratio((statement, "G5"), WALL, places, (Some(1.0), None)));
        let statement = format!("{words}: a checksum in flight takes at most a tenth longer than none");
        claims.push(Claim::ratio((statement, "G5: ours"), WALL, (in_flight, none), (None, Some(FREE))));
    }
    let measures =
        of_runs().into_iter().filter(|one| [RATE, CPU_PER_GIB, WALL].contains(&&*one.id)).collect();
    let experiment = Experiment {
        axes: vec![Axis::new("level", LEVELS.map(Level::name)), Axis::new("checksum", WAYS)],
        repetition,
        ..Experiment::new(NAME, PART, "A checksum in flight, or after the copy", &[], measures)
    };
    let plot = Plot::new(Drawn::Bars, "level", WALL, &["checksum"])
        .titled("Time until the copy is known to be right");
    experiment.of(PAPER).claiming(claims).shown(View::Cells, vec![plot]).notes(&[
        "The study: a checksum after the transfer counts as transfer time, most programs open and read the file again for it, and \
         it cannot be divided over streams. In flight is `sealane cp --digest`; afterwards is `sealane blake3` at both ends at the \
         same time. BLAKE3 is a tree, so here both are divided over cores.",
        "The source is read from memory the second time too: from a disk a checksum afterwards costs more.",
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Profile;

    #[test]
    fn every_claim_is_about_cells_of_the_study() {
        let experiment = experiment(Profile::Quick.repetition());
        assert_eq!(experiment.claims.len(), 2 * LEVELS.len());
        for claim in &experiment.claims {
            for place in claim.shape.places() {
                let has = |axis: &str| experiment.values(axis).contains(&place[axis]);
                assert!(has("level") && has("checksum"), "{}", claim.statement);
            }
        }
    }
}

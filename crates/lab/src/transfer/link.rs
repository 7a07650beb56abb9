//! Copies through a link of 1 Gb/s, as in the study.
//!
//! A network namespace of its own gives each copy a loopback device whose only queue is a token bucket of 1 Gb/s and
//! whose packets have Ethernet's size. It needs no root if the system lets users create namespaces, and leaves
//! nothing behind. Guarantees: the device outside is never touched.

use super::copies::{Copies, Grid};
use super::counts::ALIKE;
use super::grid::{cells, experiment, place};
use super::modes::MODES;
use crate::LabError;
use crate::experiment::{
    ANY, Cell, Claim, Experiment, Found, Measure, Outcome, RATE, Repetition, Sample, at,
};
use crate::link::probe;
use crate::program::{End, Level, Program};
use std::io::Write;

/// The shell script that creates the link and becomes the program.
const SHAPE: &str = "ip link set dev lo mtu 1500 up && \
    tc qdisc add dev lo root tbf rate 1gbit burst 128kb latency 30ms && exec \"$@\"";

/// Returns `program` behind such a link, or the reason why there is none.
fn shaped_program(program: &Program) -> Result<Program, String> {
    let words = ["unshare", "--map-root-user", "--net", "sh", "-c", SHAPE, "sh"];
    probe(&words[1..], "no network namespace with a token bucket here")?;
    let mut shaped = program.clone();
    shaped.prefix = words.map(Into::into).to_vec();
    Ok(shaped)
}

/// Runs the study.
pub(super) fn outcomes(copies: &Copies<'_>, progress: &mut dyn Write) -> Result<Vec<Outcome>, LabError> {
    let shaped = shaped_program(copies.program).map_err(LabError::Unavailable)?;
    let outcome = Copies { program: &shaped, ..*copies }.run(link(copies.repetition), progress)?;
    let cores = cores(&outcome);
    Ok(vec![outcome, cores])
}

/// The study's guess.
const CORES_OF_THE_STUDY: f64 = 6.0;

/// Returns the cores that each end needs to fill the link under protection as clear does (G18), from the CPU time of the
/// busier end of each copy on one lane. `outcome` is that of [`link`].
fn cores(outcome: &Outcome) -> Outcome {
    let protections = ["modern", "legacy"]
        .into_iter()
        .flat_map(|suite| [Level::Safe, Level::Private].map(|level| (suite, level)));
    let clear = outcome.cell(&place(End::Both, ANY, "Single P1", Level::Clear));
    let bytes_per_s = clear.and_then(|cell| cell.figure(RATE)).map(|rate| rate * 1e6);
    let (mut cells, mut claims) = (Vec::new(), Vec::new());
    for (suite, level) in protections {
        let measured = outcome.cell(&place(End::Both, suite, "Single P1", level));
        let (Some(measured), Some(bytes_per_s)) = (measured, bytes_per_s) else { continue };
        let cores = |sample: &Sample| {
            let Found::Copy(copied) = &sample.found else { return None };
            let busier = copied.cpu_local_seconds?.max(copied.cpu_remote_seconds?);
            let cores = busier / copied.bytes as f64 * bytes_per_s;
            Some(Sample { round: sample.round, ..Sample::slice(CORES, cores, sample.is_disturbed) })
        };
        let at = at([("suite", suite), ("level", level.name())]);
        let statement = format!(
            "{}, {suite}: six cores at each end are enough to fill 1 Gb/s as clear does",
            level.name()
        );
        claims.push(Claim::bound((statement, "G18"), CORES, at.clone(), (None, Some(CORES_OF_THE_STUDY))));
        let samples = measured.samples.iter().filter_map(cores).collect();
        cells.push(Cell { at, samples, centre: measured.centre, ..Cell::default() });
    }
    cells.retain(|cell| !cell.samples.is_empty());
    let title = "How many cores make private as fast as clear through 1 Gb/s";
    let measures = vec![Measure::cost(CORES, "cores at each end", "cores")];
    let experiment = Experiment {
        repetition: outcome.experiment.repetition,
        ..Experiment::new("cores", "G18", title, &["suite", "level"], measures)
    };
    let experiment = experiment.of(&outcome.experiment.paper).claiming(claims).notes(&[
        "CPU time per byte of the busier end, times the bytes per second of a clear copy through the link: the cores that \
         would be busy. The study's guess is six.",
    ]);
    let (seed, started) = (outcome.seed, outcome.started.clone());
    Outcome { seed, started, ..Outcome::new(experiment, cells) }
}

/// The measure of [`cores`].
const CORES: &str = "cores";

/// Returns the grid of the study's four modes, with both ends in full.
fn link(repetition: Repetition) -> Grid {
    let modes = &MODES[..4];
    let clear = |mode| place(End::Both, ANY, mode, Level::Clear);
    let like_clear = |statement: &str, source, top| {
        let places = (top, clear("Single P1"));
        Claim::ratio((format!("{statement}, within 10 %"), source), RATE, places, ALIKE)
    };
    let single = |suite, level| place(End::Both, suite, "Single P1", level);
    let claims = vec![
        like_clear(
            "Modern private fills the link as clear does, on one lane",
            "G18: the study expected to need six cores",
            single("modern", Level::Private),
        ),
        like_clear("Clear gains nothing from a second stream and lane", "G11–G13", clear("Pool P2")),
        like_clear("Authenticated costs what clear costs", "G11–G13", single(ANY, Level::Authenticated)),
    ];
    let title = ("link", "The same through a link of 1 Gb/s", "G11–G13, G18");
    let mut experiment = experiment(title, &[End::Both], modes, repetition, claims);
    experiment.method.push(
        "A token bucket of 1 Gb/s with packets of 1500 bytes on the loopback device of a network namespace of its own, for each copy. Data and acknowledgements share it.".to_owned(),
    );
    Grid { experiment, cells: cells(&[End::Both], modes), ..Grid::default() }
}

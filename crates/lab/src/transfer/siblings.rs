//! Two lanes on the two threads of one core, beside two lanes on two cores (G14, G15, whose plots are lost).
//!
//! Guarantees: cores and their threads are those that the kernel lists, among the CPUs that this process may use; where
//! no core has two threads the reason is given, and nothing is measured.

use super::copies::{Copies, Grid, Planned};
use super::grid::{PAPER, PROTECTIONS, Protection, request};
use super::modes::Mode;
use crate::LabError;
use crate::experiment::{
    Axis, Claim, Coordinates, Drawn, Experiment, MEGABITS, Outcome, Plot, RATE, Repetition, View, at,
};
use crate::program::{CopyRequest, End, Level};
use rustix::thread::{CpuSet, sched_getaffinity};
use sealane_lanes::Placement;
use std::fs;
use std::io::Write;
use std::path::Path;

/// The kernel's folder of CPUs.
const SYSFS: &str = "/sys/devices/system/cpu";

/// CPUs for two lanes: two threads of a core, and a thread of each of two cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Cpus {
    siblings: [usize; 2],
    cores: [usize; 2],
}

/// The places of lanes: on one thread, on both threads of a core, on two cores.
const PLACES: [&str; 3] = ["one thread", "two threads of a core", "two cores"];

/// Returns the numbers in a list of the kernel's, such as `0,4` or `0-1,8`.
fn listed(text: &str) -> Option<Vec<usize>> {
    let piece = |piece: &str| match piece.split_once('-') {
        Some((first, last)) => Some((first.parse().ok()?..=last.parse().ok()?).collect()),
        None => Some(vec![piece.parse().ok()?]),
    };
    let pieces: Option<Vec<Vec<usize>>> = text.trim().split(',').map(piece).collect();
    Some(pieces?.concat())
}

/// Returns CPUs for both ways among those that may be used, from the kernel's folder; or the reason why there are none.
fn find(folder: &Path, may_use: impl Fn(usize) -> bool) -> Result<Cpus, String> {
    let threads = |cpu: usize| {
        let list = folder.join(format!("cpu{cpu}/topology/thread_siblings_list"));
        let mut threads = listed(&fs::read_to_string(list).ok()?)?;
        threads.retain(|&thread| may_use(thread));
        Some(threads)
    };
    let mut cores: Vec<Vec<usize>> =
        (0..CpuSet::MAX_CPU).filter(|&cpu| may_use(cpu)).filter_map(threads).collect();
    cores.sort_unstable();
    cores.dedup();
    if cores.is_empty() {
        return Err("the kernel does not say which CPUs are threads of one core".to_owned());
    }
    let Some(at) = cores.iter().position(|threads| threads.len() > 1) else {
        return Err(format!(
            "each of the {} CPUs here is a core of its own: there are no two threads of a core to compare with two cores",
            cores.len()
        ));
    };
    let (one, siblings) = (cores[at][0], [cores[at][0], cores[at][1]]);
    match cores.iter().enumerate().find(|(other, _)| *other != at) {
        Some((_, other)) => Ok(Cpus { siblings, cores: [one, other[0]] }),
        None => {
            Err("this machine has one core: there are no two cores to compare its threads with".to_owned())
        }
    }
}

/// Returns the CPUs here, or the reason why there are none.
fn cpus() -> Result<Cpus, String> {
    let allowed = sched_getaffinity(None).unwrap_or_else(|_| CpuSet::new());
    find(Path::new(SYSFS), |cpu| allowed.is_set(cpu))
}

fn place(protection: &Protection, place: &str) -> Coordinates {
    at([("suite", protection.suite_axis), ("on", place)])
}

fn protections() -> impl Iterator<Item = &'static Protection> {
    PROTECTIONS.iter().filter(|protection| protection.level == Level::Private)
}

/// Runs the study.
pub(super) fn outcomes(copies: &Copies<'_>, progress: &mut dyn Write) -> Result<Vec<Outcome>, LabError> {
    let cpus = cpus().map_err(LabError::Unavailable)?;
    Ok(vec![copies.run(siblings(cpus, copies.repetition), progress)?])
}

/// Returns the grid of both suites of private by the place of the lanes.
fn siblings(cpus: Cpus, repetition: Repetition) -> Grid {
    let [one, ..] = cpus.siblings;
    let lanes_on = [vec![one], cpus.siblings.to_vec(), cpus.cores.to_vec()];
    let (mut cells, mut claims) = (Vec::new(), Vec::new());
    for protection in protections() {
        for (name, cpus) in PLACES.into_iter().zip(&lanes_on) {
            let count = cpus.len() as u32;
            let mode = Mode { name: "", lanes: count, streams: count, placement: Placement::Connection };
            let request = CopyRequest { cpus: cpus.clone(), ..request(End::Send, protection, &mode) };
            cells.push(Planned { at: place(protection, name), request, group: protection.group });
        }
        let pair =
            |top: usize, bottom: usize| (place(protection, PLACES[top]), place(protection, PLACES[bottom]));
        let suite = protection.suite_axis;
        for (statement, places) in [
            (format!("{suite}: a core's second thread slows nothing down"), pair(1, 0)),
            (format!("{suite}: two cores carry at least what two threads of a core carry"), pair(2, 1)),
        ] {
            let source = "ours: the plots are lost";
            claims.push(Claim::ratio((statement, source), RATE, places, (Some(1.0), None)));
        }
    }
    let title = "Two threads of a core, or two cores";
    let experiment = Experiment {
        axes: vec![
            Axis::new("suite", ["modern", "legacy"]).in_words(|suite| format!("{suite} suite")),
            Axis::new("on", PLACES),
        ],
        repetition,
        ..Experiment::new("siblings", "G14, G15, G16", title, &[], Vec::new())
    };
    let plots = vec![Plot::new(Drawn::Bars, "on", RATE, &[]).each("suite")];
    let experiment =
        experiment.of(PAPER).claiming(claims).shown(View::pivot(&["suite"], "on", MEGABITS), plots);
    let experiment = experiment.notes(&[
        "Private, a lane and a stream for each CPU, the sender measured; both ends are confined to these CPUs, so the receiver, which \
         only reads, takes its share of them. The study's plots on a Xeon with hyper-threading are lost.",
    ]);
    Grid { experiment, cells, ..Grid::default() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Profile;

    /// Makes a folder as the kernel's, with the lists of CPUs 0, 1, 2 and so on.
    fn folder(lists: &[&str]) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (cpu, list) in lists.iter().enumerate() {
            let topology = folder.path().join(format!("cpu{cpu}/topology"));
            fs::create_dir_all(&topology).unwrap();
            fs::write(topology.join("thread_siblings_list"), format!("{list}\n")).unwrap();
        }
        folder
    }

    #[test]
    fn threads_and_cores_are_those_of_the_kernel() {
        let all = |lists: &[&str]| find(folder(lists).path(), |cpu| cpu < lists.len());
        let expected = Ok(Cpus { siblings: [0, 2], cores: [0, 1] });
        assert_eq!(all(&["0,2", "1,3", "0,2", "1,3"]), expected);
        assert_eq!(all(&["0-1", "0-1", "2-3", "2-3"]), Ok(Cpus { siblings: [0, 1], cores: [0, 2] }));
        let lists = folder(&["0,2", "1,3", "0,2", "1,3"]);
        // The second thread of the first core may not be used.
        let some = find(lists.path(), |cpu| [0, 1, 3].contains(&cpu));
        assert_eq!(some, Ok(Cpus { siblings: [1, 3], cores: [1, 0] }));
        assert!(find(lists.path(), |cpu| [0, 2].contains(&cpu)).unwrap_err().contains("one core"));
        assert!(all(&["0", "1"]).unwrap_err().contains("each of the 2 CPUs"));
        assert!(all(&[]).unwrap_err().contains("does not say"));
        assert!(all(&["x"]).is_err());
    }

    #[test]
    fn every_claim_is_about_cells_and_lanes_have_a_cpu_each() {
        let grid = siblings(Cpus { siblings: [0, 4], cores: [0, 1] }, Profile::Quick.repetition());
        assert_eq!((grid.cells.len(), grid.experiment.claims.len()), (6, 4));
        for claim in &grid.experiment.claims {
            let is_cell = |place: &&Coordinates| grid.cells.iter().any(|cell| cell.at == **place);
            assert!(claim.shape.places().iter().all(is_cell), "{}", claim.statement);
        }
        for cell in &grid.cells {
            assert_eq!(cell.request.lanes, Some(cell.request.cpus.len() as u32));
        }
        assert_eq!(grid.cells[1].request.cpus, [0, 4]);
    }
}

//! Stripes: one process, two or four, each with one lane or two, on links of their own or on a shared one.
//!
//! A stripe is a copy of its part of the bytes by a process of its own. Its link is the loopback device of a network
//! namespace behind a token bucket of 1 Gb/s; stripes that share a link share the namespace. The study found that two
//! stripes of one thread beat one stripe of two and suspected the second network card; a shared link separates the card
//! from the second process.
//!
//! Guarantees: the devices outside are never touched; namespaces end with the measurement; only the senders do their
//! full work, because four lanes at each end would compete for one machine; four stripes are measured where each has a
//! processor, and named where not.

use super::copies::{Copies, Planned};
use super::grid::{PAPER, PROTECTIONS, Protection, RECORD_BY_RECORD};
use super::published;
use crate::LabError;
use crate::experiment::{
    Axis, Claim, Coordinates, Copied, Drawn, Experiment, MEGABITS, Outcome, Plan, Plot, RATE, Repetition,
    Sample, Sampler, View, at,
};
use crate::load::{Watch, warm_memory};
use crate::program::{CopyRequest, End, Finished, Level, Program};
use crate::report::number::counted;
use sealane_lanes::Placement;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Instant;

/// Creates the link, says so, and stays for as long as its input is open.
const HOLD: &str = "ip link set dev lo mtu 1500 up && \
    tc qdisc add dev lo root tbf rate 1gbit burst 128kb latency 30ms && echo ready && exec cat";

/// Stripes and lanes of each.
const MODES: [(&str, u32, u32); 6] =
    [("S1C1", 1, 1), ("S1C2", 1, 2), ("S2C1", 2, 1), ("S2C2", 2, 2), ("S4C1", 4, 1), ("S4C2", 4, 2)];
/// The most stripes, as the study had them.
const STRIPES_MAX: u32 = 4;
/// The links of several stripes.
const LINKS: [&str; 2] = ["own", "shared"];

/// Returns the modes that a machine has the processors for: four stripes on two would measure their competition.
fn modes(cores: usize) -> impl Iterator<Item = (&'static str, u32, u32)> {
    MODES.into_iter().filter(move |&(_, stripes, _)| stripes <= 2 || cores >= stripes as usize)
}

/// The protections that decide: the link is the limit, today's cost, and a processor that is the limit as in the study.
fn protections() -> impl Iterator<Item = &'static Protection> {
    PROTECTIONS
        .iter()
        .filter(|protection| protection.level == Level::Clear || protection.level == Level::Private)
}

/// A network namespace with a shaped link.
struct Namespace {
    holder: Child,
}

impl Namespace {
    fn new() -> Result<Self, LabError> {
        let unavailable = |why: &str| {
            LabError::Unavailable(format!("no network namespace with a token bucket here ({why})"))
        };
        let mut command = Command::new("unshare");
        command.args(["--map-root-user", "--net", "sh", "-c", HOLD]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        let holder = command.spawn().map_err(|error| unavailable(&error.to_string()))?;
        let mut namespace = Self { holder };
        let mut said = String::new();
        if let Some(output) = namespace.holder.stdout.take() {
            BufReader::new(output).read_line(&mut said).map_err(|error| unavailable(&error.to_string()))?;
        }
        match said.trim() {
            "ready" => Ok(namespace),
            _ => Err(unavailable("its commands failed")),
        }
    }

    /// Returns `program` in this namespace.
    fn program(&self, program: &Program) -> Program {
        let process = self.holder.id().to_string();
        let words = ["nsenter", "--preserve-credentials", "--user", "--net", "--target", &process, "--"];
        Program { prefix: words.map(Into::into).to_vec(), ..program.clone() }
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // It fails only where the holder has ended by itself.
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// One cell.
struct Stripes {
    stripes: u32,
    is_shared: bool,
    request: CopyRequest,
    group: &'static str,
}

/// Runs the study.
pub(super) fn outcomes(copies: &Copies<'_>, progress: &mut dyn Write) -> Result<Vec<Outcome>, LabError> {
    let namespaces = [Namespace::new()?, Namespace::new()?, Namespace::new()?, Namespace::new()?];
    let (mut places, mut cells) = (Vec::new(), Vec::new());
    for protection in protections() {
        for (mode, stripes, lanes) in modes(copies.cores) {
            // A single stripe has the link for itself.
            for link in LINKS.into_iter().take(stripes as usize) {
                places.push(place(protection, mode, link));
                let (request, is_shared) = (request(protection, lanes), link == "shared");
                cells.push(Stripes { stripes, is_shared, request, group: protection.group });
            }
        }
    }
    let mut experiment = experiment(copies.cores, copies.repetition);
    writeln!(progress, "{}", experiment.title)?;
    let pilots: Vec<_> = cells
        .iter()
        .map(|cell| Planned { at: Coordinates::new(), request: cell.request.clone(), group: cell.group })
        .collect();
    let sizes = Copies { program: &namespaces[0].program(copies.program), ..*copies }.fit_sizes(&pilots)?;
    experiment.workload = super::copies::workload(&sizes);
    let plan = Plan::new(experiment, places, copies.request.seed);
    let programs = namespaces.each_ref().map(|namespace| namespace.program(copies.program));
    let mut sampler = Turns { copies, cells, sizes, programs };
    let mut outcome = plan.run(&mut sampler, progress, |_| ())?;
    if copies.cores < STRIPES_MAX as usize {
        let processors = counted(copies.cores, "processor");
        outcome.skipped.push(format!(
            "four-way stripes (S4C1, S4C2): each stripe needs a processor, and this machine gives the program {processors}"
        ));
    }
    Ok(vec![outcome])
}

fn request(protection: &Protection, lanes: u32) -> CopyRequest {
    let is_legacy = protection.suite_axis == "legacy";
    let environment = is_legacy.then(|| RECORD_BY_RECORD.map(str::to_owned).into());
    CopyRequest {
        level: Some(protection.level),
        suite: protection.suite.map(str::to_owned),
        streams: Some(lanes),
        lanes: Some(lanes),
        placement: Some(Placement::Connection),
        end: Some(End::Send),
        allow_legacy: is_legacy,
        discard: true,
        resume: Some(false),
        environment: environment.into_iter().collect(),
        ..CopyRequest::default()
    }
}

fn name(protection: &Protection) -> &'static str {
    match protection.level {
        Level::Private => protection.group,
        _ => "clear",
    }
}

fn place(protection: &Protection, mode: &str, link: &str) -> Coordinates {
    at([("protection", name(protection)), ("mode", mode), ("links", link)])
}

fn experiment(cores: usize, repetition: Repetition) -> Experiment {
    let experiment = Experiment {
        axes: vec![
            Axis::new("protection", protections().map(name)),
            Axis::new("links", LINKS),
            Axis::new("mode", modes(cores).map(|(mode, ..)| mode)),
        ],
        repetition,
        view: View::pivot(&["mode"], "links", MEGABITS).blocks(&["protection"]),
        plots: vec![Plot::new(Drawn::Bars, "mode", RATE, &["links"]).each("protection")],
        ..Experiment::new("stripes", "G17, G19, G20", "Stripes: processes, lanes and links", &[], Vec::new())
    };
    let experiment = experiment.of(PAPER).claiming(claims(cores)).notes(&[
        "S is the number of stripes, each a process that copies its part of the bytes; C is the number of lanes of each, with a stream \
         for each lane. Several stripes have a link of 1 Gb/s each (own), or one together (shared). Mb/s of all stripes together.",
        "The study's slide asks why two stripes of one thread beat one stripe of two, and suspects the second network card. If that is \
         the reason, two stripes on a shared link lose the gain.",
    ]);
    experiment.method(&[
        "Each link is the loopback device of a network namespace behind a token bucket of 1 Gb/s, with packets of 1500 bytes; data and \
         acknowledgements share it. Only the senders do their full work. The rate is that of all bytes over the time from the first \
         byte of the first stripe to the end of the last.",
        "Legacy private is 3DES-CBC with HMAC-SHA1, record by record: there a lane is slower than the link, as in the study. Modern \
         private is AES-128-GCM. The load of one stripe is not counted as a disturbance of the other.",
    ])
}

fn claims(cores: usize) -> Vec<Claim> {
    if cores < 2 {
        return Vec::new();
    }
    let cell = |protection: &str, mode: &str, link: &str| {
        at([("protection", protection), ("mode", mode), ("links", link)])
    };
    let gain = published::least_gain(Level::Private);
    let ratio = |statement: &str, source, top, bottom, bounds| {
        Claim::ratio((statement.to_owned(), source), RATE, (top, bottom), bounds)
    };
    let legacy = |mode, link| cell("legacy private", mode, link);
    let mut claims = vec![
        ratio(
            "Legacy private: two stripes of one lane are at least as fast as one stripe of two",
            "G19: “2 stripes × 1 thread beats 1 stripe × 2 threads”",
            legacy("S2C1", "own"),
            legacy("S1C2", "own"),
            (Some(1.0), None),
        ),
        ratio(
            "Legacy private: two stripes lose nothing on a shared link, within 10 %, so that two cards are not the reason",
            "G19's open question; ours",
            legacy("S2C1", "shared"),
            legacy("S2C1", "own"),
            (Some(0.9), Some(1.1)),
        ),
        ratio(
            &format!(
                "Legacy private: a second lane brings at least {gain:.2} times one, the least of the study's machines"
            ),
            "G11–G13: 1.84 to 1.96",
            legacy("S1C2", "own"),
            legacy("S1C1", "own"),
            (Some(gain), None),
        ),
        ratio(
            "Clear: two stripes on links of their own carry twice what they carry on a shared one, within 10 %",
            "a link of 1 Gb/s is the limit there",
            cell("clear", "S2C1", "own"),
            cell("clear", "S2C1", "shared"),
            (Some(1.8), Some(2.2)),
        ),
    ];
    let four_lanes = ratio(
        &format!(
            "Legacy private: two stripes of two lanes bring at least {gain:.2} times one stripe of two, as a second lane does"
        ),
        "G17, G20: striping extrapolates to more cores; S2,C2",
        legacy("S2C2", "own"),
        legacy("S1C2", "own"),
        (Some(gain), None),
    );
    let has_too_few = || format!("four lanes need 4 CPUs; this machine gives the program {cores}");
    claims.push(Claim { unjudged: (cores < 4).then(has_too_few), ..four_lanes });
    if cores >= STRIPES_MAX as usize {
        claims.push(ratio(
            &format!(
                "Legacy private: four stripes of one lane bring at least {gain:.2} times two of one, as a second lane does"
            ),
            "G17: striping extrapolates to more cores, 4-way",
            legacy("S4C1", "own"),
            legacy("S2C1", "own"),
            (Some(gain), None),
        ));
        let eight_lanes = ratio(
            &format!(
                "Legacy private: four stripes of two lanes bring at least {gain:.2} times four of one, as a second lane does"
            ),
            "G17: 4-way striping, two cores a stripe",
            legacy("S4C2", "own"),
            legacy("S4C1", "own"),
            (Some(gain), None),
        );
        let has_too_few = || format!("eight lanes need 8 CPUs; this machine gives the program {cores}");
        claims.push(Claim { unjudged: (cores < 8).then(has_too_few), ..eight_lanes });
    }
    claims
}

/// Takes the samples.
struct Turns<'a> {
    copies: &'a Copies<'a>,
    cells: Vec<Stripes>,
    sizes: BTreeMap<&'static str, u64>,
    programs: [Program; STRIPES_MAX as usize],
}

fn file_name(bytes: u64) -> String {
    format!("stripe-{bytes}")
}

impl Turns<'_> {
    fn file(&self, bytes: u64) -> PathBuf {
        self.copies.scratch.path().join(file_name(bytes))
    }
}

impl Sampler for Turns<'_> {
    fn prepare(&mut self, content_seed: u64) -> Result<(), LabError> {
        let mut all: Vec<u64> =
            self.sizes.values().flat_map(|&bytes| [bytes, bytes / 2, bytes / 4]).collect();
        all.sort_unstable();
        all.dedup();
        for bytes in all {
            self.copies.scratch.random_file(&file_name(bytes), bytes, content_seed ^ bytes)?;
        }
        Ok(())
    }

    fn sample(&mut self, cell: usize) -> Result<Sample, LabError> {
        let Stripes { stripes, is_shared, request, group } = &self.cells[cell];
        let bytes = self.sizes[group] / u64::from(*stripes);
        let file = self.file(bytes);
        let target = self.copies.scratch.path().join("discarded");
        warm_memory(64 << 20);
        let watch = Watch::begin();
        let copy = |stripe: u32| {
            let program = &self.programs[if *is_shared { 0 } else { stripe as usize }];
            let finished = program.copy(request, std::slice::from_ref(&file), &target)?;
            Ok((finished, Instant::now()))
        };
        let finished: Vec<(Finished, Instant)> = thread::scope(|scope| {
            let running: Vec<_> = (0..*stripes).map(|stripe| scope.spawn(move || copy(stripe))).collect();
            let ended = running.into_iter().map(|thread| {
                thread.join().unwrap_or_else(|_| Err(LabError::Unavailable("a stripe panicked".to_owned())))
            });
            ended.collect::<Result<_, _>>()
        })?;
        let mut copied = Copied { bytes: bytes * u64::from(*stripes), ..Copied::default() };
        let last = finished.iter().map(|(_, end)| *end).max();
        for (Finished { done, .. }, end) in &finished {
            copied.files += done.files;
            // The stripes do not begin at the same moment.
            let before_last = last.map_or(0.0, |last| last.duration_since(*end).as_secs_f64());
            copied.wall_seconds = copied.wall_seconds.max(done.seconds + before_last);
            copied.cpu_seconds += done.cpu_seconds.local;
        }
        copied.program_seconds = Some(copied.wall_seconds);
        copied.cpu_local_seconds = Some(copied.cpu_seconds);
        let tier = finished.first().map(|(finished, _)| finished.done.tier.clone()).unwrap_or_default();
        // Each stripe is a program that has ended by now, and its far end with it.
        Ok(Sample { tier, ..Sample::copied(copied, watch.is_disturbed(0.0)) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Profile;

    #[test]
    fn every_claim_is_about_cells_of_the_study() {
        let experiment = experiment(4, Profile::Quick.repetition());
        assert_eq!(experiment.claims.len(), 7);
        let is_cell = |place: &&Coordinates| {
            let has = |axis: &str| experiment.values(axis).contains(&place[axis]);
            ["protection", "links", "mode"].into_iter().all(has)
                && (place["links"] == "own" || !place["mode"].starts_with("S1"))
        };
        for claim in &experiment.claims {
            assert!(claim.shape.places().iter().all(is_cell), "{}", claim.statement);
        }
        assert!(claims(1).is_empty());
        // Four lanes are measured on any machine, and judged where each has a processor.
        let judged = |cores| claims(cores).iter().filter(|claim| claim.unjudged.is_none()).count();
        assert_eq!([2, 4, 8].map(judged), [4, 6, 7]);
        // Four stripes need four processors.
        assert_eq!([2, 4].map(|cores| modes(cores).count()), [4, 6]);
    }
}

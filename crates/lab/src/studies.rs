//! Every study of the papers that the lab repeats, by its id, and the function that runs it.
//!
//! Guarantees: an id names one study; a study is run by its family's function and never by parsed text; each part of
//! a family belongs to a study; cells that several studies share are measured once, and their time counts once.

use crate::LabError;
use crate::experiment::{ANY, Cell, Coordinates, Experiment, Measure, Outcome, Profile};
use crate::inventory::{ROWS, Row};
use crate::program::End;
use crate::report::Report;
use crate::request::{Copies, Request};
use crate::topology::Topology;
use serde::Serialize;
use std::collections::BTreeSet;
use std::io::Write;
use std::time::Duration;

/// Runs a request, and reports its progress.
pub type Run = fn(&Request, &mut dyn Write) -> Result<Report, LabError>;

/// Studies that one command runs.
#[derive(Debug)]
pub struct Family {
    /// Its name: short words after `sealane`.
    pub command: &'static str,
    /// The hardware, rights and programs that it needs, in words.
    pub needs: &'static str,
    /// Parts that can be requested one by one.
    pub parts: &'static [&'static str],
    /// The duration of its cells in the quick profile.
    pub costs: &'static [Cost],
    /// The studies that it repeats.
    pub studies: &'static [Study],
    /// The function that runs it.
    pub run: Run,
}

/// Cells that are measured once, whichever of some parts is requested.
#[derive(Clone, Copy, Debug)]
pub struct Cost {
    /// The parts; all of the family if empty.
    pub parts: &'static [&'static str],
    /// The approximate duration in the quick profile on two cores in seconds.
    pub seconds: u32,
    /// Whether each arrangement of hosts takes that long.
    pub is_for_each_topology: bool,
}

/// Returns the cost of the cells of these parts.
pub(crate) const fn cost(parts: &'static [&'static str], seconds: u32) -> Cost {
    Cost { parts, seconds, is_for_each_topology: false }
}

/// Returns the cost of the cells of these parts for each arrangement of hosts.
pub(crate) const fn cost_for_each_topology(parts: &'static [&'static str], seconds: u32) -> Cost {
    Cost { parts, seconds, is_for_each_topology: true }
}

/// One table, figure or claim of a paper.
#[derive(Clone, Copy, Debug)]
pub struct Study {
    /// The id, which is stable between versions.
    pub id: &'static str,
    /// The paper, by author and year.
    pub paper: &'static str,
    /// The question that the study answers.
    pub title: &'static str,
    /// The parts of its family that answer it; all if empty.
    pub parts: &'static [&'static str],
    /// The arrangements of hosts, if they matter; all if empty.
    pub topologies: &'static [Topology],
    /// Axes and the value on each that the study is about, where one table answers several studies.
    pub shows: &'static [(&'static str, &'static str)],
}

pub(crate) const NDSS: &str = "Nahum et al. 1996";
pub(crate) const GRIDFTP: &str = "Bresnahan et al. 2007";
pub(crate) const COSTS: &str = "Miltchev et al. 2002";
pub(crate) const OCF: &str = "Keromytis et al. 2003";
pub(crate) const NPCRYPTBENCH: &str = "Yue et al. 2006";
pub(crate) const ATOMIC: &str = "ISI 1995";
pub(crate) const OWN: &str = "beyond the papers";

/// Titles of papers that several families repeat.
pub(crate) const NDSS_TITLE: &str = "Nahum, Yates, O'Malley, Orman, Schroeppel: Parallelized Network Security Protocols \
    (NDSS 1996), on twelve MIPS R4400 of 100 MHz, packets of 4 KB";
pub(crate) const NPCRYPTBENCH_TITLE: &str =
    "Yue, Lin, Tan: NPCryptBench, a cryptographic benchmark suite for network processors (2006)";
pub(crate) const ATOMIC_TITLE: &str = "ATOMIC-2: fast security (ISI, 1995)";

/// The papers in the order of the list.
pub(crate) const PAPERS: [&str; 7] = [NDSS, GRIDFTP, COSTS, OCF, NPCRYPTBENCH, ATOMIC, OWN];

/// Returns the paper of an id.
pub fn paper_of(id: &str) -> &'static str {
    let is_numbered = id.len() > 1 && id[1..].bytes().all(|byte| byte.is_ascii_digit());
    match id.as_bytes().first() {
        Some(b'N') if is_numbered => NDSS,
        Some(b'G') if is_numbered => GRIDFTP,
        Some(b'R') if is_numbered => COSTS,
        Some(b'B') if is_numbered => NPCRYPTBENCH,
        Some(b'A') if is_numbered => ATOMIC,
        Some(b'O') if is_numbered => OCF,
        _ => OWN,
    }
}

/// Returns a study over all topologies.
pub(crate) const fn study(
    id: &'static str,
    paper: &'static str,
    title: &'static str,
    parts: &'static [&'static str],
) -> Study {
    Study { id, paper, title, parts, topologies: &[], shows: &[] }
}

impl Study {
    /// Returns the study, which is about one value of an axis.
    pub(crate) const fn showing(self, shows: &'static [(&'static str, &'static str)]) -> Self {
        Self { shows, ..self }
    }

    /// Returns whether a place is one of those that the study is about. Tests are named as the parts are.
    pub(crate) fn has(&self, place: &Coordinates) -> bool {
        let is = |(axis, value): &(&str, &str)| place.get(*axis).is_none_or(|own| own == value);
        let is_part = |test: &String| self.parts.is_empty() || self.parts.contains(&&**test) || test == ANY;
        self.shows.iter().all(is) && place.get("test").is_none_or(is_part)
    }

    /// Returns whether a title is about one of the study's arrangements of hosts. Titles end with them.
    pub(crate) fn is_in(&self, title: &str) -> bool {
        self.topologies.is_empty() || self.topologies.iter().any(|topology| title.ends_with(topology.name()))
    }
}

impl Family {
    /// Returns the family that this command runs.
    ///
    /// # Panics
    /// Panics if no family has this command.
    pub fn of(command: &str) -> &'static Self {
        let family = crate::FAMILIES.iter().copied().flatten().find(|family| family.command == command);
        family.expect("commands are those of the list")
    }

    /// Returns the words after `sealane` by which users run it.
    pub fn words(&self) -> String {
        match self.command.strip_prefix("lab ") {
            Some(name) if name != "quick" => format!("lab run {name}"),
            _ => self.command.to_owned(),
        }
    }

    /// Returns the approximate duration of these parts, all if there are none, in the quick profile in seconds.
    fn seconds(&self, only: &[impl AsRef<str>], topologies: usize) -> u32 {
        let is_asked = |cost: &&Cost| {
            let is_named = |part: &str| only.iter().any(|only| only.as_ref().eq_ignore_ascii_case(part));
            only.is_empty() || cost.parts.is_empty() || cost.parts.iter().any(|part| is_named(part))
        };
        let times = |cost: &Cost| if cost.is_for_each_topology { topologies as u32 } else { 1 };
        self.costs.iter().filter(is_asked).map(|cost| times(cost) * cost.seconds).sum()
    }
}

impl Study {
    /// Returns the arrangements of hosts that it runs by default.
    fn default_topologies(&self) -> &'static [Topology] {
        if self.topologies.is_empty() { &Topology::ALL } else { self.topologies }
    }
}

/// The basis of a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// The same was run here.
    Measured,
    /// Other runs here were so much faster or slower than on the machine of the estimates.
    Pace,
    /// The estimate, made on another machine with two cores.
    Elsewhere,
}

impl Basis {
    /// Returns the basis in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Measured => "measured here",
            Self::Pace => "by other runs here",
            Self::Elsewhere => "two cores elsewhere",
        }
    }
}

/// A study in a list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Listed {
    /// The study's id.
    pub id: &'static str,
    /// The study's paper.
    pub paper: &'static str,
    /// The study's title.
    pub title: &'static str,
    /// The words after `sealane` that also run it.
    pub command: String,
    /// The study's duration in seconds.
    pub seconds: u32,
    /// The basis of the duration.
    pub basis: Basis,
    /// The hardware, rights and programs that it needs, in words.
    pub needs: &'static str,
    /// The words after `sealane` that measure a claim of it again in ten minutes at most; where all arrangements of hosts take
    /// longer, those of one.
    pub again: String,
    /// The seconds of that, if it is not all of the study.
    pub again_seconds: Option<u32>,
}

/// Returns every study with its family, paper by paper.
fn all() -> Vec<(&'static Family, &'static Study)> {
    let families = crate::FAMILIES.iter().copied().flatten();
    let mut all: Vec<_> =
        families.flat_map(|family| family.studies.iter().map(move |study| (family, study))).collect();
    all.sort_by_key(|(_, study)| PAPERS.iter().position(|paper| *paper == study.paper));
    all
}

/// The most seconds in which a claim should be measured again.
const AGAIN_SECONDS_MAX: u32 = 600;

/// Returns every study, paper by paper, with the time that is estimated for it.
pub fn listed() -> Vec<Listed> {
    let listed = |(family, study): (&Family, &Study)| {
        let mut command = family.words();
        let topologies: Vec<&str> = study.topologies.iter().map(|topology| topology.name()).collect();
        for (option, values) in [("--topology", &topologies[..]), ("--only", study.parts)] {
            if !values.is_empty() {
                command += &format!(" {option} {}", values.join(","));
            }
        }
        let Study { id, paper, title, .. } = *study;
        let seconds = family.seconds(study.parts, study.default_topologies().len());
        let basis = Basis::Elsewhere;
        let hosts = match study.default_topologies() {
            [first, _, ..] if seconds > AGAIN_SECONDS_MAX => format!(" --topology {}", first.name()),
            _ => String::new(),
        };
        let again_seconds = (!hosts.is_empty()).then(|| family.seconds(study.parts, 1));
        let again = format!("lab run {id}{hosts}");
        let needs = family.needs;
        Listed { id, paper, title, command, seconds, basis, needs, again, again_seconds }
    };
    all().into_iter().map(listed).collect()
}

/// Returns the papers' rows that have no study, in the papers' order.
pub fn absent() -> impl Iterator<Item = &'static Row> {
    ROWS.iter().filter(|row| find(row.id).is_none())
}

/// Returns the ids in a list such as "G11–G13, G18", with all ids of its ranges.
pub(crate) fn covered(covers: &str) -> Vec<String> {
    let number = |id: &str| Some((id.get(..1)?.to_owned(), id.get(1..)?.parse::<u16>().ok()?));
    let ids = |piece: &str| match piece.split_once('–').map(|(first, last)| (number(first), number(last))) {
        Some((Some((paper, first)), Some((other, last)))) if paper == other => {
            (first..=last).map(|at| format!("{paper}{at}")).collect()
        }
        _ => vec![piece.to_owned()],
    };
    covers.split([',', ';', ' ']).filter(|piece| !piece.is_empty()).flat_map(ids).collect()
}

/// Returns the list of the papers' rows without a study for display.
pub fn absent_table() -> Outcome {
    let columns = ["id", "the paper's row", "why it has no study"];
    let experiment =
        Experiment::new("absent", "", "Rows of the papers without a study", &columns, Vec::new());
    let cell = |row: &Row| Cell::new(columns.into_iter().zip([row.id, row.says, row.absent]));
    Outcome::new(experiment, absent().map(cell).collect())
}

/// Algorithms that one could look for in the catalogue, and why they are not there.
const LEFT_OUT: [(&str, &str); 6] = [
    ("AEGIS", "No protocol that is here has it, and AES-GCM side by side reaches its rate."),
    ("Ascon", "It is for devices without instructions for AES; no protocol that is here has it."),
    ("AES-XTS", "It is for disks, whose systems have it; packets and files are authenticated here."),
    ("AES-GCM-SIV", "No protocol that is here has it; nonces do not repeat."),
    ("X448", "ML-KEM beside X25519 or P-384 protects longer, and costs less."),
    ("SLH-DSA", "Signatures of 8 to 50 KB that take milliseconds; for firmware, which is not signed here."),
];

/// Returns the list of algorithms that are left out on purpose for display.
pub fn left_out_table() -> Outcome {
    let columns = ["algorithm", "why it is not in the catalogue"];
    let experiment =
        Experiment::new("left-out", "", "Algorithms that are left out on purpose", &columns, Vec::new());
    let cell = |(name, reason)| Cell::new(columns.into_iter().zip([name, reason]));
    Outcome::new(experiment, LEFT_OUT.into_iter().map(cell).collect())
}

/// Returns a list of studies for display.
pub fn table(listed: Vec<Listed>) -> Outcome {
    let columns = ["id", "paper", "what", "sealane ..."];
    let measures = vec![Measure::count("seconds", "about, s"), Measure::new("basis", "which is")];
    let experiment = Experiment::new("studies", "", "Studies", &columns, measures).notes(&[
        "The papers' studies that `sealane lab run ID...` repeats here; a time is that of the quick profile, as \
         runs took it here, or as it is estimated.",
    ]);
    let cell = |study: Listed| {
        let place = columns.into_iter().zip([study.id, study.paper, study.title, &study.command]);
        Cell::new(place).with("seconds", f64::from(study.seconds)).with("basis", study.basis.words())
    };
    Outcome::new(experiment, listed.into_iter().map(cell).collect())
}

/// Returns the ids, in order.
pub fn ids() -> Vec<&'static str> {
    all().into_iter().map(|(_, study)| study.id).collect()
}

/// Returns the study of an id.
pub(crate) fn find(id: &str) -> Option<&'static Study> {
    all().into_iter().map(|(_, study)| study).find(|study| study.id == id)
}

/// One run of a family, which answers one or more studies.
#[derive(Clone, Debug)]
pub struct Planned {
    /// The family whose command is run.
    pub family: &'static Family,
    /// The request, with the parts that are needed.
    pub request: Request,
    /// The name of the run's files, which differs between runs of one family.
    pub name: String,
    /// The approximate duration in the quick profile in seconds.
    pub seconds: u32,
}

/// Returns the runs that answer all studies. In a short profile tunnels are measured between two hosts, and elsewhere
/// only where a study is about that; and copies with one end measured, as the study of threads and streams had a machine for
/// each end. The first command of new users has the time for three rounds beside all installed tools.
pub fn everything(request: &Request) -> Vec<Planned> {
    if !matches!(request.profile, Profile::Smoke | Profile::Quick) {
        return runs(&ids(), request);
    }
    let limit = Duration::from_secs(if request.profile == Profile::Smoke { 60 } else { 210 });
    let ends = vec![End::Send, End::Receive];
    let copies = Copies { ends, limit, ..request.copies.clone() };
    let mut runs = runs(&ids(), &Request { copies, ..request.clone() });
    for run in &mut runs {
        let is_by_topology = run.family.costs.iter().any(|cost| cost.is_for_each_topology);
        if is_by_topology && run.request.hosts.topologies == request.hosts.topologies {
            run.request.hosts.topologies = vec![Topology::HostHost];
            run.seconds = run.family.seconds(&run.request.only, 1);
        }
    }
    runs
}

/// Returns the runs that answer the studies of `ids`, each once. Unknown ids are skipped.
pub fn runs(ids: &[impl AsRef<str>], request: &Request) -> Vec<Planned> {
    let is_asked = |study: &Study| ids.iter().any(|id| id.as_ref().eq_ignore_ascii_case(study.id));
    let mut runs: Vec<(&Family, &[Topology], Vec<&Study>)> = Vec::new();
    for (family, study) in all().into_iter().filter(|(_, study)| is_asked(study)) {
        let is_same = |(other, topologies, _): &&mut (&Family, &[Topology], Vec<&Study>)| {
            other.command == family.command && *topologies == study.topologies
        };
        match runs.iter_mut().find(is_same) {
            Some((.., studies)) => studies.push(study),
            None => runs.push((family, study.topologies, vec![study])),
        }
    }
    let run = |(family, topologies, studies): (&'static Family, &[Topology], Vec<&Study>)| {
        let mut request = request.clone();
        if studies.iter().all(|study| !study.parts.is_empty()) {
            request.only =
                studies.iter().flat_map(|study| study.parts).map(|&part| part.to_owned()).collect();
            // Studies of the same parts are measured once.
            let mut seen = BTreeSet::new();
            request.only.retain(|part| seen.insert(part.clone()));
        }
        if !topologies.is_empty() {
            let asked = |topology: &Topology| request.hosts.topologies.contains(topology);
            let both: Vec<Topology> = topologies.iter().copied().filter(asked).collect();
            request.hosts.topologies = if both.is_empty() { topologies.to_vec() } else { both };
        }
        let mut name = format!("sealane-{}", family.command.replace("lab ", "").replace(" --", "-"));
        topologies.iter().for_each(|topology| name += &format!("-{}", topology.name()));
        let seconds = family.seconds(&request.only, request.hosts.topologies.len());
        Planned { family, request, name, seconds }
    };
    runs.into_iter().map(run).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_names_one_study_and_every_part_has_one() {
        let ids = ids();
        for (index, id) in ids.iter().enumerate() {
            assert!(!ids[..index].contains(id), "{id} twice");
        }
        for family in crate::FAMILIES.iter().copied().flatten() {
            assert_eq!(Family::of(family.command).command, family.command);
            let told: Vec<&str> = family.studies.iter().flat_map(|study| study.parts).copied().collect();
            for part in family.parts {
                assert!(told.contains(part), "{}: {part} is not listed", family.command);
            }
            assert!(told.iter().all(|part| family.parts.contains(part)), "{told:?}");
            let paid: Vec<&str> = family.costs.iter().flat_map(|cost| cost.parts).copied().collect();
            assert!(paid.iter().all(|part| family.parts.contains(part)), "{paid:?}");
            let is_paid =
                |part: &&str| paid.contains(part) || family.costs.iter().any(|cost| cost.parts.is_empty());
            assert!(family.parts.iter().all(is_paid), "{}: {paid:?}", family.command);
            assert!(family.seconds(&[""; 0], 1) > 0, "{}", family.command);
        }
        assert!(all().iter().all(|(_, study)| PAPERS.contains(&study.paper)));
    }

    /// The plan of everything has no cell twice, and ends in time: 40 minutes on two cores.
    #[test]
    fn everything_takes_forty_minutes() {
        let request = Request { profile: Profile::Quick, ..Request::default() };
        let runs = everything(&request);
        let seconds: u32 = runs.iter().map(|run| run.seconds).sum();
        let each: Vec<(&str, u32)> = runs.iter().map(|run| (&*run.name, run.seconds)).collect();
        assert!(seconds <= 40 * 60, "{seconds} s: {each:?}");
        let whole = Request { profile: Profile::Full, ..request };
        let tunnel = |request: &Request| {
            let runs = everything(request);
            runs.into_iter().find(|run| run.name == "sealane-tunnel").unwrap().request.hosts.topologies.len()
        };
        assert_eq!((tunnel(&Request { profile: Profile::Quick, ..whole.clone() }), tunnel(&whole)), (1, 4));
    }

    /// Whoever doubts a claim measures it again by one command in ten minutes at most.
    #[test]
    fn every_claim_is_measured_again_in_ten_minutes() {
        for (family, study) in all() {
            let one = family.seconds(study.parts, 1);
            assert!(one <= AGAIN_SECONDS_MAX, "{}: {one} s", study.id);
        }
        let again = |id: &str| listed().into_iter().find(|study| study.id == id).unwrap().again;
        assert_eq!([again("N26"), again("R13")], ["lab run N26", "lab run R13 --topology host-host"]);
    }

    /// Studies of the same cells cost what one of them costs.
    #[test]
    fn shared_cells_are_paid_once() {
        let seconds =
            |ids: &[&str]| -> u32 { runs(ids, &Request::default()).iter().map(|run| run.seconds).sum() };
        assert_eq!(seconds(&["G10", "G11", "G12", "G13"]), seconds(&["G12"]));
        assert_eq!(seconds(&["R18", "R19"]), seconds(&["R18"]));
        assert!(seconds(&["N26", "N28", "N33"]) < seconds(&["N26"]) + seconds(&["N28"]) + seconds(&["N33"]));
        assert!(seconds(&["G11", "G16"]) > seconds(&["G11"]));
    }

    #[test]
    fn ranges_of_ids_hold_what_lies_between() {
        assert_eq!(covered("G11–G13, G18; beyond"), ["G11", "G12", "G13", "G18", "beyond"]);
        assert_eq!(covered("providers"), ["providers"]);
        assert!(covered("").is_empty());
    }

    #[test]
    fn studies_of_one_command_run_together() {
        let words = |ids: &[&str]| -> Vec<String> {
            let runs = runs(ids, &Request::default());
            runs.iter().map(|run| format!("{} {}", run.family.command, run.request.only.join(","))).collect()
        };
        assert_eq!(words(&["n26", "B16", "N34", "B18"]), ["lab stacks N26,N34", "lab network-processor "]);
        assert_eq!(
            words(&["B21", "B8", "A2"]),
            ["lab network-processor --compilers ", "speed --story tables,caches"]
        );
        assert!(words(&["X1"]).is_empty());
        let runs = runs(&["R10", "R14"], &Request::default());
        assert_eq!(runs.iter().map(|run| run.request.hosts.topologies.len()).collect::<Vec<_>>(), [2, 4]);
        // No run overwrites the files of another one.
        let names: Vec<String> = runs.iter().map(|run| run.name.clone()).collect();
        assert_eq!(names, ["sealane-tunnel-road-warrior-road-warrior-ends", "sealane-tunnel"]);
        let r10 = listed().into_iter().find(|study| study.id == "R10").unwrap();
        assert_eq!(r10.command, "lab run tunnel --topology road-warrior,road-warrior-ends --only tcp1,rtt");
    }
}

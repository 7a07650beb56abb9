//! Measures the cost of IPsec (Miltchev, Ioannidis, Keromytis: “A Study of the Relative Costs of Network Security
//! Protocols”, 2002), on this machine, through our gateways.
//!
//! Guarantees: all tunnels of a topology exist at once and take turns run by run; every run is kept; parts that
//! cannot be measured here are named.

mod components;
mod foreign;
mod net;
mod traffic;

use crate::LabError;
use crate::experiment::{
    Cell, Claim, Coordinates, Drawn, Experiment, Measure, Outcome, Plan, Plot, Profile, Repetition, Role,
    Sample, Sampler, View, at, derive, find,
};
use crate::peers::Workload;
use crate::report::Report;
use crate::request::Request;
use crate::scratch::Scratch;
use crate::studies::{ATOMIC, COSTS, Family, Study, study};
use net::{Between, Net};
use std::io::Write;
use std::time::Instant;
use traffic::{Test, Traffic};

pub use net::Topology;
pub use traffic::TESTS;

/// The family of `sealane lab tunnel`.
pub(crate) const FAMILIES: &[Family] =
    &[Family { command: "lab tunnel", parts: &TESTS, studies: STUDIES, run }];

const STUDIES: &[Study] = &[
    Study {
        topologies: &[Topology::RoadWarrior, Topology::RoadWarriorEnds],
        ..study(
            "R10",
            COSTS,
            "three hosts on links of 100 Mb/s: associations with the gateway and with the last host",
            &["tcp1", "rtt"],
            300,
        )
    },
    study(
        "R11",
        COSTS,
        "four of five variables: what is run, algorithm, topology, lanes or not",
        &["tcp1", "tiny", "large"],
        900,
    ),
    study("R12", COSTS, "no encryption, AES by key length, DES, 3DES", &["ttcp-8192"], 600),
    study(
        "R13",
        COSTS,
        "ttcp from host to host and between gateways, by suite and size of writes",
        &["ttcp-64", "ttcp-512", "ttcp-1024", "ttcp-1470", "ttcp-8192"],
        900,
    ),
    study(
        "R14",
        COSTS,
        "the same tunnels with TCP, UDP and pings of today",
        &["tcp1", "tcp4", "udp1400", "udp64", "rtt", "rtt-loaded"],
        900,
    ),
    study("R16", COSTS, "200 MB by HTTP, by HTTPS, and by HTTP through tunnels", &["large"], 600),
    study("R17", COSTS, "1,000 tiny transfers: clear, through tunnels, HTTPS", &["tiny"], 900),
    study("R22", COSTS, "faster networks: what remains of clear, by suite", &["tcp1", "tcp4"], 600),
    study("A10", ATOMIC, "AH by components: header, touching, arithmetic", &["ah"], 10),
];

/// The connections between the hosts, by their names in results.
pub const PEERS: [&str; 7] =
    [CLEAR.0, HTTPS.0, "sealane-native", "sealane", "wireguard-go", "libipsec", "openvpn"];

/// The default suite of a site file, which protects most users' packets.
pub const DEFAULT_SUITE: &str = "aes-256-gcm";

const CLEAR: (&str, &str) = ("clear", "no encryption");
/// HTTPS beside tunnels: no tunnel, and only the tests of web servers.
const HTTPS: (&str, &str) = ("https", "tls-1.3");
/// The tunnel that others are compared with, and its one algorithm.
const RIVAL: (&str, &str) = ("wireguard-go", "chacha20-poly1305");

/// The paper.
const PAPER: &str =
    "Miltchev, Ioannidis, Keromytis: A Study of the Relative Costs of Network Security Protocols (2002)";

/// The study's algorithms as in its time, one packet after another; the same in lanes; and present-day ones: the peer
/// in results, the suite, the length of its key material, the tier that is forced.
const UNITS: [(&str, &str, usize, Option<&str>); 10] = [
    ("sealane-native", "aes-128-cbc+hmac-sha1-96", 36, Some("native")),
    ("sealane-native", "aes-192-cbc+hmac-sha1-96", 44, Some("native")),
    ("sealane-native", "aes-256-cbc+hmac-sha1-96", 52, Some("native")),
    ("sealane-native", "des-cbc+hmac-sha1-96", 28, Some("native")),
    ("sealane-native", "3des-cbc+hmac-sha1-96", 44, Some("native")),
    ("sealane", "aes-128-cbc+hmac-sha1-96", 36, None),
    ("sealane", "3des-cbc+hmac-sha1-96", 44, None),
    ("sealane", "aes-128-gcm", 20, None),
    ("sealane", "aes-256-gcm", 36, None),
    ("sealane", "chacha20-poly1305", 36, None),
];

/// Returns the length of the key material of one of the study's suites in bytes.
fn material_bytes(suite: &str) -> Option<usize> {
    UNITS.iter().find(|unit| unit.1 == suite).map(|unit| unit.2)
}

/// Returns all connections between the hosts, with their suites.
fn betweens(foreign: &[foreign::Peer]) -> Vec<(&'static str, &'static str, Between)> {
    let mut between = vec![(CLEAR.0, CLEAR.1, Between::Clear), (HTTPS.0, HTTPS.1, Between::Clear)];
    between.extend(UNITS.map(|(peer, suite, _, tier)| (peer, suite, Between::Ours { suite, tier })));
    between.extend(foreign.iter().map(|peer| (peer.name, peer.suite, Between::Foreign(peer.kind.clone()))));
    between
}

/// Returns the number of runs of each test in the profile, and the seconds of a run.
fn rounds_and_seconds(request: &Request) -> (usize, u32) {
    let (rounds, seconds) = match request.profile {
        Profile::Smoke => (1, 1),
        Profile::Quick => (3, 2),
        Profile::Full => (10, 10),
        Profile::Paper => (10, 30),
    };
    (request.rounds.unwrap_or(rounds), request.seconds.unwrap_or(seconds))
}

/// Runs the requested tests.
fn run(request: &Request, progress: &mut dyn Write) -> Result<Report, LabError> {
    let began = Instant::now();
    let (rounds, seconds) = rounds_and_seconds(request);
    let repetition = Repetition { rounds, centre: request.profile.centre(), ..Repetition::default() };
    let summary = "The 2002 study of the relative costs of network security protocols, through our gateways, between \
                   namespaces of this machine.";
    let mut report = Report {
        profile: Some(request.profile),
        sources: vec![PAPER.to_owned()],
        ..Report::new("sealane lab tunnel", "What IPsec costs", summary, Vec::new())
    };
    let mut tests: Vec<Test> =
        TESTS.iter().filter(|test| request.wants(&[test])).filter_map(|test| Test::of(test)).collect();
    if !tests.is_empty() {
        net::missing(&request.surroundings)?;
        let absent = traffic::missing_for_web(&request.surroundings);
        if let Some(why) = absent.filter(|_| tests.iter().any(Test::is_web)) {
            report.skipped.push(format!("tiny, large: {why}"));
            tests.retain(|test| !test.is_web());
        }
        let (foreign, why): (Vec<_>, Vec<_>) = foreign::peers().into_iter().partition(Result::is_ok);
        report.skipped.extend(why.into_iter().filter_map(Result::err));
        let foreign: Vec<foreign::Peer> = foreign.into_iter().flatten().collect();
        let versions: Vec<String> =
            foreign.iter().map(|peer| format!("{}: {}", peer.name, peer.version)).collect();
        report
            .skipped
            .push("columns of the study with cryptographic cards: they belong to the engine".to_owned());
        for &topology in &request.topologies {
            let asked = Asked { request, tests: &tests, seconds, repetition, versions: versions.join("; ") };
            report.outcomes.extend(asked.through(topology, &foreign, progress)?);
        }
    }
    if request.wants(&["ah"]) {
        report.outcomes.extend(components::outcomes(
            request,
            Repetition { rounds: rounds.max(5), ..repetition },
            progress,
        )?);
    }
    report.seconds = began.elapsed().as_secs_f64();
    Ok(report)
}

/// State that all topologies share.
struct Asked<'a> {
    request: &'a Request,
    tests: &'a [Test],
    seconds: u32,
    repetition: Repetition,
    versions: String,
}

/// The axes of every table: the connection between the hosts, its suite, and the test.
const AXES: [&str; 3] = ["between", "suite", "test"];

impl Asked<'_> {
    /// Measures every tunnel of a topology, in turns.
    fn through(
        &self,
        topology: Topology,
        foreign: &[foreign::Peer],
        progress: &mut dyn Write,
    ) -> Result<Vec<Outcome>, LabError> {
        let request = self.request;
        let scratch = Scratch::create(&request.surroundings, None, 2 * traffic::LARGE_BYTES)?;
        let workload = self.tests.iter().any(Test::is_web).then(|| {
            let file = scratch.random_file("large", traffic::LARGE_BYTES, request.seed)?;
            Workload::new(&file, &scratch.path().join("target"))
        });
        let mut runs = Runs {
            seconds: self.seconds,
            nets: Vec::new(),
            cells: Vec::new(),
            workload: workload.transpose()?,
            request,
        };
        let (mut skipped, mut places) = (Vec::new(), Vec::new());
        let program = request.program()?;
        let is_asked =
            |peer: &str| request.between.is_empty() || request.between.iter().any(|asked| asked == peer);
        for (peer, suite, between) in betweens(foreign).into_iter().filter(|(peer, ..)| is_asked(peer)) {
            let is_tls = peer == HTTPS.0;
            let tests: Vec<&Test> = self.tests.iter().filter(|test| !is_tls || test.is_web()).collect();
            if tests.is_empty() {
                continue;
            }
            match Net::up(&program.path, scratch.path(), topology, &between).and_then(traffic::carries) {
                Ok(net) => {
                    for test in tests {
                        places.push(at(AXES.into_iter().zip([peer, suite, test.name])));
                        runs.cells.push((runs.nets.len(), *test, is_tls));
                    }
                    runs.nets.push(net);
                }
                Err(error) => skipped.push(format!("{peer}, {suite}, {}: {error}", topology.name())),
            }
        }
        let experiment = Experiment {
            id: topology.name().to_owned(),
            repetition: self.repetition,
            ..Experiment::default()
        };
        let plan = Plan { experiment, places, seed: request.seed, ..Plan::default() };
        let cells = plan.measure(&mut runs, progress)?;
        let failed = cells.iter().filter_map(|cell| {
            Some(format!(
                "{}, {}, {}: {}",
                cell.at["between"],
                cell.at["suite"],
                cell.at["test"],
                cell.failure.as_ref()?
            ))
        });
        skipped.extend(failed);
        let mut outcomes = outcomes(&cells, topology, &self.versions);
        if let Some(first) = outcomes.first_mut() {
            first.skipped = skipped;
        }
        for outcome in &mut outcomes {
            (outcome.seed, outcome.experiment.repetition) = (request.seed, self.repetition);
        }
        Ok(outcomes)
    }
}

/// Takes the samples of a topology.
struct Runs<'a> {
    request: &'a Request,
    seconds: u32,
    nets: Vec<Net>,
    /// The net, the test, and the use of TLS of each cell.
    cells: Vec<(usize, Test, bool)>,
    workload: Option<Workload>,
}

impl Sampler for Runs<'_> {
    fn sample(&mut self, cell: usize) -> Result<Sample, LabError> {
        let (net, test, is_tls) = self.cells[cell];
        let traffic = Traffic {
            net: &self.nets[net],
            seconds: self.seconds,
            surroundings: &self.request.surroundings,
            workload: self.workload.as_ref(),
            is_tls,
        };
        traffic.run(test)
    }
}

/// The paper's rates as a share of clear: the test, and the factor.
const PUBLISHED: [(&str, f64); 4] =
    [("ttcp-64", 0.4), ("ttcp-512", 0.4), ("ttcp-8192", 0.3), ("tiny", 1.0 / 1.1)];

fn experiment(id: &str, title: &str, measure: Measure, notes: &[&str]) -> Experiment {
    let notes: Vec<&str> = notes.iter().copied().filter(|note| !note.is_empty()).collect();
    let view = View::pivot(&AXES[..2], AXES[2], &measure.id);
    let plot = Plot::new(Drawn::Bars, AXES[2], &measure.id, &AXES[..2]);
    let experiment = Experiment::new(id, "R10–R14, R16, R17, R22", title, &AXES, vec![measure]);
    Experiment { paper: PAPER.to_owned(), ..experiment.notes(&notes).shown(view, vec![plot]) }
}

/// Returns the results, a table per unit; the shares of clear; and our tunnels beside the rival's.
fn outcomes(cells: &[Cell], topology: Topology, versions: &str) -> Vec<Outcome> {
    let place = topology.name();
    let mut outcomes = Vec::new();
    for (id, what, measure) in [
        (
            "throughput",
            "What protection leaves of throughput",
            Measure::new("gbit_per_s", "Gb/s").unit("Gb/s"),
        ),
        ("packets", "Datagrams and tiny files", Measure::new("packets_per_s", "a second").unit("a second")),
        ("round-trips", "What protection adds to round trips", Measure::cost("rtt_us", "µs", "µs")),
    ] {
        let has_it = |cell: &&Cell| Test::of(&cell.at["test"]).is_some_and(|test| test.measure == measure.id);
        let own: Vec<Cell> =
            cells.iter().filter(has_it).filter(|cell| !cell.samples.is_empty()).cloned().collect();
        let notes = [
            "sealane-native runs one packet after another, as the study's machines did; sealane takes batches. Of several hosts \
             the sum.",
            versions,
        ];
        outcomes.push(Outcome::new(experiment(id, &format!("{what}, {place}"), measure, &notes), own));
    }
    let is_clear = |cell: &Cell| cell.at["between"] == CLEAR.0;
    let clear = |cell: &Cell| {
        let test = &cell.at["test"];
        find(cells, &at(AXES.into_iter().zip([CLEAR.0, CLEAR.1, test])))
    };
    let share = |cell: &Cell| {
        let share = derive::over(cell, clear(cell)?, Test::of(&cell.at["test"])?.measure)?;
        Some(Cell { at: cell.at.clone(), ..Cell::default() }.with("share", share))
    };
    let mut shares: Vec<Cell> = cells.iter().filter(|cell| !is_clear(cell)).filter_map(share).collect();
    let is_measured = |test: &str| shares.iter().any(|cell| cell.at["test"] == test);
    let published: Vec<Cell> = PUBLISHED
        .iter()
        // The paper's statement covers two hosts and two gateways.
        .filter(|(test, _)| is_measured(test) && [Topology::HostHost, Topology::Gateways].contains(&topology))
        .map(|&(test, share)| {
            let place = AXES.into_iter().zip(["the study of 2002", "software IPsec", test]);
            Cell::new(place).with("share", share).of_role(Role::Own)
        })
        .collect();
    let mut parts = experiment(
        "tunnels-in-parts",
        &format!("In parts of clear, {place}"),
        Measure::times("share", ""),
        &[
            "The paper's claim is a share of what goes through without protection, and that is compared: through software IPsec \
             ttcp reaches 40 % of clear with small and 30 % with 8 KB writes; tiny files take 10 % longer.",
        ],
    );
    parts.claims = shares.iter().flat_map(|cell| claims(cell, &published)).collect();
    shares.extend(published);
    outcomes.push(Outcome::new(parts, shares));
    let notes = [
        "Ours over the other's: the default suite first, then AES-128-GCM, then the other's own algorithm. Of rtt less is more.",
    ];
    let title = format!("Beside {}, {place}", RIVAL.0);
    let beside = experiment("tunnels-beside", &title, Measure::times("times", ""), &notes);
    outcomes.insert(0, Outcome::new(beside, beside_rival(cells)));
    outcomes.retain(|outcome| !outcome.cells.is_empty());
    outcomes
}

/// Returns the claim of the paper about one of its suites as its machines ran them, within a tenth.
fn claims(cell: &Cell, published: &[Cell]) -> Option<Claim> {
    let test = &cell.at["test"];
    let share = published.iter().find(|row| row.at["test"] == *test)?.figure("share")?;
    let (between, suite) = (&*cell.at["between"], &*cell.at["suite"]);
    let statement = format!("{test}, {suite}: software IPsec leaves {share:.2} of clear, within 10 %");
    let bounds = (Some(0.9 * share), Some(1.1 * share));
    let claim = || Claim::bound((statement, "R13–R17"), "share", cell.at.clone(), bounds);
    (between == "sealane-native").then(claim)
}

/// Returns our tunnels over the rival's, suite by suite as users have them, the default first.
fn beside_rival(cells: &[Cell]) -> Vec<Cell> {
    let of = |peer: &str, suite: &str, test: &Test| {
        let place: Coordinates = at(AXES.into_iter().zip([peer, suite, test.name]));
        find(cells, &place)
    };
    let mut beside = Vec::new();
    for suite in [DEFAULT_SUITE, "aes-128-gcm", RIVAL.1] {
        for test in TESTS.iter().filter_map(|test| Test::of(test)) {
            let (Some(own), Some(rival)) = (of("sealane", suite, &test), of(RIVAL.0, RIVAL.1, &test)) else {
                continue;
            };
            let name =
                if suite == DEFAULT_SUITE { format!("{suite}, the default") } else { suite.to_owned() };
            let place = [("between", "sealane"), ("suite", &*name), ("test", test.name)];
            beside.push(Cell::new(place).with_some("times", derive::over(own, rival, test.measure)));
        }
    }
    beside
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_show_medians_parts_of_clear_and_the_papers_claim() {
        let cell = |peer, suite, rates: [f64; 5]| Cell {
            samples: rates.iter().map(|rate| Sample::slice("gbit_per_s", *rate, 0)).collect(),
            ..Cell::new(AXES.into_iter().zip([peer, suite, "ttcp-64"]))
        };
        let rates = [8.0, 9.9, 10.0, 10.1, 400.0];
        let parts = |by: f64| rates.map(|rate| rate / by);
        let cells = [
            cell("clear", "no encryption", rates),
            cell("sealane-native", "3des-cbc+hmac-sha1-96", [1.0, 1.01, 1.02, 1.03, 1.04]),
            cell("sealane", "aes-128-gcm", parts(2.0)),
            cell("sealane", "aes-256-gcm", parts(2.5)),
            cell("wireguard-go", "chacha20-poly1305", parts(5.0)),
        ];
        let outcomes = outcomes(&cells, Topology::HostHost, "");
        let text: String =
            outcomes.iter().map(|outcome| crate::report::outcome_text(outcome, None)).collect();
        let rows: Vec<String> =
            text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        for row in [
            "clear no encryption 10.0",
            "sealane aes-128-gcm 5.00",
            "sealane aes-128-gcm 0.50",
            "sealane aes-256-gcm, the default 2.00",
            "sealane aes-128-gcm 2.50",
            "the study of 2002 software IPsec 0.40",
        ] {
            assert_eq!(rows.iter().filter(|found| *found == row).count(), 1, "{row}: {text}");
        }
        let parts = outcomes.last().unwrap();
        assert_eq!(parts.claims.len(), 1);
        assert_eq!(parts.claims[0].verdict, crate::experiment::Verdict::DoesNotHold, "{:?}", parts.claims);
    }
}

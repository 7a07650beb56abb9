//! Measures the cost of IPsec (Miltchev, Ioannidis, Keromytis: “A Study of the Relative Costs of Network Security
//! Protocols”, 2002), on this machine, through our gateways.
//!
//! Guarantees: all tunnels of a topology exist at once and take turns run by run; every run is kept; parts that
//! cannot be measured here are named.

pub(crate) mod between;
mod claims;
mod components;
mod delays;
mod foreign;
pub(crate) mod net;
mod null;
pub(crate) mod traffic;

use crate::LabError;
use crate::experiment::{
    Cell, Coordinates, Drawn, Experiment, Measure, Outcome, Plan, Plot, Profile, Repetition, Sample, Sampler,
    View, at, derive, find,
};
use crate::peers::Workload;
use crate::report::Report;
use crate::request::Request;
use crate::scratch::Scratch;
use crate::studies::{self, ATOMIC, COSTS, Cost, Family, Study, cost, cost_for_each_topology, study};
use between::{Between, Keys, Ours};
use delays::LOADS;
use net::Net;
use std::io::Write;
use std::time::Instant;
use traffic::{Test, Traffic};

pub use crate::topology::Topology;
pub use null::run as run_null;
pub use traffic::TESTS;

/// The family of `sealane lab tunnel`.
pub(crate) const FAMILIES: &[Family] = &[Family {
    command: "lab tunnel",
    needs: "root, namespaces and TUN devices, iperf3",
    parts: &PARTS,
    costs: PARTS_COSTS,
    studies: STUDIES,
    run,
}];

/// The time to start all tunnels, then that of the tests through those connections that a short profile asks for.
const PARTS_COSTS: &[Cost] = &[
    // AH alone, the last one, is run in memory.
    cost_for_each_topology(TESTS.split_at(TESTS.len() - 1).0, 15),
    cost_for_each_topology(&["ttcp-64"], 60),
    cost_for_each_topology(&["ttcp-512"], 25),
    cost_for_each_topology(&["ttcp-1024"], 25),
    cost_for_each_topology(&["ttcp-1470"], 25),
    cost_for_each_topology(&["ttcp-8192"], 60),
    cost_for_each_topology(&["tcp1"], 50),
    cost_for_each_topology(&["tcp4"], 24),
    // A short profile searches rates only through connections that the request names.
    cost_for_each_topology(&["tcp1-no-segmentation", "no-loss1400", "no-loss64"], 17),
    cost_for_each_topology(&["udp1400"], 24),
    cost_for_each_topology(&["udp64"], 24),
    cost_for_each_topology(&["rtt"], 20),
    cost_for_each_topology(&["rtt-loaded"], 24),
    cost_for_each_topology(&["tiny"], 15),
    cost_for_each_topology(&["large"], 12),
    cost(&["ah"], 10),
    // A short profile has the other loads through connections that the request names.
    cost(&["loaded"], 25),
    cost(&["loaded-32", "loaded-flood"], 1),
];

/// The names of all tests.
const PARTS: [&str; TESTS.len() + LOADS.len()] = {
    let mut parts = [""; TESTS.len() + LOADS.len()];
    let mut at = 0;
    while at < parts.len() {
        parts[at] = if at < TESTS.len() { TESTS[at] } else { LOADS[at - TESTS.len()] };
        at += 1;
    }
    parts
};

const STUDIES: &[Study] = &[
    Study {
        topologies: &[Topology::RoadWarrior, Topology::RoadWarriorEnds],
        ..study(
            "R10",
            COSTS,
            "three hosts on links of 100 Mb/s: associations with the gateway and with the last host",
            &["tcp1", "rtt"],
        )
    },
    study(
        "R11",
        COSTS,
        "the five variables: what is run, algorithm, topology, hardware (a simulated card) or not, CPU time beside",
        &["tcp1", "tiny", "large"],
    ),
    study(
        "R12",
        COSTS,
        "no encryption, AES by key length, DES, 3DES, both with a simulated card too",
        &["ttcp-8192"],
    ),
    study(
        "R13",
        COSTS,
        "ttcp from host to host and between gateways, by suite and size of writes",
        &["ttcp-64", "ttcp-512", "ttcp-1024", "ttcp-1470", "ttcp-8192"],
    ),
    study(
        "R14",
        COSTS,
        "the same tunnels with TCP, UDP and pings of today",
        &["tcp1", "tcp4", "udp1400", "udp64", "rtt", "rtt-loaded"],
    ),
    study(
        "trains",
        studies::OWN,
        "links that split GSO packets, and rates without loss, beside a tunnel that only moves packets",
        &["tcp1-no-segmentation", "no-loss1400", "no-loss64"],
    ),
    study(
        "delays",
        studies::OWN,
        "the delay beside a download, 32 of them and a flood, before links of several rates, with either queue",
        &LOADS,
    ),
    study("R22", COSTS, "faster networks: what remains of clear, by suite", &["tcp1", "tcp4"]),
    study("A10", ATOMIC, "AH by components: header, touching, arithmetic", &["ah"]),
];

/// The connections between the hosts, by their names in results.
pub const PEERS: [&str; 17] = [
    CLEAR.0,
    HTTPS.0,
    NATIVE,
    OWN,
    CARD,
    PROCESSOR,
    HYBRID,
    WAYS[0].0,
    WAYS[1].0,
    WAYS[2].0,
    WAYS[3].0,
    WAYS[4].0,
    NULL.0,
    RIVAL.0,
    "boringtun",
    "libipsec",
    "openvpn",
];

/// The default suite of a site file, which protects most users' packets.
pub const DEFAULT_SUITE: &str = "aes-256-gcm";

pub(crate) const CLEAR: (&str, &str) = ("clear", "no encryption");
/// HTTPS beside tunnels: no tunnel, and only the tests of web servers.
const HTTPS: (&str, &str) = ("https", "tls-1.3");
/// Our gateways, which take batches.
pub(crate) const OWN: &str = "sealane";
/// Our gateways as the study's machines worked, one packet after another.
pub(crate) const NATIVE: &str = "sealane-native";
/// Our gateways with a simulated accelerator card, and with the card and the processor as they are faster.
pub(crate) const CARD: &str = "simulated-card";
pub(crate) const HYBRID: &str = "simulated-hybrid";
/// Our gateways with a simulated processor of the card's time.
pub(crate) const PROCESSOR: &str = "simulated-processor";
/// The study's suites in software and, with its card, in hardware.
pub(crate) const DES: &str = "des-cbc+hmac-sha1-96";
pub(crate) const TRIPLE_DES: &str = "3des-cbc+hmac-sha1-96";
/// The tunnel that others are compared with, and its one algorithm.
const RIVAL: (&str, &str) = ("wireguard-go", "chacha20-poly1305");

/// A tunnel that only moves GSO packets, whose cost is that of any tunnel's system calls. It sends GSO packets as they come,
/// of which none arrives over a link that splits them.
const NULL: (&str, &str) = ("null-gso", CLEAR.1);

/// Our gateways in other arrangements: ESP as an IP protocol of its own, through the kernel's IP output and past it; in a TCP
/// connection, where the link lets no UDP pass (RFC 9329); and two lanes, with one child association of IKE and with four that
/// share the flows (RFC 9611).
const WAYS: [(&str, Ours); 5] = [
    ("sealane-esp", Ours { way: "encapsulation = \"none\"\n", ..Ours::of("aes-128-gcm") }),
    ("sealane-direct", Ours { way: "encapsulation = \"none\"\ndirect = true\n", ..Ours::of("aes-128-gcm") }),
    ("sealane-tcp", Ours { keys: Keys::Ike, is_by_tcp: true, ..Ours::of(DEFAULT_SUITE) }),
    ("sealane-1-child", Ours { keys: Keys::Ike, lanes: Some("2"), ..Ours::of(DEFAULT_SUITE) }),
    (
        "sealane-4-children",
        Ours { keys: Keys::Ike, lanes: Some("2"), children: 4, ..Ours::of(DEFAULT_SUITE) },
    ),
];

/// The paper whose tunnels and macro-benchmarks are measured again.
pub(crate) const PAPER: &str =
    "Miltchev, Ioannidis, Keromytis: A Study of the Relative Costs of Network Security Protocols (2002)";

/// A tunnel of ours.
pub(crate) struct Unit {
    /// Its name in results.
    pub(crate) peer: &'static str,
    pub(crate) suite: &'static str,
    /// The length of the suite's key material.
    material_bytes: usize,
}

const fn unit(peer: &'static str, suite: &'static str, material_bytes: usize) -> Unit {
    Unit { peer, suite, material_bytes }
}

/// The study's algorithms as in its time; the same with its hardware, simulated; the same side by side; and present-day
/// ones.
pub(crate) const UNITS: [Unit; 14] = [
    unit(NATIVE, "aes-128-cbc+hmac-sha1-96", 36),
    unit(NATIVE, "aes-192-cbc+hmac-sha1-96", 44),
    unit(NATIVE, "aes-256-cbc+hmac-sha1-96", 52),
    unit(NATIVE, DES, 28),
    unit(NATIVE, TRIPLE_DES, 44),
    unit(CARD, DES, 28),
    unit(CARD, TRIPLE_DES, 44),
    unit(PROCESSOR, TRIPLE_DES, 44),
    unit(HYBRID, TRIPLE_DES, 44),
    unit(OWN, "aes-128-cbc+hmac-sha1-96", 36),
    unit(OWN, TRIPLE_DES, 44),
    unit(OWN, "aes-128-gcm", 20),
    unit(OWN, "aes-256-gcm", 36),
    unit(OWN, "chacha20-poly1305", 36),
];

impl Unit {
    /// Returns the gateways of the tunnel.
    pub(crate) fn gateways(&self) -> Ours {
        let (tier, engine) = match self.peer {
            NATIVE => (Some("native"), "inline"),
            // The processor beside the card is the study's too.
            CARD => (Some("native"), "card:time-only"),
            PROCESSOR => (Some("native"), "card:processor"),
            HYBRID => (Some("native"), "hybrid:card,inline"),
            _ => (None, "inline"),
        };
        Ours { tier, engine, ..Ours::of(self.suite) }
    }
}

/// Returns the length of the key material of one of the study's suites in bytes.
fn material_bytes(suite: &str) -> Option<usize> {
    UNITS.iter().find(|unit| unit.suite == suite).map(|unit| unit.material_bytes)
}

/// The limit of the simulated cards' figures.
pub(crate) const ABOUT_CARDS: &str = "simulated-card and simulated-hybrid stand for DES-HW and 3DES-HW: the engine's model of a card of \
    four Hifn 7751, by OpenBSD's published figures; simulated-processor is one of that card's time, about 27 Mb/s of 3DES. Packets wait \
    as long as such a card or processor takes. For both nothing is computed: the two ends leave the packets as they are, so CPU seconds \
    are those that a card leaves. simulated-hybrid has a processor that computes, so its card's results are computed too.";

/// Returns all connections between the hosts, with their suites.
fn betweens(foreign: &[foreign::Peer]) -> Vec<(&'static str, &'static str, Between)> {
    let mut between = vec![(CLEAR.0, CLEAR.1, Between::Clear), (HTTPS.0, HTTPS.1, Between::Clear)];
    between.extend(UNITS.iter().map(|unit| (unit.peer, unit.suite, Between::Ours(unit.gateways()))));
    between.extend(WAYS.map(|(peer, ours)| (peer, ours.suite, Between::Ours(ours))));
    between.push((NULL.0, NULL.1, Between::Null));
    between.extend(foreign.iter().map(|peer| (peer.name, peer.suite, Between::Foreign(peer.kind.clone()))));
    between
}

/// Returns whether the lab chooses the tests of each connection: in a short profile, if the request names none.
fn chooses(request: &Request) -> bool {
    matches!(request.profile, Profile::Smoke | Profile::Quick) && request.hosts.between.is_empty()
}

/// Returns whether a test goes through a connection. A request that names connections, and one with more time, has all
/// tests through all; a short one has the study's tests through the study's tunnels, and the tests of today through
/// those of today: what the claims and the comparisons need.
fn is_run(request: &Request, topology: Topology, test: &Test, peer: &str, suite: &str) -> bool {
    let has_one_link = matches!(topology, Topology::HostHost | Topology::Gateways);
    if test.splits_gso() && (peer == NULL.0 || !has_one_link) {
        return false;
    }
    if !chooses(request) {
        return true;
    }
    let is_clear = peer == CLEAR.0;
    let is_study = [NATIVE, CARD, PROCESSOR, HYBRID].contains(&peer);
    let is_oldest = suite == TRIPLE_DES && (peer == NATIVE || peer == CARD);
    let is_default = peer == OWN && suite == DEFAULT_SUITE;
    let is_today = is_default || (peer == OWN && suite == RIVAL.1) || peer == RIVAL.0;
    match test.name {
        _ if test.is_search() || peer == NULL.0 || WAYS.iter().any(|(way, _)| *way == peer) => false,
        _ if test.splits_gso() => is_default || peer == RIVAL.0,
        _ if !has_one_link => is_clear || is_oldest || is_default || peer == RIVAL.0,
        "ttcp-64" | "ttcp-8192" => is_clear || is_study,
        "ttcp-512" | "ttcp-1024" | "ttcp-1470" => {
            is_clear || is_oldest || (peer == NATIVE && suite.starts_with("aes-128"))
        }
        "tcp1" => is_clear || is_oldest || !(is_study || suite.contains("cbc")),
        "tiny" | "large" => is_clear || is_oldest || is_default || peer == HTTPS.0,
        _ => is_clear || is_today,
    }
}

/// Returns the number of runs of each test in the profile, and the seconds of a run.
fn rounds_and_seconds(request: &Request) -> (usize, u32) {
    let (rounds, seconds) = match request.profile {
        Profile::Smoke => (1, 1),
        // Fewer than five runs decide no claim.
        Profile::Quick => (5, 1),
        Profile::Full => (10, 10),
        Profile::Paper => (10, 30),
    };
    (request.hosts.rounds.unwrap_or(rounds), request.hosts.seconds.unwrap_or(seconds))
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
        net::missing(&request.surroundings, &["iperf3", "timeout"])?;
        let absent = traffic::missing_for_web(&request.surroundings);
        if let Some(why) = absent.filter(|_| tests.iter().any(Test::is_web)) {
            report.skipped.push(format!("tiny, large: {why}"));
            tests.retain(|test| !test.is_web());
        }
        if let (true, Err(absent)) =
            (tests.iter().any(Test::splits_gso), request.surroundings.program("ethtool"))
        {
            report.skipped.push(format!("tcp1-no-segmentation: {}", absent.reason));
            tests.retain(|test| !test.splits_gso());
        }
        if chooses(request) && tests.iter().any(Test::is_search) {
            let why = "no-loss1400, no-loss64: a short profile searches rates through connections that --between names";
            report.skipped.push(why.to_owned());
        }
        let (foreign, why): (Vec<_>, Vec<_>) = foreign::peers().into_iter().partition(Result::is_ok);
        report.skipped.extend(why.into_iter().filter_map(Result::err));
        let foreign: Vec<foreign::Peer> = foreign.into_iter().flatten().collect();
        let versions: Vec<String> =
            foreign.iter().map(|peer| format!("{}: {}", peer.name, peer.version)).collect();
        for &topology in &request.hosts.topologies {
            let asked = Asked { request, tests: &tests, seconds, repetition, versions: versions.join("; ") };
            report.outcomes.extend(asked.through(topology, &foreign, progress)?);
        }
    }
    if request.wants(&LOADS) {
        net::missing(&request.surroundings, &["iperf3", "timeout", "tc"])?;
        let foreign: Vec<foreign::Peer> = foreign::peers().into_iter().flatten().collect();
        let how = (repetition, seconds);
        report.outcomes.extend(delays::outcomes(request, &foreign, how, progress)?);
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

/// The table of CPU seconds.
const CPU: &str = "tunnels-cpu";

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
        let large_bytes = traffic::large_bytes(request.profile);
        let scratch = Scratch::create(&request.surroundings, None, 2 * large_bytes)?;
        let workload = self.tests.iter().any(Test::is_web).then(|| {
            let file = scratch.random_file("large", large_bytes, request.seed)?;
            Workload::new(&file, &scratch.path().join("target"))
        });
        let mut runs = Turns {
            seconds: self.seconds,
            nets: Vec::new(),
            cells: Vec::new(),
            workload: workload.transpose()?,
            request,
        };
        let (mut skipped, mut places) = (Vec::new(), Vec::new());
        let program = request.program()?;
        let is_asked = |peer: &str| {
            request.hosts.between.is_empty() || request.hosts.between.iter().any(|asked| asked == peer)
        };
        for (peer, suite, between) in betweens(foreign).into_iter().filter(|(peer, ..)| is_asked(peer)) {
            let is_tls = peer == HTTPS.0;
            let is_run =
                |test: &&Test| (!is_tls || test.is_web()) && is_run(request, topology, test, peer, suite);
            let tests: Vec<&Test> = self.tests.iter().filter(is_run).collect();
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
                Err(error) => {
                    let reason = format!("{peer}, {suite}, {}: {error}", topology.name());
                    // A report without a figure has no place for it.
                    writeln!(progress, "  skipped: {reason}")?;
                    skipped.push(reason);
                }
            }
        }
        let plan = Plan::of_cells(topology.name(), self.repetition, places, request.seed);
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
struct Turns<'a> {
    request: &'a Request,
    seconds: u32,
    nets: Vec<Net>,
    /// The net, the test, and the use of TLS of each cell.
    cells: Vec<(usize, Test, bool)>,
    workload: Option<Workload>,
}

impl Sampler for Turns<'_> {
    fn sample(&mut self, cell: usize) -> Result<Sample, LabError> {
        let (net, test, is_tls) = self.cells[cell];
        let traffic = Traffic {
            net: &self.nets[net],
            seconds: self.seconds,
            surroundings: &self.request.surroundings,
            tiny_files: traffic::tiny_files(self.request.profile),
            workload: self.workload.as_ref(),
            is_tls,
            control: self.request.hosts.congestion_control,
        };
        traffic.run(test)
    }
}

fn experiment(id: &str, title: &str, measure: Measure, notes: &[&str]) -> Experiment {
    let notes: Vec<&str> = notes.iter().copied().filter(|note| !note.is_empty()).collect();
    let view = View::pivot(&AXES[..2], AXES[2], &measure.id);
    let plot = Plot::new(Drawn::Bars, AXES[2], &measure.id, &AXES[..2]);
    let experiment = Experiment::new(id, "R10–R14, R22, trains", title, &AXES, vec![measure]);
    experiment.of(PAPER).notes(&notes).shown(view, vec![plot])
}

/// Returns the results, a table per unit; the shares of clear; and our tunnels beside the rival's.
fn outcomes(cells: &[Cell], topology: Topology, versions: &str) -> Vec<Outcome> {
    let place = topology.name();
    let is_of_card = |cell: &Cell| [CARD, PROCESSOR, HYBRID].contains(&&*cell.at["between"]);
    let about_cards = if cells.iter().any(is_of_card) { ABOUT_CARDS } else { "" };
    let mut outcomes = Vec::new();
    for (id, what, measure) in [
        (
            "throughput",
            "What protection leaves of throughput",
            Measure::new("gbit_per_s", "Gb/s").unit("Gb/s"),
        ),
        ("packets", "Datagrams and tiny files", Measure::new("packets_per_s", "a second").unit("a second")),
        ("round-trips", "What protection adds to round trips", Measure::cost("rtt_us", "µs", "µs")),
        (CPU, "What the daemons take for a gigabyte", Measure::cost("cpu_s_per_gb", "CPU s/GB", "s")),
    ] {
        let is_of = |test: Test, cell: &Cell| match id {
            CPU => !cell.samples_of(&measure.id).is_empty(),
            _ => test.measure == measure.id && !cell.samples.is_empty(),
        };
        let has_it = |cell: &&Cell| Test::of(&cell.at["test"]).is_some_and(|test| is_of(test, cell));
        let own: Vec<Cell> = cells.iter().filter(has_it).cloned().collect();
        let notes = [
            "sealane-native runs one packet after another, as the study's machines did; sealane takes batches. Of several hosts \
             the sum.",
            about_cards,
            versions,
        ];
        let mut experiment = experiment(id, &format!("{what}, {place}"), measure, &notes);
        experiment.claims = claims::of_rates(&own, id, topology);
        outcomes.push(Outcome::new(experiment, own));
    }
    let is_clear = |cell: &Cell| cell.at["between"] == CLEAR.0;
    let clear = |cell: &Cell| {
        let test = &cell.at["test"];
        find(cells, &at(AXES.into_iter().zip([CLEAR.0, CLEAR.1, test])))
    };
    let share = |cell: &Cell| {
        let clear = clear(cell)?;
        let share = derive::over(cell, clear, Test::of(&cell.at["test"])?.measure)?;
        let runs = cell.runs() + clear.runs();
        Some(Cell { at: cell.at.clone(), ..Cell::default() }.with("share", share).behind(runs))
    };
    let mut shares: Vec<Cell> = cells.iter().filter(|cell| !is_clear(cell)).filter_map(share).collect();
    let mut parts = experiment(
        "tunnels-in-parts",
        &format!("In parts of clear, {place}"),
        Measure::times("share", ""),
        &[
            "The paper gives shares of what goes through without protection: with small writes 40 %, with writes of 8 KB 30 %, \
             from host to host; it calls the case of two gateways similar, and has no such figure for three hosts.",
            about_cards,
        ],
    );
    parts.claims = claims::of_shares(&shares, topology);
    shares.extend(claims::published(&shares, topology));
    outcomes.push(Outcome::new(parts, shares));
    let notes = [
        "Ours over the other's: the default suite first, then AES-128-GCM, then wireguard-go's algorithm. Of rtt less is more.",
    ];
    for (id, other) in [("tunnels-beside-null", NULL), ("tunnels-beside", RIVAL)] {
        let title = format!("Beside {}, {place}", other.0);
        let table = experiment(id, &title, Measure::times("times", ""), &notes);
        outcomes.insert(0, Outcome::new(table, beside(cells, other)));
    }
    outcomes.retain(|outcome| !outcome.cells.is_empty());
    outcomes
}

/// Returns our tunnels over another, suite by suite as users have them, the default first.
fn beside(cells: &[Cell], other: (&str, &str)) -> Vec<Cell> {
    let of = |peer: &str, suite: &str, test: &Test| {
        let place: Coordinates = at(AXES.into_iter().zip([peer, suite, test.name]));
        find(cells, &place)
    };
    let mut beside = Vec::new();
    for suite in [DEFAULT_SUITE, "aes-128-gcm", RIVAL.1] {
        for test in TESTS.iter().filter_map(|test| Test::of(test)) {
            let (Some(own), Some(other)) = (of(OWN, suite, &test), of(other.0, other.1, &test)) else {
                continue;
            };
            let name =
                if suite == DEFAULT_SUITE { format!("{suite}, the default") } else { suite.to_owned() };
            let place = [("between", "sealane"), ("suite", &*name), ("test", test.name)];
            let times = derive::over(own, other, test.measure);
            beside.push(Cell::new(place).with_some("times", times).behind(own.runs() + other.runs()));
        }
    }
    beside
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiment::Verdict;
    use crate::request::Hosts;

    /// A short profile keeps every cell that a claim or a comparison is about.
    #[test]
    fn a_short_profile_measures_what_is_claimed() {
        let request = Request { profile: Profile::Quick, ..Request::default() };
        let cells = |request: &Request, topology| {
            let rival = std::iter::once((RIVAL.0, RIVAL.1));
            let own = UNITS.iter().map(|unit| (unit.peer, unit.suite));
            let all = [(CLEAR.0, CLEAR.1)].into_iter().chain(own).chain(rival);
            let mut cells = Vec::new();
            for (peer, suite) in all {
                let tests = TESTS.iter().filter_map(|test| Test::of(test));
                for test in tests.filter(|test| is_run(request, topology, test, peer, suite)) {
                    cells.push(Cell::new(AXES.into_iter().zip([peer, suite, test.name])));
                }
            }
            cells
        };
        let whole = Request { profile: Profile::Full, ..request.clone() };
        for topology in Topology::ALL {
            let [short, long] = [&request, &whole].map(|request| cells(request, topology));
            assert!(2 * short.len() < long.len(), "{} of {}", short.len(), long.len());
            let claims = |cells: &[Cell]| {
                let claims = claims::of_rates(cells, "throughput", topology);
                claims.iter().map(|claim| claim.source.clone()).collect::<std::collections::BTreeSet<_>>()
            };
            assert_eq!(claims(&short), claims(&long), "{topology:?}");
            let shares = |cells: &[Cell]| claims::of_shares(cells, topology).len();
            assert_eq!(shares(&short), shares(&long), "{topology:?}");
        }
        let hosts = Hosts { between: vec![OWN.to_owned()], ..Hosts::default() };
        let named = Request { hosts, ..request };
        assert_eq!(cells(&named, Topology::HostHost).len(), cells(&whole, Topology::HostHost).len());
    }

    #[test]
    fn tables_show_medians_parts_of_clear_and_the_papers_claim() {
        let cell = |peer, suite, rates: [f64; 5]| Cell {
            samples: rates.iter().map(|rate| Sample::slice("gbit_per_s", *rate, false)).collect(),
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
        assert_eq!(parts.claims[0].verdict, Verdict::DoesNotHold, "{:?}", parts.claims);
    }
}

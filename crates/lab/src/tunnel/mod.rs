//! What IPsec costs (Miltchev, Ioannidis, Keromytis: “A Study of the Relative Costs of Network Security Protocols”, 2002), on
//! this machine, through our gateways.
//!
//! Guarantees: all tunnels of a topology stand at once and take turns run by run; every run is kept; what cannot be measured here
//! is named.

mod components;
mod foreign;
mod net;
mod web;

use crate::LabError;
use crate::experiment::{Cell, Drawn, Experiment, Measure, Outcome, Plot, Sample, View, at, derive};
use crate::report::Report;
use crate::scratch::Scratch;
use crate::surroundings::Surroundings;
use net::{Between, Net};
use serde::Serialize;
use serde_json::Value;
use std::io::{BufRead, BufReader, Lines, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

pub use net::Topology;

/// What is run through each tunnel; names as in results.
pub const TESTS: [&str; 14] = [
    "ttcp-64",
    "ttcp-512",
    "ttcp-1024",
    "ttcp-1470",
    "ttcp-8192",
    "tcp1",
    "tcp4",
    "udp1400",
    "udp64",
    "rtt",
    "rtt-loaded",
    "tiny",
    "large",
    "ah",
];

/// What may stand between the hosts; names as in results.
pub const PEERS: [&str; 7] =
    ["clear", HTTPS.0, "sealane-native", "sealane", "wireguard-go", "libipsec", "openvpn"];

/// The suite of a site file that names none: what most users' packets go under.
pub const DEFAULT_SUITE: &str = "aes-256-gcm";

/// The tunnel that others are compared with, and its one algorithm.
const RIVAL: (&str, &str) = ("wireguard-go", "chacha20-poly1305");

/// The paper.
const PAPER: &str =
    "Miltchev, Ioannidis, Keromytis: A Study of the Relative Costs of Network Security Protocols (2002)";

/// ttcp's buffers in the study.
const TTCP_BUFFER_BYTES: u32 = 65_535;
/// Round trips of a run.
const PINGS: u32 = 300;
/// Between round trips beside load.
const LOADED_PING_MS: u32 = 15;
/// The load is under way by then.
const LOAD_TIME: Duration = Duration::from_millis(400);
/// HTTPS beside tunnels: no tunnel, and only the tests of web servers.
const HTTPS: (&str, &str) = ("https", "tls-1.3");
/// Seconds beyond its own that a run of iperf3 may take: by itself it waits for ever where a link has gone.
const PATIENCE_S: u32 = 30;
/// A link that carries nothing for so long is out of order.
const UP_TIME: Duration = Duration::from_secs(20);

/// A kind of protection, and how it is called in results.
struct Unit {
    peer: &'static str,
    suite: &'static str,
    material_bytes: usize,
    tier: Option<&'static str>,
}

const fn unit(
    peer: &'static str,
    suite: &'static str,
    material_bytes: usize,
    tier: Option<&'static str>,
) -> Unit {
    Unit { peer, suite, material_bytes, tier }
}

/// The study's algorithms as in its day, one packet after another; the same in lanes; and what one would take today.
const UNITS: [Unit; 10] = [
    unit("sealane-native", "aes-128-cbc+hmac-sha1-96", 36, Some("native")),
    unit("sealane-native", "aes-192-cbc+hmac-sha1-96", 44, Some("native")),
    unit("sealane-native", "aes-256-cbc+hmac-sha1-96", 52, Some("native")),
    unit("sealane-native", "des-cbc+hmac-sha1-96", 28, Some("native")),
    unit("sealane-native", "3des-cbc+hmac-sha1-96", 44, Some("native")),
    unit("sealane", "aes-128-cbc+hmac-sha1-96", 36, None),
    unit("sealane", "3des-cbc+hmac-sha1-96", 44, None),
    unit("sealane", "aes-128-gcm", 20, None),
    unit("sealane", "aes-256-gcm", 36, None),
    unit("sealane", "chacha20-poly1305", 36, None),
];

/// Bytes of key material of one of the study's suites.
fn material_bytes(suite: &str) -> Option<usize> {
    UNITS.iter().find(|unit| unit.suite == suite).map(|unit| unit.material_bytes)
}

/// How the study is run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Where this runs.
    pub surroundings: Arc<Surroundings>,
    /// The program under test.
    pub program: PathBuf,
    /// Where hosts and gateways stand.
    pub topologies: Vec<Topology>,
    /// Of [`TESTS`]; all where empty.
    pub tests: Vec<String>,
    /// Of [`PEERS`]; all where empty.
    pub peers: Vec<String>,
    /// Runs of each test through each tunnel.
    pub rounds: u32,
    /// Seconds of a run that has no other end.
    pub seconds: u32,
}

/// One run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Run {
    /// Which item of the study.
    pub id: &'static str,
    /// What stood between the hosts.
    pub peer: &'static str,
    /// How it protected.
    pub suite: &'static str,
    /// How hosts and gateways stood.
    pub topology: &'static str,
    /// Where associations ended: `end-to-end`, or `gateway`.
    pub association: &'static str,
    /// What was run.
    pub test: String,
    /// Payload received.
    pub gbit_per_s: Option<f64>,
    /// Datagrams received, or files.
    pub packets_per_s: Option<f64>,
    /// Mean round trip.
    pub rtt_us: Option<f64>,
    /// Of both ends' daemons.
    pub cpu_s_per_gb: Option<f64>,
    /// TCP segments sent again.
    pub retransmissions: Option<u64>,
}

impl Run {
    /// The figure that the test is about.
    fn figure(&self) -> Option<f64> {
        self.rtt_us.or(self.packets_per_s).or(self.gbit_per_s)
    }
}

/// All runs, and what could not be had.
#[derive(Clone, Debug, Default)]
pub struct Study {
    /// In the order in which they were made.
    pub runs: Vec<Run>,
    /// Why something is missing.
    pub absent: Vec<String>,
    /// The other programs, as they call themselves.
    pub versions: Vec<String>,
}

fn has(program: &str, argument: &str) -> bool {
    Command::new(program).arg(argument).stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

/// Which item of the study a test belongs to.
fn id(test: &str, topology: Topology) -> &'static str {
    match (test, topology) {
        ("tiny", _) => "R17",
        ("large", _) => "R16",
        (_, Topology::RoadWarrior | Topology::RoadWarriorEnds) => "R10",
        _ if test.starts_with("ttcp") => "R13",
        _ => "R14",
    }
}

/// Why there can be no hosts here.
fn missing() -> Result<(), LabError> {
    for (program, argument) in [("ip", "-V"), ("iperf3", "-v"), ("ping", "-V"), ("timeout", "--version")] {
        if !has(program, argument) {
            return Err(LabError::Unavailable(format!(
                "`sealane lab tunnel` takes {program}, which is not here"
            )));
        }
    }
    if !rustix::process::geteuid().is_root() {
        return Err(LabError::Unavailable("namespaces and TUN devices take root".to_owned()));
    }
    Ok(())
}

/// Runs the study; `progress` gets a line for each run.
///
/// # Errors
/// Namespaces or programs cannot be had.
pub fn run(options: &Options, progress: &mut impl Write) -> Result<Study, LabError> {
    let mut tests: Vec<&str> = match &options.tests[..] {
        [] => TESTS.to_vec(),
        some => some.iter().map(String::as_str).collect(),
    };
    let mut study = Study::default();
    if tests.contains(&"ah") {
        study.runs = components::measure(options.rounds)?;
        tests.retain(|&test| test != "ah");
        if tests.is_empty() {
            return Ok(study);
        }
    }
    missing()?;
    if let Some(missing) = web::missing() {
        for test in ["tiny", "large"] {
            if tests.contains(&test) {
                study.absent.push(format!("{test}: no {missing}"));
            }
        }
        tests.retain(|test| !is_web(test));
    }
    let mut foreign = Vec::new();
    for peer in foreign::peers() {
        match peer {
            Ok(peer) => foreign.push(peer),
            Err(why) => study.absent.push(why),
        }
    }
    study.versions.extend(foreign.iter().map(|peer| format!("{}: {}", peer.name, peer.version)));
    study.absent.push("columns of the study with cryptographic cards: they belong to the engine".to_owned());
    for &topology in &options.topologies {
        let scratch = Scratch::create(&options.surroundings, None, web::LARGE_BYTES)?;
        let mut nets = Vec::new();
        let is_asked =
            |peer: &str| options.peers.is_empty() || options.peers.iter().any(|asked| asked == peer);
        for (peer, suite, between) in betweens(&foreign).into_iter().filter(|(peer, ..)| is_asked(peer)) {
            if peer == HTTPS.0 && !tests.iter().any(|test| is_web(test)) {
                continue;
            }
            match Net::up(&options.program, scratch.path(), topology, &between).and_then(carries) {
                Ok(net) => nets.push((peer, suite, net)),
                Err(error) => study.absent.push(format!("{peer}, {suite}, {}: {error}", topology.name())),
            }
        }
        for test in &tests {
            for _ in 0..options.rounds {
                for (peer, suite, net) in nets.iter().filter(|(peer, ..)| *peer != HTTPS.0 || is_web(test)) {
                    let is_tls = *peer == HTTPS.0;
                    let Some(run) = measure(net, test, options.seconds, scratch.path(), is_tls) else {
                        study.absent.push(format!("{peer}, {suite}, {}, {test}: no result", topology.name()));
                        continue;
                    };
                    let run = Run {
                        id: id(test, topology),
                        peer,
                        suite,
                        topology: topology.figure(),
                        association: topology.association(),
                        test: (*test).to_owned(),
                        ..run
                    };
                    let _ = writeln!(
                        progress,
                        "{} {} {} {}: {:.2}",
                        topology.name(),
                        run.test,
                        run.peer,
                        run.suite,
                        run.figure().unwrap_or(f64::NAN)
                    );
                    study.runs.push(run);
                }
            }
        }
    }
    study.absent.sort();
    study.absent.dedup();
    Ok(study)
}

/// Whether a test asks a web server.
fn is_web(test: &str) -> bool {
    ["tiny", "large"].contains(&test)
}

/// Everything that may stand between the hosts.
fn betweens(foreign: &[foreign::Peer]) -> Vec<(&'static str, &'static str, Between)> {
    let mut between = vec![("clear", "no encryption", Between::Clear), (HTTPS.0, HTTPS.1, Between::Clear)];
    between.extend(UNITS.iter().map(|unit| {
        let ours = Between::Ours { suite: unit.suite.to_owned(), tier: unit.tier };
        (unit.peer, unit.suite, ours)
    }));
    between.extend(foreign.iter().map(|peer| (peer.name, peer.suite, Between::Foreign(peer.kind.clone()))));
    between
}

/// Waits until the hosts reach each other.
fn carries(net: Net) -> Result<Net, LabError> {
    let deadline = Instant::now() + UP_TIME;
    let mut reached = 0;
    while Instant::now() < deadline && reached < net.clients {
        let ping = net.client(reached, "ping", &format!("-c 1 -W 1 {}", net.server)).output();
        reached += usize::from(ping.is_ok_and(|ping| ping.status.success()));
    }
    if reached == net.clients {
        return Ok(net);
    }
    Err(LabError::Unavailable("the hosts do not reach each other".to_owned()))
}

fn measure(net: &Net, test: &str, seconds: u32, folder: &Path, is_tls: bool) -> Option<Run> {
    let web = || web::Web::start(net, folder, is_tls).ok();
    match test {
        "rtt" => Some(Run { rtt_us: Some(ping(net, PINGS, 3)?), ..Run::default() }),
        "rtt-loaded" => {
            let count = (1000 * seconds).saturating_sub(2 * LOAD_TIME.as_millis() as u32) / LOADED_PING_MS;
            thread::scope(|scope| {
                let times = scope.spawn(|| {
                    thread::sleep(LOAD_TIME);
                    ping(net, count.max(5), LOADED_PING_MS)
                });
                let run = iperf3(net, "-P 4", seconds);
                let rtt_us = Some(times.join().ok()??);
                Some(Run { rtt_us, ..run? })
            })
        }
        "tiny" => Some(Run { packets_per_s: Some(web()?.tiny(net)?), ..Run::default() }),
        "large" => {
            let web = web()?;
            let before = net.cpu_seconds();
            let bytes_per_s = web.large(net)?;
            let cpu_s = net.cpu_seconds() - before;
            let cpu_s_per_gb = (cpu_s > 0.0).then_some(cpu_s * 1e9 / web::LARGE_BYTES as f64);
            Some(Run { gbit_per_s: Some(bytes_per_s * 8.0 / 1e9), cpu_s_per_gb, ..Run::default() })
        }
        _ => {
            let how = match test.split_once("ttcp-") {
                Some((_, bytes)) => format!("-l {bytes} -w {TTCP_BUFFER_BYTES}"),
                None => match test {
                    "tcp4" => "-P 4".to_owned(),
                    "udp1400" => "-u -b 0 -l 1372".to_owned(),
                    "udp64" => "-u -b 0 -l 64".to_owned(),
                    _ => String::new(),
                },
            };
            iperf3(net, &how, seconds)
        }
    }
}

/// The mean of so many round trips from the first host, in µs.
fn ping(net: &Net, count: u32, apart_ms: u32) -> Option<f64> {
    let apart_s = f64::from(apart_ms) / 1000.0;
    let ping = net.client(0, "ping", &format!("-q -c {count} -i {apart_s} {}", net.server)).output().ok()?;
    let text = String::from_utf8_lossy(&ping.stdout).into_owned();
    let times = text.lines().find(|line| line.starts_with("rtt"))?.split(" = ").nth(1)?;
    let milliseconds: f64 = times.split('/').nth(1)?.parse().ok()?;
    Some(1000.0 * milliseconds)
}

/// iperf3's first port: a server for each host that asks.
const PORT: usize = 5201;

/// A server of iperf3 that serves once.
struct Server {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Server {
    fn listening(net: &Net, which: usize) -> Option<Self> {
        let mut server = net.server("iperf3", &format!("-s -1 --forceflush -p {}", PORT + which));
        let mut child = server.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().ok()?;
        let mut lines = BufReader::new(child.stdout.take()?).lines();
        let is_listening = lines.by_ref().any(|line| line.is_ok_and(|line| line.contains("listening")));
        is_listening.then_some(Self { child, lines })
    }

    /// Ends it: by itself, if somebody has called it.
    fn end(mut self, was_called: bool) {
        if !was_called {
            let _ = self.child.kill();
        }
        self.lines.by_ref().for_each(drop);
        let _ = self.child.wait();
    }
}

/// One run of iperf3 from every host that asks, by what the servers received.
fn iperf3(net: &Net, how: &str, seconds: u32) -> Option<Run> {
    let servers: Option<Vec<Server>> = (0..net.clients).map(|which| Server::listening(net, which)).collect();
    let servers = servers?;
    let before = net.cpu_seconds();
    let clients: Vec<_> = (0..net.clients)
        .map(|which| {
            let limit_s = seconds + PATIENCE_S;
            let words =
                format!("{limit_s} iperf3 -c {} -p {} -t {seconds} -J {how}", net.server, PORT + which);
            net.client(which, "timeout", &words).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()
        })
        .collect();
    let outputs: Vec<_> =
        clients.into_iter().map(|client| client.and_then(Child::wait_with_output).ok()).collect();
    let cpu_s = net.cpu_seconds() - before;
    for (server, output) in servers.into_iter().zip(&outputs) {
        server.end(output.as_ref().is_some_and(|output| output.status.success()));
    }
    let mut sum = Run::default();
    let mut all_bytes = 0.0;
    for output in outputs {
        let output = output.filter(|output| output.status.success())?;
        let report: Value = serde_json::from_slice(&output.stdout).ok()?;
        let end = &report["end"];
        let of = |field: &str| end["sum_received"][field].as_f64();
        let packets = end["sum_received"]["packets"].as_f64().zip(of("seconds"));
        let lost = end["sum_received"]["lost_packets"].as_f64().unwrap_or_default();
        all_bytes += of("bytes")?;
        add(&mut sum.gbit_per_s, Some(of("bits_per_second")? / 1e9));
        add(&mut sum.packets_per_s, packets.map(|(packets, seconds)| (packets - lost) / seconds));
        if let Some(again) = end["sum_sent"]["retransmits"].as_u64() {
            *sum.retransmissions.get_or_insert(0) += again;
        }
    }
    sum.cpu_s_per_gb = (cpu_s > 0.0 && all_bytes > 0.0).then_some(cpu_s * 1e9 / all_bytes);
    Some(sum)
}

fn add(sum: &mut Option<f64>, more: Option<f64>) {
    if let Some(more) = more {
        *sum.get_or_insert(0.0) += more;
    }
}

/// The study with the paper's figures beside ours.
pub fn report(study: &Study) -> Report {
    let summary = "The 2002 study of the relative costs of network security protocols, through our gateways, between \
                   namespaces of this machine.";
    let tunnels = Topology::ALL.into_iter().flat_map(|topology| outcomes(study, topology));
    let outcomes = tunnels.chain(components::outcomes(&study.runs)).collect();
    Report {
        skipped: study.absent.clone(),
        ..Report::new("sealane lab tunnel", "What IPsec costs", summary, outcomes)
    }
}

/// What the paper says of a share of clear: the test, and by what it is multiplied.
const PUBLISHED: [(&str, f64); 4] =
    [("ttcp-64", 0.4), ("ttcp-512", 0.4), ("ttcp-8192", 0.3), ("tiny", 1.0 / 1.1)];

/// What goes through, and that in parts of clear.
fn outcomes(study: &Study, topology: Topology) -> Vec<Outcome> {
    const AXES: [&str; 3] = ["between", "suite", "test"];
    let mut cells: Vec<Cell> = Vec::new();
    let stands = |run: &&Run| (run.topology, run.association) == (topology.figure(), topology.association());
    for run in study.runs.iter().filter(stands) {
        let place = at(AXES.into_iter().zip([run.peer, run.suite, &*run.test]));
        let known = cells.iter().position(|cell| cell.at == place).unwrap_or_else(|| {
            cells.push(Cell { at: place, ..Cell::default() });
            cells.len() - 1
        });
        let round = cells[known].samples.len();
        cells[known].samples.extend(run.figure().map(|figure| Sample::slice("figure", figure, round)));
    }
    if cells.is_empty() {
        return Vec::new();
    }
    let is_clear = |cell: &Cell| cell.at["between"] == "clear";
    let share = |cell: &Cell| {
        let clear = cells.iter().find(|other| is_clear(other) && other.at["test"] == cell.at["test"])?;
        Some(
            Cell { at: cell.at.clone(), ..Cell::default() }
                .with("share", derive::over(cell, clear, "figure")?),
        )
    };
    let mut shares: Vec<Cell> = cells.iter().filter(|cell| !is_clear(cell)).filter_map(share).collect();
    let is_measured = |test: &str| shares.iter().any(|cell| cell.at["test"] == test);
    let published = PUBLISHED.iter().filter(|(test, _)| is_measured(test)).map(|&(test, share)| {
        let place = AXES.into_iter().zip(["the study of 2002", "software IPsec", test]);
        Cell::new(place).with("share", share)
    });
    let published: Vec<Cell> = published.filter(|_| topology != Topology::RoadWarrior).collect();
    shares.extend(published);
    let experiment = |id: &str, title: &str, measure: Measure, notes: &[&str]| {
        let notes: Vec<&str> = notes.iter().copied().filter(|note| !note.is_empty()).collect();
        let view = View::pivot(&AXES[..2], AXES[2], &measure.id);
        let experiment = Experiment::new(id, "R10–R14, R16, R17, R22", title, &AXES, vec![measure]);
        Experiment { paper: PAPER.to_owned(), ..experiment.notes(&notes).shown(view, Vec::new()) }
    };
    let versions = study.versions.join("; ");
    let whole = experiment(
        "tunnels",
        &format!("What protection costs, {}", topology.name()),
        Measure::new("figure", ""),
        &[
            "Medians. TCP and large in Gb/s, UDP in datagrams a second, rtt in µs, tiny in files a second. Of several hosts the sum. \
             sealane-native runs one packet after another, as the study's machines did; sealane takes batches.",
            &versions,
            "The paper: through software IPsec ttcp reaches 40 % of clear with small and 30 % with 8 KB writes; tiny files \
             take 10 % longer.",
        ],
    );
    let mut parts = experiment(
        "tunnels-in-parts",
        &format!("In parts of clear, {}", topology.name()),
        Measure::times("share", ""),
        &["The paper's claim is a share of what goes through without protection, and that is compared."],
    );
    parts.plots = vec![Plot::new(Drawn::Bars, AXES[2], "share", &AXES[..2])];
    let beside = experiment(
        "tunnels-beside",
        &format!("Beside {}, {}", RIVAL.0, topology.name()),
        Measure::times("times", ""),
        &[
            "Ours over the other's: the default suite first, then AES-128-GCM, then the other's own algorithm. Of rtt less is more.",
        ],
    );
    let rivals = beside_rival(&cells);
    let made = [(beside, rivals), (whole, cells), (parts, shares)];
    let made = made.into_iter().filter(|(_, cells)| !cells.is_empty());
    made.map(|(experiment, cells)| Outcome::new(experiment, cells)).collect()
}

/// Our tunnels over the rival's, suite by suite as users have them, the default first.
fn beside_rival(cells: &[Cell]) -> Vec<Cell> {
    let of = |peer: &str, suite: &str, test: &str| {
        cells
            .iter()
            .find(|cell| cell.at["between"] == peer && cell.at["suite"] == suite && cell.at["test"] == test)
    };
    let suites = [DEFAULT_SUITE, "aes-128-gcm", RIVAL.1];
    let tests: Vec<&str> = TESTS.into_iter().filter(|test| of(RIVAL.0, RIVAL.1, test).is_some()).collect();
    suites
        .into_iter()
        .flat_map(|suite| tests.iter().map(move |test| (suite, *test)))
        .filter_map(|(suite, test)| {
            let (own, rival) = (of("sealane", suite, test)?, of(RIVAL.0, RIVAL.1, test)?);
            let name =
                if suite == DEFAULT_SUITE { format!("{suite}, the default") } else { suite.to_owned() };
            let place = [("between", "sealane"), ("suite", &*name), ("test", test)];
            Some(Cell::new(place).with("times", derive::over(own, rival, "figure")?))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_show_medians_and_parts_of_clear() {
        let run = |peer, suite, rate| Run {
            id: "R13",
            peer,
            suite,
            topology: "host-host",
            association: "end-to-end",
            test: "ttcp-64".to_owned(),
            gbit_per_s: Some(rate),
            ..Run::default()
        };
        let mut study = Study::default();
        for rate in [8.0, 10.0, 400.0] {
            study.runs.push(run("clear", "no encryption", rate));
            study.runs.push(run("sealane", "aes-128-gcm", rate / 2.0));
            study.runs.push(run("sealane", "aes-256-gcm", rate / 2.5));
            study.runs.push(run("wireguard-go", "chacha20-poly1305", rate / 5.0));
        }
        let text = crate::report::outcomes_text(&report(&study), None);
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
        let line = serde_json::to_value(&study.runs[0]).expect("JSON");
        for field in [
            "id",
            "peer",
            "suite",
            "topology",
            "association",
            "test",
            "gbit_per_s",
            "packets_per_s",
            "rtt_us",
            "cpu_s_per_gb",
            "retransmissions",
        ] {
            assert!(line.get(field).is_some(), "{field}");
        }
    }
}

//! What IPsec costs (Miltchev, Ioannidis, Keromytis: “A Study of the Relative Costs of Network Security Protocols”, 2002), on
//! this machine, through our gateways.
//!
//! Guarantees: all tunnels of a topology stand at once and take turns run by run; every run is kept; what cannot be measured here
//! is named.

mod net;

use crate::LabError;
use crate::experiment::{Cell, Drawn, Experiment, Measure, Outcome, Plot, Sample, View, at, derive};
use crate::report::Report;
use crate::scratch::Scratch;
use crate::surroundings::Surroundings;
use net::{Between, Net};
use serde::Serialize;
use serde_json::Value;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

pub use net::Topology;

/// What is run through each tunnel; names as in results.
pub const TESTS: [&str; 11] = [
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
    "tiny",
];

/// The paper.
const PAPER: &str =
    "Miltchev, Ioannidis, Keromytis: A Study of the Relative Costs of Network Security Protocols (2002)";

/// ttcp's buffers in the study.
const TTCP_BUFFER_BYTES: u32 = 65_535;
/// Round trips of a run.
const PINGS: u32 = 300;
/// Files of a run of `tiny`: one opening and one closing tag.
const TINY_FILES: usize = 1000;
const TINY: &str = "<html></html>";
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
}

fn has(program: &str, argument: &str) -> bool {
    Command::new(program).arg(argument).stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok()
}

/// Which item of the study a test belongs to.
fn id(test: &str) -> &'static str {
    match test {
        "tiny" => "R17",
        _ if test.starts_with("ttcp") => "R13",
        _ => "R14",
    }
}

/// Runs the study; `progress` gets a line for each run.
///
/// # Errors
/// Namespaces or programs cannot be had.
pub fn run(options: &Options, progress: &mut impl Write) -> Result<Study, LabError> {
    for (program, argument) in [("ip", "-V"), ("iperf3", "-v"), ("ping", "-V")] {
        if !has(program, argument) {
            return Err(LabError::Unavailable(format!(
                "`sealane lab tunnel` takes {program}, which is not here"
            )));
        }
    }
    if !rustix::process::geteuid().is_root() {
        return Err(LabError::Unavailable("namespaces and TUN devices take root".to_owned()));
    }
    let tests: Vec<&str> = match &options.tests[..] {
        [] => TESTS.to_vec(),
        some => some.iter().map(String::as_str).collect(),
    };
    let mut study = Study::default();
    if tests.contains(&"tiny") && !has("curl", "--version") {
        study.absent.push("tiny transfers: no curl".to_owned());
    }
    let wireguard = ["wireguard", "wireguard-go"].into_iter().find(|name| has(name, "--version"));
    if wireguard.is_none() || !has("wg", "--version") {
        study.absent.push("wireguard-go: no wireguard or no wg".to_owned());
    }
    study
        .absent
        .push("three hosts and a gateway on 100 Mb/s links; HTTPS beside HTTP; AH by components".to_owned());
    for &topology in &options.topologies {
        let scratch = Scratch::create(&options.surroundings, None, 1 << 20)?;
        let mut between = vec![("clear", "NE", Between::Clear)];
        between.extend(UNITS.iter().map(|unit| {
            let ours = Between::Ours { suite: unit.suite.to_owned(), tier: unit.tier };
            (unit.peer, unit.suite, ours)
        }));
        between.extend(wireguard.filter(|_| has("wg", "--version")).map(|program| {
            ("wireguard-go", "chacha20-poly1305", Between::WireGuard { program: program.into() })
        }));
        let mut nets = Vec::new();
        for (peer, suite, between) in &between {
            match Net::up(&options.program, scratch.path(), topology, between).and_then(carries) {
                Ok(net) => nets.push((*peer, *suite, net)),
                Err(error) => study.absent.push(format!("{peer}, {suite}, {}: {error}", topology.name())),
            }
        }
        for test in &tests {
            for _ in 0..options.rounds {
                for (peer, suite, net) in &nets {
                    let Some(run) = measure(net, test, options.seconds) else {
                        study.absent.push(format!("{peer}, {suite}, {}, {test}: no result", topology.name()));
                        continue;
                    };
                    let (topology, test) = (topology.name(), (*test).to_owned());
                    let run = Run { id: id(&test), peer, suite, topology, test, ..run };
                    let _ = writeln!(
                        progress,
                        "{} {} {} {}: {:.2}",
                        run.topology,
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

/// Waits until the hosts reach each other.
fn carries(net: Net) -> Result<Net, LabError> {
    let deadline = Instant::now() + UP_TIME;
    while Instant::now() < deadline {
        let ping = net.client("ping", &format!("-c 1 -W 1 {}", net.server)).output();
        if ping.is_ok_and(|ping| ping.status.success()) {
            return Ok(net);
        }
    }
    Err(LabError::Unavailable("the hosts do not reach each other".to_owned()))
}

fn measure(net: &Net, test: &str, seconds: u32) -> Option<Run> {
    match test {
        "rtt" => {
            let ping = net.client("ping", &format!("-q -c {PINGS} -i 0.003 {}", net.server)).output().ok()?;
            let text = String::from_utf8_lossy(&ping.stdout).into_owned();
            let times = text.lines().find(|line| line.starts_with("rtt"))?.split(" = ").nth(1)?;
            let milliseconds: f64 = times.split('/').nth(1)?.parse().ok()?;
            Some(Run { rtt_us: Some(1000.0 * milliseconds), ..Run::default() })
        }
        "tiny" => tiny(net),
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

/// One run of iperf3, by what its server received.
fn iperf3(net: &Net, how: &str, seconds: u32) -> Option<Run> {
    let mut server = net.server("iperf3", "-s -1 --forceflush");
    let mut server = server.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().ok()?;
    let mut lines = BufReader::new(server.stdout.take()?).lines();
    let is_listening = lines.by_ref().any(|line| line.is_ok_and(|line| line.contains("listening")));
    let before = net.cpu_seconds();
    let client = net.client("iperf3", &format!("-c {} -t {seconds} -J {how}", net.server)).output();
    let cpu_s = net.cpu_seconds() - before;
    let client = client.ok().filter(|client| is_listening && client.status.success());
    if client.is_none() {
        // Nobody called it.
        let _ = server.kill();
    }
    lines.for_each(drop);
    let _ = server.wait();
    let report: Value = serde_json::from_slice(&client?.stdout).ok()?;
    let end = &report["end"];
    let of = |field: &str| end["sum_received"][field].as_f64();
    let (bytes, rate) = (of("bytes")?, of("bits_per_second")?);
    let packets = end["sum_received"]["packets"].as_f64().zip(of("seconds"));
    let lost = end["sum_received"]["lost_packets"].as_f64().unwrap_or_default();
    Some(Run {
        gbit_per_s: Some(rate / 1e9),
        packets_per_s: packets.map(|(packets, seconds)| (packets - lost) / seconds),
        cpu_s_per_gb: (cpu_s > 0.0 && bytes > 0.0).then_some(cpu_s * 1e9 / bytes),
        retransmissions: end["sum_sent"]["retransmits"].as_u64(),
        ..Run::default()
    })
}

/// A thousand files, each by a curl of its own.
fn tiny(net: &Net) -> Option<Run> {
    let namespace = File::open(net.server_namespace()).ok()?;
    let (port, listens) = mpsc::channel();
    let address = net.server;
    // It ends with the last file; a file that does not come ends the run by curl's limit.
    thread::Builder::new()
        .spawn(move || {
            use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).ok()?;
            let listener = TcpListener::bind((address, 0)).ok()?;
            port.send(listener.local_addr().ok()?.port()).ok()?;
            let page = format!("HTTP/1.0 200 OK\r\nContent-Length: {}\r\n\r\n{TINY}", TINY.len());
            for stream in listener.incoming().take(TINY_FILES) {
                let mut stream = stream.ok()?;
                let _ = stream.read(&mut [0; 1024]);
                let _ = stream.write_all(page.as_bytes());
            }
            Some(())
        })
        .ok()?;
    let port = listens.recv().ok()?;
    let script = format!(
        "i=0; while [ $i -lt {TINY_FILES} ]; do curl -s -m 5 -o /dev/null http://{address}:{port}/ || exit 1; i=$((i+1)); done"
    );
    let start = Instant::now();
    let status = net.client("sh", "-c").arg(script).status().ok()?;
    let files_per_s = TINY_FILES as f64 / start.elapsed().as_secs_f64();
    status.success().then(|| Run { packets_per_s: Some(files_per_s), ..Run::default() })
}

/// The study with the paper's figures beside ours.
pub fn report(study: &Study) -> Report {
    let summary = "The 2002 study of the relative costs of network security protocols, through our gateways, between \
                   namespaces of this machine.";
    let outcomes = Topology::ALL.into_iter().flat_map(|topology| outcomes(study, topology)).collect();
    Report {
        skipped: study.absent.clone(),
        ..Report::new("sealane lab tunnel", "What IPsec costs", summary, outcomes)
    }
}

/// What goes through, and that in parts of clear.
fn outcomes(study: &Study, topology: Topology) -> Vec<Outcome> {
    const AXES: [&str; 3] = ["between", "suite", "test"];
    let mut cells: Vec<Cell> = Vec::new();
    for run in study.runs.iter().filter(|run| run.topology == topology.name()) {
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
    let shares: Vec<Cell> = cells.iter().filter(|cell| !is_clear(cell)).filter_map(share).collect();
    let experiment = |id: &str, title: &str, measure: Measure, notes: &[&str]| {
        let view = View::pivot(&AXES[..2], AXES[2], &measure.id);
        let experiment = Experiment::new(id, "R10–R14, R17", title, &AXES, vec![measure]);
        Experiment { paper: PAPER.to_owned(), ..experiment.notes(notes).shown(view, Vec::new()) }
    };
    let whole = experiment(
        "tunnels",
        &format!("What protection costs, {}", topology.name()),
        Measure::new("figure", ""),
        &[
            "Medians. TCP in Gb/s, UDP in datagrams a second, rtt in µs, tiny in files a second.",
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
    let made = [(whole, cells), (parts, shares)].into_iter().filter(|(_, cells)| !cells.is_empty());
    made.map(|(experiment, cells)| Outcome::new(experiment, cells)).collect()
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
            test: "ttcp-64".to_owned(),
            gbit_per_s: Some(rate),
            ..Run::default()
        };
        let mut study = Study::default();
        for rate in [8.0, 10.0, 400.0] {
            study.runs.push(run("clear", "NE", rate));
            study.runs.push(run("sealane", "aes-128-gcm", rate / 2.0));
        }
        let text = crate::report::outcomes_text(&report(&study), None);
        let rows: Vec<String> =
            text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
        for row in ["clear NE 10.0", "sealane aes-128-gcm 5.00", "sealane aes-128-gcm 0.50"] {
            assert_eq!(rows.iter().filter(|found| *found == row).count(), 1, "{row}: {text}");
        }
        let line = serde_json::to_value(&study.runs[0]).expect("JSON");
        for field in [
            "id",
            "peer",
            "suite",
            "topology",
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

//! The sieve of Eratosthenes beside constant traffic (R18, R19; figure 14): how long a job takes that only computes,
//! while a client on its host copies a file at a constant rate, in clear or protected.
//!
//! Guarantees: sieve, client and the near gateway share one core, the far host's processes another one; the traffic
//! lasts longer than the sieve; a simulated card takes its time on the other core, and computes nothing.

use super::{Bench, Run, SECONDS, Turn, sample};
use crate::LabError;
use crate::error::unavailable;
use crate::experiment::{Cell, Claim, Coordinates, Drawn, Experiment, Measure, Outcome, Plot, View, at};
use crate::peers::{
    CURL_HTTP, CURL_HTTPS, Constant, FTP, OWN_OVER_SSH_TOOL, SCP, SFTP, Tool, Workload, timed,
};
use crate::scratch::Scratch;
use crate::tunnel::Topology;
use crate::tunnel::net::{Ground, Links, Net};
use crate::tunnel::{CARD, CLEAR, DEFAULT_SUITE, DES, NATIVE, OWN, TRIPLE_DES};
use std::process::Stdio;
use std::thread;
use std::time::{Duration, Instant};

/// The program, `primes(6)` as in the paper.
const SIEVE: &str = "primes";
/// The rate of the traffic: 40 Mb/s, which 3DES on one core of today still passes with time left for the sieve.
const BYTES_PER_SECOND: u64 = 5_000_000;
/// The traffic has begun when its host has received so many bytes, which no login needs.
const BEGUN_BYTES: u64 = 1 << 20;
/// The time in which these bytes must arrive.
const START_TIME: Duration = Duration::from_secs(10);
/// The row without traffic.
const IDLE: &str = "idle";

const AXES: [&str; 3] = ["background", "between", "suite"];

/// Returns the programs whose traffic goes through a connection.
fn tools(between: &str, suite: &str) -> &'static [&'static Tool] {
    match (between, suite) {
        (CLEAR_NAME, _) => &[&CURL_HTTP, &CURL_HTTPS, &FTP, &SCP, &SFTP, &OWN_OVER_SSH_TOOL],
        (NATIVE | CARD, DES | TRIPLE_DES) => &[&CURL_HTTP, &FTP],
        (OWN, DEFAULT_SUITE) => &[&CURL_HTTP],
        _ => &[],
    }
}

const CLEAR_NAME: &str = CLEAR.0;

/// Waits until the client's host has received the beginning of a copy, since it had received `before` bytes. The target
/// does not tell: a client may give the file its name when it is whole.
fn wait_for_copy(net: &Net, before: u64) -> Result<(), LabError> {
    let deadline = Instant::now() + START_TIME;
    while Instant::now() < deadline {
        if received_bytes(net)? >= before + BEGUN_BYTES {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(20));
    }
    Err(unavailable("the traffic in the background did not begin"))
}

/// Returns the bytes that the client's host has received over all its links, tunnels included.
fn received_bytes(net: &Net) -> Result<u64, LabError> {
    let output =
        net.command(0, "cat", "/proc/net/dev").stderr(Stdio::null()).output().map_err(unavailable)?;
    let text = String::from_utf8_lossy(&output.stdout);
    let links = text.lines().filter_map(|line| line.split_once(':')).filter(|(name, _)| name.trim() != "lo");
    let received = |(_, numbers): (&str, &str)| numbers.split_whitespace().next()?.parse::<u64>().ok();
    Ok(links.filter_map(received).sum())
}

/// Measures the sieve.
pub(super) fn outcomes(bench: &mut Bench<'_>) -> Result<Vec<Outcome>, LabError> {
    let sieve = match bench.request.surroundings.program(SIEVE) {
        Ok(sieve) => sieve,
        Err(why) => {
            bench.skipped.push(format!("sieve: {} (`cargo xtask peers` brings it)", why.reason));
            return Ok(Vec::new());
        }
    };
    let top: u64 = bench.sized(20_000_000, 200_000_000, 4_000_000_000);
    // The file lasts for so many seconds, several times as long as the sieve. It has no holes, which would not be sent.
    let bytes = BYTES_PER_SECOND * bench.sized(5, 12, 80);
    let scratch = Scratch::create(&bench.request.surroundings, None, 2 * bytes)?;
    Bench::served(&scratch, "served")?;
    let file = scratch.random_file("served/constant", bytes, bench.request.seed)?;
    let workload = &Workload::new(&file, &scratch.path().join("target"))?;
    let ground = Ground { topology: Topology::HostHost, links: Links::Gigabit, is_confined: true };
    let mut connections = bench.connections();
    connections.retain(|connection| !tools(connection.name[0], connection.name[1]).is_empty());
    let nets = bench.nets(ground, connections);
    let script = &format!("exec '{}' 1 {top} > /dev/null", sieve.display());
    let mut turns: Vec<Turn<'_>> = Vec::new();
    for (connection, net, sshd) in &nets {
        let [between, suite] = connection.name;
        let is_clear = between == CLEAR_NAME;
        let idle = is_clear.then_some(None);
        let rows = tools(between, suite).iter().map(|tool| Some(*tool));
        for tool in idle.into_iter().chain(rows) {
            let installed = match tool {
                None => None,
                Some(tool) => match bench.installed(tool, net, sshd) {
                    Some(installed) => Some(installed),
                    None => continue,
                },
            };
            let name = tool.map_or(IDLE, |tool| tool.name);
            let place = at(AXES.into_iter().zip([name, between, suite]));
            let turn = move || {
                workload.clear_target()?;
                let received = received_bytes(net)?;
                let start = |tool| Constant::start(tool, workload, BYTES_PER_SECOND);
                let mut traffic = installed.as_ref().map(start).transpose()?;
                if traffic.is_some() {
                    wait_for_copy(net, received)?;
                }
                let used = |traffic: &Option<Constant<'_>>| {
                    traffic.as_ref().map_or(0.0, |traffic| traffic.cpu().as_secs_f64())
                };
                let before = used(&traffic);
                let (mut sieve_s, mut traffic_s) = (0.0, 0.0);
                let mut taken = sample(Some(net), || {
                    let mut command = net.command(0, "/bin/sh", "-c");
                    command.arg(script);
                    let (wall, cpu) = timed(command)?;
                    traffic.as_mut().map_or(Ok(()), Constant::check)?;
                    (sieve_s, traffic_s) = (cpu.as_secs_f64(), used(&traffic) - before);
                    Ok(Run { seconds: wall.as_secs_f64(), bytes: 0, cpu_s: sieve_s + traffic_s })
                })?;
                taken.set("cpu_s", sieve_s);
                taken.set("traffic_cpu_s", traffic_s);
                Ok(taken)
            };
            turns.push((place, Box::new(turn)));
        }
    }
    let cells = bench.take_turns("sieve", turns)?;
    let title = format!("`{SIEVE} 1 {top}` beside traffic of 40 Mb/s, one core");
    let claims = claims(&cells);
    Ok(bench.outcome(experiment(&title), cells, claims).into_iter().collect())
}

/// Returns the study's table without cells: its measures, notes and plots.
fn experiment(title: &str) -> Experiment {
    let measures = vec![
        Measure::cost(SECONDS, "s", "s"),
        Measure::cost("cpu_s", "CPU s: sieve", "s"),
        Measure::cost("traffic_cpu_s", "client and server", "s"),
        Measure::cost("tunnel_cpu_s", "tunnel", "s"),
        Measure::cost("system_cpu_s", "machine", "s"),
    ];
    let notes = [
        "The paper (figure 14): software IPsec in the kernel takes cycles from the sieve, hardware gives them back; beside scp and \
         sftp the sieve is sooner ready than beside ftp, because BSD's scheduler lowers the priority of whoever computes much.",
        "Here the scheduler is Linux's, which shares a core by time alone, and IPsec is a process that it shares with. A \
         simulated card takes its time and computes nothing, so it takes none of the core's.",
    ];
    let plots = vec![
        Plot::new(Drawn::Bars, "background", SECONDS, &["between", "suite"]).titled("Run time of the sieve"),
    ];
    Experiment::new("sieve", "R18, R19", title, &AXES, measures).notes(&notes).shown(View::Cells, plots)
}

fn place(background: &str, between: &str, suite: &str) -> Coordinates {
    at(AXES.into_iter().zip([background, between, suite]))
}

fn claims(cells: &[Cell]) -> Vec<Claim> {
    let mut claims = Vec::new();
    let claim = |source: &str, statement: String, pair: (Coordinates, Coordinates)| {
        Claim::ratio((statement, source), SECONDS, pair, (Some(1.0), None))
    };
    for cell in cells.iter().filter(|cell| cell.at["between"] == NATIVE) {
        let [background, _, suite] = AXES.map(|axis| &*cell.at[axis]);
        let clear = place(background, CLEAR.0, CLEAR.1);
        let statement = format!("{background}, {suite}: software IPsec takes time from the sieve.");
        claims.push(claim("R18, figure 14", statement, (cell.at.clone(), clear)));
        let card = place(background, CARD, suite);
        let statement = format!("{background}, {suite}: hardware gives time back to the sieve.");
        // A simulated card computes nothing, so nobody can find the opposite.
        claims.push(claim("R18, figure 14", statement, (cell.at.clone(), card)).by_construction());
    }
    for secure in [SCP.name, SFTP.name] {
        let statement = format!("Beside ftp the sieve takes longer than beside {secure}.");
        let pair = (place(FTP.name, CLEAR.0, CLEAR.1), place(secure, CLEAR.0, CLEAR.1));
        claims.push(claim("R19, figure 14", statement, pair));
    }
    claims
}

//! Copies through emulated links, by a lab of its own behind each: one file, to show the effect of delay and loss on
//! one stream, on many, and on other tools.
//!
//! Guarantees: every tool uses the same link, packets of 1500 bytes at 1 Gb/s in a network namespace of its own (see
//! [`crate::link`]); clocks cover each program from start to end, so that its exchanges before the first byte count.

use super::{far_ends, streams};
use crate::LabError;
use crate::contest::{self, Rules};
use crate::experiment::{
    Axis, Cell, Claim, Coordinates, Experiment, Outcome, Profile, RATE, Repetition, View, at,
};
use crate::link::LinkOptions;
use crate::machine::{Machine, utc_now};
use crate::peers::{self, OWN, Own, Peer, Workload};
use crate::program::{CopyRequest, Level};
use crate::report::{Report, number};
use crate::request::Request;
use std::ffi::OsString;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const PART: &str = "links";
/// 1 Gb/s, as the study's link.
pub(super) const RATE_BYTES_PER_SECOND: u64 = 125_000_000;
/// The bytes in the window that the system gives a connection.
const WINDOW_BYTES: f64 = 6e6;
/// The payload of a packet of 1500 bytes.
const SEGMENT_BYTES: f64 = 1448.0;
/// The minimum of a copy's bytes.
const BYTES_MIN: u64 = 1 << 20;

/// Returns the maximum of a copy's bytes: a tool with a window of its own carries less than the system's allows.
const fn bytes_max(profile: Profile) -> u64 {
    match profile {
        Profile::Smoke | Profile::Quick => 32 << 20,
        Profile::Full | Profile::Paper => 64 << 20,
    }
}

/// Streams of the second entry.
const STREAMS: u32 = 8;
/// Peers that are commonly used on such links. Others would give no further information.
const TOOLS: [&str; 3] = ["scp", "rsync-ssh", "curl-https"];

/// A link: the round trip in microseconds, and the number of lost packets per 1000.
pub(super) type Conditions = (u64, u32);

fn links(profile: Profile) -> Vec<Conditions> {
    match profile {
        Profile::Smoke => vec![(1_000, 0)],
        Profile::Quick => vec![(10_000, 0), (100_000, 1)],
        Profile::Full | Profile::Paper => {
            [100, 10_000, 100_000].into_iter().flat_map(|rtt| [0, 1, 10].map(|loss| (rtt, loss))).collect()
        }
    }
}

/// Returns the approximate duration of a copy by one connection in seconds.
pub(super) fn seconds(profile: Profile) -> f64 {
    if profile == Profile::Quick { 1.0 } else { 2.0 }
}

pub(super) fn name((microseconds, lost): Conditions) -> String {
    let percent = f64::from(lost) / 10.0;
    format!("{} ms, {percent} % lost", microseconds as f64 / 1000.0)
}

fn own_with_streams() -> String {
    format!("{OWN}, {STREAMS} streams")
}

/// Returns the bytes that one connection is expected to carry in the duration of a copy: bounded by the link, by the
/// window, and by loss if congestion control treats each loss as congestion (Mathis et al. 1997).
pub(super) fn file_bytes(
    profile: Profile,
    (microseconds, lost): Conditions,
    congestion_control: Option<&str>,
    most: u64,
) -> u64 {
    let round_trip = microseconds as f64 / 1e6;
    let mut rate = (RATE_BYTES_PER_SECOND as f64).min(WINDOW_BYTES / round_trip);
    if lost > 0 && congestion_control != Some("bbr") {
        let share = f64::from(lost) / 1000.0;
        rate = rate.min(1.22 * SEGMENT_BYTES / (round_trip * share.sqrt()));
    }
    let bytes = (rate * seconds(profile)) as u64;
    let most = bytes_max(profile).min(most);
    bytes.clamp(BYTES_MIN.min(most), most)
}

fn repetition(profile: Profile) -> Repetition {
    Repetition { warm_up_rounds: 0, retries_per_round: 0, ..profile.repetition() }
}

/// Runs every link with a lab of its own behind it. The inner `Err` is the reason why there is none here.
pub(super) fn outcome(
    request: &Request,
    progress: &mut dyn Write,
) -> Result<Result<Outcome, String>, LabError> {
    let (began, started, seed) = (Instant::now(), utc_now(), request.seed);
    let congestion_control = Machine::describe().congestion_control;
    let links = links(request.profile);
    let bytes = |link| {
        let most = request.file_bytes_max.unwrap_or(u64::MAX);
        file_bytes(request.profile, link, congestion_control.as_deref(), most)
    };
    let Crossed { cells, skipped, tools } =
        match through(request, PART, &links, Some(RATE_BYTES_PER_SECOND), bytes, progress)? {
            Ok(crossed) => crossed,
            Err(reason) => return Ok(Err(reason)),
        };
    let experiment = experiment(request.profile, &links, tools, &cells);
    let seconds = began.elapsed().as_secs_f64();
    Ok(Ok(Outcome { seed, started, seconds, skipped, ..Outcome::new(experiment, cells) }))
}

/// The results of labs behind several links: each cell's place includes its link.
#[derive(Default)]
pub(super) struct Crossed {
    pub(super) cells: Vec<Cell>,
    pub(super) skipped: Vec<String>,
    /// The tools that ran, in their order.
    pub(super) tools: Vec<String>,
}

/// Runs a part of the study behind each link, with files of as many bytes as `bytes` says. The inner `Err` is the
/// reason why there is no link here.
pub(super) fn through(
    request: &Request,
    part: &str,
    links: &[Conditions],
    bytes_per_second: Option<u64>,
    bytes: impl Fn(Conditions) -> u64,
    progress: &mut dyn Write,
) -> Result<Result<Crossed, String>, LabError> {
    let lab = std::env::current_exe().map_err(|error| LabError::Unavailable(error.to_string()))?;
    let mut crossed = Crossed::default();
    for &link in links {
        let name = name(link);
        writeln!(progress, "Through an emulated link, {name}:")?;
        let emulation = LinkOptions {
            round_trip: Duration::from_micros(link.0),
            bytes_per_second,
            loss: f64::from(link.1) / 1000.0,
            reorder: 0.0,
            duplicate: 0.0,
            seed: request.seed,
        };
        let mut command = Command::new(&lab);
        command.args(emulation.words()).arg("--").arg(&lab).args(words(request, part, bytes(link)));
        let output = command
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .output()
            .map_err(|source| LabError::Start { program: lab.clone(), source })?;
        let Ok(report) = Report::from_json(&String::from_utf8_lossy(&output.stdout)) else {
            return Ok(Err(format!("the lab behind the link ended with {}", output.status)));
        };
        for outcome in report.outcomes {
            for mut cell in outcome.cells {
                cell.at.insert("link".to_owned(), name.clone());
                cell.at.insert("data".to_owned(), outcome.experiment.id.clone());
                if !crossed.tools.contains(&cell.at["tool"]) {
                    crossed.tools.push(cell.at["tool"].clone());
                }
                crossed.cells.push(cell);
            }
            let reasons = outcome.skipped.into_iter().map(|reason| format!("{name}: {reason}"));
            crossed.skipped.extend(reasons);
        }
    }
    Ok(Ok(crossed))
}

/// Returns the arguments of the lab behind the link.
fn words(request: &Request, part: &str, bytes: u64) -> Vec<OsString> {
    let profile = request.profile.name();
    let mut words: Vec<OsString> =
        ["lab", "transfer", "--behind-link", "--only", part, "--json", "--no-report", "--profile", profile]
            .map(OsString::from)
            .to_vec();
    let mut option = |name: &str, value: OsString| words.extend([name.into(), value]);
    option("--seed", request.seed.to_string().into());
    option("--size", bytes.to_string().into());
    if let Some(program) = &request.program {
        option("--program", program.into());
    }
    if let Some(directory) = &request.work_directory {
        option("--work-dir", directory.into());
    }
    if !request.peers {
        words.push("--no-peers".into());
    }
    words
}

/// Runs a part of the study behind a link.
///
/// # Errors
/// Fails if there is no room for its files, or progress cannot be written.
pub fn behind(request: &Request, progress: &mut dyn Write) -> Result<Report, LabError> {
    let started = Instant::now();
    let outcomes = match request.only.first().map(String::as_str) {
        Some(streams::PART) => vec![streams::behind(request, progress)?],
        Some(far_ends::PART) => far_ends::behind(request, progress)?,
        _ => vec![one_file(request, progress)?],
    };
    Ok(Report {
        seconds: started.elapsed().as_secs_f64(),
        profile: Some(request.profile),
        ..Report::new("sealane lab transfer", "Behind an emulated link", "", outcomes)
    })
}

/// Copies one file by one stream, by many, and by other tools, in turns.
fn one_file(request: &Request, progress: &mut dyn Write) -> Result<Outcome, LabError> {
    const NAME: &str = "file";
    let bytes = request.file_bytes_max.unwrap_or_else(|| bytes_max(request.profile));
    let scratch = request.scratch(bytes.saturating_mul(3))?;
    let file = scratch.random_file(NAME, bytes, request.seed)?;
    let size = number::bytes(bytes);
    let rules = Rules {
        id: "emulated",
        covers: PART,
        title: &format!("One file of {size} behind an emulated link"),
        words: &format!("{size} of random bytes, new in each round, into a new file."),
        workload: &Workload::new(&file, &scratch.path().join("target"))?,
        renew: Some((&scratch, NAME)),
        repetition: repetition(request.profile),
        seed: request.seed,
        deadline: None,
        with_claims: false,
    };
    let one = Own::new(&request.program()?, OWN, Level::Private);
    let streams = CopyRequest { streams: Some(STREAMS), ..one.request.clone() };
    let many = Own { name: own_with_streams(), request: streams, program: one.program.clone() };
    let mut contestants: Vec<Box<dyn Peer>> = vec![Box::new(one), Box::new(many)];
    if request.peers {
        let tools = peers::all(&request.surroundings);
        contestants.extend(tools.into_iter().filter(|peer| TOOLS.contains(&peer.name())));
    }
    Ok(contest::hold(&rules, &mut contestants, progress)?.0)
}

fn experiment(profile: Profile, links: &[Conditions], tools: Vec<String>, cells: &[Cell]) -> Experiment {
    Experiment {
        id: "emulated".to_owned(),
        covers: PART.to_owned(),
        title: "One file through emulated links of 1 Gb/s".to_owned(),
        method: vec![
            "A network namespace of its own, in which packets to 127.0.0.1 pass an emulated link: 1500 bytes each, 1 Gb/s for both directions together, half the round trip's delay each way, losses drawn for each packet.".to_owned(),
            "Each copy goes into an empty directory; the first of each tool is compared byte for byte, after the clock has stopped. Clocks cover the whole program, so a login's round trips are part of it.".to_owned(),
        ],
        axes: vec![Axis::new("link", links.iter().map(|&link| name(link))), Axis::new("tool", tools)],
        workload: format!(
            "One file of random bytes, new in each round: as much as one connection carries in about {} s, from {} to {}.",
            seconds(profile),
            number::bytes(BYTES_MIN),
            number::bytes(bytes_max(profile))
        ),
        repetition: repetition(profile),
        claims: links.iter().flat_map(|&link| claims(&name(link), cells)).collect(),
        view: View::Bars { groups: "link".to_owned(), names: "tool".to_owned(), own: OWN.to_owned() },
        ..Experiment::default()
    }
}

/// Returns the claims against each tool that ran on this link.
fn claims(link: &str, cells: &[Cell]) -> Vec<Claim> {
    let place = |tool: &str| -> Coordinates { at([("link", link), ("tool", tool)]) };
    let own = own_with_streams();
    let is_peer = |cell: &&Cell| cell.at["link"] == link && TOOLS.contains(&&*cell.at["tool"]);
    let against = |cell: &Cell| {
        let tool = &cell.at["tool"];
        let statement = format!("{own}: not slower than {tool} through {link}");
        Claim::ratio((statement, "target"), RATE, (place(&own), place(tool)), (Some(1.0), None))
    };
    cells.iter().filter(is_peer).map(against).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_fit_what_a_connection_carries() {
        let (max, most) = (u64::MAX, bytes_max(Profile::Full));
        assert_eq!(file_bytes(Profile::Full, (100, 0), None, max), most);
        assert_eq!(file_bytes(Profile::Full, (100, 0), None, 4 << 20), 4 << 20);
        assert_eq!(file_bytes(Profile::Full, (100_000, 10), Some("bbr"), max), most);
        // By the formula, 1.22 x 1448 / (0.1 s x 0.1) is 177 kB/s.
        assert_eq!(file_bytes(Profile::Full, (100_000, 10), Some("cubic"), max), BYTES_MIN);
        let some = file_bytes(Profile::Full, (10_000, 1), Some("cubic"), max);
        assert!((10_000_000..12_000_000).contains(&some), "{some}");
    }

    #[test]
    fn claims_are_about_tools_that_ran() {
        let link = name((10_000, 1));
        assert_eq!(link, "10 ms, 0.1 % lost");
        let cell = |tool: &str| Cell { at: at([("link", &*link), ("tool", tool)]), ..Cell::default() };
        let cells = [cell(OWN), cell(&own_with_streams()), cell("scp")];
        let claims = claims(&link, &cells);
        assert_eq!(claims.len(), 1);
        assert!(claims[0].statement.contains("scp through 10 ms"));
        assert_eq!(links(Profile::Full).len(), 9);
    }
}

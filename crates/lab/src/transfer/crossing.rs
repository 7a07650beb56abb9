//! Runs a part of the study by a lab of its own behind each of several emulated links.
//!
//! Guarantees: every tool uses the same link, packets of 1500 bytes in a network namespace of its own (see
//! [`crate::link`]); each result names its link.

use crate::LabError;
use crate::error::unavailable;
use crate::experiment::{Cell, Profile};
use crate::link::LinkOptions;
use crate::report::Report;
use crate::request::Request;
use std::ffi::OsString;
use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

/// 1 Gb/s, as the study's link.
pub(super) const RATE_BYTES_PER_SECOND: u64 = 125_000_000;

/// A link: the round trip in microseconds, and the number of lost packets per 1000.
pub(super) type Conditions = (u64, u32);

pub(super) fn name((microseconds, lost): Conditions) -> String {
    let percent = f64::from(lost) / 10.0;
    format!("{} ms, {percent} % lost", microseconds as f64 / 1000.0)
}

/// The results of labs behind several links: each cell's place includes its link.
#[derive(Default)]
pub(super) struct Crossed {
    pub(super) cells: Vec<Cell>,
    pub(super) skipped: Vec<String>,
    /// The tools that ran, in their order.
    pub(super) tools: Vec<String>,
}

/// Runs a part of the study behind each link, with files of as many bytes as `bytes` says.
pub(super) fn through(
    request: &Request,
    part: &str,
    links: &[Conditions],
    bytes_per_second: Option<u64>,
    bytes: impl Fn(Conditions) -> u64,
    progress: &mut dyn Write,
) -> Result<Crossed, LabError> {
    let lab = std::env::current_exe().map_err(unavailable)?;
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
            return Err(unavailable(format_args!("the lab behind the link ended with {}", output.status)));
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
    Ok(crossed)
}

/// Returns the arguments of the lab behind the link.
fn words(request: &Request, part: &str, bytes: u64) -> Vec<OsString> {
    let profile = request.profile.name();
    let mut words: Vec<OsString> =
        ["transfer", "--behind-link", "--only", part, "--json", "--no-report", "--profile", profile]
            .map(OsString::from)
            .to_vec();
    let mut option = |name: &str, value: OsString| words.extend([name.into(), value]);
    option("--seed", request.seed.to_string().into());
    option("--size", bytes.to_string().into());
    if let Some(program) = &request.program {
        option("--program", program.into());
    }
    if let Some(directory) = &request.copies.work_directory {
        option("--work-dir", directory.into());
    }
    if !request.copies.peers {
        words.push("--no-peers".into());
    }
    words
}

/// The bytes in the window that the system gives a connection.
const WINDOW_BYTES: f64 = 6e6;

/// The payload of a packet of 1500 bytes.
const SEGMENT_BYTES: f64 = 1448.0;

/// The minimum of a copy's bytes.
pub(super) const BYTES_MIN: u64 = 1 << 20;

/// Returns the maximum of a copy's bytes: a tool with a window of its own carries less than the system's allows.
pub(super) const fn bytes_max(profile: Profile) -> u64 {
    match profile {
        Profile::Smoke | Profile::Quick => 32 << 20,
        Profile::Full | Profile::Paper => 64 << 20,
    }
}

/// Returns the approximate duration of a copy by one connection in seconds.
pub(super) fn seconds(profile: Profile) -> f64 {
    if profile == Profile::Quick { 1.0 } else { 2.0 }
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

//! Copies of one file through emulated links, to show the effect of delay and loss on one stream, on many, and on
//! other tools.
//!
//! Guarantees: every tool uses the same link at 1 Gb/s (see [`super::crossing`]); clocks cover each program from start to end, so that its exchanges before the first byte count.

use super::copies::Copies;
use super::crossing::{
    BYTES_MIN, Conditions, Crossed, RATE_BYTES_PER_SECOND, bytes_max, file_bytes, name, seconds, through,
};
use crate::LabError;
use crate::contest::{self, Rules};
use crate::experiment::{
    Axis, Cell, Claim, Coordinates, Experiment, Outcome, Profile, RATE, Repetition, View, at,
};
use crate::machine::Machine;
use crate::peers::{self, OWN, Own, Peer, Workload};
use crate::program::{CopyRequest, Level};
use crate::report::number;
use crate::request::Request;
use sealane_terminal::text::utc_now;
use std::io::Write;
use std::time::Instant;

/// The part's name.
pub(super) const PART: &str = "links";
/// Streams of the second entry.
const STREAMS: u32 = 8;
/// Peers that are commonly used on such links. Others would give no further information.
const TOOLS: [&str; 3] = ["scp", "rsync-ssh", "curl-https"];

fn links(profile: Profile) -> Vec<Conditions> {
    match profile {
        Profile::Smoke => vec![(1_000, 0)],
        Profile::Quick => vec![(10_000, 0), (100_000, 1)],
        Profile::Full | Profile::Paper => {
            [100, 10_000, 100_000].into_iter().flat_map(|rtt| [0, 1, 10].map(|loss| (rtt, loss))).collect()
        }
    }
}

fn own_with_streams() -> String {
    format!("{OWN}, {STREAMS} streams")
}

fn repetition(profile: Profile) -> Repetition {
    Repetition { warm_up_rounds: 0, retries_per_round: 0, ..profile.repetition() }
}

/// Runs every link with a lab of its own behind it.
pub(super) fn outcomes(copies: &Copies<'_>, progress: &mut dyn Write) -> Result<Vec<Outcome>, LabError> {
    let request = copies.request;
    let (began, started, seed) = (Instant::now(), utc_now(), request.seed);
    let congestion_control = Machine::describe().congestion_control;
    let links = links(request.profile);
    let bytes = |link| {
        let most = request.copies.file_bytes_max.unwrap_or(u64::MAX);
        file_bytes(request.profile, link, congestion_control.as_deref(), most)
    };
    let Crossed { cells, skipped, tools } =
        through(request, PART, &links, Some(RATE_BYTES_PER_SECOND), bytes, progress)?;
    let experiment = experiment(request.profile, &links, tools, &cells);
    let seconds = began.elapsed().as_secs_f64();
    Ok(vec![Outcome { seed, started, seconds, skipped, ..Outcome::new(experiment, cells) }])
}

/// Copies one file by one stream, by many, and by other tools, in turns.
pub(super) fn one_file(request: &Request, progress: &mut dyn Write) -> Result<Outcome, LabError> {
    const NAME: &str = "file";
    let bytes = request.copies.file_bytes_max.unwrap_or_else(|| bytes_max(request.profile));
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
    if request.copies.peers {
        let tools = peers::all(&request.surroundings);
        contestants.extend(tools.into_iter().filter(|peer| TOOLS.contains(&peer.name())));
    }
    Ok(contest::hold(&rules, &mut contestants, progress)?.0)
}

fn experiment(profile: Profile, links: &[Conditions], tools: Vec<String>, cells: &[Cell]) -> Experiment {
    Experiment {
        axes: vec![Axis::new("link", links.iter().map(|&link| name(link))), Axis::new("tool", tools)],
        workload: format!(
            "One file of random bytes, new in each round: as much as one connection carries in about {} s, from {} to {}.",
            seconds(profile),
            number::bytes(BYTES_MIN),
            number::bytes(bytes_max(profile))
        ),
        repetition: repetition(profile),
        claims: links.iter().flat_map(|&link| claims(&name(link), cells)).collect(),
        view: View::bars("link", "tool", OWN),
        ..Experiment::new("emulated", PART, "One file through emulated links of 1 Gb/s", &[], Vec::new())
    }
    .method(&[
        "A network namespace of its own, in which packets to 127.0.0.1 pass an emulated link: 1500 bytes each, 1 Gb/s for both \
         directions together, half the round trip's delay each way, losses drawn for each packet.",
        "Each copy goes into an empty directory; the first of each tool is compared byte for byte, after the clock has stopped. Clocks \
         cover the whole program, so a login's round trips are part of it.",
    ])
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

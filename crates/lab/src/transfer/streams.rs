//! The number of streams that the product chooses, beside fixed numbers, through links with delay and loss: with its
//! own far end, and over SFTP.
//!
//! Guarantees: every number takes its turn on the same bytes through the same link; a claim is that the choice is not slower
//! than a fixed number: faster or slower needs no bound of ours.

use super::copies::Copies;
use super::crossing::{Conditions, Crossed, RATE_BYTES_PER_SECOND, file_bytes, name, seconds, through};
use crate::LabError;
use crate::contest::{self, Rules};
use crate::experiment::{Axis, Claim, Experiment, Outcome, Profile, RATE, Repetition, View, at};
use crate::machine::Machine;
use crate::peers::{self, OWN, OWN_OVER_SFTP, Own, Peer, Workload};
use crate::program::{CopyRequest, Level};
use crate::report::number;
use crate::request::Request;
use crate::stats::{Centre, SAMPLES_FOR_CONFIDENCE};
use sealane_terminal::text::utc_now;
use std::io::Write;
use std::time::Instant;

/// The part's name.
pub(super) const PART: &str = "streams";
/// The fixed numbers.
const NUMBERS: [u32; 5] = [1, 2, 4, 8, 16];
/// As many bytes as this number of connections is expected to carry in the duration of a copy.
const CONNECTIONS: u64 = 8;
const BYTES_MIN: u64 = 8 << 20;

fn links(profile: Profile) -> Vec<Conditions> {
    match profile {
        Profile::Smoke => vec![(10_000, 0)],
        Profile::Quick => vec![(100_000, 1)],
        Profile::Full | Profile::Paper => {
            [100, 10_000, 100_000].into_iter().flat_map(|rtt| [0, 1, 10].map(|loss| (rtt, loss))).collect()
        }
    }
}

/// Returns the fixed numbers of a profile: of a short one the smallest, the usual and the largest.
fn numbers(profile: Profile) -> Vec<u32> {
    match profile {
        Profile::Smoke | Profile::Quick => vec![1, 4, 16],
        Profile::Full | Profile::Paper => NUMBERS.to_vec(),
    }
}

/// The largest file, unless the request has another limit.
fn bytes_max(profile: Profile) -> u64 {
    match profile {
        Profile::Smoke => 8 << 20,
        Profile::Quick => 32 << 20,
        Profile::Full | Profile::Paper => 512 << 20,
    }
}

/// Medians of as few runs as give an interval: a single stream takes long where packets are lost.
fn repetition(profile: Profile) -> Repetition {
    let rounds = if profile == Profile::Smoke { 1 } else { SAMPLES_FOR_CONFIDENCE };
    Repetition { warm_up_rounds: 0, rounds, retries_per_round: 0, centre: Centre::Median }
}

fn fixed(number: u32) -> String {
    format!("{OWN}, {number} streams")
}

/// Runs every link with a lab of its own behind it.
pub(super) fn outcomes(copies: &Copies<'_>, progress: &mut dyn Write) -> Result<Vec<Outcome>, LabError> {
    let request = copies.request;
    let (began, started, seed) = (Instant::now(), utc_now(), request.seed);
    let congestion_control = Machine::describe().congestion_control;
    let links = links(request.profile);
    let most = request.copies.file_bytes_max.unwrap_or_else(|| bytes_max(request.profile));
    let bytes = |link| {
        let one = file_bytes(request.profile, link, congestion_control.as_deref(), u64::MAX);
        (one * CONNECTIONS).clamp(BYTES_MIN.min(most), most)
    };
    let Crossed { cells, skipped, tools } =
        through(request, PART, &links, Some(RATE_BYTES_PER_SECOND), bytes, progress)?;
    let names: Vec<String> = links.iter().map(|&link| name(link)).collect();
    let experiment = Experiment {
        workload: format!(
            "One file of random bytes, new in each round: as much as {CONNECTIONS} connections carry in about {} s, at most {}.",
            seconds(request.profile),
            number::bytes(most)
        ),
        repetition: repetition(request.profile),
        claims: names.iter().flat_map(|link| claims(request.profile, link)).collect(),
        axes: vec![Axis::new("link", names), Axis::new("tool", tools)],
        view: View::bars("link", "tool", OWN),
        ..Experiment::new(PART, PART, "The default number of streams beside fixed numbers", &[], Vec::new())
    };
    let experiment = experiment.method(&[
        "Each link is emulated in a network namespace of its own, at 1 Gb/s for both directions together. A copy's default starts with \
         few streams and adds others while they bring more.",
    ]);
    let seconds = began.elapsed().as_secs_f64();
    Ok(vec![Outcome { seed, started, seconds, skipped, ..Outcome::new(experiment, cells) }])
}

/// Returns the claims that the default is not slower than each fixed number on this link.
fn claims(profile: Profile, link: &str) -> Vec<Claim> {
    let place = |tool: &str| at([("link", link), ("tool", tool)]);
    let against = |own: &str, other: String| {
        let statement = format!("{own}: the default is not slower than {other} through {link}");
        Claim::ratio((statement, "target"), RATE, (place(own), place(&other)), (Some(1.0), None))
    };
    let by = |number: u32| {
        [against(OWN, fixed(number)), against(OWN_OVER_SFTP, format!("{OWN_OVER_SFTP}, {number}"))]
    };
    numbers(profile).into_iter().flat_map(by).collect()
}

/// Copies one file behind a link by every number of streams, in turns.
pub(super) fn behind(request: &Request, progress: &mut dyn Write) -> Result<Outcome, LabError> {
    const NAME: &str = "file";
    let bytes = request.copies.file_bytes_max.unwrap_or(BYTES_MIN);
    let scratch = request.scratch(bytes.saturating_mul(3))?;
    let file = scratch.random_file(NAME, bytes, request.seed)?;
    let size = number::bytes(bytes);
    let rules = Rules {
        id: PART,
        covers: PART,
        title: &format!("One file of {size} by different numbers of streams"),
        words: &format!("{size} of random bytes, new in each round, into a new file."),
        workload: &Workload::new(&file, &scratch.path().join("target"))?,
        renew: Some((&scratch, NAME)),
        repetition: repetition(request.profile),
        seed: request.seed,
        deadline: None,
        with_claims: false,
    };
    let program = request.program()?;
    let own = Own::new(&program, OWN, Level::Private);
    let by = |number: u32| {
        let streams = CopyRequest { streams: Some(number), ..own.request.clone() };
        Own { name: fixed(number), request: streams, program: program.clone() }
    };
    let numbers = numbers(request.profile);
    let mut contestants: Vec<Box<dyn Peer>> =
        numbers.iter().map(|&number| Box::new(by(number)) as Box<dyn Peer>).collect();
    contestants.insert(0, Box::new(own));
    if request.copies.peers {
        let is_asked = |peer: &dyn Peer| {
            let fixed = peer.name().strip_prefix(OWN_OVER_SFTP).and_then(|rest| rest.strip_prefix(", "));
            fixed.is_none_or(|fixed| numbers.iter().any(|number| number.to_string() == fixed))
        };
        let peers = peers::own_over_sftp(&request.surroundings, &program.path);
        contestants.extend(peers.into_iter().filter(|peer| is_asked(peer.as_ref())));
    }
    Ok(contest::hold(&rules, &mut contestants, progress)?.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::surroundings::Surroundings;
    use std::path::Path;
    use std::sync::Arc;

    #[test]
    fn claims_name_contestants() {
        let peers = peers::own_over_sftp(&Arc::new(Surroundings::default()), Path::new("sealane"));
        let mut names: Vec<String> = peers.iter().map(|peer| peer.name().to_owned()).collect();
        names.extend(NUMBERS.map(fixed));
        names.push(OWN.to_owned());
        assert_eq!(claims(Profile::Full, "a link").len(), 2 * NUMBERS.len());
        assert_eq!(claims(Profile::Quick, "a link").len(), 2 * 3);
        for number in NUMBERS {
            assert!(names.contains(&fixed(number)) && names.contains(&format!("{OWN_OVER_SFTP}, {number}")));
        }
        assert_eq!(links(Profile::Full).len(), 9);
    }
}

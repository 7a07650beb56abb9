//! Copies to and from a host that has only sshd, beside scp and rsync: a large file in both directions, many small
//! files, and both through a link with delay.
//!
//! Guarantees: all log in to one private server with the same cipher, unless the name says otherwise; each program's
//! first copy is compared byte for byte.

use super::copies::Copies;
use super::crossing::{Crossed, name, through};
use crate::LabError;
use crate::contest::{self, Rules};
use crate::experiment::{
    Axis, CPU_PER_GIB, Claim, Coordinates, Experiment, Outcome, Profile, RATE, Repetition, View, at,
};
use crate::peers::{self, OWN_OVER_SFTP, OWN_PULLS, Peer, Workload};
use crate::report::number;
use crate::request::Request;
use crate::scratch::Scratch;
use crate::stats::{Centre, SAMPLES_FOR_CONFIDENCE};
use sealane_terminal::text::utc_now;
use std::io::Write;
use std::path::PathBuf;
use std::time::Instant;

/// The part's name.
pub(super) const PART: &str = "sftp";
/// The contestants of a smoke run: each of them logs in for each of its copies.
const SMOKE: [&str; 3] = [OWN_OVER_SFTP, OWN_PULLS, "scp"];
/// The link: 20 ms, without loss and without a limit of its rate.
const LINK: (u64, u32) = (20_000, 0);
/// Returns the largest file, here and behind the link.
fn bytes_max(profile: Profile) -> (u64, u64) {
    match profile {
        Profile::Smoke | Profile::Quick => (128 << 20, 32 << 20),
        Profile::Full | Profile::Paper => (u64::MAX, FAR_SIZES[0]),
    }
}

/// The ids of the two workloads.
const FILE: &str = "sftp-file";
const TREE: &str = "sftp-tree";
/// The length of each small file.
const SMALL_BYTES: usize = 4096;

/// The claim that the product is not slower than another program, or needs no more CPU per byte: the product's name, the
/// other's, and the measure. Faster or slower needs no bound of ours.
type Target = (&'static str, &'static str, &'static str);

const NEAR_FILE: &[Target] = &[
    (OWN_OVER_SFTP, "scp", RATE),
    (OWN_OVER_SFTP, "scp", CPU_PER_GIB),
    (OWN_OVER_SFTP, "scp, default cipher", RATE),
    (OWN_PULLS, "scp, pull", RATE),
];
const NEAR_TREE: &[Target] = &[(OWN_OVER_SFTP, "scp", RATE), (OWN_OVER_SFTP, "rsync-ssh", RATE)];
const FAR_FILE: &[Target] = &[("sealane cp, SFTP, 2", "scp", RATE), ("sealane cp, SFTP, 8", "scp", RATE)];
const FAR_TREE: &[Target] = &[(OWN_OVER_SFTP, "scp", RATE), (OWN_OVER_SFTP, "rsync-ssh", RATE)];

/// Medians of as few runs as give an interval: a tool that waits for each file takes minutes.
fn repetition(profile: Profile) -> Repetition {
    let rounds = if profile == Profile::Smoke { 1 } else { SAMPLES_FOR_CONFIDENCE };
    Repetition { warm_up_rounds: 0, rounds, retries_per_round: 0, centre: Centre::Median }
}

/// Returns the number of small files, here and behind the link.
fn files(profile: Profile) -> (usize, usize) {
    match profile {
        Profile::Smoke => (50, 10),
        Profile::Quick => (500, 60),
        Profile::Full | Profile::Paper => (NEAR_SIZES[1] as usize, FAR_SIZES[1] as usize),
    }
}

/// The sizes of which the targets speak, here and behind the link: bytes of the file, and small files.
const NEAR_SIZES: [u64; 2] = [2 << 30, 10_000];
const FAR_SIZES: [u64; 2] = [256 << 20, 2_000];

/// Returns the claims about one of the workloads; `found` is this run's size, and `needed` that of the targets.
fn claims(targets: &[Target], data: &str, link: Option<&str>, [found, needed]: [u64; 2]) -> Vec<Claim> {
    let size = |size: u64| match data {
        FILE => format!("one file of {}", number::bytes(size)),
        _ => format!("{size} files of 4 KiB"),
    };
    let place = |tool: &str| -> Coordinates {
        match link {
            Some(link) => at([("data", data), ("link", link), ("tool", tool)]),
            None => at([("tool", tool)]),
        }
    };
    let claim = |&(own, other, measure): &Target| {
        let (words, bounds) = match measure {
            RATE => ("not slower than", (Some(1.0), None)),
            _ => ("no more CPU per byte than", (None, Some(1.0))),
        };
        let through = link.map(|link| format!(" through {link}")).unwrap_or_default();
        let statement = format!("{own}: {words} {other}, {}{through}", size(needed));
        let claim = Claim::ratio((statement, "target"), measure, (place(own), place(other)), bounds);
        claim.judged_from(found, needed, size)
    };
    targets.iter().map(claim).collect()
}

/// Copies a file and small files without a link.
pub(super) fn near(copies: &Copies<'_>, progress: &mut dyn Write) -> Result<Vec<Outcome>, LabError> {
    let Copies { request, scratch, .. } = *copies;
    if !request.copies.peers {
        return Ok(Vec::new());
    }
    let bytes_max = copies.bytes_max.min(bytes_max(request.profile).0);
    let count = files(request.profile).0;
    let claimed = |outcome: Outcome, targets, data, sizes| {
        let claims = claims(targets, data, None, sizes);
        let experiment = Experiment { claims, ..outcome.experiment.clone() };
        let claims = Outcome::new(experiment.clone(), outcome.cells.clone()).claims;
        Outcome { experiment, claims, ..outcome }
    };
    let [file, tree] = hold(request, scratch, bytes_max, count, progress)?;
    Ok(vec![
        claimed(file, NEAR_FILE, FILE, [bytes_max, NEAR_SIZES[0]]),
        claimed(tree, NEAR_TREE, TREE, [count as u64, NEAR_SIZES[1]]),
    ])
}

/// Runs the same in a lab behind the link.
pub(super) fn far(copies: &Copies<'_>, progress: &mut dyn Write) -> Result<Vec<Outcome>, LabError> {
    let request = copies.request;
    if !request.copies.peers {
        return Ok(Vec::new());
    }
    let (began, started, seed) = (Instant::now(), utc_now(), request.seed);
    let bytes_max = bytes_max(request.profile).1;
    let bytes = request.copies.file_bytes_max.unwrap_or(bytes_max).min(bytes_max);
    let Crossed { cells, skipped, tools } = through(request, PART, &[LINK], None, |_| bytes, progress)?;
    let link = name(LINK);
    let size = number::bytes(bytes);
    let count = files(request.profile).1;
    let small = format!("{count} files of 4 KiB");
    let outcome = |data: &str, words: &str, (targets, sizes): (&[Target], _), skipped| {
        let title = format!("To a host with sshd alone, through a link of {link}: {words}");
        let experiment = Experiment {
            axes: vec![Axis::new("link", [link.clone()]), Axis::new("tool", tools.clone())],
            workload: words.to_owned(),
            repetition: repetition(request.profile),
            claims: claims(targets, data, Some(&link), sizes),
            view: View::bars("link", "tool", OWN_OVER_SFTP),
            ..Experiment::new(&format!("far-{data}"), PART, &title, &[], Vec::new())
        };
        let experiment = experiment.method(&[
            "The link is emulated in a network namespace of its own; logins are part of each run.",
        ]);
        let cells = cells.iter().filter(|cell| cell.at["data"] == data).cloned().collect();
        let seconds = began.elapsed().as_secs_f64();
        Outcome { seed, started: started.clone(), seconds, skipped, ..Outcome::new(experiment, cells) }
    };
    Ok(vec![
        outcome(FILE, &format!("one file of {size}"), (FAR_FILE, [bytes, FAR_SIZES[0]]), skipped),
        outcome(TREE, &small, (FAR_TREE, [count as u64, FAR_SIZES[1]]), Vec::new()),
    ])
}

/// Copies a file and small files, in the lab behind the link.
pub(super) fn behind(request: &Request, progress: &mut dyn Write) -> Result<Vec<Outcome>, LabError> {
    let bytes = request.copies.file_bytes_max.unwrap_or_else(|| bytes_max(request.profile).1);
    let count = files(request.profile).1;
    let scratch = request.scratch(3 * (bytes + (count * SMALL_BYTES) as u64))?;
    Ok(hold(request, &scratch, bytes, count, progress)?.into())
}

/// Holds both contests: one file, and `count` small files.
fn hold(
    request: &Request,
    scratch: &Scratch,
    bytes: u64,
    count: usize,
    progress: &mut dyn Write,
) -> Result<[Outcome; 2], LabError> {
    const NAME: &str = "sftp-large";
    let program = request.program()?;
    let target = scratch.path().join("target");
    let size = number::bytes(bytes);
    let file = scratch.random_file(NAME, bytes, request.seed)?;
    let tree = small_files(scratch, count, request.seed)?;
    let mut contestants = peers::beside_sftp(&request.surroundings, &program.path);
    if request.profile == Profile::Smoke {
        contestants.retain(|peer| SMOKE.contains(&peer.name()));
    }
    let rules = |id, title, words, workload, renew| Rules {
        id,
        title,
        covers: PART,
        words,
        workload,
        renew,
        repetition: repetition(request.profile),
        seed: request.seed,
        deadline: None,
        with_claims: false,
    };
    let (title, words) = (
        format!("To and from a host with sshd alone: one file of {size}"),
        format!("{size} of random bytes, new in each round."),
    );
    let workload = Workload::new(&file, &target)?;
    let large = rules(FILE, &title, &words, &workload, Some((scratch, NAME)));
    let large = contest::hold(&large, &mut contestants, progress)?.0;
    crate::scratch::remove(&file)?;
    // Directions and ciphers make no difference for small files.
    let mut contestants: Vec<Box<dyn Peer>> =
        contestants.into_iter().filter(|peer| !is_for_files(peer.name())).collect();
    let (title, words) = (
        format!("To a host with sshd alone: {count} files of 4 KiB"),
        format!("{count} files of 4096 random bytes in one folder."),
    );
    let workload = Workload::new(&tree, &target)?;
    let small = rules(TREE, &title, &words, &workload, None);
    let small = contest::hold(&small, &mut contestants, progress)?.0;
    crate::scratch::remove(&tree)?;
    Ok([large, small])
}

fn is_for_files(name: &str) -> bool {
    name.ends_with("pull") || name.ends_with("default cipher") || name.ends_with(", 8")
}

fn small_files(scratch: &Scratch, count: usize, seed: u64) -> Result<PathBuf, LabError> {
    const NAME: &str = "sftp-small";
    let folder = scratch.empty_directory(NAME)?;
    for number in 0..count {
        let name = format!("{NAME}/{number}");
        scratch.random_file(&name, SMALL_BYTES as u64, seed ^ number as u64)?;
    }
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::surroundings::Surroundings;
    use std::path::Path;
    use std::sync::Arc;

    /// A short run shows its figures beside the bounds of a long one, and does not decide them.
    #[test]
    fn targets_are_judged_at_their_size_alone() {
        let unjudged = |found: u64, needed: u64| {
            let claims = claims(NEAR_TREE, TREE, None, [found, needed]);
            assert!(
                claims.iter().all(|claim| claim.statement.ends_with("10000 files of 4 KiB")),
                "{claims:?}"
            );
            claims.iter().filter(|claim| claim.unjudged.is_some()).count()
        };
        assert_eq!(unjudged(files(Profile::Quick).0 as u64, NEAR_SIZES[1]), NEAR_TREE.len());
        assert_eq!(unjudged(files(Profile::Full).0 as u64, NEAR_SIZES[1]), 0);
        let far = &claims(FAR_FILE, FILE, Some("20 ms"), [bytes_max(Profile::Quick).1, FAR_SIZES[0]])[0];
        assert!(far.statement.contains("one file of 256 MiB through 20 ms"), "{far:?}");
        let reason = far.unjudged.as_deref().unwrap_or_default();
        assert_eq!(reason, "this run has one file of 32.0 MiB; `--profile full` has one file of 256 MiB");
    }

    #[test]
    fn targets_name_contestants_of_their_workload() {
        let peers = peers::beside_sftp(&Arc::new(Surroundings::default()), Path::new("sealane"));
        let names: Vec<&str> = peers.iter().map(|peer| peer.name()).collect();
        for (own, other, ..) in [NEAR_FILE, NEAR_TREE, FAR_FILE, FAR_TREE].concat() {
            assert!(names.contains(&own) && names.contains(&other), "{own} or {other} in {names:?}");
        }
        for (own, other, ..) in [NEAR_TREE, FAR_TREE].concat() {
            assert!(!is_for_files(own) && !is_for_files(other));
        }
    }
}

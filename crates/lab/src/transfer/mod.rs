//! Repeats the multicore study: threads and streams at four levels of protection, on this machine.
//!
//! Guarantees: both generations of suites are measured, and each end on its own; claims are those of the study, as
//! shapes; parts that cannot be run here are named with the reason.

mod again;
mod checksums;
mod copies;
mod counts;
mod crossing;
mod emulated;
mod far_ends;
mod grid;
mod kernels;
mod link;
mod memory;
mod modes;
mod published;
mod siblings;
mod streams;
mod stripes;

use crate::LabError;
use crate::contest::{self, Rules};
use crate::experiment::{Outcome, Profile, Repetition};
use crate::machine::Machine;
use crate::peers::{self, Own, Workload};
use crate::report::{Check, Report, Tile, number};
use crate::request::{Request, limits_of_copies, method_of_copies};
use crate::studies::{Cost, Family, GRIDFTP, OWN, Study, cost, study};
use copies::Copies;
use std::io::Write;
use std::time::Instant;

/// The family of `sealane lab transfer`.
pub(crate) const FAMILIES: &[Family] = &[Family {
    command: "lab transfer",
    needs: "two processors, 4 GiB of memory, namespaces for links",
    parts: PARTS,
    costs: COSTS,
    studies: STUDIES,
    run,
}];

/// The tables of three machines stand beside the same cells.
const COSTS: &[Cost] = &[
    cost(&["G10", "G11", "G12", "G13"], 130),
    cost(&["G16"], 65),
    cost(&["G18"], 28),
    cost(&[emulated::PART], 95),
    cost(&[streams::PART], 75),
    cost(&[far_ends::PART], 160),
    cost(&["providers"], 45),
    cost(&["tools"], 75),
    cost(&["stripes"], 19),
    cost(&[checksums::PART], 50),
    cost(&[memory::PART], 7),
    cost(&[again::REPEAT], 20),
    cost(&[again::DELTA], 15),
    cost(&[again::COMPRESS], 20),
];

/// Parts of the study: threads and streams at four levels (G10 to G13), many of them, and threads of a core (G16), a link of 1 Gb/s (G18),
/// links with delay and loss (`links`), the number of streams there (`streams`), far ends with sshd alone (`sftp`), own
/// kernels beside others (`providers`), one file beside other tools (`tools`), processes on links of their own (`stripes`),
/// a checksum in flight or afterwards (G5), memory by streams (G8), a copy made again (`repeat`, `delta`), and compression (`compress`).
const PARTS: &[&str] = &[
    "G10",
    "G11",
    "G12",
    "G13",
    "G16",
    "G18",
    emulated::PART,
    streams::PART,
    far_ends::PART,
    "providers",
    "tools",
    "stripes",
    checksums::PART,
    memory::PART,
    again::REPEAT,
    again::DELTA,
    again::COMPRESS,
];

const STUDIES: &[Study] = &[
    study("G5", GRIDFTP, "a checksum in flight, or after the copy", &[checksums::PART]),
    study("G8", GRIDFTP, "the memory of a copy by the number of its streams", &[memory::PART]),
    study("G10", GRIDFTP, "one and two threads by one and two streams, four levels", &["G10"]),
    study("G11", GRIDFTP, "threads by streams at four levels, beside the first machine's table", &["G11"]),
    study("G12", GRIDFTP, "threads by streams at four levels, beside the second machine's table", &["G12"]),
    study("G13", GRIDFTP, "threads by streams at four levels, beside the third machine's table", &["G13"]),
    study("G16", GRIDFTP, "many threads, many streams", &["G16"]),
    study("G17", GRIDFTP, "stripes: one, two and four processes by one and two lanes", &["stripes"]),
    study(
        "G18",
        GRIDFTP,
        "a link of 1 Gb/s: what each level carries, and the cores that private needs to be as fast as clear",
        &["G18"],
    ),
    study("G19", GRIDFTP, "two stripes of one lane, or one of two: is it the second link?", &["stripes"]),
    study("G20", GRIDFTP, "the plots of S1C2 and S2C2", &["stripes"]),
    study("tools", OWN, "one large file, beside scp, sftp, rsync, HTTPS and others", &["tools"]),
    study("providers", OWN, "a copy by own kernels, AWS-LC, and record by record", &["providers"]),
    study("links", OWN, "one file through links with delay and loss", &[emulated::PART]),
    study("streams", OWN, "the default number of streams beside fixed ones, by link", &[streams::PART]),
    study("sftp", OWN, "a far end that has only sshd, beside scp and rsync", &[far_ends::PART]),
    study("repeat", OWN, "the copy of a tree made again, beside rsync", &[again::REPEAT]),
    study("delta", OWN, "a large file of which a hundredth changed, beside rsync", &[again::DELTA]),
    study("compress", OWN, "compression through 100 Mb/s, beside rsync", &[again::COMPRESS]),
];

/// The tables of a part; an error that something is not available leaves out this part alone.
type Tables = fn(&Copies<'_>, &mut dyn Write) -> Result<Vec<Outcome>, LabError>;

/// Tables in the order of the report, each with its part, and with the words for what is left out.
const TABLES: [(&str, &str, Tables); 14] = [
    ("G16", "many threads, many streams", counts::outcomes),
    ("G16", "two threads of a core (G14, G15)", siblings::outcomes),
    ("providers", "own kernels beside others", kernels::outcomes),
    ("G18", "through a link of 1 Gb/s", link::outcomes),
    (checksums::PART, "a checksum in flight or afterwards", checksums::outcomes),
    (memory::PART, "memory by streams", memory::outcomes),
    ("stripes", "stripes", stripes::outcomes),
    (emulated::PART, "through emulated links", emulated::outcomes),
    (streams::PART, "streams by link", streams::outcomes),
    (far_ends::PART, "far ends with sshd alone", far_ends::near),
    (far_ends::PART, "far ends with sshd alone, behind a link", far_ends::far),
    (again::REPEAT, "a copy made again", again::repeat),
    (again::DELTA, "deltas through a link", again::delta),
    (again::COMPRESS, "compression through a link", again::compress),
];

/// Runs the requested parts.
fn run(request: &Request, progress: &mut dyn Write) -> Result<Report, LabError> {
    let started = Instant::now();
    let machine = Machine::describe();
    let program = request.program()?;
    let bytes_max = workload_bytes_max(request);
    // Six groups of cells may each need a file of their own, and the pilot one more.
    let scratch = request.scratch(bytes_max * 7)?;
    let (cores, repetition) = (machine.cores, repetition(request.profile));
    let copies = Copies { request, program: &program, scratch: &scratch, bytes_max, cores, repetition };
    let mut report = Report {
        profile: Some(request.profile),
        method: method(&scratch, &machine),
        limits: limits_of_copies(&machine),
        sources: vec![published::SOURCE.to_owned()],
        ..Report::new(
            "sealane lab transfer",
            "Threads and streams at four levels of protection",
            "The multicore GridFTP study, run again on this machine: one and two streams on one lane and on two, with \
             the ciphers of its day and with today's.",
            Vec::new(),
        )
    };
    if request.wants(&PARTS[..4]) {
        let (grid, headlines) = grid::grid(&request.copies.ends, cores, repetition);
        let outcome = copies.run(grid, progress)?;
        report.tiles = tiles(&outcome, headlines);
        report.outcomes.push(outcome);
    }
    for (part, what, tables) in TABLES {
        if request.wants(&[part]) {
            match tables(&copies, progress) {
                Ok(outcomes) => report.outcomes.extend(outcomes),
                Err(LabError::Unavailable(reason)) => report.skipped.push(format!("{what}: {reason}")),
                Err(error) => return Err(error),
            }
        }
    }
    if request.copies.peers && request.wants(&["tools"]) {
        let (outcome, compared) = beside_peers(&copies, progress)?;
        report.outcomes.push(outcome);
        report.checks = compared;
    }
    report.seconds = started.elapsed().as_secs_f64();
    Ok(report)
}

/// Returns the rule of every grid. Pilots warm a short run up, and each copy is a process of its own.
fn repetition(profile: Profile) -> Repetition {
    let rule = profile.repetition();
    if profile == Profile::Quick { Repetition { warm_up_rounds: 0, ..rule } } else { rule }
}

/// Copies one file to a file by the product at four levels and by the installed tools, in turns.
fn beside_peers(copies: &Copies<'_>, progress: &mut dyn Write) -> Result<(Outcome, Vec<Check>), LabError> {
    const NAME: &str = "file";
    let Copies { request, scratch, program, bytes_max, .. } = *copies;
    // A short run still takes ten times as long as a slow tool needs to start.
    let bytes = if request.profile == Profile::Quick { bytes_max / 2 } else { bytes_max * 2 };
    let file = scratch.random_file(NAME, bytes, request.seed)?;
    let size = number::bytes(bytes);
    let rules = Rules {
        id: "file",
        covers: "tools",
        title: &format!("One file of {size}, beside other tools"),
        words: &format!("{size} of random bytes, new in each round, into a new file."),
        workload: &Workload::new(&file, &scratch.path().join("target"))?,
        renew: Some((scratch, NAME)),
        repetition: Repetition { warm_up_rounds: 0, ..request.profile.repetition() },
        seed: request.seed,
        deadline: None,
        with_claims: true,
    };
    let mut contestants = Own::four_levels(program);
    contestants.extend(peers::all(&request.surroundings));
    let result = contest::hold(&rules, &mut contestants, progress)?;
    crate::scratch::remove(&file)?;
    Ok(result)
}

/// Returns the size of the largest file, bounded by the profile and by the available room.
fn workload_bytes_max(request: &Request) -> u64 {
    let of_profile: u64 = match request.profile {
        Profile::Smoke => 4 << 20,
        Profile::Quick => 512 << 20,
        Profile::Full => 2 << 30,
        Profile::Paper => 8 << 30,
    };
    let wished = request.copies.file_bytes_max.unwrap_or(of_profile).max(1);
    // Without room for that, making the scratch directory reports the error.
    let share = (request.room_bytes(wished * 7) / 7).min(wished).max(wished.min(16 << 20));
    1 << share.ilog2()
}

/// Returns the headline: the gain of a second lane and stream, for the levels that depend on it.
fn tiles(outcome: &Outcome, headlines: Vec<usize>) -> Vec<Tile> {
    let tile = |at: usize| {
        let result = outcome.claims.get(at)?;
        let interval = result.interval?;
        let [low, high] = [interval.low, interval.high].map(number::ratio);
        let label = result.claim.statement.split(':').next().unwrap_or_default();
        let detail = format!("{low} to {high}; two lanes and streams against one");
        Some(Tile {
            label: label.to_owned(),
            value: number::ratio(result.estimate?),
            unit: "×".to_owned(),
            detail,
        })
    };
    headlines.into_iter().filter_map(tile).take(4).collect()
}

fn method(scratch: &crate::scratch::Scratch, machine: &Machine) -> Vec<String> {
    let mut method = method_of_copies(scratch, machine);
    method.extend(
        [
            "Where threads and streams are varied, seconds are the program's own: with both ends measured from its start, with one end measured from the first byte of data. Beside other tools, the clock covers each program from start to end.",
            "“Sender measured”: the receiver only reads and discards. “Receiver measured”: the sender sends records it sealed before. “Both ends”: as a user would have it. Where the receiver discards, no file system is part of the figures.",
            "A run beside which others used, or the hypervisor took, more than 0.35 of a core is repeated up to twice; all samples are kept. Outliers are named and never dropped.",
            "Intervals are 90 %: bootstrap for medians and their ratios, Student's t for means. A claim holds, or does not, only if its whole interval says so.",
        ]
        .map(str::to_owned),
    );
    method
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
        Some(again::DELTA | again::COMPRESS) => vec![again::behind(request, progress)?],
        _ => vec![emulated::one_file(request, progress)?],
    };
    Ok(Report {
        seconds: started.elapsed().as_secs_f64(),
        profile: Some(request.profile),
        ..Report::new("sealane lab transfer", "Behind an emulated link", "", outcomes)
    })
}

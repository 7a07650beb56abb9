//! `sealane speed`: rows as they come, on a terminal with the time that is left, and what they say together.

use crate::args::{AlgorithmArg, SpeedArgs, TierArg};
use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::lab::prepare_page;
use crate::signals::Interrupts;
use crate::text;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use sealane_lab::report::number::{counted, quantity};
use sealane_lab::report::{Report, outcome_text, outcomes_text};
use sealane_lab::speed::{self, Length, Measurement, Peer, Plan, Row, Rule, SpeedError, SpeedOptions, Story};
use sealane_transform::Algorithm;
use std::io::{self, IsTerminal as _, Write as _};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Instant;

/// What is measured where no algorithm is named.
const WELL_KNOWN: [&str; 17] = [
    "md5",
    "sha1",
    "sha256",
    "hmac-sha1",
    "hmac-sha256",
    "des-cbc",
    "3des-cbc",
    "aes-128-cbc",
    "aes-128-ctr",
    "rc5-cbc",
    "rc6-cbc",
    "blowfish-cbc",
    "idea-cbc",
    "rc4",
    "seal3",
    "aes-128-gcm",
    "chacha20-poly1305",
];

/// Mean of the IMIX, rounded down to a multiple of every block.
const IMIX_MEAN_BYTES: usize = 352;

/// Measures what was asked for.
pub(crate) fn run(arguments: &SpeedArgs) -> Result<ExitStatus, Failure> {
    prepare_page(arguments.report.as_deref())?;
    if arguments.story {
        return story(arguments);
    }
    let options = options(arguments);
    let plan = Plan::new(&options).map_err(failed)?;
    let (stop, interrupts) = interruptible()?;
    let bar = bar(plan.len());
    let start = Instant::now();
    if !arguments.json {
        bar.suspend(|| print(&heading(&plan, &options, arguments.wide)))?;
    }
    let mut found: Vec<Measurement> = Vec::new();
    let complete = plan.run(&stop, |measurement| {
        let line = if arguments.json { json(&measurement.row)? } else { line(&measurement, arguments.wide) };
        bar.suspend(|| print(&line))?;
        bar.set_position(measurement.index as u64 + 1);
        found.push(measurement);
        Ok::<(), Stopped>(())
    });
    bar.finish_and_clear();
    let complete = complete.map_err(|Stopped(failure)| failure)?;
    let (rates, summary) = (speed::rates(&found), speed::summary(&found));
    if !arguments.json {
        // Lines have no room for intervals.
        let means = rates.iter().filter(|_| matches!(options.rule, Rule::Runs { .. }));
        for outcome in means.chain(&summary) {
            print(&format!("\n{}", outcome_text(outcome, columns())))?;
        }
    }
    let outcomes = rates.into_iter().chain(summary).collect();
    write_page(
        &speed::report("Speed of the kernels", start.elapsed().as_secs_f64(), outcomes),
        arguments.report.as_deref(),
    )?;
    if complete {
        return Ok(ExitStatus::Success);
    }
    text::complain(format_args!(
        "stopped after {} of {} and {:.1} s",
        found.len(),
        counted(plan.len(), "line"),
        start.elapsed().as_secs_f64()
    ));
    Ok(interrupts.received().map_or(ExitStatus::Success, |signal| ExitStatus::Interrupted { signal }))
}

/// The tables of the papers on this machine.
fn story(arguments: &SpeedArgs) -> Result<ExitStatus, Failure> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    // The default is one lane, and the story is about more than one.
    let lanes = arguments.lanes.iter().max().map_or(1, |&lanes| usize::from(lanes));
    let lanes = if lanes > 1 { lanes } else { cores };
    let story = Story::new(arguments.rule(), lanes, &arguments.only).map_err(failed)?;
    let (stop, interrupts) = interruptible()?;
    if !story.is_empty() {
        let (count, seconds) = (counted(story.len(), "measurement"), quantity(story.estimate_seconds()));
        text::say(&format!("{count}, about {seconds} s"));
    }
    let bar = bar(story.len());
    let start = Instant::now();
    let told = story.run(&stop, || bar.inc(1));
    bar.finish_and_clear();
    let Some(outcomes) = told.map_err(failed)? else {
        text::complain(format_args!("stopped before the end"));
        return Ok(interrupts
            .received()
            .map_or(ExitStatus::Success, |signal| ExitStatus::Interrupted { signal }));
    };
    let title = "The papers' kernels on this machine";
    let report = speed::report(title, start.elapsed().as_secs_f64(), outcomes);
    print(&outcomes_text(&report, columns()))?;
    write_page(&report, arguments.report.as_deref())?;
    Ok(ExitStatus::Success)
}

/// Writes a report's page, if one is wanted, and says where it is.
pub(crate) fn write_page(report: &Report, path: Option<&Path>) -> Result<(), Failure> {
    if let Some(path) = path {
        report.write_page(path).map_err(|error| Failure::new(ExitStatus::Io, error))?;
        text::complain(format_args!("the report: {}", path.display()));
    }
    Ok(())
}

/// A flag that the first signal sets.
fn interruptible() -> Result<(Arc<AtomicBool>, Interrupts), Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    let interrupts = Interrupts::listen({
        let stop = stop.clone();
        move |_| stop.store(true, Ordering::Relaxed)
    });
    Ok((stop, interrupts.map_err(|error| Failure::new(ExitStatus::Io, error))?))
}

fn options(arguments: &SpeedArgs) -> SpeedOptions {
    let named: Vec<_> = arguments.names.iter().chain(&arguments.algorithm).collect();
    let algorithms = match &*named {
        [] => WELL_KNOWN.iter().filter_map(|name| name.parse().ok()).collect(),
        some => {
            let mut algorithms = Vec::new();
            for name in some {
                match name {
                    AlgorithmArg::All => algorithms.extend(Algorithm::all()),
                    AlgorithmArg::One(algorithm) => algorithms.push(*algorithm),
                }
            }
            algorithms
        }
    };
    let default = SpeedOptions::default();
    let equal = |bytes: &u64| Length::Equal(usize::try_from(*bytes).unwrap_or(usize::MAX));
    let mut lengths: Vec<Length> = match (&*arguments.bytes, arguments.imix) {
        ([], false) => default.lengths,
        ([], true) => vec![Length::Equal(IMIX_MEAN_BYTES)],
        (some, _) => some.iter().map(equal).collect(),
    };
    lengths.extend(arguments.imix.then_some(Length::Imix));
    SpeedOptions {
        algorithms,
        tiers: arguments.tier.iter().flat_map(|tier| tier.tiers()).collect(),
        isas: match &*arguments.isa {
            [] => vec![None],
            some => some.iter().copied().map(Some).collect(),
        },
        lengths,
        lanes: arguments.lanes.iter().copied().map(usize::from).collect(),
        batches: arguments.batch.iter().map(|&batch| batch as usize).collect(),
        directions: arguments.direction.directions(),
        keys: arguments.keys as usize,
        cache: arguments.cache,
        rule: arguments.rule(),
        peers: arguments.vs.clone(),
    }
}

/// Shown on a terminal only.
fn bar(steps: usize) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(Some(steps as u64), ProgressDrawTarget::stderr());
    // The template is a constant, and the worst that a mistake in it could do is another bar.
    if let Ok(style) = ProgressStyle::with_template("{pos} of {len}, {elapsed} gone, about {eta} left") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(std::time::Duration::from_millis(500));
    bar
}

/// The columns of the table, left or right, and whether they are there in 80 columns.
const COLUMNS: [(&str, isize, bool); 14] = [
    ("algorithm", 24, true),
    ("tier", 9, true),
    ("isa", 8, false),
    ("bytes", -6, true),
    ("lanes", -5, false),
    ("batch", -5, false),
    ("MB/s", -9, true),
    ("ns/msg", -9, false),
    ("c/B", -7, true),
    ("peer", 10, true),
    ("MB/s", -9, true),
    ("ratio", -7, true),
    ("table", -6, false),
    ("set", -6, false),
];

/// What a column loses in 80 columns.
fn narrow(width: isize) -> isize {
    match width {
        24 => 21,
        -9 => -7,
        -7 => -5,
        width => width,
    }
}

/// A line of the table.
fn row(cells: [String; COLUMNS.len()], wide: bool) -> String {
    let mut line = String::new();
    for (cell, (_, width, in_narrow)) in cells.iter().zip(COLUMNS) {
        if !wide && !in_narrow {
            continue;
        }
        let width = if wide { width } else { narrow(width) };
        if !line.is_empty() {
            line.push(' ');
        }
        let columns = width.unsigned_abs();
        line += &if width < 0 { format!("{cell:>columns$}") } else { format!("{cell:<columns$}") };
    }
    line.truncate(line.trim_end().len());
    line + "\n"
}

/// Who stands beside, and what a reader must know of them to read the ratios.
fn beside(peers: &[Peer]) -> String {
    let named = |of: &dyn Fn(Peer) -> String, peers: &[Peer]| -> String {
        peers.iter().map(|&peer| of(peer)).collect::<Vec<_>>().join(", ")
    };
    let mut said = match peers {
        [] => return String::new(),
        peers => format!(
            "\nbeside {}; – means that it does not have the algorithm",
            named(&|peer| peer.version().unwrap_or_else(|| peer.name().to_owned()), peers)
        ),
    };
    let singly: Vec<Peer> = peers.iter().copied().filter(|peer| !peer.takes_batches()).collect();
    if !singly.is_empty() {
        said += &format!(
            "\nmessages go to {} one by one: {} no batches",
            named(&|peer| peer.name().to_owned(), &singly),
            if singly.len() == 1 { "it takes" } else { "they take" }
        );
    }
    said
}

fn heading(plan: &Plan, options: &SpeedOptions, wide: bool) -> String {
    let beside = beside(&options.peers);
    format!(
        "{}, about {} s{}; messages {}{beside}\n\n{}",
        counted(plan.len(), "line"),
        quantity(plan.estimate().as_secs_f64()),
        match options.rule {
            Rule::Slices { .. } => String::new(),
            Rule::Runs { count, warm_up_seconds, seconds } => format!(
                "; figures are means of {count} runs of {seconds} s, each after {warm_up_seconds} s of warming up"
            ),
        },
        match options.cache {
            speed::CacheState::Hot => "stay in the cache as far as they fit",
            speed::CacheState::L2 => "come from the second-level cache",
            speed::CacheState::Out => "come from memory",
        },
        row(COLUMNS.map(|(name, ..)| name.to_owned()), wide),
    )
}

fn line(measurement: &Measurement, wide: bool) -> String {
    let found = &measurement.row;
    let facts = measurement.algorithm.facts();
    let direction = match found.direction {
        None => String::new(),
        Some("encrypt") if !wide => " enc".to_owned(),
        Some("decrypt") if !wide => " dec".to_owned(),
        Some(direction) => format!(" {direction}"),
    };
    let bytes = match measurement.length {
        Length::Equal(bytes) => bytes.to_string(),
        Length::Imix => "imix".to_owned(),
    };
    let or_dash = |value: Option<String>| value.unwrap_or_else(|| "–".to_owned());
    let cells = [
        format!("{}{direction}", found.algorithm),
        found.tier.to_string(),
        found.isa.to_string(),
        bytes,
        found.lanes.to_string(),
        found.batch.to_string(),
        quantity(found.mb_per_s),
        quantity(found.ns_per_message),
        or_dash(found.cycles_per_byte.map(|cycles| format!("{cycles:.3}"))),
        found.peer.unwrap_or("–").to_string(),
        or_dash(found.peer_mb_per_s.map(quantity)),
        or_dash(found.ratio.map(|ratio| format!("{ratio:.2}"))),
        facts.table_bytes.to_string(),
        facts.working_set_bytes.to_string(),
    ];
    row(cells, wide)
}

fn json(row: &Row) -> Result<String, Stopped> {
    match serde_json::to_string(row) {
        Ok(line) => Ok(line + "\n"),
        Err(error) => Err(Stopped(Failure::new(ExitStatus::Io, error))),
    }
}

/// Why measuring ended before its end.
struct Stopped(Failure);

impl From<SpeedError> for Stopped {
    fn from(error: SpeedError) -> Self {
        Self(failed(error))
    }
}

impl From<Failure> for Stopped {
    fn from(failure: Failure) -> Self {
        Self(failure)
    }
}

fn failed(error: SpeedError) -> Failure {
    let status = match &error {
        SpeedError::Peer { .. } | SpeedError::LaneFailed => ExitStatus::Io,
        _ => ExitStatus::Usage,
    };
    Failure::new(status, error)
}

fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).map_err(Failure::output)
}

/// The width of the terminal that standard output is, if it is one.
fn columns() -> Option<u16> {
    terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| width.0)
}

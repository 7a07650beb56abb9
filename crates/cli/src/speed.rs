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
const WELL_KNOWN: [&str; 22] = [
    "aes-128-gcm",
    "aes-256-gcm",
    "chacha20-poly1305",
    "sha256",
    "sha512",
    "blake3",
    "hmac-sha256",
    "hmac-sha512",
    "aes-128-gmac",
    "md5",
    "sha1",
    "hmac-sha1",
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
];

/// Lengths of messages in the table of what to use: a short packet's and a full one's.
const CHOICE_BYTES: [usize; 2] = [64, 1408];

/// Messages of a batch that is large enough for all lanes.
const MANY: usize = 512;

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
    // Without a name, what is wanted is an advice, which takes all rates; else a line comes as soon as it is measured.
    let is_choice = chooses(arguments);
    let shown = Shown::new(arguments.wide, &options);
    if !arguments.json {
        let columns = if is_choice { String::new() } else { shown.names() };
        bar.suspend(|| print(&(heading(&plan, &options) + &columns)))?;
    }
    let mut found: Vec<Measurement> = Vec::new();
    let complete = plan.run(&stop, |measurement| {
        let line = match (arguments.json, is_choice) {
            (true, _) => json(&measurement.row)?,
            (false, true) => String::new(),
            (false, false) => line(&measurement, &shown),
        };
        bar.suspend(|| print(&line))?;
        bar.set_position(measurement.index as u64 + 1);
        found.push(measurement);
        Ok::<(), Stopped>(())
    });
    bar.finish_and_clear();
    let complete = complete.map_err(|Stopped(failure)| failure)?;
    let choice = if is_choice { speed::choice(&found, &options.lengths) } else { Vec::new() };
    let (rates, summary) = (speed::rates(&found), speed::summary(&found));
    if !arguments.json {
        // Lines have no room for intervals.
        let means = rates.iter().filter(|_| matches!(options.rule, Rule::Runs { .. }));
        // Tables that nobody asked for would hide the advice.
        let summary = summary.iter().filter(|outcome| !is_choice || outcome.experiment.id == "ratios");
        for outcome in choice.iter().chain(means).chain(summary) {
            print(&format!("\n{}", outcome_text(outcome, columns())))?;
        }
    }
    let outcomes = choice.into_iter().chain(rates).chain(summary).collect();
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

/// Whether nothing was said of what to measure.
fn chooses(arguments: &SpeedArgs) -> bool {
    arguments.names.is_empty() && arguments.algorithm.is_empty() && arguments.tier == [TierArg::Auto]
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
        ([], false) if chooses(arguments) => CHOICE_BYTES.map(Length::Equal).to_vec(),
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
        batches: match &*arguments.batch {
            // A library that takes no batches is not slow for a program that has none.
            [] if chooses(arguments) || !arguments.vs.is_empty() => vec![1, MANY],
            [] => vec![MANY],
            some => some.iter().map(|&batch| batch as usize).collect(),
        },
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

/// The columns of the table, left or right.
const COLUMNS: [(&str, isize); 14] = [
    ("algorithm", 24),
    ("tier", 9),
    ("isa", 8),
    ("bytes", -6),
    ("lanes", -5),
    ("batch", -5),
    ("MB/s", -9),
    ("ns/msg", -9),
    ("c/B", -7),
    ("peer", 10),
    ("MB/s", -9),
    ("ratio", -7),
    ("table", -6),
    ("set", -6),
];

/// The columns of whoever stands beside.
const OF_PEERS: std::ops::RangeInclusive<usize> = 9..=11;

/// The columns that are shown, and how wide; `None` for those that are not.
struct Shown {
    widths: [Option<isize>; COLUMNS.len()],
    is_wide: bool,
}

impl Shown {
    /// All that say something: 140 columns, or 80.
    fn new(is_wide: bool, options: &SpeedOptions) -> Self {
        let (has_peers, has_batches) = (!options.peers.is_empty(), options.batches.len() > 1);
        let has_clock = speed::ticks_per_ns().is_some();
        let is_there = |at: usize| match COLUMNS[at].0 {
            "c/B" => has_clock && (is_wide || !(has_peers && has_batches)),
            "batch" => is_wide || has_batches,
            "isa" | "lanes" | "ns/msg" | "table" | "set" => is_wide,
            _ => has_peers || !OF_PEERS.contains(&at),
        };
        let width = |at: usize| if is_wide { COLUMNS[at].1 } else { narrow(COLUMNS[at].1) };
        let widths = std::array::from_fn(|at| is_there(at).then(|| width(at)));
        Self { widths, is_wide }
    }

    /// The names above the columns.
    fn names(&self) -> String {
        self.line(COLUMNS.map(|(name, _)| name.to_owned()))
    }

    /// A line of the table.
    fn line(&self, cells: [String; COLUMNS.len()]) -> String {
        let mut line = String::new();
        for (cell, width) in cells.iter().zip(self.widths) {
            let Some(width) = width else { continue };
            if !line.is_empty() {
                line.push(' ');
            }
            let columns = width.unsigned_abs();
            line += &if width < 0 { format!("{cell:>columns$}") } else { format!("{cell:<columns$}") };
        }
        line.truncate(line.trim_end().len());
        line + "\n"
    }
}

/// The width of a column where all must fit into 80.
fn narrow(width: isize) -> isize {
    match width {
        24 => 21,
        -9 => -7,
        -7 => -5,
        width => width,
    }
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

fn heading(plan: &Plan, options: &SpeedOptions) -> String {
    let beside = beside(&options.peers);
    format!(
        "{}, about {} s{}; messages {}{beside}\n\n",
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
    )
}

fn line(measurement: &Measurement, shown: &Shown) -> String {
    let found = &measurement.row;
    let facts = measurement.algorithm.facts();
    let wide = shown.is_wide;
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
    shown.line(cells)
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

//! `sealane speed`: rates, with the remaining time on a terminal, and the conclusions from them.

use crate::args::{SpeedArgs, TierArg};
use crate::exit::ExitStatus;
use crate::failure::{Failure, print};
use crate::lab::output::{columns, prepare_page, publish};
use crate::signals::Interrupts;
use crate::text;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use sealane_lab::report::number::{counted, quantity};
use sealane_lab::report::{outcome_text, outcomes_text};
use sealane_lab::request::Request;
use sealane_lab::speed::{
    self, Length, Line, MANY, Peer, Plan, PublicKeyOptions, PublicKeyRow, Row, Rule, SpeedError, SpeedOptions,
};
use sealane_lab::studies::Family;
use sealane_transform::Isa;
use serde::Serialize;
use std::io::{self, IsTerminal as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// The mean of the IMIX, rounded down to a multiple of every block.
const IMIX_MEAN_BYTES: usize = 352;

/// The widths of tables if no terminal reports one.
const COLUMNS: [u16; 2] = [80, 140];

/// Measures the requested rates.
pub(crate) fn run(arguments: &SpeedArgs) -> Result<ExitStatus, Failure> {
    prepare_page(arguments.report.as_deref())?;
    if arguments.story {
        return story(arguments);
    }
    let options = options(arguments);
    let public_key = public_key_options(arguments);
    let messages = Plan::of_messages(&options).map_err(failed)?;
    let operations = Plan::of_operations(&public_key).map_err(failed)?;
    let subject = Subject { has_messages: !messages.is_empty(), has_operations: !operations.is_empty() };
    let plan = messages.and(operations);
    let (stop, interrupts) = interruptible()?;
    let lines = plan.len();
    let bar = bar(lines);
    let start = Instant::now();
    // Without a name the user wants advice.
    let is_choice = chooses(arguments);
    if !arguments.json {
        let seconds = plan.estimate().as_secs_f64();
        let told = bar.suspend(|| print(&heading(lines, seconds, subject, &options)));
        or_left(arguments, told)?;
    }
    let mut found: Vec<Row> = Vec::new();
    let mut operations: Vec<PublicKeyRow> = Vec::new();
    let complete = plan.run(&stop, |line| {
        tell(arguments, &bar, &line)?;
        match line {
            Line::Messages(row) => found.push(row),
            Line::Operations(row) => operations.push(row),
        }
        Ok::<(), Stopped>(())
    });
    bar.finish_and_clear();
    let complete = complete.map_err(|Stopped(failure)| failure)?;
    let advice = if is_choice { speed::advice(&found, &options.lengths) } else { Vec::new() };
    let (rates, summary) = (speed::rates(&found), speed::summary(&found));
    let operations_tables = speed::public_key_tables(&operations);
    let mut text = String::new();
    if !arguments.json {
        let width = if arguments.wide { Some(COLUMNS[1]) } else { Some(columns().unwrap_or(COLUMNS[0])) };
        // Tables that were not requested would hide the advice.
        let rates = rates.iter().filter(|_| !is_choice);
        let summary = summary.iter().filter(|outcome| !is_choice || outcome.experiment.id == "ratios");
        for outcome in advice.iter().chain(rates).chain(summary).chain(&operations_tables) {
            text += &(outcome_text(outcome, width) + "\n");
        }
    }
    let outcomes = advice.into_iter().chain(rates).chain(summary).chain(operations_tables).collect();
    let report = speed::report("Speed of the kernels", start.elapsed().as_secs_f64(), outcomes);
    publish(&report, &text, None, arguments.report.as_deref())?;
    if complete {
        return Ok(ExitStatus::Success);
    }
    text::complain(format_args!(
        "stopped after {} of {} and {:.1} s",
        found.len() + operations.len(),
        counted(lines, "line"),
        start.elapsed().as_secs_f64()
    ));
    Ok(interrupts.received().map_or(ExitStatus::Success, |signal| ExitStatus::Interrupted { signal }))
}

/// Prints the tables of the papers for this machine.
fn story(arguments: &SpeedArgs) -> Result<ExitStatus, Failure> {
    // With a conflict of the two, clap would take `--only --seconds` without `--story`.
    if arguments.seconds.is_some() {
        return Err(Failure::new(
            ExitStatus::Usage,
            anyhow::anyhow!(
                "--seconds cannot be used with --story, whose parts take their times from --profile"
            ),
        ));
    }
    // The default is one lane, and the story is about more than one.
    let lanes = if arguments.lanes.iter().all(|&lanes| lanes == 1) { Vec::new() } else { lanes(arguments) };
    let profile = arguments.profile.unwrap_or_default();
    let request = Request { only: arguments.only.clone(), profile, lanes, ..Request::default() };
    let run = Family::of("speed --story").run;
    let report = run(&request, &mut io::stderr()).map_err(|error| Failure::new(ExitStatus::Io, error))?;
    publish(&report, &outcomes_text(&report, columns()), None, arguments.report.as_deref())?;
    Ok(ExitStatus::Success)
}

/// Returns a flag that the first signal sets.
fn interruptible() -> Result<(Arc<AtomicBool>, Interrupts), Failure> {
    let stop = Arc::new(AtomicBool::new(false));
    let interrupts = Interrupts::listen({
        let stop = stop.clone();
        move |_| stop.store(true, Ordering::Relaxed)
    });
    Ok((stop, interrupts.map_err(|error| Failure::new(ExitStatus::Io, error))?))
}

/// Returns whether the arguments do not select what to measure.
fn chooses(arguments: &SpeedArgs) -> bool {
    arguments.names.is_empty() && arguments.algorithm.is_empty() && arguments.tier == [TierArg::Auto]
}

fn options(arguments: &SpeedArgs) -> SpeedOptions {
    let named: Vec<_> = arguments.names.iter().chain(&arguments.algorithm).collect();
    let well_known = SpeedOptions::well_known();
    let algorithms = match &*named {
        [] => well_known.algorithms,
        some => some.iter().flat_map(|name| name.algorithms()).collect(),
    };
    let equal = |bytes: &u64| Length::Equal(usize::try_from(*bytes).unwrap_or(usize::MAX));
    let mut lengths: Vec<Length> = match (&*arguments.bytes, arguments.imix) {
        ([], false) if chooses(arguments) => well_known.lengths,
        ([], false) => SpeedOptions::default().lengths,
        ([], true) => vec![Length::Equal(IMIX_MEAN_BYTES)],
        (some, _) => some.iter().map(equal).collect(),
    };
    lengths.extend(arguments.imix.then_some(Length::Imix));
    SpeedOptions {
        algorithms,
        tiers: arguments.tier.iter().flat_map(|tier| tier.tiers()).collect(),
        isas: isas(arguments),
        lengths,
        lanes: lanes(arguments),
        batches: match &*arguments.batch {
            // A library without batches is not slow for a program that has none.
            [] if chooses(arguments) || !arguments.vs.is_empty() => well_known.batches,
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

fn public_key_options(arguments: &SpeedArgs) -> PublicKeyOptions {
    let usual = PublicKeyOptions::default();
    PublicKeyOptions {
        algorithms: arguments
            .names
            .iter()
            .chain(&arguments.algorithm)
            .flat_map(|name| name.public_key())
            .collect(),
        tiers: arguments.tier.iter().flat_map(|tier| tier.tiers()).collect(),
        isas: isas(arguments),
        lanes: lanes(arguments),
        batches: match &*arguments.batch {
            [] => usual.batches,
            some => some.iter().map(|&batch| batch as usize).collect(),
        },
        rule: arguments.rule(),
        peers: arguments.vs.clone(),
    }
}

fn isas(arguments: &SpeedArgs) -> Vec<Option<Isa>> {
    match &*arguments.isa {
        [] => vec![None],
        some => some.iter().copied().map(Some).collect(),
    }
}

fn lanes(arguments: &SpeedArgs) -> Vec<usize> {
    arguments.lanes.iter().copied().map(usize::from).collect()
}

/// Tells that a line is measured.
fn tell(arguments: &SpeedArgs, bar: &ProgressBar, row: &impl Serialize) -> Result<(), Stopped> {
    if arguments.json {
        let line = json(row)?;
        or_left(arguments, bar.suspend(|| print(&line)))?;
    }
    bar.inc(1);
    Ok(())
}

/// Lets the reader of standard output leave if a page is requested, which then has everything.
fn or_left(arguments: &SpeedArgs, printed: Result<(), Failure>) -> Result<(), Failure> {
    match printed {
        Err(Failure::BrokenPipe) if arguments.report.is_some() => Ok(()),
        printed => printed,
    }
}

/// The kinds of work among the measured rows.
#[derive(Clone, Copy, Debug)]
struct Subject {
    has_messages: bool,
    has_operations: bool,
}

impl Subject {
    /// Returns the units that other libraries get.
    const fn units(self) -> &'static str {
        match (self.has_messages, self.has_operations) {
            (true, true) => "messages and operations",
            (false, true) => "operations",
            _ => "messages",
        }
    }
}

/// Shown on a terminal only.
fn bar(steps: usize) -> ProgressBar {
    if !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(Some(steps as u64), ProgressDrawTarget::stderr());
    // The template is a constant, and a mistake in it would only change the look of the bar.
    if let Ok(style) = ProgressStyle::with_template("{pos} of {len}, {elapsed} gone, about {eta} left") {
        bar.set_style(style);
    }
    bar.enable_steady_tick(std::time::Duration::from_millis(500));
    bar
}

/// Returns the names of the libraries in comparison, with the notes that are needed to read the ratios.
fn beside(peers: &[Peer], subject: Subject) -> String {
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
            "\n{} go to {} one by one: {} no batches",
            subject.units(),
            named(&|peer| peer.name().to_owned(), &singly),
            if singly.len() == 1 { "it takes" } else { "they take" }
        );
    }
    said
}

fn heading(lines: usize, seconds: f64, subject: Subject, options: &SpeedOptions) -> String {
    let beside = beside(&options.peers, subject);
    let place = match options.cache {
        _ if !subject.has_messages => "",
        speed::CacheState::Hot => "; messages stay in the cache as far as they fit",
        speed::CacheState::L2 => "; messages come from the second-level cache",
        speed::CacheState::Out => "; messages come from memory",
    };
    let keys = if subject.has_operations { " and the time to make keys" } else { "" };
    format!(
        "{}, about {} s{keys}{}{place}{beside}\n\n",
        counted(lines, "line"),
        quantity(seconds),
        match options.rule {
            Rule::Slices { .. } => String::new(),
            Rule::Runs { count, warm_up_seconds, seconds } => format!(
                "; figures are means of {count} runs of {seconds} s, each after {warm_up_seconds} s of warming up"
            ),
        },
    )
}

fn json(row: &impl Serialize) -> Result<String, Stopped> {
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

//! `sealane speed`: rows as they come, on a terminal with the time that is left, and what they say together.

use crate::args::{AlgorithmArg, SpeedArgs};
use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::signals::Interrupts;
use crate::text;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use sealane_lab::report::number::quantity;
use sealane_lab::speed::{
    self, Length, Measurement, Plan, Row, Section, SpeedError, SpeedOptions, SpeedPage, Story, Told,
};
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
    if arguments.story {
        return story(arguments);
    }
    let options = options(arguments);
    let plan = Plan::new(&options).map_err(failed)?;
    let (stop, interrupts) = interruptible()?;
    let bar = bar(plan.len());
    let start = Instant::now();
    if !arguments.json {
        bar.suspend(|| print(&heading(&plan, &options)))?;
    }
    let mut found: Vec<Measurement> = Vec::new();
    let complete = plan.run(&stop, |measurement| {
        let line = if arguments.json { json(&measurement.row)? } else { line(&measurement) };
        bar.suspend(|| print(&line))?;
        bar.set_position(measurement.index as u64 + 1);
        found.push(measurement);
        Ok::<(), Stopped>(())
    });
    bar.finish_and_clear();
    let complete = complete.map_err(|Stopped(failure)| failure)?;
    let tables = speed::summary(&found);
    if !arguments.json {
        for table in &tables {
            print(&format!("\n{}", table.to_text(columns())))?;
        }
    }
    if let Some(path) = &arguments.report {
        let sections =
            speed::rows(&found).into_iter().chain(tables.into_iter().map(Section::plain)).collect();
        write("Speed of the kernels", path, start, &found, sections)?;
    }
    if complete {
        return Ok(ExitStatus::Success);
    }
    text::complain(format_args!(
        "stopped after {} of {} lines and {:.1} s",
        found.len(),
        plan.len(),
        start.elapsed().as_secs_f64()
    ));
    Ok(interrupts.received().map_or(ExitStatus::Success, |signal| ExitStatus::Interrupted { signal }))
}

/// The tables of the papers on this machine.
fn story(arguments: &SpeedArgs) -> Result<ExitStatus, Failure> {
    let cores = thread::available_parallelism().map_or(1, usize::from);
    // The default is one lane, and the story is about more than one.
    let lanes = arguments.lanes.iter().max().map_or(1, |&lanes| usize::from(lanes));
    let story = Story::new(arguments.seconds, if lanes > 1 { lanes } else { cores }).map_err(failed)?;
    let (stop, interrupts) = interruptible()?;
    text::say(&format!("{} measurements, about {} s", story.len(), quantity(story.estimate_seconds())));
    let bar = bar(story.len());
    let start = Instant::now();
    let told = story.run(&stop, || bar.inc(1));
    bar.finish_and_clear();
    let Some(Told { sections, found }) = told.map_err(failed)? else {
        text::complain(format_args!("stopped before its end"));
        return Ok(interrupts
            .received()
            .map_or(ExitStatus::Success, |signal| ExitStatus::Interrupted { signal }));
    };
    for section in &sections {
        print(&format!("{}\n", section.table().to_text(columns())))?;
    }
    if let Some(path) = &arguments.report {
        write("The papers' kernels on this machine", path, start, &found, sections)?;
    }
    Ok(ExitStatus::Success)
}

fn write(
    title: &str,
    path: &Path,
    start: Instant,
    found: &[Measurement],
    sections: Vec<Section>,
) -> Result<(), Failure> {
    let page = SpeedPage::new(title, start.elapsed().as_secs_f64(), found, sections);
    page.write(path).map_err(|error| Failure::new(ExitStatus::Io, error))?;
    text::complain(format_args!("the report: {}", path.display()));
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
    let algorithms = match &*arguments.algorithm {
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
        seconds: arguments.seconds,
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

fn heading(plan: &Plan, options: &SpeedOptions) -> String {
    let versions: Vec<String> = options.peers.iter().filter_map(|peer| peer.version()).collect();
    let beside =
        if versions.is_empty() { String::new() } else { format!("; beside {}", versions.join(", ")) };
    let estimate = plan.estimate().as_secs_f64();
    format!(
        "{} lines, about {} s; messages {}{beside}\n\n{:<24} {:<9} {:<8} {:>6} {:>5} {:>5} {:>9} {:>9} {:>7}  \
         {:<10} {:>9} {:>7} {:>6} {:>6}\n",
        plan.len(),
        quantity(estimate),
        match options.cache {
            speed::CacheState::Hot => "stay in the cache as far as they fit",
            speed::CacheState::L2 => "come from the second-level cache",
            speed::CacheState::Out => "come from memory",
        },
        "algorithm",
        "tier",
        "isa",
        "bytes",
        "lanes",
        "batch",
        "MB/s",
        "ns/msg",
        "c/B",
        "peer",
        "MB/s",
        "ratio",
        "table",
        "set"
    )
}

fn line(measurement: &Measurement) -> String {
    let row = &measurement.row;
    let facts = measurement.algorithm.facts();
    let direction = row.direction.map_or_else(String::new, |direction| format!(" {direction}"));
    let bytes = match measurement.length {
        Length::Equal(bytes) => bytes.to_string(),
        Length::Imix => "imix".to_owned(),
    };
    let or_dash = |value: Option<String>| value.unwrap_or_else(|| "–".to_owned());
    format!(
        "{:<24} {:<9} {:<8} {:>6} {:>5} {:>5} {:>9} {:>9} {:>7}  {:<10} {:>9} {:>7} {:>6} {:>6}\n",
        format!("{}{direction}", row.algorithm),
        row.tier,
        row.isa,
        bytes,
        row.lanes,
        row.batch,
        quantity(row.mb_per_s),
        quantity(row.ns_per_message),
        or_dash(row.cycles_per_byte.map(|cycles| format!("{cycles:.3}"))),
        row.peer.unwrap_or("–"),
        or_dash(row.peer_mb_per_s.map(quantity)),
        or_dash(row.ratio.map(|ratio| format!("{ratio:.2}"))),
        facts.table_bytes,
        facts.working_set_bytes,
    )
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

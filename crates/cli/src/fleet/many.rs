//! `sealane cp` between many hosts: arguments, progress and messages of a run. The run itself is in the crate
//! `fleet`.

use crate::args::{Cli, Command, CpArgs, Late};
use crate::environment;
use crate::events::Event;
use crate::exit::ExitStatus;
use crate::options::{Reporting, of_many};
use crate::report::{self, Reporter};
use crate::signals::Interrupts;
use crate::text::printable;
use clap::{CommandFactory as _, FromArgMatches};
use sealane_copy::{Agreement, CpuSeconds, Error, Notice, Options, Progress, Summary};
use sealane_fleet::{FleetError, News, Places, Plan, Runs, Totals, coordinate};
use sealane_lanes::Placement;
use sealane_peer::chain;
#[cfg(feature = "nats")]
use sealane_terminal::queue::QueueTrustArgs;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Instant;

/// Returns whether the arguments describe a copy between many hosts.
pub(crate) fn is_many(arguments: &CpArgs) -> bool {
    arguments.paths.iter().any(|path| Places::is_many(path))
}

/// Returns words as they were given.
pub(super) fn words(bytes: &[Vec<u8>]) -> Vec<OsString> {
    bytes.iter().cloned().map(OsString::from_vec).collect()
}

/// Returns the arguments of `sealane cp`.
pub(super) fn parse(words: &[OsString]) -> Result<CpArgs, FleetError> {
    let all = ["sealane", "cp"].into_iter().map(OsString::from).chain(words.iter().cloned());
    let found = Cli::command().try_get_matches_from(all).and_then(|found| Cli::from_arg_matches(&found));
    match found.map_err(|error| FleetError::Usage(error.to_string()))?.command {
        Command::Cp(Late(arguments)) => Ok(*arguments),
        _ => Err(FleetError::Usage("these are not arguments of sealane cp".into())),
    }
}

/// Sets the options that depend on this host: its files and programs.
pub(super) fn of_this_host(options: &mut Options) -> Result<(), FleetError> {
    options.remote.ssh_program = environment::ssh_program();
    options.remote.config_dir = environment::config_dir();
    options.remote.state_dir = environment::state_dir();
    options.implementations =
        environment::implementations().map_err(|error| FleetError::Usage(chain(error.as_ref())))?;
    Ok(())
}

/// Returns the options that arguments stand for.
fn options(arguments: CpArgs) -> Result<(Options, Reporting), FleetError> {
    let (mut options, reporting) = of_many(arguments).map_err(|error| FleetError::Usage(chain(&error)))?;
    of_this_host(&mut options)?;
    options.agreed_suite()?;
    Ok((options, reporting))
}

fn plan(arguments: CpArgs, words: &[OsString]) -> Result<(Plan, Reporting), FleetError> {
    let movers = arguments.movers;
    let share_bytes = arguments.share_bytes.unwrap_or(sealane_fleet::SHARE_BYTES);
    #[cfg(feature = "nats")]
    let queue = {
        let CpArgs { queue, identity, known_peers, accept_new, .. } = &arguments;
        let (identity, known_peers) = (identity.clone(), known_peers.clone());
        let trust = QueueTrustArgs { identity, known_peers, accept_new: *accept_new };
        sealane_terminal::queue::open(queue.as_ref(), &trust)?
    };
    #[cfg(not(feature = "nats"))]
    let queue = None;
    if movers == 0 && queue.is_none() {
        return Err(FleetError::Usage("--movers 0 needs --queue: nobody would copy".into()));
    }
    let (target, sources) =
        arguments.paths.split_last().ok_or_else(|| FleetError::Usage("the target is missing".into()))?;
    if sources.is_empty() {
        return Err(FleetError::Usage(
            "the target is missing: give at least one source, then the target".into(),
        ));
    }
    let sources = sources.iter().map(|text| Places::parse(text)).collect::<Result<Vec<_>, _>>()?;
    let target = Places::parse(target)?;
    let given: Vec<Vec<u8>> = sources.iter().chain([&target]).map(|places| places.given().to_vec()).collect();
    let (options, reporting) = options(arguments)?;
    let state = environment::state_dir();
    let state = state.ok_or_else(|| {
        FleetError::Usage("a run is kept below your home folder, and HOME names none that exists".into())
    })?;
    // A list is a run of its own.
    let (named, is_dry) = (options.wishes.as_named, options.wishes.dry_run.then_some("-n"));
    let meaning = format!(
        "{:?}",
        (
            &options.wishes.patterns,
            &options.wishes.sizes,
            &options.wishes.preserve,
            &options.wishes.upkeep,
            named
        )
    );
    let meaning = meaning + is_dry.unwrap_or_default();
    let parts: Vec<&[u8]> = given.iter().map(Vec::as_slice).chain([meaning.as_bytes()]).collect();
    let run = Runs::below(&state).of(&parts);
    let here = std::env::current_dir().unwrap_or_default();
    let words = words.iter().map(|word| word.as_bytes().to_vec()).collect();
    let command = sealane_fleet::Command::new("sealane cp", words, &here);
    Ok((Plan { sources, target, options, movers, share_bytes, command, run, queue }, reporting))
}

/// Copies between many hosts, and reports the result. `words` are the arguments of `sealane cp`.
pub(crate) fn copy(arguments: CpArgs, words: Vec<OsString>) -> ExitStatus {
    let started = Instant::now();
    let (json, start) = (arguments.json, crate::cp::start(&arguments));
    let target = arguments.paths.last().map(|target| printable(target.as_bytes())).unwrap_or_default();
    #[cfg(feature = "nats")]
    let server = arguments.queue.as_ref().map(ToString::to_string);
    #[cfg(not(feature = "nats"))]
    let server: Option<String> = None;
    let (plan, reporting) = match plan(arguments, &words) {
        Ok(planned) => planned,
        Err(error) => {
            report::refuse(json, &start, error.kind(), &chain(&error));
            return ExitStatus::of_kind(error.kind());
        }
    };
    let progress = Arc::new(Progress::default());
    let reporter = Reporter::start(reporting, target, &progress, &start, None);
    let interrupts = Interrupts::listen({
        let progress = progress.clone();
        move |_| progress.cancel.store(true, SeqCst)
    });
    let interrupts = match interrupts {
        Ok(interrupts) => interrupts,
        Err(error) => {
            reporter.failed("io", &format!("listening for signals: {error}"));
            return ExitStatus::Io;
        }
    };
    let agreed = agreement(&plan.options);
    let server = server.filter(|_| plan.queue.is_some());
    let mut tell = |news: News| tell(&reporter, &agreed, server.as_deref(), json, news);
    let run = plan.run.name().to_owned();
    let outcome = coordinate(plan, &progress, &mut tell);
    let is_incomplete = outcome.as_ref().is_ok_and(|totals| totals.failed > 0);
    let outcome = match outcome {
        Ok(totals) => Ok(summary(totals, &agreed, started.elapsed().as_secs_f64())),
        Err(error) => Err(Error::new(error.kind(), chain(&error))),
    };
    let for_people = reporter.is_for_people();
    let status = reporter.finish(outcome, interrupts.received());
    if is_incomplete && for_people {
        crate::text::complain(format_args!(
            "`sealane fleet failed {run}` lists what failed, and `sealane fleet retry {run}` tries it again"
        ));
    }
    status
}

/// Tells what a run has to say.
fn tell(reporter: &Reporter, agreed: &Agreement, server: Option<&str>, json: bool, news: News) {
    match news {
        News::Begun { run, key, done } => {
            reporter.notice(&Notice::Agreed(agreed.clone()));
            reporter.tell(&Event::Run { run: run.clone(), key: key.to_string(), done });
            if reporter.is_for_people() {
                let before = match done {
                    0 => String::new(),
                    done => format!("; {done} shares were done before"),
                };
                reporter
                    .line(&format!("run {run}: `sealane fleet status {run}` shows how far it is{before}"));
                if let Some(server) = server {
                    reporter.line(&format!(
                            "workers: `sealane fleet work --queue {server} --run {run} --key {key}`; they take orders from the \
                             owner of this key alone"
                        ));
                    reporter.line(
                            "the queue survives a loss of power only if its server has `sync_interval: always`, which cannot be seen \
                             from here",
                        );
                }
            }
        }
        News::WouldSend { change, bytes } => reporter.notice(&Notice::WouldSend { change, bytes }),
        News::WouldDelete { path } => reporter.notice(&Notice::Deleted { path }),
        News::Said { host, line } => {
            reporter.line(&format!("{}: {}", printable(host.as_bytes()), printable(line.as_bytes())));
        }
        News::EntryFailed { path, reason } => reporter.notice(&Notice::EntryFailed { path, reason }),
        News::LeftOut(host) => {
            reporter.tell(&Event::LeftOut { host: host.host.clone(), reason: host.reason.clone() });
            if !json {
                reporter.warn(&format!("{} is left out: {}", host.host, host.reason));
            }
        }
        News::Joined { host } => {
            reporter.tell(&Event::Joined { host: host.clone() });
            if reporter.is_for_people() {
                reporter.line(&format!("{} takes part from now on", printable(host.as_bytes())));
            }
        }
    }
}

/// Returns the requirements of the user. Each session negotiates by itself, and fails if they are not met.
fn agreement(options: &Options) -> Agreement {
    Agreement {
        level: options.wishes.level,
        // The suite was checked before.
        suite: options.agreed_suite().ok(),
        streams: options.streams.unwrap_or(0),
        lanes: options.lanes.unwrap_or(0),
        placement: options.placement.unwrap_or(Placement::Connection),
    }
}

fn summary(totals: Totals, agreed: &Agreement, seconds: f64) -> Summary {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    Summary {
        bytes: totals.copied.bytes,
        files: totals.copied.files,
        skipped: totals.skipped,
        failed: totals.failed,
        deleted: totals.deleted,
        seconds,
        cpu_seconds: CpuSeconds { local: time.tv_sec as f64 + time.tv_nsec as f64 / 1e9, remote: None },
        level: agreed.level,
        suite: agreed.suite,
        streams: agreed.streams,
        lanes: agreed.lanes,
        placement: agreed.placement,
        tier: "by each session".into(),
        ..Summary::default()
    }
}

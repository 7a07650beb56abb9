//! `sealane lab fleet run`: studies whose samples many hosts take, through the queue that copies use too.

use crate::args::LabFleetRunArgs;
use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::lab::output::{Output, failed, show, surroundings};
use crate::signals::{self, Interrupts};
use crate::text::{complain, printable};
use sealane_copy::Options;
use sealane_fleet::{
    FleetError, Job, JobId, News, Outcome, Places, Queue, RESULT_BYTES_MAX, Study, Tasks, Weight, conduct,
    labour,
};
use sealane_lab::report::Files;
use sealane_lab::rng::Rng;
use sealane_lab::shared::{self, Done, Order};
use sealane_terminal::environment;
use sealane_terminal::fleet::{self, failure, runs};
use sealane_terminal::laboratory::{LABORATORY, build};
#[cfg(feature = "nats")]
use sealane_terminal::queue;
use sealane_terminal::queue::WorkArgs;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Instant;

/// The beginning of the command of such a run.
const COMMAND: &str = "sealane lab";

/// Takes samples for the process that started this one, or for a run whose queue is elsewhere.
pub(crate) fn work(arguments: WorkArgs) -> Result<ExitStatus, Failure> {
    signals::leave_terminal_to_client().map_err(|error| Failure::new(ExitStatus::Io, error))?;
    let tasks = Tasks { base: Options::default(), studying: &take };
    fleet::work(arguments, &tasks)
}

/// Takes samples for the study of this order, until there are no more to take.
fn take(queue: &dyn Queue, host: &str, order: &[u8]) -> Result<(), FleetError> {
    let order: Order = shared::decode(order).map_err(|error| FleetError::Protocol(error.to_string()))?;
    let build = build();
    if order.build != build {
        return Err(FleetError::Unfit(format!(
            "{host} has sealane-lab {build}, and the study is one of {}: all hosts must have the same",
            order.build
        )));
    }
    let worker = order.worker(&Arc::new(surroundings()), host);
    labour(queue, |job| {
        // A coordinator of the same build sends only such jobs; the answer to others is none that it reads.
        let Ok(task) = shared::decode::<shared::Job>(&job.body) else { return Vec::new() };
        let mut done = worker.take(task);
        let result = shared::encode(&done);
        if result.len() <= RESULT_BYTES_MAX {
            return result;
        }
        (done.taken.sample, done.taken.disturbed) = (None, Vec::new());
        done.taken.failure = Some("the sample is too long for a queue".to_owned());
        shared::encode(&done)
    })
}

/// Runs the command.
pub(crate) fn run(arguments: &LabFleetRunArgs) -> Result<ExitStatus, Failure> {
    let began = Instant::now();
    let order = Order {
        build: build(),
        ids: arguments.ids.clone(),
        profile: arguments.profile,
        seed: arguments.seed.unwrap_or_else(Rng::fresh_seed),
        peers: !arguments.no_peers,
        file_bytes_max: arguments.size,
    };
    let surroundings = Arc::new(surroundings());
    let jobs = order.jobs(&surroundings).map_err(failed)?;
    let study = study(arguments, &order, &jobs)?;
    let cancel = Arc::new(AtomicBool::new(false));
    let interrupts = Interrupts::listen({
        let cancel = Arc::clone(&cancel);
        move |_| cancel.store(true, SeqCst)
    });
    let _interrupts = interrupts.map_err(|error| Failure::new(ExitStatus::Io, error))?;
    let all = study.jobs.len();
    let mut tell = |news: News| match news {
        News::Begun { run, key, done } => complain(format_args!(
            "run {run}: {done} of {all} samples are taken; `sealane fleet status {run}` shows how far it is; its key is {key}"
        )),
        News::Said { host, line } => complain(format_args!("{host}: {line}")),
        News::LeftOut(host) => complain(format_args!("{} is left out: {}", host.host, host.reason)),
        News::Joined { host } => {
            complain(format_args!("{} takes part from now on", printable(host.as_bytes())))
        }
        News::EntryFailed { .. } | News::WouldSend { .. } | News::WouldDelete { .. } => {}
    };
    let is_whole = |outcome: &Outcome| {
        let done: Result<Done, _> = shared::decode(&outcome.result);
        done.is_ok_and(|done| done.taken.failure.is_none())
    };
    let found = conduct(study, is_whole, &take, &cancel, &mut tell).map_err(failure)?;
    let read = |outcome: &Outcome| shared::decode::<Done>(&outcome.result);
    let done = found.iter().map(read).collect::<Result<Vec<_>, _>>().map_err(failed)?;
    let reports = order.reports(&surroundings, done, &mut io::stderr()).map_err(failed)?;
    let mut worst = ExitStatus::Success;
    for (name, mut report) in reports {
        report.seconds = began.elapsed().as_secs_f64();
        let files = arguments.report.as_ref().map(|folder| Files::prepare(folder, &name));
        let files = files.transpose().map_err(failed)?;
        let output = Output { is_json: arguments.json, is_brief: true, claim: None, page: None, files };
        let status = match show(&report, &output) {
            // The other reports are wanted although nobody reads the tables any more.
            Err(Failure::BrokenPipe) if arguments.report.is_some() => ExitStatus::Success,
            status => status?,
        };
        if status != ExitStatus::Success {
            worst = status;
        }
    }
    Ok(worst)
}

/// Returns the work to share.
fn study(arguments: &LabFleetRunArgs, order: &Order, jobs: &[shared::Job]) -> Result<Study, Failure> {
    let order_bytes = shared::encode(order);
    let job = |job: &shared::Job| {
        let body = shared::encode(job);
        Job { id: JobId::of(&[&order_bytes, &body]), weight: Weight { files: 1, bytes: 0 }, body }
    };
    let jobs = jobs.iter().map(job).collect();
    // The hosts are places without a path.
    let hosts = arguments.hosts.as_ref().map(|hosts| [hosts.as_bytes(), b":"].concat());
    let hosts = hosts.map(|hosts| Places::parse(OsStr::from_bytes(&hosts))).transpose().map_err(failure)?;
    let mut options = Options::default();
    options.remote.ssh_program = environment::ssh_program();
    options.remote.ssh_config.clone_from(&arguments.ssh_config);
    options.remote.remote_program = arguments.remote_program.clone().or_else(|| Some(LABORATORY.to_owned()));
    #[cfg(feature = "nats")]
    let queue = queue::open(arguments.queue.as_ref(), &arguments.trust).map_err(failure)?;
    #[cfg(not(feature = "nats"))]
    let queue = None;
    let run = runs()?.of(&[b"study", &order_bytes]);
    let here = std::env::current_dir().unwrap_or_default();
    let words = words(arguments, order.seed);
    let command = sealane_fleet::Command::new(COMMAND, words, &here);
    Ok(Study { order: order_bytes, jobs, hosts, options, queue, command, run })
}

/// Returns the arguments with which `sealane lab` continues the run.
fn words(arguments: &LabFleetRunArgs, seed: u64) -> Vec<Vec<u8>> {
    let mut words: Vec<OsString> = ["fleet", "run"].map(OsString::from).to_vec();
    words.extend(arguments.ids.iter().map(OsString::from));
    let mut option = |name: &str, value: Option<OsString>| {
        if let Some(value) = value {
            words.extend([name.into(), value]);
        }
    };
    let path = |path: &Option<std::path::PathBuf>| path.clone().map(Into::into);
    option("--seed", Some(seed.to_string().into()));
    option("--profile", Some(arguments.profile.name().into()));
    option("--hosts", arguments.hosts.clone());
    #[cfg(feature = "nats")]
    option("--queue", arguments.queue.as_ref().map(|server| server.to_string().into()));
    option("--size", arguments.size.map(|size| size.to_string().into()));
    option("--report", path(&arguments.report));
    option("-F", path(&arguments.ssh_config));
    option("--remote-program", arguments.remote_program.clone().map(Into::into));
    option("--identity", path(&arguments.trust.identity));
    option("--known-peers", path(&arguments.trust.known_peers));
    for (name, is_given) in [
        ("--no-peers", arguments.no_peers),
        ("--json", arguments.json),
        ("--accept-new", arguments.trust.accept_new),
    ] {
        words.extend(is_given.then(|| name.into()));
    }
    words.iter().map(|word| word.as_bytes().to_vec()).collect()
}

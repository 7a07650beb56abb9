//! `sealane fleet`: control of runs on many hosts; and `sealane cp` between many hosts.

mod many;

pub(crate) use many::{copy, is_many};

use crate::args::{FleetArgs, FleetCommand, FleetRunArgs, FleetStatusArgs};
use crate::environment;
use crate::exit::ExitStatus;
use crate::failure::Failure;
use crate::laboratory;
use crate::signals;
use crate::text::{complain, printable};
use crate::units::bytes_text;
use anyhow::{Context as _, anyhow};
use sealane_copy::Options;
use sealane_fleet::{FleetError, Queue, Run, State, Status, Tasks};
use sealane_peer::SshCommand;
use sealane_terminal::failure::print;
use sealane_terminal::fleet::{failure, runs};
use sealane_terminal::queue::WorkArgs;
use serde_json::json;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// The first words of the command of runs that `sealane-lab` has started.
const STUDY: &str = "sealane lab";

/// Runs one of the commands.
pub(crate) fn run(arguments: FleetArgs) -> Result<ExitStatus, Failure> {
    match arguments.command {
        FleetCommand::Status(arguments) => status(&arguments),
        FleetCommand::Failed(arguments) => failed(&arguments),
        FleetCommand::Retry(arguments) => match Named::parse(&arguments.run)? {
            Named::There { host, run } => there(&host, "retry", &run, false),
            Named::Here(run) => retry(&run),
        },
        FleetCommand::Stop(arguments) => match Named::parse(&arguments.run)? {
            Named::There { host, run } => there(&host, "stop", &run, false),
            Named::Here(run) => stop(&run),
        },
        FleetCommand::Work(arguments) => work(arguments),
    }
}

/// A run as the user names it.
enum Named {
    Here(Run),
    There { host: String, run: String },
}

impl Named {
    fn parse(text: &str) -> Result<Self, Failure> {
        if let Some((host, run)) = text.rsplit_once(':') {
            let is_name = !run.is_empty() && run.bytes().all(|byte| byte.is_ascii_hexdigit());
            if host.is_empty() || !is_name {
                return Err(usage(anyhow!("{text:?} is not a run: give RUN, or HOST:RUN")));
            }
            return Ok(Self::There { host: host.to_owned(), run: run.to_owned() });
        }
        Ok(Self::Here(runs()?.find(text).map_err(usage)?))
    }
}

fn usage(error: impl Into<anyhow::Error>) -> Failure {
    Failure::new(ExitStatus::Usage, error)
}

/// Runs the same command on the host that has the run.
fn there(host: &str, command: &str, run: &str, json: bool) -> Result<ExitStatus, Failure> {
    let (user, name) = match host.rsplit_once('@') {
        Some((user, name)) => (Some(user.to_owned()), name),
        None => (None, host),
    };
    let mut ssh = SshCommand::new(name);
    ssh.user = user;
    if let Some(program) = environment::ssh_program() {
        ssh.program = program;
    }
    let json = if json { " --json" } else { "" };
    // Hexadecimal digits, and words of ours.
    let line = format!(
        "sh -c 'PATH=\"$PATH:$HOME/.local/bin\"; export PATH; exec sealane fleet {command} {run}{json}'"
    );
    let mut child = ssh.script(&line).map_err(usage)?;
    let status = child.stdin(Stdio::inherit()).status();
    let status =
        status.context("starting ssh").map_err(|error| Failure::new(ExitStatus::Connection, error))?;
    match status.code() {
        Some(0) => Ok(ExitStatus::Success),
        Some(255) | None => Err(Failure::new(
            ExitStatus::Connection,
            anyhow!("ssh could not reach {host}, log in, or keep the connection"),
        )),
        Some(code) => Err(Failure::Told { status: ExitStatus::of_code(code) }),
    }
}

fn status(arguments: &FleetStatusArgs) -> Result<ExitStatus, Failure> {
    let all = match arguments.run.as_deref().map(Named::parse).transpose()? {
        Some(Named::There { host, run }) => return there(&host, "status", &run, arguments.json),
        Some(Named::Here(run)) => vec![run],
        None => runs()?.all(),
    };
    let is_list = arguments.run.is_none();
    let mut text = String::new();
    for run in all {
        let status = match run.status() {
            Ok(status) => status,
            // One that is just being made.
            Err(_) if is_list => continue,
            Err(error) => return Err(failure(error)),
        };
        if arguments.json {
            text.push_str(&serde_json::to_string(&status).expect("it has no part that cannot be written"));
            text.push('\n');
        } else if is_list {
            text.push_str(&format!(
                "{}  {:<10}  {}\n",
                status.run,
                word(status.state),
                printable(status.command.as_bytes())
            ));
        } else {
            text.push_str(&shown(&status));
        }
    }
    if text.is_empty() && !arguments.json {
        complain(format_args!("there are no runs here"));
    }
    print(&text).map(|()| ExitStatus::Success)
}

fn word(state: State) -> &'static str {
    match state {
        State::Running => "running",
        State::Done => "done",
        State::Incomplete => "incomplete",
        State::Stopped => "stopped",
        State::Failed => "failed",
    }
}

/// Returns the text of a run for people.
fn shown(status: &Status) -> String {
    let found = if status.walked { "" } else { " found so far" };
    let mut rows = vec![
        ("run", format!("{}, {}", status.run, word(status.state))),
        ("key", printable(status.key.as_bytes())),
        ("command", printable(status.command.as_bytes())),
        (
            "bytes",
            format!(
                "{} of {}{found}",
                bytes_text(status.bytes as f64),
                bytes_text(status.bytes_found as f64)
            ),
        ),
        ("files", format!("{} of {}{found}, {} failed", status.files, status.files_found, status.failed)),
        (
            "shares",
            format!(
                "{} waiting, {} being copied by {} movers",
                status.waiting, status.in_hand, status.movers
            ),
        ),
        ("sources", printable(status.sources.join(" ").as_bytes())),
        ("targets", printable(status.targets.join(" ").as_bytes())),
        ("seconds", format!("{:.0}", status.seconds)),
    ];
    if let Some(left) = status.seconds_left {
        rows.push(("left", format!("{left:.0} s")));
    }
    for host in &status.left_out {
        rows.push(("left out", printable(format!("{}: {}", host.host, host.reason).as_bytes())));
    }
    if let Some(error) = &status.error {
        rows.push(("error", printable(error.as_bytes())));
    }
    rows.iter().map(|(name, value)| format!("{name:<10} {value}\n")).collect()
}

fn failed(arguments: &FleetRunArgs) -> Result<ExitStatus, Failure> {
    let run = match Named::parse(&arguments.run)? {
        Named::There { host, run } => return there(&host, "failed", &run, arguments.json),
        Named::Here(run) => run,
    };
    let mut text = String::new();
    let mut count = 0_u64;
    run.failures(|failure| {
        count += 1;
        if arguments.json {
            let path = String::from_utf8_lossy(&failure.path);
            text.push_str(&format!("{}\n", json!({ "path": path, "reason": failure.reason })));
        } else {
            text.push_str(&printable(failure.reason.as_bytes()));
            text.push('\n');
        }
    })
    .map_err(failure)?;
    print(&text)?;
    Ok(if count == 0 { ExitStatus::Success } else { ExitStatus::Partial })
}

fn retry(run: &Run) -> Result<ExitStatus, Failure> {
    let command = run.command().map_err(failure)?;
    std::env::set_current_dir(command.folder())
        .with_context(|| format!("the command was given in {}", command.folder().display()))
        .map_err(|error| Failure::new(ExitStatus::Io, error))?;
    let words = many::words(&command.words);
    if command.command.starts_with(STUDY) {
        return laboratory::start(&words);
    }
    let arguments = many::parse(&words).map_err(failure)?;
    Ok(copy(arguments, words))
}

fn stop(run: &Run) -> Result<ExitStatus, Failure> {
    if !run.is_held() {
        return Err(Failure::new(ExitStatus::Usage, anyhow!("run {} is not under way", run.name())));
    }
    run.stop().map_err(failure)?;
    Ok(ExitStatus::Success)
}

/// Works for the process that started this one, or for a run whose queue is elsewhere.
fn work(arguments: WorkArgs) -> Result<ExitStatus, Failure> {
    signals::leave_terminal_to_client().map_err(|error| Failure::new(ExitStatus::Io, error))?;
    sealane_copy::raise_descriptor_limit();
    let mut base = Options::default();
    many::of_this_host(&mut base).map_err(failure)?;
    let is_study = AtomicBool::new(false);
    let leave = |_: &dyn Queue, host: &str, _: &[u8]| {
        is_study.store(true, SeqCst);
        Err(FleetError::Unfit(format!(
            "{host} runs `sealane fleet work`, and only `sealane-lab` takes samples of a study"
        )))
    };
    #[cfg(feature = "nats")]
    let has_server = arguments.queue.is_some();
    #[cfg(not(feature = "nats"))]
    let has_server = false;
    let outcome = sealane_terminal::fleet::work(arguments, &Tasks { base, studying: &leave });
    // The laboratory takes the same arguments, and asks the server's queue again.
    if has_server && is_study.load(SeqCst) {
        return laboratory::start(&environment::arguments());
    }
    outcome
}

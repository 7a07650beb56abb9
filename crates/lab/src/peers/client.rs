//! Runs a client, or a pipeline of them, and measures its time.
//!
//! Guarantees: the clock runs from before the first start to after the last end; no client outlives its limit or its
//! owner; a failure carries the end of the clients' output, with bounds on both bytes and time.

use super::rusage::{Ended, reap, wait_until};
use super::server::Server;
use super::tail::Tail;
use super::{RUN_LIMIT, Workload};
use crate::LabError;
use crate::experiment::{Copied, Sample};
use crate::load::{MachineTime, is_disturbed};
use crate::process_tree::Tree;
use std::io::{self, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// One process of a pipeline.
#[derive(Debug)]
pub(super) struct Client {
    command: Command,
    input: Option<String>,
}

impl Client {
    /// Returns a client without input.
    pub(super) fn new(command: Command) -> Self {
        Self { command, input: None }
    }

    /// Makes `input` the client's standard input; it must be short enough for a pipe's buffer (64 KiB), so that
    /// writing it cannot block.
    pub(super) fn with_input(command: Command, input: String) -> Self {
        Self { command, input: Some(input) }
    }
}

/// A server's part in a run.
#[derive(Debug)]
pub(super) enum Far<'a> {
    /// There is no far end.
    None,
    /// The server continues; its time is read before and after.
    Stays(&'a Server),
    /// The server ends by itself after one run.
    Ends(Server),
}

/// Runs the pipeline once and returns its cost.
pub(super) fn measure(clients: Vec<Client>, far: Far<'_>, workload: &Workload) -> Result<Sample, LabError> {
    let far_before = match &far {
        Far::None => Duration::ZERO,
        Far::Stays(server) => server.cpu(),
        Far::Ends(server) => server.cpu(),
    };
    let machine_before = MachineTime::now();
    let started = Instant::now();
    let near = Pipeline::start(clients)?.wait(RUN_LIMIT)?;
    let wall = started.elapsed();
    let far_after = match far {
        Far::None => Duration::ZERO,
        Far::Stays(server) => server.cpu(),
        Far::Ends(server) => server.wait()?.cpu,
    };
    let cpu_seconds = (near + far_after.saturating_sub(far_before)).as_secs_f64();
    let machine =
        machine_before.and_then(|before| Some(MachineTime::now()?.since(before))).unwrap_or_default();
    let copied = Copied {
        bytes: workload.bytes(),
        files: workload.files(),
        wall_seconds: wall.as_secs_f64(),
        cpu_seconds,
        other_cpu_seconds: (machine.busy_seconds - cpu_seconds).max(0.0),
        stolen_seconds: machine.stolen_seconds,
        ..Copied::default()
    };
    let is_disturbed = is_disturbed(copied.other_cpu_seconds, copied.stolen_seconds, wall);
    Ok(Sample::copied(copied, is_disturbed))
}

/// Runs one command to its successful end, and returns its wall time and its CPU time.
pub(crate) fn timed(command: Command) -> Result<(Duration, Duration), LabError> {
    let started = Instant::now();
    let cpu = Pipeline::start(vec![Client::new(command)])?.wait(RUN_LIMIT)?;
    Ok((started.elapsed(), cpu))
}

/// Runs one client without a clock and returns the end of its output.
pub(super) fn run_to_end(client: Client, limit: Duration) -> Result<String, LabError> {
    let mut pipeline = Pipeline::start(vec![client])?;
    pipeline.wait(limit)?;
    Ok(pipeline.printed.text())
}

/// Processes, each of which reads the output of the one before it.
#[derive(Debug)]
struct Pipeline {
    running: Vec<Running>,
    printed: Tail,
}

#[derive(Debug)]
struct Running {
    name: String,
    child: Option<Child>,
}

impl Pipeline {
    fn start(clients: Vec<Client>) -> Result<Self, LabError> {
        let (reader, writer) = io::pipe().map_err(LabError::file("cannot open", "a pipe"))?;
        let mut pipeline = Self { running: Vec::new(), printed: Tail::of(reader) };
        let mut upstream: Option<Stdio> = None;
        let count = clients.len();
        for (index, mut client) in clients.into_iter().enumerate() {
            let program = Path::new(client.command.get_program()).to_owned();
            let start = |source| LabError::Start { program: program.clone(), source };
            client.command.stderr(writer.try_clone().map_err(start)?);
            client.command.stdin(match (upstream.take(), &client.input) {
                (Some(upstream), _) => upstream,
                (None, Some(_)) => Stdio::piped(),
                (None, None) => Stdio::null(),
            });
            if index + 1 < count {
                client.command.stdout(Stdio::piped());
            } else {
                client.command.stdout(writer.try_clone().map_err(start)?);
            }
            let mut child = client.command.spawn().map_err(start)?;
            upstream = child.stdout.take().map(Stdio::from);
            let input = child.stdin.take();
            let name = program.file_name().unwrap_or_default().to_string_lossy().into_owned();
            // The process is added before any step can fail, so that it is ended in any case.
            pipeline.running.push(Running { name, child: Some(child) });
            if let (Some(mut input), Some(text)) = (input, client.input) {
                // A client that does not read it reports its own failure.
                let _ = input.write_all(text.as_bytes());
            }
        }
        Ok(pipeline)
    }

    /// Returns the CPU time of all processes after they have ended successfully.
    fn wait(&mut self, limit: Duration) -> Result<Duration, LabError> {
        let deadline = Instant::now() + limit;
        let mut cpu = Duration::ZERO;
        let mut failure = None;
        for running in &mut self.running {
            let Some(child) = running.child.take() else { continue };
            let has_ended = match wait_until(child.id(), deadline) {
                Ok(has_ended) => has_ended,
                Err(error) => {
                    running.child = Some(child);
                    return Err(LabError::file("cannot wait for", running.name.as_str())(error));
                }
            };
            if !has_ended {
                running.child = Some(child);
                return Err(LabError::TimedOut { limit });
            }
            let Ended { status, cpu: used } =
                reap(child).map_err(LabError::file("cannot wait for", running.name.as_str()))?;
            cpu += used;
            if !status.success() && failure.is_none() {
                failure = Some((running.name.clone(), status));
            }
        }
        match failure {
            None => Ok(cpu),
            Some((kind, status)) => {
                let printed = self.printed.text();
                Err(LabError::Copy { kind, message: format!("{status}: {}", printed.trim()) })
            }
        }
    }
}

impl Drop for Pipeline {
    fn drop(&mut self) {
        for child in self.running.iter_mut().filter_map(|running| running.child.take()) {
            Tree::of(child.id()).kill();
            // The process was killed, so this ends soon; an error cannot be handled.
            let _ = reap(child);
        }
    }
}

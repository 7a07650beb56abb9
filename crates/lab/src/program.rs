//! Runs the program under test as a child process: requests and events.
//!
//! Guarantees: the lab uses the product by its command line alone, as a user does; a child never outlives its limit;
//! its output is read with bounds.

use crate::error::{LabError, unavailable};
use sealane_lanes::Placement;
use sealane_terminal::laboratory;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, ChildStdout, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// The protection of the data: the four levels of the multicore GridFTP study.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Level {
    /// No protection.
    Clear,
    /// The connection is verified, the data is clear text.
    Authenticated,
    /// Every record is verified, the data is readable.
    Safe,
    /// Every record is encrypted and verified.
    Private,
}

impl Level {
    /// All levels, the weakest first.
    pub const ALL: [Self; 4] = [Self::Clear, Self::Authenticated, Self::Safe, Self::Private];

    /// Returns the name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Clear => "clear",
            Self::Authenticated => "authenticated",
            Self::Safe => "safe",
            Self::Private => "private",
        }
    }
}

/// The end that does its full work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum End {
    /// The sender; the other end only reads and discards.
    Send,
    /// The receiver; the other end sends records that were sealed before the clock started.
    Receive,
    /// Both ends, as in normal use.
    Both,
}

impl End {
    /// All ends.
    pub const ALL: [Self; 3] = [Self::Send, Self::Receive, Self::Both];

    /// Returns the name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::Receive => "receive",
            Self::Both => "both",
        }
    }

    /// Returns the name in reports.
    pub fn words(self) -> &'static str {
        match self {
            Self::Send => "sender",
            Self::Receive => "receiver",
            Self::Both => "both ends",
        }
    }
}

/// The options of one copy; `None` leaves the program's default.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CopyRequest {
    /// The level of protection.
    pub level: Option<Level>,
    /// Algorithm by its command-line name.
    pub suite: Option<String>,
    /// Parallel TCP streams.
    pub streams: Option<u32>,
    /// Threads at each end.
    pub lanes: Option<u32>,
    /// Unit of concurrency.
    pub placement: Option<Placement>,
    /// The end that does its full work.
    pub end: Option<End>,
    /// Whether suites with broken or outdated algorithms are allowed.
    pub allow_legacy: bool,
    /// Whether the receiver only verifies and discards.
    pub discard: bool,
    /// Whether every file is digested while it moves.
    pub digest: bool,
    /// Whether to descend into directories.
    pub recursive: bool,
    /// Whether to continue an unfinished copy or to start afresh.
    pub resume: Option<bool>,
    /// The rate limit in bytes per second.
    pub limit_rate: Option<u64>,
    /// The CPUs to which both ends are confined; all if empty.
    pub cpus: Vec<usize>,
    /// Environment variables for both ends, such as `SEALANE_AEAD`.
    pub environment: BTreeMap<String, String>,
}

impl CopyRequest {
    /// Returns the words before a program that confine it to the request's CPUs.
    fn confining(&self) -> Vec<OsString> {
        if self.cpus.is_empty() {
            return Vec::new();
        }
        let list: Vec<String> = self.cpus.iter().map(usize::to_string).collect();
        ["taskset", "-c", &list.join(",")].map(OsString::from).to_vec()
    }

    /// Returns the arguments of `sealane` for this request.
    pub fn arguments(&self, sources: &[PathBuf], target: &Path) -> Vec<OsString> {
        let mut arguments: Vec<OsString> = vec!["cp".into(), "--json".into()];
        let mut option = |name: &str, value: Option<String>| {
            if let Some(value) = value {
                arguments.extend([name.into(), value.into()]);
            }
        };
        option("--level", self.level.map(|level| level.name().to_owned()));
        option("--suite", self.suite.clone());
        option("--streams", self.streams.map(|count| count.to_string()));
        option("--lanes", self.lanes.map(|count| count.to_string()));
        option("--placement", self.placement.map(|placement| placement.name().to_owned()));
        option("--end", self.end.map(|end| end.name().to_owned()));
        option("--sink", self.discard.then(|| "null".to_owned()));
        option("--limit-rate", self.limit_rate.map(|rate| rate.to_string()));
        for (flag, is_set) in [
            ("--allow-legacy", self.allow_legacy),
            ("--digest", self.digest),
            ("--recursive", self.recursive),
            ("--resume", self.resume == Some(true)),
            ("--no-resume", self.resume == Some(false)),
        ] {
            if is_set {
                arguments.push(flag.into());
            }
        }
        arguments.push("--".into());
        arguments.extend(sources.iter().map(|source| source.clone().into_os_string()));
        arguments.push(target.into());
        arguments
    }
}

/// CPU seconds, user and system, of each end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CpuSeconds {
    /// CPU seconds of this end.
    pub local: f64,
    /// CPU seconds of the far end.
    pub remote: f64,
}

/// The program's last event.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Done {
    /// Bytes of file content.
    pub bytes: u64,
    /// The number of entries.
    pub files: u64,
    /// Wall time as measured by the program.
    pub seconds: f64,
    /// CPU time of both ends.
    pub cpu_seconds: CpuSeconds,
    /// Bytes sent more than once.
    pub resent_bytes: u64,
    /// Bytes that an earlier run had left at the target.
    pub resumed_bytes: u64,
    /// The effective level.
    pub level: String,
    /// The effective suite.
    pub suite: String,
    /// The effective number of streams.
    pub streams: u32,
    /// The effective number of lanes.
    pub lanes: u32,
    /// The effective placement.
    pub placement: String,
    /// The implementation that ran.
    pub tier: String,
}

/// A finished copy as observed by the lab.
#[derive(Clone, Debug, PartialEq)]
pub struct Finished {
    /// The program's report.
    pub done: Done,
    /// The time from the start of the process to its end, measured here.
    pub wall: Duration,
}

/// The condition for killing a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KillRule {
    /// The copy is killed as soon as the program reports this number of bytes moved.
    pub moved_bytes: u64,
    /// The copy is killed after this time, for a program that reports no progress.
    pub after: Duration,
}

/// The outcome of a copy that was to be killed.
#[derive(Clone, Debug, PartialEq)]
pub enum Killed {
    /// It was killed, with the last progress reported before, if any.
    Midway {
        /// The number of bytes moved by then.
        moved_bytes: Option<u64>,
    },
    /// It finished before the rule applied.
    Finished(Box<Finished>),
}

/// The program under test.
#[derive(Clone, Debug)]
pub struct Program {
    /// The path of the executable.
    pub path: PathBuf,
    /// Words before the program, such as `ip netns exec NAME`.
    pub prefix: Vec<OsString>,
    /// A copy that takes longer is killed and counts as a failure.
    pub limit: Duration,
}

/// The maximum of lines of standard output that are queued for the lab.
const LINES_QUEUED: usize = 64;
/// The program never prints a line longer than this.
const LINE_BYTES_MAX: u64 = 1 << 20;
/// The number of bytes of standard error that an error message may quote.
const TAIL_BYTES: usize = 2_000;

impl Program {
    /// Returns the program at `path` without prefix, limited to ten minutes per copy.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), prefix: Vec::new(), limit: Duration::from_secs(600) }
    }

    /// Returns the installed program: the one beside the running laboratory, or else the one in `PATH`.
    ///
    /// # Errors
    /// Fails if there is none.
    pub fn installed() -> Result<Self, LabError> {
        let path = laboratory::find(laboratory::PRODUCT).ok_or_else(|| {
            unavailable("there is no `sealane` to measure, neither beside `sealane-lab` nor in PATH")
        })?;
        Ok(Self::new(path))
    }

    /// Runs one copy to its end.
    pub fn copy(
        &self,
        request: &CopyRequest,
        sources: &[PathBuf],
        target: &Path,
    ) -> Result<Finished, LabError> {
        match self.run(request, sources, target, None)? {
            Killed::Finished(finished) => Ok(*finished),
            Killed::Midway { .. } => Err(LabError::TimedOut { limit: self.limit }),
        }
    }

    /// Starts a copy and kills it by `rule`, with SIGKILL, so that it cannot clean up.
    pub fn copy_killed(
        &self,
        request: &CopyRequest,
        sources: &[PathBuf],
        target: &Path,
        rule: KillRule,
    ) -> Result<Killed, LabError> {
        self.run(request, sources, target, Some(rule))
    }

    fn run(
        &self,
        request: &CopyRequest,
        sources: &[PathBuf],
        target: &Path,
        rule: Option<KillRule>,
    ) -> Result<Killed, LabError> {
        let started = Instant::now();
        let (mut child, output, errors) =
            self.start(request.confining(), request.arguments(sources, target), &request.environment)?;
        let events = events(output);
        let tail = std::thread::spawn(move || tail(errors));
        let limit = rule.map_or(self.limit, |rule| rule.after.min(self.limit));
        let ended = watch(&events, started, limit, rule.map_or(u64::MAX, |rule| rule.moved_bytes));
        if !ended.is_complete {
            // A failure to kill means that the child has just ended by itself.
            let _ = child.kill();
        }
        let status = child.wait().map_err(LabError::file("cannot wait for", &self.path))?;
        let wall = started.elapsed();
        if !ended.is_complete {
            if rule.is_none() {
                return Err(LabError::TimedOut { limit: self.limit });
            }
            return Ok(Killed::Midway { moved_bytes: ended.moved_bytes });
        }
        if let Some((kind, message)) = ended.error {
            return Err(LabError::Copy { kind, message });
        }
        match ended.done {
            Some(done) if status.success() => Ok(Killed::Finished(Box::new(Finished { done, wall }))),
            _ => Err(LabError::NoResult {
                status: status.to_string(),
                stderr_tail: tail.join().unwrap_or_default(),
            }),
        }
    }

    fn start(
        &self,
        confining: Vec<OsString>,
        arguments: Vec<OsString>,
        environment: &BTreeMap<String, String>,
    ) -> Result<(Child, ChildStdout, ChildStderr), LabError> {
        let own = [self.path.clone().into_os_string()];
        let mut words = self.prefix.iter().cloned().chain(confining).chain(own);
        let program = words.next().unwrap_or_default();
        let start = |source| LabError::Start { program: PathBuf::from(&program), source };
        let mut child = Command::new(&program)
            .args(words)
            .args(arguments)
            .envs(environment)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(start)?;
        match (child.stdout.take(), child.stderr.take()) {
            (Some(output), Some(errors)) => Ok((child, output, errors)),
            _ => Err(start(std::io::Error::other("it was started without pipes"))),
        }
    }
}

/// The combined events of one copy.
#[derive(Default)]
struct Ended {
    is_complete: bool,
    done: Option<Done>,
    error: Option<(String, String)>,
    moved_bytes: Option<u64>,
}

fn watch(
    events: &mpsc::Receiver<serde_json::Value>,
    started: Instant,
    limit: Duration,
    moved_max: u64,
) -> Ended {
    let mut ended = Ended::default();
    loop {
        let event = match events.recv_timeout(limit.saturating_sub(started.elapsed())) {
            Ok(event) => event,
            Err(mpsc::RecvTimeoutError::Timeout) => return ended,
            Err(mpsc::RecvTimeoutError::Disconnected) => {
                ended.is_complete = true;
                return ended;
            }
        };
        let text = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
        match event["event"].as_str() {
            Some("done") => ended.done = serde_json::from_value(event).ok(),
            Some("error") => ended.error = Some((text("kind"), text("message"))),
            Some("progress") => {
                ended.moved_bytes = event["bytes"].as_u64();
                if ended.moved_bytes.is_some_and(|bytes| bytes >= moved_max) {
                    return ended;
                }
            }
            _ => {}
        }
    }
}

/// Reads events on a separate thread, so that the timeout applies to a silent child. The channel closes when the
/// child closes its output.
fn events(output: ChildStdout) -> mpsc::Receiver<serde_json::Value> {
    let (sender, receiver) = mpsc::sync_channel(LINES_QUEUED);
    std::thread::spawn(move || {
        let mut output = BufReader::new(output);
        let mut line = Vec::new();
        loop {
            line.clear();
            match (&mut output).take(LINE_BYTES_MAX).read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => return,
                Ok(_) => {}
            }
            // A line that is not JSON is meant for people and skipped; a full queue blocks, and a missing receiver
            // ends the thread.
            if let Ok(event) = serde_json::from_slice(&line)
                && sender.send(event).is_err()
            {
                return;
            }
        }
    });
    receiver
}

fn tail(mut errors: ChildStderr) -> String {
    let mut kept: Vec<u8> = Vec::new();
    let mut buffer = [0; 4096];
    while let Ok(taken) = errors.read(&mut buffer) {
        if taken == 0 {
            break;
        }
        kept.extend_from_slice(&buffer[..taken]);
        let excess = kept.len().saturating_sub(TAIL_BYTES);
        kept.drain(..excess);
    }
    String::from_utf8_lossy(&kept).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_reads_like_a_command() {
        let request = CopyRequest {
            level: Some(Level::Private),
            suite: Some("aes-128-gcm".to_owned()),
            streams: Some(2),
            lanes: Some(1),
            placement: Some(Placement::Packet),
            end: Some(End::Send),
            discard: true,
            resume: Some(false),
            limit_rate: Some(1000),
            ..CopyRequest::default()
        };
        let words = request.arguments(&[PathBuf::from("-a")], Path::new("/b"));
        let text: Vec<_> = words.iter().map(|word| word.to_str().unwrap()).collect();
        assert_eq!(
            text.join(" "),
            "cp --json --level private --suite aes-128-gcm --streams 2 --lanes 1 --placement packet --end send \
             --sink null --limit-rate 1000 --no-resume -- -a /b"
        );
        let bare = CopyRequest::default().arguments(&[], Path::new("t"));
        assert_eq!(bare, ["cp", "--json", "--", "t"]);
    }
}

//! One run of the program, which may be killed at any time.

use crate::program::{Running, eventually, eventually_some, sealane};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use tempfile::NamedTempFile;

/// A running program. It is killed when dropped.
pub(crate) struct Run {
    child: Running,
    stdout: NamedTempFile,
    stderr: NamedTempFile,
}

/// The result of a run.
#[derive(Debug)]
pub(crate) struct Ended {
    /// `None` if a signal ended it.
    pub(crate) code: Option<i32>,
    pub(crate) events: Vec<Value>,
    pub(crate) stderr: String,
}

impl Run {
    /// Starts `sealane cp --json ARGUMENTS` in `home`.
    pub(crate) fn start(home: &Path, arguments: &[&str]) -> Self {
        let mut command = sealane(&["cp", "--json"]);
        command.args(arguments).env("HOME", home);
        Self::of(command)
    }

    /// Starts another command with the same output as `cp --json`.
    pub(crate) fn of(mut command: Command) -> Self {
        let (stdout, stderr) = (NamedTempFile::new().expect("a file"), NamedTempFile::new().expect("a file"));
        let writer = |file: &NamedTempFile| File::create(file.path()).expect("a file");
        // These are files, because a far end that outlives the run would keep a pipe open.
        command.stdout(writer(&stdout)).stderr(writer(&stderr));
        Self { child: Running(command.spawn().expect("the program starts")), stdout, stderr }
    }

    /// Kills it without a warning.
    pub(crate) fn kill(&mut self) {
        // This fails only if the program has already ended.
        let _ = self.child.kill();
    }

    /// Interrupts it, as Ctrl-C does.
    pub(crate) fn interrupt(&self) {
        let number = Pid::from_raw(self.child.id() as i32).expect("a process has a number");
        // This fails only if the program has already ended.
        let _ = kill_process(number, Signal::INT);
    }

    /// Returns its process number.
    pub(crate) fn number(&self) -> u32 {
        self.child.id()
    }

    /// Returns its running children.
    pub(crate) fn children(&self) -> Vec<u32> {
        let parent = self.child.id();
        let numbers = fs::read_dir("/proc").expect("processes").filter_map(|entry| {
            let number: u32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
            let (_, state, of) = status(number)?;
            (of == parent && state != 'Z').then_some(number)
        });
        numbers.collect()
    }

    /// Returns the lines that it has printed so far.
    pub(crate) fn events(&self) -> Vec<Value> {
        let text = fs::read_to_string(self.stdout.path()).unwrap_or_default();
        // The last line may have been cut off by a kill.
        text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// Waits until it has transferred this many bytes, or has ended.
    pub(crate) fn wait_for_bytes(&mut self, bytes: u64) {
        eventually(|| moved(&self.events()) >= bytes || self.has_ended());
    }

    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("its status").is_some()
    }

    /// Waits for its end with this status.
    #[track_caller]
    pub(crate) fn ends(self, code: i32) -> Ended {
        let ended = self.end().expect("it ends");
        assert_eq!(ended.code, Some(code), "{ended:?}");
        ended
    }

    /// Waits for its end. A run that hangs is an error.
    pub(crate) fn end(mut self) -> Result<Ended, String> {
        let status = eventually_some(|| self.child.try_wait().expect("its status"))
            .ok_or_else(|| format!("it hangs after {:?}", self.events().last()))?;
        let stderr = fs::read_to_string(self.stderr.path()).unwrap_or_default();
        Ok(Ended { code: status.code(), events: self.events(), stderr })
    }
}

/// Runs to the end. A far end that outlives a kill for a moment still holds the journal, and the program reports
/// that.
pub(crate) fn run_to_end(home: &Path, arguments: &[&str]) -> Result<Ended, String> {
    let mut ended = Err("it was never run".to_owned());
    eventually(|| {
        ended = Run::start(home, arguments).end();
        let is_held =
            |ended: &Ended| ended.kind() == "refused" && ended.message().contains("running already");
        !ended.as_ref().is_ok_and(is_held)
    });
    ended
}

/// Runs to the end, which must be a success.
#[track_caller]
pub(crate) fn run(home: &Path, arguments: &[&str]) -> Ended {
    let ended = run_to_end(home, arguments).expect("it ends");
    assert_eq!(ended.code, Some(0), "{arguments:?}: {ended:?}");
    ended
}

/// Returns the maximum number of bytes in any line of progress.
pub(crate) fn moved(events: &[Value]) -> u64 {
    let progress = events.iter().filter(|event| event["event"] == "progress");
    progress.filter_map(|event| event["bytes"].as_u64()).max().unwrap_or(0)
}

impl Ended {
    fn last(&self) -> &Value {
        self.events.last().unwrap_or(&Value::Null)
    }

    /// Returns a number of the line `done`.
    pub(crate) fn done(&self, name: &str) -> u64 {
        let done = self.events.iter().find(|event| event["event"] == "done");
        done.and_then(|done| done[name].as_u64()).unwrap_or_else(|| panic!("no {name} in {self:?}"))
    }

    /// Returns the kind of the failure that ended the run; empty if there was none.
    pub(crate) fn kind(&self) -> &str {
        self.last()["kind"].as_str().unwrap_or_default()
    }

    pub(crate) fn message(&self) -> &str {
        self.last()["message"].as_str().unwrap_or_default()
    }
}

/// Returns name, state and parent of a process.
fn status(number: u32) -> Option<(String, char, u32)> {
    let text = fs::read_to_string(format!("/proc/{number}/stat")).ok()?;
    let (front, rest) = text.rsplit_once(')')?;
    let mut words = rest.split_whitespace();
    let state = words.next()?.chars().next()?;
    Some((front.to_owned(), state, words.next()?.parse().ok()?))
}

/// Returns the maximum memory that a process has used; 0 if it is gone.
pub(crate) fn peak_bytes(number: u32) -> u64 {
    let text = fs::read_to_string(format!("/proc/{number}/status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap_or_default();
    line.split_whitespace().next().and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) << 10
}

/// Kills a process that is not a child of this one.
pub(crate) fn kill_far(number: u32) {
    if let Some(pid) = i32::try_from(number).ok().and_then(Pid::from_raw) {
        // This fails only if the process has already ended.
        let _ = kill_process(pid, Signal::KILL);
    }
}

/// Waits until a process is gone.
pub(crate) fn wait_gone(number: u32) -> Result<(), String> {
    let is_gone = eventually(|| status(number).is_none_or(|(_, state, _)| state == 'Z'));
    is_gone.then_some(()).ok_or_else(|| format!("process {number} outlives the transfer"))
}

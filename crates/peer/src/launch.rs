//! Child processes that serve the other end: they run on one socket pair, their failures are explained, and none is
//! left behind.

use std::ffi::OsString;
use std::fmt;
use std::io::{self, BufRead, BufReader, Read};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};

use crate::error::{ChannelError, PeerError};
use crate::name::{ChannelKind, PeerName};

/// Time that a child has to exit by itself once its socket is closed, and again after a signal.
const GRACE: Duration = Duration::from_millis(300);
/// Interval between looks at a child, where the system does not tell of its exit.
const CHILD_POLL: Duration = Duration::from_millis(5);
/// Longer lines of a child's error output are cut in pieces.
const MAX_LINE_BYTES: u64 = 1024;

/// The destination of a child's error output.
#[derive(Clone, Default)]
pub enum StderrMode {
    /// Our own error output.
    #[default]
    Inherit,
    /// This function, which gets each line, on a thread of its own; control characters are replaced, so that a remote
    /// end cannot control our terminal. A line is at most 1 KiB.
    Relay(Arc<dyn Fn(&str) + Send + Sync>),
}

impl fmt::Debug for StderrMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Inherit => "Inherit",
            Self::Relay(_) => "Relay(..)",
        })
    }
}

/// The permissions of a far end that we start, besides serving one transfer. The default is nothing.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ServeLeave {
    /// Outdated suites (`--allow-legacy`).
    pub allow_legacy: bool,
    /// The laboratory's modes (`--measuring`).
    pub measuring: bool,
}

impl ServeLeave {
    /// Returns the arguments that grant these permissions.
    pub(crate) fn arguments(self) -> impl Iterator<Item = &'static str> {
        let given = [(self.allow_legacy, "--allow-legacy"), (self.measuring, "--measuring")];
        given.into_iter().filter_map(|(given, argument)| given.then_some(argument))
    }
}

/// A child whose standard input and output are one socket that we hold.
///
/// Dropping it closes the socket, waits a moment for the child to exit, and then kills and reaps it.
#[derive(Debug)]
pub struct RemoteProcess {
    // It is declared before the guard: the child exits when its socket closes.
    socket: UnixStream,
    guard: ChildGuard,
    kind: ChannelKind,
    peer: PeerName,
}

impl RemoteProcess {
    pub(crate) fn spawn(
        mut command: Command,
        stderr: &StderrMode,
        kind: ChannelKind,
        peer: PeerName,
    ) -> Result<Self, PeerError> {
        let program = command.get_program().to_string_lossy().into_owned();
        let fault = |source| PeerError::Spawn { program: program.clone(), source };
        let (socket, theirs) = UnixStream::pair().map_err(fault)?;
        let theirs_too = theirs.try_clone().map_err(fault)?;
        command.stdin(OwnedFd::from(theirs)).stdout(OwnedFd::from(theirs_too));
        command.stderr(match stderr {
            StderrMode::Inherit => Stdio::inherit(),
            StderrMode::Relay(_) => Stdio::piped(),
        });
        let mut child = command.spawn().map_err(fault)?;
        // The command's copies of the child's end must close, or the stream would not end with the child.
        drop(command);
        if let (StderrMode::Relay(sink), Some(pipe)) = (stderr, child.stderr.take()) {
            let sink = Arc::clone(sink);
            // The thread is never joined: a background process of the child (ssh's ControlPersist) may hold the pipe
            // for hours.
            std::thread::Builder::new()
                .name("child stderr".into())
                .spawn(move || relay_lines(pipe, &*sink))
                .map_err(fault)?;
        }
        Ok(Self { socket, guard: ChildGuard::new(child, program, peer.clone()), kind, peer })
    }

    /// Returns the socket that is the child's standard input and output, in blocking mode.
    #[must_use]
    pub fn socket(&self) -> &UnixStream {
        &self.socket
    }

    /// Waits until the child has exited, or the deadline passed (then it returns `None`).
    ///
    /// # Errors
    /// Fails if the child failed; the error explains how.
    pub fn wait(&mut self, deadline: Instant) -> Result<Option<ExitStatus>, ChannelError> {
        match self.guard.exited_by(deadline) {
            Some(status) if !status.success() => Err(self.guard.failure(status)),
            status => Ok(status),
        }
    }

    pub(crate) fn into_parts(self) -> (UnixStream, ChildGuard, ChannelKind, PeerName) {
        (self.socket, self.guard, self.kind, self.peer)
    }

    /// Signals the program to end, for a caller that has everything it wants from it: otherwise ssh waits for the far
    /// program's end, a round trip after ours.
    pub fn terminate(&self) {
        self.guard.terminate();
    }
}

impl AsFd for RemoteProcess {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

/// Starts `PROGRAM serve --stdio` on this machine, with the given permissions; the default program is the running
/// one.
///
/// # Errors
/// Fails if the running program cannot be found, or the child cannot be started.
pub fn spawn_local(
    program: Option<&Path>,
    leave: ServeLeave,
    stderr: &StderrMode,
) -> Result<RemoteProcess, PeerError> {
    let program: OsString = match program {
        Some(program) => program.into(),
        None => std::env::current_exe()
            .map_err(|source| PeerError::Spawn { program: "our own program".into(), source })?
            .into(),
    };
    let mut command = Command::new(program);
    command.args(["serve", "--stdio"]).args(leave.arguments());
    RemoteProcess::spawn(command, stderr, ChannelKind::Local, PeerName::Local)
}

/// Starts `sealane fleet work` on this machine, by the program that is running now.
///
/// # Errors
/// The running program cannot be found, or the child cannot be started.
pub fn spawn_local_worker(stderr: &StderrMode) -> Result<RemoteProcess, PeerError> {
    let program = std::env::current_exe()
        .map_err(|source| PeerError::Spawn { program: "our own program".into(), source })?;
    let mut command = Command::new(program);
    command.args(["fleet", "work"]);
    RemoteProcess::spawn(command, stderr, ChannelKind::Local, PeerName::Local)
}

/// A child that is killed and reaped at the latest when this is dropped.
#[derive(Debug)]
pub(crate) struct ChildGuard {
    child: Child,
    /// The descriptor that becomes readable when the child exits, if the system has such descriptors.
    exit: Option<OwnedFd>,
    program: String,
    status: Option<ExitStatus>,
    peer: PeerName,
}

impl ChildGuard {
    fn new(child: Child, program: String, peer: PeerName) -> Self {
        let exit = pid(&child).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
        Self { child, exit, program, status: None, peer }
    }

    /// Returns its exit status, if it exits by then.
    pub(crate) fn exited_by(&mut self, deadline: Instant) -> Option<ExitStatus> {
        loop {
            if self.status.is_none() {
                self.status = self.child.try_wait().ok().flatten();
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if self.status.is_some() || left.is_zero() {
                return self.status;
            }
            self.wait(left);
        }
    }

    /// Waits until the child exits, at most so long.
    fn wait(&self, patience: Duration) {
        let waited = self.exit.as_ref().and_then(|exit| {
            let patience = Timespec::try_from(patience).ok()?;
            poll(&mut [PollFd::new(exit, PollFlags::IN)], Some(&patience)).ok()
        });
        if waited.is_none() {
            std::thread::sleep(CHILD_POLL.min(patience));
        }
    }

    /// Signals the child to end. ssh closes its connection properly then.
    fn terminate(&self) {
        if self.status.is_none()
            && let Some(pid) = pid(&self.child)
        {
            let _ = kill_process(pid, Signal::TERM);
        }
    }

    /// Waits for an orderly exit.
    pub(crate) fn finish(&mut self, deadline: Instant) -> Result<(), ChannelError> {
        match self.exited_by(deadline) {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(self.failure(status)),
            None => Err(ChannelError::Deadline { doing: "waiting for a child to exit" }),
        }
    }

    /// Returns the error for a status other than success.
    pub(crate) fn failure(&self, status: ExitStatus) -> ChannelError {
        let meaning = explain_status(&self.peer, status);
        ChannelError::ChildFailed { program: self.program.clone(), status, meaning }
    }
}

impl Drop for ChildGuard {
    fn drop(&mut self) {
        if self.exited_by(Instant::now() + GRACE).is_some() {
            return;
        }
        self.terminate();
        if self.exited_by(Instant::now() + GRACE).is_none() {
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

fn pid(child: &Child) -> Option<Pid> {
    i32::try_from(child.id()).ok().and_then(Pid::from_raw)
}

/// Returns the usual meaning of a child's exit.
fn explain_status(peer: &PeerName, status: ExitStatus) -> String {
    match (peer, status.code()) {
        (PeerName::Ssh { host }, Some(127)) => format!(
            "sealane is not installed on {host}, or not in the PATH of a non-interactive shell; \
             --install-far-end copies it there, --remote-program says where it is"
        ),
        (PeerName::Ssh { host }, Some(126)) => {
            format!("the remote program on {host} cannot be executed; see --remote-program")
        }
        (PeerName::Ssh { host }, Some(255)) => {
            format!("ssh could not reach {host}, log in, or keep the connection")
        }
        (_, Some(_)) => "the far end failed".to_owned(),
        (_, None) if status.core_dumped() => "it crashed".to_owned(),
        (_, None) => "a signal ended it".to_owned(),
    }
}

fn relay_lines(pipe: ChildStderr, sink: &(dyn Fn(&str) + Send + Sync)) {
    let mut pipe = BufReader::new(pipe);
    let mut line = Vec::new();
    loop {
        line.clear();
        match pipe.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut line) {
            Ok(0) => return,
            Ok(_) => sink(&printable(&line)),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(_) => return,
        }
    }
}

/// Returns text without characters that control a terminal.
fn printable(line: &[u8]) -> String {
    let text = String::from_utf8_lossy(line);
    let text = text.trim_end_matches(['\n', '\r']);
    text.chars().map(|c| if c.is_control() && c != '\t' { '\u{fffd}' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channel::Channel;
    use std::sync::Mutex;

    fn shell(script: &str, stderr: &StderrMode, kind: ChannelKind) -> RemoteProcess {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        let peer = match kind {
            ChannelKind::Ssh => PeerName::Ssh { host: "far".into() },
            _ => PeerName::Local,
        };
        RemoteProcess::spawn(command, stderr, kind, peer).unwrap()
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_secs(20)
    }

    fn gone(pid: u32) -> bool {
        !Path::new(&format!("/proc/{pid}")).exists()
    }

    #[test]
    fn frames_to_a_child_and_back() {
        let child = shell("exec cat", &StderrMode::Inherit, ChannelKind::Local);
        let mut channel = Channel::from_child(child).unwrap();
        assert!(channel.may_carry_secrets());
        for len in [0, 1, 70_000] {
            let frame = vec![7; len];
            channel.send(&frame, soon()).unwrap();
            assert_eq!(channel.recv(soon()).unwrap(), Some(frame));
        }
        assert!(matches!(channel.export(b"l", b"c", &mut [0; 4]), Err(ChannelError::NoExporter)));
        channel.close(soon()).unwrap();
    }

    #[test]
    fn exits_are_explained() {
        for (kind, script, want) in [
            (ChannelKind::Ssh, "exit 127", "not installed on far"),
            (ChannelKind::Ssh, "exit 126", "cannot be executed"),
            (ChannelKind::Ssh, "exit 255", "ssh could not"),
            (ChannelKind::Local, "exit 255", "the far end failed"),
            (ChannelKind::Ssh, "kill -9 $$", "a signal ended it"),
            // The stream ends a while before the status is available.
            (ChannelKind::Ssh, "exec <&- >&-; sleep 0.2; exit 127", "--remote-program"),
        ] {
            let mut channel = Channel::from_child(shell(script, &StderrMode::Inherit, kind)).unwrap();
            let error = channel.recv(soon()).unwrap_err();
            assert!(matches!(error, ChannelError::ChildFailed { .. }), "{script}: {error}");
            assert!(error.to_string().contains(want), "{script}: {error}");
        }
        let mut channel =
            Channel::from_child(shell("exit 0", &StderrMode::Inherit, ChannelKind::Ssh)).unwrap();
        assert!(matches!(channel.recv(soon()), Err(ChannelError::Closed)));
        // Polling with a past deadline gives the same explanation in the end.
        let child = shell("exec <&- >&-; sleep 0.1; exit 127", &StderrMode::Inherit, ChannelKind::Ssh);
        let mut channel = Channel::from_child(child).unwrap();
        let error = loop {
            match channel.recv(Instant::now()) {
                Ok(none) => assert_eq!(none, None),
                Err(error) => break error,
            }
            std::thread::sleep(Duration::from_millis(2));
        };
        assert!(matches!(error, ChannelError::ChildFailed { .. }), "{error}");
    }

    #[test]
    fn a_child_that_is_gone_explains_a_failed_send() {
        let child = shell("exit 127", &StderrMode::Inherit, ChannelKind::Ssh);
        let mut channel = Channel::from_child(child).unwrap();
        let error = loop {
            if let Err(error) = channel.send(&[0; 1000], soon()) {
                break error;
            }
        };
        assert!(error.to_string().contains("--remote-program"), "{error}");
    }

    #[test]
    fn nothing_is_left_behind() {
        for script in ["exec cat", "exec sleep 1000", "trap '' TERM; while :; do sleep 0.05; done"] {
            let child = shell(script, &StderrMode::Inherit, ChannelKind::Local);
            let pid = child.guard.child.id();
            assert!(!gone(pid));
            drop(Channel::from_child(child).unwrap());
            assert!(gone(pid), "{script}");
        }
    }

    #[test]
    fn complaints_are_relayed_and_harmless() {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&lines);
        let relay = StderrMode::Relay(Arc::new(move |line: &str| sink.lock().unwrap().push(line.to_owned())));
        let mut child = shell(r"printf 'one\n\033[2Jtwo\r\nthree' >&2", &relay, ChannelKind::Local);
        assert!(child.wait(soon()).unwrap().unwrap().success());
        while lines.lock().unwrap().len() < 3 && Instant::now() < soon() {
            std::thread::sleep(Duration::from_millis(2));
        }
        assert_eq!(*lines.lock().unwrap(), ["one", "\u{fffd}[2Jtwo", "three"]);
    }

    #[test]
    fn a_missing_program_is_named() {
        let error =
            spawn_local(Some(Path::new("/nonexistent/sealane")), ServeLeave::default(), &StderrMode::Inherit)
                .unwrap_err();
        assert!(
            matches!(&error, PeerError::Spawn { program, .. } if program == "/nonexistent/sealane"),
            "{error}"
        );
    }
}

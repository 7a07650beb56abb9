//! scapy as a process that answers each line with a line. Tests of the crates `ike` and `ipsec` include this file with
//! `#[path]`.

#[path = "running.rs"]
mod running;

use std::{
    ffi::OsStr,
    io::{BufRead as _, BufReader, Write as _},
    process::{ChildStdin, ChildStdout, Command, Stdio},
};

use running::Running;

/// A running script, which is ended with the value.
pub(crate) struct Scapy {
    _child: Running,
    asks: ChildStdin,
    answers: BufReader<ChildStdout>,
}

impl Scapy {
    /// Starts a script by an interpreter; `None` if the interpreter is missing.
    pub(crate) fn start(python: impl AsRef<OsStr>, script: &str) -> Option<Self> {
        let mut command = Command::new(python);
        let mut child = command.arg(script).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().ok()?;
        let asks = child.stdin.take().expect("it was piped");
        let answers = BufReader::new(child.stdout.take().expect("it was piped"));
        Some(Self { _child: Running(child), asks, answers })
    }

    /// Returns the script's answer to a line, without its end.
    #[track_caller]
    pub(crate) fn ask(&mut self, line: &str) -> String {
        writeln!(self.asks, "{line}").expect("scapy listens");
        let mut answer = String::new();
        self.answers.read_line(&mut answer).expect("scapy answers");
        answer.trim_end().to_owned()
    }
}

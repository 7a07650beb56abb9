//! The failure of a command: a status for scripts and an error for people.

use crate::exit::ExitStatus;
use crate::text;
use sealane_peer::chain;
use serde_json::json;
use std::io::{self, Write as _};

/// The reason why a command failed.
#[derive(Debug)]
pub enum Failure {
    /// Nobody reads standard output any more. The reader closed the pipe, which is not a failure of this program.
    BrokenPipe,
    /// The failure has been reported already, in a better place than here.
    Told {
        /// The exit status.
        status: ExitStatus,
    },
    /// Anything else.
    Failed {
        /// The exit status.
        status: ExitStatus,
        /// The error that the user sees.
        error: anyhow::Error,
    },
}

impl Failure {
    /// Returns a failure with this status, which shows the error.
    pub fn new(status: ExitStatus, error: impl Into<anyhow::Error>) -> Self {
        Self::Failed { status, error: error.into() }
    }

    /// Returns a failure to write to standard output.
    pub fn output(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::BrokenPipe,
            _ => Self::new(ExitStatus::Io, anyhow::Error::new(error).context("writing to standard output")),
        }
    }
}

/// Writes `text` to standard output.
///
/// # Errors
/// Fails if nobody reads standard output any more, or if it takes no more bytes.
pub fn print(text: &str) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()).map_err(Failure::output)
}

/// Reports a failure, and returns the exit status.
pub fn conclude(outcome: Result<ExitStatus, Failure>) -> ExitStatus {
    match outcome {
        Ok(status) => status,
        Err(Failure::BrokenPipe) => ExitStatus::Success,
        Err(Failure::Told { status }) => status,
        Err(Failure::Failed { status, error }) => {
            text::complain(format_args!("{}", chain(error.as_ref())));
            status
        }
    }
}

/// Reports arguments that cannot be parsed, to a program as one line of JSON on standard output; a request for help is answered.
pub fn misused(error: &clap::Error, json: bool) -> ExitStatus {
    // If not even the reason can be written, the status still reports the failure.
    if json && error.use_stderr() {
        let text = error.to_string();
        // The rest is a tip and the usage, for people.
        let message = text.lines().next().map_or("", |line| line.trim_start_matches("error: "));
        let line = json!({ "event": "error", "kind": "usage", "message": message });
        let mut stdout = io::stdout().lock();
        let _ = writeln!(stdout, "{line}").and_then(|()| stdout.flush());
    } else {
        let _ = error.print();
    }
    if error.use_stderr() { ExitStatus::Usage } else { ExitStatus::Success }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_that_left_is_no_failure() {
        assert!(matches!(Failure::output(io::ErrorKind::BrokenPipe.into()), Failure::BrokenPipe));
        let full = Failure::output(io::ErrorKind::StorageFull.into());
        assert!(matches!(full, Failure::Failed { status: ExitStatus::Io, .. }));
    }
}

//! The failure of a command: a status for scripts and an error for people.

use crate::exit::ExitStatus;
use std::io;

/// The reason why a command failed.
#[derive(Debug)]
pub(crate) enum Failure {
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
    pub(crate) fn new(status: ExitStatus, error: impl Into<anyhow::Error>) -> Self {
        Self::Failed { status, error: error.into() }
    }

    /// Returns a failure to write to standard output.
    pub(crate) fn output(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::BrokenPipe,
            _ => Self::new(ExitStatus::Io, anyhow::Error::new(error).context("writing to standard output")),
        }
    }
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

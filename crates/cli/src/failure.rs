//! How a command fails: with a status for scripts and a chain of causes for people.

use crate::exit::ExitStatus;
use std::error::Error;
use std::io;

/// Why a command did not do what was asked.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Nobody reads standard output any more. The reader had enough; that is no failure of ours.
    BrokenPipe,
    /// Whoever asked has been told already, in a better place than here.
    Told {
        /// What the shell is told.
        status: ExitStatus,
    },
    /// Anything else.
    Failed {
        /// What the shell is told.
        status: ExitStatus,
        /// What the user is told.
        error: anyhow::Error,
    },
}

impl Failure {
    pub(crate) fn new(status: ExitStatus, error: impl Into<anyhow::Error>) -> Self {
        Self::Failed { status, error: error.into() }
    }

    /// A failure to write to standard output.
    pub(crate) fn output(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::BrokenPipe,
            _ => Self::new(ExitStatus::Io, anyhow::Error::new(error).context("writing to standard output")),
        }
    }
}

/// An error and its causes in one line. A cause that the text before it already tells is not told again.
pub(crate) fn chain(error: &(dyn Error + 'static)) -> String {
    let mut line = error.to_string();
    let mut cause = error.source();
    while let Some(found) = cause {
        let text = found.to_string();
        if !line.contains(&text) {
            line = format!("{line}: {text}");
        }
        cause = found.source();
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::anyhow;

    #[test]
    fn a_chain_tells_each_cause_once() {
        let error = anyhow!("no such file").context("opening a.txt").context("copying");
        assert_eq!(chain(error.as_ref()), "copying: opening a.txt: no such file");
        let error = anyhow!("no such file").context("opening a.txt: no such file");
        assert_eq!(chain(error.as_ref()), "opening a.txt: no such file");
    }

    #[test]
    fn a_reader_that_left_is_no_failure() {
        assert!(matches!(Failure::output(io::ErrorKind::BrokenPipe.into()), Failure::BrokenPipe));
        let full = Failure::output(io::ErrorKind::StorageFull.into());
        assert!(matches!(full, Failure::Failed { status: ExitStatus::Io, .. }));
    }
}

//! Errors of the lab, with the facts that a reader needs.

use std::fmt::Display;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// A failure of the lab or of the program under test.
#[derive(Debug, thiserror::Error)]
pub enum LabError {
    /// The program under test could not be started.
    #[error("cannot start {program}: {source}")]
    Start {
        /// The program to be started.
        program: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// The program under test reported a failure.
    #[error("the copy failed ({kind}): {message}")]
    Copy {
        /// Its machine-readable kind.
        kind: String,
        /// The program's own message, or the output of a foreign one.
        message: String,
    },
    /// The program under test ended without its last event.
    #[error("the copy ended with {status} and no result{}", with_tail(.stderr_tail))]
    NoResult {
        /// The exit status in the system's words.
        status: String,
        /// The end of the program's standard error.
        stderr_tail: String,
    },
    /// The program under test took too long and was killed.
    #[error("the copy was stopped after {} s", .limit.as_secs())]
    TimedOut {
        /// The time limit of the run.
        limit: Duration,
    },
    /// The target differs from the source although the copy reported success.
    #[error("{} differs from its source: {difference}", .path.display())]
    Differs {
        /// The file that differs.
        path: PathBuf,
        /// The kind of difference.
        difference: String,
    },
    /// A file or directory of the lab's own could not be used.
    #[error("{action} {}: {source}", .path.display())]
    File {
        /// The action that failed, e.g. "cannot write".
        action: &'static str,
        /// The path of the file or directory.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// There is not enough room for the workload.
    #[error("{} has room for {available_bytes} bytes, the workload needs {needed_bytes}", .path.display())]
    NoRoom {
        /// The directory intended for the workload.
        path: PathBuf,
        /// Bytes free there.
        available_bytes: u64,
        /// Bytes that the workload needs, without the margin that stays free.
        needed_bytes: u64,
    },
    /// The requested stack cannot be made.
    #[error("{0}")]
    Stack(String),
    /// The environment lacks something an experiment needs.
    #[error("{0}")]
    Unavailable(String),
    /// The only sample that was asked for has been taken, so the rest of the study is not run.
    #[error("the sample has been taken")]
    Taken,
    /// A report could not be rendered.
    #[error("cannot render the report: {0}")]
    Render(String),
    /// Progress lines could not be written.
    #[error("cannot write progress: {0}")]
    Progress(#[from] io::Error),
}

impl LabError {
    /// Returns a function for `map_err` after file operations, which names the action and the path.
    pub(crate) fn file(action: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { action, path, source }
    }
}

/// Returns the error that something is not available here, with the reason.
pub(crate) fn unavailable(reason: impl Display) -> LabError {
    LabError::Unavailable(reason.to_string())
}

fn with_tail(tail: &str) -> String {
    let tail = tail.trim();
    if tail.is_empty() { String::new() } else { format!(": {tail}") }
}

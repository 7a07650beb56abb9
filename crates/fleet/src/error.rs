//! The failures of shared work.

use std::io;
use std::path::PathBuf;

/// Every failure of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FleetError {
    /// A pattern of host names, or a list of hosts, that is none.
    #[error("{text:?}: {fault}")]
    Hosts {
        /// As it was given.
        text: String,
        /// Why it is none.
        fault: String,
    },
    /// Arguments that cannot be meant.
    #[error("{0}")]
    Usage(String),
    /// The other end of a queue is gone, or broke the rules.
    #[error("the queue: {0}")]
    Channel(#[source] Box<sealane_peer::PeerError>),
    /// The other end of a queue says something that is no answer.
    #[error("the other end of the queue broke its protocol: {0}")]
    Protocol(String),
    /// The queue could not do what was asked, in its own words.
    #[error("the queue failed: {0}")]
    Queue(String),
    /// A job or a result that is longer than a queue takes.
    #[error("{what} of {bytes} bytes is longer than a queue takes")]
    TooLong {
        /// A job or a result.
        what: &'static str,
        /// Its length.
        bytes: usize,
    },
    /// A file of a run cannot be read or written.
    #[error("{doing} {path}")]
    File {
        /// The attempt that failed.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The operating system's reason.
        source: io::Error,
    },
    /// Another process works on the run.
    #[error(
        "run {run} is under way already; `sealane fleet status {run}` shows how far it is, `sealane fleet stop {run}` ends it"
    )]
    UnderWay {
        /// The run.
        run: String,
    },
    /// There is no run of this name.
    #[error("there is no run {run} here; `sealane fleet status` lists those that there are")]
    NoRun {
        /// As it was given.
        run: String,
    },
    /// A host that cannot take part, in its own words.
    #[error("{0}")]
    Unfit(String),
    /// Nobody is left who could go on.
    #[error("no host is left that copies: {last}")]
    NobodyLeft {
        /// The failure of the last one.
        last: String,
    },
    /// The run as a whole failed.
    #[error(transparent)]
    Copy(#[from] sealane_copy::Error),
    /// The system gives no thread.
    #[error("cannot start a thread")]
    Thread(#[source] io::Error),
}

impl From<sealane_peer::ChannelError> for FleetError {
    fn from(error: sealane_peer::ChannelError) -> Self {
        sealane_peer::PeerError::from(error).into()
    }
}

impl From<sealane_peer::PeerError> for FleetError {
    fn from(error: sealane_peer::PeerError) -> Self {
        Self::Channel(Box::new(error))
    }
}

impl FleetError {
    pub(crate) fn file(doing: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { doing, path, source }
    }
}

/// The result of nearly everything here.
pub type Result<T> = std::result::Result<T, FleetError>;

//! The failures of shared work.

use sealane_copy::ErrorKind;
use std::io;
use std::path::PathBuf;

/// Every failure of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum FleetError {
    /// A pattern of host names, or a list of hosts, that is invalid.
    #[error("{text:?}: {fault}")]
    Hosts {
        /// The text as given.
        text: String,
        /// The reason why it is invalid.
        fault: String,
    },
    /// Arguments that cannot be meant.
    #[error("{0}")]
    Usage(String),
    /// The other end of a queue is gone, or violated the protocol.
    #[error("the queue: {0}")]
    Channel(#[source] Box<sealane_peer::PeerError>),
    /// The other end of a queue sent something that is not an answer.
    #[error("the other end of the queue broke its protocol: {0}")]
    Protocol(String),
    /// An order or a job that only the coordinator may give, and that somebody else gave.
    #[error(
        "an order of this run is not from its coordinator, whose key is {key}: another host that takes part, or the queue, lies"
    )]
    Forged {
        /// The key of the run.
        key: sealane_peer::PublicKey,
    },
    /// A host of the run does what is not a worker's to do.
    #[error("{0}")]
    Overreach(String),
    /// A target of the run could not do what it was asked, with its own message.
    #[error("{0}")]
    Target(String),
    /// The queue could not carry out a request, with its own message.
    #[error("the queue failed: {0}")]
    Queue(String),
    /// A job or a result that is longer than a queue accepts.
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
        /// The name of the run.
        run: String,
    },
    /// There is no run of this name.
    #[error("there is no run {run} here; `sealane fleet status` lists those that there are")]
    NoRun {
        /// The name as given.
        run: String,
    },
    /// A host that cannot take part, with its own message.
    #[error("{0}")]
    Unfit(String),
    /// No host is left that could continue.
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
    /// Returns the kind of failure that this is for a copy.
    pub fn kind(&self) -> ErrorKind {
        match self {
            Self::Copy(error) => error.kind(),
            Self::Usage(_) | Self::Hosts { .. } | Self::NoRun { .. } => ErrorKind::Usage,
            Self::UnderWay { .. } => ErrorKind::Refused,
            Self::Protocol(_) | Self::Forged { .. } | Self::Overreach(_) => ErrorKind::Protocol,
            Self::Channel(_)
            | Self::NobodyLeft { .. }
            | Self::Unfit(_)
            | Self::Target(_)
            | Self::Queue(_) => ErrorKind::Connect,
            _ => ErrorKind::Io,
        }
    }

    pub(crate) fn file(doing: &'static str, path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> Self {
        let path = path.into();
        move |source| Self::File { doing, path, source }
    }
}

/// The result of nearly everything here.
pub type Result<T> = std::result::Result<T, FleetError>;

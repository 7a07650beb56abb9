//! The errors of a transfer, and the party at fault.

use std::io;

use serde::{Deserialize, Serialize};

/// The kind of a failure; exit codes and `--json` are derived from it, and it crosses the wire.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum ErrorKind {
    /// The command makes no sense.
    Usage,
    /// The far end cannot be reached.
    Connect,
    /// One end refuses a request of the other: level, suite, rights.
    Refused,
    /// Data or handshake was altered on the way.
    Integrity,
    /// Reading or writing failed.
    Io,
    /// The target has no room left.
    DiskFull,
    /// The peer was silent for too long.
    TimedOut,
    /// The peer broke the protocol.
    Protocol,
    /// The peer went away.
    Disconnected,
    /// The user stopped the transfer.
    Cancelled,
}

impl ErrorKind {
    /// Returns the word used in `--json`.
    pub fn name(self) -> &'static str {
        match self {
            Self::Usage => "usage",
            Self::Connect => "connect",
            Self::Refused => "refused",
            Self::Integrity => "integrity",
            Self::Io => "io",
            Self::DiskFull => "disk-full",
            Self::TimedOut => "timed-out",
            Self::Protocol => "protocol",
            Self::Disconnected => "disconnected",
            Self::Cancelled => "cancelled",
        }
    }
}

/// The reason why a transfer failed.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{message}")]
pub struct Error {
    /// The kind, from which the exit code follows.
    pub kind: ErrorKind,
    /// The cause, and the remedy.
    pub message: String,
}

/// The prefix of messages from the other end.
pub(crate) const FAR: &str = "the far end: ";

impl Error {
    /// Returns an error of the given kind.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, message: message.into() }
    }

    /// Returns the error of a failed system call, with its purpose.
    pub fn io(doing: &str, error: &io::Error) -> Self {
        let kind = match error.raw_os_error() {
            Some(libc::ENOSPC | libc::EDQUOT) => ErrorKind::DiskFull,
            _ => ErrorKind::Io,
        };
        Self::new(kind, format!("{doing}: {error}"))
    }

    /// Returns the error of a peer that broke the protocol.
    pub fn protocol(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Protocol, message)
    }

    /// Returns the same failure with `what` named in its message.
    pub(crate) fn naming(mut self, what: &str) -> Self {
        if !self.message.contains(what) {
            self.message = format!("{what}: {}", self.message);
        }
        self
    }

    /// Returns the same failure for an other end that is a process on this host: the user knows of no far end.
    pub(crate) fn of_this_host(mut self) -> Self {
        if let Some(message) = self.message.strip_prefix(FAR) {
            self.message = message.to_owned();
        }
        self
    }

    /// Returns the same failure with advice on the next step.
    pub(crate) fn advising(mut self, advice: &str) -> Self {
        self.message = format!("{}; {advice}", self.message);
        self
    }

    /// Returns the kind, from which the exit code follows.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }
}

impl From<sealane_peer::ChannelError> for Error {
    fn from(error: sealane_peer::ChannelError) -> Self {
        sealane_peer::PeerError::from(error).into()
    }
}

impl From<sealane_tree::Error> for Error {
    fn from(error: sealane_tree::Error) -> Self {
        let kind = match error {
            sealane_tree::Error::NoSpace { .. } => ErrorKind::DiskFull,
            sealane_tree::Error::Outside { .. } | sealane_tree::Error::BlockedRoot { .. } => {
                ErrorKind::Refused
            }
            _ => ErrorKind::Io,
        };
        Self::new(kind, sealane_peer::chain(&error))
    }
}

impl From<sealane_peer::PeerError> for Error {
    fn from(error: sealane_peer::PeerError) -> Self {
        use sealane_peer::{ChannelError, PeerError};
        let kind = match &error {
            PeerError::Channel(ChannelError::Deadline { .. }) => ErrorKind::TimedOut,
            PeerError::Channel(ChannelError::Closed | ChannelError::Truncated) => ErrorKind::Disconnected,
            PeerError::Channel(ChannelError::Frame(_)) => ErrorKind::Protocol,
            PeerError::Channel(ChannelError::Altered { .. }) => ErrorKind::Integrity,
            PeerError::Channel(
                ChannelError::Refused { .. } | ChannelError::Unknown { .. } | ChannelError::NotOwner,
            )
            | PeerError::UnknownServer { .. }
            | PeerError::WrongServer { .. }
            | PeerError::NotAuthorised { .. } => ErrorKind::Refused,
            PeerError::Location { .. } => ErrorKind::Usage,
            _ => ErrorKind::Connect,
        };
        Self::new(kind, sealane_peer::chain(&error))
    }
}

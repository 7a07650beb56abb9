//! How a data stream's connection ends before the transfer does.

use crate::error::{Error, ErrorKind};

/// Why a stream's connection ended.
#[derive(Debug)]
pub(crate) enum LineError {
    /// Cut; it may be opened again.
    Cut,
    /// Content goes out and nothing comes back, opening after opening.
    Stalled,
    /// The peer, or somebody between, sends what cannot be.
    Fatal(Error),
}

impl From<std::io::Error> for LineError {
    fn from(_: std::io::Error) -> Self {
        Self::Cut
    }
}

impl LineError {
    /// A record failed to open, or what should be one is none.
    pub(crate) fn forged(stream: u16, what: &str) -> Self {
        Self::Fatal(Error::new(
            ErrorKind::Integrity,
            format!("data stream {stream} brought {what}: the traffic was altered on the way"),
        ))
    }
}

//! The ways in which a data stream's connection ends before the transfer does.

use crate::error::{Error, ErrorKind};

/// The reason why a stream's connection ended.
#[derive(Debug)]
pub(crate) enum LineError {
    /// The connection was cut; it may be opened again.
    Cut,
    /// Content is sent and nothing is acknowledged, for several openings in a row.
    Stalled,
    /// The peer, or an attacker on the path, sends invalid data.
    Fatal(Error),
}

impl From<std::io::Error> for LineError {
    fn from(_: std::io::Error) -> Self {
        Self::Cut
    }
}

impl LineError {
    /// Returns the error of a record that failed to open or is malformed.
    pub(crate) fn forged(stream: u16, what: &str) -> Self {
        Self::Fatal(Error::new(
            ErrorKind::Integrity,
            format!("data stream {stream} brought {what}: the traffic was altered on the way"),
        ))
    }
}

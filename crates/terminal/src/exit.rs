//! Exit statuses, from which a script learns the outcome.
//!
//! Guarantees: a status other than 0 means that part of the request was not done. Help text and manual page print the
//! table below; there is no second list.

#[cfg(feature = "copy")]
use sealane_copy::ErrorKind;
use std::process::ExitCode;

/// The outcome of the program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitStatus {
    /// Everything asked for was done.
    Success,
    /// Some files were copied or verified, others were not.
    Partial,
    /// The arguments ask for something impossible, or make no sense together.
    Usage,
    /// The far end was not reached, refused, could not meet the level, fell silent or left.
    Connection,
    /// Data or messages were wrong.
    Integrity,
    /// Reading or writing failed at either end.
    Io,
    /// A signal asked for the end.
    Interrupted {
        /// The signal's number.
        signal: u8,
    },
}

/// The parts of a request that may be left undone.
const INCOMPLETE: &str = match cfg!(feature = "copy") {
    true => {
        "incomplete: some files could not be read or written, changed during the copy, did not get their owner, set-id bits or attributes, or differ from their digests; all others are done"
    }
    false => "incomplete: some files could not be read, or differ from their digests; all others are done",
};

/// The ways in which another program is not to be had.
const CONNECTION: &str = match cfg!(feature = "copy") {
    true => "connection: the far end could not be reached, refused, does not support the level, or was lost",
    false => "connection: the other program could not be reached, refused, or was lost",
};

/// Number and meaning, as help and manual page print them.
pub const EXIT_STATUSES: &[(u8, &str)] = &[
    (0, "success: everything was done"),
    (1, INCOMPLETE),
    (2, "usage: the arguments are wrong, or contradict each other"),
    (3, CONNECTION),
    (4, "integrity: data or messages were altered or invalid; nothing unverified was kept"),
    (5, "input or output failed: a missing file, no permission, a full disk"),
    (130, "interrupted by Ctrl-C; 143 by SIGTERM, 129 by SIGHUP"),
];

impl ExitStatus {
    /// Returns the number that the shell sees.
    pub fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Partial => 1,
            Self::Usage => 2,
            Self::Connection => 3,
            Self::Integrity => 4,
            Self::Io => 5,
            // Shells report this status for a program that a signal ended.
            Self::Interrupted { signal } => 128_u8.saturating_add(signal),
        }
    }

    /// Returns the status of a process of ours that ended with this code.
    pub fn of_code(code: i32) -> Self {
        match code {
            0 => Self::Success,
            1 => Self::Partial,
            2 => Self::Usage,
            3 => Self::Connection,
            4 => Self::Integrity,
            129..=192 => Self::Interrupted { signal: (code - 128) as u8 },
            _ => Self::Io,
        }
    }

    /// Returns the status for a transfer that failed in this way.
    #[cfg(feature = "copy")]
    pub fn of_kind(kind: ErrorKind) -> Self {
        match kind {
            ErrorKind::Usage => Self::Usage,
            ErrorKind::Connect | ErrorKind::Refused | ErrorKind::TimedOut | ErrorKind::Disconnected => {
                Self::Connection
            }
            ErrorKind::Integrity | ErrorKind::Protocol => Self::Integrity,
            ErrorKind::Io | ErrorKind::DiskFull => Self::Io,
            ErrorKind::Cancelled => Self::Interrupted { signal: SIGINT },
        }
    }
}

/// The number of the signal of Ctrl-C.
#[cfg(any(test, feature = "copy"))]
const SIGINT: u8 = 2;

impl From<ExitStatus> for ExitCode {
    fn from(status: ExitStatus) -> Self {
        Self::from(status.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_status_is_in_the_table() {
        for status in [
            ExitStatus::Success,
            ExitStatus::Partial,
            ExitStatus::Usage,
            ExitStatus::Connection,
            ExitStatus::Integrity,
            ExitStatus::Io,
            ExitStatus::Interrupted { signal: SIGINT },
        ] {
            assert!(EXIT_STATUSES.iter().any(|&(code, _)| code == status.code()), "{status:?}");
            assert_eq!(ExitStatus::of_code(status.code().into()), status);
        }
    }

    #[test]
    fn signals_have_the_statuses_of_shells() {
        assert_eq!(ExitStatus::Interrupted { signal: SIGINT }.code(), 130);
        assert_eq!(ExitStatus::Interrupted { signal: 15 }.code(), 143);
        assert_eq!(ExitStatus::Interrupted { signal: 255 }.code(), 255);
    }

    #[cfg(feature = "copy")]
    #[test]
    fn no_failure_looks_like_success() {
        for kind in [
            ErrorKind::Usage,
            ErrorKind::Connect,
            ErrorKind::Refused,
            ErrorKind::Integrity,
            ErrorKind::Io,
            ErrorKind::DiskFull,
            ErrorKind::TimedOut,
            ErrorKind::Protocol,
            ErrorKind::Disconnected,
            ErrorKind::Cancelled,
        ] {
            assert_ne!(ExitStatus::of_kind(kind).code(), 0, "{kind:?}");
        }
        assert_eq!(ExitStatus::of_kind(ErrorKind::Cancelled).code(), 130);
    }
}

//! The reasons for which a call to the service has no result, with advice for the user.

use crate::job::Status;
use serde::{Deserialize, Serialize};
use std::io;
use std::time::Duration;

/// The reason for which the service refuses a set-up message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Refusal {
    /// The two have no version in common.
    #[error(
        "the service speaks versions {lowest} to {highest} of the protocol, this program does not: bring both up to date"
    )]
    Version {
        /// The lowest version of the service.
        lowest: u16,
        /// The highest version of the service.
        highest: u16,
    },
    /// The policy has no entry for this user.
    #[error("the engine's policy does not let this user in")]
    NotAllowed,
    /// The policy does not let this user manage keys.
    #[error("the engine's policy does not let this user manage keys")]
    NotAdmin,
    /// There is no such key, or none that this user may use.
    #[error("the engine has no such key, or its policy does not let this user use it")]
    NoSuchKey,
    /// A key of that name already exists.
    #[error("the engine has a key of that name already")]
    Exists,
    /// The text is not a name.
    #[error("a key's name has 1 to 64 letters, digits, `-`, `_` and `.`, and starts with a letter or digit")]
    BadName,
    /// The bytes contain no private key of a supported kind.
    #[error("these bytes hold no private key that the engine can use, or the passphrase is wrong")]
    BadKey,
    /// There are too many connections, keys or clients.
    #[error("the engine's limit of {what} is reached")]
    Limit {
        /// The name of the limit.
        what: String,
    },
    /// The message is not expected now.
    #[error("the engine did not expect this message")]
    Unexpected,
    /// A file could not be written or removed.
    #[error("the engine could not keep its files: {why}")]
    Storage {
        /// The system's error message.
        why: String,
    },
    /// The bytes contain a private key of a kind that is not supported. Version 1 has [`Refusal::BadKey`] instead.
    #[error(
        "the engine does not keep {found}: it keeps RSA of 2048 to 8192 bits, P-256, P-384, P-521, Ed25519, X25519 and ML-DSA"
    )]
    Unsupported {
        /// The kind that the bytes contain.
        found: String,
    },
    /// The certificates are none, too many, or the first one is for another key.
    #[error("these are not 1 to 8 certificates of 24,000 bytes together of which the first is for that key")]
    OtherCertificate,
    /// The bytes contain a private key whose parts do not fit together. Version 1 has [`Refusal::BadKey`] instead.
    #[error("the engine does not take this key: {why}")]
    Damaged {
        /// The fault of the bytes.
        why: String,
    },
}

impl Refusal {
    /// Returns what a client of an older version understands.
    pub fn of_version(self, version: u16) -> Self {
        match self {
            Self::Unsupported { .. } | Self::Damaged { .. } if version < 2 => Self::BadKey,
            other => other,
        }
    }
}

/// The error of a failed call.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The service cannot be reached.
    #[error("cannot reach the engine at {socket}: is `sealane engine serve` running?")]
    Unreachable {
        /// The socket of the service.
        socket: String,
        /// The system's error.
        #[source]
        source: io::Error,
    },
    /// The connection ended. A job that was under way may or may not have been computed; its result is lost.
    #[error("the engine ended the connection")]
    Ended,
    /// The service refuses.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A job was answered with an error instead of a result.
    #[error(transparent)]
    Job(Status),
    /// The service did not answer in time.
    #[error("the engine did not answer within {} ms: is it stopped, or has it too much to do?", within.as_millis())]
    Late {
        /// The time that it had.
        within: Duration,
    },
    /// The maximum number of jobs is under way.
    #[error("there is no room for another job before an answer is taken")]
    Full,
    /// The content is longer than the maximum of a ring.
    #[error("the content is longer than {} bytes", crate::ring::MESSAGE_BYTES_MAX)]
    TooLong,
    /// The key of this name is not the one that was opened.
    #[error("the engine's key {name} is another one now: open it again")]
    OtherKey {
        /// The name of the key.
        name: String,
    },
    /// The service broke the protocol.
    #[error("the engine broke the protocol: {what}")]
    Protocol {
        /// The part of the protocol.
        what: &'static str,
    },
    /// A system call failed.
    #[error("talking to the engine")]
    Io(#[from] io::Error),
}

impl ClientError {
    /// Returns whether the connection cannot be used any more after this error, nor could it be made again.
    pub fn loses_connection(&self) -> bool {
        matches!(
            self,
            Self::Unreachable { .. } | Self::Ended | Self::Late { .. } | Self::Protocol { .. } | Self::Io(_)
        )
    }
}

//! Why a call to the service has no result, and whose turn it is.

use crate::job::Status;
use serde::{Deserialize, Serialize};
use std::io;

/// The service does not do what a set-up message asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
pub enum Refusal {
    /// No version in common.
    #[error(
        "the service speaks versions {lowest} to {highest} of the protocol, this program does not: bring both up to date"
    )]
    Version {
        /// The lowest that the service speaks.
        lowest: u16,
        /// The highest.
        highest: u16,
    },
    /// The policy has no line for this user.
    #[error("the engine's policy does not let this user in")]
    NotAllowed,
    /// The policy does not let this user manage keys.
    #[error("the engine's policy does not let this user manage keys")]
    NotAdmin,
    /// No such key, or none that this user may use.
    #[error("the engine has no such key, or its policy does not let this user use it")]
    NoSuchKey,
    /// A key of that name exists.
    #[error("the engine has a key of that name already")]
    Exists,
    /// The name is not one.
    #[error("a key's name has 1 to 64 letters, digits, `-`, `_` and `.`, and starts with a letter or digit")]
    BadName,
    /// The bytes hold no private key of a kind that the service has.
    #[error("these bytes hold no private key that the engine can use, or the passphrase is wrong")]
    BadKey,
    /// Too many connections, keys or clients.
    #[error("the engine's limit of {what} is reached")]
    Limit {
        /// Of what.
        what: String,
    },
    /// The message makes no sense now.
    #[error("the engine did not expect this message")]
    Unexpected,
    /// A file could not be written or removed.
    #[error("the engine could not keep its files: {why}")]
    Storage {
        /// The system's words.
        why: String,
    },
}

/// A call failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The service cannot be reached.
    #[error("cannot reach the engine at {socket}: is `sealane engine serve` running?")]
    Unreachable {
        /// Its socket.
        socket: String,
        /// The system's words.
        #[source]
        source: io::Error,
    },
    /// The connection ended. A job that was under way may or may not have been computed; nothing of it is known.
    #[error("the engine ended the connection")]
    Ended,
    /// The service refuses.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// A job was answered with something else than a result.
    #[error(transparent)]
    Job(Status),
    /// There are as many jobs under way as fit.
    #[error("there is no room for another job before an answer is taken")]
    Full,
    /// The content is longer than a ring takes.
    #[error("the content is longer than {} bytes", crate::ring::MESSAGE_BYTES_MAX)]
    TooLong,
    /// The key of this name is another one than when it was opened.
    #[error("the engine's key {name} is another one now: open it again")]
    OtherKey {
        /// Its name.
        name: String,
    },
    /// The service broke the protocol.
    #[error("the engine broke the protocol: {what}")]
    Protocol {
        /// In what.
        what: &'static str,
    },
    /// The system failed.
    #[error("talking to the engine")]
    Io(#[from] io::Error),
}

//! Messages of the set-up socket, one to a packet: what a program asks of the service, and what it answers.
//!
//! **Guarantees:** a message has at most [`MESSAGE_BYTES_MAX`] bytes; any bytes are a message or an error. The first message
//! is [`Ask::Hello`] in every version of the protocol, and only it can be answered with [`Refusal::Version`].

use crate::error::Refusal;
use crate::key::{KeyInfo, KeyKind, Source};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use zeroize::{Zeroize, ZeroizeOnDrop};

/// The version of messages and rings that this is.
pub const VERSION: u16 = 1;

/// The longest message.
pub const MESSAGE_BYTES_MAX: usize = 65_536;

/// Keys in one answer to [`Ask::List`].
pub const KEYS_PER_LIST: usize = 32;

/// Bytes that must not stay in memory.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Zeroize, ZeroizeOnDrop)]
pub struct Secret(pub Vec<u8>);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Secret({} bytes)", self.0.len())
    }
}

/// What a program asks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ask {
    /// The first message.
    Hello {
        /// The lowest version that the program speaks.
        lowest: u16,
        /// The highest.
        highest: u16,
        /// What it calls itself; for the log only.
        program: String,
    },
    /// To use a key.
    Open(Source),
    /// To use a private key that the program has itself, for this connection only.
    Lend {
        /// PKCS#8 in DER.
        pkcs8: Secret,
    },
    /// Not to use a handle any more.
    Close {
        /// Which.
        handle: u32,
    },
    /// Which keys this program may use.
    List {
        /// Only names behind this one.
        after: String,
    },
    /// To make a key and keep it.
    Generate {
        /// Its name.
        name: String,
        /// Its kind.
        kind: KeyKind,
    },
    /// To keep a key.
    Import {
        /// Its name.
        name: String,
        /// PEM, PKCS#8 or PKCS#12.
        bytes: Secret,
        /// If they are encrypted.
        passphrase: Option<Secret>,
    },
    /// To delete a key for ever.
    Remove {
        /// Its name.
        name: String,
    },
    /// How the service is.
    Status,
}

/// What the service answers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Told {
    /// To [`Ask::Hello`], with two descriptors: the rings' memory, and an eventfd(2) that wakes the service.
    Welcome {
        /// The version from now on.
        version: u16,
        /// The service's name and version, for people.
        service: String,
    },
    /// To what opens a key.
    Key {
        /// Its number in jobs.
        handle: u32,
        /// What it is.
        info: KeyInfo,
    },
    /// To [`Ask::List`]: at most [`KEYS_PER_LIST`], ordered by name.
    Keys(Vec<KeyInfo>),
    /// Done.
    Done,
    /// To [`Ask::Status`].
    Status(Box<ServiceStatus>),
    /// Not done.
    Refused(Refusal),
    /// Answers are in the ring, for a client that waits by its socket.
    Answers,
}

/// How the service is. Counters begin with its start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceStatus {
    /// Name and version.
    pub service: String,
    /// Seconds since its start.
    pub up_seconds: u64,
    /// Threads that compute.
    pub workers: u32,
    /// Whether its memory is locked.
    pub memory_locked: bool,
    /// How keys are sealed at rest.
    pub sealed_by: String,
    /// Keys that it keeps.
    pub keys: u64,
    /// Connections of now.
    pub connections: u64,
    /// Jobs done, by operation.
    pub done: BTreeMap<String, u64>,
    /// Jobs refused or failed, by reason.
    pub refused: BTreeMap<String, u64>,
    /// Connections ended because the client's end of a ring or its messages made no sense.
    pub lies: u64,
    /// Times that a worker slept and was woken.
    pub wakes: u64,
    /// Nanoseconds that workers have computed.
    pub busy_ns: u64,
    /// The clients of now, those with most computing time first; at most 64.
    pub clients: Vec<ClientStatus>,
}

/// How one client is: all connections of one user.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientStatus {
    /// Its user's number.
    pub user: u32,
    /// Its connections.
    pub connections: u64,
    /// Jobs done.
    pub done: u64,
    /// Times that its jobs waited for its rate.
    pub waited: u64,
    /// Nanoseconds computed for it.
    pub busy_ns: u64,
}

/// A message does not fit, or is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no message of the protocol")]
pub struct NoMessage;

/// A message as bytes.
///
/// # Errors
/// When it is too long.
pub fn encode<T: Serialize>(message: &T) -> Result<Vec<u8>, NoMessage> {
    let bytes = postcard::to_stdvec(message).map_err(|_| NoMessage)?;
    if bytes.len() > MESSAGE_BYTES_MAX { Err(NoMessage) } else { Ok(bytes) }
}

/// The message that these bytes are.
///
/// # Errors
/// When they are none, or more than one.
pub fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, NoMessage> {
    match postcard::take_from_bytes(bytes) {
        Ok((message, [])) => Ok(message),
        _ => Err(NoMessage),
    }
}

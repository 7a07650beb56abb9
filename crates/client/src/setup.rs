//! The messages of the set-up socket, one per packet: a program's requests to the service, and its answers.
//!
//! **Guarantees:** a message has at most [`MESSAGE_BYTES_MAX`] bytes; any bytes are a message or an error. The first
//! message is [`Ask::Hello`] in every version of the protocol, and only it can be answered with [`Refusal::Version`].

use crate::error::Refusal;
use crate::job::RecordCipher;
use crate::key::{KeyInfo, KeyKind, Source};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use zeroize::{Zeroize, ZeroizeOnDrop};

/// The version of the messages and rings in this source. Version 2 has one descriptor for the bell, and the messages
/// [`Ask::Replace`] and those that follow it with their answers, and keys of P-521, for
/// RSA-PSS alone and of ML-DSA.
pub const VERSION: u16 = 2;

/// The oldest version that a service takes: the newest two, so that an update of the package stops no server that runs.
pub const VERSION_OLDEST: u16 = VERSION - 1;

/// The maximum length of a message in bytes.
pub const MESSAGE_BYTES_MAX: usize = 65_536;

/// The maximum number of keys in one answer to [`Ask::List`].
pub const KEYS_PER_LIST: usize = 32;

/// The length of the public halves in an answer to [`Ask::List`] in bytes, beyond which no key follows.
pub const PUBLIC_BYTES_PER_LIST: usize = MESSAGE_BYTES_MAX / 2;

/// The maximum number of keys in one answer to [`Ask::Report`].
pub const KEYS_PER_REPORT: usize = 256;

/// The maximum number of users, and of groups, in one answer to [`Ask::Users`].
pub const USERS_MAX: usize = 1000;

/// The maximum number of certificates of one key.
pub const CHAIN_MAX: usize = 8;

/// The maximum length of the certificates of one key in bytes.
pub const CHAIN_BYTES_MAX: usize = 24_000;

/// Bytes that are wiped on drop.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, Zeroize, ZeroizeOnDrop)]
pub struct Secret(pub Vec<u8>);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Secret({} bytes)", self.0.len())
    }
}

/// A request of a program.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ask {
    /// The first message.
    Hello {
        /// The lowest version that the program speaks.
        lowest: u16,
        /// The highest version that the program speaks.
        highest: u16,
        /// The name of the program, for the log only.
        program: String,
    },
    /// Opens a key.
    Open(Source),
    /// Opens a private key that the program itself has, for this connection only.
    Lend {
        /// PKCS#8 in DER.
        pkcs8: Secret,
    },
    /// Closes a handle.
    Close {
        /// The number that [`Told::Key`] has given to the key.
        handle: u32,
    },
    /// Lists the keys that this program may use.
    List {
        /// Only names after this one are listed.
        after: String,
    },
    /// Makes a key and keeps it.
    Generate {
        /// The name of the key.
        name: String,
        /// The kind of the key.
        kind: KeyKind,
    },
    /// Imports a key and keeps it.
    Import {
        /// The name of the key.
        name: String,
        /// The key as PEM, PKCS#8 or PKCS#12.
        bytes: Secret,
        /// The passphrase, if the bytes are encrypted.
        passphrase: Option<Secret>,
    },
    /// Deletes a key permanently.
    Remove {
        /// The name of the key.
        name: String,
    },
    /// Asks for the status of the service.
    Status,
    /// Lends the service a key for records, for this connection only.
    Session {
        /// The cipher of the records.
        cipher: RecordCipher,
        /// The bytes of the key, as many as the cipher takes.
        key: Secret,
    },
    /// Imports a key under a name that another key may have. That one stays, for whoever names it by its public half, until it
    /// is removed or the next one follows.
    Replace {
        /// The name of the key.
        name: String,
        /// The key as PEM, PKCS#8 or PKCS#12.
        bytes: Secret,
        /// The passphrase, if the bytes are encrypted.
        passphrase: Option<Secret>,
    },
    /// Deletes the key that another one has replaced.
    RemovePrevious {
        /// The name of the key.
        name: String,
    },
    /// Asks for the status of the service with counters that [`Ask::Status`] does not have.
    Report {
        /// Only keys whose names come after this one are counted.
        after: String,
    },
    /// Asks who may use a key.
    Users {
        /// The name of the key.
        name: String,
    },
    /// Keeps certificates beside a key, in the place of those before.
    Certify {
        /// The name of the key.
        name: String,
        /// Certificates in DER, that of the key first: at most [`CHAIN_MAX`], of [`CHAIN_BYTES_MAX`] bytes together. With none, the
        /// key has no certificate any more.
        chain: Vec<Vec<u8>>,
    },
    /// Asks for the certificates of the keys that this program may use.
    Certificates {
        /// Only those of the key of this name.
        only: Option<String>,
        /// Only those of keys whose names come after this one.
        after: String,
    },
}

/// A message of the service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Told {
    /// The answer to [`Ask::Hello`], with two descriptors: the rings' memory, and the client's end of the
    /// [bell](crate::Bell). Version 1 has the bell three times.
    Welcome {
        /// The version from now on.
        version: u16,
        /// The service's name and version, for people.
        service: String,
    },
    /// The answer to the messages that open or make a key.
    Key {
        /// The key's number in jobs.
        handle: u32,
        /// The description of the key.
        info: KeyInfo,
    },
    /// The answer to [`Ask::List`]: at most [`KEYS_PER_LIST`] keys, ordered by name, and at least one if there are some.
    Keys(Vec<KeyInfo>),
    /// The request is done.
    Done,
    /// The answer to [`Ask::Status`].
    Status(Box<ServiceStatus>),
    /// The request is refused.
    Refused(Refusal),
    /// The answer to [`Ask::Session`].
    Session {
        /// The session's number in jobs.
        handle: u32,
    },
    /// The answer to [`Ask::Report`].
    Report(Box<Report>),
    /// The answer to [`Ask::Users`], at most [`USERS_MAX`] of each.
    Users {
        /// The numbers of the users.
        users: Vec<u32>,
        /// The numbers of groups whose processes may as well.
        groups: Vec<u32>,
    },
    /// The answer to [`Ask::Certificates`]: chains by the names of their keys, as many of the next as have about
    /// [`CHAIN_BYTES_MAX`] bytes together, and at least one if there are some.
    Certificates(BTreeMap<String, Vec<Vec<u8>>>),
}

/// The status of the service, and counters by name: a new one changes no version of the protocol.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The answer to [`Ask::Status`].
    pub status: ServiceStatus,
    /// Counters by name.
    pub counts: BTreeMap<String, u64>,
    /// The number of operations with each key that this user may see, by its name: the next [`KEYS_PER_REPORT`] of them.
    pub keys: BTreeMap<String, u64>,
    /// The keys that others of the same names have replaced and that are still there, and how often each is open.
    pub previous: BTreeMap<String, u64>,
}

/// The status of the service. Counters start with the service.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServiceStatus {
    /// Its name and version.
    pub service: String,
    /// The seconds since its start.
    pub up_seconds: u64,
    /// The number of threads that compute.
    pub workers: u32,
    /// Whether its memory is locked.
    pub memory_locked: bool,
    /// The way in which keys are sealed at rest.
    pub sealed_by: String,
    /// The number of keys that it keeps.
    pub keys: u64,
    /// The number of present connections.
    pub connections: u64,
    /// The numbers of jobs done, by operation.
    pub done: BTreeMap<String, u64>,
    /// The numbers of jobs refused or failed, by reason.
    pub refused: BTreeMap<String, u64>,
    /// The number of connections that were ended because the client's end of a ring or its messages made no sense.
    pub lies: u64,
    /// The number of times that a worker slept and was woken.
    pub wakes: u64,
    /// The number of computations, each of one job or of several side by side.
    pub batches: u64,
    /// The number of computations of which two workers computed a half each.
    pub divided: u64,
    /// The nanoseconds that workers have computed.
    pub busy_ns: u64,
    /// The present clients, those with most computing time first; at most 64.
    pub clients: Vec<ClientStatus>,
}

/// The status of one client: all connections of one user.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClientStatus {
    /// The number of its user.
    pub user: u32,
    /// The number of its connections.
    pub connections: u64,
    /// The number of its jobs done.
    pub done: u64,
    /// The number of times that its jobs waited because of its rate.
    pub waited: u64,
    /// The nanoseconds computed for it.
    pub busy_ns: u64,
}

/// The error for a message that is too long, or for bytes that are not a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no message of the protocol")]
pub struct NoMessage;

/// Returns a message as bytes.
///
/// # Errors
/// Fails if it is too long.
pub fn encode<T: Serialize>(message: &T) -> Result<Vec<u8>, NoMessage> {
    let bytes = postcard::to_stdvec(message).map_err(|_| NoMessage)?;
    if bytes.len() > MESSAGE_BYTES_MAX { Err(NoMessage) } else { Ok(bytes) }
}

/// Returns the message in these bytes.
///
/// # Errors
/// Fails if they are not a message, or more than one.
pub fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T, NoMessage> {
    match postcard::take_from_bytes(bytes) {
        Ok((message, [])) => Ok(message),
        _ => Err(NoMessage),
    }
}

//! The messages between the two ends of a queue over a stream, in frames of a control channel.
//!
//! Guarantees: any bytes are a message or an error; what is read is no longer than a frame.

use serde::{Deserialize, Serialize};

use crate::error::{FleetError, Result};
use crate::queue::{Finished, Job, JobId, Outcome, Put, Taken, Weight};

/// Changes with every change of these messages; both ends must have the same.
pub(crate) const VERSION: u16 = 1;

/// The first frame: whoever started the other end says what it is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Greeting {
    /// [`VERSION`].
    pub version: u16,
    /// Name and version of the program, for messages.
    pub program: String,
    /// The task of the other end.
    pub part: Part,
}

/// The task of a child.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Part {
    /// It takes work from the queue at this end, and is called like this.
    Work {
        /// The host's name in the words of whoever started it.
        host: String,
        /// The number of this worker among the host's.
        number: u32,
    },
    /// It makes or reads a mark in a folder of its host, and ends.
    Mark {
        /// The folder, as it stands behind the host's name.
        folder: Vec<u8>,
        /// Below it, if the tree gets names of its own.
        names: Vec<Vec<u8>>,
        /// The mark's name.
        key: [u8; 16],
        /// The mark goes away.
        removes: bool,
    },
}

/// A worker's question.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Ask {
    /// It speaks this version.
    Hello(u16),
    /// As of the queue.
    Put(Job),
    /// As of the queue.
    Seal,
    /// As of the queue, with the time to wait in milliseconds.
    Take(u32),
    /// As of the queue.
    Extend(u64, Weight),
    /// As of the queue.
    Finish(u64, JobId, Vec<u8>),
    /// As of the queue, with the delay in milliseconds.
    GiveBack(u64, u32),
    /// As of the queue.
    Results(u64),
    /// As of the queue.
    Announce(Vec<u8>),
    /// As of the queue.
    Announcement,
    /// The worker cannot take part, and ends.
    Leave(String),
}

/// The answer to it.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Answer {
    /// It is done.
    Done,
    /// To [`Ask::Put`].
    Put(Put),
    /// To [`Ask::Take`].
    Taken(Taken),
    /// To [`Ask::Finish`].
    Finished(Finished),
    /// To [`Ask::Results`].
    Results(Vec<Outcome>),
    /// To [`Ask::Announcement`].
    Announcement(Vec<u8>),
    /// It could not be done.
    Failed(String),
    /// To [`Part::Mark`]: what the mark says.
    Marked([u8; 16]),
}

pub(crate) fn encode<T: Serialize>(message: &T) -> Vec<u8> {
    postcard::to_stdvec(message).expect("messages have no part that cannot be written")
}

pub(crate) fn decode<'a, T: Deserialize<'a>>(bytes: &'a [u8]) -> Result<T> {
    match postcard::take_from_bytes(bytes) {
        Ok((message, [])) => Ok(message),
        Ok(_) => Err(FleetError::Protocol("a message is longer than what it says".into())),
        Err(error) => Err(FleetError::Protocol(format!("a message cannot be read ({error})"))),
    }
}

/// Reads bytes as each kind of message, and writes again what was read; says whether one of them was.
pub(crate) fn read_any(bytes: &[u8]) -> bool {
    reads_back::<Ask>(bytes) | reads_back::<Answer>(bytes) | reads_back::<Greeting>(bytes)
}

/// True if bytes are a value, which is then written and read again.
pub(crate) fn reads_back<T>(bytes: &[u8]) -> bool
where
    T: Serialize + for<'a> Deserialize<'a> + PartialEq + std::fmt::Debug,
{
    let Ok(value) = decode::<T>(bytes) else { return false };
    assert_eq!(decode::<T>(&encode(&value)).expect("it was written just now"), value);
    true
}

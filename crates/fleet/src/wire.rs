//! The messages between the two ends of a queue over a stream, in frames of a control channel.
//!
//! Guarantees: any bytes are a message or an error; no more than a frame is read.

use serde::{Deserialize, Serialize};

use crate::error::{FleetError, Result};
use crate::queue::{Finished, Job, JobId, Put, Taken, Weight};

/// The version, which changes with every change of these messages; both ends must have the same.
pub(crate) const VERSION: u16 = 5;

/// The first frame: the end that started the other one states its purpose.
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
    /// The other end takes work from the queue at this end, and has this name.
    Work {
        /// The host's name as the starting end knows it.
        host: String,
        /// The number of this worker among the host's.
        number: u32,
        /// The key of the run in its text form: only its owner gives orders.
        key: String,
    },
    /// The other end creates or reads a mark in a folder of its host, and ends.
    Mark {
        /// The folder, as it is written after the host's name.
        folder: Vec<u8>,
        /// The names below the folder, if the tree gets names of its own.
        names: Vec<Vec<u8>>,
        /// The mark's name.
        key: [u8; 16],
        /// The fate of the mark.
        doing: Marking,
    },
}

/// The fate of a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Marking {
    /// It is made, or read, after the folders.
    Make,
    /// It goes away.
    Remove,
    /// None is made: the folder as it is gives the answer, for a copy that changes nothing.
    Look,
    /// It goes away with the folders that were made for it, as far as nothing is in them.
    Undo,
}

/// A worker's message. A worker has no others: what its coordinator alone may do is not among them.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Ask {
    /// The worker speaks this version.
    Hello(u16),
    /// See [`Queue::put`](crate::Queue::put).
    Put(Job),
    /// See [`Queue::take`](crate::Queue::take); the time to wait is in milliseconds.
    Take(u32),
    /// See [`Queue::extend`](crate::Queue::extend).
    Extend(u64, Weight),
    /// See [`Queue::finish`](crate::Queue::finish).
    Finish(u64, JobId, Vec<u8>),
    /// See [`Queue::give_back`](crate::Queue::give_back); the delay is in milliseconds.
    GiveBack(u64, u32),
    /// See [`Queue::announcement`](crate::Queue::announcement).
    Announcement,
    /// The worker cannot take part, and ends.
    Leave(String),
    /// See [`Queue::result`](crate::Queue::result).
    Result(JobId),
}

/// The coordinator's answer to it.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Answer {
    /// The request was carried out.
    Done,
    /// The answer to [`Ask::Put`].
    Put(Put),
    /// The answer to [`Ask::Take`].
    Taken(Taken),
    /// The answer to [`Ask::Finish`].
    Finished(Finished),
    /// The answer to [`Ask::Announcement`].
    Announcement(Vec<u8>),
    /// The request failed.
    Failed(String),
    /// The answer to [`Part::Mark`]: the content of the mark.
    Marked([u8; 16]),
    /// The answer to [`Ask::Result`].
    Result(Option<Vec<u8>>),
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

/// Returns version and program of a [`Greeting`], whose further fields may be those of another version.
pub(crate) fn speaker(greeting: &[u8]) -> Result<(u16, String)> {
    let first = postcard::take_from_bytes(greeting).map(|(first, _)| first);
    first.map_err(|error| FleetError::Protocol(format!("a message cannot be read ({error})")))
}

/// Parses bytes as each kind of message, and encodes the parsed value again; returns whether one kind succeeded.
pub(crate) fn read_any(bytes: &[u8]) -> bool {
    reads_back::<Ask>(bytes) | reads_back::<Answer>(bytes) | reads_back::<Greeting>(bytes)
}

/// Returns whether the bytes are a value, after a check that it can be encoded and parsed again.
pub(crate) fn reads_back<T>(bytes: &[u8]) -> bool
where
    T: Serialize + for<'a> Deserialize<'a> + PartialEq + std::fmt::Debug,
{
    let Ok(value) = decode::<T>(bytes) else { return false };
    assert_eq!(decode::<T>(&encode(&value)).expect("it was written just now"), value);
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_version_of_a_greeting_is_read_whatever_follows() {
        let part = Part::Work { host: "host".into(), number: 7, key: "key".into() };
        let greeting = encode(&Greeting { version: VERSION, program: "sealane 1".into(), part });
        assert_eq!(speaker(&greeting).expect("a greeting"), (VERSION, "sealane 1".into()));
        let other = [&encode(&(VERSION + 1, "sealane 9"))[..], &[0xff; 40]].concat();
        assert_eq!(speaker(&other).expect("a greeting"), (VERSION + 1, "sealane 9".into()));
        assert!(decode::<Greeting>(&other).is_err() && speaker(&[]).is_err() && speaker(&[1, 0xff]).is_err());
    }
}

//! A worker's side of the queue at the other end of a stream.
//!
//! Guarantees: those of [`Queue`]; a call returns within [`PATIENCE`] plus the time that it may wait for a job, or
//! fails.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use sealane_peer::Channel;

use crate::error::{FleetError, Result};
use crate::queue::{Finished, Job, JobId, Lease, Put, Queue, Taken, Weight, check_body, check_result};
use crate::wire::{Answer, Ask, Greeting, VERSION, decode, encode, speaker};

/// The maximum time for an answer, which includes the write of a result to a slow disk.
const PATIENCE: Duration = Duration::from_secs(60);

/// A queue behind a channel.
#[derive(Debug)]
pub struct Remote {
    channel: Mutex<Channel>,
}

impl Remote {
    /// Receives the greeting of the end that has the queue.
    ///
    /// # Errors
    /// Fails if no greeting comes, or one of another version.
    pub fn greeted(channel: &mut Channel) -> Result<Greeting> {
        let frame = channel.recv(Instant::now() + PATIENCE)?;
        let frame = frame.ok_or_else(|| FleetError::Protocol("nobody says what this is for".into()))?;
        match speaker(&frame)? {
            (VERSION, _) => decode(&frame),
            (_, program) => Err(FleetError::Protocol(format!(
                "whoever started this has {}, which speaks another version",
                program.chars().filter(|character| !character.is_control()).take(80).collect::<String>()
            ))),
        }
    }

    /// Returns the queue behind a channel that was greeted.
    ///
    /// # Errors
    /// The other end refuses this version.
    pub fn new(channel: Channel) -> Result<Self> {
        let remote = Self { channel: Mutex::new(channel) };
        remote.done(&Ask::Hello(VERSION))?;
        Ok(remote)
    }

    /// Reports why this worker cannot take part.
    pub(crate) fn leave(&self, why: &str) {
        let mut channel = self.channel.lock().unwrap_or_else(PoisonError::into_inner);
        // If the message is lost, the other end sees that the worker has gone.
        let _ = channel.send(&encode(&Ask::Leave(why.to_owned())), Instant::now() + PATIENCE);
        let _ = channel.recv(Instant::now() + Duration::from_secs(2));
    }

    fn ask(&self, ask: &Ask, wait: Duration) -> Result<Answer> {
        let mut channel = self.channel.lock().unwrap_or_else(PoisonError::into_inner);
        channel.send(&encode(ask), Instant::now() + PATIENCE)?;
        let frame = channel.recv(Instant::now() + PATIENCE + wait)?;
        let frame = frame.ok_or_else(|| FleetError::Protocol("it does not answer".into()))?;
        match decode(&frame)? {
            Answer::Failed(why) => Err(FleetError::Queue(why)),
            answer => Ok(answer),
        }
    }

    fn done(&self, ask: &Ask) -> Result<()> {
        match self.ask(ask, Duration::ZERO)? {
            Answer::Done => Ok(()),
            _ => Err(no_answer()),
        }
    }
}

fn no_answer() -> FleetError {
    FleetError::Protocol("it answers what was not asked".into())
}

fn millis(time: Duration) -> u32 {
    u32::try_from(time.as_millis()).unwrap_or(u32::MAX)
}

impl Queue for Remote {
    fn put(&self, job: &Job) -> Result<Put> {
        check_body(job)?;
        match self.ask(&Ask::Put(job.clone()), Duration::ZERO)? {
            Answer::Put(put) => Ok(put),
            _ => Err(no_answer()),
        }
    }

    fn take(&self, wait: Duration) -> Result<Taken> {
        match self.ask(&Ask::Take(millis(wait)), wait)? {
            Answer::Taken(taken) => Ok(taken),
            _ => Err(no_answer()),
        }
    }

    fn extend(&self, lease: &Lease, done: Weight) -> Result<()> {
        self.done(&Ask::Extend(lease.token, done))
    }

    fn finish(&self, lease: Lease, result: &[u8]) -> Result<Finished> {
        check_result(result)?;
        match self.ask(&Ask::Finish(lease.token, lease.job.id, result.to_vec()), Duration::ZERO)? {
            Answer::Finished(finished) => Ok(finished),
            _ => Err(no_answer()),
        }
    }

    fn give_back(&self, lease: Lease, after: Duration) -> Result<()> {
        self.done(&Ask::GiveBack(lease.token, millis(after)))
    }

    fn result(&self, id: &JobId) -> Result<Option<Vec<u8>>> {
        match self.ask(&Ask::Result(*id), Duration::ZERO)? {
            Answer::Result(result) => Ok(result),
            _ => Err(no_answer()),
        }
    }

    fn announcement(&self) -> Result<Vec<u8>> {
        match self.ask(&Ask::Announcement, Duration::ZERO)? {
            Answer::Announcement(order) => Ok(order),
            _ => Err(no_answer()),
        }
    }
}

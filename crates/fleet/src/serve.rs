//! A queue for the worker at the other end of a stream.
//!
//! Guarantees: the jobs of a worker are handed out again when the stream ends, or when the worker has been silent for
//! [`SILENCE`]; an answer is one frame; a worker does nothing but a worker's part: it ends no other's lease, gives no
//! order, and puts only the jobs that it may.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

use sealane_peer::{Channel, ChannelError, chain};

use crate::error::{FleetError, Result};
use crate::queue::{CoordinatorQueue, Job, JobId, Lease, Taken, Weight};
use crate::wire::{Answer, Ask, Greeting, Part, VERSION, decode, encode};

/// A worker sends something at least every second, and is given up after this time of silence.
const SILENCE: Duration = Duration::from_secs(60);
/// A new worker may have to log in first: a user may be asked for a password.
const LOGIN: Duration = Duration::from_secs(120);
/// The interval between checks for the end.
const LOOK: Duration = Duration::from_millis(200);
/// The maximum time that a worker waits for a job in one call, so that it shows signs of life.
const WAIT_MAX: Duration = Duration::from_secs(1);

/// The outcome of serving a worker.
#[derive(Debug)]
pub struct Served {
    /// Results that it gave.
    pub finished: u64,
    /// The worker has sent something.
    pub was_heard: bool,
    /// `Ok` if the worker ended because it was asked to.
    pub ended: Result<()>,
}

/// Serves the queue to a newly started worker, until there is no more work or the worker goes; `is_leaving` asks for
/// an end after the jobs that the worker holds, `is_stopped` for an immediate one. `reached` is called when the first
/// message of the worker arrives. A worker that puts a job which `may_put` does not allow is refused.
pub fn serve<Q: CoordinatorQueue + ?Sized>(
    channel: &mut Channel,
    queue: &Q,
    part: Part,
    may_put: fn(&Job) -> bool,
    is_leaving: &AtomicBool,
    is_stopped: &AtomicBool,
    reached: &dyn Fn(),
) -> Served {
    let mut serving = Serving {
        queue,
        may_put,
        held: HashMap::new(),
        finished: 0,
        was_heard: false,
        is_over: false,
        reached,
    };
    let ended = serving.run(channel, part, is_leaving, is_stopped);
    for token in serving.held.into_keys() {
        queue.expire(token);
    }
    Served { finished: serving.finished, was_heard: serving.was_heard, ended }
}

struct Serving<'a, Q: ?Sized> {
    queue: &'a Q,
    may_put: fn(&Job) -> bool,
    held: HashMap<u64, (JobId, Weight)>,
    finished: u64,
    was_heard: bool,
    /// The worker was informed that there is no more work.
    is_over: bool,
    reached: &'a dyn Fn(),
}

impl<Q: CoordinatorQueue + ?Sized> Serving<'_, Q> {
    fn run(
        &mut self,
        channel: &mut Channel,
        part: Part,
        is_leaving: &AtomicBool,
        is_stopped: &AtomicBool,
    ) -> Result<()> {
        let program = concat!("sealane ", env!("CARGO_PKG_VERSION")).to_owned();
        let greeting = Greeting { version: VERSION, program, part };
        channel.send(&encode(&greeting), Instant::now() + SILENCE)?;
        let mut silence = LOGIN;
        let mut heard = Instant::now();
        loop {
            if is_stopped.load(SeqCst) {
                return Ok(());
            }
            let frame = match channel.recv(Instant::now() + LOOK) {
                Ok(Some(frame)) => frame,
                Ok(None) if heard.elapsed() < silence => continue,
                Ok(None) => return Err(ChannelError::Deadline { doing: "waiting for a worker" }.into()),
                Err(ChannelError::Closed) if self.is_over => return Ok(()),
                Err(error) => return Err(error.into()),
            };
            heard = Instant::now();
            silence = SILENCE;
            let ask: Ask = decode(&frame)?;
            let answer = self.answer(ask, is_leaving)?;
            channel.send(&encode(&answer), Instant::now() + SILENCE)?;
        }
    }

    fn answer(&mut self, ask: Ask, is_leaving: &AtomicBool) -> Result<Answer> {
        let millis = |number: u32| Duration::from_millis(number.into());
        let answer = match ask {
            Ask::Hello(VERSION) => {
                self.was_heard = true;
                (self.reached)();
                Ok(Answer::Done)
            }
            Ask::Hello(_) => {
                return Err(FleetError::Protocol(
                    "the host has another version of sealane: both must have the same".into(),
                ));
            }
            Ask::Put(job) if !(self.may_put)(&job) => {
                return Err(FleetError::Overreach(
                    "it gives work that only the coordinator may give, and takes no part any more".into(),
                ));
            }
            Ask::Put(job) => self.queue.put(&job).map(Answer::Put),
            Ask::Take(_) if is_leaving.load(SeqCst) => Ok(Answer::Taken(Taken::Over)),
            Ask::Take(wait) => self.queue.take(millis(wait).min(WAIT_MAX)).map(Answer::Taken),
            Ask::Extend(token, done) => match self.lease(token) {
                Some(lease) => self.queue.extend(&lease, done).map(|()| Answer::Done),
                None => return Err(not_held()),
            },
            Ask::Finish(token, id, result) => match self.lease(token) {
                Some(lease) if lease.job.id == id => {
                    let finished = self.queue.finish(lease, &result);
                    if finished.is_ok() {
                        self.held.remove(&token);
                        self.finished += 1;
                    }
                    finished.map(Answer::Finished)
                }
                _ => return Err(not_held()),
            },
            Ask::GiveBack(token, after) => match self.lease(token) {
                Some(lease) => {
                    self.held.remove(&token);
                    self.queue.give_back(lease, millis(after)).map(|()| Answer::Done)
                }
                None => return Err(not_held()),
            },
            Ask::Result(id) => self.queue.result(&id).map(Answer::Result),
            Ask::Leave(why) => return Err(FleetError::Unfit(why)),
            Ask::Announcement => self.queue.announcement().map(Answer::Announcement),
        };
        match &answer {
            Ok(Answer::Taken(Taken::Job(lease))) => {
                self.held.insert(lease.token, (lease.job.id, lease.job.weight));
            }
            Ok(Answer::Taken(Taken::Over)) => self.is_over = true,
            _ => {}
        }
        Ok(answer.unwrap_or_else(|error| match error {
            // The other end says itself that it is the queue's failure.
            FleetError::Queue(why) => Answer::Failed(why),
            error => Answer::Failed(chain(&error)),
        }))
    }

    /// Returns the parts of this worker's lease that the queue needs.
    fn lease(&self, token: u64) -> Option<Lease> {
        let &(id, weight) = self.held.get(&token)?;
        Some(Lease { job: Job { id, weight, body: Vec::new() }, attempt: 1, token })
    }
}

fn not_held() -> FleetError {
    FleetError::Protocol("a worker speaks of a job that it does not have".into())
}

//! `sealane fleet work`: the process on a host that takes part.

use std::cell::Cell;
use std::thread;
use std::time::{Duration, Instant};

use sealane_copy::Options;
use sealane_peer::{Channel, PublicKey, SshAddresses};

use crate::announcement::{Announcement, Listener};
use crate::error::{FleetError, Result};
use crate::mark;
use crate::mover::Mover;
use crate::queue::Queue;
use crate::remote::Remote;
use crate::study::Studying;
use crate::wire::{Part, encode};

/// The time that a worker waits for the announcement of its run.
const PATIENCE: Duration = Duration::from_secs(30);

/// The kinds of work that a worker can do.
pub struct Tasks<'a> {
    /// The options that belong to this host, for copies: its files and programs.
    pub base: Options,
    /// Does other work.
    pub studying: &'a Studying<'a>,
}

/// Works for the process that started this one, until there is no more work.
///
/// # Errors
/// Fails if the process that started it is gone, or if this host cannot take part, which has been reported then.
pub fn work(ssh: SshAddresses, tasks: &Tasks<'_>) -> Result<()> {
    let mut channel = Channel::stdio(ssh.client)?;
    let greeting = Remote::greeted(&mut channel)?;
    match greeting.part {
        Part::Work { host, number, key } => {
            let remote = Remote::new(channel)?;
            let key =
                key.parse().map_err(|fault| FleetError::Protocol(format!("the key of the run: {fault}")))?;
            let outcome = work_from(&remote, host, number, key, tasks);
            if let Err(FleetError::Unfit(why)) = &outcome {
                remote.leave(why);
            }
            outcome
        }
        part @ Part::Mark { .. } => {
            channel.send(&encode(&mark::answer(&part)), Instant::now() + Duration::from_secs(10))?;
            let _ = channel.close(Instant::now() + Duration::from_secs(10));
            Ok(())
        }
    }
}

/// Works for a run whose queue this process reaches by itself, until there is no more work. `number` distinguishes
/// the workers of one host; only the owner of `key` gives orders.
///
/// # Errors
/// Fails if the queue is lost, or this host cannot take part.
pub fn work_from(
    queue: &dyn Queue,
    host: String,
    number: u32,
    key: PublicKey,
    tasks: &Tasks<'_>,
) -> Result<()> {
    let listener = Listener::new(key);
    match listener.hear(&announced(queue)?)? {
        Announcement::Study(order) => (tasks.studying)(queue, &host, &order),
        Announcement::Copy(_) => {
            let turn = Cell::new(number as usize);
            Mover { queue, host, listener, base: tasks.base.clone(), turn }.run()
        }
    }
}

/// Waits for the announcement of a run that is just being made.
fn announced(queue: &dyn Queue) -> Result<Vec<u8>> {
    let give_up = Instant::now() + PATIENCE;
    loop {
        let announcement = queue.announcement()?;
        if !announcement.is_empty() {
            return Ok(announcement);
        }
        if Instant::now() >= give_up {
            return Err(FleetError::Queue("nobody says what is to be done".into()));
        }
        thread::sleep(PATIENCE / 150);
    }
}

//! `sealane fleet work`: the process on a host that takes part.

use std::cell::Cell;
use std::time::{Duration, Instant};

use sealane_peer::{Channel, SshAddresses};

use crate::error::{FleetError, Result};
use crate::mark;
use crate::mover::{Mover, Reading};
use crate::queue::Queue;
use crate::remote::Remote;
use crate::wire::{Part, encode};

/// Works for the process that started this one, until there is no more work.
///
/// # Errors
/// Fails if the process that started it is gone, or if this host cannot take part, which has been reported then.
pub fn work(ssh: SshAddresses, reading: &Reading<'_>) -> Result<()> {
    let mut channel = Channel::stdio(ssh.client)?;
    let greeting = Remote::greeted(&mut channel)?;
    match greeting.part {
        Part::Work { host, number } => {
            let remote = Remote::new(channel)?;
            let outcome = work_from(&remote, host, number, reading);
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
/// the workers of one host.
///
/// # Errors
/// Fails if the queue is lost, or this host cannot take part.
pub fn work_from(queue: &dyn Queue, host: String, number: u32, reading: &Reading<'_>) -> Result<()> {
    Mover { queue, host, reading, turn: Cell::new(number as usize) }.run()
}

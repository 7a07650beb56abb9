//! Queues of one device whose loads wait for each other.
//!
//! Queues number packets of one peer at once. Where each has an association of its own, none waits. Where they share one, because
//! its keys come from files or from a call, or because the peer allows no more, their packets leave in the order of its numbers.
//!
//! Guarantees: no lane waits for another: a load whose turn has not come stays at the exit of its queue, and whoever ends the turn
//! before it sends it on; no load stays there when its turn has come and a lane of any queue has looked; loads cannot wait for each
//! other in a circle, because each waits only for numbers that were given before its own.

use std::{
    io,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
};

use sealane_ipsec::{association::Outbound, turns::Turn};
use sealane_lanes::Recycle;

use crate::pipeline::{Pipeline, Sent};

/// The largest number of queues.
pub const QUEUES_MAX: u16 = 16;

/// A load that may have to wait for a turn.
pub trait Awaits {
    /// Returns the turn for which the rest of the load waits.
    fn awaited(&self) -> Option<(&Arc<Outbound>, Turn)>;
}

/// The turn for which the load at a queue's exit waits.
type Note = Option<(Arc<Outbound>, Turn)>;

/// The queues of one device.
#[derive(Debug)]
pub struct Beside {
    notes: Box<[Mutex<Note>]>,
    /// The queues that have a note, by bits: the notes need not be read where none waits. A bit is set before the turn is looked at
    /// for the last time, and that look is ordered with the end of the turn before by the lock of the turns.
    waiting: AtomicU32,
}

impl Beside {
    /// Returns so many queues, of which none waits.
    pub fn new(queues: usize) -> Self {
        assert!(queues <= usize::from(QUEUES_MAX), "a bit for each queue");
        Self { notes: (0..queues).map(|_| Mutex::default()).collect(), waiting: AtomicU32::new(0) }
    }

    fn note(&self, queue: usize) -> MutexGuard<'_, Note> {
        self.notes[queue].lock().expect("nobody panics holding a note")
    }

    fn waits(&self, queue: usize) -> bool {
        self.waiting.load(Relaxed) & 1 << queue != 0
    }

    /// Sends a load of `queue` by `send`, and notes the turn for which it has to wait. Call it where the queue sends.
    ///
    /// # Errors
    /// Returns errors of `send`.
    pub fn send<T: Awaits>(
        &self,
        queue: usize,
        load: &mut T,
        mut send: impl FnMut(&mut T) -> io::Result<Sent>,
    ) -> io::Result<Sent> {
        loop {
            let outcome = send(load)?;
            let awaited = match outcome {
                Sent::Whole => None,
                Sent::Waits => load.awaited().map(|(outbound, turn)| (Arc::clone(outbound), turn)),
            };
            if awaited.is_none() && !self.waits(queue) {
                return Ok(outcome);
            }
            let is_new = {
                let mut note = self.note(queue);
                let is_new = !is_same(&note, &awaited);
                note.clone_from(&awaited);
                is_new
            };
            match awaited {
                Some(_) => self.waiting.fetch_or(1 << queue, Relaxed),
                None => self.waiting.fetch_and(!(1 << queue), Relaxed),
            };
            // The turn may have come before others could see that it is waited for.
            if awaited.is_none() || !is_new {
                return Ok(outcome);
            }
        }
    }

    /// Sends on the loads whose turns have come, each by `send` of its queue. Call it after loads of any queue were sent, or had to
    /// wait.
    ///
    /// # Errors
    /// Returns errors of `send`.
    pub fn settle<G, T, R>(
        &self,
        queues: &[Pipeline<G, T, R>],
        send: impl Fn(usize, &mut R, &mut T) -> io::Result<Sent>,
    ) -> io::Result<()>
    where
        T: Awaits + Recycle + std::fmt::Debug + Send + 'static,
    {
        let mut has_moved = true;
        while has_moved && self.waiting.load(Relaxed) != 0 {
            has_moved = false;
            for (at, queue) in queues.iter().enumerate().filter(|&(at, _)| self.waits(at)) {
                let before = self.note(at).clone();
                if before.as_ref().is_none_or(|(outbound, turn)| !outbound.turns().is_next(*turn)) {
                    continue;
                }
                queue.go_on(&mut |to, load| send(at, to, load))?;
                // If another lane sends there just now, it comes here afterwards.
                has_moved |= !is_same(&before, &self.note(at));
            }
        }
        Ok(())
    }
}

fn is_same(one: &Note, other: &Note) -> bool {
    match (one, other) {
        (Some((one, turn)), Some((other, other_turn))) => Arc::ptr_eq(one, other) && turn == other_turn,
        (None, None) => true,
        _ => false,
    }
}

#[cfg(test)]
mod tests;

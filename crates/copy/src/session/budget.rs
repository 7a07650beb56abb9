//! The descriptors of a daemon, divided among simultaneous transfers.
//!
//! Guarantees: all transfers together never exceed the process's limit; no peer has more than its share; transfers
//! that must wait are served in order of arrival, except that nobody waits behind a transfer whose peer has used up
//! its share.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Condvar, Mutex, MutexGuard},
    time::{Duration, Instant},
};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use crate::error::{Error, ErrorKind};

/// More than any daemon can use; for systems without a limit.
const UNLIMITED: usize = 1 << 20;
/// Below this number, peers have no separate shares: a share would be too small for one transfer.
const SHARED_FROM: usize = 256;
/// The interval between two messages to a waiting peer, and between two checks of it.
const LOOK: Duration = Duration::from_millis(500);
/// The longest wait for a place.
const PATIENCE: Duration = Duration::from_secs(600);

/// Raises the number of descriptors of this process to the maximum that its user is allowed.
pub fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    if limit.current != limit.maximum {
        // If that is not permitted, the present limit stays.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: limit.maximum, maximum: limit.maximum });
    }
}

/// Returns the number of descriptors that this process may have.
pub(crate) fn descriptor_limit() -> usize {
    let limit = getrlimit(Resource::Nofile).current;
    limit.and_then(|limit| usize::try_from(limit).ok()).map_or(UNLIMITED, |limit| limit.min(UNLIMITED))
}

#[derive(Debug)]
pub(crate) struct Budget {
    all: usize,
    state: Mutex<State>,
    freed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    used: usize,
    by_peer: HashMap<[u8; 32], usize>,
    waiting: VecDeque<Ticket>,
    next: u64,
}

#[derive(Debug)]
struct Ticket {
    number: u64,
    peer: [u8; 32],
    need: usize,
}

impl Budget {
    pub(crate) fn new(all: usize) -> Self {
        Self { all, state: Mutex::default(), freed: Condvar::new() }
    }

    /// Returns the maximum number of descriptors of one peer.
    pub(crate) fn share(&self) -> usize {
        if self.all < SHARED_FROM { self.all } else { self.all / 2 }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no thread panics holding the budget")
    }

    /// Reserves `need` descriptors, waiting until they are available. `look` is called regularly meanwhile, and may
    /// give up.
    ///
    /// # Errors
    /// Fails if more than a share is requested, `look` gives up, or it takes too long.
    pub(crate) fn reserve(
        &self,
        peer: [u8; 32],
        need: usize,
        mut look: impl FnMut() -> Result<(), Error>,
    ) -> Result<Reservation<'_>, Error> {
        let refused = |message| Err(Error::new(ErrorKind::Refused, message));
        if need > self.share() {
            return refused(format!(
                "this transfer needs {need} descriptors here, and a peer may use {}; use fewer streams or sources at once",
                self.share()
            ));
        }
        let give_up = Instant::now() + PATIENCE;
        let mut state = self.state();
        let number = state.next;
        state.next += 1;
        state.waiting.push_back(Ticket { number, peer, need });
        let ticket = Waiting { budget: self, number };
        loop {
            if self.is_next(&state, number) {
                state.used += need;
                *state.by_peer.entry(peer).or_default() += need;
                drop(state);
                drop(ticket);
                return Ok(Reservation { budget: self, peer, need });
            }
            state = self.freed.wait_timeout(state, LOOK).expect("no thread panics holding the budget").0;
            if self.is_next(&state, number) {
                continue;
            }
            drop(state);
            look()?;
            if Instant::now() >= give_up {
                return refused(
                    "there was no place for this transfer for ten minutes; try again later".into(),
                );
            }
            state = self.state();
        }
    }

    /// Returns whether `number` is the first in the queue whose peer has room in its share, and enough descriptors
    /// are free for it.
    fn is_next(&self, state: &State, number: u64) -> bool {
        let fits = |ticket: &&Ticket| {
            let own = state.by_peer.get(&ticket.peer).copied().unwrap_or_default();
            own + ticket.need <= self.share()
        };
        let first = state.waiting.iter().find(fits);
        first.is_some_and(|first| first.number == number && state.used + first.need <= self.all)
    }
}

/// A place in the queue, released when dropped.
struct Waiting<'a> {
    budget: &'a Budget,
    number: u64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.budget.state().waiting.retain(|ticket| ticket.number != self.number);
        self.budget.freed.notify_all();
    }
}

/// The descriptors of one transfer, returned when dropped.
#[derive(Debug)]
pub(crate) struct Reservation<'a> {
    budget: &'a Budget,
    peer: [u8; 32],
    need: usize,
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        let mut state = self.budget.state();
        state.used -= self.need;
        if let Some(own) = state.by_peer.get_mut(&self.peer) {
            *own -= self.need;
            if *own == 0 {
                state.by_peer.remove(&self.peer);
            }
        }
        drop(state);
        self.budget.freed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::mpsc, thread};

    use super::*;

    const A: [u8; 32] = [1; 32];
    const B: [u8; 32] = [2; 32];

    fn gives_up() -> Result<(), Error> {
        Err(Error::new(ErrorKind::Cancelled, "gone"))
    }

    #[test]
    fn a_peer_that_has_its_share_keeps_nobody_else_waiting() {
        let budget = Budget::new(1000);
        let first = budget.reserve(A, 400, gives_up).unwrap();
        assert_eq!(budget.reserve(A, 501, || Ok(())).unwrap_err().kind, ErrorKind::Refused);
        thread::scope(|scope| {
            let (told, waits) = mpsc::channel();
            let second = scope.spawn(|| {
                budget.reserve(A, 200, move || told.send(()).map_err(|_| Error::protocol("over"))).is_ok()
            });
            waits.recv().unwrap();
            // This one is behind it in the queue, and is served before it.
            let other = budget.reserve(B, 500, gives_up).unwrap();
            assert_eq!(budget.reserve(B, 100, gives_up).unwrap_err().kind, ErrorKind::Cancelled);
            drop(first);
            assert!(second.join().unwrap());
            drop(other);
        });
        let state = budget.state();
        assert_eq!((state.used, state.by_peer.len(), state.waiting.len()), (0, 0, 0));
    }

    #[test]
    fn where_there_is_little_it_goes_to_whoever_came_first() {
        let budget = Budget::new(100);
        let all = budget.reserve(A, 100, gives_up).unwrap();
        assert_eq!(budget.reserve(B, 1, gives_up).unwrap_err().kind, ErrorKind::Cancelled);
        drop(all);
        assert!(budget.reserve(B, 100, gives_up).is_ok());
    }
}

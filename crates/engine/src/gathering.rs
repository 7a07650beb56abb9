//! A bounded queue whose consumers take several items at a time.
//!
//! Guarantees: each item is taken once, the oldest first, together with later items that share its batch; a consumer
//! that gathers waits no longer than its window, and not at all if only one submitter was active lately; a submitter
//! that found the queue full is notified when there is room; the items in the queue at the time it is closed are
//! still taken.

use std::{
    collections::VecDeque,
    num::NonZeroUsize,
    time::{Duration, Instant},
};

use crate::sync::{AtomicU64, Condvar, Mutex, MutexGuard, PoisonError, SeqCst, wait_until};

/// An item that may share a batch with others.
pub(crate) trait Gathered {
    /// Returns the number of its submitter.
    fn submitter(&self) -> u64;

    /// Returns its part of a full batch, which is 1; `None` if it makes a batch alone.
    fn share(&self) -> Option<f32>;

    /// Returns whether both items can be in one batch.
    fn goes_with(&self, other: &Self) -> bool;
}

/// The queue.
pub(crate) struct Gathering<T, B> {
    state: Mutex<State<T, B>>,
    /// Notified once per item.
    arrived: Condvar,
    /// The number of items; not zero if the queue is closed.
    shown: AtomicU64,
    capacity: usize,
    window: Duration,
}

struct State<T, B> {
    items: VecDeque<T>,
    /// The submitters of the items that were taken last.
    lately: [u64; LATELY],
    taken: usize,
    /// The bells of the submitters that found no room.
    wanting: Vec<B>,
    /// The number of consumers that wait for [`Gathering::arrived`]: notifying it without a waiting consumer would be
    /// a needless system call.
    sleeping: usize,
    is_closed: bool,
}

/// The number of items after which a submitter no longer counts as active.
const LATELY: usize = 8;

impl<T: Gathered, B: PartialEq> Gathering<T, B> {
    /// Makes a queue for `capacity` items whose consumers wait for more items for at most `window`.
    pub(crate) fn new(capacity: NonZeroUsize, window: Duration) -> Self {
        let state = State {
            items: VecDeque::with_capacity(capacity.get()),
            lately: [u64::MAX; LATELY],
            taken: 0,
            wanting: Vec::new(),
            sleeping: 0,
            is_closed: false,
        };
        let (state, arrived, shown) = (Mutex::new(state), Condvar::new(), AtomicU64::new(0));
        Self { state, arrived, shown, capacity: capacity.get(), window }
    }

    /// Returns whether [`Self::take`] would not wait now; takes no lock.
    pub(crate) fn is_ready(&self) -> bool {
        self.shown.load(SeqCst) != 0
    }

    fn state(&self) -> MutexGuard<'_, State<T, B>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts an item in; if there is no room, hands it back and keeps `bell`, which [`Self::take`] then returns.
    pub(crate) fn put(&self, item: T, bell: impl FnOnce() -> B) -> Result<(), T> {
        let mut state = self.state();
        if state.items.len() >= self.capacity {
            let bell = bell();
            if !state.wanting.contains(&bell) {
                state.wanting.push(bell);
            }
            return Err(item);
        }
        state.items.push_back(item);
        self.shown.store(state.items.len() as u64, SeqCst);
        self.wake(state);
        Ok(())
    }

    fn wake(&self, state: MutexGuard<'_, State<T, B>>) {
        let is_wanted = state.sleeping > 0;
        drop(state);
        if is_wanted {
            self.arrived.notify_one();
        }
    }

    /// Takes the oldest item and those that share its batch; waits until there is an item. Returns the bells of the
    /// submitters to notify that there is room; `None` when the queue is closed and empty.
    pub(crate) fn take(&self, batch: &mut Vec<T>) -> Option<Vec<B>> {
        let mut state = self.state();
        let first = loop {
            if let Some(first) = state.items.pop_front() {
                break first;
            }
            if state.is_closed {
                return None;
            }
            state.sleeping += 1;
            state = self.arrived.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.sleeping -= 1;
        };
        let mut share = first.share().unwrap_or(1.0);
        state.note(&first);
        batch.push(first);
        let mut end = None;
        loop {
            share = state.gather(batch, share);
            let is_short = share < 1.0 && state.items.is_empty();
            // A submitter that found no room is notified first.
            let may_wait = is_short && !state.is_closed && state.wanting.is_empty();
            if !may_wait || self.window.is_zero() || !state.are_several_active() {
                break;
            }
            let end = *end.get_or_insert_with(|| Instant::now() + self.window);
            state.sleeping += 1;
            let (woken, is_over) = wait_until(&self.arrived, state, end);
            state = woken;
            state.sleeping -= 1;
            if is_over {
                state.gather(batch, share);
                break;
            }
        }
        let wanting = std::mem::take(&mut state.wanting);
        if !state.is_closed {
            self.shown.store(state.items.len() as u64, SeqCst);
        }
        if !state.items.is_empty() {
            // A notification that was meant for another consumer may have woken this one while it gathered.
            self.wake(state);
        }
        Some(wanting)
    }

    /// Closes the queue: consumers end when they have taken all items in it.
    pub(crate) fn close(&self) {
        let mut state = self.state();
        state.is_closed = true;
        self.shown.store(1, SeqCst);
        drop(state);
        self.arrived.notify_all();
    }
}

impl<T: Gathered, B> State<T, B> {
    fn note(&mut self, item: &T) {
        self.lately[self.taken % LATELY] = item.submitter();
        self.taken += 1;
    }

    fn are_several_active(&self) -> bool {
        let first = self.lately[0];
        self.taken >= LATELY && self.lately.iter().any(|&other| other != first)
    }

    /// Moves the items that fit into the batch to it, the oldest first; returns the share that is full.
    fn gather(&mut self, batch: &mut Vec<T>, mut share: f32) -> f32 {
        let mut at = 0;
        while share < 1.0 && at < self.items.len() {
            match self.items[at].share() {
                Some(own) if share + own <= 1.0 && batch[0].goes_with(&self.items[at]) => {
                    share += own;
                    if let Some(item) = self.items.remove(at) {
                        self.note(&item);
                        batch.push(item);
                    }
                }
                _ => at += 1,
            }
        }
        share
    }
}

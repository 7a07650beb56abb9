//! A connection behind a mutex, for several lanes. The mutex is an unfair one on purpose: a lock that is granted in
//! the order of requests collapses when a virtual processor is descheduled while it waits in the queue.

use crate::Connection;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

/// Counters of a lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct LockStats {
    /// Number of times that it was taken.
    pub taken: u64,
    /// Number of times that another lane held it.
    pub waited: u64,
}

#[derive(Debug, Default)]
#[repr(align(64))]
struct Counts {
    taken: AtomicU64,
    waited: AtomicU64,
}

/// A connection that several lanes use. Every call between [`lock`](Self::lock) and the guard's end should process a
/// batch, and all work that can run outside the lock should.
#[derive(Debug)]
pub struct Shared {
    connection: Mutex<Connection>,
    counts: Counts,
}

/// The connection while it is locked.
#[derive(Debug)]
pub struct Guard<'a>(MutexGuard<'a, Connection>);

impl Shared {
    /// Shares a connection.
    pub fn new(connection: Connection) -> Self {
        Self { connection: Mutex::new(connection), counts: Counts::default() }
    }

    /// Waits until no other lane holds the connection.
    pub fn lock(&self) -> Guard<'_> {
        self.counts.taken.fetch_add(1, Relaxed);
        let guard = match self.connection.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::WouldBlock) => {
                self.counts.waited.fetch_add(1, Relaxed);
                self.connection.lock().unwrap_or_else(PoisonError::into_inner)
            }
            // The lane that panicked did so outside the crate: no call on a connection leaves it half changed and
            // panics.
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        };
        Guard(guard)
    }

    /// Returns the counters of the lock.
    pub fn lock_stats(&self) -> LockStats {
        LockStats { taken: self.counts.taken.load(Relaxed), waited: self.counts.waited.load(Relaxed) }
    }

    /// Returns the connection, once no other lane shares it.
    pub fn into_inner(self) -> Connection {
        self.connection.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Deref for Guard<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.0
    }
}

impl DerefMut for Guard<'_> {
    fn deref_mut(&mut self) -> &mut Connection {
        &mut self.0
    }
}

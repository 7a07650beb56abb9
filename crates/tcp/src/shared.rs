//! A connection behind a mutex, for several lanes. The mutex is a plain one, on purpose: locks that are given in the
//! order of asking collapse when a virtual processor loses its turn while it stands in the line.

use crate::Connection;
use core::ops::{Deref, DerefMut};
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};

/// How a lock was taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct LockStats {
    /// How often it was taken.
    pub taken: u64,
    /// How often another lane held it.
    pub waited: u64,
}

#[derive(Debug, Default)]
#[repr(align(64))]
struct Counts {
    taken: AtomicU64,
    waited: AtomicU64,
}

/// A connection that several lanes use. Every call between [`lock`](Self::lock) and the guard's end should be one with
/// a batch: what can be done before or after it, should be.
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
            // A lane that panicked did so outside: no call on a connection leaves it half changed and panics.
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
        };
        Guard(guard)
    }

    /// How the lock was taken so far.
    pub fn lock_stats(&self) -> LockStats {
        LockStats { taken: self.counts.taken.load(Relaxed), waited: self.counts.waited.load(Relaxed) }
    }

    /// The connection, once no lane shares it any more.
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

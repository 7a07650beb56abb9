//! The primitives that threads share, imported in one place: the models in `tests/models.rs` compile the same sources
//! with a model checker's versions of them.

use std::time::Instant;

pub(crate) use std::sync::{
    Condvar, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, AtomicU64, Ordering::SeqCst, fence},
};

/// Waits for `condvar`, at most until `end`; returns whether `end` has passed.
pub(crate) fn wait_until<'a, T>(
    condvar: &Condvar,
    guard: MutexGuard<'a, T>,
    end: Instant,
) -> (MutexGuard<'a, T>, bool) {
    let left = end.saturating_duration_since(Instant::now());
    let (guard, _) = condvar.wait_timeout(guard, left).unwrap_or_else(PoisonError::into_inner);
    (guard, Instant::now() >= end)
}

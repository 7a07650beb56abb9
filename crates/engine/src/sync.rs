//! What threads share, named in one place: the models in `tests/models.rs` compile the same sources over a scheduler's
//! versions of it.

use std::time::Instant;

pub(crate) use std::sync::{
    Condvar, Mutex, MutexGuard, PoisonError,
    atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
};

/// Waits for `condvar`, but no longer than until `end`; says whether that has come.
pub(crate) fn wait_until<'a, T>(
    condvar: &Condvar,
    guard: MutexGuard<'a, T>,
    end: Instant,
) -> (MutexGuard<'a, T>, bool) {
    let left = end.saturating_duration_since(Instant::now());
    let (guard, _) = condvar.wait_timeout(guard, left).unwrap_or_else(PoisonError::into_inner);
    (guard, Instant::now() >= end)
}

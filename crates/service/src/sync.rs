//! The primitives of the hand-over between workers, imported in one place: the models in `tests/models.rs` compile the same
//! source with a model checker's versions of them.

pub(crate) use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
pub(crate) use std::sync::{Mutex, MutexGuard, PoisonError};

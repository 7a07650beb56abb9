//! The primitives that two processes share, imported in one place: `tests/models.rs` compiles the same sources with a
//! model checker's versions of them.

pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

//! What two processes share, named in one place: `tests/models.rs` compiles the same sources over a scheduler's versions of it.

pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};

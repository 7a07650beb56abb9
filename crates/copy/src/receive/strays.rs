//! Unfinished files that the search of a target meets, and of which no journal or lease tells.
//!
//! Guarantees: the number that is remembered is bounded; nothing is removed on their account.

use std::sync::{Mutex, PoisonError};

use sealane_tree::RelativePath;

/// The maximum number that is told to the user.
pub(crate) const STRAYS_MAX: usize = 16;
/// The number that is remembered: this transfer's own are among them.
const SEEN_MAX: usize = 4096;

/// The unfinished files that the threads of one search have met.
#[derive(Debug, Default)]
pub(crate) struct Strays(Mutex<Vec<RelativePath>>);

impl Strays {
    /// Takes note of an unfinished file.
    pub(crate) fn saw(&self, path: &[u8]) {
        let Ok(path) = RelativePath::new(path) else { return };
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.len() < SEEN_MAX {
            seen.push(path);
        }
    }

    /// Returns what was met.
    pub(crate) fn take(&self) -> Vec<RelativePath> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

//! Keys by sequence number.
//!
//! Guarantees: a packet that is sealed under a number is opened under the same keys, regardless of the caller and the
//! time.

use std::sync::Arc;

/// The assignment of keys to numbers.
pub trait Keys {
    /// An algorithm with its keys.
    type Session;

    /// Returns the keys of number `first`, and the number of consecutive numbers from it on, at most `count` (at
    /// least 1), to which they apply. Returns `None` if there are no keys for `first`: the association has come to
    /// its end.
    fn at(&mut self, first: u64, count: u64) -> Option<(u64, Arc<Self::Session>)>;
}

/// One key for all numbers up to a limit, as a security association has.
#[derive(Debug)]
pub struct Fixed<S> {
    session: Arc<S>,
    limit: u64,
}

impl<S> Fixed<S> {
    /// Uses `session` for the numbers below `limit`.
    pub fn new(session: Arc<S>, limit: u64) -> Self {
        Self { session, limit }
    }
}

impl<S> Keys for Fixed<S> {
    type Session = S;

    fn at(&mut self, first: u64, count: u64) -> Option<(u64, Arc<S>)> {
        let left = self.limit.checked_sub(first).filter(|&left| left > 0)?;
        Some((count.min(left), Arc::clone(&self.session)))
    }
}

//! Keys by sequence number.
//!
//! Guarantees: what is sealed under a number is opened under the same keys, whoever asks and whenever.

use std::sync::Arc;

/// Which keys go with which numbers.
pub trait Keys {
    /// An algorithm with its keys.
    type Session;

    /// The keys of number `first`, and how many of `count` numbers (at least 1) from it on they are for. `None` when
    /// there are no keys for `first`: the association has come to its end.
    fn at(&mut self, first: u64, count: u64) -> Option<(u64, Arc<Self::Session>)>;
}

/// One key for all numbers, as a security association has, up to its limit.
#[derive(Debug)]
pub struct Fixed<S> {
    session: Arc<S>,
    limit: u64,
}

impl<S> Fixed<S> {
    /// `session` for the numbers below `limit`.
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

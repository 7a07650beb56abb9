//! Belief in the messages of routers, and their number.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The gateway's belief in messages about packets that were too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Belief {
    /// The message quotes a packet of ours.
    Believed,
    /// The quote is too short to decide.
    Hint,
    /// The message quotes no packet of ours.
    Foreign,
}

impl Belief {
    /// All verdicts.
    pub const ALL: [Self; 3] = [Self::Believed, Self::Hint, Self::Foreign];

    /// Returns the verdict's name in statistics and metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Believed => "believed",
            Self::Hint => "hint",
            Self::Foreign => "foreign",
        }
    }
}

/// Messages by verdict.
#[derive(Debug, Default)]
pub struct Messages([AtomicU64; Belief::ALL.len()]);

impl Messages {
    /// Counts a message.
    pub fn count(&self, verdict: Belief) {
        self.0[verdict as usize].fetch_add(1, Relaxed);
    }

    /// Returns the number of messages of each verdict.
    pub fn iter(&self) -> impl Iterator<Item = (Belief, u64)> + '_ {
        Belief::ALL.into_iter().map(|verdict| (verdict, self.0[verdict as usize].load(Relaxed)))
    }
}

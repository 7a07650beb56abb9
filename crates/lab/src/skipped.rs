//! The reason why something is not measured here.

use serde::{Deserialize, Serialize};

/// The reason why a peer is skipped.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("skipped: {reason}")]
pub struct Skipped {
    /// The reason in words, e.g. "no `rclone` in PATH".
    pub reason: String,
}

impl Skipped {
    pub(crate) fn because(reason: impl Into<String>) -> Self {
        Self { reason: reason.into() }
    }
}

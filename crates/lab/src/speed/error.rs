//! Why a measurement cannot be had.

use super::work::Task;
use sealane_transform::SelectError;

/// A measurement that was asked for and cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum SpeedError {
    /// A tier or instruction set that this machine lacks.
    #[error(transparent)]
    Select(#[from] SelectError),
    /// A library to measure beside is not there, or not usable.
    #[error("{peer}: {reason}")]
    Peer {
        /// The library.
        peer: &'static str,
        /// What is wrong with it, and what would help.
        reason: String,
    },
    /// The algorithm does not take messages of that length.
    #[error("{algorithm} takes no messages of {bytes} bytes")]
    Refused {
        /// The algorithm.
        algorithm: String,
        /// Length of the longest message.
        bytes: usize,
    },
    /// The messages would not fit into the memory that a measurement may take.
    #[error("messages of {needed_bytes} bytes in all are asked for; at most {max_bytes} are taken")]
    TooMuchMemory {
        /// What would be needed.
        needed_bytes: usize,
        /// The bound.
        max_bytes: usize,
    },
    /// A thread could not be started, or failed.
    #[error("a lane could not be started, or failed")]
    LaneFailed,
}

impl SpeedError {
    /// That ours do not take a task's messages.
    pub(super) fn refused(task: &Task) -> Self {
        let bytes = task.lengths.iter().max().copied().unwrap_or_default();
        Self::Refused { algorithm: task.algorithm.to_string(), bytes }
    }
}

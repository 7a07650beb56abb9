//! Errors of measurements.

use sealane_transform::SelectError;

/// A requested measurement that cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum SpeedError {
    /// The machine lacks a tier or instruction set.
    #[error(transparent)]
    Select(#[from] SelectError),
    /// A library to compare with is missing, or not usable.
    #[error("{peer}: {reason}")]
    Peer {
        /// The library.
        peer: &'static str,
        /// The problem and a remedy.
        reason: String,
    },
    /// The algorithm does not take messages of that length.
    #[error("{algorithm} takes no messages of {bytes} bytes")]
    Refused {
        /// The algorithm's name in the catalogue.
        algorithm: String,
        /// The length of the longest message.
        bytes: usize,
    },
    /// The messages would not fit into the memory that a measurement may use.
    #[error("messages of {needed_bytes} bytes in all are asked for; at most {max_bytes} are taken")]
    TooMuchMemory {
        /// The required memory.
        needed_bytes: usize,
        /// The bound.
        max_bytes: usize,
    },
    /// A public-key operation was refused, or its answers differ from AWS-LC's.
    #[error("{algorithm} {step}: {reason}")]
    Operation {
        /// The algorithm's name in the catalogue.
        algorithm: &'static str,
        /// The name of the operation, such as `sign`.
        step: &'static str,
        /// The problem.
        reason: &'static str,
    },
    /// More operations at a time than keys are made for.
    #[error("{batch} public-key operations at a time are asked for; at most {max} are measured")]
    TooManyOperations {
        /// The requested number.
        batch: usize,
        /// The bound.
        max: usize,
    },
    /// A thread could not be started, or failed.
    #[error("a lane could not be started, or failed")]
    LaneFailed,
}

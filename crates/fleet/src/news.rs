//! [`News`]: the events of a run that are reported to the user.

use crate::record::LeftOut;

/// An event that is reported to the user.
#[derive(Clone, Debug)]
pub enum News {
    /// The run has begun.
    Begun {
        /// Its name.
        run: String,
        /// The number of shares that an earlier invocation has finished.
        done: u64,
    },
    /// An entry failed.
    EntryFailed {
        /// Its path, as the session named it.
        path: Vec<u8>,
        /// Why, in words that name it.
        reason: String,
    },
    /// A host no longer takes part.
    LeftOut(LeftOut),
    /// A host takes part from now on.
    Joined {
        /// The host.
        host: String,
    },
}

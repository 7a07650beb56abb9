//! [`News`]: the events of a run that are reported to the user.

use sealane_copy::Change;
use sealane_peer::PublicKey;

use crate::record::LeftOut;

/// An event that is reported to the user.
#[derive(Clone, Debug)]
pub enum News {
    /// The run has begun.
    Begun {
        /// Its name.
        run: String,
        /// Its key, which workers must know that come by themselves.
        key: PublicKey,
        /// The number of shares that an earlier invocation has finished.
        done: u64,
    },
    /// An entry failed, and the others go on.
    EntryFailed {
        /// Its path, as the session named it; empty if the reason is about no single entry.
        path: Vec<u8>,
        /// Why, in words that name it.
        reason: String,
    },
    /// A real copy would make this change, and send these bytes; this one changes nothing.
    WouldSend {
        /// The entry, and its differences from the one at the target.
        change: Change,
        /// Content bytes.
        bytes: u64,
    },
    /// A real copy would delete this; this one changes nothing.
    WouldDelete {
        /// The path relative to the target.
        path: Vec<u8>,
    },
    /// ssh, or a host, has written a line to its standard error; it has no control characters.
    Said {
        /// The name of that host for people.
        host: String,
        /// The text of the line.
        line: String,
    },
    /// A host no longer takes part.
    LeftOut(LeftOut),
    /// A host takes part from now on.
    Joined {
        /// The name of that host for people.
        host: String,
    },
}

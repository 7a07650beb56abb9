//! Parallel secure copy: files over several TCP streams, each with its own security context, on several lanes.
//!
//! [`copy`] is the implementation of `sealane cp`; [`serve_stdio`] is its far end over ssh, [`Daemon`] the far end
//! without ssh. The protocol itself ([`proto`]) reads no socket, no file and no clock.
//!
//! Invariants: a record is bound by its tag to transfer, stream, opening, position, file and offset; nothing is
//! written before its tag is verified, and nothing gets its final name before its closing record; numbers (nonces)
//! are assigned before work is distributed to lanes, so they never depend on scheduling; bytes in flight do not
//! depend on the number of streams.

#![deny(unsafe_code)]

mod choice;
mod content;
mod digest;
mod directory;
mod error;
mod far_end;
#[doc(hidden)]
pub mod fuzzing;
mod growth;
#[cfg(test)]
mod interleavings;
mod journal;
#[cfg(test)]
#[path = "../../../testing/late_engine.rs"]
mod late_engine;
#[cfg(test)]
mod late_lanes;
mod ledger;
mod line;
mod login;
mod low_water;
mod names;
mod options;
pub mod proto;
mod receive;
mod segments;
mod send;
mod session;
mod sftp;
mod shared;
mod socket;
mod summary;
mod transfer;

pub use choice::copy;
pub use error::{Error, ErrorKind};
#[doc(hidden)]
pub use journal::replay_any;
pub use login::{Login, Logins};
pub use options::{
    Backup, Bases, Compression, Deletion, Delta, Existing, FarEndChoice, Level, MeasuredEnd, ModeRules,
    Options, Ownership, Pattern, Piece, Portion, Preserve, Principal, RemoteOptions, Sameness, Sink, Sizes,
    UnknownName, Upkeep, Wishes,
};
pub use sealane_engine::{Implementations, Suite};
pub use sealane_lanes::Placement;
pub use sealane_peer::{AddressFamily, Location};
pub use sealane_tree::{BasisUse, Following, ModeChange, ModeChangeOf, RelativePath};
pub use session::{
    budget::raise_descriptor_limit,
    daemon::{Daemon, DaemonEvent, DaemonOptions, TransferRecord},
    stdio::{StdioOptions, serve_relay, serve_stdio},
};
pub use summary::{
    Agreement, Change, ChangeKind, CpuSeconds, Differences, Dropped, Notice, Observer, Progress,
    ProgressSnapshot, Summary, suite_name,
};

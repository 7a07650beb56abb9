//! Trust: two text files that people edit, with one entry per line.
//!
//! A malformed line is an error with its number, because skipping it could mean trusting a peer that the author meant
//! to restrict. Files and entries are bounded, and programs replace a file only as a whole: under a lock, by writing
//! a new one beside it and renaming.

mod authorised;
mod file;
mod known;
mod place;

pub use authorised::{AuthorisedPeer, AuthorisedPeers, Rights};
pub(crate) use known::Recognition;
pub use known::{KnownPeer, KnownPeers, ServerTrust};
pub use place::{check_trusted_folder, open_trusted};

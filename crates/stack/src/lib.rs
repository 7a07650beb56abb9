//! Packets, batches, associations, and their placement on lanes.
//!
//! A flow's packets go under an [`Association`]: keys, sequence numbers and their limits, for one direction.
//! Sequence numbers and tickets are given in arrival order *before* work fans out to lanes, so a nonce never
//! depends on scheduling; an [`OrderRing`] restores that order behind the lanes. [`Pool`] bounds the bytes in
//! flight. Nothing here knows a socket or a file: `sealane cp` is one user, the tunnel and the laboratory are
//! others.

#![deny(unsafe_code)]

mod association;
mod lanes;
mod order;
mod placement;
mod pool;

pub use association::{Association, Claim, Secret};
pub use lanes::{Pinning, available_lanes, run_lanes};
pub use order::OrderRing;
pub use placement::{Placement, UnknownPlacement};
pub use pool::Pool;

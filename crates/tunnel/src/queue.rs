//! Packets that wait in the gateway: FQ-CoDel in user space, for each direction, and a bound on what waits below it.
//!
//! Guarantees: the order within a flow is kept; memory is bounded, for each direction by `LIMIT_BYTES`; no lock and no allocation for
//! a packet.

pub mod below;
pub mod codel;
pub mod counters;
pub mod fair;
pub mod inward;
pub mod outward;
pub mod shaper;
pub mod whole;

/// The memory of waiting packets in bytes.
const LIMIT_BYTES: u32 = 8 << 20;

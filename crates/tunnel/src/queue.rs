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

/// Returns the bytes that are read before some of what waits is passed on, while it has `charge` of `limit_bytes` of memory.
///
/// The source is read dry, so that packets take turns here; but where much waits, about as much is read as leaves: more would be read
/// only to be lost here, or to grow cold, at the price of the packets that leave. In any case no more is read than finds room together.
fn read_bytes(charge: u32, limit_bytes: u32) -> usize {
    if charge > limit_bytes / 8 { 64 << 10 } else { (512 << 10).min(limit_bytes as usize / 4) }
}

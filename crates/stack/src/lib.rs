//! Packets, batches, associations, and their placement on lanes.
//!
//! A flow's packets are protected under an [`Association`]: keys, sequence numbers and their limits, for one
//! direction. Sequence numbers and tickets are given in arrival order *before* work fans out to lanes, so a nonce
//! never depends on scheduling; an [`OrderRing`] restores that order behind the lanes. [`Pool`] bounds the bytes in
//! flight. Nothing here depends on a socket or a file: `sealane cp` is one user, the tunnel and the laboratory are
//! others.

#![deny(unsafe_code)]

mod association;
mod bells;
mod catalogue;
mod cpu;
mod flow;
mod keys;
mod lane_loop;
mod lanes;
mod layer;
mod layer_notes;
mod layers;
mod limiter;
mod network;
mod order;
mod packet;
mod parts;
mod placement;
mod pool;
mod run;
mod spec;
mod stack;
mod stop;
mod sync;
mod transport;

pub use association::{Association, Claim, Epochs, Secret};
pub use bells::Bells;
pub use catalogue::Catalogue;
pub use cpu::{CpuClock, CpuShare};
pub use flow::{Flow, Refused, Ticket};
pub use keys::{Fixed, Keys};
pub use lane_loop::{LONGEST_SLEEP, LaneWork, OnPanic, Turn, run_lane};
pub use lanes::{Pinning, available_lanes, run_lanes};
pub use layer::{Layer, Outbox, Overhead, Way};
pub use layer_notes::{LayerNote, LayerNotes};
pub use limiter::Limiter;
pub use network::{DIGEST_PROTOCOL, OPAQUE_ETHERTYPE, OPAQUE_PROTOCOL};
pub use order::OrderRing;
pub use packet::{Batch, Counts, Packet, Verdict};
pub use placement::{Assignment, At, Placement, UnknownPlacement};
pub use pool::{Pool, Recycle};
pub use run::{Crew, Ends, FlowPlan, Lane, LaneCounts, Plan, RunError, Sink, Source};
pub use sealane_engine::Clock;
pub use spec::{
    ARGUMENTS_MAX, Context, End, Kind, LAYERS_MAX, LayerSpec, MakeLayer, Spec, SpecError, no_arguments,
};
pub use stack::Stack;
pub use stop::Stop;
pub use sync::wait;

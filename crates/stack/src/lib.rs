//! Stacks of protocol layers and their placement on lanes, for the laboratory.
//!
//! A [`Stack`] is made from a text such as `des/tcp/md5/ip/fddi` ([`Spec`]); a [`Crew`] of lanes carries batches of packets
//! through it, and [`Placement`](sealane_lanes::Placement) names the lane of each step. Any port is an end ([`ends()`]).

#![deny(unsafe_code)]

mod catalogue;
mod layer;
mod layers;
mod network;
mod parts;
mod port_ends;
mod run;
mod spec;
mod stack;
mod transport;

pub use catalogue::Catalogue;
pub use layer::{Layer, Outbox, Overhead, Way};
pub use network::{DIGEST_PROTOCOL, OPAQUE_ETHERTYPE, OPAQUE_PROTOCOL};
pub use port_ends::{Receiving, Sending, ends};
pub use run::{Crew, Ends, FlowPlan, Lane, LaneCounts, Plan, RunError, Sink, Source};
pub use spec::{
    ARGUMENTS_MAX, Context, End, Kind, LAYERS_MAX, LayerSpec, MakeLayer, Spec, SpecError, no_arguments,
};
pub use stack::Stack;

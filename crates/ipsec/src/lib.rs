//! ESP (RFC 4303) and AH (RFC 4302) as values: associations, policies, replay windows, and packets in place.
//!
//! - A [`suite::Suite`] says how packets are protected; [`association::Outbound`] and [`association::Inbound`] are one with
//!   keys, numbers, a replay window and a lifetime.
//! - [`database::Database`] holds associations and [`policy::Policies`] for lanes to read without a lock, and carries the key
//!   makers' installs and the lanes' requests; [`key_maker::KeyMaker`] is what makes keys.
//! - [`esp`] lays and opens packets that travel inside something else (UDP); [`frame`] does whole IP packets, in tunnel and
//!   transport mode, with ESP or AH.
//!
//! Cryptography is left to an engine: what is laid here gives a [`sealane_engine::Job`]. No socket, no clock, no thread.
#![forbid(unsafe_code)]

pub mod ah;
pub mod association;
pub mod counters;
pub mod database;
pub mod esp;
pub mod flow;
pub mod frame;
pub mod key_maker;
pub mod lifetime;
pub mod marks;
pub mod mutable;
pub mod policy;
mod ranges;
pub mod replay;
pub mod segment_size;
pub mod selector;
pub mod sequence;
pub mod suite;
pub mod table;
pub mod too_big;
pub mod traffic;

//! ESP (RFC 4303) and AH (RFC 4302) as values: associations, policies, replay windows, and packets in place.
//!
//! - A [`suite::Suite`] names the algorithms that protect packets; [`association::Outbound`] and
//!   [`association::Inbound`] add keys, numbers, a replay window and a lifetime.
//! - [`database::Database`] holds associations and [`policy::Policies`] for lanes to read without a lock, and passes
//!   the lanes' requests to the key makers; a [`key_maker::KeyMaker`] makes the keys.
//! - [`esp`] writes and opens packets that travel inside another protocol (UDP); [`frame`] handles whole IP packets,
//!   in tunnel and transport mode, with ESP or AH.
//!
//! Cryptography is done by an engine: this crate gives it [`sealane_engine::Job`]s. The crate has no sockets, no
//! clock and no threads.
#![forbid(unsafe_code)]

/// The README's example is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

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
mod shares;
pub mod suite;
pub mod table;
pub mod too_big;
pub mod traffic;
pub mod turns;

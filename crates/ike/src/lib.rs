//! IKEv2 (RFC 7296) as a value: how two ends agree on keys for ESP.
//!
//! - [`wire`] reads and writes messages, [`crypto`] has the algorithms, [`keys`] what follows from them; [`offer`] says which
//!   algorithms are taken.
//!
//! No socket, no clock, no thread, no file.
#![forbid(unsafe_code)]

pub mod crypto;
pub mod keys;
pub mod offer;
pub mod wire;

pub use offer::{EspSuite, Offer};

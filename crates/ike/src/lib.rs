//! IKEv2 (RFC 7296) as a value: how two ends agree on keys for ESP.
//!
//! - [`wire`] reads and writes messages.
//!
//! No socket, no clock, no thread, no file.
#![forbid(unsafe_code)]

pub mod wire;

//! The transfer protocol: what crosses the wire, as values.
//!
//! Guarantees: nothing here reads a socket, a file or a clock; every decoder takes any bytes without panic
//! and allocates no more than a small multiple of the bytes it was given.

pub mod entry;
pub mod join;
pub mod keys;
pub mod message;
pub mod record;

//! The transfer protocol: what crosses the wire, as values.
//!
//! Guarantees: nothing here reads a socket, a file or a clock; every decoder accepts any bytes without panic and
//! allocates at most a small multiple of its input.

pub mod compression;
pub mod entry;
pub mod join;
pub mod keys;
pub mod message;
pub mod record;

//! Cryptographic sessions and the engines that run their jobs.
//!
//! A [`Session`] is an algorithm with its keys. A [`Batch`] is a buffer with jobs in it: byte ranges to seal
//! or to open, each with its sequence number. A batch carries its whole context, so any batch can run, and
//! run again, on any engine with the same result; fail-over and byte-for-byte tests of every engine against
//! every other follow from that.
//!
//! Two engines live here: [`Inline`] computes on the calling lane, [`Lanes`] on a pool of worker lanes with
//! bounded queues. Neither knows a protocol, a socket or a file.

#![deny(unsafe_code)]

mod batch;
mod engines;
mod legacy;
mod library;
mod own;
mod provider;
mod session;
mod suite;
mod together;

pub use batch::{Batch, Buffer, Direction, Job, JobStatus};
pub use engines::{Completions, Engine, Inline, Lanes};
pub use provider::{Provider, ProviderError};
pub use session::{KeyError, Session};
pub use suite::{Suite, UnknownSuite};

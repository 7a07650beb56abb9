//! Cryptographic sessions and the engines that run their jobs.
//!
//! A [`Session`] is a [`Protection`] with its keys. A [`Work`] is a buffer with jobs in it: spans to seal or to open,
//! each with its IV. A job carries its whole context, so any job can run, and run again, on any engine with the same
//! result; fail-over and byte-for-byte tests of every engine against every other follow from that.
//!
//! [`record`] is the record layer of `sealane cp`: suites, and records numbered under them. Nothing here knows a
//! protocol, a socket or a file.

#![deny(unsafe_code)]

mod buffer;
mod engine;
mod protection;
pub mod record;
mod session;
mod work;

pub use buffer::{Buffer, Memory};
pub use engine::{Cost, Engine, Queue};
pub use protection::{Mac, Protection};
pub use record::{Provider, ProviderError, Suite, UnknownSuite};
pub use session::{KeyError, Session};
pub use work::{Direction, Job, JobStatus, Span, Suffix, Work};

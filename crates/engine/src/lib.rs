//! Cryptographic sessions and the engines that run their jobs.
//!
//! A [`Session`] is a [`Protection`] with its key material. A [`Work`] is a buffer with jobs in it: spans to seal or
//! to open, each with its IV. A job carries its whole context, so any job can run, and run again, on any engine with
//! the same result; this makes fail-over and byte-for-byte comparisons of all engines possible.
//!
//! There are four engines: [`Inline`] computes on the calling lane, [`Lanes`] on a pool of worker lanes with bounded
//! queues, [`Process`] in the engine service, and [`Scheduler`] combines several engines into one and tolerates the
//! failure of each. Another crate adds an engine by a [`Kind`]. A lane uses an engine through a [`Submitter`], which runs
//! the jobs that the engine hands back in [`Software`]. The implementations that the software engines use for a session are a value, [`Implementations`];
//! the engine that a program uses is another, [`EngineChoice`].
//!
//! [`record`] is the record layer of `sealane cp`: a table of suites, and the conversion of records into jobs of a
//! work. Nothing here depends on a protocol, a socket or a file.

#![deny(unsafe_code)]

/// The README's example is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod at_once;
mod bell;
mod buffer;
mod choice;
mod copies;
mod engine;
mod gathering;
mod implementations;
mod inline;
mod keys;
mod kind;
mod lanes;
mod load;
mod notes;
mod operation;
mod operations;
mod packets;
mod process;
mod protection;
pub mod record;
mod run;
mod scheduler;
mod session;
mod spinner;
mod submitter;
mod sync;
mod tree;
mod tree_key;
mod work;

pub use buffer::Buffer;
pub use choice::{EngineChoice, KINDS, UnknownEngine};
pub use engine::{Cost, Engine, Queue, Trust};
pub use implementations::{Implementations, Provider, UnknownProvider};
pub use inline::Inline;
pub use kind::{Kind, Make, Parse, ParsePart};
pub use lanes::Lanes;
pub use operation::Operation;
pub use operations::Operations;
pub use process::Process;
pub use protection::{Mac, Protection};
pub use record::{Suite, UnknownSuite};
pub use run::Software;
pub use scheduler::{MemberReport, Policy, Scheduler, SchedulerQueue};
pub use sealane_transform::debug_only;
pub use session::{KeyError, Maker, Session};
pub use submitter::Submitter;
pub use tree::Tree;
pub use tree_key::CHAINING_BYTES;
pub use work::{Direction, Job, JobStatus, PARTS_MAX, Span, Suffix, Work};

//! Cryptographic sessions and the engines that run their jobs.
//!
//! A [`Session`] is a [`Protection`] with its key material. A [`Work`] is a buffer with jobs in it: spans to seal or
//! to open, each with its IV. A job carries its whole context, so any job can run, and run again, on any engine with
//! the same result; fail-over and byte-for-byte tests of every engine against every other follow from that.
//!
//! Four engines live here: [`Inline`] computes on the calling lane, [`Lanes`] on a pool of worker lanes with bounded
//! queues, [`Card`] is a simulated accelerator, and [`Scheduler`] is several engines as one, each of which may fail.
//! A lane uses an engine by a [`Submitter`], which has [`Software`] for whatever the engine hands back. Whose
//! code the software engines run for a session is a value, [`Implementations`]; which engine a program uses is
//! another, [`EngineChoice`].
//!
//! [`record`] is the record layer of `sealane cp`: a table of suites, and records laid as jobs into a work. Nothing
//! here knows a protocol, a socket or a file.

#![deny(unsafe_code)]

mod buffer;
mod card;
mod choice;
mod clock;
mod copies;
mod dice;
mod engine;
mod gathering;
mod implementations;
mod inline;
mod keys;
mod lanes;
mod notes;
mod protection;
pub mod record;
mod run;
mod scheduler;
mod session;
mod submitter;
mod sync;
mod tree;
mod work;

pub use buffer::{Buffer, Memory};
pub use card::{Card, Condition, Timing};
pub use choice::{EngineChoice, KINDS, Kind, UnknownEngine};
pub use clock::Clock;
pub use engine::{Cost, Engine, Queue, Trust};
pub use implementations::{Implementations, Provider, UnknownProvider};
pub use inline::Inline;
pub use lanes::Lanes;
pub use protection::{Mac, Protection};
pub use record::{Suite, UnknownSuite};
pub use run::Software;
pub use scheduler::{MemberReport, Policy, Scheduler, SchedulerQueue};
pub use session::{KeyError, Maker, Session};
pub use submitter::Submitter;
pub use tree::{CHAINING_BYTES, Tree};
pub use work::{Direction, Job, JobStatus, PARTS_MAX, Span, Suffix, Work};

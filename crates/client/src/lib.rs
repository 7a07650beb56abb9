//! The engine service from the view of programs: keys that stay in another process, and jobs that are passed to it in
//! shared memory.
//!
//! A [`Client`] is one connection. Set-up messages ([`setup`]) go over a Unix socket, on which the kernel identifies
//! the caller to the service; jobs go through a pair of rings ([`ring`]) that both processes map. Each thread uses a
//! separate client; an [`AsyncClient`] is shared among tasks. A job has bounded length, is copied before it is
//! examined, and names its key by a handle of its connection, so a program's writes to its memory affect no other
//! program.
//!
//! Versions are negotiated by the first message; if a service ends, the jobs in flight fail, and the next call
//! connects again.

#![deny(unsafe_code)]

/// The README's example is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod asynchronous;
mod bell;
mod channel;
mod client;
mod cores;
mod doorbell;
pub mod environment;
mod error;
mod habit;
mod hash;
pub mod jail;
pub mod job;
pub mod key;
mod memory;
mod report;
pub mod ring;
pub mod setup;
pub mod socket;
mod sync;

pub use asynchronous::{Answered, AsyncClient};
pub use bell::{Bell, RINGS_HELD, Woken};
pub use channel::{Channel, DEADLINE, Ticket};
pub use client::Client;
pub use cores::Cores;
pub use doorbell::{BUSY, Bells, SPIN};
pub use error::{ClientError, Refusal};
pub use habit::Habit;
pub use hash::Hash;
pub use job::{Answer, Operation, RecordCipher, Status};
pub use key::{Key, KeyInfo, KeyKind, MlDsaSet, PssLimits, Source, Uri};
pub use memory::Memory;

/// The socket of the system's service.
pub const SOCKET: &str = "/run/sealane-engine/socket";

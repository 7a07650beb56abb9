//! The engine service as programs see it: keys that stay in another process, and jobs that cross to it in shared memory.
//!
//! A [`Client`] is one connection. Set-up messages ([`setup`]) go over a Unix socket, where the service knows its caller by the
//! kernel's word; jobs go through a pair of rings ([`ring`]) that both processes map. A thread uses a client of its own; an
//! [`AsyncClient`] is shared among tasks. A job has bounded length, is copied before anybody looks at it, and names its key
//! by a handle of its connection, so nothing that one program does with its memory reaches another.
//!
//! Versions are negotiated by the first message; a service that ends fails the jobs in flight, and the next call connects again.

#![deny(unsafe_code)]

mod asynchronous;
mod channel;
mod client;
mod doorbell;
mod error;
pub mod job;
pub mod key;
mod memory;
mod report;
pub mod ring;
pub mod setup;
pub mod socket;
mod sync;

pub use asynchronous::{Answered, AsyncClient};
pub use channel::{Channel, Ticket};
pub use client::Client;
pub use doorbell::{Bells, Waiting};
pub use error::{ClientError, Refusal};
pub use job::{Answer, Hash, Operation, Status};
pub use key::{Key, KeyInfo, KeyKind, Source, Uri};
pub use memory::Memory;

/// Where the service of the system listens.
pub const SOCKET: &str = "/run/sealane-engine/socket";

//! The engine service: private keys in a separate process, and jobs of many programs computed in fair turns.
//!
//! One thread ([`service`]) answers set-up messages; workers ([`workers`]) scan the clients' rings. The kernel
//! identifies the user of a client, and a [`policy`] decides what this user may do. Keys are sealed on disk
//! ([`vault`]), and in clear only in locked memory.
//!
//! **Guarantees:** no message and no ring discloses a private key; a client that dies, stalls, writes false values
//! into its ring or changes it while it is read ends at most its own connection; every queue, list and message has a
//! bound; clients that all have work get the same computing time, regardless of their numbers of connections and
//! jobs.

#![deny(unsafe_code)]

mod audit;
mod chores;
mod closer;
mod connection;
mod counters;
mod divided;
mod fair;
mod handover;
mod inquiries;
mod inquiry;
mod kernel;
pub mod keyring;
pub mod policy;
mod priority;
pub mod protect;
mod queue;
mod record;
mod scheduler;
pub mod service;
mod setup;
mod sync;
pub mod vault;
mod workers;

pub use audit::{Audit, Event};
pub use kernel::given;
pub use policy::{Policy, PolicyError, PolicyWarning};
pub use sealane_transform::Kernels;
pub use service::{Service, ServiceError, Settings, Stop};
pub use vault::{Vault, VaultError};

//! The engine service: private keys in a process of their own, and jobs of many programs computed in fair turns.
//!
//! One thread ([`service`]) answers set-up messages; workers ([`workers`]) scan the clients' rings. What a client may do is decided by its
//! user, whom the kernel names, and a [`policy`]. Keys lie sealed on disk ([`vault`]), and open only in locked memory.
//!
//! **Guarantees:** no message and no ring gives a private key away; a client that dies, stalls, lies in its ring or changes it while it is read
//! ends its own connection at most; every queue, list and message has a bound; among clients that all have work, each gets the same
//! computing time, however many connections and jobs it has.

#![deny(unsafe_code)]

mod audit;
mod chores;
mod connection;
mod cores;
mod counters;
mod fair;
pub mod keyring;
pub mod policy;
pub mod protect;
mod scheduler;
pub mod service;
mod setup;
pub mod vault;
mod workers;

pub use audit::{Audit, Event};
pub use connection::{Computation, Job};
pub use policy::{Policy, PolicyError};
pub use service::{Service, ServiceError, Settings, Stop};
pub use vault::{Vault, VaultError};

//! IKEv2 (RFC 7296) as a value: how two ends agree on keys for ESP.
//!
//! - [`Endpoint`] has all IKE SAs of a gateway: datagrams, commands and the time go in; datagrams, [`Event`]s and a deadline come out.
//! - [`config`] says who the peers are and what is protected; [`offer`] which algorithms are taken; [`eap`] how users prove who they are;
//!   [`pool`] which addresses they get.
//! - [`wire`] reads and writes messages, [`crypto`] has the algorithms, [`keys`] what follows from them.
//!
//! No socket, no clock, no thread, no file.
#![deny(unsafe_code)]

pub mod certificate;
pub mod config;
pub mod crypto;
pub mod eap;
pub mod endpoint;
pub mod event;
pub mod identity;
pub mod keys;
mod message;
pub mod offer;
pub mod pool;
mod sa;
pub mod wire;

pub use config::{ChildPolicy, Expect, Families, Peer, Prove, Random, Retransmission, Settings};
pub use eap::{EapClient, EapServer, EapTls, TlsIdentity, Users};
pub use endpoint::Endpoint;
pub use event::{ChildId, Event, IkeId, Install, Mode, Path, Reason, Transmit};
pub use identity::Identity;
pub use offer::{EspSuite, Offer};
pub use pool::{Assignment, Pool};

//! IKEv2 (RFC 7296) as a state machine: two ends negotiate keys for ESP or AH.
//!
//! - [`Endpoint`] has all IKE SAs of a gateway: datagrams, commands and the time go in; datagrams, [`Event`]s and a
//!   deadline come out.
//! - [`config`] has the peers and the traffic to protect; [`offer`] the algorithms that are accepted; [`eap`] the
//!   proofs of users, [`pkcs12`] what they import; [`pool`] the addresses that peers get.
//! - [`wire`] reads and writes messages, [`crypto`] has the algorithms, [`keys`] derives keys.
//!
//! The crate has no sockets, clocks, threads or files.
#![forbid(unsafe_code)]

/// The README's example is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod brake;
pub mod certificate;
pub mod config;
pub mod crypto;
pub mod eap;
pub mod endpoint;
pub mod event;
mod id;
pub mod identity;
pub mod keys;
mod message;
pub mod offer;
pub mod pkcs12;
pub mod pool;
mod random;
mod sa;
pub mod wire;

pub use config::{ChildPolicy, Expect, Peer, Prove, Retransmission, Settings};
pub use eap::{EapClient, EapServer, EapTls, TlsIdentity, Users};
pub use endpoint::Endpoint;
pub use event::{Event, Install, Mode, Path, Reason, Transmit};
pub use id::{ChildId, IkeId};
pub use identity::Identity;
pub use offer::{ChildSuite, Offer};
pub use pool::{Assignment, Families, Pool};
pub use random::Random;

//! Who makes associations.
//!
//! Lanes ask for them through [`Database::request`]: a first one, a successor, or one in place of an expired one. A [`KeyMaker`]
//! answers by installing: inbound first, then outbound, and takes old ones away. Keys come from files ([`crate::manual`]) or from
//! the peers' identities ([`peer_keys`]); IKEv2 is another such value.

pub mod agreement;
pub mod calls;
pub mod peer_keys;
pub mod strangers;
pub mod turns;
mod words;

use std::time::Instant;

use sealane_ipsec::database::{Database, Request};

/// Makes associations for a peer, or for several.
pub trait KeyMaker {
    /// The lanes ask: to acquire a first association, to rekey one that is past a soft limit, to replace one that has expired. A
    /// request stands, and comes again, until the peer gets an outbound association.
    fn request(&mut self, request: Request, now: Instant);

    /// Does what is due: removes what is out of use, reserves what will be needed. To be called some times a second. Says what
    /// an operator should know, once.
    fn tick(&mut self, database: &Database, now: Instant) -> Vec<String>;
}

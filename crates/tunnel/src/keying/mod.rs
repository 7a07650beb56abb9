//! The makers of associations.
//!
//! Lanes request them through [`Database::request`](sealane_ipsec::database::Database::request): a first one, a
//! successor, or one in place of an expired one. A [`KeyMaker`](sealane_ipsec::key_maker::KeyMaker) answers by
//! installing the inbound association, then the outbound one, and removes old ones. Keys come from files
//! ([`crate::manual`]), from calls between the peers' identities ([`calls`], [`peer_keys`]), or from IKEv2 ([`ike`]),
//! whose datagrams [`carrier`] sends and receives.

pub mod agreement;
pub mod agreements;
pub mod calls;
pub mod carrier;
pub mod ike;
pub mod mailbox;
pub mod makers;
pub mod peer_keys;
pub mod strangers;
pub mod turns;
mod words;

//! The IKE and child SAs with a peer, as shown in the gateway's status.

use std::{net::IpAddr, sync::Arc, time::Instant};

use sealane_ipsec::association::Whereabouts;

/// An IKE SA.
#[derive(Clone, Debug)]
pub struct Agreement {
    /// The identity that the peer has proved; if there is a user, only the one that it gave.
    pub identity: String,
    /// The user that the peer has proved to be by EAP.
    pub user: Option<String>,
    /// The address and port of its end, which its packets may change.
    pub whereabouts: Arc<Whereabouts>,
    /// The addresses that it has got from our pool, or that we have got from it.
    pub addresses: Vec<IpAddr>,
    /// The algorithms of IKE itself.
    pub algorithms: String,
    /// The time at which it was established.
    pub since: Instant,
    /// The time at which it gets new keys; `None` if that does not depend on time.
    pub rekey_at: Option<Instant>,
    /// The child SAs.
    pub children: Vec<ChildAgreement>,
}

/// A pair of associations.
#[derive(Clone, Debug)]
pub struct ChildAgreement {
    /// The SPI of the inbound association.
    pub inbound_spi: u32,
    /// The SPI of the outbound association.
    pub outbound_spi: u32,
    /// The traffic, ours first.
    pub traffic: String,
    /// The time at which it gets a successor; `None` if that does not depend on time, or if it has one.
    pub rekey_at: Option<Instant>,
}

//! What IKE has agreed on with a peer, for those who ask how the gateway is.

use std::time::Instant;

/// An IKE SA.
#[derive(Clone, Debug)]
pub struct Agreement {
    /// Who the peer has proved to be.
    pub identity: String,
    /// The algorithms of IKE itself.
    pub algorithms: String,
    /// Since when it stands.
    pub since: Instant,
    /// When it gets new keys; `None`: not by time.
    pub rekey_at: Option<Instant>,
    /// Its children.
    pub children: Vec<ChildAgreement>,
}

/// A pair of associations.
#[derive(Clone, Debug)]
pub struct ChildAgreement {
    /// The SPI of what comes in.
    pub inbound_spi: u32,
    /// The SPI of what goes out.
    pub outbound_spi: u32,
    /// The traffic, ours first.
    pub traffic: String,
    /// When it gets a successor; `None`: not by time, or it has one.
    pub rekey_at: Option<Instant>,
}

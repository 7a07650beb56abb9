//! A negotiated child SA as a pair of associations.
//!
//! Guarantees: a child that this gateway cannot carry is refused with words; both associations take only the traffic
//! that was agreed on.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use sealane_engine::Implementations;
use sealane_ike::{ChildId, IkeId, Install, Mode, wire};
use sealane_ipsec::{
    association::{self, Inbound, Outbound, Parameters, Protocol, Whereabouts},
    lifetime::{Lifetime, Limits},
    policy::PeerId,
    sequence::SequenceBits,
    traffic::Traffic,
};

use super::selectors::range;

/// The time that is added to the longest life of an association, however short its keys live.
const LATE: Duration = Duration::from_secs(20);

/// Properties of all associations of a peer, from the site file.
#[derive(Clone, Copy, Debug)]
pub(super) struct Terms {
    pub(super) window_packets: u32,
    /// The age at which its associations get successors.
    pub(super) rekey: Duration,
}

/// An installed child SA.
#[derive(Debug)]
pub(super) struct Child {
    pub(super) ike: IkeId,
    pub(super) place: usize,
    pub(super) inbound: Arc<Inbound>,
    pub(super) outbound: Arc<Outbound>,
    pub(super) traffic: Arc<Traffic>,
    pub(super) replaces: Option<ChildId>,
    /// It shares the flows of the peer's first child.
    pub(super) is_share: bool,
    pub(super) is_live: bool,
    /// The highest number received at the last check.
    pub(super) top: u64,
    /// A successor has been requested.
    pub(super) is_renewed: bool,
}

/// Returns the reason why a gateway cannot carry a child. `has_ports` says that the gateway sends ESP in UDP, and
/// `joins_hosts` that the peer is configured for transport mode.
pub(super) fn misfit(install: &Install, has_ports: bool, joins_hosts: bool) -> Option<&'static str> {
    if install.is_encapsulated && !has_ports {
        return Some(
            "no association: a NAT is on the way, and only ESP in UDP passes it; leave out `encapsulation`",
        );
    }
    if joins_hosts != (install.mode == Mode::Transport) {
        return Some("no association: the peer declines transport mode; leave out `mode`");
    }
    None
}

impl Child {
    /// Returns a child with its associations, which packets of the IKE SA's peer arrive at from `whereabouts`; `None` if
    /// they cannot be made from the agreement.
    pub(super) fn make(
        implementations: Implementations,
        peer: PeerId,
        terms: Terms,
        whereabouts: Arc<Whereabouts>,
        install: &Install,
        now: Instant,
    ) -> Option<Self> {
        let traffic = Arc::new(Traffic {
            local: install.local.iter().map(range).collect(),
            remote: install.remote.iter().map(range).collect(),
        });
        // The crate `ike` handles ages; it does not see packets. What is not renewed in time has had several tries.
        let lifetime = Lifetime {
            soft: Limits { bytes: Some(1 << 40), packets: Some(1 << 31), age: None },
            hard: Limits { bytes: Some(1 << 42), packets: Some(1 << 33), age: Some(3 * terms.rekey + LATE) },
        };
        let suite = install.suite.name().parse().ok()?;
        let mode = match install.mode {
            Mode::Tunnel => association::Mode::Tunnel,
            Mode::Transport => association::Mode::Transport,
        };
        let sequence = if install.suite.extended { SequenceBits::Extended } else { SequenceBits::Short };
        let protocol = match install.suite.protocol() {
            wire::Protocol::Ah => Protocol::Ah,
            _ => Protocol::Esp,
        };
        let parameters = |spi| Parameters { spi, peer, protocol, mode, suite, sequence, lifetime };
        let (inward, outward) = (&install.inbound, &install.outbound);
        let inbound = parameters(inward.spi);
        let inbound =
            Inbound::new(implementations, inbound, &inward.material, terms.window_packets, now).ok()?;
        let outbound = parameters(outward.spi);
        let outbound = Outbound::new(implementations, outbound, &outward.material, 1, now).ok()?;
        Some(Self {
            ike: install.ike,
            place: install.peer,
            inbound: Arc::new(inbound.only_for(Arc::clone(&traffic), Arc::clone(&whereabouts))),
            outbound: Arc::new(outbound.only_for(Arc::clone(&traffic), whereabouts)),
            traffic,
            replaces: install.replaces,
            is_share: false,
            is_live: false,
            top: 0,
            is_renewed: false,
        })
    }
}

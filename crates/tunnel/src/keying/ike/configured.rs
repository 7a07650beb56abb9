//! The peers of a site file as configuration for crate `ike`.

use std::{path::Path, time::Duration};

use sealane_ike::{ChildPolicy, Identity, Mode, Peer, Pool, Retransmission, Settings, wire::TrafficSelector};
use sealane_ipsec::{policy::PeerId, selector::Prefix};

use crate::{
    credentials::{Contents, CredentialError, Credentials, Reader},
    site::{Encapsulation, Keys, PeerSite, Site},
};

/// The maximum number of pairs of networks of a peer that are asked for one by one.
const PAIRS_MAX: usize = 64;
/// The time of silence after which the peer is probed.
const PROBE_AFTER: Duration = Duration::from_secs(20);

/// The reason why a gateway cannot use IKE with a peer.
#[derive(Debug, thiserror::Error)]
#[error("peer {peer:?}: {source}")]
pub struct IkeError {
    /// The peer's name in the site file.
    pub peer: String,
    /// The cause.
    pub source: CredentialError,
}

/// Returns the peers of `site` as configuration for crate `ike`, with their credentials, and their ids, and the files that
/// were read. An entry for
/// clients is there once for each way in which they prove themselves. `own_key` is the file of the gateway's own key,
/// if the site file does not name one.
///
/// # Errors
/// Fails if a credential file is refused.
pub fn configured(site: &Site, own_key: Option<&Path>) -> Result<(Vec<(PeerId, Peer)>, Contents), IkeError> {
    let mut reader = Reader::new(site.identity.as_deref().or(own_key));
    let mut all = Vec::new();
    for (id, peer) in (0..).map(PeerId).zip(&site.peers) {
        all.extend(configured_peer(site, peer, &mut reader)?.into_iter().map(|peer| (id, peer)));
    }
    Ok((all, reader.into_contents()))
}

/// Returns one peer of `site` as configuration for crate `ike`; none if it does not speak IKE.
///
/// # Errors
/// Fails if a credential file is refused.
pub fn configured_peer(site: &Site, peer: &PeerSite, reader: &mut Reader) -> Result<Vec<Peer>, IkeError> {
    let Keys::Ike(ike) = &peer.keys else { return Ok(Vec::new()) };
    let read = reader.read(ike).map_err(|source| IkeError { peer: peer.name.clone(), source })?;
    let selectors = |networks: &[Prefix]| {
        let of = |network: &Prefix| TrafficSelector::network(network.address(), network.bits());
        networks.iter().map(of).collect()
    };
    let (mode, local) = match peer.hosts {
        Some(hosts) => (Mode::Transport, vec![Prefix::host(hosts.local)]),
        None => (Mode::Tunnel, ike.local_networks.clone()),
    };
    let child = ChildPolicy {
        name: peer.name.clone(),
        local: selectors(&local),
        remote: selectors(&peer.networks),
        proposals: ike.child_proposals.clone(),
        mode,
        resources: ike.children - 1,
    };
    let mut children = vec![child];
    if mode == Mode::Tunnel && !peer.is_many() && ike.asks_for.is_empty() {
        children.extend(pairs(&children[0]));
    }
    let of = |credentials: Credentials| Peer {
        name: peer.name.clone(),
        // Our address is the one that routes to the peer use at that time, and the peer may initiate from any
        // address.
        local: None,
        remote: None,
        local_identity: Identity::from_text(&ike.local_id),
        remote_identity: ike.id.as_deref().map(Identity::from_text),
        prove: credentials.prove,
        expect: credentials.expect,
        proposals: ike.proposals.clone(),
        children: children.clone(),
        always_encapsulate: site.encapsulation == Encapsulation::Udp,
        mobike: true,
        childless: false,
        ike_lifetime: Some(ike.ike_rekey),
        child_lifetime: Some(ike.rekey),
        probe_after: Some(PROBE_AFTER),
        pool: peer.is_many().then_some(0),
        asks_for: ike.asks_for,
    };
    Ok(read.into_iter().map(of).collect())
}

/// Returns the policies for peers that have an association for each pair of networks: one for each pair of `whole`, if there are
/// several.
fn pairs(whole: &ChildPolicy) -> Vec<ChildPolicy> {
    let count = whole.local.len() * whole.remote.len();
    if !(2..=PAIRS_MAX).contains(&count) {
        return Vec::new();
    }
    let of = |local: &TrafficSelector, remote: &TrafficSelector| ChildPolicy {
        local: vec![*local],
        remote: vec![*remote],
        resources: 0,
        ..whole.clone()
    };
    let beside = |local| whole.remote.iter().map(move |remote| of(local, remote));
    whole.local.iter().flat_map(beside).collect()
}

/// Returns the settings of the endpoint of a gateway. `allows_legacy` allows RSA signatures with SHA-1, which
/// Windows and Apple's systems make with RSA certificates.
pub fn settings(site: &Site, allows_legacy: bool) -> Settings {
    let retransmission = Retransmission { first: Duration::from_secs(1), factor_percent: 180, tries: 5 };
    let pools = site.pool.iter().map(|pool| Pool {
        addresses: pool.ranges.clone(),
        dns: pool.dns.clone(),
        domains: pool.domains.clone(),
    });
    Settings {
        retransmission,
        allow_sha1: allows_legacy,
        ml_dsa: site.ml_dsa,
        pools: pools.collect(),
        ..Settings::default()
    }
}

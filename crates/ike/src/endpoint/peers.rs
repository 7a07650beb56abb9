//! Peers that come, go, and have other credentials.
//!
//! Guarantees: IKE SAs whose peer could prove itself anew are not touched.

use std::{sync::Arc, time::Instant};

use super::Endpoint;
use crate::{
    config::{Expect, Peer},
    event::Reason,
};

impl Endpoint {
    /// Adds a peer. Returns its place.
    pub fn add_peer(&mut self, peer: Peer) -> usize {
        self.common.peers.push(Arc::new(peer));
        self.common.peers.len() - 1
    }

    /// Changes the credentials of a peer; its children's policies must be as before. IKE SAs whose peer could not prove
    /// itself anew are ended, and so are negotiations with it.
    pub fn renew_peer(&mut self, place: usize, peer: Peer, now: Instant) {
        let Some(known) = self.common.peers.get_mut(place) else { return };
        let peer = Arc::new(peer);
        *known = Arc::clone(&peer);
        for spi in self.of_peer(place) {
            self.with(now, spi, |sa, context| match sa.would_be_proved(context, &peer) {
                true => sa.peer = Arc::clone(&peer),
                false => sa.end_at_once(context, Reason::Withdrawn),
            });
        }
    }

    /// Removes a peer: its IKE SAs are ended, and no other one is established. Its place stays empty.
    pub fn remove_peer(&mut self, place: usize, now: Instant) {
        let Some(known) = self.common.peers.get_mut(place) else { return };
        // Nobody agrees with a peer that has no proposals, and nobody proves to be one without a key.
        let (proposals, children, expect) = (Vec::new(), Vec::new(), Expect::PublicKeys(Vec::new()));
        *known = Arc::new(Peer { proposals, children, expect, ..Peer::clone(known) });
        for spi in self.of_peer(place) {
            self.with(now, spi, |sa, context| sa.end_at_once(context, Reason::Withdrawn));
        }
    }

    /// Returns our SPIs of the IKE SAs and negotiations with a peer.
    fn of_peer(&self, place: usize) -> Vec<u64> {
        let sas = self.sas.iter().filter(|(_, sa)| !sa.is_finished() && sa.is_with(place));
        sas.map(|(&spi, _)| spi).collect()
    }
}

//! Two IKE SAs with one peer that both ends have initiated before they knew of each other's.
//!
//! Guarantees: both ends end the same one, whichever of them notices; the other one carries traffic before that.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use super::Endpoint;
use crate::{
    identity::Identity,
    sa::{Role, Sa, Task},
};

/// Time after which one of two IKE SAs with a peer, which both ends have initiated at once, is ended.
const TWIN_LIFE: Duration = Duration::from_secs(2);
/// Number of further decisions while the one that stays has no child.
const TWIN_TRIES: u32 = 300;
/// Number of decisions after which an end asks for a child again.
const TURN: u32 = 20;
impl Endpoint {
    /// Schedules a decision, if another IKE SA with the peer stands beside this one.
    pub(super) fn note_twins(&mut self, sa: &Sa, now: Instant) {
        let is_other =
            |other: &Sa| other.is_established() && other.peer_index == sa.peer_index && other.id != sa.id;
        // Clients are many peers in one.
        let is_one = sa.peer.remote_identity.is_some();
        if is_one && self.sas.values().any(|other| is_other(other)) {
            self.twins.insert((now + TWIN_LIFE, sa.peer_index, TWIN_TRIES));
        }
    }

    /// Ends one of two IKE SAs that both ends of a peer have initiated before they knew of each other's. The identities
    /// decide, which both ends know, so that it is the same one, whichever end notices.
    pub(super) fn decide_twins(&mut self, peer: usize, tries: u32, now: Instant) {
        let Some(configured) = self.common.peers.get(peer) else { return };
        let bytes = |identity: &Identity| identity.to_wire().to_bytes();
        let Some(remote) = &configured.remote_identity else { return };
        let ours_stays = bytes(&configured.local_identity) < bytes(remote);
        let of = |role| {
            let stand = self.sas.iter().filter(move |(_, sa)| sa.is_established() && sa.peer_index == peer);
            stand.filter(move |(_, sa)| sa.origin == role)
        };
        let (mut ended, mut wanted, mut is_open) = (Vec::new(), BTreeSet::new(), false);
        for (&ours, our) in of(Role::Initiator) {
            for (&theirs, their) in of(Role::Responder) {
                let began_before = |one: &Sa, other: &Sa| other.stands_since.is_none_or(|at| one.began <= at);
                if our.id == their.id || !(began_before(our, their) && began_before(their, our)) {
                    continue;
                }
                let (stays, goes, end) = if ours_stays { (our, their, theirs) } else { (their, our, ours) };
                // The one that stays must carry traffic before the other one ends.
                if stays.children.iter().any(|child| child.is_outbound_live) {
                    ended.push(end);
                    continue;
                }
                is_open = true;
                // The end that began it has the first word, and both ask again as long as nothing carries traffic there.
                let is_turn = tries % TURN == if ours_stays { 0 } else { TURN / 2 };
                let missing = goes.children.iter().filter(|_| is_turn && stays.children.is_empty());
                wanted.extend(missing.map(|child| (stays.local_spi(), child.policy)));
            }
        }
        for spi in ended {
            self.with(now, spi, |sa, context| sa.close(context));
        }
        for (spi, policy) in wanted {
            self.task(Some(spi), Task::AddChild { policy, trigger: None, resource: None }, now);
        }
        if let (true, Some(tries)) = (is_open, tries.checked_sub(1)) {
            self.twins.insert((now + TWIN_LIFE, peer, tries));
        }
    }
}

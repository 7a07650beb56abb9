//! Peers that have an association for each pair of networks: they agree to one pair of a request for all.
//!
//! Guarantees: each pair is asked for when a packet is of it.

use sealane_ike::{ChildPolicy, wire::TrafficSelector};

use super::{Ike, PAUSE, child::Child, selectors::trigger};

impl Ike<'_> {
    /// Returns the policy to ask a peer for: that of one pair of networks if it has an association for each, and the packet that is
    /// to be sent is of one; otherwise that of all its traffic.
    pub(super) fn policy_for(&self, place: usize) -> usize {
        let known = &self.known[place];
        let Some(flow) = known.wanted.filter(|_| known.has_pairs) else { return 0 };
        let (local, remote) = trigger(&flow);
        let takes = |policy: &ChildPolicy| {
            let within =
                |all: &[TrafficSelector], one: &TrafficSelector| all.iter().any(|own| own.contains(one));
            within(&policy.local, &local) && within(&policy.remote, &remote)
        };
        known.children.iter().skip(1).position(takes).map_or(0, |at| at + 1)
    }

    /// Returns whether a new child carries the requested flow, or at least other traffic than those before it.
    pub(super) fn is_of_use(&mut self, child: &Child) -> bool {
        let Some(wanted) = self.known[child.place].wanted.take() else { return true };
        if child.traffic.matches(&wanted) {
            self.known[child.place].pause = PAUSE;
            return true;
        }
        let (from, to, traffic) = (wanted.local, wanted.remote, &child.traffic);
        let message =
            format!("no association for packets from {from} to {to}: the peer takes {traffic} alone");
        // The next request is for the pair of networks that the packet is of.
        let is_first = !std::mem::replace(&mut self.known[child.place].has_pairs, true);
        if is_first && self.known[child.place].children.len() > 1 {
            self.known[child.place].not_before = None;
            return !self.children.values().any(|other| other.ike == child.ike && other.traffic == *traffic);
        }
        let is_known = |other: &Child| other.ike == child.ike && other.traffic == *traffic;
        let is_of_use = !self.children.values().any(is_known);
        self.tell(child.place, message);
        is_of_use
    }
}

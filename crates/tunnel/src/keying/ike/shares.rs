//! Children of one peer that share its flows (RFC 9611): the first child carries a share and whatever has no child of its
//! own, and the lanes ask for the others when flows have no share yet.
//!
//! Guarantees: one request is under way at a time; there are no more children than both ends allow, and a peer that
//! allows or knows only one gets no further request until the next IKE SA, and one that ends what it has granted gets none for a while;
//! each child is rekeyed and ended alone; no packet is sent under a child before the peer has installed it, or has had ample time to do so.

use std::time::{Duration, Instant};

use sealane_ike::{ChildId, IkeId, Install, Reason};
use sealane_ipsec::database::{Outbounds, Request};

use super::Ike;

/// The time for which a responder's flows stay where they are after a new child was agreed on, unless the peer's packets show
/// that it has the child: packets that are sent at once may overtake the answer, and a busy peer may take some time over it. It is also
/// that without a request after a child has ended.
const PAUSE: Duration = Duration::from_secs(2);

/// The children that share the flows of a peer.
#[derive(Debug, Default)]
pub(super) struct Shares {
    /// The number of children by the site file, the first one included.
    configured: usize,
    /// The number that the peer allows, by what it has refused.
    allowed: usize,
    /// The IKE SA on which a child is being requested.
    asked: Option<IkeId>,
    /// The earliest time of the next request, because a child has ended without a successor.
    not_before: Option<Instant>,
    /// The number of the next resource on the wire, where it only distinguishes children for people.
    next: u32,
}

impl Shares {
    pub(super) fn new(configured: u16) -> Self {
        let configured = usize::from(configured);
        Self { configured, allowed: configured, ..Self::default() }
    }
}

impl Ike<'_> {
    /// Forgets what a peer has refused, because a new IKE SA stands.
    pub(super) fn reset_shares(&mut self, place: usize) {
        let shares = &mut self.known[place].shares;
        shares.allowed = shares.configured;
    }

    /// Asks the peer for another child, if none is being requested and the peer allows it.
    pub(super) fn request_share(&mut self, place: usize, now: Instant) {
        let shares = &self.known[place].shares;
        let is_early = shares.not_before.is_some_and(|at| at > now);
        if shares.asked.is_some() || is_early || self.count(place) >= shares.allowed || self.is_closing {
            return;
        }
        let first = self.children.values().rev().find(|child| child.place == place && child.is_live);
        let Some(ike) = first.map(|child| child.ike) else { return };
        let shares = &mut self.known[place].shares;
        shares.asked = Some(ike);
        let resource = shares.next;
        shares.next = resource.wrapping_add(1);
        self.endpoint.add_resource(ike, 0, resource, now);
        self.take_events(now);
    }

    /// Sends packets under a new child: at once if we have asked for it, because the peer has installed it before it answered;
    /// otherwise after a pause.
    pub(super) fn begin_share(&mut self, install: &Install, now: Instant) {
        match install.is_ours {
            true => self.go_live(install.child),
            false => self.waiting_shares.push_back((now + PAUSE, install.child)),
        }
    }

    /// Sends packets under a new child that the peer has sent a packet under.
    pub(super) fn note_share_received(&mut self, child: ChildId) {
        let waiting = self.waiting_shares.len();
        self.waiting_shares.retain(|(_, own)| *own != child);
        if self.waiting_shares.len() < waiting {
            self.go_live(child);
        }
    }

    /// Sends packets under the children whose pauses have ended.
    pub(super) fn use_shares(&mut self, now: Instant) {
        while let Some((_, child)) = self.waiting_shares.pop_front_if(|(at, _)| *at <= now) {
            self.go_live(child);
        }
    }

    /// Returns the number of children that share the flows of a peer, or soon will, the first one included.
    fn count(&self, place: usize) -> usize {
        let is_own =
            |id: &ChildId| self.children.get(id).is_some_and(|own| own.place == place && !own.is_live);
        let waiting = self.waiting_shares.iter().filter(|(_, child)| is_own(child)).count();
        let snapshot = self.peers.database().snapshot();
        1 + waiting + snapshot.outbound.get(&self.known[place].id).map_or(0, Outbounds::shares)
    }

    /// Returns whether a new child shares the flows of the peer's first one.
    pub(super) fn is_share(&self, install: &Install) -> bool {
        let replaced = install.replaces.and_then(|old| self.children.get(&old));
        install.resource.is_some() || replaced.is_some_and(|old| old.is_share)
    }

    /// Notes that a child for a resource was made, or that no request for one is under way any more.
    pub(super) fn end_share_request(&mut self, place: usize) {
        self.known[place].shares.asked = None;
    }

    /// Notes that a child for a resource has ended without a successor.
    pub(super) fn pause_shares(&mut self, place: usize, now: Instant) {
        self.known[place].shares.not_before = Some(now + PAUSE);
    }

    /// Handles the peer's refusal of another child.
    pub(super) fn refuse_share(&mut self, place: usize, reason: &Reason, now: Instant) {
        self.limit_shares(place);
        let Shares { allowed, configured, .. } = self.known[place].shares;
        // Both ends may have asked for the last child.
        if allowed < configured {
            let message = format!("{allowed} of {configured} pairs of associations: {reason}");
            self.tell_about(place, message, now);
        }
    }

    /// Notes that the peer, or this gateway, has refused another child.
    pub(super) fn limit_shares(&mut self, place: usize) {
        self.end_share_request(place);
        self.known[place].shares.allowed = self.count(place);
        self.tell_lanes_of_shares(place);
        self.peers.database().withdraw(Request::Share(self.known[place].id));
    }

    /// Divides the peer's flows into as many shares as there may be children.
    pub(super) fn tell_lanes_of_shares(&self, place: usize) {
        let known = &self.known[place];
        if known.shares.configured > 1 {
            self.peers.database().set_shares(known.id, known.shares.allowed);
        }
    }
}

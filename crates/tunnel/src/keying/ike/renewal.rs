//! Another IKE SA in place of one that the peer does not let be renewed.
//!
//! The first association of an IKE SA takes no key exchange of its own, so ends that differ about one (perfect forward
//! secrecy) agree on the first and on no other. A new IKE SA has new keys, and its first association needs no more than
//! the one before.
//!
//! Guarantees: packets go by the old association until the new one is there; an IKE SA whose associations are all too
//! old does not stay.

use std::time::Instant;

use sealane_ike::{IkeId, Reason, wire::TransformType};
use sealane_ipsec::{lifetime::Age, policy::PeerId};

use super::{Ike, PAUSE_MAX};

/// The peer's refusal of a successor.
pub(super) struct Refused {
    /// It is an association's; otherwise it is the IKE SA's.
    pub(super) is_child: bool,
    /// Our proposals, as words.
    pub(super) proposals: String,
    /// The key exchange that the peer asks for.
    pub(super) wanted: Option<String>,
    pub(super) reason: Reason,
}

impl Refused {
    fn message(&self) -> String {
        let Self { is_child, proposals, wanted, reason } = self;
        let what = if *is_child { "association" } else { "IKE SA" };
        let wanted =
            wanted.as_ref().map_or_else(String::new, |wanted| format!(", and the peer asks for {wanted}"));
        let hint = match is_child {
            true => {
                ". The ends probably differ about PFS, a key exchange for each association, which the first one does not \
                 need: compare `esp-proposals` here with the peer's (pfs, or a group in its ESP proposals)"
            }
            false => "",
        };
        format!(
            "the peer refuses a successor of the {what}: {reason}; our proposals are {proposals}{wanted}{hint}. A new IKE SA is \
             begun in its place"
        )
    }
}

impl Ike<'_> {
    /// Logs that an association was not made.
    pub(super) fn tell_failed(&mut self, place: usize, reason: &Reason, now: Instant) {
        let is_about_pfs =
            matches!(reason, Reason::NoProposal(mismatch) if mismatch.kind == TransformType::KEY_EXCHANGE);
        let hint =
            if is_about_pfs { " (PFS: the ends differ about the key exchange of associations)" } else { "" };
        let message = format!("no association: {reason}{hint}");
        if !self.children.values().any(|child| child.place == place && child.is_live) {
            self.show_problem(place, Some(message.clone()));
        }
        self.tell_about(place, message, now);
    }

    /// Begins another IKE SA, because the peer refuses a successor of this one or of one of its associations.
    pub(super) fn renew_otherwise(&mut self, ike: IkeId, refused: &Refused, now: Instant) {
        let Some(stands) = self.sas.get_mut(&ike) else { return };
        stands.is_worn = true;
        let place = stands.place;
        self.tell_about(place, refused.message(), now);
        let known = &mut self.known[place];
        // Clients begin by themselves, and what they have ends with its keys.
        let is_early = known.not_before.is_some_and(|at| at > now);
        if known.is_many
            || is_early
            || self.is_closing
            || self.sas.values().any(|own| own.place == place && !own.is_worn)
        {
            return;
        }
        known.not_before = Some(now + known.pause);
        known.pause = (2 * known.pause).min(PAUSE_MAX);
        if self.find_way(place) {
            self.endpoint.initiate(place, Some(0), None, now);
        }
    }

    /// Ends the IKE SAs that `newer` takes the place of, because it carries traffic.
    pub(super) fn end_worn(&mut self, newer: IkeId, now: Instant) {
        let Some(place) = self.sas.get(&newer).map(|stands| stands.place) else { return };
        let worn = self.sas.iter().filter(|(ike, own)| **ike != newer && own.place == place && own.is_worn);
        let worn: Vec<IkeId> = worn.map(|(&ike, _)| ike).collect();
        worn.into_iter().for_each(|ike| self.endpoint.close(ike, now));
    }

    /// Ends the IKE SAs of a peer whose associations are too old to be used: nothing has renewed them in time.
    pub(super) fn end_expired(&mut self, peer: PeerId, now: Instant) {
        let of_peer =
            self.children.values().filter(|child| self.known[child.place].id == peer && child.is_live);
        let expired = of_peer.filter(|child| child.outbound.association().age(now) == Age::Hard);
        let expired: Vec<(IkeId, usize)> = expired.map(|child| (child.ike, child.place)).collect();
        for (ike, place) in expired {
            let message =
                "its associations have expired, and none has taken their place; a new IKE SA is begun";
            self.tell_about(place, message.to_owned(), now);
            self.endpoint.end(ike, &Reason::Lost, now);
        }
    }
}

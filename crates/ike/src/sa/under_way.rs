//! Requests of ours, and negotiations of either end, that are under way.
//!
//! Guarantees: these are values alone, and no message is made or sent here; the traffic in a peer's answer lies within
//! that of our request.

use std::time::Instant;

use super::{
    Parts,
    child::{Agreed, Trigger, esp_spi, list},
};
use crate::{
    crypto::{KeyExchange, Ongoing, SharedSecret},
    event::{Mode, Path, Reason},
    id::ChildId,
    keys::Nonces,
    message::Assembly,
    offer::{Choice, Offer},
    wire::{Exchange, NotifyType, Proposal, Spis, TrafficSelector},
};

/// The purpose of our request.
pub(super) enum InFlight {
    Init,
    /// An additional key exchange, with the bytes of the request that IntAuth covers.
    Intermediate {
        ongoing: Ongoing,
    },
    Auth,
    /// CREATE_CHILD_SA, or an IKE_FOLLOWUP_KE that follows it.
    Create(Box<Creating>),
    DeleteChild(ChildId),
    DeleteIke(Reason),
    Probe,
    Move,
    CheckPath {
        cookie: Vec<u8>,
        path: Path,
    },
}

/// Our request under way.
pub(super) struct Outstanding {
    pub(super) message_id: u32,
    pub(super) exchange: Exchange,
    pub(super) datagrams: Vec<Vec<u8>>,
    pub(super) sent: u32,
    /// The stream that it was sent along last.
    pub(super) along: Option<u32>,
    pub(super) next_at: Instant,
    pub(super) in_flight: InFlight,
    pub(super) assembly: Assembly,
}

/// Answers to the peer's requests.
#[derive(Default)]
pub(super) struct Replies {
    /// The number of the next request.
    pub(super) expected: u32,
    /// The answer to the previous request.
    pub(super) last: Vec<Vec<u8>>,
    pub(super) assembly: Assembly,
}

/// A negotiation of the other end that collides with ours: both create a successor of the same child or IKE SA. Once
/// both requests have been sent, both ends know from the nonces whose successor stays, although additional key
/// exchanges of either may be outstanding.
pub(super) struct Collision<T> {
    /// The other end's successor; `None` while its key exchanges are under way.
    pub(super) theirs: Option<T>,
    pub(super) lowest_nonce: Vec<u8>,
}

/// A child that we ask for.
pub(super) struct ChildGoal {
    pub(super) policy: usize,
    pub(super) replaces: Option<ChildId>,
    pub(super) inbound_spi: u32,
    pub(super) offers: Vec<Offer>,
    pub(super) trigger: Trigger,
    pub(super) mode: Mode,
    /// The name on the wire of the resource that it is for.
    pub(super) resource: Option<Vec<u8>>,
    /// The peer knows that the child is for a resource, or it is for none.
    pub(super) is_resource_known: bool,
    pub(super) local: Vec<TrafficSelector>,
    pub(super) remote: Vec<TrafficSelector>,
    pub(super) outbound_spi: u32,
    pub(super) collision: Option<Collision<ChildId>>,
}

pub(super) enum Goal {
    Child(Box<ChildGoal>),
    Ike(Box<IkeGoal>),
}

/// A negotiation of ours in CREATE_CHILD_SA and the exchanges that follow it.
pub(crate) struct Creating {
    pub(super) goal: Goal,
    pub(super) nonces: Nonces,
    pub(super) ongoing: Option<Ongoing>,
    pub(super) shared: Vec<SharedSecret>,
    /// The chosen algorithms, once they are known.
    pub(super) choice: Option<Choice>,
    /// Additional key exchanges that are still outstanding.
    pub(super) additional: Vec<KeyExchange>,
}

impl Creating {
    pub(super) fn inbound_spi(&self) -> Option<u32> {
        match &self.goal {
            Goal::Child(child) => Some(child.inbound_spi),
            Goal::Ike(_) => None,
        }
    }
}

impl ChildGoal {
    /// Returns whether the child is for a resource that has none yet.
    pub(super) fn is_new_resource(&self) -> bool {
        self.resource.is_some() && self.replaces.is_none()
    }

    /// Reads SPI, mode and traffic of an answer; the traffic must lie within that of the request.
    pub(super) fn take_answer(
        &mut self,
        answer: &Proposal,
        parts: &Parts,
        is_behind_nat: bool,
    ) -> Result<(), Reason> {
        let broken = |problem: &str| Reason::Protocol(problem.to_owned());
        self.outbound_spi = esp_spi(answer).ok_or_else(|| broken("its SPI is none of a child"))?;
        let is_transport = parts.has(NotifyType::USE_TRANSPORT_MODE);
        if is_transport && self.mode != Mode::Transport {
            return Err(broken("it chose transport mode, which was not offered"));
        }
        if is_transport && is_behind_nat {
            return Err(broken("it chose transport mode, which does not pass the NAT on the way"));
        }
        self.mode = if is_transport { Mode::Transport } else { Mode::Tunnel };
        let (Some(local), Some(remote)) = (&parts.selectors_initiator, &parts.selectors_responder) else {
            return Err(broken("it names no traffic"));
        };
        let within = |theirs: &[TrafficSelector], ours: &[TrafficSelector]| {
            !theirs.is_empty() && theirs.iter().all(|theirs| ours.iter().any(|ours| ours.contains(theirs)))
        };
        if !within(local, &self.local) || !within(remote, &self.remote) {
            return Err(Reason::Selectors {
                ours: format!("{} to {}", list(&self.local), list(&self.remote)),
                theirs: format!("{} to {}", list(local), list(remote)),
            });
        }
        (self.local, self.remote) = (local.clone(), remote.clone());
        // The resource of a child that is rekeyed stays, whether it is named or not (RFC 9611, section 3).
        self.is_resource_known = !self.is_new_resource() || parts.has(NotifyType::SA_RESOURCE_INFO);
        Ok(())
    }
}

/// A successor that we request.
pub(super) struct IkeGoal {
    pub(super) spis: Spis,
    /// The collision with the peer's successor, which is given by our SPI.
    pub(super) collision: Option<Collision<u64>>,
}

/// A negotiation of the peer that continues in IKE_FOLLOWUP_KE.
pub(crate) struct Followup {
    pub(super) link: Vec<u8>,
    pub(super) additional: Vec<KeyExchange>,
    pub(super) nonces: Nonces,
    pub(super) shared: Vec<SharedSecret>,
    pub(super) goal: FollowupGoal,
    /// Whether a colliding negotiation of ours, for a successor of the same child or IKE SA, has won in the meantime.
    pub(super) is_loser: bool,
}

pub(super) enum FollowupGoal {
    Child { agreed: Box<Agreed>, inbound_spi: u32, replaces: Option<ChildId> },
    Ike { choice: Box<Choice>, spis: Spis },
}

impl Followup {
    /// Returns whether it is about a successor of the IKE SA.
    pub(super) fn is_of_ike(&self) -> bool {
        matches!(self.goal, FollowupGoal::Ike { .. })
    }

    pub(super) fn inbound_spi(&self) -> Option<u32> {
        match &self.goal {
            FollowupGoal::Child { inbound_spi, .. } => Some(*inbound_spi),
            FollowupGoal::Ike { .. } => None,
        }
    }
}

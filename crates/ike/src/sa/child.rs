//! Children: pairs of ESP or AH associations, and the agreement of both ends about one (RFC 7296, sections 2.8 and 2.9).
//!
//! Guarantees: traffic of a child lies within our policy and within the peer's agreement; the responder of a rekeying
//! sends under the new keys only after the initiator is known to have them.

use std::time::Instant;

use super::{Addresses, Context, Parts, Sa};
use crate::{
    config::{ChildPolicy, Peer},
    crypto::SharedSecret,
    event::{Direction, Event, Install, Mode, Reason},
    id::ChildId,
    keys::{ChildKeys, Nonces},
    offer::{self, Choice, Exchanges, Offer},
    wire::{NotifyType, Payload, Payloads, Proposal, Protocol, TrafficSelector, selector::narrow},
};

/// Longest name of a resource that is accepted, in bytes.
const MAX_RESOURCE_BYTES: usize = 64;

/// The selectors of the packet that a child is requested for, ours first.
pub(super) type Trigger = Option<(TrafficSelector, TrafficSelector)>;

/// The state of a child.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// The child carries traffic, or will.
    Active,
    /// Another child has taken its place; the end that made that child deletes this one.
    Replaced {
        /// The other child.
        by: ChildId,
    },
    /// The child lost against another rekeying; the end that made it deletes it.
    Redundant,
}

/// A pair of associations.
#[derive(Debug)]
pub(crate) struct Child {
    pub(crate) id: ChildId,
    pub(super) protocol: Protocol,
    pub(crate) policy: usize,
    pub(crate) inbound_spi: u32,
    pub(crate) outbound_spi: u32,
    pub(crate) standing: Standing,
    pub(crate) rekey_at: Option<Instant>,
    pub(crate) is_outbound_live: bool,
    pub(super) mode: Mode,
    pub(super) resource: Option<Vec<u8>>,
    pub(super) local: Vec<TrafficSelector>,
    pub(super) remote: Vec<TrafficSelector>,
    /// Number of times that the peer has refused a successor.
    pub(super) refusals: u32,
    /// When we delete the child if the peer, which should, has not.
    pub(super) ends_at: Option<Instant>,
}

impl Child {
    /// Ends the child.
    pub(crate) fn end(self, context: &mut Context<'_>, reason: &Reason) {
        context.output.esp_spis.remove(&self.inbound_spi);
        context.output.event(Event::Remove { child: self.id, reason: reason.clone() });
    }

    pub(super) fn go_live(&mut self, context: &mut Context<'_>) {
        if !self.is_outbound_live {
            self.is_outbound_live = true;
            context.output.event(Event::UseOutbound { child: self.id });
        }
    }
}

/// The agreement about a child of the peer.
pub(super) struct Agreed {
    pub(super) policy: usize,
    pub(super) choice: Choice,
    pub(super) reply: Proposal,
    pub(super) outbound_spi: u32,
    pub(super) mode: Mode,
    pub(super) local: Vec<TrafficSelector>,
    pub(super) remote: Vec<TrafficSelector>,
    pub(super) resource: Option<Vec<u8>>,
    /// Whether another child could carry traffic of the peer's request that this one does not.
    is_more_possible: bool,
}

/// The refusal of a request: the notification for the peer, and the reason for the owner.
pub(super) type Refusal = (NotifyType, Vec<u8>, Reason);

/// Returns a policy's selectors, preceded by those of the packet that needs the child (RFC 7296, section 2.9).
pub(super) fn with_trigger(
    policy: &ChildPolicy,
    addresses: &Addresses,
    trigger: Trigger,
) -> (Vec<TrafficSelector>, Vec<TrafficSelector>) {
    let (local, remote) = trigger.unzip();
    let sides = addresses.sides(policy);
    (local.into_iter().chain(sides.0).collect(), remote.into_iter().chain(sides.1).collect())
}

/// Writes the payloads that ask for a child, except for nonce and key exchange.
pub(super) fn write_request(
    payloads: &mut Payloads,
    mode: Mode,
    offers: &[Offer],
    inbound_spi: u32,
    local: &[TrafficSelector],
    remote: &[TrafficSelector],
) {
    if mode == Mode::Transport {
        payloads.notify(NotifyType::USE_TRANSPORT_MODE, []);
    }
    let spi = inbound_spi.to_be_bytes();
    let proposals = (1..).zip(offers).map(|(number, offer)| offer.to_wire(number, spi.to_vec()));
    payloads.push(&Payload::SecurityAssociation(proposals.collect()));
    payloads.push(&Payload::SelectorsInitiator(local.to_vec()));
    payloads.push(&Payload::SelectorsResponder(remote.to_vec()));
}

pub(super) fn list(selectors: &[TrafficSelector]) -> String {
    selectors.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

pub(super) fn esp_spi(proposal: &Proposal) -> Option<u32> {
    let spi = u32::from_be_bytes(proposal.spi.as_slice().try_into().ok()?);
    (spi >= 0x100).then_some(spi)
}

pub(super) fn protocol_refusal(problem: &str) -> Refusal {
    (NotifyType::INVALID_SYNTAX, Vec::new(), Reason::Protocol(problem.to_owned()))
}

/// Finds the policy of a request, and the algorithms and traffic that both ends have in common.
pub(super) fn agree(
    peer: &Peer,
    addresses: &Addresses,
    parts: &Parts,
    exchanges: Exchanges,
    replaces: Option<&Child>,
    is_behind_nat: bool,
) -> Result<Agreed, Refusal> {
    let theirs = parts.proposals.as_deref().ok_or_else(|| protocol_refusal("it proposes nothing"))?;
    let (Some(remote), Some(local)) = (&parts.selectors_initiator, &parts.selectors_responder) else {
        return Err(protocol_refusal("it names no traffic"));
    };
    if peer.pool.is_some() && addresses.theirs.is_empty() {
        let reason = Reason::Protocol("it asks for a child and for no address of the pool".to_owned());
        return Err((NotifyType::FAILED_CP_REQUIRED, Vec::new(), reason));
    }
    let mut refusal = None;
    // A rekeying finds the same policy again, whatever the other policies contain.
    let first = replaces.map(|child| child.policy);
    let order = first.into_iter().chain((0..peer.children.len()).filter(|&index| Some(index) != first));
    for (policy, child) in order.filter_map(|index| Some((index, peer.children.get(index)?))) {
        let (ours, theirs_side) = addresses.sides(child);
        let narrowed = (narrow(&ours, local), narrow(&theirs_side, remote));
        if narrowed.0.is_empty() || narrowed.1.is_empty() {
            continue;
        }
        let (choice, reply) = match offer::select(&child.proposals, theirs, exchanges) {
            Ok(chosen) => chosen,
            Err(mismatch) => {
                let kind = NotifyType::NO_PROPOSAL_CHOSEN;
                refusal.get_or_insert((kind, Vec::new(), Reason::NoProposal(mismatch)));
                continue;
            }
        };
        let outbound_spi = theirs.iter().find(|theirs| theirs.number == reply.number).and_then(esp_spi);
        let outbound_spi = outbound_spi.ok_or_else(|| protocol_refusal("its SPI is none of a child"))?;
        let is_transport =
            child.mode == Mode::Transport && parts.has(NotifyType::USE_TRANSPORT_MODE) && !is_behind_nat;
        let mode = if is_transport { Mode::Transport } else { Mode::Tunnel };
        let is_more_possible =
            peer.children.iter().enumerate().filter(|(index, _)| *index != policy).any(|(_, other)| {
                let sides = addresses.sides(other);
                // A part of this policy adds nothing.
                let is_part = |part: &[TrafficSelector], whole: &[TrafficSelector]| {
                    part.iter().all(|part| whole.iter().any(|whole| whole.contains(part)))
                };
                let is_same = is_part(&sides.0, &ours) && is_part(&sides.1, &theirs_side);
                !is_same && !narrow(&sides.0, local).is_empty() && !narrow(&sides.1, remote).is_empty()
            });
        return Ok(Agreed {
            policy,
            choice,
            reply,
            outbound_spi,
            mode,
            local: narrowed.0,
            remote: narrowed.1,
            // The first child is for no resource, whatever its request says.
            resource: resource(parts)
                .filter(|_| exchanges != Exchanges::None)
                .or_else(|| replaces?.resource.clone()),
            is_more_possible,
        });
    }
    Err(refusal.unwrap_or_else(|| {
        let ours = peer
            .children
            .iter()
            .take(16)
            .map(|child| format!("{} to {}", list(&child.local), list(&child.remote)));
        let reason = Reason::Selectors {
            ours: ours.collect::<Vec<_>>().join(" or "),
            theirs: format!("{} to {}", list(local), list(remote)),
        };
        (NotifyType::TS_UNACCEPTABLE, Vec::new(), reason)
    }))
}

/// Returns the peer's name for the resource that it requests a child for (RFC 9611, section 5.1).
fn resource(parts: &Parts) -> Option<Vec<u8>> {
    let data = &parts.notify(NotifyType::SA_RESOURCE_INFO)?.data;
    (data.len() <= MAX_RESOURCE_BYTES).then(|| data.clone())
}

impl Agreed {
    pub(super) fn write_answer(&self, payloads: &mut Payloads, inbound_spi: u32) {
        if self.mode == Mode::Transport {
            payloads.notify(NotifyType::USE_TRANSPORT_MODE, []);
        }
        let reply = Proposal { spi: inbound_spi.to_be_bytes().to_vec(), ..self.reply.clone() };
        payloads.push(&Payload::SecurityAssociation(vec![reply]));
        payloads.push(&Payload::SelectorsInitiator(self.remote.clone()));
        payloads.push(&Payload::SelectorsResponder(self.local.clone()));
        if let Some(resource) = &self.resource {
            payloads.notify(NotifyType::SA_RESOURCE_INFO, resource.clone());
        }
        if self.is_more_possible {
            payloads.notify(NotifyType::ADDITIONAL_TS_POSSIBLE, []);
        }
    }
}

/// A child that is completely negotiated, but not installed yet.
pub(super) struct Made {
    pub(super) policy: usize,
    pub(super) choice: Choice,
    pub(super) inbound_spi: u32,
    pub(super) outbound_spi: u32,
    pub(super) mode: Mode,
    pub(super) local: Vec<TrafficSelector>,
    pub(super) remote: Vec<TrafficSelector>,
    pub(super) resource: Option<Vec<u8>>,
    pub(super) replaces: Option<ChildId>,
    /// Whether we requested the child, so that the peer already has it.
    pub(super) is_ours: bool,
    /// Whether packets are sent under it from the start.
    pub(super) is_live: bool,
}

impl Sa {
    pub(super) fn child(&mut self, id: ChildId) -> Option<&mut Child> {
        self.children.iter_mut().find(|child| child.id == id)
    }

    pub(super) fn install(
        &mut self,
        context: &mut Context<'_>,
        made: Made,
        nonces: &Nonces,
        shared: &[SharedSecret],
    ) -> Option<ChildId> {
        let (plan, keys) = (self.plan?, self.keys.as_ref()?);
        let suite = made.choice.child_suite();
        let material = ChildKeys::derive(plan.prf, &keys.derive, nonces, shared, suite.material_bytes());
        let (send, receive) = if made.is_ours {
            (material.from_initiator, material.from_responder)
        } else {
            (material.from_responder, material.from_initiator)
        };
        let id = context.output.child_id();
        let is_outbound_live = made.is_live;
        let rekey_at = self.peer.child_lifetime.map(|lifetime| {
            // The end that requested the child renews it; the other end does so a little later if that did not
            // happen.
            let lifetime = if made.is_ours { lifetime } else { lifetime + lifetime / 8 };
            context.random.later(context.now + lifetime, lifetime / 4)
        });
        context.output.event(Event::Install(Box::new(Install {
            ike: self.id,
            child: id,
            peer: self.peer_index,
            policy: made.policy,
            inbound: Direction { spi: made.inbound_spi, material: receive },
            outbound: Direction { spi: made.outbound_spi, material: send },
            suite,
            mode: made.mode,
            is_encapsulated: self.nat.is_encapsulated(),
            path: self.path,
            local: made.local.clone(),
            remote: made.remote.clone(),
            resource: made.resource.clone(),
            replaces: made.replaces,
            is_outbound_live,
            is_ours: made.is_ours,
        })));
        self.children.push(Child {
            id,
            protocol: suite.protocol(),
            policy: made.policy,
            inbound_spi: made.inbound_spi,
            outbound_spi: made.outbound_spi,
            standing: Standing::Active,
            rekey_at,
            is_outbound_live,
            mode: made.mode,
            resource: made.resource,
            local: made.local,
            remote: made.remote,
            refusals: 0,
            ends_at: None,
        });
        Some(id)
    }

    /// Marks a child that lost against another one; the end that made it deletes it.
    pub(super) fn make_redundant(&mut self, id: ChildId) {
        if let Some(child) = self.child(id) {
            child.standing = Standing::Redundant;
            child.rekey_at = None;
        }
    }

    /// Marks `old`, if it still exists, as replaced by a child of the peer, which deletes `old`.
    pub(super) fn replace_by(&mut self, old: ChildId, by: ChildId) {
        if let Some(child) = self.child(old) {
            child.standing = Standing::Replaced { by };
            child.rekey_at = None;
        }
    }
}

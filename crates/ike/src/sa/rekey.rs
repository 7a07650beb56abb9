//! Rekeying of an IKE SA (RFC 7296, sections 1.3.2, 2.8 and 2.18).
//!
//! Guarantees: children and waiting tasks belong to exactly one IKE SA at any time; of two colliding rekeyings both
//! ends keep the same successor.

use std::collections::VecDeque;

use super::{
    Child, Context, HandOver, Parts, Phase, Role, Sa, Task,
    answer::{self, Then},
    child::Refusal,
    under_way::{Collision, Creating, FollowupGoal, Goal, IkeGoal, InFlight},
};
use crate::{
    crypto::{KeyExchange, Ongoing, SharedSecret},
    event::{Event, Reason},
    keys::{IkeKeys, Nonces, rekeyed_seed},
    offer::{self, Choice, Exchanges, Offer},
    wire::{Exchange, NotifyType, Payload, Payloads, Proposal, Spis},
};

impl Sa {
    /// Requests a successor of this IKE SA.
    pub(super) fn request_rekey(&mut self, context: &mut Context<'_>, method: Option<KeyExchange>) {
        let peer = self.peer.clone();
        let method = method.or_else(|| peer.proposals.first().and_then(Offer::first_exchange));
        let Some(method) = method else { return };
        let ongoing = match Ongoing::begin(method) {
            Ok(ongoing) => ongoing,
            Err(error) => return self.fail(context, error.into()),
        };
        let spi = context.random.ike_spi();
        let nonce = context.random.nonce();
        let mut payloads = Payloads::new();
        let proposals = (1..).zip(&peer.proposals);
        let proposals = proposals.map(|(number, offer)| offer.to_wire(number, spi.to_be_bytes().to_vec()));
        payloads.push(&Payload::SecurityAssociation(proposals.collect()));
        payloads.push(&Payload::Nonce(nonce.clone()));
        payloads.push(&Payload::KeyExchange { method: method.number(), data: ongoing.public().to_vec() });
        let goal = IkeGoal { spis: Spis { initiator: spi, responder: 0 }, collision: None };
        let creating = Creating {
            goal: Goal::Ike(Box::new(goal)),
            nonces: Nonces { initiator: nonce, responder: Vec::new() },
            ongoing: Some(ongoing),
            shared: Vec::new(),
            choice: None,
            additional: Vec::new(),
        };
        self.request(context, Exchange::CreateChild, &payloads, InFlight::Create(Box::new(creating)));
    }

    /// Returns an IKE SA with new keys and no other state.
    fn successor(
        &self,
        context: &mut Context<'_>,
        role: Role,
        choice: &Choice,
        spis: Spis,
        nonces: &Nonces,
        shared: &[SharedSecret],
    ) -> Result<Self, Reason> {
        let missing = || Reason::Protocol("a successor without keys".to_owned());
        let (old, keys) = (self.plan.ok_or_else(missing)?, self.keys.as_ref().ok_or_else(missing)?);
        let plan = choice.key_plan().ok_or_else(missing)?;
        if shared.is_empty() {
            return Err(missing());
        }
        let seed = rekeyed_seed(old.prf, &keys.derive, nonces, shared);
        let keys = IkeKeys::derive(plan, &seed, nonces, spis)?;
        let phase = Phase::Established;
        let mut next = Self::new(
            self.id,
            role,
            spis,
            (self.peer_index, self.peer.clone()),
            self.path,
            phase,
            context.now,
        );
        (next.keys, next.plan) = (Some(keys), Some(plan));
        (next.nat, next.features, next.holder) = (self.nat, self.features.clone(), self.holder.clone());
        next.chain.clone_from(&self.chain);
        next.addresses = self.addresses.clone();
        (next.stands_since, next.origin, next.began) = (self.stands_since, self.origin, self.began);
        next.schedule(context);
        Ok(next)
    }

    /// Moves children and tasks to `next`; this IKE SA then waits for its deletion.
    fn hand_over_to(&mut self, context: &mut Context<'_>, next: &mut Self) {
        next.take_over(context, std::mem::take(&mut self.children), self.take_tasks());
        self.retire(context);
    }

    /// Moves children and tasks to a successor that already belongs to the endpoint.
    fn hand_over_by_spi(&mut self, context: &mut Context<'_>, spi: u64) {
        let children = std::mem::take(&mut self.children);
        let tasks = self.take_tasks();
        let (ike, peer) = (self.id, self.peer_index);
        context.output.handed_over.push(HandOver { ike, peer, to: spi, children, tasks });
        self.retire(context);
    }

    fn retire(&mut self, context: &mut Context<'_>) {
        self.become_spare(context);
        context.output.event(Event::Rekeyed { ike: self.id });
    }

    /// Marks the IKE SA as one without children.
    fn become_spare(&mut self, context: &Context<'_>) {
        self.phase = Phase::Spare;
        self.is_spare = true;
        self.rekey_at = None;
        self.keepalive_at = None;
        self.expires_at = Some(context.now + context.settings.retransmission.total());
    }

    /// Receives the children and tasks of the predecessor, and takes its place.
    pub(crate) fn take_over(
        &mut self,
        context: &mut Context<'_>,
        children: Vec<Child>,
        tasks: VecDeque<Task>,
    ) {
        if self.is_spare {
            self.phase = Phase::Established;
            self.is_spare = false;
            self.expires_at = None;
            self.schedule(context);
        }
        self.children.extend(children);
        tasks.into_iter().for_each(|task| self.enqueue(task));
        self.run_tasks(context);
    }

    /// Completes our successor after both ends have agreed.
    pub(super) fn finish_rekey(
        &mut self,
        context: &mut Context<'_>,
        goal: IkeGoal,
        choice: &Choice,
        nonces: &Nonces,
        shared: &[SharedSecret],
    ) {
        let next = self.successor(context, Role::Initiator, choice, goal.spis, nonces, shared);
        let mut next = match next {
            Ok(next) => next,
            Err(reason) => return self.fail(context, reason),
        };
        match goal.collision {
            Some(collision) if nonces.lowest() < collision.lowest_nonce.as_slice() => {
                // Our successor lost: we delete it, and the peer deletes this IKE SA. The peer's successor gets the
                // children and tasks once it has its keys.
                if let Some(theirs) = collision.theirs {
                    self.hand_over_by_spi(context, theirs);
                }
                next.rekey_at = None;
                next.is_spare = true;
                next.enqueue(Task::DeleteIke(Reason::Replaced));
            }
            collision => {
                if collision.is_some_and(|collision| collision.theirs.is_none()) {
                    self.followup_loses();
                }
                self.hand_over_to(context, &mut next);
                self.request_deletion(context, Reason::Replaced);
            }
        }
        next.run_tasks(context);
        context.output.spawned.push(next);
    }

    pub(super) fn give_up_rekey(
        &mut self,
        context: &mut Context<'_>,
        goal: IkeGoal,
        reason: Reason,
        parts: &Parts,
    ) {
        if let Some(collision) = goal.collision {
            if let Some(theirs) = collision.theirs {
                self.hand_over_by_spi(context, theirs);
            }
            return;
        }
        let wanted = parts.wanted_exchange();
        let first = self.peer.proposals.first().and_then(Offer::first_exchange);
        let offered =
            |wanted: &KeyExchange| self.peer.proposals.iter().any(|offer| offer.has_exchange(*wanted));
        let wanted = wanted.filter(offered).filter(|wanted| Some(*wanted) != first);
        if reason == (Reason::Refused { kind: NotifyType::INVALID_KE_PAYLOAD }) && wanted.is_some() {
            return self.request_rekey(context, wanted);
        }
        if reason == (Reason::Refused { kind: NotifyType::TEMPORARY_FAILURE }) {
            return self.retry(context, Task::RekeyIke);
        }
        self.retry_after(context, Task::RekeyIke, self.refusals);
        self.refusals += 1;
        let proposals = offer::list(&self.peer.proposals);
        let wanted = parts.wanted_exchange().map(|method| method.name().to_owned());
        context.output.event(Event::RekeyRefused { ike: self.id, child: None, proposals, wanted, reason });
    }

    /// Judges a request to rekey this IKE SA.
    pub(super) fn answer_rekey(
        &mut self,
        context: &mut Context<'_>,
        parts: &Parts,
    ) -> Result<(Payloads, Then), Refusal> {
        let is_busy = matches!(self.creating(), Some(Creating { goal: Goal::Child(_), .. }));
        if is_busy || self.deleting().is_some() {
            let reason = Reason::Protocol("it rekeys the IKE SA while a child is made or ended".to_owned());
            return Err((NotifyType::TEMPORARY_FAILURE, Vec::new(), reason));
        }
        let broken =
            |problem: &str| (NotifyType::INVALID_SYNTAX, Vec::new(), Reason::Protocol(problem.to_owned()));
        let theirs = parts.proposals.as_deref().unwrap_or_default();
        let nonce = parts.nonce.clone().ok_or_else(|| broken("it sends no nonce"))?;
        let (choice, reply) = offer::select(&self.peer.proposals, theirs, Exchanges::Required)
            .map_err(|mismatch| (NotifyType::NO_PROPOSAL_CHOSEN, Vec::new(), Reason::NoProposal(mismatch)))?;
        let spi = theirs.iter().find(|theirs| theirs.number == reply.number).map(|theirs| &theirs.spi);
        let spi = spi.and_then(|spi| <[u8; 8]>::try_from(spi.as_slice()).ok()).map(u64::from_be_bytes);
        let initiator = spi.filter(|&spi| spi != 0).ok_or_else(|| broken("its SPI is none of IKE"))?;
        let spis = Spis { initiator, responder: context.random.ike_spi() };
        let exchanged = answer::exchange(&choice, parts)?;
        let nonces = Nonces { initiator: nonce, responder: context.random.nonce() };
        let mut payloads = Payloads::new();
        let reply = Proposal { spi: spis.responder.to_be_bytes().to_vec(), ..reply };
        payloads.push(&Payload::SecurityAssociation(vec![reply]));
        let additional = choice.additional.clone();
        let goal = FollowupGoal::Ike { choice: Box::new(choice), spis };
        Ok(answer::answer_with(context, payloads, exchanged, nonces, additional, goal))
    }

    /// Completes the peer's successor, whose keys are known.
    pub(super) fn accept_rekey(
        &mut self,
        context: &mut Context<'_>,
        choice: &Choice,
        spis: Spis,
        nonces: &Nonces,
        shared: &[SharedSecret],
        is_loser: bool,
    ) {
        let next = self.successor(context, Role::Responder, choice, spis, nonces, shared);
        let mut next = match next {
            Ok(next) => next,
            Err(reason) => return self.fail(context, reason),
        };
        if is_loser {
            next.become_spare(context);
        } else if let Some(Creating { goal: Goal::Ike(goal), .. }) = self.creating() {
            // The answer to our request will show which successor stays; until then the peer's has no children. If
            // ours wins, the peer deletes its own.
            let lowest_nonce = nonces.lowest().to_vec();
            goal.collision = Some(Collision { theirs: Some(spis.responder), lowest_nonce });
            next.become_spare(context);
        } else {
            self.hand_over_to(context, &mut next);
        }
        context.output.spawned.push(next);
    }

    /// Handles the peer's deletion of this IKE SA while our request to rekey it is under way: if the peer has a
    /// successor of its own, that one stays.
    pub(super) fn yield_to_collision(&mut self, context: &mut Context<'_>) {
        let Some(Creating { goal: Goal::Ike(goal), .. }) = self.creating() else { return };
        if let Some(theirs) = goal.collision.take().and_then(|collision| collision.theirs) {
            self.hand_over_by_spi(context, theirs);
        }
    }
}

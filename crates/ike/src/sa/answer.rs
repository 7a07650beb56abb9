//! Children that the peer asks for: the responder of CREATE_CHILD_SA and IKE_FOLLOWUP_KE (RFC 7296, section 1.3; RFC
//! 9370).
//!
//! Guarantees: a child is made after its last key exchange; only one negotiation of the peer is under way at a time;
//! a refusal has the notification that says what the peer should do next.

use super::{
    Context, Incoming, MAX_CHILDREN, Parts, Phase, Sa,
    child::{Agreed, Child, Made, Refusal, Standing, agree, protocol_refusal},
    under_way::{Collision, Creating, Followup, FollowupGoal, Goal},
};
use crate::{
    crypto::{KeyExchange, SharedSecret, exchange as key_exchange},
    event::{Event, Reason},
    id::ChildId,
    keys::Nonces,
    offer::{Choice, Exchanges},
    wire::{Notify, NotifyType, Payload, Payloads, Protocol},
};

/// A child that a child of the peer is to replace.
struct Replaced {
    child: ChildId,
    /// Whether a child of ours has definitely replaced it.
    is_by_ours: bool,
}

/// The steps after an answer to CREATE_CHILD_SA.
pub(super) enum Then {
    /// More key exchanges follow.
    Followup(Box<Followup>),
    /// No exchange follows: the keys are known.
    Finish(Box<Followup>),
}

/// Performs our half of the first key exchange of a request, if one was chosen.
pub(super) fn exchange(
    choice: &Choice,
    parts: &Parts,
) -> Result<Option<(u16, Vec<u8>, SharedSecret)>, Refusal> {
    let Some(method) = choice.exchange else { return Ok(None) };
    match &parts.exchange {
        Some((number, data)) if *number == method.number() => {
            let (public, shared) = key_exchange::respond(method, data)
                .map_err(|error| (NotifyType::INVALID_SYNTAX, Vec::new(), Reason::Crypto(error)))?;
            Ok(Some((*number, public, shared)))
        }
        _ => {
            let wanted = method.number().to_be_bytes().to_vec();
            let reason = Reason::Protocol("it guessed another key exchange".to_owned());
            Err((NotifyType::INVALID_KE_PAYLOAD, wanted, reason))
        }
    }
}

/// Completes an answer to CREATE_CHILD_SA with nonce, public value and the link to further exchanges.
pub(super) fn answer_with(
    context: &mut Context<'_>,
    mut payloads: Payloads,
    exchanged: Option<(u16, Vec<u8>, SharedSecret)>,
    nonces: Nonces,
    additional: Vec<KeyExchange>,
    goal: FollowupGoal,
) -> (Payloads, Then) {
    payloads.push(&Payload::Nonce(nonces.responder.clone()));
    let mut shared = Vec::new();
    if let Some((method, data, secret)) = exchanged {
        payloads.push(&Payload::KeyExchange { method, data });
        shared.push(secret);
    }
    let link = context.random.bytes::<16>().to_vec();
    let is_done = additional.is_empty();
    if !is_done {
        payloads.notify(NotifyType::ADDITIONAL_KEY_EXCHANGE, link.clone());
    }
    let followup = Box::new(Followup { link, additional, nonces, shared, goal, is_loser: false });
    (payloads, if is_done { Then::Finish(followup) } else { Then::Followup(followup) })
}

impl Sa {
    /// Answers, as the responder, the request for a child in IKE_AUTH; the answer follows our proof. If the child is
    /// refused, the IKE SA is established without it.
    pub(super) fn answer_first_child(
        &mut self,
        context: &mut Context<'_>,
        nonces: &Nonces,
        parts: &Parts,
        payloads: &mut Payloads,
    ) {
        let agreed = match agree(
            &self.peer,
            &self.addresses,
            parts,
            Exchanges::None,
            None,
            self.nat.is_encapsulated(),
        ) {
            Ok(agreed) => agreed,
            Err((kind, data, reason)) => {
                payloads.notify(kind, data);
                return context.output.event(Event::ChildFailed {
                    ike: self.id,
                    policy: None,
                    resource: None,
                    reason,
                });
            }
        };
        let inbound_spi = context.esp_spi();
        agreed.write_answer(payloads, inbound_spi);
        self.accept(context, agreed, inbound_spi, None, nonces, &[]);
    }

    fn accept(
        &mut self,
        context: &mut Context<'_>,
        agreed: Agreed,
        inbound_spi: u32,
        replaces: Option<Replaced>,
        nonces: &Nonces,
        shared: &[SharedSecret],
    ) {
        let Agreed { policy, choice, outbound_spi, mode, local, remote, resource, .. } = agreed;
        let made = Made {
            policy,
            choice,
            inbound_spi,
            outbound_spi,
            mode,
            local,
            remote,
            resource,
            replaces: replaces.as_ref().map(|replaced| replaced.child),
            is_ours: false,
            is_live: replaces.is_none(),
        };
        let Some(new) = self.install(context, made, nonces, shared) else { return };
        let Some(Replaced { child: old, is_by_ours }) = replaces else { return };
        if is_by_ours {
            return self.make_redundant(new);
        }
        // Our own rekeying of the same child is under way; its answer will show which nonce is lowest.
        if let Some(Creating { goal: Goal::Child(goal), .. }) = self.creating()
            && goal.replaces == Some(old)
        {
            let lowest_nonce = nonces.lowest().to_vec();
            goal.collision = Some(Collision { theirs: Some(new), lowest_nonce });
            return;
        }
        if self.child(old).is_some() {
            self.replace_by(old, new);
        } else if let Some(child) = self.child(new) {
            child.go_live(context);
        }
    }

    /// Answers CREATE_CHILD_SA.
    pub(super) fn answer_create(&mut self, context: &mut Context<'_>, incoming: Incoming<'_>, parts: Parts) {
        let is_ike =
            parts.proposals.as_ref().is_some_and(|all| all.iter().any(|p| p.protocol == Protocol::Ike));
        let answered = if !matches!(self.phase, Phase::Established) {
            let reason = Reason::Protocol("it asks for something of an IKE SA that ends".to_owned());
            Err((NotifyType::TEMPORARY_FAILURE, Vec::new(), reason))
        } else if is_ike {
            self.answer_rekey(context, &parts)
        } else {
            self.answer_child(context, &parts)
        };
        match answered {
            Ok((payloads, then)) => {
                self.respond(context, incoming, &payloads);
                self.forget_followup(context);
                match then {
                    Then::Followup(followup) => {
                        self.note_collision(&followup);
                        self.followup = Some(followup);
                        self.followup_until = Some(context.now + context.settings.retransmission.total());
                    }
                    Then::Finish(followup) => self.finish_followup(context, *followup),
                }
            }
            Err((kind, data, reason)) => {
                let is_regular = matches!(
                    kind,
                    NotifyType::TEMPORARY_FAILURE
                        | NotifyType::INVALID_KE_PAYLOAD
                        | NotifyType::TS_MAX_QUEUE
                        | NotifyType::CHILD_SA_NOT_FOUND
                );
                if kind == NotifyType::CHILD_SA_NOT_FOUND {
                    let asked = parts.notify(NotifyType::REKEY_SA);
                    let (protocol, spi) =
                        asked.map(|asked| (asked.protocol, asked.spi.clone())).unwrap_or_default();
                    let mut payloads = Payloads::new();
                    payloads.push(&Payload::Notify(Notify { protocol, spi, kind, data: Vec::new() }));
                    self.respond(context, incoming, &payloads);
                } else {
                    self.refuse(context, incoming, kind, data);
                }
                if !is_regular {
                    context.output.event(Event::ChildFailed {
                        ike: self.id,
                        policy: None,
                        resource: None,
                        reason,
                    });
                }
            }
        }
    }

    /// Gives up the peer's earlier negotiation, because the peer begins a new one.
    pub(super) fn forget_followup(&mut self, context: &mut Context<'_>) {
        self.followup_until = None;
        if let Some(spi) = self.followup.take().and_then(|followup| followup.inbound_spi()) {
            context.output.esp_spis.remove(&spi);
        }
    }

    /// Notes the collision if a negotiation of ours is under way for a successor of the same child or IKE SA.
    fn note_collision(&mut self, followup: &Followup) {
        let lowest_nonce = followup.nonces.lowest().to_vec();
        match (&followup.goal, self.creating().map(|creating| &mut creating.goal)) {
            (FollowupGoal::Child { replaces: Some(old), .. }, Some(Goal::Child(goal)))
                if goal.replaces == Some(*old) =>
            {
                goal.collision = Some(Collision { theirs: None, lowest_nonce });
            }
            (FollowupGoal::Ike { .. }, Some(Goal::Ike(goal))) => {
                goal.collision = Some(Collision { theirs: None, lowest_nonce });
            }
            _ => {}
        }
    }

    /// Notes that ours has won against a negotiation of the peer whose key exchanges are not complete.
    pub(super) fn followup_loses(&mut self) {
        if let Some(followup) = &mut self.followup {
            followup.is_loser = true;
        }
    }

    fn answer_child(
        &mut self,
        context: &mut Context<'_>,
        parts: &Parts,
    ) -> Result<(Payloads, Then), Refusal> {
        let temporary =
            |problem: &str| (NotifyType::TEMPORARY_FAILURE, Vec::new(), Reason::Protocol(problem.to_owned()));
        if matches!(self.creating(), Some(Creating { goal: Goal::Ike(_), .. })) {
            return Err(temporary("it asks for a child while the IKE SA is rekeyed"));
        }
        // A child that is rekeyed exists beside its successor for a while.
        let most = if parts.has(NotifyType::REKEY_SA) { 2 * MAX_CHILDREN } else { MAX_CHILDREN };
        if self.children.len() >= most {
            let reason = Reason::Protocol(format!("it asks for more than {MAX_CHILDREN} children"));
            let is_queue = parts.has(NotifyType::SA_RESOURCE_INFO);
            let kind = if is_queue { NotifyType::TS_MAX_QUEUE } else { NotifyType::NO_ADDITIONAL_SAS };
            return Err((kind, Vec::new(), reason));
        }
        let replaces = match parts.notify(NotifyType::REKEY_SA) {
            None => None,
            Some(notify) => {
                let spi = <[u8; 4]>::try_from(&*notify.spi).map(u32::from_be_bytes).ok();
                let deleting = self.deleting();
                let child = self.children.iter().find(|child| Some(child.outbound_spi) == spi);
                // The request may have overtaken the answer that makes the child.
                let is_made = matches!(self.creating_now(), Some(Creating { goal: Goal::Child(_), .. }));
                if child.is_none() && is_made {
                    return Err(temporary("it rekeys a child that is being made"));
                }
                let child = child.ok_or((NotifyType::CHILD_SA_NOT_FOUND, Vec::new(), Reason::Lost))?;
                if child.standing != Standing::Active || deleting == Some(child.id) {
                    return Err(temporary("it rekeys a child that ends"));
                }
                Some(child)
            }
        };
        let nonce = parts.nonce.clone().ok_or_else(|| protocol_refusal("it sends no nonce"))?;
        let agreed = agree(
            &self.peer,
            &self.addresses,
            parts,
            Exchanges::Optional,
            replaces,
            self.nat.is_encapsulated(),
        )?;
        let replaces = replaces.map(|child| child.id);
        if replaces.is_none() && agreed.resource.is_some() {
            let room = self.room_for_resources(agreed.policy);
            if room == 0 {
                let reason = Reason::Protocol("it asks for more children beside the first".to_owned());
                return Err((NotifyType::TS_MAX_QUEUE, Vec::new(), reason));
            }
            // Each end may have asked for the last child that both allow.
            let is_ours_under_way = matches!(self.creating(), Some(Creating { goal: Goal::Child(goal), .. }) if goal.is_new_resource());
            if room == 1 && is_ours_under_way {
                return Err(temporary("it asks for a child at the same moment as we do"));
            }
        }
        let mut payloads = Payloads::new();
        let nonces = Nonces { initiator: nonce, responder: context.random.nonce() };
        let exchanged = exchange(&agreed.choice, parts)?;
        let inbound_spi = context.esp_spi();
        agreed.write_answer(&mut payloads, inbound_spi);
        let additional = agreed.choice.additional.clone();
        let goal = FollowupGoal::Child { agreed: Box::new(agreed), inbound_spi, replaces };
        Ok(answer_with(context, payloads, exchanged, nonces, additional, goal))
    }

    /// Returns the number of children for resources that a policy may still get.
    fn room_for_resources(&self, policy: usize) -> usize {
        let counts = |child: &&Child| {
            child.policy == policy && child.resource.is_some() && child.standing == Standing::Active
        };
        let most = self.peer.children.get(policy).map_or(0, |policy| usize::from(policy.resources));
        most.saturating_sub(self.children.iter().filter(counts).count())
    }

    /// Answers an additional key exchange of a negotiation that began in CREATE_CHILD_SA.
    pub(super) fn answer_followup(
        &mut self,
        context: &mut Context<'_>,
        incoming: Incoming<'_>,
        parts: &Parts,
    ) {
        let link = parts.notify(NotifyType::ADDITIONAL_KEY_EXCHANGE).map(|notify| &notify.data);
        let followup = self.followup.take().filter(|followup| Some(&followup.link) == link);
        self.followup_until = None;
        let Some(mut followup) = followup else {
            return self.refuse(context, incoming, NotifyType::STATE_NOT_FOUND, Vec::new());
        };
        let method = followup.additional.remove(0);
        let answered = match &parts.exchange {
            Some((number, data)) if *number == method.number() => key_exchange::respond(method, data).ok(),
            _ => None,
        };
        let Some((public, shared)) = answered else {
            if let Some(spi) = followup.inbound_spi() {
                context.output.esp_spis.remove(&spi);
            }
            return self.refuse(context, incoming, NotifyType::INVALID_SYNTAX, Vec::new());
        };
        followup.shared.push(shared);
        let mut payloads = Payloads::new();
        payloads.push(&Payload::KeyExchange { method: method.number(), data: public });
        let is_last = followup.additional.is_empty();
        if !is_last {
            payloads.notify(NotifyType::ADDITIONAL_KEY_EXCHANGE, followup.link.clone());
        }
        self.respond(context, incoming, &payloads);
        if is_last {
            self.finish_followup(context, *followup);
        } else {
            self.followup = Some(followup);
            self.followup_until = Some(context.now + context.settings.retransmission.total());
        }
    }

    /// Completes a negotiation of the peer after its last key exchange.
    fn finish_followup(&mut self, context: &mut Context<'_>, followup: Followup) {
        let Followup { nonces, shared, goal, is_loser, .. } = followup;
        match goal {
            FollowupGoal::Child { agreed, inbound_spi, replaces } => {
                let replaces = replaces.map(|child| Replaced { child, is_by_ours: is_loser });
                self.accept(context, *agreed, inbound_spi, replaces, &nonces, &shared);
            }
            FollowupGoal::Ike { choice, spis } => {
                self.accept_rekey(context, &choice, spis, &nonces, &shared, is_loser);
            }
        }
    }
}

//! Children, and successors of the IKE SA, that we ask for: the initiator of CREATE_CHILD_SA and IKE_FOLLOWUP_KE (RFC
//! 7296, section 1.3; RFC 9370).
//!
//! Guarantees: of two colliding rekeyings both ends keep the same one (RFC 7296, section 2.8.1).

use super::{
    Context, Parts, Sa, Task,
    child::{Child, Made, Standing, Trigger, with_trigger, write_request},
    opening::FirstChild,
    under_way::{ChildGoal, Creating, Goal, InFlight},
};
use crate::{
    crypto::{KeyExchange, Ongoing, SharedSecret},
    event::{Event, Reason},
    id::ChildId,
    keys::Nonces,
    offer::{self, Choice, Exchanges, Offer},
    wire::{Exchange, Notify, NotifyType, Payload, Payloads},
};

impl Sa {
    /// Asks for a child of a policy, with another key exchange than the policy's first if the peer asked for another.
    pub(super) fn request_child(
        &mut self,
        context: &mut Context<'_>,
        policy: usize,
        method: Option<KeyExchange>,
        trigger: Trigger,
        resource: Option<Vec<u8>>,
    ) {
        let peer = self.peer.clone();
        let Some(child) = peer.children.get(policy) else { return };
        // A resource's child has the traffic of the first child, which carries what no resource carries.
        let is_first = |child: &&Child| {
            child.policy == policy && child.resource.is_none() && child.standing == Standing::Active
        };
        let first = self.children.iter().find(is_first).filter(|_| resource.is_some());
        let (local, remote) = match first {
            Some(first) => (first.local.clone(), first.remote.clone()),
            None => with_trigger(child, &self.addresses, trigger),
        };
        let goal = ChildGoal {
            policy,
            replaces: None,
            inbound_spi: context.esp_spi(),
            offers: child.proposals.clone(),
            trigger,
            mode: child.mode,
            resource,
            is_resource_known: true,
            local,
            remote,
            outbound_spi: 0,
            collision: None,
        };
        self.send_create(context, goal, method);
    }

    pub(super) fn request_child_rekey(&mut self, context: &mut Context<'_>, id: ChildId) {
        self.request_child_rekey_with(context, id, None);
    }

    fn request_child_rekey_with(
        &mut self,
        context: &mut Context<'_>,
        id: ChildId,
        method: Option<KeyExchange>,
    ) {
        let peer = self.peer.clone();
        let inbound_spi = context.esp_spi();
        let child = self.child(id).filter(|child| child.standing == Standing::Active);
        let Some((child, policy)) = child.and_then(|child| Some((&*child, peer.children.get(child.policy)?)))
        else {
            context.output.esp_spis.remove(&inbound_spi);
            return;
        };
        let goal = ChildGoal {
            policy: child.policy,
            replaces: Some(id),
            inbound_spi,
            offers: policy.proposals.clone(),
            trigger: None,
            mode: child.mode,
            resource: child.resource.clone(),
            is_resource_known: true,
            local: child.local.clone(),
            remote: child.remote.clone(),
            outbound_spi: 0,
            collision: None,
        };
        self.send_create(context, goal, method);
    }

    fn send_create(&mut self, context: &mut Context<'_>, goal: ChildGoal, method: Option<KeyExchange>) {
        let mut payloads = Payloads::new();
        if let Some(child) = goal.replaces.and_then(|id| self.child(id)) {
            payloads.push(&Payload::Notify(Notify::about_child(
                NotifyType::REKEY_SA,
                child.protocol,
                child.inbound_spi,
            )));
        }
        write_request(&mut payloads, goal.mode, &goal.offers, goal.inbound_spi, &goal.local, &goal.remote);
        if let Some(resource) = &goal.resource {
            payloads.notify(NotifyType::SA_RESOURCE_INFO, resource.clone());
        }
        let nonce = context.random.nonce();
        payloads.push(&Payload::Nonce(nonce.clone()));
        let method = method.or_else(|| goal.offers.first().and_then(Offer::first_exchange));
        let ongoing = match method.map(Ongoing::begin).transpose() {
            Ok(ongoing) => ongoing,
            Err(error) => return self.fail(context, error.into()),
        };
        if let Some(ongoing) = &ongoing {
            let (method, data) = (ongoing.method().number(), ongoing.public().to_vec());
            payloads.push(&Payload::KeyExchange { method, data });
        }
        let creating = Creating {
            goal: Goal::Child(Box::new(goal)),
            nonces: Nonces { initiator: nonce, responder: Vec::new() },
            ongoing,
            shared: Vec::new(),
            choice: None,
            additional: Vec::new(),
        };
        self.request(context, Exchange::CreateChild, &payloads, InFlight::Create(Box::new(creating)));
    }

    /// Handles the response to CREATE_CHILD_SA or to an IKE_FOLLOWUP_KE that follows it.
    pub(super) fn take_created(
        &mut self,
        context: &mut Context<'_>,
        mut creating: Box<Creating>,
        parts: Parts,
    ) {
        if let Err(reason) = self.continue_created(&mut creating, &parts) {
            return self.give_up(context, *creating, reason, &parts);
        }
        if let Some(&method) = creating.additional.first() {
            return self.request_followup(context, creating, method, &parts);
        }
        let Creating { goal, nonces, shared, choice, .. } = *creating;
        let Some(choice) = choice else { return };
        match goal {
            Goal::Child(goal) => {
                let overtaken = std::mem::take(&mut self.overtaken);
                if overtaken.contains(&goal.outbound_spi) {
                    // The peer has made the child, and deleted it again.
                    return self.drop_child(context, &goal);
                }
                self.finish_child(context, *goal, choice, &nonces, &shared);
            }
            Goal::Ike(goal) => self.finish_rekey(context, *goal, &choice, &nonces, &shared),
        }
    }

    fn continue_created(&self, creating: &mut Creating, parts: &Parts) -> Result<(), Reason> {
        let broken = |problem: &str| Reason::Protocol(problem.to_owned());
        if let Some(kind) = parts.error() {
            return Err(Reason::Refused { kind });
        }
        let ongoing = creating.ongoing.take();
        if creating.choice.is_some() {
            // This is the response to an additional key exchange.
            let ongoing = ongoing.ok_or_else(|| broken("it answers an exchange that was not begun"))?;
            let (method, data) = parts.exchange.as_ref().ok_or_else(|| broken("it sends no public value"))?;
            if *method != ongoing.method().number() {
                return Err(broken("it answers with another key exchange than ours"));
            }
            creating.shared.push(ongoing.finish(data)?);
            creating.additional.remove(0);
            return Ok(());
        }
        let answer = parts.proposals.as_deref().ok_or_else(|| broken("it proposes nothing"))?;
        creating.nonces.responder = parts.nonce.clone().ok_or_else(|| broken("it sends no nonce"))?;
        let offers = match &creating.goal {
            Goal::Child(goal) => &goal.offers,
            Goal::Ike(_) => &self.peer.proposals,
        };
        let choice = offer::accept(offers, answer, Exchanges::Required).map_err(Reason::NoProposal)?;
        if let Some(method) = choice.exchange {
            let ongoing = ongoing.filter(|ongoing| ongoing.method() == method);
            let ongoing =
                ongoing.ok_or_else(|| broken("it chose another key exchange than the one begun"))?;
            match &parts.exchange {
                Some((number, data)) if *number == method.number() => {
                    creating.shared.push(ongoing.finish(data)?)
                }
                _ => return Err(broken("it sends no public value")),
            }
        }
        let answer = &answer[0];
        let is_behind_nat = self.nat.is_encapsulated();
        match &mut creating.goal {
            Goal::Child(goal) => goal.take_answer(answer, parts, is_behind_nat)?,
            Goal::Ike(goal) => {
                goal.spis.responder =
                    <[u8; 8]>::try_from(&*answer.spi).map(u64::from_be_bytes).unwrap_or_default();
                if goal.spis.responder == 0 {
                    return Err(broken("its SPI is none of IKE"));
                }
            }
        }
        creating.additional.clone_from(&choice.additional);
        creating.choice = Some(choice);
        Ok(())
    }

    fn request_followup(
        &mut self,
        context: &mut Context<'_>,
        mut creating: Box<Creating>,
        method: KeyExchange,
        parts: &Parts,
    ) {
        let link = parts.notify(NotifyType::ADDITIONAL_KEY_EXCHANGE).map(|notify| notify.data.clone());
        let Some(link) = link.filter(|link| link.len() <= 256) else {
            let reason = Reason::Protocol("it links no additional key exchange".to_owned());
            return self.give_up(context, *creating, reason, parts);
        };
        let ongoing = match Ongoing::begin(method) {
            Ok(ongoing) => ongoing,
            Err(error) => return self.fail(context, error.into()),
        };
        let mut payloads = Payloads::new();
        payloads.push(&Payload::KeyExchange { method: method.number(), data: ongoing.public().to_vec() });
        payloads.notify(NotifyType::ADDITIONAL_KEY_EXCHANGE, link);
        creating.ongoing = Some(ongoing);
        self.request(context, Exchange::FollowupKe, &payloads, InFlight::Create(creating));
    }

    /// Gives up a child that the peer has made and deleted again. The child that it was to replace, which the peer has
    /// replaced, is over, too.
    fn drop_child(&mut self, context: &mut Context<'_>, goal: &ChildGoal) {
        context.output.esp_spis.remove(&goal.inbound_spi);
        if let Some(old) = goal.replaces {
            self.enqueue(Task::DeleteChild(old));
        }
    }

    /// Ends a negotiation that the peer refused or answered wrongly.
    fn give_up(&mut self, context: &mut Context<'_>, creating: Creating, reason: Reason, parts: &Parts) {
        self.overtaken.clear();
        let Creating { goal, .. } = creating;
        let goal = match goal {
            Goal::Ike(goal) => return self.give_up_rekey(context, *goal, reason, parts),
            Goal::Child(goal) => *goal,
        };
        context.output.esp_spis.remove(&goal.inbound_spi);
        let wanted = parts.wanted_exchange();
        let wanted = wanted.filter(|wanted| goal.offers.iter().any(|offer| offer.has_exchange(*wanted)));
        if let (Some(method), Reason::Refused { kind: NotifyType::INVALID_KE_PAYLOAD }) = (wanted, &reason) {
            // The method is the one that the peer asked for; if the peer changes its mind, the next rekeying begins
            // anew.
            let is_new = goal.offers.first().and_then(Offer::first_exchange) != Some(method);
            if is_new {
                return match goal.replaces {
                    Some(child) => self.request_child_rekey_with(context, child, Some(method)),
                    None => {
                        self.request_child(context, goal.policy, Some(method), goal.trigger, goal.resource);
                    }
                };
            }
        }
        let Some(replaced) = goal.replaces else {
            if reason == (Reason::Refused { kind: NotifyType::TEMPORARY_FAILURE }) {
                let resource = goal.resource.and_then(|name| name.try_into().ok()).map(u32::from_be_bytes);
                let task = Task::AddChild { policy: goal.policy, trigger: goal.trigger, resource };
                return self.retry(context, task);
            }
            let (policy, resource) = (Some(goal.policy), goal.resource);
            return context.output.event(Event::ChildFailed { ike: self.id, policy, resource, reason });
        };
        if let Some(collision) = goal.collision {
            // The peer's rekeying remains, and ours does not.
            if let Some(theirs) = collision.theirs {
                self.replace_by(replaced, theirs);
            }
            return;
        }
        match reason {
            Reason::Refused { kind: NotifyType::CHILD_SA_NOT_FOUND } => {
                if let Some(at) = self.children.iter().position(|child| child.id == replaced) {
                    let child = self.children.swap_remove(at);
                    child.end(context, &Reason::Lost);
                    // The first child carries the traffic of a resource that has lost its own.
                    if goal.resource.is_none() {
                        self.enqueue(Task::AddChild { policy: goal.policy, trigger: None, resource: None });
                    }
                }
            }
            Reason::Refused { kind: NotifyType::TEMPORARY_FAILURE } => {
                self.retry(context, Task::RekeyChild(replaced))
            }
            reason => {
                let Some(child) = self.child(replaced) else { return };
                let refusals = child.refusals;
                child.refusals += 1;
                self.retry_after(context, Task::RekeyChild(replaced), refusals);
                let proposals = offer::list(&goal.offers);
                let wanted = parts.wanted_exchange().map(|method| method.name().to_owned());
                let (ike, child) = (self.id, Some(replaced));
                context.output.event(Event::RekeyRefused { ike, child, proposals, wanted, reason });
            }
        }
    }

    fn finish_child(
        &mut self,
        context: &mut Context<'_>,
        goal: ChildGoal,
        choice: Choice,
        nonces: &Nonces,
        shared: &[SharedSecret],
    ) {
        let ChildGoal {
            policy,
            replaces,
            inbound_spi,
            mode,
            resource,
            is_resource_known,
            local,
            remote,
            outbound_spi,
            collision,
            ..
        } = goal;
        let asked_for = resource.clone();
        let is_lost =
            collision.as_ref().is_some_and(|theirs| nonces.lowest() < theirs.lowest_nonce.as_slice());
        let made = Made {
            policy,
            choice,
            inbound_spi,
            outbound_spi,
            mode,
            local,
            remote,
            resource,
            replaces,
            is_ours: true,
            is_live: !is_lost && is_resource_known,
        };
        let Some(new) = self.install(context, made, nonces, shared) else { return };
        if !is_resource_known {
            // To the peer it is a second child for the same traffic, and one that it may take for the first one's
            // successor.
            self.make_redundant(new);
            self.enqueue(Task::DeleteChild(new));
            let (policy, resource, reason) = (Some(policy), asked_for, Reason::NoResources);
            return context.output.event(Event::ChildFailed { ike: self.id, policy, resource, reason });
        }
        let Some(old) = replaces else { return };
        match collision {
            Some(collision) if is_lost => {
                // Our new child lost: we made it, so we delete it; the peer deletes the old one.
                self.make_redundant(new);
                self.enqueue(Task::DeleteChild(new));
                if let Some(theirs) = collision.theirs {
                    self.replace_by(old, theirs);
                    if self.child(old).is_none() {
                        // The peer has deleted it in the meantime, so the peer knows that its own has won.
                        if let Some(child) = self.child(theirs) {
                            child.go_live(context);
                        }
                    }
                }
            }
            collision => {
                match collision.map(|collision| collision.theirs) {
                    Some(Some(theirs)) => self.make_redundant(theirs),
                    Some(None) => self.followup_loses(),
                    None => {}
                }
                self.replace_by(old, new);
                self.enqueue(Task::DeleteChild(old));
            }
        }
    }

    /// Handles, as the initiator, the answer about the child in IKE_AUTH.
    pub(super) fn take_first_child(
        &mut self,
        context: &mut Context<'_>,
        first: FirstChild,
        nonces: &Nonces,
        parts: &Parts,
    ) {
        let peer = self.peer.clone();
        let policy = &peer.children[first.policy];
        let mut goal = ChildGoal {
            policy: first.policy,
            replaces: None,
            inbound_spi: first.inbound_spi,
            offers: policy.proposals.iter().map(Offer::without_exchange).collect(),
            trigger: None,
            mode: policy.mode,
            resource: None,
            is_resource_known: true,
            local: first.local,
            remote: first.remote,
            outbound_spi: 0,
            collision: None,
        };
        let is_behind_nat = self.nat.is_encapsulated();
        let answered = match (parts.proposals.as_deref(), parts.error()) {
            (Some(answer), _) => offer::accept(&goal.offers, answer, Exchanges::Required)
                .map_err(Reason::NoProposal)
                .and_then(|choice| goal.take_answer(&answer[0], parts, is_behind_nat).map(|()| choice)),
            (None, Some(kind)) => Err(Reason::Refused { kind }),
            (None, None) => Err(Reason::Protocol("it does not answer about the first child".to_owned())),
        };
        match answered {
            Ok(choice) => self.finish_child(context, goal, choice, nonces, &[]),
            Err(reason) => {
                context.output.esp_spis.remove(&goal.inbound_spi);
                let (policy, resource) = (Some(goal.policy), None);
                context.output.event(Event::ChildFailed { ike: self.id, policy, resource, reason });
            }
        }
    }
}

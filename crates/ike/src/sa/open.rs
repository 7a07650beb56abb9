//! The beginning of an IKE SA at its initiator: IKE_SA_INIT with cookies and other key exchanges, and
//! IKE_INTERMEDIATE at either end.

use super::{Context, Features, Incoming, Parts, Role, Sa, nat, opening::Opening, under_way::InFlight};
use crate::{
    crypto::{KeyExchange, Ongoing, exchange as key_exchange, prf::Secret, sign::Hash},
    event::{Path, Reason},
    keys::{IkeKeys, mixed_seed, seed},
    message::Opened,
    offer::{self, Exchanges, Offer},
    wire::{Exchange, Header, NotifyType, Payload, Payloads, Spis},
};

/// Maximum number of times that a first message is sent anew, with a cookie or another key exchange.
const MAX_RESTARTS: u8 = 5;

/// Writes the notifications of a first message, at either end.
pub(super) fn write_features(
    payloads: &mut Payloads,
    context: &mut Context<'_>,
    spis: Spis,
    path: Path,
    claim: bool,
) {
    nat::write(payloads, spis, path, claim, context.random);
    payloads.notify(NotifyType::IKEV2_FRAGMENTATION_SUPPORTED, []);
    let hashes: Vec<u8> = Hash::ALL.iter().flat_map(|hash| hash.number().to_be_bytes()).collect();
    payloads.notify(NotifyType::SIGNATURE_HASH_ALGORITHMS, hashes);
}

impl Sa {
    pub(super) fn opening(&mut self) -> Option<&mut Opening> {
        match &mut self.phase {
            super::Phase::Opening(opening) => Some(opening),
            _ => None,
        }
    }

    /// Sends the first message, with `method` or the first of our proposals.
    pub(crate) fn begin(&mut self, context: &mut Context<'_>, method: Option<KeyExchange>) {
        let peer = self.peer.clone();
        let Some(method) = method.or_else(|| peer.proposals.first().and_then(Offer::first_exchange)) else {
            return self.fail(context, Reason::Closed);
        };
        let ongoing = match Ongoing::begin(method) {
            Ok(ongoing) => ongoing,
            Err(error) => return self.fail(context, error.into()),
        };
        let Some(opening) = self.opening() else { return };
        let mut payloads = Payloads::new();
        if let Some(cookie) = &opening.cookie {
            payloads.notify(NotifyType::COOKIE, cookie.clone());
        }
        let proposals = (1..).zip(&peer.proposals).map(|(number, offer)| offer.to_wire(number, Vec::new()));
        payloads.push(&Payload::SecurityAssociation(proposals.collect()));
        payloads.push(&Payload::KeyExchange { method: method.number(), data: ongoing.public().to_vec() });
        payloads.push(&Payload::Nonce(opening.nonces.initiator.clone()));
        opening.ongoing = Some(ongoing);
        self.next_request = 0;
        let claim = peer.always_encapsulate;
        write_features(&mut payloads, context, Spis { responder: 0, ..self.spis }, self.path, claim);
        if peer.proposals.iter().any(Offer::has_additional) {
            payloads.notify(NotifyType::INTERMEDIATE_EXCHANGE_SUPPORTED, []);
        }
        self.request(context, Exchange::Init, &payloads, InFlight::Init);
    }

    /// Handles the response to our first message. The response is not authenticated: only somebody who saw our SPI
    /// can have made it.
    pub(crate) fn handle_init_response(
        &mut self,
        context: &mut Context<'_>,
        header: &Header,
        message: &[u8],
        path: Path,
    ) {
        if header.message_id != 0 || self.role != Role::Initiator || self.opening().is_none() {
            return;
        }
        let Ok(parts) = Parts::parse(header.first, &message[crate::wire::HEADER_BYTES..]) else { return };
        let Some(request) = self.request_bytes().map(<[u8]>::to_vec) else { return };
        if self.take_init().is_none() {
            return;
        }
        let is_restart = parts.proposals.is_none();
        if is_restart {
            return self.restart(context, &parts);
        }
        self.spis.responder = header.spis.responder;
        if let Err(reason) = self.take_init_response(context, request, message, parts, path) {
            self.fail(context, reason);
        }
    }

    /// Handles a responder that asks for a cookie or another key exchange, or refuses.
    fn restart(&mut self, context: &mut Context<'_>, parts: &Parts) {
        let peer = self.peer.clone();
        let Some(opening) = self.opening() else { return };
        let mut method = opening.ongoing.as_ref().map(Ongoing::method);
        opening.restarts += 1;
        if opening.restarts > MAX_RESTARTS {
            return self
                .fail(context, Reason::Protocol("it asks for other first messages without end".to_owned()));
        }
        if let Some(cookie) = parts.notify(NotifyType::COOKIE).filter(|cookie| cookie.data.len() <= 64) {
            opening.cookie = Some(cookie.data.clone());
            return self.begin(context, method);
        }
        if parts.has(NotifyType::INVALID_KE_PAYLOAD) {
            let offered =
                |wanted: &KeyExchange| peer.proposals.iter().any(|offer| offer.has_exchange(*wanted));
            let other = parts.wanted_exchange().filter(offered).filter(|wanted| Some(*wanted) != method);
            if other.is_some() {
                method = other;
                return self.begin(context, method);
            }
        }
        let reason = parts.error().map_or_else(
            || Reason::Protocol("its first message has no proposal".to_owned()),
            |kind| Reason::Refused { kind },
        );
        self.fail(context, reason);
    }

    fn take_init_response(
        &mut self,
        context: &mut Context<'_>,
        request: Vec<u8>,
        message: &[u8],
        parts: Parts,
        path: Path,
    ) -> Result<(), Reason> {
        let missing = |what: &str| Reason::Protocol(format!("its first message has no {what}"));
        let peer = self.peer.clone();
        let answer = parts.proposals.as_deref().ok_or_else(|| missing("proposal"))?;
        let choice =
            offer::accept(&peer.proposals, answer, Exchanges::Required).map_err(Reason::NoProposal)?;
        let plan = choice.key_plan().ok_or_else(|| missing("function"))?;
        let (method, data) = parts.exchange.as_ref().ok_or_else(|| missing("key exchange"))?;
        let nonce = parts.nonce.clone().ok_or_else(|| missing("nonce"))?;
        if self.spis.responder == 0 {
            return Err(missing("SPI"));
        }
        if !choice.additional.is_empty() && !parts.has(NotifyType::INTERMEDIATE_EXCHANGE_SUPPORTED) {
            return Err(missing("intermediate exchange for the additional key exchange that it chose"));
        }
        let spis = self.spis;
        let Some(opening) = self.opening() else { return Ok(()) };
        let ongoing = opening.ongoing.take().ok_or_else(|| missing("question"))?;
        if ongoing.method().number() != *method || choice.exchange != Some(ongoing.method()) {
            return Err(Reason::Protocol("it answers with another key exchange than ours".to_owned()));
        }
        let shared = ongoing.finish(data)?;
        opening.nonces.responder = nonce;
        opening.additional.clone_from(&choice.additional);
        (opening.request, opening.response) = (request, message.to_vec());
        let nonces = opening.nonces.clone();
        let keys = IkeKeys::derive(plan, &seed(plan.prf, &nonces, &shared), &nonces, spis)?;
        (self.keys, self.plan) = (Some(keys), Some(plan));
        let mut features = Features::default();
        features.note_first(&parts);
        self.features = features;
        self.nat = nat::read(&parts, self.spis, path, peer.always_encapsulate);
        self.float(context.settings);
        self.continue_opening(context);
        Ok(())
    }

    /// Asks for the next additional key exchange, or sends our proof.
    fn continue_opening(&mut self, context: &mut Context<'_>) {
        let Some(opening) = self.opening() else { return };
        let Some(&method) = opening.additional.first() else { return self.request_auth(context) };
        let ongoing = match Ongoing::begin(method) {
            Ok(ongoing) => ongoing,
            Err(error) => return self.fail(context, error.into()),
        };
        let mut payloads = Payloads::new();
        payloads.push(&Payload::KeyExchange { method: method.number(), data: ongoing.public().to_vec() });
        self.authenticate_intermediate(
            Role::Initiator,
            self.next_request,
            false,
            payloads.first(),
            payloads.bytes(),
        );
        self.request(context, Exchange::Intermediate, &payloads, InFlight::Intermediate { ongoing });
    }

    /// Adds a message in IKE_INTERMEDIATE to its sender's IntAuth, with the keys that protect it.
    fn authenticate_intermediate(
        &mut self,
        of: Role,
        message_id: u32,
        is_response: bool,
        first: crate::wire::PayloadType,
        clear: &[u8],
    ) {
        let (Some(plan), Some(keys)) = (self.plan, &self.keys) else { return };
        let mut envelope = self.envelope(Exchange::Intermediate, is_response, message_id);
        envelope.is_from_initiator = of == Role::Initiator;
        let octets = envelope.authenticated(first, clear);
        let (index, key) = match of {
            Role::Initiator => (0, &keys.proof_initiator),
            Role::Responder => (1, &keys.proof_responder),
        };
        let super::Phase::Opening(opening) = &mut self.phase else { return };
        let before = opening.int_auth.get_or_insert_with(|| [Secret::default(), Secret::default()]);
        before[index] = plan.prf.compute(key, &[&before[index], &octets]);
    }

    /// Derives new keys after an additional key exchange.
    fn mix(&mut self, shared: &Secret) -> Result<(), Reason> {
        let (Some(plan), Some(keys)) = (self.plan, self.keys.take()) else {
            return Err(Reason::Protocol("an additional key exchange before the first".to_owned()));
        };
        let spis = self.spis;
        let Some(opening) = self.opening() else { return Ok(()) };
        opening.additional.remove(0);
        let seed = mixed_seed(plan.prf, &keys.derive, &opening.nonces, shared);
        let next = IkeKeys::derive(plan, &seed, &opening.nonces, spis)?;
        opening.previous_keys = Some(keys);
        self.keys = Some(next);
        Ok(())
    }

    pub(super) fn take_intermediate(
        &mut self,
        context: &mut Context<'_>,
        ongoing: Ongoing,
        opened: &Opened,
        parts: &Parts,
    ) {
        let method = ongoing.method();
        self.authenticate_intermediate(
            Role::Responder,
            self.next_request - 1,
            true,
            opened.first,
            &opened.clear,
        );
        let shared = match &parts.exchange {
            Some((number, data)) if *number == method.number() => ongoing.finish(data).map_err(Reason::from),
            _ => Err(parts.error().map_or_else(
                || Reason::Protocol("it leaves the additional key exchange out".to_owned()),
                |kind| Reason::Refused { kind },
            )),
        };
        match shared.and_then(|shared| self.mix(&shared)) {
            Ok(()) => self.continue_opening(context),
            Err(reason) => self.fail(context, reason),
        }
    }

    pub(super) fn answer_intermediate(
        &mut self,
        context: &mut Context<'_>,
        incoming: Incoming<'_>,
        opened: &Opened,
        parts: &Parts,
    ) {
        let Some(method) = self.opening().and_then(|opening| opening.additional.first().copied()) else {
            return;
        };
        self.authenticate_intermediate(
            Role::Initiator,
            incoming.header.message_id,
            false,
            opened.first,
            &opened.clear,
        );
        let answer = match &parts.exchange {
            Some((number, data)) if *number == method.number() => key_exchange::respond(method, data).ok(),
            _ => None,
        };
        let Some((public, shared)) = answer else {
            self.refuse(context, incoming, NotifyType::INVALID_SYNTAX, Vec::new());
            return self.fail(context, Reason::Protocol("its additional key exchange is none".to_owned()));
        };
        let mut payloads = Payloads::new();
        payloads.push(&Payload::KeyExchange { method: method.number(), data: public });
        self.authenticate_intermediate(
            Role::Responder,
            incoming.header.message_id,
            true,
            payloads.first(),
            payloads.bytes(),
        );
        self.respond(context, incoming, &payloads);
        if let Err(reason) = self.mix(&shared) {
            self.fail(context, reason);
        }
    }
}

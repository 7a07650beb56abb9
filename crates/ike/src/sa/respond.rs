//! Answers to a stranger's first message.
//!
//! Guarantees: for a message that is refused no state is kept and no key exchange is computed; the kept state is
//! bounded by [`MAX_FIRST_BYTES`] and a few fields.

use std::{sync::Arc, time::Instant};

use super::{Context, Opening, Parts, Phase, Role, Sa, nat, open};
use crate::{
    config::{Peer, Settings},
    crypto::{CryptoError, KeyExchange, exchange as key_exchange},
    event::{Path, Reason},
    id::IkeId,
    keys::{IkeKeys, Nonces, seed},
    message::Envelope,
    offer::{self, Choice, Exchanges, Offer},
    wire::{Exchange, Header, NotifyType, Payload, Payloads, Proposal, Spis},
};

/// Longest first message that is answered. strongSwan's longest has 1,080 bytes, Windows' 632.
const MAX_FIRST_BYTES: usize = 4096;

/// A parsed first message.
pub(crate) struct FirstMessage<'a> {
    pub(crate) header: &'a Header,
    pub(crate) message: &'a [u8],
    pub(crate) path: Path,
    pub(crate) parts: Parts,
}

/// The result of handling a first message.
pub(crate) enum Answer {
    /// An IKE SA whose first response is ready.
    Accepted(Box<Sa>),
    /// No state is kept; the answer has the reason.
    Refused(Vec<u8>, Reason),
    /// No state is kept, and the answer is a regular step of the protocol.
    Again(Vec<u8>),
    /// The message is not answered.
    Dropped,
}

/// Returns an answer to a first message that consists of one notification.
pub(crate) fn only_notify(header: &Header, kind: NotifyType, data: impl Into<Vec<u8>>) -> Vec<u8> {
    let mut payloads = Payloads::new();
    payloads.notify(kind, data);
    let envelope = Envelope {
        spis: Spis { initiator: header.spis.initiator, responder: 0 },
        exchange: Exchange::Init,
        is_from_initiator: false,
        is_response: true,
        message_id: header.message_id,
    };
    envelope.plain(&payloads)
}

/// Returns the places of the peers that may be at the other end of a path.
fn candidates(peers: &[Arc<Peer>], path: Path) -> Vec<usize> {
    let fits = |peer: &Peer| {
        peer.local.is_none_or(|local| local == path.local.ip())
            && peer.remote.is_none_or(|remote| remote == path.remote.ip())
    };
    (0..peers.len()).filter(|&index| fits(&peers[index])).collect()
}

/// The algorithms that both ends agree on, and the peers that the sender may be.
pub(crate) struct Agreed {
    candidates: Vec<usize>,
    choice: Choice,
    reply: Proposal,
    pub(crate) exchange: KeyExchange,
}

impl FirstMessage<'_> {
    /// Finds algorithms that a candidate and the sender have in common, and drops candidates without them.
    fn agree(&self, peers: &[Arc<Peer>]) -> Result<Agreed, Reason> {
        let candidates = candidates(peers, self.path);
        let theirs = self.parts.proposals.as_deref().unwrap_or_default();
        let supports = self.parts.has(NotifyType::INTERMEDIATE_EXCHANGE_SUPPORTED);
        let usable = |offer: &&Offer| supports || !offer.has_additional();
        let offers: Vec<Offer> = candidates
            .iter()
            .flat_map(|&index| peers[index].proposals.iter().filter(usable).cloned())
            .collect();
        let (choice, reply) =
            offer::select(&offers, theirs, Exchanges::Required).map_err(Reason::NoProposal)?;
        let has_chosen = |&index: &usize| {
            let answer = std::slice::from_ref(&reply);
            offer::select(&peers[index].proposals, answer, Exchanges::Required).is_ok()
        };
        let candidates = candidates.into_iter().filter(has_chosen).collect();
        let exchange =
            choice.exchange.ok_or_else(|| Reason::Protocol("it proposes no key exchange".to_owned()))?;
        Ok(Agreed { candidates, choice, reply, exchange })
    }

    /// Decides whether the message is worth a key exchange.
    pub(crate) fn judge(&self, context: &Context<'_>) -> Result<Agreed, Answer> {
        if self.message.len() > MAX_FIRST_BYTES {
            return Err(Answer::Dropped);
        }
        let (Some((method, _)), Some(_)) = (&self.parts.exchange, &self.parts.nonce) else {
            let reason = Reason::Protocol("its first message lacks a payload".to_owned());
            return Err(Answer::Refused(only_notify(self.header, NotifyType::INVALID_SYNTAX, []), reason));
        };
        let agreed = self.agree(context.peers).map_err(|reason| {
            Answer::Refused(only_notify(self.header, NotifyType::NO_PROPOSAL_CHOSEN, []), reason)
        })?;
        if agreed.exchange.number() != *method {
            let wanted = agreed.exchange.number().to_be_bytes();
            return Err(Answer::Again(only_notify(self.header, NotifyType::INVALID_KE_PAYLOAD, wanted)));
        }
        Ok(agreed)
    }

    /// Answers a message that was accepted, with the result of its key exchange.
    pub(crate) fn answer(
        self,
        agreed: Agreed,
        exchanged: Result<key_exchange::Response, CryptoError>,
        context: &mut Context<'_>,
        id: IkeId,
    ) -> Answer {
        let (Some((method, _)), Some(nonce)) = (&self.parts.exchange, &self.parts.nonce) else {
            return Answer::Dropped;
        };
        let Some(plan) = agreed.choice.key_plan() else { return Answer::Dropped };
        let (public, shared) = match exchanged {
            Ok(response) => response,
            Err(error) => {
                let answer = only_notify(self.header, NotifyType::INVALID_SYNTAX, []);
                return Answer::Refused(answer, Reason::Crypto(error));
            }
        };
        let nonces = Nonces { initiator: nonce.clone(), responder: context.random.nonce() };
        let spis = Spis { initiator: self.header.spis.initiator, responder: context.random.ike_spi() };
        let Ok(keys) = IkeKeys::derive(plan, &seed(plan.prf, &nonces, &shared), &nonces, spis) else {
            return Answer::Dropped;
        };
        let Some(&first) = agreed.candidates.first() else { return Answer::Dropped };
        let peer = context.peers[first].clone();
        let claim = peer.always_encapsulate;

        let mut payloads = Payloads::new();
        payloads.push(&Payload::SecurityAssociation(vec![agreed.reply]));
        payloads.push(&Payload::KeyExchange { method: *method, data: public });
        payloads.push(&Payload::Nonce(nonces.responder.clone()));
        open::write_features(&mut payloads, context, spis, self.path, claim);
        // Most initiators send a certificate only if it is requested.
        let expected = agreed.candidates.iter().map(|&index| &context.peers[index].expect);
        super::auth::certificate_requests(expected.clone()).iter().for_each(|request| payloads.push(request));
        super::auth::announce(context.settings, expected, &mut payloads);
        payloads.notify(NotifyType::CHILDLESS_IKEV2_SUPPORTED, []);
        if !agreed.choice.additional.is_empty() {
            payloads.notify(NotifyType::INTERMEDIATE_EXCHANGE_SUPPORTED, []);
        }
        let envelope = Envelope {
            spis,
            exchange: Exchange::Init,
            is_from_initiator: false,
            is_response: true,
            message_id: 0,
        };
        let response = envelope.plain(&payloads);

        let mut opening = Opening::responder(nonces, agreed.choice.additional, agreed.candidates);
        opening.request = self.message.to_vec();
        opening.response = response;
        let phase = Phase::Opening(Box::new(opening));
        let mut sa = Sa::new(id, Role::Responder, spis, (first, peer), self.path, phase, context.now);
        (sa.keys, sa.plan) = (Some(keys), Some(plan));
        sa.replies.expected = 1;
        sa.features.note_first(&self.parts);
        let seen = Spis { initiator: spis.initiator, responder: 0 };
        sa.nat = nat::read(&self.parts, seen, self.path, claim);
        sa.expires_at = Some(half_open_until(context.settings, context.now));
        sa.send_first_response(context, self.path);
        Answer::Accepted(Box::new(sa))
    }
}

fn half_open_until(settings: &Settings, now: Instant) -> Instant {
    now + settings.half_open_timeout
}

impl Sa {
    /// Returns whether `message` is the first message that this IKE SA began with.
    pub(crate) fn began_with(&self, message: &[u8]) -> bool {
        matches!(&self.phase, Phase::Opening(opening) if opening.request == message)
    }

    /// Sends the response to a first message, for the first time or again.
    pub(crate) fn send_first_response(&self, context: &mut Context<'_>, path: Path) {
        let Phase::Opening(opening) = &self.phase else { return };
        self.transmit(context, path, std::slice::from_ref(&opening.response));
    }
}

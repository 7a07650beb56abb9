//! The state of an IKE SA until both ends have proved their identities.
//!
//! Guarantees: these are values alone, and no message is made or sent here.

use zeroize::Zeroizing;

use super::{Context, Parts, Role};
use crate::{
    crypto::{KeyExchange, Ongoing, Prf, prf::Secret},
    eap::{Client, Server},
    identity::Identity,
    keys::{IkeKeys, Nonces},
    wire::{Identification, TrafficSelector},
};

/// The state until both ends have proved their identities.
pub(crate) struct Opening {
    pub(super) nonces: Nonces,
    pub(super) ongoing: Option<Ongoing>,
    pub(super) cookie: Option<Vec<u8>>,
    pub(super) restarts: u8,
    /// The first messages, which are part of the proofs of identities.
    pub(crate) request: Vec<u8>,
    pub(crate) response: Vec<u8>,
    /// Additional key exchanges that are still outstanding, in order.
    pub(super) additional: Vec<KeyExchange>,
    /// IntAuth of each end, after the exchanges so far.
    pub(super) int_auth: Option<[Secret; 2]>,
    /// Keys of the previous exchange, with which a repeated request is recognised.
    pub(super) previous_keys: Option<IkeKeys>,
    /// Places of the peers that may be at the other end of a responder.
    pub(super) candidates: Vec<usize>,
    /// The child that an initiator requests along with its proof: policy, SPI and proposals.
    pub(super) first_child: Option<FirstChild>,
    trigger: Option<(usize, Option<(TrafficSelector, TrafficSelector)>)>,
    /// The state of an IKE_AUTH with more than one round.
    pub(super) rounds: Option<Box<Rounds>>,
}

pub(super) struct FirstChild {
    pub(super) policy: usize,
    pub(super) inbound_spi: u32,
    pub(super) local: Vec<TrafficSelector>,
    pub(super) remote: Vec<TrafficSelector>,
}

impl Opening {
    pub(crate) fn initiator(
        nonce: Vec<u8>,
        trigger: Option<(usize, Option<(TrafficSelector, TrafficSelector)>)>,
    ) -> Self {
        Self { trigger, ..Self::empty(Nonces { initiator: nonce, responder: Vec::new() }) }
    }

    pub(crate) fn responder(nonces: Nonces, additional: Vec<KeyExchange>, candidates: Vec<usize>) -> Self {
        Self { additional, candidates, ..Self::empty(nonces) }
    }

    fn empty(nonces: Nonces) -> Self {
        Self {
            nonces,
            ongoing: None,
            cookie: None,
            restarts: 0,
            request: Vec::new(),
            response: Vec::new(),
            additional: Vec::new(),
            int_auth: None,
            previous_keys: None,
            candidates: Vec::new(),
            first_child: None,
            trigger: None,
            rounds: None,
        }
    }

    pub(super) fn expects_intermediate(&self) -> bool {
        !self.candidates.is_empty() && !self.additional.is_empty()
    }

    pub(super) fn expects_auth(&self) -> bool {
        !self.candidates.is_empty() && self.additional.is_empty()
    }

    /// Releases the SPI of a first child that will not be made.
    pub(super) fn release(&self, context: &mut Context<'_>) {
        if let Some(first) = &self.first_child {
            context.output.esp_spis.remove(&first.inbound_spi);
        }
    }

    /// Returns the first child that is requested.
    pub(super) fn wanted(&self) -> Option<(usize, Option<(TrafficSelector, TrafficSelector)>)> {
        self.trigger
    }

    /// Returns the bytes that an end signs, or proves with the shared key: its first message, the other end's nonce,
    /// its identity, and, after an IKE_INTERMEDIATE, IntAuth with the number of the IKE_AUTH request (RFC 7296,
    /// section 2.15; RFC 9242, section 3.3.2).
    pub(super) fn octets(
        &self,
        of: Role,
        keys: &IkeKeys,
        prf: Prf,
        identity: &[u8],
        message_id: u32,
    ) -> Secret {
        let (message, nonce, key) = match of {
            Role::Initiator => (&self.request, &self.nonces.responder, &keys.proof_initiator),
            Role::Responder => (&self.response, &self.nonces.initiator, &keys.proof_responder),
        };
        let mut octets = [message.as_slice(), nonce, &prf.compute(key, &[identity])].concat();
        if let Some([initiator, responder]) = &self.int_auth {
            octets.extend_from_slice(initiator);
            octets.extend_from_slice(responder);
            octets.extend(message_id.to_be_bytes());
        }
        Zeroizing::new(octets)
    }
}

/// The state between the first round and the last.
pub(super) struct Rounds {
    /// The identity that the other end claims.
    pub(super) claimed: Identification,
    pub(super) identity: Identity,
    /// The number of the first round's request.
    pub(super) message_id: u32,
    /// The requests that an initiator sent along with its identity.
    pub(super) asked: Box<Parts>,
    pub(super) side: Side,
    /// The user and the conversation's key, after the conversation has succeeded.
    pub(super) outcome: Option<(Option<String>, Secret)>,
}

pub(super) enum Side {
    Server(Box<Server>),
    Client(Box<Client>),
}

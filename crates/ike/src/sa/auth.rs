//! IKE_AUTH: proofs of both ends' identities (RFC 7296, section 2.15; RFC 7427; RFC 7670).
//!
//! Guarantees: an IKE SA is established only after the other end's proof was verified against its claimed identity;
//! proofs with a shared key are compared in constant time.

use std::sync::Arc;

use subtle::ConstantTimeEq as _;

use super::{Context, Incoming, Parts, Role, Sa, opening::FirstChild, under_way::InFlight};
use crate::{
    config::{Expect, Peer, Prove, Settings},
    crypto::{
        Prf,
        prf::Secret,
        sign::{self, Method},
    },
    event::Reason,
    identity::Identity,
    offer::Offer,
    pool::{self, Holder},
    wire::{Announcement, Exchange, Identification, NotifyType, Payload, Payloads, methods},
};

/// Encodings of certificates.
pub(super) const X509: u8 = 4;
const RAW_KEY: u8 = 15;
/// Bytes of the SHA-1 of an authority's key.
const DIGEST_BYTES: usize = 20;

/// Returns prf(prf(key, "Key Pad for IKEv2"), octets).
pub(super) fn shared_key_proof(prf: Prf, key: &Secret, octets: &[u8]) -> Secret {
    prf.compute(&prf.compute(key, &[b"Key Pad for IKEv2"]), &[octets])
}

/// Returns the payloads that ask for certificates, one for each encoding that a peer is expected to use.
pub(super) fn certificate_requests<'a>(expected: impl Iterator<Item = &'a Expect>) -> Vec<Payload> {
    let (mut digests, mut takes_keys) = (Vec::new(), false);
    for expect in expected {
        match expect {
            // Certificates of users are requested within EAP.
            Expect::SharedKey(_) | Expect::Eap(_) | Expect::EapOnly => {}
            Expect::PublicKeys(_) => takes_keys = true,
            Expect::Certificate(authorities) => {
                for digest in authorities.digests().chunks(DIGEST_BYTES) {
                    if !digests.chunks(DIGEST_BYTES).any(|known| known == digest) {
                        digests.extend_from_slice(digest);
                    }
                }
            }
        }
    }
    let certificates =
        (!digests.is_empty()).then_some(Payload::CertificateRequest { encoding: X509, data: digests });
    let keys = takes_keys.then(|| Payload::CertificateRequest { encoding: RAW_KEY, data: Vec::new() });
    certificates.into_iter().chain(keys).collect()
}

/// Announces the methods by which a peer may prove itself (RFC 9593), where one of them may be ML-DSA.
pub(super) fn announce<'a>(
    settings: &Settings,
    expected: impl Iterator<Item = &'a Expect>,
    payloads: &mut Payloads,
) {
    if !settings.ml_dsa {
        return;
    }
    let (mut takes_shared, mut takes_signatures) = (false, false);
    for expect in expected {
        match expect {
            // EAP has no method of its own.
            Expect::Eap(_) | Expect::EapOnly => {}
            Expect::SharedKey(_) => takes_shared = true,
            Expect::PublicKeys(_) | Expect::Certificate(_) => takes_signatures = true,
        }
    }
    let mut all = if takes_signatures { sign::announcements(settings.allowed()) } else { Vec::new() };
    if takes_shared {
        all.push(Announcement { method: Method::SHARED_KEY.0, identifier: Vec::new() });
    }
    if !all.is_empty() {
        payloads.notify(NotifyType::SUPPORTED_AUTH_METHODS, methods::write(&all));
    }
}

impl Sa {
    /// Writes our identity, certificates and proof; if EAP is the proof, only the identity.
    pub(super) fn write_proof(
        &self,
        settings: &Settings,
        payloads: &mut Payloads,
        asks_for: bool,
        message_id: u32,
    ) -> Result<(), Reason> {
        let (peer, role) = (self.peer.clone(), self.role);
        let (hashes, announced) = (&self.features.hashes, self.features.methods.as_deref());
        let missing = || Reason::Protocol("a proof before keys".to_owned());
        let plan = self.plan.ok_or_else(missing)?;
        let identity = peer.local_identity.to_wire();
        let super::Phase::Opening(opening) = &self.phase else { return Err(missing()) };
        let keys = self.keys.as_ref().ok_or_else(missing)?;
        let octets = opening.octets(role, keys, plan.prf, &identity.to_bytes(), message_id);
        payloads.push(&match role {
            Role::Initiator => Payload::IdInitiator(identity),
            Role::Responder => Payload::IdResponder(identity),
        });
        let proof = match &peer.prove {
            Prove::SharedKey(key) => {
                Some((Method::SHARED_KEY, shared_key_proof(plan.prf, key, &octets).to_vec()))
            }
            Prove::Eap(_) if role == Role::Initiator => None,
            Prove::EapOnly if matches!(peer.expect, Expect::Eap(_)) => None,
            Prove::Eap(_) | Prove::EapOnly => {
                return Err(Reason::Authentication {
                    identity: peer.local_identity.to_string(),
                    problem: "EAP is our proof where we begin, or where the peer proves itself by it"
                        .to_owned(),
                });
            }
            Prove::Signature { key, certificates } => {
                if certificates.is_empty() {
                    let data = key.public_key().to_vec();
                    payloads.push(&Payload::Certificate { encoding: RAW_KEY, data });
                }
                for data in certificates {
                    payloads.push(&Payload::Certificate { encoding: X509, data: data.clone() });
                }
                let signed = key.sign(hashes, announced, settings.allowed(), &octets);
                let signed = signed.map_err(|error| Reason::Authentication {
                    identity: peer.local_identity.to_string(),
                    problem: error.to_string(),
                })?;
                Some(signed)
            }
        };
        if asks_for {
            certificate_requests(std::iter::once(&peer.expect))
                .iter()
                .for_each(|request| payloads.push(request));
            announce(settings, std::iter::once(&peer.expect), payloads);
        }
        if let Some((method, data)) = proof {
            payloads.push(&Payload::Authentication { method: method.0, data });
        }
        Ok(())
    }

    /// Checks the other end's proof of the identity `claimed`.
    fn verify_proof(
        &self,
        context: &Context<'_>,
        claimed: &Identification,
        identity: &Identity,
        parts: &Parts,
        message_id: u32,
    ) -> Result<(), Reason> {
        let wrong = |problem: &str| Reason::Authentication {
            identity: identity.to_string(),
            problem: problem.to_owned(),
        };
        let other = if self.role == Role::Initiator { Role::Responder } else { Role::Initiator };
        let (Some(plan), Some(keys)) = (self.plan, self.keys.as_ref()) else {
            return Err(wrong("no keys yet"));
        };
        let super::Phase::Opening(opening) = &self.phase else { return Err(wrong("it comes too late")) };
        let is_mutual = matches!(&self.peer.prove, Prove::Eap(client) if client.is_mutual());
        match &self.peer.expect {
            // The EAP conversation that begins now is the proof.
            Expect::EapOnly if is_mutual && self.role == Role::Initiator => return Ok(()),
            Expect::EapOnly => return Err(wrong("EAP proves it only to an initiator with a certificate")),
            Expect::Eap(_) => return Err(wrong("EAP is how it has to prove itself")),
            Expect::SharedKey(_) | Expect::PublicKeys(_) | Expect::Certificate(_) => {}
        }
        let octets = opening.octets(other, keys, plan.prf, &claimed.to_bytes(), message_id);
        let (method, data) = parts.authentication.as_ref().ok_or_else(|| wrong("there is none"))?;
        let method = Method(*method);
        let allowed = context.settings.allowed();
        let is_allowed = |key: &[u8]| allowed.ml_dsa || !sign::is_ml_dsa(key);
        const NOT_ALLOWED: &str =
            "its key is of ML-DSA, which is a draft for IKE: `ml-dsa = true` beside `listen` allows it";
        let is_signature = method != Method::SHARED_KEY;
        match &self.peer.expect {
            Expect::SharedKey(_) if is_signature => {
                Err(wrong("it is a signature, where a shared key is configured"))
            }
            Expect::SharedKey(key) => {
                let expected = shared_key_proof(plan.prf, key, &octets);
                if bool::from(expected.ct_eq(data)) { Ok(()) } else { Err(wrong("the shared keys differ")) }
            }
            _ if !is_signature => Err(wrong("it is of a shared key, where a signature is configured")),
            Expect::PublicKeys(keys) => {
                let is_proof = |key: &&Vec<u8>| sign::verify(key, method, allowed, &octets, data).is_ok();
                if !keys.iter().any(|key| is_allowed(key)) {
                    return Err(wrong(NOT_ALLOWED));
                }
                let found = keys.iter().find(is_proof);
                found
                    .map(|_| ())
                    .ok_or_else(|| wrong("it was made by none of the public keys that are configured"))
            }
            Expect::Certificate(authorities) => {
                let of_x509 = parts.certificates.iter().filter(|(encoding, _)| *encoding == X509);
                let certificates: Vec<&[u8]> = of_x509.map(|(_, der)| der.as_slice()).collect();
                let unix_time = context.settings.unix_time(context.now);
                let key = authorities.verify(&certificates, identity, unix_time).map_err(|p| wrong(&p))?;
                if !is_allowed(&key) {
                    return Err(wrong(NOT_ALLOWED));
                }
                sign::verify(&key, method, allowed, &octets, data)
                    .map_err(|_| wrong("the signature is not its certificate's"))
            }
            Expect::Eap(_) | Expect::EapOnly => Err(wrong("EAP is how it has to prove itself")),
        }
    }

    /// Sends our identity and proof, and asks for the first child.
    pub(super) fn request_auth(&mut self, context: &mut Context<'_>) {
        let (peer, message_id) = (self.peer.clone(), self.next_request);
        let mut payloads = Payloads::new();
        if let Err(reason) = self.write_proof(context.settings, &mut payloads, true, message_id) {
            return self.fail(context, reason);
        }
        if let Some(expected) = &peer.remote_identity {
            payloads.push(&Payload::IdResponder(expected.to_wire()));
        }
        if context.output.is_first_contact {
            payloads.notify(NotifyType::INITIAL_CONTACT, []);
        }
        if matches!(peer.expect, Expect::EapOnly) {
            payloads.notify(NotifyType::EAP_ONLY_AUTHENTICATION, []);
        }
        if !peer.asks_for.is_empty() {
            payloads.push(&Payload::Configuration(pool::request(peer.asks_for)));
        }
        let wanted = self.opening().and_then(|opening| opening.wanted());
        let is_childless = peer.childless && self.features.childless;
        if let Some((policy, trigger)) = wanted.filter(|_| !is_childless) {
            let child = &peer.children[policy];
            let inbound_spi = context.esp_spi();
            let offers: Vec<Offer> = child.proposals.iter().map(Offer::without_exchange).collect();
            let (local, remote) = super::child::with_trigger(child, &self.addresses, trigger);
            super::child::write_request(&mut payloads, child.mode, &offers, inbound_spi, &local, &remote);
            if let Some(opening) = self.opening() {
                opening.first_child = Some(FirstChild { policy, inbound_spi, local, remote });
            }
        }
        if peer.mobike {
            payloads.notify(NotifyType::MOBIKE_SUPPORTED, []);
        }
        self.request(context, Exchange::Auth, &payloads, InFlight::Auth);
    }

    /// Handles the responder's identity, proof and answer about the first child.
    pub(super) fn take_auth(&mut self, context: &mut Context<'_>, parts: Parts) {
        if self.is_in_rounds() {
            return self.take_round(context, &parts);
        }
        let message_id = self.next_request - 1;
        let verdict = match (&parts.id_responder, parts.error()) {
            (Some(claimed), _) => self.judge_responder(context, claimed, &parts, message_id),
            (None, Some(kind)) => {
                // The responder has nothing to delete, because it refused us.
                return self.fail(context, Reason::Refused { kind });
            }
            (None, None) => Err(Reason::Protocol("it does not say who it is".to_owned())),
        };
        let identity = match verdict {
            Ok(identity) => identity,
            Err(reason) => return self.abandon(context, reason),
        };
        match (&self.peer.prove, &parts.id_responder) {
            (Prove::Eap(_), Some(claimed)) => {
                let claimed = claimed.clone();
                self.enter_rounds(context, claimed, identity, message_id, &parts);
            }
            _ => self.finish_auth(context, Holder { identity, user: None }, &parts),
        }
    }

    /// Handles the rest of the answer of a responder that has proved its identity.
    pub(super) fn finish_auth(&mut self, context: &mut Context<'_>, holder: Holder, parts: &Parts) {
        self.features.mobike = self.peer.mobike && parts.has(NotifyType::MOBIKE_SUPPORTED);
        let super::Phase::Opening(opening) = &mut self.phase else { return };
        let (first, wanted, nonces) = (opening.first_child.take(), opening.wanted(), opening.nonces.clone());
        self.establish(context, holder, false);
        self.take_addresses(context, parts);
        match (first, wanted) {
            (Some(first), _) => self.take_first_child(context, first, &nonces, parts),
            (None, Some((policy, trigger))) => {
                self.enqueue(super::Task::AddChild { policy, trigger, resource: None });
            }
            (None, None) => {}
        }
    }

    fn judge_responder(
        &self,
        context: &Context<'_>,
        claimed: &Identification,
        parts: &Parts,
        message_id: u32,
    ) -> Result<Identity, Reason> {
        let identity = Identity::from_wire(claimed).map_err(|error| Reason::Protocol(error.to_string()))?;
        if let Some(expected) = self.peer.remote_identity.as_ref().filter(|expected| **expected != identity) {
            return Err(Reason::Identity { sent: identity.to_string(), expected: expected.to_string() });
        }
        self.verify_proof(context, claimed, &identity, parts, message_id)?;
        Ok(identity)
    }

    /// Deletes the IKE SA at a responder that considers it established (RFC 7296, section 2.21.2).
    pub(super) fn abandon(&mut self, context: &mut Context<'_>, reason: Reason) {
        let mut payloads = Payloads::new();
        let kind = match reason {
            Reason::Protocol(_) => NotifyType::INVALID_SYNTAX,
            _ => NotifyType::AUTHENTICATION_FAILED,
        };
        payloads.notify(kind, []);
        payloads.push(&Payload::Delete(crate::wire::Delete::Ike));
        self.release_pending(context);
        self.phase = super::Phase::Closing;
        self.request(context, Exchange::Informational, &payloads, InFlight::DeleteIke(reason));
    }

    /// Returns the candidate that an initiator's identities fit best: a candidate that expects the identity by name
    /// precedes one that accepts any identity.
    fn find_peer(
        &mut self,
        peers: &[Arc<Peer>],
        identity: &Identity,
        parts: &Parts,
    ) -> Result<usize, Reason> {
        let wanted = parts.id_responder.as_ref().map(Identity::from_wire);
        let is_wanted = |peer: &Peer| match &wanted {
            Some(Ok(wanted)) => *wanted == peer.local_identity,
            Some(Err(_)) => false,
            None => true,
        };
        let mut candidates = self.opening().map(|opening| opening.candidates.clone()).unwrap_or_default();
        let wants_eap = parts.authentication.is_none();
        let others = candidates.len();
        candidates.retain(|&index| matches!(peers[index].expect, Expect::Eap(_)) == wants_eap);
        if candidates.is_empty() && others != 0 {
            let problem = if wants_eap {
                "it wants to prove itself by EAP, where another way is configured"
            } else {
                "it does not prove itself by EAP, which is configured"
            };
            return Err(Reason::Authentication {
                identity: identity.to_string(),
                problem: problem.to_owned(),
            });
        }
        let named = candidates.iter().find(|&&index| peers[index].remote_identity.as_ref() == Some(identity));
        let named = named.filter(|&&index| is_wanted(&peers[index]));
        let anybody = candidates
            .iter()
            .find(|&&index| peers[index].remote_identity.is_none() && is_wanted(&peers[index]));
        if let Some(&index) = named.or(anybody) {
            return Ok(index);
        }
        let expected = candidates.iter().take(16).map(|&index| {
            let peer = &peers[index];
            let theirs =
                peer.remote_identity.as_ref().map_or_else(|| "anybody".to_owned(), ToString::to_string);
            format!("{theirs} (towards {})", peer.local_identity)
        });
        let expected = expected.collect::<Vec<_>>().join(" or ");
        let towards = parts.id_responder.as_ref().map(Identity::from_wire).and_then(Result::ok);
        let sent = towards.map_or_else(|| identity.to_string(), |us| format!("{identity} (towards {us})"));
        Err(Reason::Identity { sent, expected })
    }

    /// Reads an initiator's identity, and finds the peer with this identity.
    pub(super) fn choose_peer(
        &mut self,
        context: &Context<'_>,
        parts: &Parts,
    ) -> Result<(Identification, Identity), Reason> {
        let claimed = parts
            .id_initiator
            .as_ref()
            .ok_or_else(|| Reason::Protocol("it does not say who it is".to_owned()))?;
        let identity = Identity::from_wire(claimed).map_err(|error| Reason::Protocol(error.to_string()))?;
        self.peer_index = self.find_peer(context.peers, &identity, parts)?;
        self.peer = context.peers[self.peer_index].clone();
        Ok((claimed.clone(), identity))
    }

    fn judge_initiator(
        &mut self,
        context: &Context<'_>,
        parts: &Parts,
        message_id: u32,
    ) -> Result<Identity, Reason> {
        self.features.methods = parts.methods();
        let (claimed, identity) = self.choose_peer(context, parts)?;
        self.verify_proof(context, &claimed, &identity, parts, message_id)?;
        self.keep_certificates(parts);
        Ok(identity)
    }

    /// Judges an initiator's proof, and answers with our own proof and its first child.
    pub(super) fn answer_auth(&mut self, context: &mut Context<'_>, incoming: Incoming<'_>, parts: Parts) {
        if self.is_in_rounds() {
            return self.answer_round(context, incoming, &parts);
        }
        if parts.authentication.is_none() {
            return self.begin_rounds(context, incoming, parts);
        }
        let judged = self.judge_initiator(context, &parts, incoming.header.message_id);
        let mut payloads = Payloads::new();
        let judged = judged.and_then(|identity| {
            self.write_proof(context.settings, &mut payloads, false, incoming.header.message_id)?;
            Ok(identity)
        });
        let identity = match judged {
            Ok(identity) => identity,
            Err(reason) => {
                self.refuse(context, incoming, NotifyType::AUTHENTICATION_FAILED, Vec::new());
                return self.fail(context, reason);
            }
        };
        let holder = Holder { identity, user: None };
        self.finish_answer(context, incoming, holder, &parts, payloads);
    }

    /// Completes an answer that has our proof, after both identities are known.
    pub(super) fn finish_answer(
        &mut self,
        context: &mut Context<'_>,
        incoming: Incoming<'_>,
        holder: Holder,
        asked: &Parts,
        mut payloads: Payloads,
    ) {
        self.features.mobike = self.peer.mobike && asked.has(NotifyType::MOBIKE_SUPPORTED);
        if self.features.mobike {
            payloads.notify(NotifyType::MOBIKE_SUPPORTED, []);
        }
        let super::Phase::Opening(opening) = &self.phase else { return };
        let nonces = opening.nonces.clone();
        self.establish(context, holder, asked.has(NotifyType::INITIAL_CONTACT));
        let has_addresses = self.give_addresses(context, asked, &mut payloads);
        if asked.proposals.is_some() && has_addresses {
            self.answer_first_child(context, &nonces, asked, &mut payloads);
        }
        self.respond(context, incoming, &payloads);
    }
}

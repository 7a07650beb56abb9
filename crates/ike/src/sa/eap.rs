//! IKE_AUTH in several rounds, for a peer that proves itself with EAP (RFC 7296, section 2.16; RFC 5998).
//!
//! Guarantees: an IKE SA is established only after both ends have proved with the conversation's key that they took
//! part in the same conversation; the requests that came with the first identity are answered at the end, and none of
//! them before.

use subtle::ConstantTimeEq as _;

use super::{
    Context, Incoming, Parts, Role, Sa,
    auth::shared_key_proof,
    opening::{Rounds, Side},
    under_way::InFlight,
};
use crate::{
    config::{Expect, Prove},
    crypto::{prf::Secret, sign::Method},
    eap::{Client, ClientStep, Server, ServerStep},
    event::{Path, Reason},
    identity::Identity,
    pool::Holder,
    wire::{Exchange, Identification, NotifyType, Payload, Payloads},
};

/// Time for which a conversation with a user whose password was wrong goes on.
const REFUSED_LIFE: std::time::Duration = std::time::Duration::from_secs(3);

impl Sa {
    fn rounds(&mut self) -> Option<&mut Rounds> {
        self.opening()?.rounds.as_deref_mut()
    }

    /// Returns whether an initiator's proof is left unjudged for now, because there were too many wrong ones: the initiator sends
    /// it again.
    pub(super) fn is_braked(&self, context: &Context<'_>, parts: &Parts, path: Path) -> bool {
        let super::Phase::Opening(opening) = &self.phase else { return false };
        let (brake, from, now) = (&context.output.brake, path.remote.ip(), context.now);
        match &opening.rounds {
            Some(rounds) => match &rounds.side {
                Side::Server(server) => {
                    server.awaits_password() && brake.is_user_slow(from, server.user(), now)
                }
                Side::Client(_) => false,
            },
            None => {
                let claimed = parts.id_initiator.as_ref().map(Identification::to_bytes);
                brake.is_slow(from, &claimed.unwrap_or_default(), now)
            }
        }
    }

    pub(super) fn is_in_rounds(&mut self) -> bool {
        self.rounds().is_some()
    }

    /// Returns the proof of an end with a conversation's key.
    fn key_proof(
        &self,
        of: Role,
        identity: &Identification,
        message_id: u32,
        key: &Secret,
    ) -> Option<Secret> {
        let (plan, keys) = (self.plan?, self.keys.as_ref()?);
        let super::Phase::Opening(opening) = &self.phase else { return None };
        let octets = opening.octets(of, keys, plan.prf, &identity.to_bytes(), message_id);
        Some(shared_key_proof(plan.prf, key, &octets))
    }

    /// Returns whether the other end proves in its last round that it has the conversation's key.
    fn is_key_proof(&self, rounds: &Rounds, key: &Secret, parts: &Parts) -> bool {
        let other = if self.role == Role::Initiator { Role::Responder } else { Role::Initiator };
        let expected = self.key_proof(other, &rounds.claimed, rounds.message_id, key);
        match (expected, &parts.authentication) {
            (Some(expected), Some((method, data))) => {
                *method == Method::SHARED_KEY.0 && bool::from(expected.ct_eq(data))
            }
            _ => false,
        }
    }

    /// Begins EAP with an initiator that sends no proof: the answer has our proof and the conversation's first
    /// request.
    pub(super) fn begin_rounds(&mut self, context: &mut Context<'_>, incoming: Incoming<'_>, parts: Parts) {
        let mut payloads = Payloads::new();
        match self.judge_user(context, &parts, &mut payloads, incoming.header.message_id) {
            Ok((claimed, identity, server, packet)) => {
                payloads.push(&Payload::Eap(packet));
                let rounds = Rounds {
                    claimed,
                    identity,
                    message_id: incoming.header.message_id,
                    asked: Box::new(Parts { certificates: Vec::new(), ..parts }),
                    side: Side::Server(Box::new(server)),
                    outcome: None,
                };
                if let Some(opening) = self.opening() {
                    opening.rounds = Some(Box::new(rounds));
                }
                self.respond(context, incoming, &payloads);
            }
            Err(reason) => {
                self.refuse(context, incoming, NotifyType::AUTHENTICATION_FAILED, Vec::new());
                self.fail(context, reason);
            }
        }
    }

    fn judge_user(
        &mut self,
        context: &mut Context<'_>,
        parts: &Parts,
        payloads: &mut Payloads,
        message_id: u32,
    ) -> Result<(Identification, Identity, Server, Vec<u8>), Reason> {
        let (claimed, identity) = self.choose_peer(context, parts)?;
        let wrong = |problem: &str| Reason::Authentication {
            identity: identity.to_string(),
            problem: problem.to_owned(),
        };
        let Expect::Eap(config) = &self.peer.expect else {
            return Err(wrong("it wants to prove itself by EAP, where another way is configured"));
        };
        let is_eap_only = matches!(self.peer.prove, Prove::EapOnly);
        if is_eap_only && !parts.has(NotifyType::EAP_ONLY_AUTHENTICATION) {
            return Err(wrong("it wants a proof of ours besides EAP, and none is configured"));
        }
        if is_eap_only && !config.users.is_empty() {
            return Err(wrong("EAP with passwords does not prove us; a certificate has to"));
        }
        let (server, packet) = Server::begin(config.clone(), context.random);
        self.write_proof(context.settings, payloads, false, message_id)?;
        Ok((claimed, identity, server, packet))
    }

    /// Answers the next round of an initiator.
    pub(super) fn answer_round(&mut self, context: &mut Context<'_>, incoming: Incoming<'_>, parts: &Parts) {
        let Some(mut rounds) = self.opening().and_then(|opening| opening.rounds.take()) else { return };
        if rounds.outcome.is_some() {
            return self.answer_last_round(context, incoming, *rounds, parts);
        }
        let unix_time = context.settings.unix_time(context.now);
        let step = match (&mut rounds.side, &parts.eap) {
            (Side::Server(server), Some(packet)) => server.take(packet, context.random, unix_time),
            _ => {
                self.refuse(context, incoming, NotifyType::INVALID_SYNTAX, Vec::new());
                let reason = Reason::Protocol("it leaves the EAP conversation".to_owned());
                return self.fail(context, reason);
            }
        };
        let mut payloads = Payloads::new();
        match step {
            ServerStep::Send(packet) => payloads.push(&Payload::Eap(packet)),
            ServerStep::Refuse { packet, user, problem } => {
                payloads.push(&Payload::Eap(packet));
                // It is told now, because many clients do not answer any more.
                self.report_end(context, Reason::Authentication { identity: user, problem });
                self.expires_at = self.expires_at.min(Some(context.now + REFUSED_LIFE));
            }
            ServerStep::Success { packet, user, key } => {
                if let Side::Server(server) = &rounds.side {
                    self.chain = server.certificates();
                }
                payloads.push(&Payload::Eap(packet));
                rounds.outcome = Some((Some(user), key));
            }
            ServerStep::Failure { packet, user, problem } => {
                payloads.push(&Payload::Eap(packet));
                payloads.notify(NotifyType::AUTHENTICATION_FAILED, []);
                self.respond(context, incoming, &payloads);
                let identity = if user.is_empty() { rounds.identity.to_string() } else { user };
                return self.fail(context, Reason::Authentication { identity, problem });
            }
        }
        if let Some(opening) = self.opening() {
            opening.rounds = Some(rounds);
        }
        self.respond(context, incoming, &payloads);
    }

    fn answer_last_round(
        &mut self,
        context: &mut Context<'_>,
        incoming: Incoming<'_>,
        mut rounds: Rounds,
        parts: &Parts,
    ) {
        let Some((user, key)) = rounds.outcome.take() else { return };
        let ours = self.peer.local_identity.to_wire();
        let proof = self.key_proof(self.role, &ours, rounds.message_id, &key);
        let proof = proof.filter(|_| self.is_key_proof(&rounds, &key, parts));
        let Some(proof) = proof else {
            self.refuse(context, incoming, NotifyType::AUTHENTICATION_FAILED, Vec::new());
            let identity = user.unwrap_or_else(|| rounds.identity.to_string());
            let problem = "it is not of the EAP conversation that was held".to_owned();
            return self.fail(context, Reason::Authentication { identity, problem });
        };
        let mut payloads = Payloads::new();
        payloads.push(&Payload::Authentication { method: Method::SHARED_KEY.0, data: proof.to_vec() });
        let holder = Holder { identity: rounds.identity, user };
        self.finish_answer(context, incoming, holder, &rounds.asked, payloads);
    }

    /// Handles the identity of a responder that now asks for ours with EAP.
    pub(super) fn enter_rounds(
        &mut self,
        context: &mut Context<'_>,
        claimed: Identification,
        identity: Identity,
        message_id: u32,
        parts: &Parts,
    ) {
        let Prove::Eap(client) = &self.peer.prove else { return };
        let rounds = Rounds {
            claimed,
            identity,
            message_id,
            asked: Box::default(),
            side: Side::Client(Box::new(Client::new(client.clone()))),
            outcome: None,
        };
        if let Some(opening) = self.opening() {
            opening.rounds = Some(Box::new(rounds));
        }
        self.take_round(context, parts);
    }

    /// Handles the responder's next round.
    pub(super) fn take_round(&mut self, context: &mut Context<'_>, parts: &Parts) {
        let Some(mut rounds) = self.opening().and_then(|opening| opening.rounds.take()) else { return };
        if rounds.outcome.is_some() {
            return self.take_last_round(context, *rounds, parts);
        }
        let unix_time = context.settings.unix_time(context.now);
        let step = match (&mut rounds.side, &parts.eap) {
            (Side::Client(client), Some(packet)) => client.take(packet, context.random, unix_time),
            _ => {
                // The responder has nothing to delete, because it refused us.
                if let Some(kind) = parts.error() {
                    return self.fail(context, Reason::Refused { kind });
                }
                let reason = Reason::Protocol("it does not ask us by EAP, which is configured".to_owned());
                return self.abandon(context, reason);
            }
        };
        let mut payloads = Payloads::new();
        match step {
            ClientStep::Send(packet) => payloads.push(&Payload::Eap(packet)),
            ClientStep::Success(key) => {
                let ours = self.peer.local_identity.to_wire();
                let Some(proof) = self.key_proof(self.role, &ours, rounds.message_id, &key) else { return };
                payloads
                    .push(&Payload::Authentication { method: Method::SHARED_KEY.0, data: proof.to_vec() });
                rounds.outcome = Some((None, key));
            }
            ClientStep::Refused { user, problem } => {
                return self.fail(context, Reason::Authentication { identity: user, problem });
            }
            ClientStep::Failure(problem) => {
                let identity = rounds.identity.to_string();
                return self.abandon(context, Reason::Authentication { identity, problem });
            }
        }
        if let Some(opening) = self.opening() {
            opening.rounds = Some(rounds);
        }
        self.request(context, Exchange::Auth, &payloads, InFlight::Auth);
    }

    fn take_last_round(&mut self, context: &mut Context<'_>, mut rounds: Rounds, parts: &Parts) {
        let Some((_, key)) = rounds.outcome.take() else { return };
        if let (None, Some(kind)) = (&parts.authentication, parts.error()) {
            return self.fail(context, Reason::Refused { kind });
        }
        if !self.is_key_proof(&rounds, &key, parts) {
            let problem = "it is not of the EAP conversation that was held".to_owned();
            let identity = rounds.identity.to_string();
            return self.abandon(context, Reason::Authentication { identity, problem });
        }
        self.finish_auth(context, Holder { identity: rounds.identity, user: None }, parts);
    }
}

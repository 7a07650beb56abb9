//! The end of an IKE SA's negotiation.

use super::{Context, InitialContact, Phase, Role, Sa};
use crate::{event::Event, pool::Holder};

impl Sa {
    /// Marks the IKE SA as established: both ends have proved their identities.
    pub(super) fn establish(&mut self, context: &mut Context<'_>, holder: Holder, is_initial_contact: bool) {
        if self.role == Role::Responder {
            let identity = holder.identity.to_wire().to_bytes();
            context.output.brake.succeed(self.path.remote.ip(), identity, context.now);
        }
        self.phase = Phase::Established;
        self.expires_at = None;
        self.holder = Some(holder.clone());
        self.stands_since = Some(context.now);
        self.schedule(context);
        let peer = self.peer_index;
        if is_initial_contact {
            let from = self.path.remote;
            let contact = InitialContact { peer, holder: holder.clone(), began: self.began, from };
            context.output.initial_contacts.push(contact);
        }
        let Holder { identity, user } = holder;
        let algorithms = self.algorithms();
        let is_initiator = self.role == Role::Initiator;
        context.output.event(Event::Established {
            ike: self.id,
            peer,
            identity,
            user,
            algorithms,
            is_initiator,
        });
    }

    /// Schedules the next rekeying, earlier at one end than at the other, and the messages that keep the path open.
    pub(super) fn schedule(&mut self, context: &mut Context<'_>) {
        self.rekey_at = self.peer.ike_lifetime.map(|lifetime| {
            let lifetime = if self.role == Role::Initiator { lifetime } else { lifetime + lifetime / 8 };
            context.random.later(context.now + lifetime, lifetime / 4)
        });
        self.start_keepalive(context.now);
    }

    fn algorithms(&self) -> String {
        let Some(plan) = self.plan else { return String::new() };
        let integrity = plan.integrity.map(|integrity| format!("-{}", integrity.name())).unwrap_or_default();
        format!("{}{integrity}-{}", plan.encryption.name(), plan.prf.name())
    }
}

//! Addresses that one end gives the other (RFC 7296, section 2.19).
//!
//! Guarantees: a peer with a pool has children with addresses from the pool only, and no child before it has got an
//! address.

use std::net::IpAddr;

use super::{Context, Parts, Sa};
use crate::{
    config::ChildPolicy,
    event::{Event, Reason},
    pool::{self, Assignment},
    wire::{ConfigurationType, NotifyType, Payload, Payloads, TrafficSelector, selector::narrow},
};

/// Addresses that one end has got from the other.
#[derive(Clone, Debug, Default)]
pub(crate) struct Addresses {
    pub(super) ours: Vec<IpAddr>,
    pub(super) theirs: Vec<IpAddr>,
}

impl Addresses {
    /// Returns a policy's sides, ours first; an end that has got addresses is limited to them.
    pub(super) fn sides(&self, policy: &ChildPolicy) -> (Vec<TrafficSelector>, Vec<TrafficSelector>) {
        let side = |configured: &[TrafficSelector], given: &[IpAddr]| {
            if given.is_empty() { configured.to_vec() } else { narrow(configured, &pool::selectors(given)) }
        };
        (side(&policy.local, &self.ours), side(&policy.remote, &self.theirs))
    }
}

impl Sa {
    /// Gives the initiator the addresses that it asks for. Returns whether it may have a child.
    pub(super) fn give_addresses(
        &mut self,
        context: &mut Context<'_>,
        asked: &Parts,
        payloads: &mut Payloads,
    ) -> bool {
        let leases = self.peer.pool.and_then(|pool| context.output.leases.get_mut(pool));
        let (Some(leases), Some(holder)) = (leases, &self.holder) else { return true };
        let request = asked.configuration.as_ref();
        let request = request.filter(|configuration| configuration.kind == ConfigurationType::Request);
        let assignment = request.and_then(|request| leases.lease(self.id, holder, request));
        if let Some(assignment) = assignment {
            self.addresses.theirs.clone_from(&assignment.addresses);
            payloads.push(&Payload::Configuration(assignment.to_wire()));
            context.output.event(Event::Leased { ike: self.id, peer: self.peer_index, assignment });
            return true;
        }
        let (kind, reason) = if request.is_some() {
            (NotifyType::INTERNAL_ADDRESS_FAILURE, Reason::NoAddress)
        } else {
            let problem = "it asks for no address, and a pool is configured for it";
            (NotifyType::FAILED_CP_REQUIRED, Reason::Protocol(problem.to_owned()))
        };
        payloads.notify(kind, []);
        context.output.event(Event::ChildFailed { ike: self.id, policy: None, resource: None, reason });
        false
    }

    /// Takes the addresses that the responder gives us.
    pub(super) fn take_addresses(&mut self, context: &mut Context<'_>, parts: &Parts) {
        let asked = self.peer.asks_for;
        let reply = parts.configuration.as_ref().filter(|_| !asked.is_empty());
        let Some(reply) = reply.filter(|reply| reply.kind == ConfigurationType::Reply) else { return };
        let assignment = Assignment::from_wire(reply, asked);
        if !assignment.addresses.is_empty() {
            self.addresses.ours.clone_from(&assignment.addresses);
            context.output.event(Event::Configured { ike: self.id, peer: self.peer_index, assignment });
        }
    }
}

//! INFORMATIONAL: deletions, probes, and addresses that change (RFC 7296, section 1.4; RFC 4555).

use subtle::ConstantTimeEq as _;

use super::{
    Context, Incoming, MAX_OVERTAKEN, Parts, Phase, Sa, Task,
    child::{Child, Standing},
    nat,
    under_way::{Creating, Goal, InFlight},
};
use crate::{
    event::{Path, Reason},
    id::ChildId,
    wire::{Delete, Exchange, NotifyType, Payload, Payloads, Protocol},
};

impl Sa {
    /// Asks the peer to delete a child; the child ends here when the peer answers.
    pub(super) fn request_child_deletion(&mut self, context: &mut Context<'_>, id: ChildId) {
        let Some(child) = self.child(id) else { return };
        child.rekey_at = None;
        let delete = Delete::children(child.protocol, vec![child.inbound_spi]);
        let payloads = [Payload::Delete(delete)].into_iter().collect();
        self.request(context, Exchange::Informational, &payloads, InFlight::DeleteChild(id));
    }

    /// Asks the peer to delete the IKE SA; it ends here when the peer answers, or when no answer arrives.
    pub(super) fn request_deletion(&mut self, context: &mut Context<'_>, reason: Reason) {
        let payloads = [Payload::Delete(Delete::Ike)].into_iter().collect();
        self.phase = Phase::Closing;
        self.expires_at = None;
        self.request(context, Exchange::Informational, &payloads, InFlight::DeleteIke(reason));
    }

    /// Begins to end an IKE SA of ours in any state.
    pub(crate) fn close(&mut self, context: &mut Context<'_>) {
        match self.phase {
            Phase::Established => {
                self.tasks.clear();
                self.enqueue(Task::DeleteIke(Reason::Closed));
                self.run_tasks(context);
            }
            Phase::Opening(_) => self.fail(context, Reason::Closed),
            Phase::Spare | Phase::Closing | Phase::Finished => {}
        }
    }

    pub(super) fn take_child_deleted(&mut self, context: &mut Context<'_>, id: ChildId) {
        self.remove_child(context, id, &Reason::Closed);
    }

    fn remove_child(&mut self, context: &mut Context<'_>, id: ChildId, reason: &Reason) {
        let Some(at) = self.children.iter().position(|child| child.id == id) else { return };
        let child = self.children.remove(at);
        let by = match child.standing {
            Standing::Replaced { by } => Some(by),
            Standing::Active | Standing::Redundant => None,
        };
        let collided = match self.creating().map(|creating| &creating.goal) {
            Some(Goal::Child(goal)) if goal.replaces == Some(id) => {
                goal.collision.as_ref().and_then(|collision| collision.theirs)
            }
            _ => None,
        };
        // The peer has the successor: it deleted this child for it, or answered that this child is deleted.
        if let Some(successor) = by.or(collided).and_then(|by| self.child(by)) {
            successor.go_live(context);
        }
        let is_replaced = by.or(collided).is_some() || child.standing == Standing::Redundant;
        child.end(context, if is_replaced { &Reason::Replaced } else { reason });
    }

    /// Answers a request of the INFORMATIONAL exchange: deletions, new addresses, probes (RFC 7296, section 1.4).
    pub(super) fn answer_informational(
        &mut self,
        context: &mut Context<'_>,
        incoming: Incoming<'_>,
        parts: &Parts,
    ) {
        let mut payloads = Payloads::new();
        if parts.deletes.contains(&Delete::Ike) {
            self.respond(context, incoming, &payloads);
            self.yield_to_collision(context);
            let reason = parts.error().map_or(Reason::DeletedByPeer, |kind| Reason::Refused { kind });
            return self.fail(context, reason);
        }
        for delete in &parts.deletes {
            let (protocol, spis) = match delete {
                Delete::Esp(spis) => (Protocol::Esp, spis),
                Delete::Ah(spis) => (Protocol::Ah, spis),
                Delete::Ike | Delete::Other(_) => continue,
            };
            let mut ended = Vec::new();
            for spi in spis {
                let is_meant = |child: &&Child| child.protocol == protocol && child.outbound_spi == *spi;
                let Some(child) = self.children.iter().find(is_meant) else {
                    let is_made = matches!(self.creating(), Some(Creating { goal: Goal::Child(_), .. }));
                    if is_made && self.overtaken.len() < MAX_OVERTAKEN {
                        self.overtaken.push(*spi);
                    }
                    continue;
                };
                let (id, inbound_spi) = (child.id, child.inbound_spi);
                // If two deletions cross, neither is answered with another deletion (RFC 7296, section 1.4.1).
                if self.deleting() != Some(id) {
                    ended.push(inbound_spi);
                }
                self.remove_child(context, id, &Reason::DeletedByPeer);
            }
            if !ended.is_empty() {
                payloads.push(&Payload::Delete(Delete::children(protocol, ended)));
            }
        }
        let moves = self.features.mobike && parts.has(NotifyType::UPDATE_SA_ADDRESSES);
        if let Some(cookie) = parts.notify(NotifyType::COOKIE2).filter(|cookie| cookie.data.len() <= 64) {
            payloads.notify(NotifyType::COOKIE2, cookie.data.clone());
        }
        if moves {
            let claim = self.peer.always_encapsulate;
            let seen = nat::read(parts, self.spis, incoming.path, claim);
            if parts.has(NotifyType::NAT_DETECTION_SOURCE_IP) {
                self.nat = seen;
            }
            nat::write(&mut payloads, self.spis, incoming.path, claim, context.random);
        }
        self.respond(context, incoming, &payloads);
        if moves && self.path != incoming.path {
            if context.settings.return_routability {
                let cookie = context.random.bytes::<16>().to_vec();
                self.tasks.retain(|task| !matches!(task, Task::CheckPath { .. }));
                self.enqueue(Task::CheckPath { cookie, path: incoming.path });
            } else {
                self.set_path(context, incoming.path);
            }
        }
    }

    /// Announces our new address to the peer; the path is already the new one.
    pub(super) fn request_move(&mut self, context: &mut Context<'_>) {
        let mut payloads = Payloads::new();
        payloads.notify(NotifyType::UPDATE_SA_ADDRESSES, []);
        nat::write(&mut payloads, self.spis, self.path, self.peer.always_encapsulate, context.random);
        self.request(context, Exchange::Informational, &payloads, InFlight::Move);
    }

    pub(super) fn take_moved(&mut self, context: &mut Context<'_>, parts: &Parts) {
        if let Some(kind) = parts.error() {
            return self.fail(context, Reason::Refused { kind });
        }
        if parts.has(NotifyType::NAT_DETECTION_SOURCE_IP) {
            self.nat = nat::read(parts, self.spis, self.path, self.peer.always_encapsulate);
            self.start_keepalive(context.now);
        }
        let path = self.path;
        self.set_path(context, path);
    }

    /// Continues from another address of ours (RFC 4555, section 3.5): requests under way are sent again from there.
    pub(crate) fn relocate(&mut self, context: &mut Context<'_>, local: std::net::SocketAddr) -> bool {
        if !self.is_established() || !self.features.mobike {
            return false;
        }
        self.path.local = local;
        self.enqueue(Task::Move);
        if self.outstanding.is_some() {
            self.retransmit(context);
        }
        self.run_tasks(context);
        true
    }

    /// Sends a cookie to the address that the peer claims, which the peer has to return before children send there.
    pub(super) fn request_path_check(&mut self, context: &mut Context<'_>, cookie: Vec<u8>, path: Path) {
        let mut payloads = Payloads::new();
        payloads.notify(NotifyType::COOKIE2, cookie.clone());
        // Children keep their path until the cookie is returned.
        self.path = path;
        self.request(context, Exchange::Informational, &payloads, InFlight::CheckPath { cookie, path });
    }

    pub(super) fn take_path_checked(
        &mut self,
        context: &mut Context<'_>,
        cookie: &[u8],
        path: Path,
        parts: &Parts,
    ) {
        let returned = parts.notify(NotifyType::COOKIE2).map(|notify| notify.data.as_slice());
        if returned.is_some_and(|returned| bool::from(returned.ct_eq(cookie))) {
            self.set_path(context, path);
        } else {
            self.fail(context, Reason::Protocol("it does not prove its new address".to_owned()));
        }
    }

    /// Probes the peer, unless a request under way does so already.
    pub(crate) fn probe(&mut self, context: &mut Context<'_>) {
        if self.is_established() && self.outstanding.is_none() {
            self.enqueue(Task::Probe);
            self.run_tasks(context);
        }
    }

    /// Notes that a genuine packet of a child arrived along the path: the peer is alive.
    fn note_child_life(&mut self, now: std::time::Instant) {
        self.heard = self.heard.max(now);
    }

    /// Notes that a genuine packet arrived under a child's keys: the peer has them, so we may send under them.
    pub(crate) fn note_child_received(&mut self, context: &mut Context<'_>, id: ChildId) {
        if let Some(child) = self.child(id).filter(|child| child.standing != Standing::Redundant) {
            child.go_live(context);
        }
        self.note_child_life(context.now);
    }
}

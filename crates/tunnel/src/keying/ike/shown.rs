//! The status of IKE SAs, and the reasons why there is none.

use std::sync::Arc;

use sealane_ike::IkeId;

use super::Ike;
use crate::keying::agreements::{Agreement, ChildAgreement};

impl Ike<'_> {
    /// Shows why there are no associations with a peer, or that there are some; of an entry for clients the log alone tells.
    pub(super) fn show_problem(&self, place: usize, problem: Option<String>) {
        let known = &self.known[place];
        if !known.is_many {
            self.peers.get(known.id).set_problem(problem);
        }
    }

    /// Stores an IKE SA for the status.
    pub(super) fn publish(&self, ike: IkeId) {
        let Some(stands) = self.sas.get(&ike) else { return };
        let children = self.children.iter().filter(|(_, child)| child.ike == ike);
        let children = children.map(|(&id, child)| ChildAgreement {
            inbound_spi: child.inbound.association().parameters().spi,
            outbound_spi: child.outbound.association().parameters().spi,
            traffic: child.traffic.to_string(),
            rekey_at: self.endpoint.child_rekey_at(id),
        });
        let agreement = Agreement {
            identity: stands.identity.clone(),
            user: stands.user.clone(),
            whereabouts: Arc::clone(&stands.whereabouts),
            addresses: stands.given.as_ref().map_or(&stands.leased, |given| &given.addresses).clone(),
            algorithms: stands.algorithms.clone(),
            since: stands.since,
            rekey_at: self.endpoint.rekey_at(ike),
            children: children.collect(),
        };
        self.peers.get(self.known[stands.place].id).agreements().insert(ike, agreement);
    }
}

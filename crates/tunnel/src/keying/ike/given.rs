//! Addresses and resolvers that peers give us.
//!
//! Guarantees: no address is taken that would cut the way to the peer itself.

use std::net::IpAddr;

use sealane_ike::{Assignment, IkeId};

use super::{Ike, list};

impl Ike<'_> {
    /// Takes what a peer gives us, except for addresses that would cut the way to the peer itself.
    pub(super) fn configure(&mut self, ike: IkeId, mut assignment: Assignment) {
        let Some(stands) = self.sas.get_mut(&ike) else { return };
        let known = &self.known[stands.place];
        let outside = self.peers.endpoint(known.id).map(|at| at.ip().to_canonical()).or(known.address);
        assignment.addresses.retain(|address| !address.is_loopback() && Some(*address) != outside);
        if assignment.addresses.is_empty() {
            return;
        }
        let message = format!("it gives us the address {}", list(&assignment.addresses));
        stands.given = Some(assignment);
        let place = stands.place;
        self.tell(place, message);
        self.give();
        self.changed.insert(ike);
    }

    /// Gives this host what peers have given us by now.
    pub(super) fn give(&mut self) {
        let mut given = Assignment::default();
        for stands in self.sas.values() {
            let Some(own) = &stands.given else { continue };
            let unknown = |known: &[IpAddr], all: &[IpAddr]| -> Vec<IpAddr> {
                all.iter().filter(|address| !known.contains(address)).copied().collect()
            };
            given.addresses.extend(unknown(&given.addresses, &own.addresses));
            if self.known[stands.place].takes_resolvers {
                given.dns.extend(unknown(&given.dns, &own.dns));
                given.domains.extend(own.domains.iter().cloned());
            }
        }
        given.domains.dedup();
        if given == self.given {
            return;
        }
        if let Err(message) = (self.host)(&given) {
            self.say(message);
        }
        self.given = given;
    }
}

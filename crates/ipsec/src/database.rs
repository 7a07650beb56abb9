//! The databases of associations and policies, and the line between them and whoever makes keys.
//!
//! Guarantees: lanes read a snapshot, without a lock; an install or a removal replaces the snapshot whole, and copies of it what it
//! changes; requests to the key maker are bounded, and one stands once however many packets ask for it.
//!
//! A peer has one outbound association at a time, the newest, and any number of inbound ones, so that a rekey loses no packet:
//! the successor's inbound side is installed first, then its outbound side replaces the old one, and the old inbound side goes
//! when nothing can be under way any more (RFC 7296, section 2.8).

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Instant,
};

use arc_swap::{ArcSwap, Cache};

use crate::{
    association::{Inbound, Outbound, Protocol},
    lifetime::Age,
    policy::{PeerId, Policies},
    table::Table,
};

/// What the key maker is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Request {
    /// Packets wait for a first association.
    Acquire(PeerId),
    /// The outbound association has passed a soft limit, or will run out of numbers.
    Rekey(PeerId),
    /// The outbound association has passed a hard limit and carries nothing any more.
    Expired(PeerId),
}

/// What lanes read.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// Which packets go where.
    pub policies: Arc<Policies>,
    /// The outbound association of each peer.
    pub outbound: Table<PeerId, Arc<Outbound>>,
    /// The inbound associations by what a packet names.
    pub inbound: Table<(Protocol, u32), Arc<Inbound>>,
}

/// The databases.
#[derive(Debug, Default)]
pub struct Database {
    snapshot: ArcSwap<Snapshot>,
    /// Writers one after the other; lanes never take it.
    writing: Mutex<()>,
    requests: Mutex<BTreeSet<Request>>,
}

/// Requests that may stand at a time. A peer has three at most, so this many peers are served without loss.
const REQUESTS_MAX: usize = 3 * 65_536;

/// An inbound association has this SPI already.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("SPI {spi:#x} is in use")]
pub struct SpiInUse {
    /// The index.
    pub spi: u32,
}

impl Database {
    /// Databases with `policies` and no association.
    pub fn new(policies: Policies) -> Self {
        let database = Self::default();
        database.change(|snapshot| snapshot.policies = Arc::new(policies));
        database
    }

    /// The databases as they are now.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.load_full()
    }

    /// A lane's view, which costs one comparison while nothing changes.
    pub fn view(&self) -> View<'_> {
        View(Cache::new(&self.snapshot))
    }

    fn change<T>(&self, change: impl FnOnce(&mut Snapshot) -> T) -> T {
        let _writing = self.writing.lock().expect("no writer panics");
        let now = self.snapshot.load();
        let mut next = Snapshot {
            policies: Arc::clone(&now.policies),
            outbound: now.outbound.clone(),
            inbound: now.inbound.clone(),
        };
        let outcome = change(&mut next);
        self.snapshot.store(Arc::new(next));
        outcome
    }

    /// Replaces the policies.
    pub fn set_policies(&self, policies: Policies) {
        self.change(|snapshot| snapshot.policies = Arc::new(policies));
    }

    /// Begins to accept packets of `inbound`.
    ///
    /// # Errors
    /// Its SPI is taken.
    pub fn install_inbound(&self, inbound: Arc<Inbound>) -> Result<(), SpiInUse> {
        let parameters = *inbound.association().parameters();
        let key = (parameters.protocol, parameters.spi);
        self.change(|snapshot| {
            if snapshot.inbound.contains_key(&key) {
                return Err(SpiInUse { spi: parameters.spi });
            }
            snapshot.inbound.insert(key, inbound);
            Ok(())
        })
    }

    /// Begins to protect the peer's packets by `outbound`; what it replaces is handed back.
    pub fn install_outbound(&self, outbound: Arc<Outbound>) -> Option<Arc<Outbound>> {
        let peer = outbound.association().parameters().peer;
        let old = self.change(|snapshot| snapshot.outbound.insert(peer, outbound));
        self.answered(peer);
        old
    }

    /// No longer accepts packets of this association; says whether there was one.
    pub fn remove_inbound(&self, protocol: Protocol, spi: u32) -> bool {
        self.change(|snapshot| snapshot.inbound.remove(&(protocol, spi)).is_some())
    }

    /// Forgets everything of `peer` but its policies.
    pub fn remove_peer(&self, peer: PeerId) {
        self.change(|snapshot| {
            snapshot.outbound.remove(&peer);
            snapshot.inbound.retain(|_, inbound| inbound.association().parameters().peer != peer);
        });
        self.answered(peer);
    }

    fn requests(&self) -> std::sync::MutexGuard<'_, BTreeSet<Request>> {
        self.requests.lock().expect("nobody panics holding the requests")
    }

    /// Nothing is asked for the peer any more.
    fn answered(&self, peer: PeerId) {
        let mut requests = self.requests();
        for request in [Request::Acquire(peer), Request::Rekey(peer), Request::Expired(peer)] {
            requests.remove(&request);
        }
    }

    /// Asks the key maker. Says whether the request is new, so that the caller wakes it.
    pub fn request(&self, request: Request) -> bool {
        let mut requests = self.requests();
        requests.len() < REQUESTS_MAX && requests.insert(request)
    }

    /// What the key maker has not answered yet, in no order. A request stands until its peer gets an outbound association.
    pub fn standing_requests(&self) -> Vec<Request> {
        self.requests().iter().copied().collect()
    }

    /// Asks for successors of all associations that have passed a limit; hard ones stop carrying by themselves.
    pub fn request_due(&self, now: Instant) -> bool {
        let snapshot = self.snapshot.load();
        let due =
            snapshot.outbound.iter().filter_map(|(&peer, outbound)| match outbound.association().age(now) {
                Age::Young => None,
                Age::Soft => Some(Request::Rekey(peer)),
                Age::Hard => Some(Request::Expired(peer)),
            });
        // Each is asked, whatever the others say.
        due.fold(false, |any, request| self.request(request) | any)
    }
}

impl Request {
    /// Whose it is.
    pub fn peer(self) -> PeerId {
        match self {
            Self::Acquire(peer) | Self::Rekey(peer) | Self::Expired(peer) => peer,
        }
    }
}

/// A lane's view of the databases.
#[derive(Debug)]
pub struct View<'a>(Cache<&'a ArcSwap<Snapshot>, Arc<Snapshot>>);

impl View<'_> {
    /// The newest snapshot.
    pub fn load(&mut self) -> &Arc<Snapshot> {
        self.0.load()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_stands_once_until_its_peer_is_served() {
        let database = Database::default();
        let all = |peer| [Request::Acquire(peer), Request::Rekey(peer), Request::Expired(peer)];
        for request in all(PeerId(1)).into_iter().chain(all(PeerId(2))) {
            assert!(database.request(request), "{request:?}");
            assert!(!database.request(request), "{request:?} stands already");
        }
        database.remove_peer(PeerId(1));
        assert_eq!(database.standing_requests(), all(PeerId(2)));
    }
}

//! The databases of associations and policies, and the requests from lanes to the key maker.
//!
//! Guarantees: lanes read a snapshot, without a lock; an install or a removal replaces the whole snapshot, and copies
//! only the parts of it that change; requests to the key maker are bounded, and a request is stored once however many
//! packets make it.
//!
//! A peer may have several outbound associations: a packet is protected by the newest one that takes the packet's
//! flow, or, where several share the peer's flows (RFC 9611), by the one that has the flow's share. A peer may have
//! any number of inbound associations, so that a rekey loses no packet: the successor's inbound side is installed
//! first, then its outbound side replaces the old one, and the old inbound side is removed when no packet of it can
//! still be on the way (RFC 7296, section 2.8).

use std::{
    collections::{BTreeMap, HashMap},
    net::IpAddr,
    sync::{Arc, Mutex},
    time::Instant,
};

use arc_swap::{ArcSwap, Cache};

use crate::{
    association::{Inbound, Outbound, Protocol},
    lifetime::Age,
    policy::{PeerId, Policies},
    selector::Flow,
    shares::Shares,
    table::Table,
};

pub use crate::shares::ShareBy;

/// A request to the key maker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Request {
    /// Packets wait for a first association.
    Acquire(PeerId),
    /// Packets are to have another association beside those that share the peer's flows.
    Share(PeerId),
    /// The outbound association has passed a soft limit, or will run out of numbers.
    Rekey(PeerId),
    /// The outbound association has passed a hard limit and no longer carries packets.
    Expired(PeerId),
}

/// The outbound associations of one peer; there is at least one. Associations with single hosts are found by the host's
/// address, so that a peer that stands for many clients costs no search.
#[derive(Clone, Debug, Default)]
pub struct Outbounds {
    /// The associations with networks, the newest first.
    wide: Arc<[Arc<Outbound>]>,
    /// The associations with single hosts by the host's address, the newest first.
    hosts: Arc<HashMap<IpAddr, Arc<[Arc<Outbound>]>>>,
    /// Associations that share the flows of those.
    shares: Shares,
}

impl Outbounds {
    /// Returns the association of the share that `by` tells. If it has none, returns the newest association that takes `flow`; one
    /// with this very host precedes those with networks.
    pub fn taking(&self, flow: &Flow, by: ShareBy) -> Option<&Arc<Outbound>> {
        if let Some(own) = self.shares.taking(flow, by) {
            return Some(own);
        }
        // Most peers have networks, and their flows need no look-up of the host.
        let host = if self.hosts.is_empty() { None } else { self.hosts.get(&flow.remote) };
        let of_host = host.into_iter().flat_map(|all| all.iter());
        // Without the first association, those of the shares carry its flows.
        let all = of_host.chain(self.wide.iter()).chain(self.shares.others());
        all.into_iter().find(|outbound| outbound.association().takes(flow))
    }

    /// Returns whether the flow is to have another association than [`Self::taking`] returns.
    pub fn lacks_share(&self, flow: &Flow, by: ShareBy) -> bool {
        self.shares.is_missing(flow, by)
    }

    /// Returns the number of associations that share flows, except for the first.
    pub fn shares(&self) -> usize {
        self.shares.others().len()
    }

    /// Returns all associations, each once.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Outbound>> {
        let is_first =
            |host: &IpAddr, one: &Arc<Outbound>| one.association().remote_hosts().first() == Some(host);
        let of_hosts = self
            .hosts
            .iter()
            .flat_map(move |(host, all)| all.iter().filter(move |outbound| is_first(host, outbound)));
        self.wide.iter().chain(of_hosts).chain(self.shares.others())
    }

    /// Returns the newest association.
    pub fn newest(&self) -> Option<&Arc<Outbound>> {
        self.iter().max_by_key(|outbound| outbound.association().installed())
    }

    fn is_empty(&self) -> bool {
        self.wide.is_empty() && self.hosts.is_empty() && self.shares.others().is_empty()
    }

    fn add(&mut self, outbound: &Arc<Outbound>) {
        let before = |all: &Arc<[Arc<Outbound>]>| {
            [outbound].into_iter().chain(all.iter()).cloned().collect::<Arc<[_]>>()
        };
        let hosts = outbound.association().remote_hosts();
        if hosts.is_empty() {
            self.wide = before(&self.wide);
            return;
        }
        let by_host = Arc::make_mut(&mut self.hosts);
        for &host in hosts {
            let all = by_host.entry(host).or_default();
            *all = before(all);
        }
    }

    /// Removes the association with this SPI. Returns whether there was one.
    fn remove(&mut self, spi: u32) -> bool {
        if self.shares.remove(spi) {
            return true;
        }
        let has_spi = |outbound: &&Arc<Outbound>| outbound.association().parameters().spi == spi;
        let Some(found) = self.iter().find(has_spi).cloned() else { return false };
        let without = |all: &Arc<[Arc<Outbound>]>| {
            all.iter().filter(|outbound| !Arc::ptr_eq(outbound, &found)).cloned().collect::<Arc<[_]>>()
        };
        self.wide = without(&self.wide);
        let by_host = Arc::make_mut(&mut self.hosts);
        for host in found.association().remote_hosts() {
            if let Some(all) = by_host.get_mut(host) {
                *all = without(all);
                if all.is_empty() {
                    by_host.remove(host);
                }
            }
        }
        true
    }
}

/// The state that lanes read.
#[derive(Debug, Default)]
pub struct Snapshot {
    /// The policies, which decide on packets.
    pub policies: Arc<Policies>,
    /// The outbound associations of each peer.
    pub outbound: Table<PeerId, Outbounds>,
    /// The inbound associations by the protocol and SPI that a packet names.
    pub inbound: Table<(Protocol, u32), Arc<Inbound>>,
}

/// The policies (SPD) and associations (SAD) of RFC 4301, section 4.4, and the requests for new associations.
#[derive(Debug, Default)]
pub struct Database {
    snapshot: ArcSwap<Snapshot>,
    /// Serializes writers; lanes never lock it.
    writing: Mutex<()>,
    /// The pending requests, each with the flow of the first packet that made it.
    requests: Mutex<BTreeMap<Request, Option<Flow>>>,
}

/// The maximum number of pending requests. A peer has at most four, so this many peers are served without loss.
const REQUESTS_MAX: usize = 4 * 65_536;

/// The SPI is already used by an inbound association.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("SPI {spi:#x} is in use")]
pub struct SpiInUse {
    /// The SPI that was to be installed.
    pub spi: u32,
}

impl Database {
    /// Returns databases with `policies` and no association.
    pub fn new(policies: Policies) -> Self {
        let database = Self::default();
        database.change(|snapshot| snapshot.policies = Arc::new(policies));
        database
    }

    /// Decides on packets by `policies` from now on.
    pub fn set_policies(&self, policies: Policies) {
        self.change(|snapshot| snapshot.policies = Arc::new(policies));
    }

    /// Returns a snapshot of the databases.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        self.snapshot.load_full()
    }

    /// Returns a lane's view, which costs one comparison while nothing changes.
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

    /// Accepts packets of `inbound` from now on.
    ///
    /// # Errors
    /// Fails if its SPI is in use.
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

    /// Protects all of the peer's packets by `outbound` from now on, in place of all earlier associations.
    pub fn install_outbound(&self, outbound: Arc<Outbound>) {
        let peer = outbound.association().parameters().peer;
        let mut only = Outbounds::default();
        only.add(&outbound);
        self.change(|snapshot| snapshot.outbound.insert(peer, only));
        self.answered(peer);
    }

    /// Protects the flows that `outbound` takes by it from now on. Earlier associations of the peer remain for other
    /// flows, and for the time after its end.
    pub fn add_outbound(&self, outbound: Arc<Outbound>) {
        let peer = outbound.association().parameters().peer;
        self.change(|snapshot| {
            let mut all = snapshot.outbound.get(&peer).cloned().unwrap_or_default();
            all.add(&outbound);
            snapshot.outbound.insert(peer, all);
        });
        self.answered(peer);
    }

    /// Gives flows of the peer to `outbound` that had other associations: those of the association with the SPI
    /// `instead_of`, which it replaces, or a share of all.
    pub fn add_share(&self, outbound: Arc<Outbound>, instead_of: Option<u32>) {
        let peer = outbound.association().parameters().peer;
        self.change(|snapshot| {
            let mut all = snapshot.outbound.get(&peer).cloned().unwrap_or_default();
            all.shares.add(outbound, instead_of);
            snapshot.outbound.insert(peer, all);
        });
        self.answered(peer);
    }

    /// Divides the peer's flows into `wanted` shares, if it has associations. Until a share has an association of its own,
    /// the first one carries its flows, and [`Outbounds::lacks_share`] says so.
    pub fn set_shares(&self, peer: PeerId, wanted: usize) {
        self.change(|snapshot| {
            if let Some(mut all) = snapshot.outbound.get(&peer).cloned() {
                all.shares.set_wanted(wanted);
                snapshot.outbound.insert(peer, all);
            }
        });
    }

    /// Removes the peer's outbound association with this SPI. Returns whether there was one.
    pub fn remove_outbound(&self, peer: PeerId, spi: u32) -> bool {
        self.change(|snapshot| {
            let Some(mut all) = snapshot.outbound.get(&peer).cloned() else { return false };
            let is_removed = all.remove(spi);
            match all.is_empty() {
                true => snapshot.outbound.remove(&peer),
                false => snapshot.outbound.insert(peer, all),
            };
            is_removed
        })
    }

    /// Removes the inbound association with this protocol and SPI. Returns whether there was one.
    pub fn remove_inbound(&self, protocol: Protocol, spi: u32) -> bool {
        self.change(|snapshot| snapshot.inbound.remove(&(protocol, spi)).is_some())
    }

    fn requests(&self) -> std::sync::MutexGuard<'_, BTreeMap<Request, Option<Flow>>> {
        self.requests.lock().expect("nobody panics holding the requests")
    }

    /// Removes all requests for the peer.
    fn answered(&self, peer: PeerId) {
        let mut requests = self.requests();
        for request in
            [Request::Acquire(peer), Request::Share(peer), Request::Rekey(peer), Request::Expired(peer)]
        {
            requests.remove(&request);
        }
    }

    /// Sends a request to the key maker. Returns whether the request is new; the caller then wakes the key maker.
    pub fn request(&self, request: Request) -> bool {
        self.ask(request, None)
    }

    /// Requests an association that takes `flow`, as [`Self::request`] does.
    pub fn acquire(&self, peer: PeerId, flow: &Flow) -> bool {
        self.ask(Request::Acquire(peer), Some(*flow))
    }

    fn ask(&self, request: Request, flow: Option<Flow>) -> bool {
        let mut requests = self.requests();
        let is_new = requests.len() < REQUESTS_MAX && !requests.contains_key(&request);
        if is_new {
            requests.insert(request, flow);
        }
        is_new
    }

    /// Returns the requests that the key maker has not answered yet, in no order. A request is pending until its peer
    /// gets an outbound association.
    pub fn standing_requests(&self) -> Vec<Request> {
        self.requests().keys().copied().collect()
    }

    /// Returns the flow for which [`Request::Acquire`] of this peer is pending.
    pub fn acquired_flow(&self, peer: PeerId) -> Option<Flow> {
        self.requests().get(&Request::Acquire(peer)).copied().flatten()
    }

    /// Removes a request that the key maker has processed, so that a later packet can make it again.
    pub fn withdraw(&self, request: Request) {
        self.requests().remove(&request);
    }

    /// Requests successors of all associations that have passed a limit. An association past a hard limit stops
    /// carrying packets by itself.
    pub fn request_due(&self, now: Instant) -> bool {
        let snapshot = self.snapshot.load();
        let all = snapshot.outbound.iter().flat_map(|(&peer, all)| all.iter().map(move |one| (peer, one)));
        let due = all.filter_map(|(peer, outbound)| match outbound.association().age(now) {
            Age::Young => None,
            Age::Soft => Some(Request::Rekey(peer)),
            Age::Hard => Some(Request::Expired(peer)),
        });
        // Every request is made, even if an earlier one is new.
        due.fold(false, |any, request| self.request(request) | any)
    }
}

impl Request {
    /// Returns the peer that the request is about.
    pub fn peer(self) -> PeerId {
        match self {
            Self::Acquire(peer) | Self::Share(peer) | Self::Rekey(peer) | Self::Expired(peer) => peer,
        }
    }
}

/// A lane's view of the databases.
#[derive(Debug)]
pub struct View<'a>(Cache<&'a ArcSwap<Snapshot>, Arc<Snapshot>>);

impl View<'_> {
    /// Returns the newest snapshot.
    pub fn load(&mut self) -> &Arc<Snapshot> {
        self.0.load()
    }
}

#[cfg(test)]
mod tests {
    use sealane_engine::Implementations;

    use super::*;
    use crate::{
        association::{Mode, Parameters},
        lifetime::Lifetime,
        sequence::SequenceBits,
        traffic::{Ports, Range, Traffic},
    };

    fn address(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    fn flow(remote: IpAddr) -> Flow {
        let local = address(if remote.is_ipv4() { "10.1.0.1" } else { "fd01::1" });
        Flow { local, remote, protocol: 6, local_port: Some(1), remote_port: Some(2) }
    }

    /// Returns an association of peer 1 with these ranges of addresses.
    fn outbound(spi: u32, remote: &[(IpAddr, IpAddr)]) -> Arc<Outbound> {
        let range = |(first, last)| Range { protocol: None, ports: Ports::Any, addresses: first..=last };
        let local = [("10.1.0.0", "10.1.0.255"), ("fd01::", "fd01::ffff")];
        let local = local.map(|(first, last)| range((address(first), address(last)))).to_vec();
        let parameters = Parameters {
            spi,
            peer: PeerId(1),
            protocol: Protocol::Esp,
            mode: Mode::Tunnel,
            suite: "aes-128-gcm".parse().expect("a suite"),
            sequence: SequenceBits::Extended,
            lifetime: Lifetime::default(),
        };
        let made = Outbound::new(Implementations::default(), parameters, &[7; 20], 1, Instant::now());
        let traffic = Arc::new(Traffic { local, remote: remote.iter().copied().map(range).collect() });
        Arc::new(made.expect("good parameters").only_for(traffic, Arc::default()))
    }

    #[test]
    fn a_request_stands_once_until_its_peer_is_served() {
        let database = Database::default();
        let all = |peer| {
            [Request::Acquire(peer), Request::Share(peer), Request::Rekey(peer), Request::Expired(peer)]
        };
        for request in all(PeerId(1)).into_iter().chain(all(PeerId(2))) {
            assert!(database.request(request), "{request:?}");
            assert!(!database.request(request), "{request:?} stands already");
        }
        database.answered(PeerId(1));
        assert_eq!(database.standing_requests(), all(PeerId(2)));
    }

    #[test]
    fn the_newest_association_that_takes_a_flow_protects_it() {
        let flow = |remote: &str| flow(address(remote));
        let outbound = |spi, last: &str| outbound(spi, &[(address("10.2.0.0"), address(last))]);
        let database = Database::default();
        let chosen = |remote: &str| {
            let snapshot = database.snapshot();
            let chosen = snapshot.outbound.get(&PeerId(1))?.taking(&flow(remote), ShareBy::Flow)?;
            Some(chosen.association().parameters().spi)
        };
        assert!(
            database.acquire(PeerId(1), &flow("10.2.0.9")) && !database.acquire(PeerId(1), &flow("10.2.0.8"))
        );
        assert_eq!(database.acquired_flow(PeerId(1)), Some(flow("10.2.0.9")));
        database.add_outbound(outbound(0x101, "10.2.0.255"));
        assert_eq!(database.standing_requests(), []);
        database.add_outbound(outbound(0x102, "10.2.0.15"));
        assert_eq!((chosen("10.2.0.1"), chosen("10.2.0.200")), (Some(0x102), Some(0x101)));
        assert_eq!(chosen("10.3.0.1"), None);
        assert!(database.remove_outbound(PeerId(1), 0x102) && !database.remove_outbound(PeerId(1), 0x102));
        assert_eq!(chosen("10.2.0.1"), Some(0x101));
        database.add_outbound(outbound(0x103, "10.2.0.255"));
        assert_eq!((chosen("10.2.0.1"), chosen("10.2.0.200")), (Some(0x103), Some(0x103)));
        database.install_outbound(outbound(0x104, "10.2.0.15"));
        assert_eq!((chosen("10.2.0.1"), chosen("10.2.0.200")), (Some(0x104), None));
        assert!(database.remove_outbound(PeerId(1), 0x104));
        assert!(database.snapshot().outbound.is_empty());
    }

    #[test]
    fn associations_with_single_hosts_are_found_by_the_host() {
        let (v4, v6) = (IpAddr::from([10, 9, 0, 1]), IpAddr::from([0xfd09, 0, 0, 0, 0, 0, 0, 1]));
        let database = Database::default();
        let add = |spi, hosts: &[IpAddr]| {
            let hosts: Vec<_> = hosts.iter().map(|&host| (host, host)).collect();
            database.add_outbound(outbound(spi, &hosts));
        };
        let chosen = |remote: IpAddr| {
            let snapshot = database.snapshot();
            let chosen = snapshot.outbound.get(&PeerId(1))?.taking(&flow(remote), ShareBy::Flow)?;
            Some(chosen.association().parameters().spi)
        };
        let count = || database.snapshot().outbound.get(&PeerId(1)).map_or(0, |all| all.iter().count());
        add(0x101, &[v4, v6]);
        for client in 2..200 {
            add(0x200 + u32::from(client), &[IpAddr::from([10, 9, 0, client])]);
        }
        assert_eq!((chosen(v4), chosen(v6), count()), (Some(0x101), Some(0x101), 199));
        assert_eq!(chosen(IpAddr::from([10, 9, 0, 77])), Some(0x200 + 77));
        assert_eq!(chosen(IpAddr::from([10, 9, 0, 200])), None);
        // The successor is used at once, and the old one after its end.
        add(0x102, &[v4]);
        assert_eq!((chosen(v4), chosen(v6), count()), (Some(0x102), Some(0x101), 200));
        assert!(database.remove_outbound(PeerId(1), 0x102) && !database.remove_outbound(PeerId(1), 0x102));
        assert_eq!(chosen(v4), Some(0x101));
        assert!(database.remove_outbound(PeerId(1), 0x101));
        assert_eq!((chosen(v4), chosen(v6), count()), (None, None, 198));
    }

    #[test]
    fn associations_that_share_flows_have_about_as_many_each_and_a_flow_keeps_its_own() {
        let database = Database::default();
        let network = [(address("10.2.0.0"), address("10.2.255.255"))];
        let flows: Vec<Flow> =
            (0..4000u32).map(|host| flow(IpAddr::from([10, 2, (host >> 8) as u8, host as u8]))).collect();
        let chosen = || -> Vec<u32> {
            let snapshot = database.snapshot();
            let all = snapshot.outbound.get(&PeerId(1)).expect("there are some");
            let spi =
                |flow| all.taking(flow, ShareBy::Flow).expect("one takes it").association().parameters().spi;
            flows.iter().map(spi).collect()
        };
        let lacking = || {
            let snapshot = database.snapshot();
            let all = snapshot.outbound.get(&PeerId(1)).expect("there are some");
            flows.iter().filter(|flow| all.lacks_share(flow, ShareBy::Flow)).count()
        };
        let count = |chosen: &[u32], spi| chosen.iter().filter(|own| **own == spi).count();
        database.add_outbound(outbound(0x101, &network));
        assert_eq!((count(&chosen(), 0x101), lacking()), (4000, 0));
        // The first association carries the flows of shares that have none.
        database.set_shares(PeerId(1), 4);
        assert_eq!(count(&chosen(), 0x101), 4000);
        assert!((2800..3200).contains(&lacking()), "{} of three fourths", lacking());
        database.request(Request::Share(PeerId(1)));
        for spi in [0x102, 0x103, 0x104] {
            let before = chosen();
            database.add_share(outbound(spi, &network), None);
            let after = chosen();
            let moved = before.iter().zip(&after).filter(|(before, after)| before != after);
            assert!(moved.clone().all(|(before, after)| (*before, *after) == (0x101, spi)), "others stay");
            assert_eq!(moved.count(), count(&after, spi));
        }
        assert_eq!((lacking(), database.standing_requests()), (0, Vec::new()));
        let all = chosen();
        for spi in 0x101..=0x104 {
            assert!((900..1100).contains(&count(&all, spi)), "{spi:#x} has {}", count(&all, spi));
        }
        // A successor takes over its predecessor's flows, and no others; the end of one moves flows to those left.
        database.add_share(outbound(0x203, &network), Some(0x103));
        let expected: Vec<u32> = all.iter().map(|&spi| if spi == 0x103 { 0x203 } else { spi }).collect();
        assert_eq!(chosen(), expected);
        assert!(database.remove_outbound(PeerId(1), 0x102) && !database.remove_outbound(PeerId(1), 0x103));
        assert!(chosen().iter().all(|spi| [0x101, 0x203, 0x104].contains(spi)) && lacking() > 0);
        database.set_shares(PeerId(1), 3);
        assert_eq!(lacking(), 0);
        // Without the first association the others carry everything.
        assert!(database.remove_outbound(PeerId(1), 0x101));
        assert!(chosen().iter().all(|spi| [0x203, 0x104].contains(spi)));
        assert!(database.remove_outbound(PeerId(1), 0x203) && database.remove_outbound(PeerId(1), 0x104));
        assert!(database.snapshot().outbound.is_empty());
    }
    #[test]
    fn each_queue_has_a_share_of_its_own_and_those_beyond_the_shares_have_the_first_ones() {
        let database = Database::default();
        let network = [(address("10.2.0.0"), address("10.2.255.255"))];
        // The SPI under which each of five queues sends, whatever the flow, and whether the queue is to have another one.
        let chosen = || -> Vec<(u32, bool)> {
            let snapshot = database.snapshot();
            let all = snapshot.outbound.get(&PeerId(1)).expect("there are some");
            let of = |queue, host| {
                let (flow, by) = (flow(IpAddr::from([10, 2, 0, host])), ShareBy::Queue(queue));
                let taking = all.taking(&flow, by).expect("one takes it");
                (taking.association().parameters().spi, all.lacks_share(&flow, by))
            };
            let of_queue = |queue| {
                assert!((0..50).all(|host| of(queue, host) == of(queue, 0)), "{queue}");
                of(queue, 0)
            };
            (0..5).map(of_queue).collect()
        };
        database.add_outbound(outbound(0x101, &network));
        assert_eq!(chosen(), [(0x101, false); 5]);
        database.set_shares(PeerId(1), 4);
        let first = (0x101, false);
        assert_eq!(chosen(), [first, (0x101, true), (0x101, true), (0x101, true), first]);
        database.add_share(outbound(0x102, &network), None);
        database.add_share(outbound(0x103, &network), None);
        assert_eq!(chosen(), [first, (0x102, false), (0x103, false), (0x101, true), first]);
        // The peer refuses a fourth.
        database.set_shares(PeerId(1), 3);
        assert_eq!(chosen(), [first, (0x102, false), (0x103, false), first, (0x102, false)]);
        database.add_share(outbound(0x202, &network), Some(0x102));
        assert!(database.remove_outbound(PeerId(1), 0x101));
        assert_eq!(chosen()[1], (0x202, false));
        assert!(chosen().iter().all(|(spi, _)| [0x202, 0x103].contains(spi)), "{:?}", chosen());
    }
}

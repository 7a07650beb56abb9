//! Two ends, a clock that jumps to the next event, and a network between them that loses, repeats and reorders
//! datagrams as a seed determines.

#![allow(dead_code, reason = "each program of tests takes the parts that it needs")]

pub(crate) mod authority;
pub(crate) mod histories;
pub(crate) mod model;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, SocketAddr},
    time::{Duration, Instant},
};

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};
use sealane_ike::{
    Assignment, ChildId, ChildPolicy, Endpoint, Event, Expect, Families, Identity, IkeId, Install, Mode,
    Offer, Peer, Prove, Random, Reason, Settings, wire::TrafficSelector,
};
use zeroize::Zeroizing;

/// Pseudo-random numbers from a seed.
#[derive(Clone, Debug)]
pub(crate) struct Dice(SplitMix64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(SplitMix64::seed_from_u64(seed))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    pub(crate) fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    pub(crate) fn random(seed: u64) -> Random {
        let mut dice = Self::new(seed);
        Random::from_source(move |bytes| {
            for chunk in bytes.chunks_mut(8) {
                chunk.copy_from_slice(&dice.next().to_be_bytes()[..chunk.len()]);
            }
        })
    }
}

pub(crate) fn address(index: usize) -> IpAddr {
    format!("192.0.2.{}", index + 1).parse().unwrap()
}

pub(crate) fn key(text: &str) -> Zeroizing<Vec<u8>> {
    Zeroizing::new(text.as_bytes().to_vec())
}

pub(crate) fn network(word: &str) -> TrafficSelector {
    let (address, bits) = word.split_once('/').unwrap();
    TrafficSelector::network(address.parse().unwrap(), bits.parse().unwrap())
}

pub(crate) fn policy(index: usize) -> ChildPolicy {
    let sides = [network("10.1.0.0/16"), network("10.2.0.0/16")];
    ChildPolicy {
        name: "net".to_owned(),
        local: vec![sides[index]],
        remote: vec![sides[1 - index]],
        proposals: vec![Offer::esp("aes256gcm16-x25519").unwrap()],
        mode: Mode::Tunnel,
        resources: 0,
    }
}

/// Returns the peer in the configuration of end `index`, that is, the other end.
pub(crate) fn peer(index: usize) -> Peer {
    Peer {
        name: format!("end {}", 1 - index),
        local: Some(address(index)),
        remote: Some(address(1 - index)),
        local_identity: Identity::from_text(&format!("end{index}.example")),
        remote_identity: Some(Identity::from_text(&format!("end{}.example", 1 - index))),
        prove: Prove::SharedKey(key("a key that both ends have")),
        expect: Expect::SharedKey(key("a key that both ends have")),
        proposals: vec![Offer::ike("aes256gcm16-prfsha384-x25519").unwrap()],
        children: vec![policy(index)],
        pool: None,
        asks_for: Families::default(),
        always_encapsulate: false,
        mobike: false,
        childless: false,
        ike_lifetime: None,
        child_lifetime: None,
        probe_after: None,
    }
}

/// One end, and the state that its owner knows from its events.
pub(crate) struct End {
    pub(crate) endpoint: Endpoint,
    pub(crate) children: BTreeMap<ChildId, Install>,
    pub(crate) up: BTreeSet<IkeId>,
    pub(crate) down: Vec<Reason>,
    pub(crate) failed: Vec<Reason>,
    pub(crate) refused: Vec<Reason>,
    pub(crate) removed: Vec<Reason>,
    pub(crate) rekeyed: usize,
    pub(crate) moved: Vec<sealane_ike::Path>,
    pub(crate) users: Vec<String>,
    pub(crate) leased: Vec<Assignment>,
    pub(crate) configured: Vec<Assignment>,
}

impl End {
    pub(crate) fn new(settings: Settings, peers: Vec<Peer>, seed: u64) -> Self {
        Self {
            endpoint: Endpoint::new(settings, peers, Dice::random(seed)),
            children: BTreeMap::new(),
            up: BTreeSet::new(),
            down: Vec::new(),
            failed: Vec::new(),
            refused: Vec::new(),
            removed: Vec::new(),
            rekeyed: 0,
            moved: Vec::new(),
            users: Vec::new(),
            leased: Vec::new(),
            configured: Vec::new(),
        }
    }

    pub(crate) fn take_events(&mut self) {
        while let Some(event) = self.endpoint.poll_event() {
            match event {
                Event::Established { ike, user, .. } => {
                    assert!(self.up.insert(ike), "an IKE SA stands twice");
                    self.users.extend(user);
                }
                Event::Leased { assignment, .. } => self.leased.push(assignment),
                Event::Configured { assignment, .. } => self.configured.push(assignment),
                Event::Down { ike, reason, .. } => {
                    self.up.remove(&ike);
                    self.down.push(reason);
                }
                Event::Install(install) => {
                    assert!(self.up.contains(&install.ike), "a child of an IKE SA that does not stand");
                    assert!(self.children.insert(install.child, *install).is_none());
                }
                Event::UseOutbound { child } => {
                    self.children.get_mut(&child).expect("it was installed").is_outbound_live = true;
                }
                Event::Remove { child, reason } => {
                    assert!(self.children.remove(&child).is_some(), "a child that was not installed");
                    self.removed.push(reason);
                }
                Event::ChildFailed { reason, .. } | Event::RekeyRefused { reason, .. } => {
                    self.failed.push(reason);
                }
                Event::Refused { reason, .. } => self.refused.push(reason),
                Event::Rekeyed { .. } => self.rekeyed += 1,
                Event::Moved { path, .. } => self.moved.push(path),
                _ => {}
            }
        }
        let stray = self.children.values().find(|install| !self.up.contains(&install.ike));
        assert!(stray.is_none(), "a child outlived its IKE SA");
    }

    /// Returns the keys of all children with their SPIs, ours first.
    pub(crate) fn keys(&self) -> BTreeSet<(u32, Vec<u8>, u32, Vec<u8>)> {
        let ends = self.children.values().map(|install| {
            let (inbound, outbound) = (&install.inbound, &install.outbound);
            (inbound.spi, inbound.material.to_vec(), outbound.spi, outbound.material.to_vec())
        });
        ends.collect()
    }

    pub(crate) fn only_child(&self) -> &Install {
        assert_eq!(self.children.len(), 1);
        self.children.values().next().unwrap()
    }

    pub(crate) fn ike(&self) -> IkeId {
        *self.up.first().expect("one stands")
    }
}

struct Datagram {
    at: Instant,
    order: u64,
    to: usize,
    bytes: Vec<u8>,
    path: sealane_ike::Path,
}

/// The network's treatment of datagrams.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Weather {
    pub(crate) lost_percent: u64,
    pub(crate) repeated_percent: u64,
    pub(crate) delay_max_ms: u64,
}

type Filter = dyn FnMut(usize, &[u8]) -> bool;
type Delay = dyn FnMut(usize, &[u8]) -> Duration;

pub(crate) struct Pair {
    pub(crate) ends: [End; 2],
    pub(crate) now: Instant,
    pub(crate) weather: Weather,
    pub(crate) dice: Dice,
    /// Inspects each datagram before it is sent, with the sending end; `false` loses it.
    pub(crate) filter: Box<Filter>,
    /// Additional delay of a datagram, by the sending end.
    pub(crate) delay: Box<Delay>,
    pub(crate) sent: usize,
    /// The address and port of end 0 as seen from outside, if it is behind a NAT; datagrams to earlier ones are lost.
    pub(crate) nat: Option<SocketAddr>,
    inside: Option<SocketAddr>,
    under_way: Vec<Datagram>,
    order: u64,
}

impl Pair {
    pub(crate) fn new(peers: [Vec<Peer>; 2], seed: u64) -> Self {
        Self::with_settings(peers, seed, Settings::default())
    }

    pub(crate) fn with_settings(peers: [Vec<Peer>; 2], seed: u64, settings: Settings) -> Self {
        let [a, b] = peers;
        Self {
            ends: [End::new(settings.clone(), a, seed ^ 0xa), End::new(settings, b, seed ^ 0xb)],
            now: Instant::now(),
            weather: Weather::default(),
            dice: Dice::new(seed),
            filter: Box::new(|_, _| true),
            delay: Box::new(|_, _| Duration::ZERO),
            sent: 0,
            nat: None,
            inside: None,
            under_way: Vec::new(),
            order: 0,
        }
    }

    /// Returns a pair of ends with the same changes to the configuration of each.
    pub(crate) fn of(change: impl Fn(&mut Peer)) -> Self {
        let mut peers = [peer(0), peer(1)];
        peers.iter_mut().for_each(&change);
        Self::new(peers.map(|peer| vec![peer]), 1)
    }

    pub(crate) fn initiate(&mut self, end: usize) {
        self.ends[end].endpoint.initiate(0, Some(0), None, self.now).expect("both addresses are configured");
        self.collect();
    }

    /// Returns the path of a datagram after the NAT, if there is one.
    fn translated(&mut self, from: usize, path: sealane_ike::Path) -> Option<sealane_ike::Path> {
        let Some(outside) = self.nat else { return Some(path) };
        if from == 0 {
            self.inside = Some(path.local);
            return Some(sealane_ike::Path { local: outside, ..path });
        }
        let inside = self.inside.filter(|_| path.remote == outside)?;
        Some(sealane_ike::Path { remote: inside, ..path })
    }

    /// Collects the datagrams and events of both ends.
    pub(crate) fn collect(&mut self) {
        for from in 0..2 {
            while let Some(transmit) = self.ends[from].endpoint.poll_transmit() {
                if !(self.filter)(from, &transmit.bytes) {
                    continue;
                }
                self.sent += 1;
                let Some(path) = self.translated(from, transmit.path) else { continue };
                let delayed = (self.delay)(from, &transmit.bytes);
                let copies = 1 + u64::from(self.dice.percent(self.weather.repeated_percent));
                for _ in 0..copies {
                    if self.dice.percent(self.weather.lost_percent) {
                        continue;
                    }
                    let delay = Duration::from_millis(10 + self.dice.below(self.weather.delay_max_ms + 1));
                    self.order += 1;
                    self.under_way.push(Datagram {
                        at: self.now + delay + delayed,
                        order: self.order,
                        to: 1 - from,
                        bytes: transmit.bytes.clone(),
                        path,
                    });
                }
            }
            self.ends[from].take_events();
        }
    }

    /// Jumps to the next datagram or deadline before `until`. Returns whether there was one.
    pub(crate) fn step(&mut self, until: Instant) -> bool {
        self.collect();
        let arrival =
            self.under_way.iter().enumerate().min_by_key(|(_, d)| (d.at, d.order)).map(|(i, d)| (d.at, i));
        let deadline = self.ends.iter().filter_map(|end| end.endpoint.poll_timeout()).min();
        match (arrival, deadline) {
            (Some((at, index)), deadline)
                if at <= until && deadline.is_none_or(|deadline| at <= deadline) =>
            {
                self.now = self.now.max(at);
                let datagram = self.under_way.swap_remove(index);
                let (from, to): (SocketAddr, SocketAddr) = (datagram.path.local, datagram.path.remote);
                self.ends[datagram.to].endpoint.handle(&datagram.bytes, from, to, self.now);
            }
            (_, Some(deadline)) if deadline <= until => {
                self.now = self.now.max(deadline);
                for end in &mut self.ends {
                    end.endpoint.handle_timeout(self.now);
                }
            }
            _ => {
                self.now = until;
                return false;
            }
        }
        self.collect();
        true
    }

    pub(crate) fn run(&mut self, time: Duration) {
        let until = self.now + time;
        let mut steps = 0;
        while self.step(until) {
            steps += 1;
            assert!(steps < 100_000, "the ends never come to rest");
        }
    }

    pub(crate) fn run_seconds(&mut self, seconds: u64) {
        self.run(Duration::from_secs(seconds));
    }

    /// Lets time pass, after which both ends are up as [`Pair::assert_up`] says.
    #[track_caller]
    pub(crate) fn up_after(&mut self, seconds: u64, children: usize) {
        self.run_seconds(seconds);
        self.assert_up(children);
    }

    /// End 0 begins, and time passes.
    pub(crate) fn begin(&mut self, seconds: u64) {
        self.initiate(0);
        self.run_seconds(seconds);
    }

    /// End 0 begins, and both ends have a child a moment later.
    #[track_caller]
    pub(crate) fn join(&mut self) {
        self.begin(5);
        self.assert_up(1);
    }

    /// Returns whether nothing is under way: no datagram, and no IKE SA beside its successor.
    pub(crate) fn is_at_rest(&self) -> bool {
        self.under_way.is_empty()
            && self.ends.iter().all(|end| end.endpoint.established().count() == end.up.len())
    }

    /// Returns whether no datagram is under way.
    pub(crate) fn now_is_calm(&self) -> bool {
        self.under_way.is_empty()
    }

    /// Returns whether both ends have the same children with the same keys, and as many IKE SAs.
    pub(crate) fn agrees(&self) -> bool {
        let swapped =
            |end: &End| end.keys().into_iter().map(|(a, b, c, d)| (c, d, a, b)).collect::<BTreeSet<_>>();
        self.ends[0].keys() == swapped(&self.ends[1]) && self.ends[0].up.len() == self.ends[1].up.len()
    }

    #[track_caller]
    pub(crate) fn assert_agree(&self) {
        assert!(self.agrees(), "the ends have different children, or IKE SAs");
    }

    /// Asserts that both ends are established, with `children` children that both use for sending.
    #[track_caller]
    pub(crate) fn assert_up(&self, children: usize) {
        self.assert_agree();
        for end in &self.ends {
            assert_eq!(
                end.up.len(),
                1,
                "down: {:?}, failed: {:?}, refused: {:?}",
                end.down,
                end.failed,
                end.refused
            );
            assert_eq!(end.children.len(), children, "failed: {:?}", end.failed);
            assert!(end.children.values().all(|install| install.is_outbound_live));
        }
    }
}

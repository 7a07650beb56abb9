//! A gateway and several devices of one user, each at an address of its own.

mod common;

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use common::{End, network, peer};
use sealane_ike::{Expect, Families, Identity, Peer, Pool, Reason, Settings};

/// A device, its address, and whether datagrams reach it and it them.
struct Device {
    at: SocketAddr,
    end: End,
    is_on: bool,
}

struct Star {
    gateway: End,
    devices: Vec<Device>,
    now: Instant,
}

fn at(number: u8, port: u16) -> SocketAddr {
    SocketAddr::from(([203, 0, 113, number], port))
}

/// Returns the gateway in a device's configuration; all devices say that they are `alice.example`.
fn gateway_of(device: SocketAddr) -> Peer {
    let mut gateway = peer(0);
    gateway.local = Some(device.ip());
    gateway.local_identity = Identity::from_text("alice.example");
    gateway.remote_identity = Some(Identity::from_text("end1.example"));
    gateway.asks_for = Families { ipv4: true, ipv6: false };
    gateway.children[0].local = vec![network("10.99.0.0/24")];
    gateway.probe_after = Some(Duration::from_secs(20));
    gateway
}

impl Star {
    fn new() -> Self {
        let mut clients = peer(1);
        (clients.remote, clients.remote_identity, clients.pool) = (None, None, Some(0));
        clients.children[0].remote = vec![network("10.99.0.0/24")];
        clients.probe_after = Some(Duration::from_secs(20));
        let range = ("10.99.0.1".parse().unwrap(), "10.99.0.200".parse().unwrap());
        let pools = vec![Pool { addresses: vec![range], ..Pool::default() }];
        let settings = Settings { pools, ..Settings::default() };
        let now = Instant::now();
        Self { gateway: End::new(settings, vec![clients], 7), devices: Vec::new(), now }
    }

    /// Switches a device on that has no memory of an earlier time.
    fn join(&mut self, at: SocketAddr) -> usize {
        let seed = 100 + self.devices.len() as u64;
        let mut end = End::new(Settings::default(), vec![gateway_of(at)], seed);
        end.endpoint.initiate(0, Some(0), None, self.now).expect("its addresses are known");
        self.devices.push(Device { at, end, is_on: true });
        self.settle();
        self.run_seconds(5);
        self.devices.len() - 1
    }

    /// Delivers what is under way at once.
    fn settle(&mut self) {
        loop {
            let mut is_quiet = true;
            for device in &mut self.devices {
                while let Some(sent) = device.end.endpoint.poll_transmit() {
                    is_quiet = false;
                    // Port 4500 of a device is behind one of its own.
                    let from = SocketAddr::new(device.at.ip(), device.at.port() + sent.path.local.port());
                    if device.is_on {
                        self.gateway.endpoint.handle(&sent.bytes, from, sent.path.remote, self.now);
                    }
                }
                device.end.take_events();
            }
            while let Some(sent) = self.gateway.endpoint.poll_transmit() {
                is_quiet = false;
                let found = self.devices.iter_mut().filter(|device| device.is_on).rfind(|device| {
                    let ports = [500, 4500].map(|port| device.at.port() + port);
                    device.at.ip() == sent.path.remote.ip() && ports.contains(&sent.path.remote.port())
                });
                if let Some(device) = found {
                    let port = sent.path.remote.port() - device.at.port();
                    let to = SocketAddr::new(device.at.ip(), port);
                    device.end.endpoint.handle(&sent.bytes, sent.path.local, to, self.now);
                    device.end.take_events();
                }
            }
            self.gateway.take_events();
            if is_quiet {
                return;
            }
        }
    }

    fn run_seconds(&mut self, seconds: u64) {
        let until = self.now + Duration::from_secs(seconds);
        loop {
            let ends = self.devices.iter().map(|device| &device.end).chain([&self.gateway]);
            let due = ends.filter_map(|end| end.endpoint.poll_timeout()).min();
            let Some(at) = due.filter(|at| *at <= until) else { break };
            self.now = self.now.max(at);
            self.gateway.endpoint.handle_timeout(self.now);
            let now = self.now;
            self.devices.iter_mut().for_each(|device| device.end.endpoint.handle_timeout(now));
            self.settle();
        }
        self.now = until;
    }
}

#[test]
fn devices_of_one_user_leave_each_other_alone() {
    let mut star = Star::new();
    // The third is behind the NAT of the first.
    for place in [at(1, 0), at(2, 0), at(1, 10_000)] {
        star.join(place);
        star.run_seconds(60);
    }
    star.run_seconds(300);
    assert_eq!(star.gateway.down, [], "each lives, whatever the others say");
    assert_eq!((star.gateway.up.len(), star.gateway.children.len()), (3, 3));
    for device in &star.devices {
        assert_eq!(device.end.down, []);
        assert_eq!(device.end.children.len(), 1);
    }
    let mut addresses: Vec<_> = star.gateway.leased.iter().flat_map(|own| own.addresses.clone()).collect();
    addresses.sort_unstable();
    addresses.dedup();
    assert_eq!(addresses.len(), 3, "each has an address of its own");
}

#[test]
fn a_device_that_comes_back_replaces_what_is_left_of_it() {
    let mut star = Star::new();
    let first = star.join(at(1, 0));
    star.join(at(2, 0));
    // It has lost its state, and comes back from the same address and port: no question is needed.
    star.devices[first].is_on = false;
    star.join(at(1, 0));
    assert_eq!(star.gateway.down, [Reason::Replaced]);
    assert_eq!(star.gateway.up.len(), 2);
    // Now it comes from elsewhere, and nobody answers at its old address.
    star.devices[2].is_on = false;
    star.join(at(9, 0));
    assert_eq!(star.gateway.up.len(), 3, "a probe is under way");
    star.run_seconds(100);
    assert_eq!(star.gateway.down, [Reason::Replaced, Reason::Replaced]);
    assert_eq!((star.gateway.up.len(), star.gateway.children.len()), (2, 2));
}

/// An entry with an identity stands for one peer, wherever it is.
#[test]
fn of_a_peer_with_an_identity_the_newest_stays_and_the_other_is_told() {
    let mut star = Star::new();
    let mut one = peer(1);
    (one.remote, one.remote_identity) = (None, Some(Identity::from_text("alice.example")));
    one.children[0].remote = vec![network("10.99.0.0/24")];
    star.gateway = End::new(Settings::default(), vec![one], 7);
    let first = star.join(at(1, 0));
    star.join(at(2, 0));
    assert_eq!(star.gateway.down, [Reason::Replaced]);
    assert_eq!(star.devices[first].end.down, [Reason::DeletedByPeer], "it is told");
    assert_eq!((star.gateway.up.len(), star.gateway.children.len()), (1, 1));
}

/// The owner of the endpoint may end what is more than it allows, whether the peer answers or not.
#[test]
fn an_end_does_not_wait_for_the_peer() {
    let mut star = Star::new();
    let first = star.join(at(1, 0));
    let ike = star.gateway.ike();
    star.devices[first].is_on = false;
    star.gateway.endpoint.end(ike, &Reason::TooMany, star.now);
    star.settle();
    assert_eq!(star.gateway.down, [Reason::TooMany]);
    assert!(star.gateway.children.is_empty());
    star.run_seconds(10);
    assert_eq!(star.gateway.endpoint.sas(), 0, "nothing is left");
}

/// A peer whose credentials have changed is judged again; others notice nothing.
#[test]
fn what_the_configuration_does_not_allow_any_more_ends_and_the_rest_stays() {
    let mut star = Star::new();
    star.join(at(1, 0));
    let mut clients = peer(1);
    (clients.remote, clients.remote_identity, clients.pool) = (None, None, Some(0));
    clients.children[0].remote = vec![network("10.99.0.0/24")];
    let (same, mut other) = (clients.clone(), clients);
    star.gateway.endpoint.renew_peer(0, same, star.now);
    star.settle();
    star.run_seconds(60);
    assert_eq!((star.gateway.up.len(), star.gateway.down.len()), (1, 0), "the key is the same");
    other.expect = Expect::SharedKey(common::key("another key of both ends"));
    star.gateway.endpoint.renew_peer(0, other.clone(), star.now);
    star.settle();
    assert_eq!(star.gateway.down, [Reason::Withdrawn]);
    assert_eq!(star.devices[0].end.down, [Reason::DeletedByPeer], "it is told");
    star.join(at(1, 0));
    assert!(star.gateway.up.is_empty(), "the old key is of no use");
    // A peer that is added is spoken with, and one that is removed is not.
    let mut third = other;
    third.remote_identity = Some(Identity::from_text("alice.example"));
    third.expect = peer(1).expect;
    let place = star.gateway.endpoint.add_peer(third);
    star.join(at(3, 0));
    assert_eq!(star.gateway.up.len(), 1);
    star.gateway.endpoint.remove_peer(place, star.now);
    star.settle();
    assert!(star.gateway.up.is_empty() && star.gateway.children.is_empty());
    assert_eq!(star.devices[2].end.down, [Reason::DeletedByPeer]);
    star.join(at(3, 0));
    assert!(star.gateway.up.is_empty(), "it is gone");
}

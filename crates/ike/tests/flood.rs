//! Floods of strangers' first messages, in virtual time: state and memory stay bounded, those who are established are
//! not affected, and genuine peers get in.

#[path = "../../../testing/allocations.rs"]
mod allocations;
mod common;

use std::{
    net::{IpAddr, Ipv4Addr, SocketAddr},
    time::{Duration, Instant},
};

use common::{Dice, End, peer};
use sealane_ike::{
    Endpoint, Identity, Settings,
    wire::{HEADER_BYTES, Header, NotifyType, PayloadType, Spis},
};

/// Messages per virtual second of strangers whose addresses are not theirs, and per millisecond.
const PER_SECOND: u32 = 50_000;
const PER_MILLISECOND: u32 = PER_SECOND / 1000;
/// Messages per virtual second of strangers that answer at their addresses: in the time in which a half-open IKE SA is
/// kept they are many times the room that there is.
const ANSWERING_PER_SECOND: u32 = 500;
/// Most memory that a flood may take.
const MOST_BYTES: i64 = 64 << 20;

/// A gateway under attack, with genuine peers.
struct Scene {
    gateway: End,
    /// Each peer has an address of its own.
    peers: Vec<(IpAddr, End)>,
    now: Instant,
    /// The first message of a stranger; its SPI is replaced.
    message: Vec<u8>,
    strangers: u32,
}

fn gateway_address() -> IpAddr {
    common::address(1)
}

impl Scene {
    fn new(settings: Settings) -> Self {
        let mut open = peer(1);
        (open.remote, open.remote_identity) = (None, None);
        let mut stranger = Endpoint::new(Settings::default(), vec![peer(0)], Dice::random(5));
        stranger.initiate(0, Some(0), None, Instant::now()).unwrap();
        Self {
            gateway: End::new(settings, vec![open], 6),
            peers: Vec::new(),
            now: Instant::now(),
            message: stranger.poll_transmit().unwrap().bytes,
            strangers: 0,
        }
    }

    /// Adds a genuine peer, which initiates.
    fn join(&mut self) {
        let number = self.peers.len() as u8;
        let mut own = peer(0);
        own.local_identity = Identity::from_text(&format!("peer{number}.example"));
        let mut end = End::new(Settings::default(), vec![own], 100 + u64::from(number));
        end.endpoint.initiate(0, Some(0), None, self.now).unwrap();
        self.peers.push(([198, 51, 100, number].into(), end));
    }

    /// Sends one stranger's message, with another address, port and SPI each time. Returns the gateway's answer.
    fn stranger(&mut self) -> Option<Vec<u8>> {
        self.strangers += 1;
        let number = self.strangers;
        self.message[..8].copy_from_slice(&(u64::from(number) << 8 | 1).to_be_bytes());
        let from = SocketAddr::new(Ipv4Addr::from(0x0a40_0000 + number % 0x40_0000).into(), 1024);
        let message = std::mem::take(&mut self.message);
        let answer = self.give(&message, from);
        self.message = message;
        answer
    }

    fn give(&mut self, message: &[u8], from: SocketAddr) -> Option<Vec<u8>> {
        let to = SocketAddr::new(gateway_address(), 500);
        self.gateway.endpoint.handle(message, from, to, self.now);
        let answer = self.gateway.endpoint.poll_transmit()?;
        assert_eq!(answer.path.remote, from);
        Some(answer.bytes)
    }

    /// Sends a stranger's message, and again with the cookie that the gateway wants.
    fn answering_stranger(&mut self) {
        let answer = self.stranger().expect("an answer");
        let header = Header::parse(&answer).unwrap();
        if header.first != PayloadType::NOTIFY {
            return;
        }
        let number = self.strangers;
        let first = Header::parse(&self.message).unwrap();
        let mut payloads = answer[HEADER_BYTES..].to_vec();
        payloads[0] = first.first.0;
        payloads.extend(&self.message[HEADER_BYTES..]);
        let spis = Spis { initiator: u64::from(number) << 8 | 1, responder: 0 };
        let header = Header { spis, first: PayloadType::NOTIFY, ..first };
        let again = [&header.to_bytes(HEADER_BYTES + payloads.len()), &payloads[..]].concat();
        let from = SocketAddr::new(Ipv4Addr::from(0x0a40_0000 + number % 0x40_0000).into(), 1024);
        self.give(&again, from);
    }

    /// Lets the gateway and its peers exchange datagrams until there are none, and perform what is due.
    fn settle(&mut self) {
        let mut is_silent = false;
        while !is_silent {
            is_silent = true;
            for (address, end) in &mut self.peers {
                while let Some(sent) = end.endpoint.poll_transmit() {
                    let from = SocketAddr::new(*address, sent.path.local.port());
                    self.gateway.endpoint.handle(&sent.bytes, from, sent.path.remote, self.now);
                    is_silent = false;
                }
            }
            while let Some(sent) = self.gateway.endpoint.poll_transmit() {
                let peer = self.peers.iter_mut().find(|(address, _)| *address == sent.path.remote.ip());
                // An answer to a stranger, whose address is nobody's, is lost.
                let Some((_, end)) = peer else { continue };
                let to = SocketAddr::new(common::address(0), sent.path.remote.port());
                end.endpoint.handle(&sent.bytes, sent.path.local, to, self.now);
                is_silent = false;
            }
            let ends = self.peers.iter_mut().map(|(_, end)| end).chain([&mut self.gateway]);
            for end in ends {
                end.take_events();
                if end.endpoint.poll_timeout().is_some_and(|at| at <= self.now) {
                    end.endpoint.handle_timeout(self.now);
                    is_silent = false;
                }
            }
        }
    }

    /// Returns the number of peers that are established at both ends, each with its child.
    fn established(&self) -> usize {
        let stand = self.peers.iter().filter(|(_, end)| end.up.len() == 1 && end.children.len() == 1);
        let count = stand.count();
        assert!(self.gateway.up.len() >= count && self.gateway.children.len() >= count);
        count
    }

    fn half_open(&self) -> usize {
        self.gateway.endpoint.sas() - self.gateway.endpoint.established().count()
    }

    /// Lets the peers use their IKE SAs: one renews its child's keys, the others probe.
    fn use_all(&mut self) {
        for (number, (_, end)) in self.peers.iter_mut().enumerate() {
            let ike = end.ike();
            match number {
                0 => end.endpoint.rekey_child(end.only_child().child, self.now),
                _ => end.endpoint.probe(ike, self.now),
            }
        }
    }
    /// Lets strangers send in each of so many milliseconds, while genuine peers join and use their IKE SAs; then the scene is
    /// checked.
    fn flood(
        &mut self,
        milliseconds: u32,
        mut strangers: impl FnMut(&mut Self, u32),
        mut check: impl FnMut(&Self),
    ) {
        for millisecond in 0..milliseconds {
            strangers(self, millisecond);
            match millisecond % 500 {
                100 => self.join(),
                300 => self.use_all(),
                _ => {}
            }
            self.settle();
            assert_eq!(self.established(), self.peers.len(), "after {millisecond} ms");
            check(self);
            self.now += Duration::from_millis(1);
        }
    }
}

/// Both parts are one test, because the memory of a test beside it would be counted too.
#[test]
fn floods_leave_bounded_state_and_genuine_peers_get_in() {
    strangers_without_an_address_cost_a_hash_each();
    strangers_that_answer_make_room_for_each_other();
}

fn strangers_without_an_address_cost_a_hash_each() {
    let settings = Settings::default();
    let mut scene = Scene::new(settings.clone());
    scene.join();
    scene.settle();
    assert_eq!(scene.established(), 1);
    let (before, mut most_bytes) = (allocations::live_bytes(), 0);
    let threshold = u64::try_from(settings.cookie_threshold).unwrap();
    scene.flood(
        3000,
        |scene, _| {
            for _ in 0..PER_MILLISECOND {
                let answer = scene.stranger().expect("an answer");
                let is_first = u64::from(scene.strangers) <= threshold;
                assert!(is_first || is_cookie(&answer), "a stranger gets a cookie and nothing else");
            }
        },
        |scene| {
            assert!(scene.half_open() <= settings.cookie_threshold);
            most_bytes = most_bytes.max(allocations::live_bytes() - before);
        },
    );
    let counters = scene.gateway.endpoint.counters();
    assert!(counters.cookies > u64::from(scene.strangers) - 100, "{counters:?}");
    assert_eq!(counters.overload, 0);
    assert!(scene.peers[0].1.removed.len() >= 6, "its child's keys were renewed");
    println!(
        "{} strangers, {} peers, {most_bytes} bytes at most, the cryptographic library's own aside",
        scene.strangers,
        scene.peers.len()
    );
    assert!(most_bytes < MOST_BYTES);
}

fn is_cookie(answer: &[u8]) -> bool {
    let header = Header::parse(answer).unwrap();
    let kind = NotifyType::COOKIE.0.to_be_bytes();
    header.first == PayloadType::NOTIFY
        && answer[HEADER_BYTES + 6..].starts_with(&kind)
        && header.spis.responder == 0
        && answer.len() < 100
}

fn strangers_that_answer_make_room_for_each_other() {
    let settings = Settings { max_half_open: 600, ..Settings::default() };
    let mut scene = Scene::new(settings.clone());
    scene.join();
    scene.settle();
    let (before, mut most_bytes) = (allocations::live_bytes(), 0);
    let mut is_full = false;
    scene.flood(
        4000,
        |scene, millisecond| {
            for _ in 0..(millisecond % 2) * ANSWERING_PER_SECOND / 500 {
                scene.answering_stranger();
            }
        },
        |scene| {
            assert!(scene.half_open() <= settings.max_half_open);
            is_full |= scene.half_open() == settings.max_half_open;
            most_bytes = most_bytes.max(allocations::live_bytes() - before);
        },
    );
    assert!(is_full, "strangers have taken all the room that there is");
    assert!(most_bytes < MOST_BYTES, "{most_bytes} bytes");
    // If they come faster than a genuine peer answers, what they have taken stays until it has been silent.
    let overload = scene.gateway.endpoint.counters().overload;
    (0..2 * settings.max_half_open).for_each(|_| scene.answering_stranger());
    assert!(scene.half_open() <= settings.max_half_open);
    assert!(scene.gateway.endpoint.counters().overload > overload);
    scene.now += settings.half_open_timeout;
    scene.settle();
    assert_eq!(scene.half_open(), 0);
}

//! Runs two ends on a virtual clock: calls, packets and their delays are events of one queue.

use std::collections::BTreeMap;

use zeroize::Zeroizing;

use sealane_ipsec::database::Outbounds;

use super::*;

const MS: Duration = Duration::from_millis(1);

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    fn spi(&mut self) -> u32 {
        self.below(1 << 32) as u32
    }
}

fn seen() -> Seen {
    Seen::new("192.0.2.1:4500".parse().expect("an address"), None)
}

fn material(spis: [u32; 2]) -> Material {
    let bytes: Vec<u8> = (0..72).map(|at| (at * 7) as u8 ^ spis[at / 36] as u8).collect();
    Material::of(&Zeroizing::new(bytes))
}

struct End {
    keys: PeerKeys,
    database: Database,
    sent: u64,
    received: u64,
    heard_ms: u64,
    is_up: bool,
}

/// An event on the way to an end.
enum Event {
    Offer(Offer),
    /// The answer to the caller, with its own offer.
    Answer(Offer, Result<Answer, Refusal>),
    Ready,
    Packet {
        spi: u32,
        number: u64,
        is_dummy: bool,
    },
}

struct World {
    begun: Instant,
    now: Instant,
    ends: [End; 2],
    /// The events by time and number, with the end that they go to.
    under_way: BTreeMap<(Instant, u64), (usize, Event)>,
    count: u64,
    random: Random,
    /// The number of calls per thousand whose last message is lost.
    lost_ready: u64,
    agreements: u32,
    lost_packets: u64,
}

fn timing() -> Timing {
    Timing::rekeyed_after(Duration::from_secs(2))
}

fn end(goes_first: bool, may_call: bool) -> End {
    let kind = "aes-256-gcm".parse().expect("a kind");
    let who = Who { id: PeerId(0), kind, window_packets: 1024, may_call, goes_first };
    let keys = PeerKeys::new(who, Implementations::default(), timing());
    End { keys, database: Database::default(), sent: 0, received: 0, heard_ms: 0, is_up: true }
}

impl World {
    fn new(seed: u64, may_call: [bool; 2]) -> Self {
        let now = Instant::now();
        Self {
            begun: now,
            now,
            ends: [end(true, may_call[0]), end(false, may_call[1])],
            under_way: BTreeMap::new(),
            count: 0,
            random: Random(seed * 2 + 1),
            lost_ready: 0,
            agreements: 0,
            lost_packets: 0,
        }
    }

    fn put(&mut self, to: usize, after: Duration, event: Event) {
        self.count += 1;
        self.under_way.insert((self.now + after, self.count), (to, event));
    }

    fn pause(&mut self) -> Duration {
        MS * (1 + self.random.below(40) as u32)
    }

    fn send(&mut self, from: usize, is_dummy: bool) {
        let end = &mut self.ends[from];
        if let Some(outbound) = end.database.snapshot().outbound.get(&PeerId(0)).and_then(Outbounds::newest) {
            let number = outbound.numbers().reserve(1).expect("numbers are left").start;
            end.sent += u64::from(!is_dummy);
            let spi = outbound.association().parameters().spi;
            let after = MS * (1 + self.random.below(20) as u32);
            self.put(1 - from, after, Event::Packet { spi, number, is_dummy });
        }
    }

    fn happen(&mut self, to: usize, event: Event) {
        let (now, pause) = (self.now, self.pause());
        let random = &mut self.random;
        let end = &mut self.ends[to];
        let mut back = None;
        match event {
            Event::Offer(offer) if end.is_up => {
                let export = |spi| Some(material([offer.spi, spi]));
                let answer = end.keys.offered(&end.database, offer, seen(), now, || random.spi(), export);
                back = Some(Event::Answer(offer, answer));
            }
            Event::Offer(offer) => back = Some(Event::Answer(offer, Err(Refusal::Busy))),
            Event::Answer(offer, answer) => {
                let spi = match answer {
                    Ok(Answer::Taken { spi, .. }) => Some(spi),
                    _ => None,
                };
                let material = spi.map(|spi| (spi, material([offer.spi, spi])));
                let outcome = material.as_ref().map(|(spi, material)| (offer, *spi, material));
                if end.keys.called(&end.database, outcome, now) {
                    self.agreements += 1;
                    back = (random.below(1000) >= self.lost_ready).then_some(Event::Ready);
                }
            }
            Event::Ready => end.keys.ready(&end.database, now),
            Event::Packet { spi, number, is_dummy } => {
                let snapshot = end.database.snapshot();
                match snapshot.inbound.get(&(Protocol::Esp, spi)) {
                    Some(inbound) if end.is_up => {
                        inbound.window().accept(number);
                        end.received += u64::from(!is_dummy);
                        end.heard_ms = (now - self.begun).as_millis() as u64;
                    }
                    _ => self.lost_packets += 1,
                }
            }
        }
        if let Some(event) = back {
            self.put(1 - to, pause, event);
        }
    }

    /// Runs for `time`, with a packet per millisecond in each direction while `is_loaded`.
    fn run(&mut self, time: Duration, is_loaded: bool) {
        let end = self.now + time;
        let mut turn = 0u32;
        while self.now < end {
            for from in [0, 1] {
                if is_loaded {
                    self.send(from, false);
                }
                if turn.is_multiple_of(100) && self.ends[from].is_up {
                    let End { keys, database, sent, received, heard_ms, .. } = &mut self.ends[from];
                    if database.request_due(self.now) {
                        for request in database.standing_requests() {
                            keys.request(request);
                        }
                    }
                    let traffic =
                        Traffic { sent: *sent, received: *received, heard_ms: *heard_ms, has_endpoint: true };
                    match keys.poll(database, traffic, true, self.now) {
                        Some(Errand::Call) => {
                            let offer = keys.begin(database, seen(), || self.random.spi());
                            let pause = self.pause();
                            self.put(1 - from, pause, Event::Offer(offer));
                        }
                        Some(Errand::KeepAlive) => self.send(from, true),
                        None => {}
                    }
                }
            }
            turn += 1;
            self.now += MS;
            while let Some(entry) = self.under_way.first_entry().filter(|entry| entry.key().0 <= self.now) {
                let (to, event) = entry.remove();
                self.happen(to, event);
            }
        }
    }
}

#[test]
fn twenty_rekeys_under_load_lose_nothing() {
    for (seed, may_call) in [(1, [true, true]), (2, [true, false]), (3, [false, true])] {
        let mut world = World::new(seed, may_call);
        world.run(Duration::from_secs(1), false);
        world.run(Duration::from_secs(60), true);
        assert!(world.agreements >= 20, "{} agreements", world.agreements);
        assert_eq!(world.lost_packets, 0, "{may_call:?}");
        assert!(world.ends.iter().all(|end| end.received > 59_000));
        // Associations out of use are removed.
        world.run(2 * timing().grace, true);
        assert!(world.ends.iter().all(|end| end.database.snapshot().inbound.len() <= INBOUND_MAX));
    }
}

#[test]
fn two_ends_that_call_at_once_understand_each_other() {
    for seed in 0..50 {
        let mut world = World::new(seed, [true, true]);
        world.lost_ready = 300;
        world.run(Duration::from_secs(15), true);
        // From then on nothing is lost, although old associations are removed.
        let lost = world.lost_packets;
        world.run(Duration::from_secs(3), true);
        assert_eq!(world.lost_packets, lost, "seed {seed}");
        assert!(world.ends.iter().all(|end| end.received > 10_000), "seed {seed}");
    }
}

#[test]
fn an_end_that_was_killed_is_called_anew() {
    for may_call in [[true, true], [true, false]] {
        let mut world = World::new(7, may_call);
        world.run(Duration::from_secs(3), true);
        world.ends[1].is_up = false;
        world.run(Duration::from_secs(5), true);
        world.ends[1] = end(false, may_call[1]);
        let before = world.ends[0].received;
        world.run(timing().dead + timing().retry_max, true);
        let lost = world.lost_packets;
        world.run(Duration::from_secs(1), true);
        assert_eq!(world.lost_packets, lost);
        assert!(world.ends[0].received > before && world.ends[1].received > 900);
    }
}

#[test]
fn an_end_that_only_receives_says_that_it_lives() {
    let mut world = World::new(9, [true, true]);
    world.run(Duration::from_secs(1), false);
    let agreements = world.agreements;
    // Twice the time after which a silent peer counts as dead, with packets in one direction; rekeys by time do not
    // depend on that.
    let (mut signs, since) = (0, world.ends[0].heard_ms);
    for _ in 0..600 {
        world.send(0, false);
        let before = world.ends[0].heard_ms;
        world.run(50 * MS, false);
        signs += u32::from(world.ends[0].heard_ms > before);
    }
    assert!(signs >= 2 && world.ends[0].heard_ms > since);
    assert!(world.agreements - agreements <= 30 / 2 + 1, "{}", world.agreements - agreements);
    assert_eq!(world.ends[0].received, 0);
}

#[test]
fn a_peer_that_offers_without_end_gets_little() {
    let mut victim = end(false, false);
    let (mut random, mut now, mut taken) = (Random(5), Instant::now(), 0u32);
    for _ in 0..10_000 {
        let kind = "aes-256-gcm".parse().expect("a kind");
        let offer = Offer { spi: 0x100 | random.spi(), seen: seen(), kind };
        let export = |spi| Some(material([offer.spi, spi]));
        let answer = victim.keys.offered(&victim.database, offer, seen(), now, || random.spi(), export);
        taken += u32::from(answer.is_ok());
        assert!(victim.database.snapshot().inbound.len() <= INBOUND_MAX);
        now += MS;
        victim.keys.poll(&victim.database, Traffic::default(), true, now);
    }
    assert!((5..=16).contains(&taken), "{taken} in ten seconds");
    // None of the offers was ever confirmed, so nothing is sent under them, and all of them are removed.
    assert!(victim.database.snapshot().outbound.is_empty());
    now += Duration::from_secs(20);
    victim.keys.drain(&victim.database, now);
    assert!(victim.database.snapshot().inbound.is_empty());
    let other = Offer { spi: 0x100, seen: seen(), kind: "aes-128-gcm".parse().expect("a kind") };
    let refused = victim.keys.offered(&victim.database, other, seen(), now, || random.spi(), |_| None);
    assert_eq!(refused, Err(Refusal::Suite));
}

#[test]
fn both_ends_of_an_agreement_show_at_once_that_packets_come_through() {
    for (seed, may_call) in [(1, [true, false]), (2, [false, true]), (3, [true, true])] {
        let mut world = World::new(seed, may_call);
        world.run(Duration::from_secs(2), false);
        assert!(world.agreements > 0 && world.ends.iter().all(|end| end.heard_ms > 0), "{may_call:?}");
    }
}

#[test]
fn a_call_that_may_not_be_begun_waits_and_is_not_forgotten() {
    let (mut caller, now) = (end(true, true), Instant::now());
    let traffic = Traffic { has_endpoint: true, ..Traffic::default() };
    for _ in 0..10 {
        assert_eq!(caller.keys.poll(&caller.database, traffic, false, now), None);
    }
    assert_eq!(caller.keys.poll(&caller.database, traffic, true, now), Some(Errand::Call));
    assert!(!caller.keys.has_failed());
    caller.keys.called(&caller.database, None, now);
    assert!(caller.keys.has_failed());
}

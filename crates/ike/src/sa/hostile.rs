//! Tests with a peer that has the keys and sends arbitrary messages: nothing panics, nothing grows without bound, and
//! no child is made before both ends have proved their identities.

use std::time::{Duration, Instant};

use super::{Context, InFlightForTests, Incoming, MAX_CHILDREN, Sa};
use crate::{
    ChildPolicy, Endpoint, Event, Expect, Families, Identity, Mode, Offer, Peer, Prove, Random, Reason,
    Settings,
    event::Path,
    wire::{
        Attribute, Configuration, ConfigurationType, Delete, Exchange, HEADER_BYTES, Header, Identification,
        Notify, NotifyType, Payload, Payloads, Protocol, TrafficSelector,
    },
};

/// Pseudo-random numbers from a seed (xorshift).
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % bound as u64) as usize
    }

    fn bytes(&mut self, most: usize) -> Vec<u8> {
        (0..self.below(most + 1)).map(|_| self.below(256) as u8).collect()
    }

    fn one<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())].clone()
    }
}

fn peer(index: u8) -> Peer {
    let key = || vec![7; 32].into();
    let network = |index: u8| TrafficSelector::network([10, index, 0, 0].into(), 16);
    let name = |index: u8| Identity::from_text(&format!("{index}.example"));
    Peer {
        name: "peer".to_owned(),
        local: Some([192, 0, 2, index].into()),
        remote: Some([192, 0, 2, 1 - index].into()),
        local_identity: name(index),
        remote_identity: Some(name(1 - index)),
        prove: Prove::SharedKey(key()),
        expect: Expect::SharedKey(key()),
        proposals: vec![Offer::ike("aes128gcm16-prfsha256-x25519").unwrap()],
        children: vec![ChildPolicy {
            name: "net".to_owned(),
            local: vec![network(index)],
            remote: vec![network(1 - index)],
            proposals: vec![Offer::esp("aes128gcm16-x25519").unwrap()],
            mode: Mode::Transport,
            resources: 2,
        }],
        pool: None,
        asks_for: Families::default(),
        always_encapsulate: false,
        mobike: true,
        childless: false,
        ike_lifetime: None,
        child_lifetime: None,
        probe_after: None,
    }
}

/// The hostile end and ours, with each end's SPI of the IKE SA.
struct Ends {
    hostile: Endpoint,
    ours: Endpoint,
    now: Instant,
    installed: usize,
    is_up: bool,
}

impl Ends {
    fn new(seed: u64) -> Self {
        let random = |salt: u64| {
            let mut dice = Dice(seed * 2 + salt + 1);
            Random::from_source(move |bytes| bytes.iter_mut().for_each(|byte| *byte = dice.below(256) as u8))
        };
        let settings = || Settings { return_routability: seed.is_multiple_of(2), ..Settings::default() };
        Self {
            hostile: Endpoint::new(settings(), vec![peer(0)], random(100)),
            ours: Endpoint::new(settings(), vec![peer(1)], random(200)),
            now: Instant::now(),
            installed: 0,
            is_up: false,
        }
    }

    fn events(&mut self) {
        while let Some(event) = self.ours.poll_event() {
            match event {
                Event::Established { .. } => self.is_up = true,
                Event::Install(_) => {
                    assert!(self.is_up, "a child before both ends are known");
                    self.installed += 1;
                }
                Event::Remove { .. } => self.installed -= 1,
                Event::Down { .. } => {
                    assert_eq!(self.installed, 0, "a child without an IKE SA");
                    self.is_up = false;
                }
                _ => {}
            }
        }
        assert!(self.installed <= 2 * MAX_CHILDREN);
        while self.hostile.poll_event().is_some() {}
    }

    /// Delivers the messages of the hostile end, and those of our end in the first `rounds` rounds.
    fn deliver(&mut self, rounds: usize) {
        for _ in 0..rounds {
            let mut is_idle = true;
            while let Some(sent) = self.hostile.poll_transmit() {
                is_idle = false;
                self.ours.handle(&sent.bytes, sent.path.local, sent.path.remote, self.now);
            }
            self.events();
            while let Some(sent) = self.ours.poll_transmit() {
                is_idle = false;
                self.hostile.handle(&sent.bytes, sent.path.local, sent.path.remote, self.now);
            }
            if is_idle {
                break;
            }
        }
    }

    fn hostile_sa(&mut self, work: impl FnOnce(&mut Sa, &mut Context<'_>)) {
        let now = self.now;
        self.hostile.with_any_for_tests(now, work);
    }
}

fn payload(dice: &mut Dice, known_spi: u32) -> Payload {
    let spi = if dice.below(2) == 0 { known_spi } else { dice.below(1 << 32) as u32 };
    let network = |index: usize| TrafficSelector::network([10, index as u8, 0, 0].into(), 8 + index as u8);
    let selectors = vec![network(dice.below(3)); dice.below(4)];
    let kinds: Vec<NotifyType> = (0..50).chain(16384..16445).map(NotifyType).collect();
    match dice.below(16) {
        0 | 1 => {
            let esp = Offer::esp("aes128gcm16-x25519").unwrap().to_wire(1, spi.to_be_bytes().to_vec());
            let ike = Offer::ike("aes128gcm16-prfsha256-x25519").unwrap();
            let ike = ike.to_wire(1, u64::from(spi).to_be_bytes().to_vec());
            let mut proposal = dice.one(&[esp, ike]);
            match dice.below(6) {
                0 => proposal.spi = dice.bytes(9),
                1 => proposal.transforms.truncate(dice.below(4)),
                2 => proposal.number = 9,
                _ => {}
            }
            Payload::SecurityAssociation(vec![proposal; 1 + dice.below(2)])
        }
        2 => Payload::Nonce(vec![dice.below(256) as u8; 16 + dice.below(240)]),
        3 => Payload::KeyExchange {
            method: dice.one(&[31, 31, 19, 0, 36]),
            data: vec![9; dice.one(&[32, 32, 31, 0, 64])],
        },
        4 => Payload::SelectorsInitiator(selectors),
        5 => Payload::SelectorsResponder(selectors),
        6 | 7 => Payload::Notify(Notify::about_child(
            dice.one(&[NotifyType::REKEY_SA, NotifyType::CHILD_SA_NOT_FOUND]),
            dice.one(&[Protocol::Esp, Protocol::Esp, Protocol::Ah]),
            spi,
        )),
        8 => Payload::Notify(Notify {
            protocol: 3,
            spi: dice.bytes(9),
            kind: dice.one(&kinds),
            data: dice.bytes(40),
        }),
        9 => Payload::Notify(Notify::new(dice.one(&kinds), dice.bytes(100))),
        10 => Payload::Delete(Delete::children(
            dice.one(&[Protocol::Esp, Protocol::Esp, Protocol::Ah]),
            vec![spi; dice.below(4)],
        )),
        11 => Payload::Delete(if dice.below(12) == 0 { Delete::Ike } else { Delete::Other(4) }),
        12 => Payload::IdInitiator(Identification { kind: dice.below(12) as u8, data: dice.bytes(20) }),
        13 => Payload::Authentication { method: dice.one(&[1, 2, 9, 14]), data: dice.bytes(80) },
        14 => Payload::Certificate { encoding: 4, data: dice.bytes(60) },
        _ => Payload::Configuration(Configuration {
            kind: ConfigurationType::Request,
            attributes: vec![Attribute { kind: 1, value: dice.bytes(8) }],
        }),
    }
}

/// Returns a request for a child that would be granted, or would almost be granted.
fn child_request(dice: &mut Dice, known_spi: u32) -> Payloads {
    let offer = Offer::esp("aes128gcm16-x25519").unwrap();
    let network = |index: u8| vec![TrafficSelector::network([10, index, 0, 0].into(), 16)];
    let spi = (0x100 + dice.below(1000) as u32).to_be_bytes().to_vec();
    let mut payloads = vec![
        Payload::SecurityAssociation(vec![offer.to_wire(1, spi)]),
        Payload::Nonce(vec![1; 32]),
        Payload::KeyExchange { method: 31, data: vec![9; 32] },
        Payload::SelectorsInitiator(network(0)),
        Payload::SelectorsResponder(network(1)),
    ];
    if dice.below(2) == 0 {
        payloads.push(Payload::Notify(Notify::about_child(NotifyType::REKEY_SA, Protocol::Esp, known_spi)));
    }
    if dice.below(3) == 0 {
        let at = dice.below(payloads.len());
        payloads.remove(at);
    }
    payloads.into_iter().collect()
}

#[test]
fn a_peer_that_says_anything_harms_nothing() {
    let mut granted = 0;
    for seed in 0..120 {
        let mut dice = Dice(0x9e37 + seed);
        let mut ends = Ends::new(seed);
        ends.hostile.initiate(0, Some(0), None, ends.now).unwrap();
        // Some peers begin to lie after the IKE SA is established, some before they have proved anything.
        let is_known = seed % 4 != 0;
        ends.deliver(if is_known { 9 } else { 1 });
        if !is_known {
            ends.hostile_sa(|sa, _| sa.forget_request_for_tests());
            while ends.hostile.poll_transmit().is_some() {}
        }
        let exchanges = [
            Exchange::CreateChild,
            Exchange::Informational,
            Exchange::FollowupKe,
            Exchange::Auth,
            Exchange::Intermediate,
        ];
        for _ in 0..40 {
            let mut known_spi = 0x100;
            ends.hostile_sa(|sa, _| known_spi = sa.children.first().map_or(0x100, |child| child.inbound_spi));
            let exchange = dice.one(&exchanges);
            let payloads = if exchange == Exchange::CreateChild && dice.below(2) == 0 {
                child_request(&mut dice, known_spi)
            } else {
                (0..dice.below(8)).map(|_| payload(&mut dice, known_spi)).collect()
            };
            ends.hostile_sa(|sa, context| {
                sa.forget_request_for_tests();
                sa.request(context, exchange, &payloads, InFlightForTests::Probe);
            });
            ends.deliver(1);
            ends.now += Duration::from_millis(200);
            if dice.below(4) == 0 {
                // Our end sends a request, and gets an arbitrary answer.
                let (now, established) = (ends.now, ends.ours.established().next());
                if let Some(ike) = established {
                    match dice.below(4) {
                        0 => ends.ours.rekey(ike, now),
                        1 => ends.ours.probe(ike, now),
                        _ => {
                            ends.ours.acquire(0, 0, None, now);
                        }
                    }
                }
                let asked: Vec<_> = std::iter::from_fn(|| ends.ours.poll_transmit()).collect();
                for request in asked {
                    let bytes = request.bytes.strip_prefix(&[0; 4]).unwrap_or(&request.bytes);
                    let Ok(header) = Header::parse(bytes) else { continue };
                    assert!(bytes.len() > HEADER_BYTES);
                    let answer = (0..dice.below(6)).map(|_| payload(&mut dice, known_spi)).collect();
                    let path = Path::new(request.path.remote, request.path.local);
                    ends.hostile_sa(|sa, context| {
                        if !header.is_response {
                            sa.respond(context, Incoming { header: &header, path }, &answer);
                        }
                    });
                }
                ends.deliver(1);
            }
            ends.ours.handle_timeout(ends.now);
            ends.events();
        }
        granted += ends.installed;
        assert!(is_known || ends.installed == 0);
        assert!(ends.ours.sas() < 64);
    }
    assert!(granted > 20, "{granted} children were granted, so what follows one was tried");
}

/// The answer to a request for a resource's child, as a peer should give it, or with one lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Answer {
    Right,
    /// It ignores the notification of a resource, and answers as to any request for a child (RFC 7296, section 3.10.1).
    NoResource,
    /// It takes more traffic than it was asked for, or other traffic, or none.
    Wider,
    Other,
    Nothing,
    /// Its SPI is none.
    NoSpi,
    /// It chooses what was not offered, or nothing.
    OtherSuite,
    NoSuite,
    NoKey,
    /// It refuses, and grants.
    Refuses,
    /// It refuses for good.
    NoMore,
}

/// Asks for a resource's child, and returns the events that follow the peer's answer.
fn ask_for_resource(ends: &mut Ends, ike: crate::IkeId, kind: Answer) -> Vec<Event> {
    ends.ours.add_resource(ike, 0, 7, ends.now);
    let request = ends.ours.poll_transmit().unwrap();
    let bytes = request.bytes.strip_prefix(&[0; 4]).unwrap_or(&request.bytes);
    let header = Header::parse(bytes).unwrap();
    let network = |index: u8, bits: u8| TrafficSelector::network([10, index, 0, 0].into(), bits);
    let suite =
        if kind == Answer::OtherSuite { "aes256gcm16-x25519-noesn" } else { "aes128gcm16-x25519-noesn" };
    let spi = if kind == Answer::NoSpi { vec![0; 4] } else { vec![0, 0, 9, 9] };
    let local = match kind {
        Answer::Wider => vec![network(1, 8)],
        Answer::Other => vec![network(77, 16)],
        Answer::Nothing => Vec::new(),
        _ => vec![network(1, 16)],
    };
    let notify = |kind, data: &[u8]| Payload::Notify(Notify::new(kind, data.to_vec()));
    let mut answer = Vec::new();
    if matches!(kind, Answer::Refuses | Answer::NoMore) {
        answer.push(notify(NotifyType::TS_MAX_QUEUE, &[]));
    }
    if kind != Answer::NoMore {
        if kind != Answer::NoSuite {
            answer.push(Payload::SecurityAssociation(vec![Offer::esp(suite).unwrap().to_wire(1, spi)]));
        }
        answer.push(Payload::Nonce(vec![1; 32]));
        if kind != Answer::NoKey {
            answer.push(Payload::KeyExchange { method: 31, data: vec![9; 32] });
        }
        answer.push(Payload::SelectorsInitiator(local));
        answer.push(Payload::SelectorsResponder(vec![network(0, 16)]));
        if kind != Answer::NoResource {
            answer.push(notify(NotifyType::SA_RESOURCE_INFO, &[0, 0, 0, 7]));
        }
    }
    let path = Path::new(request.path.remote, request.path.local);
    ends.hostile_sa(|sa, context| {
        sa.replies.expected += 1;
        sa.respond(context, Incoming { header: &header, path }, &answer.into_iter().collect());
    });
    let mut events = Vec::new();
    for _ in 0..4 {
        while let Some(sent) = ends.hostile.poll_transmit() {
            ends.ours.handle(&sent.bytes, sent.path.local, sent.path.remote, ends.now);
        }
        events.extend(std::iter::from_fn(|| ends.ours.poll_event()));
        while let Some(sent) = ends.ours.poll_transmit() {
            ends.hostile.handle(&sent.bytes, sent.path.local, sent.path.remote, ends.now);
        }
    }
    events
}

/// Returns ends with one child, and the IKE SA between them.
fn with_one_child(seed: u64) -> (Ends, crate::IkeId) {
    let mut ends = Ends::new(seed);
    ends.hostile.initiate(0, Some(0), None, ends.now).unwrap();
    ends.deliver(9);
    assert_eq!(ends.installed, 1);
    let ike = ends.ours.established().next().unwrap();
    (ends, ike)
}

#[test]
fn a_peer_that_knows_no_resources_keeps_one_child() {
    let (mut ends, ike) = with_one_child(1);
    let events = ask_for_resource(&mut ends, ike, Answer::NoResource);
    let [Event::Install(made), Event::ChildFailed { resource, reason, .. }, Event::Remove { child, .. }] =
        &events[..]
    else {
        panic!("{events:?}")
    };
    assert!(!made.is_outbound_live && made.child == *child, "nothing is sent under it");
    assert_eq!((resource.as_deref(), reason), (Some(&[0, 0, 0, 7][..]), &Reason::NoResources));
}

/// Whatever a peer answers that has proved who it is, nothing is sent under a child that was not agreed on, each request ends with a word
/// to its user, and the first child stays.
#[test]
fn a_peer_that_answers_requests_for_more_children_wrongly_keeps_one() {
    for kind in [
        Answer::Wider,
        Answer::Other,
        Answer::Nothing,
        Answer::NoSpi,
        Answer::OtherSuite,
        Answer::NoSuite,
        Answer::NoKey,
        Answer::Refuses,
        Answer::NoMore,
        Answer::Right,
    ] {
        let (mut ends, ike) = with_one_child(1);
        let events = ask_for_resource(&mut ends, ike, kind);
        let live = |event: &&Event| matches!(event, Event::Install(made) if made.is_outbound_live);
        let live = events.iter().filter(live).count();
        assert_eq!(live, usize::from(kind == Answer::Right), "{kind:?}: {events:?}");
        let failed = |event: &Event| matches!(event, Event::ChildFailed { resource: Some(_), .. });
        let is_down = events.iter().any(|event| matches!(event, Event::Down { .. }));
        assert!(
            live == 1 || is_down || events.iter().filter(|event| failed(event)).count() == 1,
            "{kind:?}: {events:?}"
        );
        // It is not asked any more by itself, and what it has stays.
        let removed = events.iter().any(|event| matches!(event, Event::Remove { .. }));
        assert!(is_down || !removed, "{kind:?}: {events:?}");
        assert_eq!(ends.ours.poll_transmit().map(|sent| sent.bytes.len()), None, "{kind:?}");
    }
}

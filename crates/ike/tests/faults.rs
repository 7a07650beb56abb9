//! Known faults of other implementations, each as a test that ours does not have it: collisions, addresses,
//! fragments, probes, and the costs that strangers can cause. The reports are public: issues and advisories of
//! strongSwan, libreswan and OpenIKED.

mod common;

use std::{
    cell::RefCell,
    net::SocketAddr,
    rc::Rc,
    time::{Duration, Instant},
};

use common::{Dice, Pair, Weather, peer};
use sealane_ike::{
    ChildId, Endpoint, Event, Offer, Path, Reason, Settings,
    wire::{
        Exchange, HEADER_BYTES, Header, NotifyType, Payload, PayloadType, Payloads, Proposal, Protocol, Spis,
        Transform, TransformType, payload,
    },
};

fn only(pair: &Pair, end: usize) -> ChildId {
    *pair.ends[end].children.first_key_value().expect("it has one").0
}

/// strongSwan 1896 and 2477: of two colliding rekeyings one is lost on its way and sent again; the child that stayed
/// was never used for sending.
#[test]
fn fault_01_a_packet_that_is_lost_in_a_collision_leaves_no_silence() {
    for lost in 0..12 {
        let mut pair = Pair::new([vec![peer(0)], vec![peer(1)]], lost);
        pair.join();
        let mut count = 0;
        // One datagram of the collision is lost, a different one in each round.
        pair.filter = Box::new(move |_, _| {
            count += 1;
            count != lost as usize + 1
        });
        for end in 0..2 {
            let child = only(&pair, end);
            pair.ends[end].endpoint.rekey_child(child, pair.now);
        }
        pair.up_after(120, 1);
        assert!(pair.ends.iter().all(|end| end.endpoint.sas() == 1), "lost is {lost}");
    }
}

/// strongSwan 1458: the keys were dropped because of an assumed collision. A deletion arrives before the answer that
/// announces the successor: the answer still counts.
#[test]
fn fault_02_a_deletion_overtakes_the_answer_before_it() {
    let mut pair = Pair::of(|_| {});
    pair.begin(5);
    let child = pair.ends[0].only_child().child;
    pair.ends[0].endpoint.rekey_child(child, pair.now);
    pair.weather = Weather { delay_max_ms: 900, repeated_percent: 50, ..Weather::default() };
    pair.up_after(30, 1);
}

/// After a rekeying that the peer initiated, the peer is known to have the keys when it deletes the old child, or
/// sends.
#[test]
fn fault_03_the_responder_of_a_rekeying_waits_before_it_sends() {
    let mut pair = Pair::of(|_| {});
    pair.begin(5);
    let old = pair.ends[0].only_child().child;
    // The deletion of the old child is lost.
    let mut requests = 0;
    pair.filter = Box::new(move |from, _| {
        requests += usize::from(from == 0);
        from == 1 || requests == 1
    });
    pair.ends[0].endpoint.rekey_child(old, pair.now);
    pair.run(Duration::from_millis(500));
    let waiting =
        pair.ends[1].children.values().find(|child| child.replaces.is_some()).expect("it has the new one");
    assert!(!waiting.is_outbound_live);
    let waiting = waiting.child;
    pair.ends[1].endpoint.note_received(waiting, pair.now);
    pair.collect();
    assert!(pair.ends[1].children[&waiting].is_outbound_live, "a packet proves it too");
    pair.filter = Box::new(|_, _| true);
    pair.up_after(60, 1);
}

/// OpenIKED's PR 83: both ends deleted, or neither did.
#[test]
fn fault_04_both_ends_keep_the_same_child_whichever_nonce_is_lowest() {
    let mut kept = [0, 0];
    for seed in 0..40 {
        let mut pair = Pair::new([vec![peer(0)], vec![peer(1)]], seed);
        pair.join();
        let old = only(&pair, 0);
        for end in 0..2 {
            let child = only(&pair, end);
            pair.ends[end].endpoint.rekey_child(child, pair.now);
        }
        // Both requests are under way before either arrives.
        pair.up_after(30, 1);
        assert!(!pair.ends[0].children.contains_key(&old));
        // The child that an end requested has the lower number at the other end, because it was installed there
        // first.
        let is_first = pair.ends[0].only_child().child < pair.ends[1].only_child().child;
        kept[usize::from(is_first)] += 1;
        for end in 0..2 {
            let ike = pair.ends[end].ike();
            pair.ends[end].endpoint.rekey(ike, pair.now);
        }
        pair.up_after(200, 1);
        assert!(pair.ends.iter().all(|end| end.endpoint.sas() == 1), "seed {seed}");
    }
    assert!(kept[0] + kept[1] == 40);
}

/// libreswan 2184, 2447, 2516, 2520: endless mutual deletions.
#[test]
fn fault_05_two_ends_that_begin_at_once_come_to_rest() {
    for seed in 0..20 {
        let mut pair = Pair::new([vec![peer(0)], vec![peer(1)]], seed);
        pair.weather = Weather { delay_max_ms: 60, ..Weather::default() };
        pair.initiate(0);
        pair.initiate(1);
        pair.run_seconds(120);
        pair.assert_agree();
        assert!(!pair.ends[0].children.is_empty(), "seed {seed}");
        assert!(pair.ends.iter().all(|end| end.children.values().all(|child| child.is_outbound_live)));
        let (sent, children) = (pair.sent, pair.ends[0].keys());
        pair.run_seconds(600);
        assert_eq!((pair.sent, pair.ends[0].keys()), (sent, children), "seed {seed}: nothing is left to say");
    }
}

/// A peer was restarted: its old state at the other end is removed after it has proved itself anew.
#[test]
fn fault_06_initial_contact_ends_what_was_before_and_only_that() {
    let mut pair = Pair::of(|_| {});
    pair.begin(5);
    let before = pair.ends[1].ike();
    pair.ends[0] = common::End::new(Settings::default(), vec![peer(0)], 99);
    pair.join();
    assert_eq!(pair.ends[1].down, [Reason::Replaced]);
    assert!(!pair.ends[1].up.contains(&before));
}

/// libreswan 48: a NAT maps the source port to one other than 500, although the destination is port 500.
#[test]
fn fault_07_answers_go_where_the_request_came_from() {
    let mut open = peer(1);
    open.remote = None;
    let mut endpoint = Endpoint::new(Settings::default(), vec![open], Dice::random(1));
    let mut stranger = Endpoint::new(Settings::default(), vec![peer(0)], Dice::random(2));
    stranger.initiate(0, Some(0), None, Instant::now()).unwrap();
    let message = stranger.poll_transmit().unwrap().bytes;
    for (from, to) in [("203.0.113.9:39374", "192.0.2.2:500"), ("203.0.113.9:500", "192.0.2.7:4500")] {
        let (from, to): (SocketAddr, SocketAddr) = (from.parse().unwrap(), to.parse().unwrap());
        let marker: &[u8] = if to.port() == 500 { &[] } else { &[0; 4] };
        endpoint.handle(&[marker, &message].concat(), from, to, Instant::now());
        let answer = endpoint.poll_transmit().expect("an answer");
        assert_eq!(answer.path, Path::new(to, from));
        assert!(answer.bytes.starts_with(marker));
    }
}

/// libreswan 1492 and 1728: liveness checks worked, traffic did not.
#[test]
fn fault_08_a_mapping_that_changes_takes_all_children_along() {
    let mut peers = [peer(0), peer(1)];
    peers[1].remote = None;
    let mut pair = Pair::new(peers.map(|peer| vec![peer]), 1);
    pair.nat = Some("203.0.113.9:39374".parse().unwrap());
    pair.join();
    let child = pair.ends[1].only_child();
    assert!(child.is_encapsulated && child.path.remote.port() == 39374);
    let now = pair.now;
    pair.ends[0].endpoint.acquire(0, 0, None, now);
    pair.up_after(5, 2);
    pair.nat = Some("203.0.113.9:40000".parse().unwrap());
    pair.ends[0].endpoint.probe(pair.ends[0].ike(), pair.now);
    pair.run_seconds(5);
    let moved = pair.ends[1].moved.last().expect("the event is about all children of the IKE SA");
    assert_eq!(moved.remote.port(), 40000);
    // The gateway's own requests use the new mapping too.
    let child = only(&pair, 1);
    pair.ends[1].endpoint.rekey_child(child, pair.now);
    pair.up_after(5, 2);
    assert!(!pair.ends[1].children.contains_key(&child));
}

/// OpenIKED 147, libreswan 1383.
#[test]
fn fault_09_an_address_changes_under_mobike_after_the_new_one_was_proved() {
    let mut pair = Pair::of(|peer| peer.mobike = true);
    pair.begin(5);
    let elsewhere = "192.0.2.77:4500".parse().unwrap();
    let ike = pair.ends[0].ike();
    assert!(pair.ends[0].endpoint.relocate(ike, elsewhere, pair.now));
    pair.up_after(5, 1);
    let moved = pair.ends[1].moved.last().expect("children follow");
    assert_eq!(moved.remote, elsewhere);
}

#[test]
fn fault_09_nobody_but_the_peer_moves_its_address() {
    let mut pair = Pair::of(|peer| peer.mobike = true);
    pair.join();
    // Somebody else forwards a genuine probe from another address, before the peer's own copy arrives.
    let seen = Rc::new(RefCell::new(Vec::new()));
    let seen_too = seen.clone();
    pair.filter = Box::new(move |from, bytes| {
        if from == 0 {
            seen_too.borrow_mut().push(bytes.to_vec());
        }
        from == 1
    });
    pair.ends[0].endpoint.probe(pair.ends[0].ike(), pair.now);
    pair.collect();
    let probe = seen.borrow().last().expect("a probe").clone();
    let (elsewhere, to) = ("203.0.113.66:4500".parse().unwrap(), SocketAddr::new(common::address(1), 4500));
    pair.ends[1].endpoint.handle(&probe, elsewhere, to, pair.now);
    pair.filter = Box::new(|_, _| true);
    pair.up_after(30, 1);
    assert!(pair.ends[1].moved.is_empty(), "{:?}", pair.ends[1].moved);
}

/// libreswan 311, 1326 and 2451: many fragments, in any order and repeated, in IKE_INTERMEDIATE too.
#[test]
fn fault_10_fragments_of_any_number_and_order_are_a_message() {
    for (fragment_bytes, seed) in [(576, 0), (576, 1), (200, 2), (160, 3), (1200, 4)] {
        let settings = Settings { fragment_bytes, ..Settings::default() };
        let mut peers = [peer(0), peer(1)];
        for peer in &mut peers {
            peer.proposals = vec![Offer::ike("aes256gcm16-prfsha384-x25519-ke1_mlkem768").unwrap()];
        }
        let mut pair = Pair::with_settings(peers.map(|peer| vec![peer]), seed, settings);
        pair.weather = Weather { delay_max_ms: 900, repeated_percent: 30, ..Weather::default() };
        pair.begin(25);
        pair.assert_up(1);
    }
}

/// libreswan 222 and 1450: the first child has no key exchange of its own, so a difference shows at the first
/// rekeying, hours later.
#[test]
fn fault_11_ends_that_differ_about_forward_secrecy_renew_keys_all_the_same() {
    let with =
        ["aes256gcm16-x25519", "aes256gcm16", "aes256gcm16-ecp384-x25519", "aes256gcm16-x25519-ecp384"];
    for (first, second) in with.iter().flat_map(|first| with.iter().map(move |second| (first, second))) {
        let mut peers = [peer(0), peer(1)];
        peers[0].children[0].proposals = vec![Offer::esp(first).unwrap()];
        peers[1].children[0].proposals = vec![Offer::esp(second).unwrap()];
        let mut pair = Pair::new(peers.map(|peer| vec![peer]), 1);
        pair.join();
        for end in [0, 1] {
            let child = only(&pair, end);
            pair.ends[end].endpoint.rekey_child(child, pair.now);
            pair.up_after(30, 1);
            assert!(!pair.ends[end].children.contains_key(&child), "{first} and {second}");
            assert!(pair.ends.iter().all(|end| end.failed.is_empty()), "{:?}", pair.ends[end].failed);
        }
    }
}

/// libreswan 513, 524, 543, 624: probes queued behind probes, and a deletion that waits behind one for ever.
#[test]
fn fault_12_one_probe_is_under_way_and_traffic_counts_as_life() {
    let mut pair = Pair::of(|peer| peer.probe_after = Some(Duration::from_secs(30)));
    pair.join();
    let (sent, child) = (pair.sent, only(&pair, 0));
    let other = only(&pair, 1);
    for _ in 0..20 {
        pair.run_seconds(20);
        let now = pair.now;
        pair.ends[0].endpoint.note_received(child, now);
        pair.ends[1].endpoint.note_received(other, now);
    }
    assert_eq!(pair.sent, sent, "packets come, so that nobody asks");
    pair.filter = Box::new(|_, _| false);
    let ike = pair.ends[0].ike();
    for _ in 0..10 {
        pair.ends[0].endpoint.probe(ike, pair.now);
        pair.collect();
    }
    pair.ends[0].endpoint.close(ike, pair.now);
    pair.run_seconds(400);
    assert_eq!(pair.ends[0].down.len(), 1, "{:?}", pair.ends[0].down);
    assert_eq!(pair.ends[0].endpoint.sas(), 0);
}

fn encrypted(exchange: Exchange, spis: Spis, message_id: u32) -> Vec<u8> {
    let first = PayloadType::ENCRYPTED;
    let header = Header { spis, first, exchange, is_from_initiator: true, is_response: false, message_id };
    let body: Vec<u8> = [41, 0, 0, 60].into_iter().chain([3; 56]).collect();
    [&header.to_bytes(HEADER_BYTES + body.len()), &body[..]].concat()
}

/// CVE-2026-78135 and CVE-2014-2338. The crate's own tests have a peer that has the keys and sends arbitrary
/// messages.
#[test]
fn fault_13_no_child_comes_before_both_ends_are_known() {
    let mut pair = Pair::of(|_| {});
    // The proof is always lost.
    pair.filter = Box::new(|_, bytes| bytes[18] != 35);
    pair.begin(5);
    let now = pair.now;
    // Neither end requests a child or new keys on an IKE SA that is not established.
    pair.ends[0].endpoint.acquire(0, 0, None, now);
    let header = Rc::new(RefCell::new(None));
    let header_too = header.clone();
    pair.filter = Box::new(move |_, bytes| {
        *header_too.borrow_mut() = Header::parse(bytes).ok();
        assert!([34, 35].contains(&bytes[18]), "exchange {}", bytes[18]);
        false
    });
    pair.run_seconds(8);
    let spis = header.borrow().as_ref().map(|header: &Header| header.spis).expect("it sends its proof again");
    for exchange in [Exchange::CreateChild, Exchange::Informational, Exchange::FollowupKe] {
        let (from, to) = (SocketAddr::new(common::address(0), 500), SocketAddr::new(common::address(1), 500));
        pair.ends[1].endpoint.handle(&encrypted(exchange, spis, 1), from, to, pair.now);
        assert!(pair.ends[1].endpoint.poll_transmit().is_none());
    }
    assert!(pair.ends.iter().all(|end| end.children.is_empty() && end.up.is_empty()));
}

/// strongSwan 2778, libreswan 463 and 514. The peer lost a child that we still have: its successor is a plain new
/// child.
#[test]
fn fault_14_a_child_that_the_peer_does_not_have_is_made_anew() {
    let mut pair = Pair::of(|_| {});
    pair.begin(5);
    let child = pair.ends[1].only_child().child;
    // The deletion arrives, and its answer does not; then our request to rekey crosses it.
    pair.filter = Box::new(|from, _| from == 0);
    pair.ends[1].endpoint.delete_child(child, pair.now);
    let ours = pair.ends[0].only_child().child;
    pair.ends[0].endpoint.rekey_child(ours, pair.now);
    pair.run(Duration::from_millis(200));
    pair.filter = Box::new(|_, _| true);
    pair.run_seconds(60);
    pair.assert_agree();
    assert!(pair.ends.iter().all(|end| end.children.values().all(|child| child.is_outbound_live)));
}

/// libreswan 2834: a child that fails does not end the IKE SA, at either end.
#[test]
fn fault_14_a_child_that_fails_leaves_the_ike_sa() {
    let mut peers = [peer(0), peer(1)];
    let mut second = common::policy(0);
    second.remote = vec![common::network("10.77.0.0/16")];
    peers[0].children.push(second);
    let mut pair = Pair::new(peers.map(|peer| vec![peer]), 1);
    pair.join();
    for _ in 0..3 {
        let now = pair.now;
        pair.ends[0].endpoint.acquire(0, 1, None, now);
        pair.up_after(5, 1);
    }
    assert_eq!(pair.ends[0].failed, vec![Reason::Refused { kind: NotifyType::TS_UNACCEPTABLE }; 3]);
}

/// Returns a first message with `proposals` and a value of `method`.
fn first(proposals: Vec<Proposal>, method: u16, value: Vec<u8>) -> Vec<u8> {
    let payloads: Payloads = [
        Payload::SecurityAssociation(proposals),
        Payload::KeyExchange { method, data: value },
        Payload::Nonce(vec![1; 32]),
    ]
    .into_iter()
    .collect();
    let spis = Spis { initiator: u64::from(method) + 1, responder: 0 };
    let header = Header {
        spis,
        first: payloads.first(),
        exchange: Exchange::Init,
        is_from_initiator: true,
        is_response: false,
        message_id: 0,
    };
    [&header.to_bytes(HEADER_BYTES + payloads.bytes().len()), payloads.bytes()].concat()
}

/// CVE-2014-9221, CVE-2026-78127, CVE-2022-40617: one datagram was enough to crash a daemon.
#[test]
fn fault_15_a_stranger_costs_little_whatever_it_proposes() {
    let mut open = peer(1);
    open.remote = None;
    let mut endpoint = Endpoint::new(Settings::default(), vec![open], Dice::random(1));
    let (from, to) = ("203.0.113.9:500".parse().unwrap(), SocketAddr::new(common::address(1), 500));
    let good = Offer::ike("aes256gcm16-prfsha384-x25519").unwrap().to_wire(1, Vec::new());
    let answered = |endpoint: &mut Endpoint, message: &[u8]| {
        endpoint.handle(message, from, to, Instant::now());
        let answer = endpoint.poll_transmit().map(|transmit| transmit.bytes);
        assert!(answer.as_ref().is_none_or(|answer| answer.len() < 600));
        answer.and_then(|answer| {
            let header = Header::parse(&answer).unwrap();
            let payloads = payload::parse_all(header.first, &answer[HEADER_BYTES..]).unwrap();
            payloads.iter().find_map(|payload| match payload {
                Payload::Notify(notify) if notify.kind.is_error() => Some(notify.kind),
                _ => None,
            })
        })
    };
    // The value belongs to a key exchange that no proposal names, or to an unknown one.
    for method in [0, 2, 14, 19, 36, 1029, 1030, 40_000, u16::MAX] {
        let message = first(vec![good.clone()], method, vec![2; 256]);
        assert_eq!(answered(&mut endpoint, &message), Some(NotifyType::INVALID_KE_PAYLOAD), "{method}");
    }
    // The message has more proposals and transforms than anybody needs.
    let many = (0..200).map(|id| Transform::new(TransformType::ENCRYPTION, id, Some(id)));
    let bomb = Proposal { number: 1, protocol: Protocol::Ike, spi: Vec::new(), transforms: many.collect() };
    let bombs: Vec<Proposal> = (1..=12).map(|number| Proposal { number, ..bomb.clone() }).collect();
    assert_eq!(answered(&mut endpoint, &first(bombs, 31, vec![2; 32])), None);
    assert_eq!(
        answered(&mut endpoint, &first(vec![bomb], 31, vec![2; 32])),
        Some(NotifyType::NO_PROPOSAL_CHOSEN)
    );
    // The owner's events about it are short, and their number is bounded.
    for port in 1000..3000 {
        let message = first(vec![Proposal { protocol: Protocol::Ah, ..good.clone() }], 31, vec![2; 32]);
        endpoint.handle(&message, SocketAddr::new(from.ip(), port), to, Instant::now());
    }
    let told: Vec<Event> = std::iter::from_fn(|| endpoint.poll_event()).collect();
    assert!(told.len() <= 256, "{} events", told.len());
    for event in &told {
        let Event::Refused { reason, .. } = event else { panic!("{event:?}") };
        assert!(reason.to_string().len() < 600, "{reason}");
    }
    assert_eq!(endpoint.sas(), 0);
}

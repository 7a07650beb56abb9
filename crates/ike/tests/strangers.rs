//! Limits on strangers: bounded answers, bounded state, and no IKE SA.

mod common;

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use common::{Dice, Pair, peer};
use proptest::prelude::*;
use sealane_ike::{
    Endpoint, Event, Path, Settings,
    wire::{Exchange, HEADER_BYTES, Header, PayloadType, Spis},
};

/// Returns the first message of an initiator, as it was sent.
fn first_message() -> Vec<u8> {
    let mut endpoint = Endpoint::new(Settings::default(), vec![peer(0)], Dice::random(7));
    endpoint.initiate(0, Some(0), None, Instant::now()).unwrap();
    endpoint.poll_transmit().unwrap().bytes
}

fn ends(index: u32) -> (SocketAddr, SocketAddr) {
    let from = SocketAddr::new(std::net::Ipv4Addr::from(0x0a00_0000 + index).into(), 500);
    (from, SocketAddr::new(common::address(1), 500))
}

fn responder(settings: Settings) -> Endpoint {
    let mut open = peer(1);
    open.remote = None;
    Endpoint::new(settings, vec![open], Dice::random(8))
}

#[test]
fn a_flood_leaves_as_much_behind_as_the_bounds_say() {
    let settings = Settings { cookie_threshold: 20, max_half_open: 50, ..Settings::default() };
    let mut endpoint = responder(settings.clone());
    let mut message = first_message();
    let now = Instant::now();
    let mut returned = Vec::new();
    for index in 0..2000 {
        message[..8].copy_from_slice(&(u64::from(index) + 1).to_be_bytes());
        let (from, to) = ends(index);
        endpoint.handle(&message, from, to, now);
        while let Some(transmit) = endpoint.poll_transmit() {
            assert_eq!(transmit.path, Path::new(to, from));
            if index >= 20 {
                assert!(transmit.bytes.len() < 100, "an answer that is longer than its question");
                returned.push((index, transmit.bytes));
            }
        }
    }
    assert_eq!(endpoint.sas(), 20);
    assert_eq!(endpoint.counters().cookies, 1980);
    // With their cookies, strangers are accepted as long as there is room.
    for (index, answer) in returned.iter().take(100) {
        let (from, to) = ends(*index);
        endpoint.handle(&with_cookie(&message, *index, answer), from, to, now);
    }
    assert_eq!(endpoint.sas(), 50);
    assert!(endpoint.counters().overload > 0);
    // A cookie is valid for one address only.
    let (_, answer) = &returned[200];
    let counters = endpoint.counters();
    endpoint.handle_timeout(now + settings.half_open_timeout);
    assert_eq!(endpoint.sas(), 0);
    for index in 0..20 {
        message[..8].copy_from_slice(&(u64::from(index) + 1).to_be_bytes());
        let (from, to) = ends(index);
        endpoint.handle(&message, from, to, now);
    }
    let (from, to) = ends(77);
    endpoint.handle(&with_cookie(&message, 220, answer), from, to, now);
    assert_eq!(endpoint.sas(), 20);
    assert_eq!(endpoint.counters().cookies, counters.cookies + 1);
    assert!(
        std::iter::from_fn(|| endpoint.poll_event())
            .all(|event| matches!(event, Event::Down { peer: None, .. }))
    );
}

#[test]
fn cookies_are_demanded_alike_with_and_without_an_address_of_ours() {
    let settings = Settings { cookie_threshold: 20, max_half_open: 50, ..Settings::default() };
    let [mut asked, mut other] = [(); 2].map(|()| responder(settings.clone()));
    let (message, now, mut dice) = (first_message(), Instant::now(), Dice::new(9));
    let mut answered: Vec<(u32, Vec<u8>)> = Vec::new();
    let mut demanded = 0;
    for index in 0..1000 {
        // Some come twice, some are damaged, some return a cookie, some come to the other port.
        let mut stranger = if dice.percent(10) { dice.below(index + 1) } else { index } as u32;
        let mut message = message.clone();
        message[..8].copy_from_slice(&(u64::from(stranger) + 1).to_be_bytes());
        if let Some((genuine, answer)) = answered.pop().filter(|_| dice.percent(20)) {
            stranger = genuine;
            message = with_cookie(&message, genuine, &answer);
        }
        if dice.percent(10) {
            let at = dice.below(message.len() as u64) as usize;
            message[at] ^= 1 << dice.below(8);
        }
        let (from, mut to) = ends(stranger);
        if dice.percent(10) {
            to.set_port(4500);
            message.splice(..0, [0; 4]);
        }
        if asked.demands_cookie(&message, from, to.port(), now) {
            demanded += 1;
        } else {
            asked.handle(&message, from, to, now);
        }
        other.handle(&message, from, to, now);
        assert_eq!(asked.counters(), other.counters(), "{index}");
        loop {
            let (one, same) = (asked.poll_transmit(), other.poll_transmit());
            assert_eq!(one.is_some(), same.is_some());
            let Some((one, same)) = one.zip(same) else { break };
            // Longer answers have a public key, which is always a new one.
            let is_cookie = same.bytes.len() < 100;
            assert!(if is_cookie { one.bytes == same.bytes } else { one.bytes.len() == same.bytes.len() });
            assert_eq!((one.path.remote, one.path.local.port()), (same.path.remote, same.path.local.port()));
            if is_cookie && to.port() == 500 {
                answered.push((stranger, same.bytes));
            }
        }
    }
    assert!(demanded > 500, "{demanded}");
    assert!(asked.sas() > 20 && asked.sas() == other.sas(), "some returned their cookie: {}", asked.sas());
}

/// Returns a stranger's message, preceded by the cookie that the stranger was given.
fn with_cookie(message: &[u8], index: u32, answer: &[u8]) -> Vec<u8> {
    let header = Header::parse(message).unwrap();
    let cookie = &answer[HEADER_BYTES..];
    let mut payloads = cookie.to_vec();
    payloads[0] = header.first.0;
    payloads.extend(&message[HEADER_BYTES..]);
    let spis = Spis { initiator: u64::from(index) + 1, responder: 0 };
    let header = Header { spis, first: PayloadType::NOTIFY, ..header };
    [&header.to_bytes(HEADER_BYTES + payloads.len()), &payloads[..]].concat()
}

#[test]
fn a_first_message_that_comes_again_is_answered_with_the_same_bytes() {
    let mut endpoint = responder(Settings::default());
    let (message, (from, to), now) = (first_message(), ends(1), Instant::now());
    let mut answers = Vec::new();
    for _ in 0..3 {
        endpoint.handle(&message, from, to, now);
        answers.extend(std::iter::from_fn(|| endpoint.poll_transmit()).map(|transmit| transmit.bytes));
    }
    assert_eq!(answers.len(), 3);
    assert!(answers.iter().all(|answer| *answer == answers[0]));
    assert_eq!(endpoint.sas(), 1);
}

#[test]
fn nothing_but_the_next_exchange_is_legal_before_both_ends_are_known() {
    // A message with the right SPIs from a sender without the keys changes nothing, whatever its exchange.
    let mut endpoint = responder(Settings::default());
    let (message, (from, to), now) = (first_message(), ends(1), Instant::now());
    endpoint.handle(&message, from, to, now);
    let answer = endpoint.poll_transmit().unwrap().bytes;
    let spis = Header::parse(&answer).unwrap().spis;
    for exchange in 0..=255 {
        for message_id in 0..3 {
            let header = Header {
                spis,
                first: PayloadType::ENCRYPTED,
                exchange: Exchange::from_number(exchange),
                is_from_initiator: true,
                is_response: false,
                message_id,
            };
            let body = [0, 0, 0, 44].into_iter().chain([7; 40]).collect::<Vec<u8>>();
            let forged = [&header.to_bytes(HEADER_BYTES + body.len()), &body[..]].concat();
            endpoint.handle(&forged, from, to, now);
        }
    }
    assert!(endpoint.poll_transmit().is_none());
    assert_eq!(endpoint.established().count(), 0);
}

/// All messages in the life of an IKE SA are sent with one bit altered, between two established ends: none of them
/// changes anything.
#[test]
fn altered_messages_change_nothing() {
    for seed in 0..40 {
        let mut pair = Pair::new([vec![peer(0)], vec![peer(1)]], seed);
        pair.begin(5);
        let mut dice = Dice::new(seed);
        let child = pair.ends[0].only_child().child;
        pair.ends[0].endpoint.rekey_child(child, pair.now);
        let mut bytes = pair.ends[0].endpoint.poll_transmit().unwrap().bytes;
        let at = dice.below(bytes.len() as u64) as usize;
        bytes[at] ^= 1 << dice.below(8);
        let (from, to) = (SocketAddr::new(common::address(0), 500), SocketAddr::new(common::address(1), 500));
        pair.ends[1].endpoint.handle(&bytes, from, to, pair.now);
        assert!(pair.ends[1].endpoint.poll_transmit().is_none(), "seed {seed}: byte {at}");
        pair.up_after(60, 1);
    }
}

proptest! {
    #[test]
    fn any_first_message_gets_a_bounded_answer_and_leaves_nothing(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut message = first_message();
        if let Some(cut) = cut {
            message.truncate(cut.index(message.len() + 1));
        }
        for (at, value) in changes {
            if !message.is_empty() {
                let at = at.index(message.len());
                message[at] = value;
            }
        }
        if let Some(length) = message.get_mut(24..28) {
            let bytes = (first_message().len() as u32).to_be_bytes();
            length.copy_from_slice(&bytes);
        }
        let (mut endpoint, (from, to), now) = (responder(Settings::default()), ends(1), Instant::now());
        for _ in 0..2 {
            endpoint.handle(&message, from, to, now);
            while let Some(transmit) = endpoint.poll_transmit() {
                prop_assert!(transmit.bytes.len() <= 600);
            }
        }
        prop_assert!(endpoint.sas() <= 1);
        endpoint.handle_timeout(now + Duration::from_secs(30));
        prop_assert_eq!(endpoint.sas(), 0);
    }
}

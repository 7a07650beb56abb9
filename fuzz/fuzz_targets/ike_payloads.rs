//! Payloads of IKEv2, as a chain and as a stranger's first message: a parsed payload reads back unchanged, and no
//! stranger's message establishes an IKE SA or gets an answer longer than the bound.

#![no_main]

use std::time::Instant;

use libfuzzer_sys::fuzz_target;
use sealane_fuzz::frugally;
use sealane_ike::{
    ChildPolicy, Endpoint, Event, Expect, Families, Identity, Mode, Offer, Peer, Prove, Random, Settings,
    wire::{Exchange, HEADER_BYTES, Header, PayloadType, Payloads, Spis, TrafficSelector, methods, payload},
};

/// Longest answer to a first message.
const ANSWER_BYTES: usize = 1200;

fn endpoint() -> Endpoint {
    let key = || vec![7; 32].into();
    let network = |last| TrafficSelector::network([10, last, 0, 0].into(), 16);
    let child = ChildPolicy {
        name: "net".to_owned(),
        local: vec![network(1)],
        remote: vec![network(2)],
        proposals: vec![Offer::esp("aes256gcm16-x25519").expect("a proposal")],
        mode: Mode::Tunnel,
        resources: 1,
    };
    let peer = Peer {
        name: "peer".to_owned(),
        local: None,
        remote: None,
        local_identity: Identity::from_text("a.example"),
        remote_identity: None,
        prove: Prove::SharedKey(key()),
        expect: Expect::SharedKey(key()),
        proposals: ["aes256gcm16-prfsha384-x25519-ke1_mlkem768", "aes256-sha256-x25519-ecp256"]
            .map(|text| Offer::ike(text).expect("a proposal"))
            .to_vec(),
        children: vec![child],
        pool: None,
        asks_for: Families::default(),
        always_encapsulate: false,
        mobike: true,
        childless: false,
        ike_lifetime: None,
        child_lifetime: None,
        probe_after: None,
    };
    Endpoint::new(Settings { cookie_threshold: 1, ..Settings::default() }, vec![peer], Random::system())
}

fuzz_target!(|input: &[u8]| {
    if let Ok(all) = frugally(input.len(), || methods::parse(input)) {
        assert_eq!(methods::parse(&methods::write(&all)), Ok(all));
    }
    let Some((&first, chain)) = input.split_first() else { return };
    let first = PayloadType(first);
    if let Ok(payloads) = frugally(input.len(), || payload::parse_all(first, chain)) {
        let again: Payloads = payloads.iter().cloned().collect();
        let read = payload::parse_all(again.first(), again.bytes()).expect("what is written is read");
        // An unknown attribute is kept only as a mark.
        let without_marks: Payloads = read.iter().cloned().collect();
        assert_eq!(without_marks.bytes(), again.bytes());
    }
    let header = Header {
        spis: Spis { initiator: 1, responder: 0 },
        first,
        exchange: Exchange::Init,
        is_from_initiator: true,
        is_response: false,
        message_id: 0,
    };
    let message = [&header.to_bytes(HEADER_BYTES + chain.len()), chain].concat();
    let (from, to) = (([192, 0, 2, 1], 500).into(), ([192, 0, 2, 2], 500).into());
    let (mut endpoint, now) = (endpoint(), Instant::now());
    // The second copy of the message is a repetition, or is asked for a cookie.
    for _ in 0..2 {
        endpoint.handle(&message, from, to, now);
        while let Some(transmit) = endpoint.poll_transmit() {
            assert!(transmit.bytes.len() <= ANSWER_BYTES);
        }
        while let Some(event) = endpoint.poll_event() {
            assert!(matches!(event, Event::Refused { .. }));
        }
    }
    assert!(endpoint.sas() <= 1);
    endpoint.handle(input, from, to, now);
    let later = now + Settings::default().half_open_timeout;
    endpoint.handle_timeout(later);
    assert_eq!(endpoint.sas(), 0, "a half-open one is kept for ever");
});

//! scapy, another program's reader and writer of IKEv2, dissects every kind of message that we send, and builds the same
//! bytes from the fields.

#[path = "../users/client.rs"]
#[allow(dead_code, reason = "other tests use the rest")]
mod client;
#[path = "../common/mod.rs"]
mod common;
#[path = "../../../../testing/scapy.rs"]
mod scapy;
#[path = "../../../../testing/skip.rs"]
mod skip;

use std::{cell::RefCell, collections::BTreeSet, path::Path, rc::Rc, sync::Arc};

use client::{Client, D, E, F, Row, S, asks, errors, esp, ike, notify};
use common::{
    Dice, Pair,
    authority::{Authority, P256, RSA},
    network, peer,
};
use scapy::Scapy;
use sealane_ike::{
    EapServer, Endpoint, Event, Expect, Identity, Offer, Peer, Pool, Prove, Settings, Users,
    crypto::{KeyExchange, sign::SigningKey},
    wire::{
        Attribute, Delete, Exchange, HEADER_BYTES, Header, NotifyType, Payload, PayloadType, TrafficSelector,
        payload::Chain,
    },
};

/// The place of scapy, which `cargo xtask peers` installs.
const PYTHON: &str = "/usr/local/lib/sealane-peers/scapy/bin/python3";
/// Types of payloads, and scapy's names of them.
const NAMES: [(u8, &str); 17] = [
    (33, "IKEv2_SA"),
    (34, "IKEv2_KE"),
    (35, "IKEv2_IDi"),
    (36, "IKEv2_IDr"),
    (37, "IKEv2_CERT"),
    (38, "IKEv2_CERTREQ"),
    (39, "IKEv2_AUTH"),
    (40, "IKEv2_Nonce"),
    (41, "IKEv2_Notify"),
    (42, "IKEv2_Delete"),
    (43, "IKEv2_VendorID"),
    (44, "IKEv2_TSi"),
    (45, "IKEv2_TSr"),
    (ENCRYPTED, "IKEv2_Encrypted"),
    (47, "IKEv2_CP"),
    (48, "IKEv2_EAP"),
    (FRAGMENT, "IKEv2_Encrypted_Fragment"),
];
const ENCRYPTED: u8 = PayloadType::ENCRYPTED.0;
const FRAGMENT: u8 = PayloadType::ENCRYPTED_FRAGMENT.0;

/// Starts scapy; if it is not here, the test is skipped.
fn start() -> Option<Scapy> {
    if !Path::new(PYTHON).exists() {
        skip::skip(format!("no scapy in {PYTHON}"));
        return None;
    }
    Some(
        Scapy::start(PYTHON, concat!(env!("CARGO_MANIFEST_DIR"), "/tests/scapy/peer.py"))
            .expect("it is there"),
    )
}

/// Asserts that scapy finds the payloads of a message, and builds its bytes from them. Returns the payloads' types.
#[track_caller]
fn check(scapy: &mut Scapy, message: &[u8]) -> Vec<u8> {
    let hex = message.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let line = scapy.ask(&hex);
    let (names, built) = line.split_once(' ').expect("two words");
    let header = Header::parse(message).expect("a message of ours");
    let kinds = match header.first {
        // Encrypted payloads are the last, and their next payload is the first one inside.
        first @ (PayloadType::ENCRYPTED | PayloadType::ENCRYPTED_FRAGMENT) => vec![first.0],
        first => Chain::new(first, &message[HEADER_BYTES..]).map(|raw| raw.unwrap().kind.0).collect(),
    };
    let name = |kind: &u8| NAMES.iter().find(|(known, _)| known == kind).expect("a name").1;
    let expected: Vec<&str> = ["IKEv2"].into_iter().chain(kinds.iter().map(name)).collect();
    assert_eq!(names, expected.join(","), "{line}");
    assert_eq!(built, hex, "{names}");
    kinds
}

/// Returns all messages, in order, of two ends that negotiate, with cookies, renew all keys, and end. They prove who they
/// are by certificates of an authority, or by a shared key.
fn messages(change: impl Fn(&mut Peer), authority: Option<&Authority>) -> Vec<Vec<u8>> {
    let mut peers = [peer(0), peer(1)];
    peers.iter_mut().for_each(&change);
    if let Some(authority) = authority {
        for (end, peer) in peers.iter_mut().enumerate() {
            let names = format!("subjectAltName=DNS:end{end}.example\n");
            let (key, certificate) = authority.issue(RSA, "/CN=end", &names).expect("it has issued itself");
            let key = Arc::new(SigningKey::from_pkcs8(&key).expect("a key"));
            peer.prove = Prove::Signature { key, certificates: vec![certificate] };
            peer.expect = authority.trusted();
        }
    }
    let settings = Settings { cookie_threshold: 0, ..Settings::default() };
    let mut pair = Pair::with_settings(peers.map(|peer| vec![peer]), 1, settings);
    let seen = Rc::new(RefCell::new(Vec::new()));
    let sink = Rc::clone(&seen);
    pair.filter = Box::new(move |_, datagram| {
        let message = datagram.strip_prefix(&[0; 4]).unwrap_or(datagram);
        // A keepalive is one byte.
        if message.len() > 1 {
            sink.borrow_mut().push(message.to_vec());
        }
        true
    });
    pair.join();
    for end in [0, 1] {
        let child = pair.ends[end].only_child().child;
        pair.ends[end].endpoint.rekey_child(child, pair.now);
        pair.run_seconds(10);
        let ike = pair.ends[end].ike();
        pair.ends[end].endpoint.rekey(ike, pair.now);
        pair.run_seconds(10);
        pair.ends[end].endpoint.probe(pair.ends[end].ike(), pair.now);
        pair.up_after(10, 1);
    }
    pair.ends[0].endpoint.close(pair.ends[0].ike(), pair.now);
    pair.run_seconds(10);
    let seen = seen.borrow();
    seen.clone()
}

#[test]
fn every_message_is_dissected_and_built_again() {
    let Some(mut scapy) = start() else { return };
    let Some(authority) = skip::without("certificates", Authority::new(RSA)) else { return };
    let mut seen = BTreeSet::new();
    for (own, esp, authority) in [
        ("aes256gcm16-prfsha384-x25519-ke1_mlkem768", "aes256gcm16-x25519-ke1_mlkem768", Some(&authority)),
        ("aes256-sha256-modp2048", "aes128-sha512-ecp384", None),
        ("chacha20poly1305-prfsha512-ecp256", "chacha20poly1305", None),
    ] {
        let change = |peer: &mut Peer| {
            peer.proposals = vec![Offer::ike(own).expect("a proposal")];
            peer.children[0].proposals = vec![Offer::esp(esp).expect("a proposal")];
        };
        for message in messages(change, authority) {
            let header = Header::parse(&message).expect("a message of ours");
            for kind in check(&mut scapy, &message) {
                seen.insert((header.exchange.number(), kind, header.is_response));
            }
        }
    }
    let both = |exchange: Exchange, kind: u8| {
        for is_response in [false, true] {
            let is_seen = seen.contains(&(exchange.number(), kind, is_response));
            assert!(is_seen, "{exchange:?}, payload {kind}, answer: {is_response}: {seen:?}");
        }
    };
    [33, 34, 40, 41].into_iter().for_each(|kind| both(Exchange::Init, kind));
    for exchange in [Exchange::Auth, Exchange::CreateChild, Exchange::Informational] {
        both(exchange, ENCRYPTED);
    }
    // Certificates and the initiator's key of ML-KEM-768 are too long for one datagram.
    both(Exchange::Auth, FRAGMENT);
    for (exchange, kind, is_response) in [
        (Exchange::Intermediate, FRAGMENT, false),
        (Exchange::Intermediate, ENCRYPTED, true),
        (Exchange::FollowupKe, FRAGMENT, false),
        (Exchange::FollowupKe, ENCRYPTED, true),
    ] {
        assert!(seen.contains(&(exchange.number(), kind, is_response)), "{exchange:?}: {seen:?}");
    }
}

/// Returns a gateway for users, which gives addresses and proves itself with a certificate.
fn gateway(authority: &Authority) -> Endpoint {
    let names = "subjectAltName=DNS:end1.example\nextendedKeyUsage=serverAuth\n";
    let (key, certificate) = authority.issue(P256, "/CN=end1", names).expect("it has issued itself");
    let key = Arc::new(SigningKey::from_pkcs8(&key).expect("a key"));
    let mut users = Users::default();
    users.insert("alice", "correct horse");
    let mut open = peer(1);
    (open.remote, open.remote_identity) = (None, None);
    open.prove = Prove::Signature { key, certificates: vec![certificate] };
    open.expect = Expect::Eap(Arc::new(EapServer { users, tls: None }));
    open.children[0].local = vec![network("0.0.0.0/0"), network("::/0")];
    open.children[0].remote = vec![network("10.9.0.0/24"), network("fd09::/64")];
    (open.pool, open.mobike) = (Some(0), true);
    let range = |first: &str, last: &str| (first.parse().unwrap(), last.parse().unwrap());
    let pool = Pool {
        addresses: vec![range("10.9.0.10", "10.9.0.11"), range("fd09::10", "fd09::10")],
        dns: vec!["10.2.0.53".parse().unwrap(), "fd02::53".parse().unwrap()],
        domains: vec!["corp.example".to_owned()],
    };
    Endpoint::new(Settings { pools: vec![pool], ..Settings::default() }, vec![open], Dice::random(3))
}

/// Payloads that only go encrypted, as scapy sees them after decryption.
#[test]
fn what_is_encrypted_is_dissected_and_built_again() {
    let Some(mut scapy) = start() else { return };
    let Some(authority) = skip::without("certificates", Authority::new(P256)) else { return };
    let mut client = Client::new(gateway(&authority), &Identity::from_text("alice"));
    client.trace = Some(Vec::new());
    let rows: &[Row] = &[(E, &[(20, 256)]), (F, &[(6, 0)]), (D, &[(31, 0)])];
    let features = [notify(NotifyType::IKEV2_FRAGMENTATION_SUPPORTED, [])];
    assert_eq!(errors(&client.begin(&ike(&[rows]), KeyExchange::X25519, &features)), []);
    let child: &[Row] = &[(E, &[(20, 256)]), (S, &[(0, 0)])];
    let everything: Vec<TrafficSelector> = vec![network("0.0.0.0/0"), network("::/0")];
    let more = vec![
        notify(NotifyType::INITIAL_CONTACT, []),
        Payload::IdResponder(Identity::from_text("end1.example").to_wire()),
        asks(&[
            Attribute::INTERNAL_IP4_ADDRESS,
            Attribute::INTERNAL_IP6_ADDRESS,
            Attribute::INTERNAL_IP4_DNS,
            Attribute::INTERNAL_IP6_DNS,
            Attribute::INTERNAL_DNS_DOMAIN,
        ]),
        Payload::SecurityAssociation(esp(&[child])),
        Payload::SelectorsInitiator(everything.clone()),
        Payload::SelectorsResponder(everything),
        notify(NotifyType::MOBIKE_SUPPORTED, []),
    ];
    let answered = client.authenticate(more);
    let answered = client.by_password(answered, "alice", "correct horse");
    assert_eq!(errors(&answered), []);
    assert_eq!(errors(&client.rekey_child(esp(&[child]), None)), []);
    let spis = client.events.iter().filter_map(|event| match event {
        Event::Install(install) => Some(install.outbound.spi),
        _ => None,
    });
    let delete = Payload::Delete(Delete::Esp(spis.collect()));
    let deleted = client.ask(Exchange::Informational, &[delete].into_iter().collect());
    assert!(matches!(&deleted[..], [Payload::Delete(_)]), "{deleted:?}");

    let mut kinds = BTreeSet::new();
    let mut parts = Vec::new();
    for (is_ours, datagram) in client.trace.clone().unwrap_or_default() {
        let message = datagram.strip_prefix(&[0; 4]).unwrap_or(&datagram).to_vec();
        let header = Header::parse(&message).expect("a message");
        if is_ours || header.exchange == Exchange::Init {
            continue;
        }
        // Fragments follow each other; the last one says that it is.
        let is_part = header.first == PayloadType::ENCRYPTED_FRAGMENT;
        let numbers = message.get(HEADER_BYTES + 4..HEADER_BYTES + 8).map(<[u8]>::to_vec);
        parts.push(message);
        if is_part && numbers.is_some_and(|numbers| numbers[..2] != numbers[2..]) {
            continue;
        }
        let (opened, _) = client.open(&std::mem::take(&mut parts));
        let (first, clear) = opened.split_first().expect("the first payload's type");
        let header = Header { first: PayloadType(*first), ..header };
        let whole = [&header.to_bytes(HEADER_BYTES + clear.len()), clear].concat();
        kinds.extend(check(&mut scapy, &whole));
    }
    for kind in [33, 36, 37, 39, 40, 41, 42, 44, 45, 47, 48] {
        assert!(kinds.contains(&kind), "payload {kind} is not among {kinds:?}");
    }
}

//! Two ends of ours over a network whose behaviour each test decides.

mod common;

use std::{
    collections::BTreeSet,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use aws_lc_rs::{
    rand::SystemRandom,
    signature::{self, EcdsaKeyPair, Ed25519KeyPair},
};
use common::{End, Pair, Weather, peer};
use sealane_ike::{
    Expect, Identity, Mode, Offer, Peer, Prove, Reason, Settings,
    crypto::sign::SigningKey,
    wire::{NotifyType, Protocol},
};

#[test]
fn two_ends_with_a_shared_key_agree_on_a_child() {
    let mut pair = Pair::of(|_| {});
    pair.join();
    assert_eq!(pair.sent, 4, "two exchanges are enough");
}

#[test]
fn every_algorithm_is_agreed_on() {
    let ciphers = ["aes256gcm16", "aes128gcm16", "chacha20poly1305", "aes256-sha256", "aes128-sha512"];
    let exchanges = ["x25519", "ecp256", "ecp384", "ecp521", "modp2048", "modp3072", "modp4096"];
    let functions = ["prfsha256", "prfsha384", "prfsha512"];
    for index in 0..7 {
        let (cipher, exchange, function) = (ciphers[index % 5], exchanges[index], functions[index % 3]);
        let mut pair = Pair::of(|peer| {
            peer.proposals = vec![Offer::ike(&format!("{cipher}-{function}-{exchange}")).unwrap()];
            peer.children[0].proposals = vec![Offer::esp(cipher).unwrap()];
        });
        pair.initiate(index % 2);
        pair.up_after(5, 1);
    }
}

#[test]
fn a_post_quantum_exchange_comes_between() {
    for exchange in ["ke1_mlkem512", "ke1_mlkem768", "ke1_mlkem1024", "ke1_mlkem768-ke2_mlkem1024"] {
        for initiator in [0, 1] {
            let mut pair = Pair::of(|peer| {
                let proposal = format!("aes256gcm16-prfsha384-x25519-{exchange}");
                peer.proposals = vec![Offer::ike(&proposal).unwrap()];
                peer.children[0].proposals =
                    vec![Offer::esp(&format!("aes256gcm16-x25519-{exchange}")).unwrap()];
            });
            pair.initiate(initiator);
            pair.up_after(5, 1);
            let child = *pair.ends[initiator].children.first_key_value().unwrap().0;
            pair.ends[initiator].endpoint.rekey_child(child, pair.now);
            pair.up_after(10, 1);
        }
    }
}

/// An end that has only ML-KEM-1024 agrees with one that prefers ML-KEM-768 and takes both.
#[test]
fn standard_proposals_have_the_exchange_of_cnsa() {
    let only = "aes256gcm16-prfsha384-ecp384-ke1_mlkem1024";
    for initiator in [0, 1] {
        let mut peers = [peer(0), peer(1)];
        peers[0].proposals = Offer::standard_ike();
        peers[1].proposals = vec![Offer::ike(only).unwrap()];
        let mut pair = Pair::new(peers.map(|peer| vec![peer]), 1);
        pair.initiate(initiator);
        pair.up_after(5, 1);
    }
}

#[test]
fn a_wrong_key_is_told_at_both_ends() {
    let mut other = peer(1);
    other.expect = Expect::SharedKey(common::key("another"));
    let mut pair = Pair::new([vec![peer(0)], vec![other]], 1);
    pair.begin(120);
    pair.assert_agree();
    assert!(
        matches!(&pair.ends[1].down[..], [Reason::Authentication { problem, .. }] if problem.contains("differ"))
    );
    assert!(matches!(&pair.ends[0].down[..], [Reason::Refused { .. }]));
    assert!(pair.ends.iter().all(|end| end.endpoint.sas() == 0), "nothing is left");
}

#[test]
fn another_proposal_is_told_at_both_ends() {
    let mut other = peer(1);
    other.proposals = vec![Offer::ike("aes256gcm16-prfsha384-modp2048").unwrap()];
    let mut pair = Pair::new([vec![peer(0)], vec![other]], 1);
    pair.begin(120);
    let [Reason::NoProposal(mismatch)] = &pair.ends[1].refused[..] else {
        panic!("{:?}", pair.ends[1].refused)
    };
    assert_eq!(
        mismatch.to_string(),
        "no common key exchange: taken here are modp2048, the peer offers x25519"
    );
    let [Reason::Refused { kind }] = pair.ends[0].down[..] else { panic!("{:?}", pair.ends[0].down) };
    assert_eq!(kind, NotifyType::NO_PROPOSAL_CHOSEN);
}

#[test]
fn another_identity_is_told_with_what_is_expected() {
    let mut other = peer(1);
    other.remote_identity = Some(Identity::from_text("somebody.example"));
    let mut pair = Pair::new([vec![peer(0)], vec![other]], 1);
    pair.begin(120);
    let [Reason::Identity { sent, expected }] = &pair.ends[1].down[..] else {
        panic!("{:?}", pair.ends[1].down)
    };
    assert!(sent.contains("end0.example") && expected.contains("somebody.example"), "{sent} {expected}");
}

#[test]
fn the_guess_of_a_key_exchange_may_be_wrong() {
    let mut other = peer(1);
    other.proposals = vec![Offer::ike("aes256gcm16-prfsha384-ecp384").unwrap()];
    other.children[0].proposals = vec![Offer::esp("aes256gcm16-ecp384").unwrap()];
    let mut guesses = peer(0);
    guesses.proposals = vec![Offer::ike("aes256gcm16-prfsha384-x25519-ecp384").unwrap()];
    guesses.children[0].proposals = vec![Offer::esp("aes256gcm16-x25519-ecp384").unwrap()];
    let mut pair = Pair::new([vec![guesses], vec![other]], 1);
    pair.join();
    assert_eq!(pair.sent, 6, "one exchange more");
    // The keys of a child are renewed too, and those of the IKE SA.
    let child = *pair.ends[0].children.first_key_value().unwrap().0;
    pair.ends[0].endpoint.rekey_child(child, pair.now);
    pair.up_after(5, 1);
    assert!(!pair.ends[0].children.contains_key(&child));
    pair.ends[0].endpoint.rekey(pair.ends[0].ike(), pair.now);
    pair.up_after(5, 1);
    assert_eq!((pair.ends[0].rekeyed, pair.ends[1].rekeyed), (1, 1));
}

#[test]
fn other_traffic_leaves_the_ike_sa_without_a_child() {
    let mut other = peer(1);
    other.children[0].remote = vec![common::network("10.7.0.0/16")];
    let mut pair = Pair::new([vec![peer(0)], vec![other]], 1);
    pair.begin(5);
    pair.assert_up(0);
    assert!(matches!(&pair.ends[1].failed[..], [Reason::Selectors { .. }]), "{:?}", pair.ends[1].failed);
    assert_eq!(pair.ends[0].failed, [Reason::Refused { kind: NotifyType::TS_UNACCEPTABLE }]);
}

#[test]
fn traffic_is_narrowed_to_what_both_want() {
    let mut other = peer(1);
    other.children[0].local = vec![common::network("10.2.3.0/24"), common::network("10.2.4.4/32")];
    let mut pair = Pair::new([vec![peer(0)], vec![other]], 1);
    pair.join();
    let expected = [common::network("10.2.3.0/24"), common::network("10.2.4.4/32")];
    assert_eq!(pair.ends[0].only_child().remote, expected);
    assert_eq!(pair.ends[1].only_child().local, expected);
}

#[test]
fn a_peer_that_is_not_there_is_told() {
    let mut pair = Pair::of(|_| {});
    pair.weather.lost_percent = 100;
    pair.begin(300);
    assert_eq!(pair.ends[0].down, [Reason::Timeout]);
    assert_eq!((pair.sent, pair.ends[0].endpoint.sas()), (6, 0));
}

#[test]
fn a_dead_peer_is_found_and_a_living_one_is_left_alone() {
    let mut pair = Pair::of(|peer| peer.probe_after = Some(Duration::from_secs(30)));
    pair.begin(600);
    pair.assert_up(1);
    pair.weather.lost_percent = 100;
    pair.run_seconds(600);
    for end in &pair.ends {
        assert_eq!(end.down, [Reason::Timeout]);
        assert!(end.children.is_empty() && end.endpoint.sas() == 0);
    }
}

#[test]
fn long_messages_go_in_fragments() {
    let settings = Settings { fragment_bytes: 300, ..Settings::default() };
    let mut peers = [peer(0), peer(1)];
    for peer in &mut peers {
        peer.proposals = vec![Offer::ike("aes256-sha256-x25519-ke1_mlkem768").unwrap()];
    }
    let mut pair = Pair::with_settings(peers.map(|peer| vec![peer]), 1, settings);
    pair.filter = Box::new(|_, bytes| {
        assert!(bytes.len() <= 304 || bytes[18] == 34, "{} bytes", bytes.len());
        true
    });
    pair.weather = Weather { delay_max_ms: 500, ..Weather::default() };
    pair.begin(20);
    pair.assert_up(1);
    assert!(pair.sent > 14, "{} datagrams", pair.sent);
}

#[test]
fn children_are_added_and_ended_alone() {
    let mut pair = Pair::of(|_| {});
    pair.begin(5);
    let now = pair.now;
    pair.ends[1].endpoint.acquire(0, 0, None, now);
    pair.up_after(5, 2);
    let child = *pair.ends[0].children.first_key_value().unwrap().0;
    pair.ends[0].endpoint.delete_child(child, pair.now);
    pair.up_after(5, 1);
    pair.ends[1].endpoint.close(pair.ends[1].ike(), pair.now);
    pair.run_seconds(120);
    assert_eq!(pair.ends[0].down, [Reason::DeletedByPeer]);
    assert_eq!(pair.ends[1].down, [Reason::Closed]);
    assert!(pair.ends.iter().all(|end| end.endpoint.sas() == 0));
}

#[test]
fn a_childless_ike_sa_stands_before_its_first_child() {
    let mut pair = Pair::of(|peer| peer.childless = true);
    pair.join();
    assert_eq!(pair.sent, 6);
}

#[test]
fn post_quantum_exchanges_follow_when_keys_are_renewed() {
    let mut pair = Pair::of(|peer| {
        peer.proposals = vec![Offer::ike("aes256gcm16-prfsha384-x25519-ke1_mlkem768").unwrap()];
        peer.children[0].proposals = vec![Offer::esp("aes256gcm16-x25519-ke1_mlkem768").unwrap()];
    });
    pair.begin(5);
    for end in [0, 1, 0] {
        let child = *pair.ends[end].children.first_key_value().unwrap().0;
        pair.ends[end].endpoint.rekey_child(child, pair.now);
        pair.up_after(10, 1);
        assert!(!pair.ends[end].children.contains_key(&child));
        let ike = pair.ends[end].ike();
        pair.ends[end].endpoint.rekey(ike, pair.now);
        pair.up_after(10, 1);
    }
    assert_eq!((pair.ends[0].rekeyed, pair.ends[1].rekeyed), (3, 3));
}

#[test]
fn keys_are_renewed_in_time() {
    let mut pair = Pair::of(|peer| {
        peer.ike_lifetime = Some(Duration::from_secs(3600));
        peer.child_lifetime = Some(Duration::from_secs(600));
    });
    pair.begin(3 * 3600);
    pair.assert_up(1);
    let removed = pair.ends[0].removed.len();
    assert!((12..=20).contains(&removed), "{removed} children in three hours");
    assert!((2..=3).contains(&pair.ends[0].rekeyed), "{}", pair.ends[0].rekeyed);
    assert!(
        pair.ends[0].removed.iter().all(|reason| *reason == Reason::Replaced || *reason == Reason::Closed)
    );
}

#[test]
fn a_stranger_returns_a_cookie_when_many_are_half_open() {
    let settings = Settings { cookie_threshold: 0, ..Settings::default() };
    let mut pair = Pair::with_settings([vec![peer(0)], vec![peer(1)]], 1, settings);
    pair.join();
    assert_eq!((pair.sent, pair.ends[1].endpoint.counters().cookies), (6, 1));
}

/// Two ends that know each other's raw public keys, with every kind of key.
#[test]
fn raw_public_keys_prove_who_both_ends_are() {
    let random = SystemRandom::new();
    let p256 = EcdsaKeyPair::generate_pkcs8(&signature::ECDSA_P256_SHA256_ASN1_SIGNING, &random).unwrap();
    let keys = [Ed25519KeyPair::generate_pkcs8(&random).unwrap().as_ref().to_vec(), p256.as_ref().to_vec()];
    let keys = keys.map(|der| Arc::new(SigningKey::from_pkcs8(&der).unwrap()));
    let mut peers = [peer(0), peer(1)];
    for (index, peer) in peers.iter_mut().enumerate() {
        peer.prove = Prove::Signature { key: keys[index].clone(), certificates: Vec::new() };
        peer.expect = Expect::PublicKeys(vec![keys[1 - index].public_key().to_vec()]);
    }
    let mut stranger = peers[1].clone();
    let mut pair = Pair::new(peers.clone().map(|peer| vec![peer]), 1);
    pair.join();
    // A key other than the expected one is reported as such.
    stranger.prove = Prove::Signature { key: keys[0].clone(), certificates: Vec::new() };
    let [first, _] = peers;
    let mut pair = Pair::new([vec![first], vec![stranger]], 1);
    pair.begin(120);
    pair.assert_agree();
    let told = pair.ends[0].down.iter().map(ToString::to_string).collect::<String>();
    assert!(told.contains("none of the public keys"), "{told}");
    assert!(matches!(pair.ends[1].down[..], [Reason::Refused { kind: NotifyType::AUTHENTICATION_FAILED }]));
}

/// Keys of ML-DSA take fragments, and the option at both ends.
#[test]
fn ml_dsa_proves_who_both_ends_are_where_both_allow_it() {
    let keys = [&signature::ML_DSA_65_SIGNING, &signature::ML_DSA_87_SIGNING].map(|set| {
        let pair = signature::PqdsaKeyPair::generate(set).unwrap();
        Arc::new(SigningKey::from_pkcs8(pair.to_pkcs8v1().unwrap().as_ref()).unwrap())
    });
    let mut peers = [peer(0), peer(1)];
    for (index, peer) in peers.iter_mut().enumerate() {
        peer.prove = Prove::Signature { key: keys[index].clone(), certificates: Vec::new() };
        peer.expect = Expect::PublicKeys(vec![keys[1 - index].public_key().to_vec()]);
    }
    let settings = Settings { ml_dsa: true, ..Settings::default() };
    let mut pair = Pair::with_settings(peers.clone().map(|peer| vec![peer]), 1, settings.clone());
    pair.join();
    assert!(pair.sent > 10, "{} datagrams: keys and signatures have more bytes than a datagram", pair.sent);
    for allowed in [[true, false], [false, true]] {
        let mut pair = Pair::with_settings(peers.clone().map(|peer| vec![peer]), 1, settings.clone());
        for (end, (peer, allowed)) in pair.ends.iter_mut().zip(peers.clone().into_iter().zip(allowed)) {
            *end = End::new(
                Settings { ml_dsa: allowed, ..Settings::default() },
                vec![peer],
                7 + u64::from(allowed),
            );
        }
        pair.begin(120);
        pair.assert_agree();
        let told = pair.ends.iter().flat_map(|end| &end.down).map(ToString::to_string).collect::<String>();
        assert!(told.contains("`ml-dsa = true`"), "{allowed:?}: {told}");
    }
}

/// An end that announces methods gets none that it has not announced.
#[test]
fn a_key_of_another_method_than_announced_is_told_before_it_is_used() {
    let key = Arc::new(SigningKey::from_pkcs8(&ed25519()).unwrap());
    let mut peers = [peer(0), peer(1)];
    peers[0].prove = Prove::Signature { key, certificates: Vec::new() };
    let settings = Settings { ml_dsa: true, ..Settings::default() };
    let mut pair = Pair::with_settings(peers.map(|peer| vec![peer]), 1, settings);
    pair.begin(120);
    let told = pair.ends[0].down.iter().map(ToString::to_string).collect::<String>();
    assert!(told.contains("announces no method"), "{told}");
}

fn ed25519() -> Vec<u8> {
    Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap().as_ref().to_vec()
}

#[test]
fn transport_mode_is_taken_where_both_want_it_and_declined_elsewhere() {
    for (wanted, expected) in
        [([true, true], Mode::Transport), ([true, false], Mode::Tunnel), ([false, true], Mode::Tunnel)]
    {
        let mut peers = [peer(0), peer(1)];
        for (peer, wanted) in peers.iter_mut().zip(wanted) {
            peer.children[0].mode = if wanted { Mode::Transport } else { Mode::Tunnel };
        }
        let mut pair = Pair::new(peers.map(|peer| vec![peer]), 1);
        pair.join();
        assert!(pair.ends.iter().all(|end| end.only_child().mode == expected), "{wanted:?}");
    }
}

/// AH is negotiated, rekeyed and deleted as ESP is, under its own protocol number.
#[test]
fn two_ends_agree_on_ah() {
    let mut pair = Pair::of(|peer| peer.children[0].proposals = vec![Offer::ah("sha256-x25519").unwrap()]);
    pair.join();
    for end in [0, 1] {
        let child = pair.ends[end].only_child();
        assert_eq!((child.suite.name().as_str(), child.suite.protocol()), ("hmac-sha256-128", Protocol::Ah));
        assert_eq!(child.inbound.material.len(), 32);
        let child = child.child;
        pair.ends[end].endpoint.rekey_child(child, pair.now);
        pair.up_after(5, 1);
        assert!(!pair.ends[end].children.contains_key(&child));
    }
    let child = pair.ends[0].only_child().child;
    pair.ends[0].endpoint.delete_child(child, pair.now);
    pair.up_after(5, 0);
    // An end that takes ESP refuses.
    let mut peers = [peer(0), peer(1)];
    peers[0].children[0].proposals = vec![Offer::ah("sha256").unwrap()];
    let mut pair = Pair::new(peers.map(|peer| vec![peer]), 1);
    pair.begin(5);
    pair.assert_up(0);
    assert_eq!(pair.ends[0].failed, [Reason::Refused { kind: NotifyType::NO_PROPOSAL_CHOSEN }]);
}

/// RFC 7296, section 2.23.1, leaves it to the responder to decline transport mode across a NAT; ours does, because the
/// addresses that checksums and selectors are about would not be those on the wire. The child is in tunnel mode then, and
/// so are its successors, whichever end asks for them.
#[test]
fn transport_mode_across_a_nat_falls_back_to_tunnel_mode() {
    for (nat, claim, expected) in [
        (None, false, Mode::Transport),
        (Some("203.0.113.9:39374"), false, Mode::Tunnel),
        // Either end may claim a NAT that is not there, so that ESP is sent in UDP.
        (None, true, Mode::Tunnel),
    ] {
        let mut peers = [peer(0), peer(1)];
        peers.iter_mut().for_each(|peer| peer.children[0].mode = Mode::Transport);
        peers[0].always_encapsulate = claim;
        // The end behind the NAT is known by its identity alone.
        peers[1].remote = None;
        let mut pair = Pair::new(peers.map(|peer| vec![peer]), 1);
        pair.nat = nat.map(|outside| outside.parse().unwrap());
        pair.begin(5);
        for by in [None, Some(0), Some(1)] {
            if let Some(end) = by {
                let child = pair.ends[end].only_child().child;
                pair.ends[end].endpoint.rekey_child(child, pair.now);
                pair.run_seconds(5);
                assert!(!pair.ends[end].children.contains_key(&child), "{nat:?}: it has a successor");
            }
            pair.assert_up(1);
            for end in &pair.ends {
                let child = end.only_child();
                let is_in_udp = nat.is_some() || claim;
                assert_eq!(
                    (child.mode, child.is_encapsulated),
                    (expected, is_in_udp),
                    "{nat:?} {claim} {by:?}"
                );
            }
        }
        assert!(pair.ends.iter().all(|end| end.failed.is_empty()));
    }
}

#[test]
fn a_packet_that_wants_a_child_names_itself_first() {
    let mut pair = Pair::of(|_| {});
    let packet = (common::network("10.1.2.3/32"), common::network("10.2.4.5/32"));
    pair.ends[0].endpoint.acquire(0, 0, Some(packet), pair.now).expect("it is configured");
    // A second packet finds the IKE SA that is being negotiated.
    pair.ends[0].endpoint.acquire(0, 0, Some(packet), pair.now).expect("it is configured");
    pair.up_after(5, 1);
    assert_eq!(pair.ends[1].only_child().remote[0], packet.0);
    assert_eq!(pair.ends[1].only_child().remote[1], common::network("10.1.0.0/16"));
}

/// An end that waits for the answer to its last request has nothing else to do, although a child's lifetime ends in
/// the meantime.
#[test]
fn an_ike_sa_that_ends_renews_nothing() {
    let mut pair = Pair::of(|peer| peer.child_lifetime = Some(Duration::from_secs(30)));
    pair.begin(5);
    pair.filter = Box::new(|_, _| false);
    pair.ends[0].endpoint.close(pair.ends[0].ike(), pair.now);
    pair.run_seconds(300);
    assert_eq!(pair.ends[0].down, [Reason::Closed]);
    assert_eq!(pair.ends[0].endpoint.sas(), 0);
}

/// Each queue has associations of its own (RFC 9611), and keeps them when keys are renewed.
#[test]
fn resources_have_children_of_their_own() {
    let mut pair = Pair::of(|peer| peer.children[0].resources = 3);
    pair.begin(5);
    let ike = pair.ends[0].ike();
    for resource in [0, 1, 7] {
        pair.ends[0].endpoint.add_resource(ike, 0, resource, pair.now);
    }
    pair.up_after(5, 4);
    let names = |end: &End| {
        let mut names: Vec<_> = end.children.values().map(|child| child.resource.clone()).collect();
        names.sort_unstable();
        names
    };
    let expected: Vec<Option<Vec<u8>>> =
        [None, Some(0u32), Some(1), Some(7)].map(|name| name.map(|name| name.to_be_bytes().to_vec())).into();
    for end in [0, 1] {
        assert_eq!(names(&pair.ends[end]), expected);
        let child = *pair.ends[end].children.last_key_value().unwrap().0;
        pair.ends[end].endpoint.rekey_child(child, pair.now);
        pair.up_after(5, 4);
    }
    assert_eq!([names(&pair.ends[0]), names(&pair.ends[1])], [expected.clone(), expected]);
}

/// Both ends limit the number of children for resources, and each child is rekeyed and ended alone.
#[test]
fn a_peer_takes_as_many_children_for_resources_as_it_allows() {
    let mut peers = [peer(0), peer(1)];
    peers[1].children[0].resources = 2;
    // The peer narrows the traffic of the first child; the others have the same.
    peers[1].children[0].local = vec![common::network("10.2.3.0/24")];
    let mut pair = Pair::new(peers.map(|peer| vec![peer]), 1);
    pair.begin(5);
    let (ike, first) = (pair.ends[0].ike(), pair.ends[0].only_child().child);
    for resource in 0..4 {
        pair.ends[0].endpoint.add_resource(ike, 0, resource, pair.now);
    }
    pair.up_after(5, 3);
    let too_many = Reason::Refused { kind: NotifyType::TS_MAX_QUEUE };
    assert_eq!(pair.ends[0].failed, [too_many.clone(), too_many.clone()]);
    assert!(pair.ends[1].failed.is_empty(), "a limit is not a failure: {:?}", pair.ends[1].failed);
    assert!(pair.ends[0].children.values().all(|child| child.remote == [common::network("10.2.3.0/24")]));
    // This end allows none, and the other end hears so.
    let other = pair.ends[1].ike();
    pair.ends[1].endpoint.add_resource(other, 0, 9, pair.now);
    pair.up_after(5, 3);
    assert_eq!(pair.ends[1].failed, [too_many]);
    // The place of a child that has ended is free; the IKE SA's new keys change nothing.
    let ended = *pair.ends[0].children.last_key_value().unwrap().0;
    pair.ends[0].endpoint.delete_child(ended, pair.now);
    pair.ends[0].endpoint.rekey(ike, pair.now);
    pair.up_after(5, 2);
    pair.ends[0].endpoint.add_resource(ike, 0, 5, pair.now);
    pair.up_after(5, 3);
    // The first child ends and gets a successor without the others.
    let before: BTreeSet<_> = pair.ends[0].children.keys().copied().collect();
    pair.ends[0].endpoint.rekey_child(first, pair.now);
    pair.up_after(5, 3);
    let after: BTreeSet<_> = pair.ends[0].children.keys().copied().collect();
    assert_eq!(before.difference(&after).copied().collect::<Vec<_>>(), [first]);
    let successor = *after.difference(&before).next().unwrap();
    pair.ends[0].endpoint.delete_child(successor, pair.now);
    pair.up_after(5, 2);
    assert!(pair.ends.iter().all(|end| end.children.values().all(|child| child.resource.is_some())));
}

#[test]
fn two_ends_that_ask_at_once_for_the_last_child_get_one() {
    for seed in 0..20 {
        let mut peers = [peer(0), peer(1)];
        peers.iter_mut().for_each(|peer| peer.children[0].resources = 1);
        let mut pair = Pair::new(peers.map(|peer| vec![peer]), seed);
        pair.begin(5);
        for end in 0..2 {
            let ike = pair.ends[end].ike();
            pair.ends[end].endpoint.add_resource(ike, 0, 0, pair.now);
        }
        pair.up_after(60, 2);
        let refused: usize = pair.ends.iter().map(|end| end.failed.len()).sum();
        assert_eq!(refused, 1, "the one that asked again later");
    }
}

#[test]
fn strangers_first_messages_are_answered_together_as_one_by_one() {
    let groups = ["x25519", "ecp256", "modp2048", "ecp384"];
    let offer = |group: &str| Offer::ike(&format!("aes256gcm16-prfsha384-{group}")).unwrap();
    let gateway = Peer { proposals: groups.map(offer).to_vec(), remote: None, ..peer(1) };
    let mut responder = End::new(Settings::default(), vec![gateway], 1);
    let now = Instant::now();
    let mut initiators: Vec<End> = (0..11)
        .map(|number| {
            let own = Peer { proposals: vec![offer(groups[number % groups.len()])], ..peer(0) };
            let mut end = End::new(Settings::default(), vec![own], 100 + number as u64);
            end.endpoint.initiate(0, Some(0), None, now).unwrap();
            end
        })
        .collect();
    // Each has a port of its own, as behind one translator of addresses.
    let port_of = |number: usize| 10_000 + number as u16;
    for (number, initiator) in initiators.iter_mut().enumerate() {
        let first = initiator.endpoint.poll_transmit().unwrap();
        let from = SocketAddr::new(first.path.local.ip(), port_of(number));
        // Everything comes twice.
        for _ in 0..2 {
            responder.endpoint.take_in(&first.bytes, from, first.path.remote, now);
        }
    }
    assert_eq!(responder.endpoint.answer_waiting(), Some(now));
    assert_eq!(responder.endpoint.answer_waiting(), None);
    assert_eq!(responder.endpoint.sas(), initiators.len());
    let mut answered = BTreeSet::new();
    while let Some(answer) = responder.endpoint.poll_transmit() {
        let number = usize::from(answer.path.remote.port() - port_of(0));
        // A message that came again after its answer is answered again.
        if !answered.insert(number) {
            continue;
        }
        let initiator = &mut initiators[number];
        let to = SocketAddr::new(answer.path.remote.ip(), 500);
        initiator.endpoint.handle(&answer.bytes, answer.path.local, to, now);
        // The next message is that of IKE_AUTH: the initiator has the keys.
        assert!(initiator.endpoint.poll_transmit().is_some_and(|next| !next.bytes.is_empty()), "{number}");
    }
    assert_eq!(answered.len(), initiators.len());
}

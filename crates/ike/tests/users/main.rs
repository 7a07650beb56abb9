//! Peers without a network of their own: they prove themselves with EAP, and get addresses.

mod client;
#[path = "../common/mod.rs"]
mod common;
mod native;
#[path = "../../../../testing/skip.rs"]
mod skip;

use std::{net::IpAddr, sync::Arc, time::Duration};

use aws_lc_rs::{rand::SystemRandom, signature::Ed25519KeyPair};
use common::{
    Pair, Weather,
    authority::{Authority, ED25519, Issued, P256, RSA},
    network, peer,
};
use sealane_ike::{
    EapClient, EapServer, EapTls, Expect, Families, Identity, Peer, Pool, Prove, Reason, Settings,
    TlsIdentity, Users, crypto::sign::SigningKey, wire::NotifyType,
};
use zeroize::Zeroizing;

fn password(user: &str, password: &str) -> Prove {
    Prove::Eap(EapClient::Password { user: user.to_owned(), password: Zeroizing::new(password.to_owned()) })
}

fn users() -> Users {
    let mut users = Users::default();
    users.insert("alice", "correct horse");
    users.insert("bob", "battery staple");
    users
}

/// Returns a client, end 0, and a gateway, end 1, which proves itself with a raw key and gives addresses.
fn peers() -> [Peer; 2] {
    let mut peers = [peer(0), peer(1)];
    let der = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
    let key = Arc::new(SigningKey::from_pkcs8(der.as_ref()).unwrap());
    let [client, gateway] = &mut peers;
    client.prove = password("alice", "correct horse");
    client.expect = Expect::PublicKeys(vec![key.public_key().to_vec()]);
    client.asks_for = Families { ipv4: true, ipv6: true };
    client.children[0].local = vec![network("0.0.0.0/0"), network("::/0")];
    client.children[0].remote = vec![network("10.2.0.0/16")];
    gateway.prove = Prove::Signature { key, certificates: Vec::new() };
    gateway.expect = Expect::Eap(Arc::new(EapServer { users: users(), tls: None }));
    (gateway.remote, gateway.remote_identity) = (None, None);
    gateway.children[0].remote = vec![network("10.9.0.0/24"), network("fd09::/64")];
    gateway.pool = Some(0);
    peers
}

fn settings() -> Settings {
    let range = |first: &str, last: &str| (first.parse().unwrap(), last.parse().unwrap());
    let pool = Pool {
        addresses: vec![range("10.9.0.10", "10.9.0.11"), range("fd09::10", "fd09::10")],
        dns: vec!["10.2.0.53".parse().unwrap()],
        domains: vec!["corp.example".to_owned()],
    };
    Settings { pools: vec![pool], ..Settings::default() }
}

fn pair(peers: [Peer; 2], seed: u64) -> Pair {
    Pair::with_settings(peers.map(|peer| vec![peer]), seed, settings())
}

#[test]
fn a_user_with_a_password_gets_addresses_and_a_child_of_them() {
    let mut pair = pair(peers(), 1);
    pair.join();
    assert_eq!(pair.sent, 12, "one exchange for keys, five for EAP and the proofs");
    assert_eq!(pair.ends[1].users, ["alice"]);
    let expected: [IpAddr; 2] = ["10.9.0.10".parse().unwrap(), "fd09::10".parse().unwrap()];
    for given in [&pair.ends[0].configured, &pair.ends[1].leased] {
        assert_eq!(given.len(), 1);
        assert_eq!(given[0].addresses, expected);
        assert_eq!(given[0].dns, settings().pools[0].dns);
        assert_eq!(given[0].domains, ["corp.example"]);
    }
    let own = [network("10.9.0.10/32"), network("fd09::10/128")];
    assert_eq!(pair.ends[1].only_child().remote, own);
    assert_eq!(pair.ends[0].only_child().local, own);
    // Addresses remain when keys are renewed, by either end.
    for end in [0, 1] {
        let child = pair.ends[end].only_child().child;
        pair.ends[end].endpoint.rekey_child(child, pair.now);
        pair.run_seconds(5);
        let ike = pair.ends[end].ike();
        pair.ends[end].endpoint.rekey(ike, pair.now);
        pair.up_after(5, 1);
        let now = pair.now;
        pair.ends[0].endpoint.acquire(0, 0, None, now).expect("it stands");
        pair.run_seconds(5);
        let child = *pair.ends[0].children.last_key_value().unwrap().0;
        assert_eq!(pair.ends[0].children[&child].local, own);
        pair.ends[0].endpoint.delete_child(child, pair.now);
        pair.up_after(5, 1);
    }
    // They are free again at the end, and kept for a returning user.
    for _ in 0..3 {
        pair.ends[0].endpoint.close(pair.ends[0].ike(), pair.now);
        pair.run_seconds(30);
        pair.join();
        assert_eq!(pair.ends[1].leased.last().unwrap().addresses, expected);
    }
}

/// Returns the reason with which end `by` refuses the other, and checks that the other reports a failure.
fn refused(peers: [Peer; 2], by: usize) -> String {
    let mut pair = pair(peers, 1);
    pair.begin(120);
    pair.assert_agree();
    assert!(pair.ends.iter().all(|end| end.up.is_empty() && end.endpoint.sas() == 0));
    assert!(!pair.ends[1 - by].down.is_empty(), "the other end hears of it");
    let [reason @ Reason::Authentication { .. }] = &pair.ends[by].down[..] else {
        panic!("{:?} {:?}", pair.ends[0].down, pair.ends[1].down)
    };
    reason.to_string()
}

#[test]
fn a_wrong_password_and_an_unknown_user_are_refused_alike() {
    for (user, word) in
        [("alice", "correct house"), ("alice", ""), ("mallory", "correct horse"), ("Alice", "correct horse")]
    {
        let mut peers = peers();
        peers[0].prove = password(user, word);
        let told = refused(peers.clone(), 1);
        assert!(told.contains(user) && told.contains("there is no user"), "{told}");
        let told = refused(peers, 0);
        assert!(told.contains(user) && told.contains("compare name and password"), "{told}");
    }
    // A name with a domain before it, as Windows sends it, belongs to the same user.
    let mut peers = peers();
    peers[0].prove = password("CORP\\alice", "correct horse");
    let mut pair = pair(peers, 1);
    pair.join();
    assert_eq!(pair.ends[1].users, ["alice"]);
}

#[test]
fn a_peer_that_wants_eap_meets_one_that_does_not() {
    let mut wants = peers();
    wants[1].expect = Expect::SharedKey(common::key("a key that both ends have"));
    assert!(refused(wants, 1).contains("where another way is configured"));
    let mut other = peers();
    other[0].prove = Prove::SharedKey(common::key("a key that both ends have"));
    assert!(refused(other, 1).contains("does not prove itself by EAP"));
    let mut other = peers();
    other[0].expect = Expect::PublicKeys(vec![b"another key".to_vec()]);
    assert!(refused(other, 0).contains("none of the public keys"));
    // An EAP conversation can only prove the identity of the initiator.
    let mut other = peers();
    (other[1].prove, other[1].remote) = (password("alice", "correct horse"), None);
    assert!(refused(other, 1).contains("where we begin"));
}

#[test]
fn without_an_address_there_is_no_child() {
    let mut given = Vec::new();
    let mut others = peers();
    others[0].asks_for = Families::default();
    let mut pair = pair(others, 1);
    pair.begin(5);
    pair.assert_up(0);
    assert_eq!(pair.ends[0].failed, [Reason::Refused { kind: NotifyType::FAILED_CP_REQUIRED }]);
    assert!(
        matches!(&pair.ends[1].failed[..], [Reason::Protocol(problem)] if problem.contains("no address"))
    );
    // Asking again does not yield a child either.
    let now = pair.now;
    pair.ends[0].endpoint.acquire(0, 0, None, now).expect("it stands");
    pair.up_after(5, 0);
    assert_eq!(pair.ends[0].failed.len(), 2);

    let mut pair = self::pair(peers(), 1);
    for _ in 0..3 {
        // One user has several devices: each gets addresses of its own, until none is left.
        pair.ends[0].endpoint.initiate(0, Some(0), None, pair.now).expect("it is configured");
        pair.run_seconds(5);
        given.extend(pair.ends[1].leased.last().map(|assignment| assignment.addresses[0]));
    }
    assert_eq!(pair.ends[1].leased.len(), 2);
    assert_ne!(given[0], given[1]);
    assert_eq!(pair.ends[1].leased[1].addresses.len(), 1, "the pool has one address of IPv6");
    assert_eq!(pair.ends[0].failed, [Reason::Refused { kind: NotifyType::INTERNAL_ADDRESS_FAILURE }]);
    assert_eq!(pair.ends[1].failed, [Reason::NoAddress]);
    assert_eq!((pair.ends[1].up.len(), pair.ends[1].children.len()), (3, 2));
}

/// Authorities, the gateway's certificate and the user's.
struct Certificates {
    authority: Authority,
    gateway: Issued,
    user: Issued,
}

fn certificates(kind: common::authority::Kind) -> Option<Certificates> {
    let made = || {
        let authority = Authority::new(kind)?;
        let gateway = authority.issue(
            kind,
            "/CN=end1.example",
            "subjectAltName=DNS:end1.example\nextendedKeyUsage=serverAuth",
        )?;
        let user = authority.issue(
            kind,
            "/CN=Alice",
            "subjectAltName=email:alice@corp.example\nextendedKeyUsage=clientAuth",
        )?;
        Ok::<_, String>(Certificates { authority, gateway, user })
    };
    skip::without("certificates", made())
}

fn tls(authority: &Authority, (key, certificate): &Issued) -> EapTls {
    let identity = TlsIdentity::new(key, std::slice::from_ref(certificate)).expect("a key");
    EapTls { identity, authorities: Arc::new(authority.authorities()) }
}

fn with_certificates(made: &Certificates, user: &str) -> [Peer; 2] {
    let mut peers = peers();
    let tls = |issued: &Issued| tls(&made.authority, issued);
    peers[0].prove = Prove::Eap(EapClient::Certificate {
        user: user.to_owned(),
        tls: tls(&made.user),
        server: Identity::from_text("end1.example"),
    });
    peers[0].expect = made.authority.trusted();
    let (key, certificate) = &made.gateway;
    peers[1].prove = Prove::Signature {
        key: Arc::new(SigningKey::from_pkcs8(key).expect("a key")),
        certificates: vec![certificate.clone()],
    };
    peers[1].expect = Expect::Eap(Arc::new(EapServer { users: users(), tls: Some(tls(&made.gateway)) }));
    peers
}

#[test]
fn a_user_with_a_certificate_proves_itself_by_eap_tls() {
    for kind in [ED25519, P256, RSA] {
        let Some(made) = certificates(kind) else { return };
        for user in ["alice@corp.example", "Alice"] {
            let mut pair = pair(with_certificates(&made, user), 1);
            pair.join();
            assert_eq!(pair.ends[1].users, [user]);
        }
    }
}

#[test]
fn names_and_authorities_of_eap_tls_have_to_fit() {
    let (Some(made), Some(other)) = (certificates(P256), certificates(P256)) else { return };
    let told = refused(with_certificates(&made, "bob@corp.example"), 1);
    assert!(told.contains("does not have \"bob@corp.example\""), "{told}");
    // The user's certificate belongs to another authority; the gateway's has another name than expected, or belongs
    // to another authority.
    let mut peers = with_certificates(&made, "Alice");
    peers[0].prove = Prove::Eap(EapClient::Certificate {
        user: "Alice".to_owned(),
        tls: EapTls {
            authorities: Arc::new(made.authority.authorities()),
            ..tls(&other.authority, &other.user)
        },
        server: Identity::from_text("end1.example"),
    });
    let told = refused(peers, 1);
    assert!(told.contains("TLS: ") && told.contains("its certificate"), "{told}");
    for (authority, server) in [(&made.authority, "end2.example"), (&other.authority, "end1.example")] {
        let mut peers = with_certificates(&made, "Alice");
        peers[0].prove = Prove::Eap(EapClient::Certificate {
            user: "Alice".to_owned(),
            tls: EapTls {
                authorities: Arc::new(authority.authorities()),
                ..tls(&made.authority, &made.user)
            },
            server: Identity::from_text(server),
        });
        assert!(refused(peers.clone(), 1).contains("TLS: "));
        assert!(refused(peers, 0).contains("its certificate"));
    }
}

#[test]
fn a_user_that_has_no_certificate_takes_the_password_that_is_offered_next() {
    let Some(made) = certificates(P256) else { return };
    let mut peers = with_certificates(&made, "Alice");
    peers[0].prove = password("bob", "battery staple");
    let mut pair = pair(peers.clone(), 1);
    pair.join();
    assert_eq!(pair.ends[1].users, ["bob"]);
    // A user for whom the gateway has no method is told so.
    peers[1].expect = Expect::Eap(Arc::new(EapServer {
        users: Users::default(),
        tls: Some(tls(&made.authority, &made.gateway)),
    }));
    assert!(refused(peers, 1).contains("none of the EAP methods"));
}

#[test]
fn eap_tls_alone_proves_both_ends() {
    let Some(made) = certificates(P256) else { return };
    let mut peers = with_certificates(&made, "Alice");
    peers[0].expect = Expect::EapOnly;
    peers[1].prove = Prove::EapOnly;
    peers[1].expect = Expect::Eap(Arc::new(EapServer {
        users: Users::default(),
        tls: Some(tls(&made.authority, &made.gateway)),
    }));
    let mut pair = pair(peers.clone(), 1);
    pair.join();
    // A gateway that also proves itself with a key is accepted too; a conversation with a password does not prove the
    // gateway, at either end.
    let mut besides = peers.clone();
    besides[1].prove = with_certificates(&made, "Alice")[1].prove.clone();
    let mut pair = self::pair(besides, 1);
    pair.join();
    let mut guessed = peers.clone();
    guessed[0].prove = password("alice", "correct horse");
    assert!(refused(guessed, 0).contains("only to an initiator with a certificate"));
    let mut offered = peers.clone();
    offered[1].expect =
        Expect::Eap(Arc::new(EapServer { users: users(), tls: Some(tls(&made.authority, &made.gateway)) }));
    assert!(refused(offered, 1).contains("a certificate has to"));
    let mut silent = peers;
    silent[0].expect = made.authority.trusted();
    assert!(refused(silent, 1).contains("besides EAP"));
}

#[test]
fn conversations_survive_what_networks_do() {
    let made = certificates(P256);
    for seed in 0..30 {
        let peers = match &made {
            Some(made) if seed % 2 == 0 => with_certificates(made, "Alice"),
            _ => peers(),
        };
        let mut pair = pair(peers, seed);
        pair.weather = Weather { lost_percent: 15, repeated_percent: 20, delay_max_ms: 300 };
        pair.initiate(0);
        pair.run(Duration::from_secs(28));
        pair.weather = Weather::default();
        pair.run_seconds(300);
        if pair.ends[0].up.len() == pair.ends[1].up.len() && !pair.ends[0].up.is_empty() {
            pair.assert_agree();
        } else {
            // A half-open IKE SA was given up; its end is reported.
            assert!(pair.ends[0].up.is_empty() && !pair.ends[0].down.is_empty(), "seed {seed}");
        }
    }
}

//! strongSwan as the other end, and libreswan, a process of its own in a network namespace, with real sockets between the
//! ends.
//!
//! Its log has every secret, so our derived keys are compared with its own, byte for byte.

mod charon;
#[path = "../common/mod.rs"]
mod common;
mod libreswan;
mod paths;
#[path = "../../../../testing/skip.rs"]
mod skip;
mod users;

use std::{fs, sync::Arc, time::Instant};

use charon::{Charon, Driver, certificates, configured, connections, has_strongswan, wait_for};
use sealane_ike::{
    Expect, Install, Prove,
    certificate::Authorities,
    crypto::{Encryption, Prf, sign::SigningKey},
    keys::{ChildKeys, IkeKeys, KeyPlan, Nonces, seed},
};
use zeroize::Zeroizing;

/// Compares a child's keys with those that strongSwan reports.
fn compare_child(charon: &Charon, child: &Install, is_initiator: bool) {
    let of =
        |label: &str| charon.logged(label).last().unwrap_or_else(|| panic!("{label} in the log")).clone();
    let keys = [of("encryption initiator key"), of("encryption responder key")];
    let (sent, received) = (&child.outbound.material, &child.inbound.material);
    let expected = if is_initiator { [sent, received] } else { [received, sent] };
    for (logged, ours) in keys.iter().zip(expected) {
        assert!(ours.starts_with(logged), "a child's key");
    }
}

/// Recomputes the keys of the first IKE SA and its first child from strongSwan's shared secret and nonces, and
/// compares each with the log: SKEYSEED, SK_d, SK_pi, SK_pr, and the child's material.
fn compare_first(charon: &Charon, driver: &Driver, plan: KeyPlan, child: &Install) {
    let first =
        |label: &str| charon.logged(label).first().unwrap_or_else(|| panic!("{label} in the log")).clone();
    let shared = Zeroizing::new(first("shared Diffie Hellman secret"));
    let both = first("seed");
    let (initiator, responder) = both.split_at(both.len() / 2);
    let nonces = Nonces { initiator: initiator.to_vec(), responder: responder.to_vec() };
    let skeyseed = seed(plan.prf, &nonces, &shared);
    assert_eq!(*skeyseed, first("SKEYSEED"));
    let keys = IkeKeys::derive(plan, &skeyseed, &nonces, driver.spis).expect("the algorithms fit");
    assert_eq!(*keys.derive, first("Sk_d secret"));
    assert_eq!(*keys.proof_initiator, first("Sk_pi secret"));
    assert_eq!(*keys.proof_responder, first("Sk_pr secret"));
    let material = ChildKeys::derive(plan.prf, &keys.derive, &nonces, &[], child.suite.material_bytes());
    assert_eq!(*material.from_initiator, *child.outbound.material);
    assert_eq!(*material.from_responder, *child.inbound.material);
}

#[test]
fn with_a_shared_key_we_begin_rekey_probe_and_end() {
    if !has_strongswan() {
        return;
    }
    let text = connections("aes256gcm16-prfsha384-x25519", "aes256gcm16-x25519", "auth = psk");
    let Some(charon) = Charon::start("i", &text, |_| {}) else { return };
    let peer = configured("aes256gcm16-prfsha384-x25519", "aes256gcm16-x25519");
    let mut driver = Driver::new(&charon, peer);
    driver.end.endpoint.initiate(0, Some(0), None, Instant::now()).expect("it is configured");
    driver.until(&charon, "the first child", |end| end.children.len() == 1);
    let child = driver.end.only_child().clone();
    assert!(child.is_encapsulated && child.path.remote.port() == 4500);
    wait_for("strongSwan's child", || {
        charon.control(&["--list-sas"]).is_ok_and(|told| told.contains("INSTALLED"))
    });
    compare_child(&charon, &child, true);
    let plan = KeyPlan { encryption: Encryption::Aes256Gcm, integrity: None, prf: Prf::HmacSha384 };
    compare_first(&charon, &driver, plan, &child);

    // The child is rekeyed, by us and by strongSwan.
    driver.end.endpoint.rekey_child(child.child, Instant::now());
    driver.until(&charon, "a child of ours in the first one's place", |end| {
        end.children.len() == 1 && end.only_child().child != child.child
    });
    let second = driver.end.only_child().clone();
    compare_child(&charon, &second, true);
    let command = charon.control_beside(&["--rekey", "--child", "c"]);
    driver.until_done(&charon, command);
    driver.until(&charon, "a child of strongSwan's in its place", |end| {
        end.children.len() == 1 && end.only_child().child != second.child && end.only_child().is_outbound_live
    });
    compare_child(&charon, &driver.end.only_child().clone(), false);

    // The IKE SA is rekeyed by both, too; each time a probe and another child have to succeed.
    let ike = driver.end.ike();
    driver.end.endpoint.rekey(ike, Instant::now());
    driver.until(&charon, "new keys of the IKE SA", |end| end.rekeyed == 1);
    let command = charon.control_beside(&["--rekey", "--ike", "t"]);
    driver.until_done(&charon, command);
    driver.until(&charon, "newer keys of the IKE SA", |end| end.rekeyed == 2);
    driver.end.endpoint.probe(ike, Instant::now());
    let third = driver.end.only_child().child;
    driver.end.endpoint.rekey_child(third, Instant::now());
    driver.until(&charon, "a child under the newest keys", |end| {
        end.children.len() == 1 && end.only_child().child != third
    });

    driver.end.endpoint.close(ike, Instant::now());
    driver.until(&charon, "the end", |end| end.up.is_empty());
    assert_eq!(driver.end.down, [sealane_ike::Reason::Closed]);
    wait_for("strongSwan's end", || {
        charon.control(&["--list-sas"]).is_ok_and(|told| !told.contains("ESTABLISHED"))
    });
}

#[test]
fn with_a_shared_key_strongswan_begins_and_ends() {
    if !has_strongswan() {
        return;
    }
    let text = connections("aes256-sha256-modp2048", "aes256-sha256-modp2048", "auth = psk");
    let Some(charon) = Charon::start("r", &text, |_| {}) else { return };
    let mut driver = Driver::new(&charon, configured("aes256-sha256-modp2048", "aes256-sha256-modp2048"));
    let command = charon.control_beside(&["--initiate", "--child", "c"]);
    driver.until(&charon, "a child of strongSwan's", |end| end.children.len() == 1);
    driver.until_done(&charon, command);
    compare_child(&charon, &driver.end.only_child().clone(), false);
    let command = charon.control_beside(&["--terminate", "--ike", "t"]);
    driver.until(&charon, "its end", |end| end.up.is_empty());
    driver.until_done(&charon, command);
    assert_eq!(driver.end.down, [sealane_ike::Reason::DeletedByPeer]);
}

#[test]
fn another_key_exchange_is_taken_where_strongswan_wants_it() {
    if !has_strongswan() {
        return;
    }
    let text = connections("aes128gcm16-prfsha256-ecp256", "aes128gcm16-ecp256", "auth = psk");
    let Some(charon) = Charon::start("k", &text, |_| {}) else { return };
    let peer = configured("aes128gcm16-prfsha256-x25519-ecp256", "aes128gcm16-x25519-ecp256");
    let mut driver = Driver::new(&charon, peer);
    driver.end.endpoint.initiate(0, Some(0), None, Instant::now()).expect("it is configured");
    driver.until(&charon, "the first child", |end| end.children.len() == 1);
    let first = driver.end.only_child().child;
    driver.end.endpoint.rekey_child(first, Instant::now());
    driver.until(&charon, "a child with the other key exchange", |end| {
        end.children.len() == 1 && end.only_child().child != first
    });
}

#[test]
fn certificates_prove_who_both_ends_are() {
    if !has_strongswan() {
        return;
    }
    for (case, kind) in
        [("c", &["ED25519"][..]), ("d", &["EC", "-pkeyopt", "ec_paramgen_curve:P-256"]), ("e", &["RSA"])]
    {
        let folder = tempfile::tempdir().expect("a folder");
        let at = |name: &str| folder.path().join(name).display().to_string();
        if let Err(problem) = certificates(&at, kind) {
            return skip::skip(format!("no certificates: {problem}"));
        }
        let text = connections(
            "aes256gcm16-prfsha384-x25519",
            "aes256gcm16",
            "auth = pubkey\n            certs = p2.crt",
        );
        let started = Charon::start(case, &text, |swanctl| {
            for (name, to) in [("ca.crt", "x509ca"), ("p2.crt", "x509"), ("p2.key", "private")] {
                fs::copy(at(name), swanctl.join(to).join(name)).expect("a file");
            }
        });
        let Some(charon) = started else { return };
        let mut peer = configured("aes256gcm16-prfsha384-x25519", "aes256gcm16");
        let key = fs::read(at("p1.der")).expect("it was made");
        peer.prove = Prove::Signature {
            key: Arc::new(SigningKey::from_pkcs8(&key).expect("a key")),
            certificates: vec![fs::read(at("p1.crt.der")).expect("it was made")],
        };
        let authority = fs::read(at("ca.crt.der")).expect("it was made");
        peer.expect = Expect::Certificate(Arc::new(Authorities::new(&[authority]).expect("a certificate")));
        let mut driver = Driver::new(&charon, peer);
        driver.end.endpoint.initiate(0, Some(0), None, Instant::now()).expect("it is configured");
        driver.until(&charon, "the first child", |end| end.children.len() == 1);
        let ike = driver.end.ike();
        driver.end.endpoint.close(ike, Instant::now());
        driver.until(&charon, "the end", |end| end.up.is_empty());
        let command = charon.control_beside(&["--initiate", "--child", "c"]);
        driver.until(&charon, "a child of strongSwan's", |end| end.children.len() == 1);
        driver.until_done(&charon, command);
    }
}

/// strongSwan 5.9 knows no children for resources (RFC 9611): it makes an ordinary child, which ends at once.
#[test]
fn a_resource_has_no_child_where_strongswan_knows_none() {
    if !has_strongswan() {
        return;
    }
    let text = connections("aes256gcm16-prfsha384-x25519", "aes256gcm16-x25519", "auth = psk");
    let Some(charon) = Charon::start("s", &text, |_| {}) else { return };
    let peer = configured("aes256gcm16-prfsha384-x25519", "aes256gcm16-x25519");
    let mut driver = Driver::new(&charon, peer);
    driver.end.endpoint.initiate(0, Some(0), None, Instant::now()).expect("it is configured");
    driver.until(&charon, "the first child", |end| end.children.len() == 1);
    let first = driver.end.only_child().child;
    let ike = driver.end.ike();
    driver.end.endpoint.add_resource(ike, 0, 0, Instant::now());
    driver.until(&charon, "the end of the other child", |end| end.removed.len() == 1);
    assert_eq!(driver.end.failed, [sealane_ike::Reason::NoResources]);
    assert_eq!(driver.end.only_child().child, first);
    wait_for("strongSwan's end of the other child", || {
        charon.control(&["--list-sas"]).is_ok_and(|told| told.matches("INSTALLED").count() == 1)
    });
}

/// strongSwan 6.1 knows children for resources (RFC 9611), each for one of its processors; it takes any number of them.
#[test]
fn a_resource_has_a_child_of_its_own_where_strongswan_has_one_for_each_processor() {
    if !has_strongswan() {
        return;
    }
    let text = connections("aes256gcm16-prfsha384-x25519", "aes256gcm16-x25519", "auth = psk");
    let text = text.replace("esp_proposals", "per_cpu_sas = yes\n                esp_proposals");
    let Some(charon) = Charon::start_newer("t", &text, |_| {}) else { return };
    let peer = configured("aes256gcm16-prfsha384-x25519", "aes256gcm16-x25519");
    let mut driver = Driver::new(&charon, peer);
    driver.end.endpoint.initiate(0, Some(0), None, Instant::now()).expect("it is configured");
    driver.until(&charon, "the first child", |end| end.children.len() == 1);
    let ike = driver.end.ike();
    driver.end.endpoint.add_resource(ike, 0, 0, Instant::now());
    driver.until(&charon, "a child of its own", |end| end.children.len() == 2 || !end.failed.is_empty());
    assert!(driver.end.failed.is_empty(), "{:?}\n{}", driver.end.failed, charon.log());
    let child = *driver.end.children.last_key_value().expect("there are two").0;
    driver.end.endpoint.rekey_child(child, Instant::now());
    driver
        .until(&charon, "its successor", |end| end.children.len() == 2 && !end.children.contains_key(&child));
    let named = driver.end.children.values().filter(|child| child.resource.is_some()).count();
    assert_eq!(named, 1, "{}", charon.log());
}

/// ML-KEM-768 is used in IKE_INTERMEDIATE and, when keys are renewed by either end, in IKE_FOLLOWUP_KE.
#[test]
fn post_quantum_keys_are_agreed_on_in_all_three_exchanges() {
    if !has_strongswan() {
        return;
    }
    let (ike, esp) = ("aes256gcm16-prfsha384-x25519-ke1_mlkem768", "aes256gcm16-x25519-ke1_mlkem768");
    let text = connections(ike, esp, "auth = psk");
    let Some(charon) = Charon::start_newer("q", &text, |_| {}) else { return };
    let mut driver = Driver::new(&charon, configured(ike, esp));
    driver.end.endpoint.initiate(0, Some(0), None, Instant::now()).expect("it is configured");
    driver.until(&charon, "the first child", |end| end.children.len() == 1);
    compare_child(&charon, &driver.end.only_child().clone(), true);
    // The child is rekeyed, by us and by strongSwan.
    let first = driver.end.only_child().child;
    driver.end.endpoint.rekey_child(first, Instant::now());
    driver.until(&charon, "a child of ours in its place", |end| {
        end.children.len() == 1 && end.only_child().child != first
    });
    compare_child(&charon, &driver.end.only_child().clone(), true);
    let second = driver.end.only_child().child;
    let command = charon.control_beside(&["--rekey", "--child", "c"]);
    driver.until_done(&charon, command);
    driver.until(&charon, "a child of strongSwan's in its place", |end| {
        end.children.len() == 1 && end.only_child().child != second && end.only_child().is_outbound_live
    });
    compare_child(&charon, &driver.end.only_child().clone(), false);
    // The IKE SA is rekeyed by both, too.
    let ike = driver.end.ike();
    driver.end.endpoint.rekey(ike, Instant::now());
    driver.until(&charon, "new keys of the IKE SA", |end| end.rekeyed == 1);
    let command = charon.control_beside(&["--rekey", "--ike", "t"]);
    driver.until_done(&charon, command);
    driver.until(&charon, "newer keys of the IKE SA", |end| end.rekeyed == 2);
    driver.end.endpoint.close(ike, Instant::now());
    driver.until(&charon, "the end", |end| end.up.is_empty());
    // Then strongSwan is the initiator.
    let command = charon.control_beside(&["--initiate", "--child", "c"]);
    driver.until(&charon, "a child of strongSwan's", |end| end.children.len() == 1);
    driver.until_done(&charon, command);
    compare_child(&charon, &driver.end.only_child().clone(), false);
}

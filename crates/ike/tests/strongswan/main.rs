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

use std::time::Instant;

use charon::{Charon, Driver, EC, Files, configured, connections, wait_for};
use sealane_ike::{
    Install,
    crypto::{Encryption, Prf},
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
    let text = connections("aes256gcm16-prfsha384-x25519", "aes256gcm16-x25519", "auth = psk");
    let Some(charon) = Charon::start("i", &text, |_| {}) else { return };
    let peer = configured("aes256gcm16-prfsha384-x25519", "aes256gcm16-x25519");
    let mut driver = Driver::new(&charon, peer);
    driver.begin(&charon);
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
    driver.until_done(&charon, charon.control_beside(&["--rekey", "--child", "c"]));
    driver.until(&charon, "a child of strongSwan's in its place", |end| {
        end.children.len() == 1 && end.only_child().child != second.child && end.only_child().is_outbound_live
    });
    compare_child(&charon, &driver.end.only_child().clone(), false);

    // The IKE SA is rekeyed by both, too; each time a probe and another child have to succeed.
    let ike = driver.end.ike();
    driver.end.endpoint.rekey(ike, Instant::now());
    driver.until(&charon, "new keys of the IKE SA", |end| end.rekeyed == 1);
    driver.until_done(&charon, charon.control_beside(&["--rekey", "--ike", "t"]));
    driver.until(&charon, "newer keys of the IKE SA", |end| end.rekeyed == 2);
    driver.end.endpoint.probe(ike, Instant::now());
    driver.renew_child(&charon, "a child under the newest keys");

    driver.close(&charon);
    assert_eq!(driver.end.down, [sealane_ike::Reason::Closed]);
    wait_for("strongSwan's end", || {
        charon.control(&["--list-sas"]).is_ok_and(|told| !told.contains("ESTABLISHED"))
    });
}

#[test]
fn with_a_shared_key_strongswan_begins_and_ends() {
    let text = connections("aes256-sha256-modp2048", "aes256-sha256-modp2048", "auth = psk");
    let Some(charon) = Charon::start("r", &text, |_| {}) else { return };
    let mut driver = Driver::new(&charon, configured("aes256-sha256-modp2048", "aes256-sha256-modp2048"));
    driver.begun_by(&charon);
    compare_child(&charon, &driver.end.only_child().clone(), false);
    let command = charon.control_beside(&["--terminate", "--ike", "t"]);
    driver.until(&charon, "its end", |end| end.up.is_empty());
    driver.until_done(&charon, command);
    assert_eq!(driver.end.down, [sealane_ike::Reason::DeletedByPeer]);
}

#[test]
fn another_key_exchange_is_taken_where_strongswan_wants_it() {
    let text = connections("aes128gcm16-prfsha256-ecp256", "aes128gcm16-ecp256", "auth = psk");
    let Some(charon) = Charon::start("k", &text, |_| {}) else { return };
    let peer = configured("aes128gcm16-prfsha256-x25519-ecp256", "aes128gcm16-x25519-ecp256");
    let mut driver = Driver::new(&charon, peer);
    driver.begin(&charon);
    driver.renew_child(&charon, "a child with the other key exchange");
}

/// IKE's own messages and the child's keys are those of AES-CCM (RFC 4309, RFC 5282), whichever end begins.
#[test]
fn aes_ccm_is_agreed_on_with_each_length_of_check_values() {
    for (case, ccm) in [("cm", "aes256ccm16"), ("cn", "aes128ccm12"), ("co", "aes128ccm8")] {
        let ike = format!("{ccm}-prfsha256-x25519");
        let text = connections(&ike, ccm, "auth = psk");
        let Some(charon) = Charon::start(case, &text, |_| {}) else { return };
        let mut driver = Driver::new(&charon, configured(&ike, ccm));
        driver.begin(&charon);
        compare_child(&charon, &driver.end.only_child().clone(), true);
        driver.renew_child(&charon, "a child under other keys");
        driver.close(&charon);
        driver.begun_by(&charon);
        compare_child(&charon, &driver.end.only_child().clone(), false);
    }
}

#[test]
fn certificates_prove_who_both_ends_are() {
    for (case, kind) in [("c", &["ED25519"][..]), ("d", EC), ("e", &["RSA"])] {
        let Some(files) = Files::new(kind) else { return };
        let text = connections(
            "aes256gcm16-prfsha384-x25519",
            "aes256gcm16",
            "auth = pubkey\n            certs = p2.crt",
        );
        let Some(charon) = Charon::start(case, &text, |swanctl| files.install(swanctl, "")) else { return };
        let mut peer = configured("aes256gcm16-prfsha384-x25519", "aes256gcm16");
        (peer.prove, peer.expect) = (files.prove(), files.expect());
        let mut driver = Driver::new(&charon, peer);
        driver.begin(&charon);
        driver.close(&charon);
        driver.begun_by(&charon);
    }
}

/// strongSwan 5.9 knows no children for resources (RFC 9611): it makes an ordinary child, which ends at once.
#[test]
fn a_resource_has_no_child_where_strongswan_knows_none() {
    let text = connections("aes256gcm16-prfsha384-x25519", "aes256gcm16-x25519", "auth = psk");
    let Some(charon) = Charon::start("s", &text, |_| {}) else { return };
    let peer = configured("aes256gcm16-prfsha384-x25519", "aes256gcm16-x25519");
    let mut driver = Driver::new(&charon, peer);
    driver.begin(&charon);
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
    let text = connections("aes256gcm16-prfsha384-x25519", "aes256gcm16-x25519", "auth = psk");
    let text = text.replace("esp_proposals", "per_cpu_sas = yes\n                esp_proposals");
    let Some(charon) = Charon::start_newer("t", &text, |_| {}) else { return };
    let peer = configured("aes256gcm16-prfsha384-x25519", "aes256gcm16-x25519");
    let mut driver = Driver::new(&charon, peer);
    driver.begin(&charon);
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
    let (ike, esp) = ("aes256gcm16-prfsha384-x25519-ke1_mlkem768", "aes256gcm16-x25519-ke1_mlkem768");
    let text = connections(ike, esp, "auth = psk");
    let Some(charon) = Charon::start_newer("q", &text, |_| {}) else { return };
    let mut driver = Driver::new(&charon, configured(ike, esp));
    driver.begin(&charon);
    compare_child(&charon, &driver.end.only_child().clone(), true);
    // The child is rekeyed, by us and by strongSwan.
    driver.renew_child(&charon, "a child of ours in its place");
    compare_child(&charon, &driver.end.only_child().clone(), true);
    let second = driver.end.only_child().child;
    driver.until_done(&charon, charon.control_beside(&["--rekey", "--child", "c"]));
    driver.until(&charon, "a child of strongSwan's in its place", |end| {
        end.children.len() == 1 && end.only_child().child != second && end.only_child().is_outbound_live
    });
    compare_child(&charon, &driver.end.only_child().clone(), false);
    // The IKE SA is rekeyed by both, too.
    let ike = driver.end.ike();
    driver.end.endpoint.rekey(ike, Instant::now());
    driver.until(&charon, "new keys of the IKE SA", |end| end.rekeyed == 1);
    driver.until_done(&charon, charon.control_beside(&["--rekey", "--ike", "t"]));
    driver.until(&charon, "newer keys of the IKE SA", |end| end.rekeyed == 2);
    driver.close(&charon);
    // Then strongSwan is the initiator.
    driver.begun_by(&charon);
    compare_child(&charon, &driver.end.only_child().clone(), false);
}

//! Paths between us and strongSwan: addresses that change, a NAT whose mappings are lost, short datagrams; and
//! features that strongSwan declines.

use std::{net::SocketAddr, time::Instant};

use sealane_ike::Settings;

use crate::{
    charon::{Charon, Driver, Files, Foreign as _, THEIRS, configured, connections, namespaces, run},
    common::network,
    skip,
};

const IKE: &str = "aes256gcm16-prfsha384-x25519";
const ESP: &str = "aes256gcm16-x25519";

#[test]
fn a_childless_ike_sa_and_narrowed_traffic_are_agreed_on() {
    let text =
        connections(IKE, ESP, "auth = psk").replace("encap = yes", "encap = yes\n        childless = force");
    let Some(charon) = Charon::start("l", &text, |_| {}) else { return };
    let mut peer = configured(IKE, ESP);
    peer.childless = true;
    peer.children[0].remote = vec![network("10.0.0.0/8")];
    let mut driver = Driver::new(&charon, peer);
    driver.begin(&charon);
    assert_eq!(driver.end.only_child().remote, [network("10.81.2.0/24")]);
    driver.close(&charon);
    driver.begun_by(&charon);
    assert_eq!(driver.end.only_child().remote, [network("10.81.2.0/24")]);
}

/// Certificates of 4,096 bits are sent in datagrams of 576 bytes, in both directions.
#[test]
fn long_certificates_go_in_fragments_both_ways() {
    let Some(files) = Files::new(&["RSA", "-pkeyopt", "rsa_keygen_bits:3072"]) else { return };
    let text = connections(IKE, ESP, "auth = pubkey\n            certs = p2.crt");
    let started = Charon::start("f", &text, |swanctl| files.install(swanctl, "fragment_size = 604\n"));
    let Some(charon) = started else { return };
    let mut peer = configured(IKE, ESP);
    (peer.prove, peer.expect) = (files.prove(), files.expect());
    let settings = Settings { fragment_bytes: 576, ..Settings::default() };
    let mut driver = Driver::with_settings(&charon, peer, settings);
    driver.begin(&charon);
    let log = charon.log();
    assert!(log.contains("received fragment #3 of") && log.contains("splitting IKE message"), "{log}");
    driver.close(&charon);
    driver.begun_by(&charon);
}

/// First our address changes, then strongSwan's.
#[test]
fn either_end_moves_under_mobike() {
    let text =
        connections(IKE, ESP, "auth = psk").replace(&format!("local_addrs = {THEIRS}"), "local_addrs = %any");
    let Some(charon) = Charon::start("m", &text, |_| {}) else { return };
    let mut peer = configured(IKE, ESP);
    peer.mobike = true;
    let mut driver = Driver::new(&charon, peer);
    driver.begin(&charon);

    let (ours, theirs) = (charon.namespaces().ours.clone(), charon.namespaces().theirs.clone());
    let ip = |namespace: &str, arguments: &[&str]| {
        run("ip", &[&["-n", namespace, "address"], arguments].concat()).expect("root may change that");
    };
    ip(&ours, &["add", "10.80.0.3/24", "dev", "ike0"]);
    driver.move_to(&charon, "10.80.0.3");
    let ike = driver.end.ike();
    let elsewhere = SocketAddr::from(([10, 80, 0, 3], 4500));
    assert!(driver.end.endpoint.relocate(ike, elsewhere, Instant::now()), "both speak MOBIKE");
    driver.until(&charon, "our move", |end| end.moved.last().is_some_and(|path| path.local == elsewhere));
    // strongSwan renews the child's keys after the move, and we keep answering in the meantime.
    driver.until(&charon, "strongSwan's view of our move", |end| {
        let is_at_rest = end.children.len() == 1 && end.only_child().is_outbound_live;
        is_at_rest && charon.log().contains("CHILD_SA closed")
    });

    // Deleting the first address of the network deletes the others too.
    ip(&theirs, &["delete", &format!("{THEIRS}/24"), "dev", "ike1"]);
    ip(&theirs, &["add", "10.80.0.4/24", "dev", "ike1"]);
    driver.until(&charon, "its move", |end| {
        end.moved.last().is_some_and(|path| path.remote.ip() == std::net::IpAddr::from([10, 80, 0, 4]))
    });
    driver.renew_child(&charon, "a child in its place");
}

/// strongSwan is behind a NAT that forgets mappings within a second: IKE follows its port, and so do the owner's
/// events about ESP.
#[test]
fn a_nat_loses_its_mapping_and_the_gateway_follows() {
    let text = connections(IKE, ESP, "auth = psk")
        .replace(
            &format!("local_addrs = {THEIRS}"),
            "local_addrs = 10.82.0.2\n        dpd_delay = 2s\n        mobike = no",
        )
        .replace("encap = yes", "encap = no");
    let Some(charon) = Charon::start("n", &text, |_| {}) else { return };
    let inside = charon.namespaces().theirs.clone();
    let nat = format!("{inside}n");
    let Some(_nat) = skip::without("NAT", Nat::new(&nat, &inside)) else { return };
    let mut peer = configured(IKE, ESP);
    (peer.remote, peer.always_encapsulate) = (None, false);
    let mut driver = Driver::new(&charon, peer);
    driver.begun_by(&charon);
    let child = driver.end.only_child().clone();
    assert!(child.is_encapsulated && child.path.remote.ip() == THEIRS.parse::<std::net::IpAddr>().unwrap());
    // Each probe of strongSwan arrives from another port.
    driver.until(&charon, "another port", |end| {
        end.moved.last().is_some_and(|path| path.remote.port() != child.path.remote.port())
    });
    let ike = driver.end.ike();
    driver.end.endpoint.rekey(ike, Instant::now());
    driver.until(&charon, "new keys through the newest mapping", |end| end.rekeyed == 1);
}

/// A namespace between the ends with strongSwan's outside address, and its link; removed when the value is dropped.
struct Nat(String);

impl Nat {
    fn new(name: &str, inside: &str) -> Result<Self, String> {
        namespaces::add(name)?;
        let made = Self(name.to_owned());
        // The outer link is moved to the NAT, and strongSwan gets another one.
        namespaces::try_ip(&format!("-n {inside} link set ike1 netns {name}"))?;
        namespaces::try_ip(&format!("-n {name} address add {THEIRS}/24 dev ike1"))?;
        namespaces::try_ip(&format!("-n {name} link set ike1 up"))?;
        let end =
            |namespace, device, addresses| namespaces::End { namespace, device, addresses, settings: "" };
        namespaces::cable([end(name, "in0", &["10.82.0.1/24"]), end(inside, "in1", &["10.82.0.2/24"])])?;
        namespaces::try_ip(&format!("-n {inside} route add default via 10.82.0.1"))?;
        let nft = |arguments: &[&str]| run("ip", &[&["netns", "exec", name, "nft"], arguments].concat());
        nft(&["add", "table", "ip", "nat"])?;
        nft(&["add", "chain", "ip", "nat", "post", "{ type nat hook postrouting priority 100 ; }"])?;
        nft(&["add", "rule", "ip", "nat", "post", "oifname", "ike1", "masquerade", "random"])?;
        for setting in [
            "net.ipv4.ip_forward=1",
            "net.netfilter.nf_conntrack_udp_timeout=1",
            "net.netfilter.nf_conntrack_udp_timeout_stream=1",
        ] {
            run("ip", &["netns", "exec", name, "sysctl", "-qw", setting])?;
        }
        Ok(made)
    }
}

impl Drop for Nat {
    fn drop(&mut self) {
        namespaces::remove(&self.0);
    }
}

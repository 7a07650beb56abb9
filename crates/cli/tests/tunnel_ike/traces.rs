//! A gateway's words about those with whom it does not come together, and its way to one that has lost its state.

use std::fs;
use std::net::{Ipv4Addr, UdpSocket};

use super::{INNER, own_hosts, own_site, transfer, wait_for_words};
use crate::network::Net;
use crate::program::{text, wait_for};

/// Sends first messages of IKEv1 from `a` to `b`.
fn speak_ikev1(net: &Net, count: u8) {
    net.inside("a", || {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).expect("a socket");
        for number in 1..=count {
            // ISAKMP (RFC 2408, section 3.1): a cookie, none of the responder's, SA, version 1.0, identity protection.
            let mut message = [number; 8].to_vec();
            message.extend([0; 8]);
            message.extend([1, 0x10, 2, 0, 0, 0, 0, 0, 0, 0, 0, 32, 0, 0, 0, 4]);
            socket.send_to(&message, (Ipv4Addr::new(10, 90, 0, 2), 500)).expect("it is sent");
        }
    });
}

#[test]
fn a_caller_that_speaks_ikev1_leaves_a_trace() {
    let Some(mut net) = own_hosts("v1") else { return };
    net.gateway("b", 1400, &own_site(1, "").replace("endpoint", "#"));
    speak_ikev1(&net, 1);
    wait_for_words(&mut net, 0, "refused to negotiate with 10.90.0.1:");
    wait_for_words(&mut net, 0, "it speaks IKEv1, which is not spoken here: set its connection to IKEv2");
}

/// The gateway logs no more than so many lines about strangers, however many there are; what becomes of a known peer has a
/// line of its own all the same.
#[test]
fn many_strangers_hide_nothing_about_a_known_peer() {
    let Some(mut net) = own_hosts("hd") else { return };
    net.gateway("b", 1400, &own_site(1, "").replace("endpoint", "#"));
    net.gateway("a", 1400, &own_site(0, ""));
    net.wait_for_ping("a", INNER[1]);
    speak_ikev1(&net, 100);
    wait_for_words(&mut net, 0, "refused to negotiate with 10.90.0.1:");
    net.children.pop().expect("it runs");
    net.gateway("a", 1400, &own_site(0, ""));
    net.wait_for_ping("a", INNER[1]);
    wait_for_words(&mut net, 0, "is over: another one has taken its place");
}

#[test]
fn the_status_says_why_a_peer_is_not_joined() {
    let Some(mut net) = own_hosts("wy") else { return };
    super::secret(net.folder.path(), "other", "another secret that is as long as it\n");
    net.gateway("b", 1400, &own_site(1, "").replace("endpoint", "#").replace("\"psk\"", "\"other\""));
    net.gateway("a", 1400, &own_site(0, ""));
    let problem = |status: &serde_json::Value| status["peers"][0]["problem"].as_str().map(str::to_owned);
    wait_for("a reason", || problem(&net.status("a")).is_some());
    let found = problem(&net.status("a")).expect("a reason");
    assert!(found.contains("AUTHENTICATION_FAILED: compare identities and keys"), "{found}");
    let shown = net.tunnel("a", "status").output().expect("it runs").stdout;
    assert!(text(&shown).contains("  problem   no IKE SA: the peer answered"), "{}", text(&shown));
    // The right secret is read, and the reason is gone.
    let psk = fs::read_to_string(net.folder.path().join("psk")).expect("a secret");
    super::secret(net.folder.path(), "other", &psk);
    net.wait_for_ping("a", INNER[1]);
    assert_eq!(problem(&net.status("a")), None);
}

/// The called end cannot begin by itself. It tells the other one that it knows nothing of its packets.
#[test]
fn a_killed_gateway_that_cannot_begin_is_found_again_by_its_peers_packets() {
    let Some(mut net) = own_hosts("kl") else { return };
    let called = own_site(1, "").replace("endpoint", "#");
    net.gateway("a", 1400, &own_site(0, ""));
    net.gateway("b", 1400, &called);
    net.wait_for_ping("a", INNER[1]);
    net.children.pop().expect("it runs");
    net.gateway("b", 1400, &called);
    net.wait_for_ping("a", INNER[1]);
    transfer(&net, 100_000);
}

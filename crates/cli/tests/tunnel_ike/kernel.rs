//! Gateways that agree with strongSwan on associations of a kernel.

use super::{ENDPOINT, INNER, PSK, by_psk, dropped, secret, site};
use crate::network::Net;
use crate::network::guest::{self, Guest};
use crate::program::{say, unless};

/// The outer addresses of our gateway and of the guest.
const OUTER: [&str; 2] = ["10.90.0.1", "10.90.0.2"];

/// A way in which a kernel protects packets.
struct Case {
    /// The part of the host's name.
    tag: &'static str,
    /// Additional first lines of our site file.
    head: &'static str,
    /// Whether strongSwan claims to be behind a NAT, so that ESP is sent in UDP.
    encap: &'static str,
    protocol: &'static str,
    proposal: &'static str,
    mode: &'static str,
}

const ESP: Case =
    Case { tag: "ke", head: "", encap: "yes", protocol: "esp", proposal: "aes256gcm16-esn", mode: "tunnel" };
const PLAIN: Case = Case { tag: "kf", head: "encapsulation = \"none\"\n", encap: "no", ..ESP };
const AH: Case = Case {
    tag: "kv",
    head: "encapsulation = \"none\"\nprotocol = \"ah\"\n",
    protocol: "ah",
    proposal: "sha256-esn",
    ..PLAIN
};

/// Joins our gateway with a strongSwan over the guest's kernel, and sends packets both ways while keys are renewed. In
/// transport mode the guest's kernel joins outer addresses alone, so that these are inside, too.
fn joins(case: &Case) {
    let Case { tag, head, encap, protocol, proposal, mode } = *case;
    let mut net = Net::new(tag, &["a"]);
    secret(net.folder.path(), "psk", PSK);
    let proposals = ["aes256gcm16-prfsha384-x25519", proposal];
    let child = format!("mode = {mode}");
    let mut text = by_psk(proposals, "remote_addrs = 10.90.0.1", &child)
        .replace("encap = yes", &format!("encap = {encap}"))
        .replace("esp_proposals", &format!("{protocol}_proposals"));
    let ike = format!("psk-file = \"psk\"\n{protocol}-proposals = [\"{proposal}\"]");
    let mut own = site(&format!("{ENDPOINT}rekey-seconds = 2\nmode = \"{mode}\"\n"), &ike);
    if protocol == "ah" {
        own = own.replace("0.0.0.0", OUTER[0]);
    }
    let mut inner = INNER[1];
    if mode == "transport" {
        text = text.replace("local_ts = 10.91.2.0/24", "").replace("remote_ts = 10.91.1.0/24", "");
        own = own
            .replace(&format!("{}/24", INNER[0]), &format!("{}/32", OUTER[0]))
            .replace("10.91.2.0/24", &format!("{}/32", OUTER[1]));
        inner = OUTER[1];
    }
    let guest = Guest::start(&net, "a", INNER[1], &text);
    net.gateway("a", 1400, &format!("{head}{own}"));
    net.wait_for_ping("a", inner);
    for count in [4, 8] {
        net.wait_for_ping("a", inner);
        let output = net.run("a", "ping", &format!("-c {count} -i 0.3 -s 1000 {inner}"));
        assert!(output.status.success(), "{}", guest.log());
    }
    let state = guest.associations();
    let kinds = [format!("proto {protocol} "), format!("mode {mode}"), "flag".to_owned(), "esn".to_owned()];
    assert!(kinds.iter().all(|kind| state.contains(kind)), "{state}\n{}", guest.log());
    assert_eq!(state.contains("espinudp"), encap == "yes", "{state}");
    assert!(guest.log().contains("rekeyed") || guest.log().contains("CHILD_SA closed"), "{}", guest.log());
    let status = net.status("a");
    let carried = status["peers"][0]["associations"].as_array().expect("a list").iter();
    let packets: u64 = carried.filter_map(|association| association["packets"].as_u64()).sum();
    assert!(packets > 0, "{status}");
    let lost = dropped(&net, "a", &["expired", "unknown_spi", "selector_mismatch", "bad_integrity"]);
    assert!(lost.is_empty(), "{lost:?}\n{}", guest.log());
}

/// Returns nothing if no guest can run here; then the reason is told.
fn possible() -> Option<()> {
    unless(guest::missing())?;
    let refused = guest::refused_by_processor();
    if let Some(why) = refused {
        say(why);
    }
    refused.is_none().then_some(())
}

#[test]
fn a_kernel_behind_strongswan_counts_in_64_bits_inside_udp_and_without() {
    let Some(()) = possible() else { return };
    [ESP, PLAIN].iter().for_each(joins);
}

#[test]
fn a_kernel_behind_strongswan_is_joined_in_transport_mode_by_its_outer_address() {
    let Some(()) = possible() else { return };
    joins(&Case { tag: "ku", mode: "transport", ..PLAIN });
}

#[test]
fn a_kernel_behind_strongswan_authenticates_packets_by_ah_in_either_mode() {
    let Some(()) = possible() else { return };
    [AH, Case { tag: "kw", mode: "transport", ..AH }].iter().for_each(joins);
}

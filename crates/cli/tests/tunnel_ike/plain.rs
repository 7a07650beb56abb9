//! Gateways that agree on keys by IKE and send ESP without UDP, as protocol 50.

use std::time::Duration;

use super::{
    ENDPOINT, INNER, PSK, behind_nat, both, by_psk, called, load, own_hosts, own_site, secret, site, spis,
    transfer, transfer_to, two_hosts, wait_for_words,
};
use crate::network::strongswan::{self, StrongSwan};
use crate::network::{self, Net};
use crate::program::{pattern, unless, wait_for};

const PLAIN: &str = "encapsulation = \"none\"\n";
const TRANSPORT: &str = "mode = \"transport\"\n";

/// Returns the site file of one of our ends; in transport mode the peer's network is its host.
fn mode_site(end: usize, rest: &str, mode: &str) -> String {
    let text = own_site(end, &format!("{rest}{mode}"));
    if mode.is_empty() {
        return text;
    }
    text.replace(&format!("\"10.91.{}.0/24\"", 2 - end), &format!("\"{}/32\"", INNER[1 - end]))
}

/// Returns the number of packets of a protocol that have arrived at a host, by nftables' counter.
fn counted(net: &Net, host: &str, protocol: u8) -> u64 {
    let output = net.run(host, "nft", "list table ip count");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let name = if protocol == 50 { "esp" } else { "udp" };
    let rules = said.lines().filter(|line| line.contains(&format!("protocol {name} ")));
    let packets =
        rules.filter_map(|line| line.split("packets ").nth(1)?.split(' ').next()?.parse::<u64>().ok());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    packets.sum()
}

/// Makes the kernel of a host count packets that arrive, by protocol; if that cannot be, the test is skipped.
fn count(net: &Net, host: &str) -> Option<()> {
    let rules = [
        "add table ip count",
        "add chain ip count in { type filter hook prerouting priority -300 ; }",
        "add rule ip count in ip protocol esp counter",
        "add rule ip count in ip protocol udp counter",
    ];
    net.filter(host, "counters", &rules)
}

#[test]
fn strongswan_is_joined_without_udp() {
    let Some(mut net) = two_hosts("kb", strongswan::newer_is_missing) else { return };
    let Some(()) = count(&net, "a") else { return };
    let proposals = ["aes256gcm16-prfsha384-x25519", "aes256gcm16-x25519"];
    let text = by_psk(proposals, "remote_addrs = 10.90.0.1", "").replace("encap = yes", "encap = no");
    let far = StrongSwan::start_plain(&mut net, "b", &text);
    let own = site(&format!("{ENDPOINT}rekey-seconds = 2\n"), "psk-file = \"psk\"");
    net.gateway("a", 1400, &format!("{PLAIN}{own}"));
    net.wait_for_ping("a", INNER[1]);
    let before = counted(&net, "a", 17);
    let changes = load(&net, Duration::from_secs(4));
    assert!(changes >= 1, "{changes} successors\n{}", far.log());
    let (esp, udp) = (counted(&net, "a", 50), counted(&net, "a", 17) - before);
    assert!(esp > 100 && udp < 100, "{esp} of ESP, {udp} of UDP\n{}", far.log());
    // strongSwan begins anew.
    far.control(&net, "--terminate --ike t");
    wait_for("our end", || spis(&net, "a").is_empty());
    far.control(&net, "--initiate --child c");
    net.wait_for_ping("b", INNER[0]);
    transfer(&net, 1 << 20);
}

#[test]
fn two_gateways_of_ours_send_esp_without_udp_in_either_mode() {
    for (tag, mode) in [("kd", ""), ("kh", TRANSPORT)] {
        let Some(mut net) = own_hosts(tag) else { return };
        let Some(()) = count(&net, "a") else { return };
        both(&mut net, |end| format!("{PLAIN}{}", mode_site(end, "rekey-seconds = 2\n", mode)));
        net.wait_for_ping("a", INNER[1]);
        let before = counted(&net, "a", 17);
        assert!(load(&net, Duration::from_secs(3)) >= 1);
        let (esp, udp) = (counted(&net, "a", 50), counted(&net, "a", 17) - before);
        assert!(esp > 100 && udp < 100, "{esp} of ESP, {udp} of UDP");
        // Our end moves; the other one follows.
        net.readdress("a", "10.90.0.1");
        net.wait_for_ping("a", INNER[1]);
        net.wait_for_ping("b", INNER[0]);
        transfer(&net, 1 << 20);
    }
}

/// AH covers the outer addresses, so each end listens on its own.
#[test]
fn two_gateways_of_ours_authenticate_packets_by_ah_in_either_mode() {
    for (tag, mode) in [("ka", ""), ("kg", TRANSPORT)] {
        let Some(mut net) = own_hosts(tag) else { return };
        both(&mut net, |end| {
            let text = mode_site(end, "rekey-seconds = 2\n", mode);
            let text = text.replace("0.0.0.0", &format!("10.90.0.{}", end + 1));
            format!("{PLAIN}protocol = \"ah\"\n{text}")
        });
        net.wait_for_ping("a", INNER[1]);
        assert!(load(&net, Duration::from_secs(3)) >= 1);
        transfer(&net, 1 << 20);
        let suite = net.status("a")["peers"][0]["associations"][0]["suite"].to_string();
        assert!(suite.contains("ah "), "{suite}");
        assert_eq!(suite.contains("transport"), !mode.is_empty(), "{suite}");
    }
}

/// The ends agree on tunnel mode inside UDP in place of transport mode, and gateways that send ESP as a protocol of its own
/// cannot carry that.
#[test]
fn a_nat_on_the_way_ends_transport_mode_with_words() {
    let Some(()) = unless(network::missing()) else { return };
    let Some(mut net) = behind_nat("kx") else { return };
    secret(net.folder.path(), "psk", &format!("{PSK}\n"));
    // The router's address is not the peer's.
    called(&mut net, |end| format!("{PLAIN}{}", mode_site(end, "", TRANSPORT)));
    for place in [0, 1] {
        wait_for_words(&mut net, place, "a NAT is on the way, and only ESP in UDP passes it");
    }
    for host in ["a", "b"] {
        assert!(spis(&net, host).is_empty(), "{}", net.status(host));
    }
}

/// The hosts have no addresses but the outer ones, so that checksums are over those, too.
#[test]
fn two_gateways_of_ours_join_hosts_by_their_outer_addresses() {
    let Some(mut net) = own_hosts("kj") else { return };
    let Some(()) = count(&net, "b") else { return };
    let outer = ["10.90.0.1", "10.90.0.2"];
    both(&mut net, |end| {
        let text = own_site(end, TRANSPORT)
            .replace(&format!("{}/24", INNER[end]), &format!("{}/32", outer[end]))
            .replace(&format!("10.91.{}.0/24", 2 - end), &format!("{}/32", outer[1 - end]));
        format!("{PLAIN}{text}")
    });
    net.wait_for_ping("a", outer[1]);
    net.wait_for_ping("b", outer[0]);
    let before = counted(&net, "b", 50);
    transfer_to(&net, "a", ("b", outer[1]), &pattern(1 << 20));
    let packets = counted(&net, "b", 50) - before;
    assert!(packets > 500, "{packets} of ESP");
}

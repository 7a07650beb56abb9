//! Gateways with several addresses: answers leave from the one that was called.

use std::time::Duration;

use super::{INNER, PSK, behind_nat, called, load, own_hosts, own_site, secret, transfer};
use crate::network::namespaces::ip;
use crate::network::{self, Net};
use crate::program::unless;

/// The second address of the gateway `b`, in the network of the first one.
const SECOND: &str = "10.90.0.9";

/// Makes `a` behind a router that translates addresses, and `b` with two addresses.
fn hosts(tag: &str) -> Option<Net> {
    unless(network::missing())?;
    let net = behind_nat(tag)?;
    ip(&format!("-n {} address add {SECOND}/24 dev o0", net.name("b")));
    Some(net)
}

/// The router knows the client's packets to the second address alone, and drops answers from the first one.
#[test]
fn a_client_behind_a_nat_gets_answers_from_the_address_that_it_calls() {
    for (tag, listen) in [("ad", "0.0.0.0:4500"), ("af", "[::]:4500")] {
        let Some(mut net) = hosts(tag) else { return };
        secret(net.folder.path(), "psk", &format!("{PSK}\n"));
        called(&mut net, |end| {
            let text = own_site(end, "rekey-seconds = 2\n").replace("10.90.0.2:", &format!("{SECOND}:"));
            if end == 1 { text.replace("0.0.0.0:4500", listen) } else { text }
        });
        net.wait_for_ping("a", INNER[1]);
        transfer(&net, 1 << 20);
        assert_eq!(net.status("a")["peers"][0]["endpoint"], format!("{SECOND}:4500"), "{}", net.status("a"));
        // The gateway's routes change, and the called address stays in use.
        ip(&format!("-n {} address add 10.90.0.10/24 dev o0", net.name("b")));
        assert!(load(&net, Duration::from_secs(3)) >= 1);
    }
}

/// The client's firewall drops packets that do not come from the address that it calls.
#[test]
fn answers_leave_from_the_called_address_over_ipv6_too() {
    let Some(mut net) = own_hosts("ag") else { return };
    // The kernel itself chooses a deprecated address for nothing.
    for (host, address) in [("a", "fd90::1/64"), ("b", "fd90::2/64"), ("b", "fd90::9/64 preferred_lft 0")] {
        ip(&format!("-n {} address add {address} dev o0 nodad", net.name(host)));
    }
    let rules = [
        "add table ip6 strict",
        "add chain ip6 strict in { type filter hook input priority 0 ; }",
        "add rule ip6 strict in meta l4proto udp ip6 saddr != fd90::9 drop",
    ];
    let Some(()) = net.filter("a", "firewall", &rules) else { return };
    called(&mut net, |end| {
        own_site(end, "").replace("10.90.0.2:", "[fd90::9]:").replace("0.0.0.0:", "[::]:")
    });
    net.wait_for_ping("a", INNER[1]);
    transfer(&net, 1 << 20);
}

#[test]
fn a_client_that_calls_by_its_key_gets_its_packets_from_there_too() {
    let Some(mut net) = hosts("ae") else { return };
    let keys = ["a", "b"].map(|host| net.key(host));
    called(&mut net, |end| {
        format!(
            "listen = \"0.0.0.0:4500\"\naddresses = [\"{}/24\"]\n[[peers]]\nname = \"other\"\n\
             networks = [\"10.91.{}.0/24\"]\nendpoint = \"{SECOND}:4500\"\nkey = \"{}\"\n",
            INNER[end],
            2 - end,
            keys[1 - end]
        )
    });
    net.wait_for_ping("a", INNER[1]);
    transfer(&net, 1 << 20);
}

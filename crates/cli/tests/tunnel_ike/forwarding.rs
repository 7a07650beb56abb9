//! Hosts behind a gateway, which are reached although the system does not forward by itself, and clients whose packets get
//! the gateway's address.

use std::fs;

use super::clients::{GATEWAY, three_hosts};
use super::{INNER, own_hosts, own_site, secret};
use crate::network::{self, Net};
use crate::program::{Ends, text, wait_for};

fn sysctl(net: &Net, host: &str, setting: &str) -> String {
    let output = net.run(host, "sysctl", &format!("-n {setting}"));
    text(&output.stdout).trim().to_owned()
}

#[test]
fn hosts_behind_a_gateway_are_reached_and_the_system_is_as_before_afterwards() {
    let Some(mut net) = three_hosts("fw", network::missing) else { return };
    // `c` is behind the gateway `a`, and knows no way to clients.
    for setting in ["net.ipv4.ip_forward=0", "net.ipv4.conf.all.forwarding=0"] {
        assert!(net.run("a", "sysctl", &format!("-qw {setting}")).status.success());
    }
    let site = format!(
        "listen = \"0.0.0.0:4500\"\naddresses = [\"{}/32\"]\nmasquerade = true\n[pool]\nnetworks = [\"10.99.0.0/24\"]\n\
         [[peers]]\nname = \"clients\"\n[peers.ike]\nany = true\nlocal-id = \"hq.example\"\n\
         local-networks = [\"10.90.3.0/24\", \"10.91.1.0/24\"]\nprivate-key = \"hq.key\"\ncertificate = \"hq.crt\"\n\
         users-file = \"users\"\n",
        INNER[0]
    );
    let path = net.folder.path().join("checked.toml");
    fs::write(&path, format!("device = \"sl0\"\n{site}")).expect("a file");
    let said = net.tunnel("a", "check").arg(&path).output().expect("it runs").stdout;
    assert!(
        text(&said).contains("forwarding of IPv4 is turned on for sl0 and o1 where it is off"),
        "{}",
        text(&said)
    );
    net.gateway("a", 1400, &site);
    let forwarding =
        |net: &Net, device: &str| sysctl(net, "a", &format!("net.ipv4.conf.{device}.forwarding"));
    // Other interfaces are left alone.
    assert_eq!(["sl0", "o1", "o0"].map(|device| forwarding(&net, device)), ["1", "1", "0"]);
    secret(net.folder.path(), "password", "correct horse\n");
    let client = format!(
        "listen = \"0.0.0.0:4500\"\n[[peers]]\nname = \"hq\"\nendpoint = \"{}:4500\"\nnetworks = [\"10.90.3.0/24\"]\n\
         [peers.ike]\nid = \"hq.example\"\nvirtual-addresses = true\nca = \"ca.crt\"\nuser = \"alice\"\n\
         password-file = \"password\"\n",
        GATEWAY[0]
    );
    net.gateway("b", 1400, &client);
    net.wait_for_ping("b", "10.90.3.2");
    let table = text(&net.run("a", "nft", "list ruleset").stdout).to_owned();
    assert!(table.contains("10.99.0.0-10.99.0.255") || table.contains("10.99.0.0/24"), "{table}");
    net.down("a");
    wait_for("the settings from before", || forwarding(&net, "o1") == "0");
}

/// Returns a gateway's site file; our side has networks behind the interface `i0`, of both families.
fn with_networks_behind() -> String {
    let networks = "local-networks = [\"10.91.1.0/24\", \"10.90.3.0/24\", \"fd91:3::/64\"]\n";
    own_site(0, "") + networks
}

fn hosts_with_networks_behind(tag: &str) -> Option<Net> {
    let net = own_hosts(tag)?;
    net.link([("a", "i0", "10.90.3.1/24"), ("b", "i0", "10.90.3.2/24")], 1500);
    for setting in [
        "net.ipv4.ip_forward=0",
        "net.ipv4.conf.all.forwarding=0",
        "net.ipv6.conf.all.forwarding=0",
        "net.ipv6.conf.o0.accept_ra=1",
        "net.ipv6.conf.i0.accept_ra=0",
    ] {
        assert!(net.run("a", "sysctl", &format!("-qw {setting}")).status.success(), "{setting}");
    }
    Some(net)
}

const SETTINGS: [&str; 4] = [
    "net.ipv4.conf.i0.forwarding",
    "net.ipv6.conf.all.forwarding",
    "net.ipv6.conf.o0.accept_ra",
    "net.ipv6.conf.i0.accept_ra",
];

#[test]
fn forwarding_is_off_again_after_the_keeper_was_killed_and_the_next_gateway_has_ended() {
    let Some(mut net) = hosts_with_networks_behind("fk") else { return };
    let settings = |net: &Net| SETTINGS.map(|setting| sysctl(net, "a", setting));
    let before = settings(&net);
    assert_eq!(before, ["0", "0", "1", "0"]);
    for is_killed in [true, true, false] {
        net.gateway("a", 1400, &with_networks_behind());
        assert_eq!(settings(&net), ["1", "1", "2", "0"]);
        if !is_killed {
            break;
        }
        let gateway = net.children.last().expect("it runs").id();
        let children = fs::read_to_string(format!("/proc/{gateway}/task/{gateway}/children"));
        let keeper = children.expect("Linux lists them").trim().parse().expect("one process");
        let keeper = rustix::process::Pid::from_raw(keeper).expect("a process");
        rustix::process::kill_process(keeper, rustix::process::Signal::KILL).expect("it is ours");
        assert!(!net.children.pop().expect("it runs").wait().expect("it ends").success());
        assert_eq!(settings(&net), ["1", "1", "2", "0"], "nobody could undo it");
    }
    net.down("a");
    wait_for("the settings from before", || settings(&net) == before);
}

#[test]
fn a_firewall_in_the_way_is_named_with_a_rule_that_lets_packets_pass() {
    let Some(net) = hosts_with_networks_behind("fb") else { return };
    let path = net.folder.path().join("checked.toml");
    fs::write(&path, format!("device = \"sl0\"\n{}", with_networks_behind())).expect("a file");
    let check =
        |net: &Net| text(&net.tunnel("a", "check").arg(&path).output().expect("it runs").stdout).to_owned();
    let nft = |net: &Net, words: &str| {
        net.command("a", "nft", "").arg(words).ends(0);
    };
    let dropped = |said: &str| said.lines().filter(|line| line.contains("the firewall drops")).count();
    assert_eq!(dropped(&check(&net)), 0);
    nft(&net, "add table inet own");
    nft(&net, "add chain inet own in { type filter hook input priority 0 ; policy drop ; }");
    nft(&net, "add rule inet own in ct state established,related accept");
    nft(&net, "add rule inet own in tcp dport 22 accept");
    nft(&net, "add chain inet own through { type filter hook forward priority 0 ; policy drop ; }");
    let said = check(&net);
    for words in ["to UDP port 500:", "to UDP port 4500:", "behind i0:", "iifname sl0 oifname i0 accept"] {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert_eq!(dropped(&said), 4, "{said}");
    // The named rules are what it takes.
    let rules = said.lines().filter_map(|line| line.split_once("for example by: nft ")?.1.into());
    rules.for_each(|rule: &str| nft(&net, rule));
    let said = check(&net);
    assert_eq!(dropped(&said), 0, "{said}");
}

//! Hosts behind a gateway, which are reached although the system does not forward by itself, and clients whose packets get
//! the gateway's address.

use std::process::Command;

use super::clients::{GATEWAY, three_hosts};
use super::{INNER, secret};
use crate::network::strongswan::wait_for;
use crate::network::{self, Net};
use crate::program::text;

fn sysctl(net: &Net, host: &str, setting: &str) -> String {
    let output = net.run(host, "sysctl", &format!("-n {setting}"));
    text(&output.stdout).trim().to_owned()
}

fn down(net: &Net, host: &str) {
    let mut command: Command = net.command(host, env!("CARGO_BIN_EXE_sealane"), "tunnel down");
    command.env("SEALANE_RUN", net.folder.path().join(format!("{host}.run")));
    assert!(command.output().expect("it runs").status.success());
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
    std::fs::write(&path, format!("device = \"sl0\"\n{site}")).expect("a file");
    let mut command = net.command("a", env!("CARGO_BIN_EXE_sealane"), "tunnel check");
    let said = command.arg(&path).output().expect("it runs").stdout;
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
    down(&net, "a");
    wait_for("the settings from before", || forwarding(&net, "o1") == "0");
}

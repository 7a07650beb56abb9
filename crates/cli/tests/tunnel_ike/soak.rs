//! A gateway with many devices for a long time: short-lived keys, a network that loses packets, and users and lists of revoked
//! certificates that are renewed all the time. `cargo xtask soak-clients SECONDS` runs it as long as it is told.

use std::fs;
use std::time::{Duration, Instant};

use super::reload::list;
use super::{INNER, P256, certificates, sas, secret};
use crate::network::{self, Net};
use crate::program::{unless, wait_for};

/// The number of devices, and the time between two renewals of files, in a short run and in a long one.
const SHORT: (usize, Duration) = (4, Duration::from_secs(4));
const LONG: (usize, Duration) = (20, Duration::from_secs(60));

/// The resources of the gateway: resident KiB, descriptors, associations in the status.
fn resources(net: &Net) -> [u64; 3] {
    let process = net.children[0].id();
    let status = fs::read_to_string(format!("/proc/{process}/status")).expect("it runs");
    let resident = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let resident = resident.and_then(|text| text.split_whitespace().next()?.parse().ok()).expect("a number");
    let descriptors = fs::read_dir(format!("/proc/{process}/fd")).expect("it runs").count() as u64;
    let status = net.status("a");
    let associations = status["peers"][0]["associations"].as_array().map_or(0, Vec::len) as u64;
    [resident, descriptors, associations]
}

#[test]
fn devices_stay_connected_while_keys_users_and_lists_change() {
    let Some(()) = unless(network::missing()) else { return };
    let seconds: Option<u64> =
        std::env::var("SEALANE_SOAK_CLIENTS_SECONDS").ok().map(|text| text.parse().expect("seconds"));
    let time = Duration::from_secs(seconds.unwrap_or(14));
    let (devices, pause) = if seconds.is_some_and(|seconds| seconds >= 120) { LONG } else { SHORT };
    let names: Vec<String> = (0..devices).map(|device| format!("d{device}")).collect();
    let hosts: Vec<&str> = std::iter::once("a").chain(names.iter().map(String::as_str)).collect();
    let mut net = Net::new("sk", &hosts);
    let folder = net.folder.path().to_owned();
    let Some(()) = certificates(&folder, P256) else { return };
    let users = |more: &str| {
        let all: String = names.iter().map(|name| format!("{name}:correct horse\n")).collect();
        // Another file takes the place of the one before at once.
        secret(&folder, "users.new", &(all + more));
        fs::rename(folder.join("users.new"), folder.join("users")).expect("one folder");
    };
    users("");
    list(&folder, &[]);
    let rules = [
        "add table ip loss",
        "add chain ip loss in { type filter hook prerouting priority -300 ; }",
        "add rule ip loss in ip protocol udp numgen random mod 100 < 2 drop",
        "add chain ip loss out { type filter hook output priority 300 ; }",
        "add rule ip loss out ip protocol udp numgen random mod 100 < 2 drop",
    ];
    let Some(()) = net.filter("a", "losses", &rules) else { return };
    net.gateway(
        "a",
        1400,
        &format!(
            "listen = \"0.0.0.0:4500\"\naddresses = [\"{}/24\"]\n[pool]\nnetworks = [\"10.99.0.0/24\"]\n[[peers]]\nname = \"clients\"\n\
             rekey-seconds = 2\n[peers.ike]\nany = true\nlocal-id = \"hq.example\"\nike-rekey-seconds = 7\n\
             local-networks = [\"10.91.1.0/24\"]\nprivate-key = \"hq.key\"\ncertificate = \"hq.crt\"\nusers-file = \"users\"\n\
             ca = \"ca.crt\"\ncrls = [\"list.crl\"]\n",
            INNER[0]
        ),
    );
    secret(&folder, "password", "correct horse\n");
    for (number, name) in names.iter().enumerate() {
        let ends = [format!("10.90.{number}.1/24"), format!("10.90.{number}.2/24")];
        let device = format!("o{number}");
        net.link([("a", &device, &ends[0]), (name, "o0", &ends[1])], 1500);
        let site = format!(
            "listen = \"0.0.0.0:4500\"\n[[peers]]\nname = \"hq\"\nendpoint = \"10.90.{number}.1:4500\"\n\
             networks = [\"10.91.1.0/24\"]\nrekey-seconds = 2\n[peers.ike]\nid = \"hq.example\"\nvirtual-addresses = true\n\
             ike-rekey-seconds = 7\nca = \"ca.crt\"\nuser = \"{name}\"\npassword-file = \"password\"\n"
        );
        net.gateway(name, 1400, &site);
    }
    let all_answer = |net: &Net| names.iter().for_each(|name| net.wait_for_ping(name, INNER[0]));
    all_answer(&net);
    let (begun, mut early, mut renewals) = (Instant::now(), None, 0);
    while begun.elapsed() < time {
        renewals += 1;
        users(&format!("guest{renewals}:battery staple\n"));
        list(&folder, &[]);
        let until = Instant::now() + pause;
        while Instant::now() < until {
            all_answer(&net);
            std::thread::sleep(Duration::from_millis(200));
        }
        if begun.elapsed() > time / 4 {
            early.get_or_insert_with(|| resources(&net));
        }
    }
    wait_for("one IKE SA for each device", || sas(&net, "a").len() == devices);
    let users: std::collections::BTreeSet<String> =
        sas(&net, "a").iter().map(|ike| ike["user"].to_string()).collect();
    assert_eq!(users.len(), devices, "{users:?}");
    let (early, late) = (early.expect("a quarter has passed"), resources(&net));
    println!(
        "{renewals} renewals: resident KiB, descriptors and associations were {early:?} and are {late:?}"
    );
    assert!(late[0] < early[0] + early[0] / 10 + 4096, "memory: {early:?} {late:?}");
    assert!(late[1] <= early[1] + 2, "descriptors: {early:?} {late:?}");
    // Those that have ended receive for ten seconds.
    assert!(late[2] <= devices as u64 * 20, "associations: {early:?} {late:?}");
}

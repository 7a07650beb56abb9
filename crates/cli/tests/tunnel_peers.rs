//! `sealane tunnel` on a hostile path between two gateways: rewritten headers, routes that lead nowhere, NATs that
//! forget, names that move, and the messages for an operator.

mod network;
mod program;

use std::fs;
use std::io::Read;
use std::net::UdpSocket;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::thread;
use std::time::Duration;

use network::namespaces::{self, ip};
use network::pair::{AH, INNER, Manner, OUTER, PLAIN, Pair, TUNNEL, identity};
use network::{Net, missing};
use program::{Ends, eventually, set_mode, text, unless, wait_for};

/// Returns the reason why there can be no such test here.
fn missing_nft() -> Option<String> {
    missing().or_else(|| {
        let runs =
            Command::new("nft").arg("list").arg("tables").output().is_ok_and(|run| run.status.success());
        (!runs).then(|| "nft is missing, or the kernel has no nftables".to_owned())
    })
}

/// Sends commands to the packet filter of a namespace.
fn nft(namespace: &str, commands: &str) {
    namespaces::command(namespace, "nft").arg(commands).ends(0);
}

/// Ends the gateway of an end, unless it has ended by itself. Returns its exit code and its log since it was up.
fn ended(pair: &mut Pair, end: usize) -> (Option<i32>, String) {
    let _ = pair.output(end, &["down"]);
    let mut gateway = pair.gateways[end].take().expect("it was started");
    let mut said = String::new();
    gateway.stderr.take().expect("a pipe").read_to_string(&mut said).expect("text");
    (gateway.wait().expect("a child").code(), said)
}

/// Waits until the gateway of an end has said these words, and ends it. Returns its log since it was up.
fn ended_after(pair: &mut Pair, end: usize, words: &str) -> String {
    let stderr = pair.gateways[end].as_mut().and_then(|gateway| gateway.stderr.as_mut()).expect("a pipe");
    let (mut said, mut byte) = (Vec::new(), [0]);
    while !String::from_utf8_lossy(&said).contains(words) {
        stderr.read_exact(&mut byte).expect("it says more");
        said.push(byte[0]);
    }
    let (_, rest) = ended(pair, end);
    String::from_utf8_lossy(&said).into_owned() + &rest
}

fn still_runs(pair: &mut Pair, end: usize) -> bool {
    pair.gateways[end].as_mut().is_some_and(|gateway| gateway.try_wait().expect("a child").is_none())
}

#[test]
fn genuine_packets_with_rewritten_headers_end_no_gateway_and_move_no_endpoint() {
    let Some(()) = unless(missing_nft()) else { return };
    for (tag, manner, rewrites) in [
        (
            "u",
            TUNNEL,
            &[
                "udp sport set 0",
                "ip saddr set 255.255.255.255",
                "ip saddr set 224.0.0.1",
                "ip saddr set 0.0.0.0",
            ][..],
        ),
        ("p", Manner { site: PLAIN, ..TUNNEL }, &["ip saddr set 255.255.255.255", "ip saddr set 224.0.0.1"]),
    ] {
        let mut pair = Pair::new_as(&format!("w{tag}"), "aes-128-gcm", 20, "1", manner);
        assert!(pair.answers());
        let endpoint = pair.status(1)["peers"][0]["endpoint"].clone();
        for rewrite in rewrites {
            let name = pair.names[1].clone();
            let carrier = if manner.site == PLAIN { "ip protocol 50" } else { "udp dport 4500" };
            nft(&name, "add table ip onpath");
            // The kernel's own check of source addresses, which refuses some of these, comes before this hook.
            nft(&name, "add chain ip onpath in { type filter hook input priority 0 ; }");
            nft(&name, &format!("add rule ip onpath in {carrier} {rewrite}"));
            for _ in 0..3 {
                // The second gateway answers to the endpoint that the peer had before.
                assert!(pair.answers(), "{tag} {rewrite}: {}", pair.status(1));
            }
            nft(&name, "delete table ip onpath");
            assert!(still_runs(&mut pair, 1), "{tag} {rewrite}");
            assert_eq!(pair.status(1)["peers"][0]["endpoint"], endpoint, "{tag} {rewrite}");
            assert!(pair.answers(), "{tag} {rewrite}");
        }
        pair.transfer(1 << 20);
    }
}

#[test]
fn routes_to_a_peer_that_lead_nowhere_cost_packets_and_no_gateway() {
    let Some(()) = unless(missing()) else { return };
    for (tag, manner, suite, material_bytes) in [
        ("u", TUNNEL, "aes-128-gcm", 20),
        ("p", Manner { site: PLAIN, ..TUNNEL }, "aes-128-gcm", 20),
        ("a", Manner { site: AH, ..TUNNEL }, "hmac-sha256-128", 32),
    ] {
        let mut pair = Pair::new_as(&format!("v{tag}"), suite, material_bytes, "1", manner);
        assert!(pair.answers());
        for kind in ["blackhole", "prohibit", "unreachable"] {
            let before = pair.dropped(0, "no_room");
            let name = pair.names[0].clone();
            ip(&format!("-n {name} route add {kind} {}/32", OUTER[1]));
            assert!(!pair.ping("56"), "{tag} {kind}");
            assert!(still_runs(&mut pair, 0), "{tag} {kind}");
            wait_for(&format!("{tag} {kind}: it is counted"), || pair.dropped(0, "no_room") > before);
            ip(&format!("-n {name} route del {kind} {}/32", OUTER[1]));
            assert!(pair.answers(), "{tag} {kind}");
        }
        pair.transfer(1 << 20);
    }
}

#[test]
fn a_lane_that_fails_ends_the_gateway_in_an_orderly_way() {
    let Some(()) = unless(missing()) else { return };
    let mut pair = Pair::new("f", "aes-128-gcm", 20, "2");
    assert!(pair.answers());
    let socket = pair.run_folder(0).join("tunnel-sl0.sock");
    assert!(socket.exists());
    ip(&format!("-n {} link del sl0", pair.names[0]));
    assert!(eventually(|| !still_runs(&mut pair, 0)), "it goes on without a device");
    let (code, said) = ended(&mut pair, 0);
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("the gateway ends: ") && said.contains("reading from the device"), "{said}");
    assert!(!socket.exists(), "nobody is left who would answer there");
    pair.up(0);
    assert!(pair.answers());
}

/// Records a packet that the first end's gateway sends to the second's.
fn recorded(pair: &Pair) -> Vec<u8> {
    use rustix::net::{AddressFamily, Protocol, RecvFlags, SocketFlags, SocketType, recvfrom, socket_with};
    let all = Protocol::from_raw(u32::from(3u16.to_be()).try_into().expect("ETH_P_ALL is not 0"));
    let socket = pair.inside(1, || {
        socket_with(AddressFamily::PACKET, SocketType::DGRAM, SocketFlags::CLOEXEC, Some(all))
            .expect("we are root")
    });
    assert!(pair.answers());
    let mut packet = [0; 2048];
    loop {
        let (bytes, ..) = recvfrom(&socket, &mut packet, RecvFlags::DONTWAIT).expect("it came by");
        let is_to_gateway = packet[0] == 0x45 && packet[9] == 17 && packet[22..24] == 4500u16.to_be_bytes();
        if is_to_gateway && packet[12..16] == [10, 90, 0, 1] {
            return packet[28..bytes].to_vec();
        }
    }
}

#[test]
fn a_replayed_packet_moves_no_endpoint_of_a_gateway_that_was_restarted() {
    let Some(()) = unless(missing()) else { return };
    let mut pair = Pair::new("j", "aes-128-cbc+hmac-sha256-128", 48, "1");
    let packet = recorded(&pair);
    pair.kill(1);
    pair.up(1);
    ip(&format!("-n {} address add 10.90.0.77/24 dev o0", pair.names[0]));
    let elsewhere = pair.inside(0, || UdpSocket::bind("10.90.0.77:4500").expect("a port"));
    elsewhere.send_to(&packet, (OUTER[1], 4500)).expect("it is sent");
    wait_for("the replayed packet is genuine", || !pair.status(1)["peers"][0]["silent_s"].is_null());
    assert_eq!(pair.status(1)["peers"][0]["endpoint"], format!("{}:4500", OUTER[0]));
    assert!(pair.answers());
}

/// Makes a gateway behind a NAT that forgets a mapping after two seconds, and its peer, which has no endpoint for it.
fn behind_nat(tag: &str, keepalive: &str) -> Net {
    let mut net = Net::new(tag, &["a", "r", "b"]);
    net.link([("a", "o0", "192.168.7.2/24"), ("r", "i0", "192.168.7.1/24")], 1500);
    net.link([("r", "i1", "10.90.0.1/24"), ("b", "o0", "10.90.0.2/24")], 1500);
    ip(&format!("-n {} route add default via 192.168.7.1", net.name("a")));
    let router = net.name("r");
    nft(&router, "add table ip nat");
    nft(&router, "add chain ip nat out { type nat hook postrouting priority 100 ; }");
    nft(&router, "add rule ip nat out oifname i1 masquerade");
    for timeout in ["nf_conntrack_udp_timeout", "nf_conntrack_udp_timeout_stream"] {
        net.run("r", "sysctl", &format!("-qw net.netfilter.{timeout}=2")).ends(0);
    }
    let keys = ["a", "b"].map(|host| net.key(host));
    let site = |listen: &str, inner: &str, key: &str, network: &str, more: &str| {
        format!(
            "listen = \"{listen}:4500\"\naddresses = [\"{inner}/32\"]\n[[peers]]\nname = \"other\"\nkey = \"{key}\"\n\
             networks = [\"{network}/32\"]\n{more}\n"
        )
    };
    net.gateway("b", 1400, &site("10.90.0.2", INNER[1], &keys[0], INNER[0], ""));
    let more = format!("endpoint = \"10.90.0.2:4500\"\n{keepalive}");
    net.gateway("a", 1400, &site("192.168.7.2", INNER[0], &keys[1], INNER[1], &more));
    net.wait_for_ping("a", INNER[1]);
    net
}

#[test]
fn a_peer_behind_a_nat_is_reached_after_its_mapping_would_have_expired() {
    let Some(()) = unless(missing_nft()) else { return };
    for (tag, keepalive, seconds, is_reached) in [
        ("n", "keepalive = 1", Some(1), true),
        ("o", "keepalive = 0", None, false),
        ("q", "", Some(25), false),
    ] {
        let net = behind_nat(tag, keepalive);
        let of = |host: &str, field: &str| net.status(host)["peers"][0][field].clone();
        assert_eq!(of("a", "is_behind_nat"), true, "{keepalive}");
        assert_eq!(of("a", "keepalive_s"), serde_json::json!(seconds), "{keepalive}");
        assert_eq!(of("b", "is_behind_nat"), false, "{keepalive}");
        assert_eq!(of("b", "keepalive_s"), serde_json::Value::Null, "{keepalive}");
        thread::sleep(Duration::from_secs(5));
        // Keepalives for the mapping are not counted as dropped packets.
        let drops = net.status("b")["drops"].as_array().expect("a list").clone();
        assert!(!drops.iter().any(|drop| drop[0] == "malformed" || drop[0] == "unknown_spi"), "{drops:?}");
        let answers = || {
            let ping = net.run("b", "ping", &format!("-c 1 -W 2 {}", INNER[0]));
            ping.status.success()
        };
        if is_reached {
            // On a busy machine a keepalive may be late, and the next one makes the mapping anew.
            wait_for(keepalive, answers);
        } else {
            assert!(!answers(), "{keepalive}");
        }
    }
}

/// The hosts files of two namespaces, which are removed when this value is dropped.
struct Names(Vec<String>);

impl Names {
    /// Makes hosts files in which `branch.test` is at `address`, in both namespaces.
    fn new(pair: &Pair, address: &str) -> Self {
        let names = Self(pair.names.to_vec());
        for name in &names.0 {
            fs::create_dir_all(format!("/etc/netns/{name}")).expect("we are root");
        }
        names.set(address);
        names
    }

    fn set(&self, address: &str) {
        self.write(&format!("{address} branch.test\n"));
    }

    /// Removes the name's address.
    fn clear(&self) {
        self.write("");
    }

    fn write(&self, hosts: &str) {
        for name in &self.0 {
            // The file is written in place: running programs have it mounted.
            fs::write(format!("/etc/netns/{name}/hosts"), hosts).expect("we are root");
        }
    }
}

impl Drop for Names {
    fn drop(&mut self) {
        for name in &self.0 {
            let _ = fs::remove_dir_all(format!("/etc/netns/{name}"));
        }
    }
}

/// Configures the first end with the second's name, which has no address yet.
fn named(pair: &mut Pair) -> Names {
    pair.kill(0);
    let endpoint = format!("endpoint = \"{}:4500\"", OUTER[1]);
    assert!(pair.edit_site(0, &endpoint, "endpoint = \"Branch.test:4500\""));
    let names = Names::new(pair, "10.90.0.9");
    pair.up(0);
    names
}

fn follows_the_name(mut pair: Pair) {
    let names = named(&mut pair);
    assert!(!pair.ping("56"));
    names.set(OUTER[1]);
    pair.wait_for_ping();
    assert_eq!(pair.status(0)["peers"][0]["endpoint"], format!("{}:4500", OUTER[1]));
    // The second end and its name move while it has nothing to send.
    pair.kill(1);
    let far = &pair.names[1];
    ip(&format!("-n {far} address del {}/24 dev o1", OUTER[1]));
    ip(&format!("-n {far} address add 10.90.0.55/24 dev o1"));
    // A site whose peers know its key may listen at all addresses.
    pair.edit_site(1, OUTER[1], "10.90.0.55");
    names.set("10.90.0.55");
    pair.up(1);
    // The moved peer has no packets to send and nobody to call, so only its name reveals its address.
    pair.wait_for_ping();
    assert_eq!(pair.status(0)["peers"][0]["endpoint"], "10.90.0.55:4500");
}

#[test]
fn a_peer_with_a_key_is_found_by_its_name_and_again_when_it_is_silent() {
    let Some(()) = unless(missing()) else { return };
    follows_the_name(Pair::keyed("hk", "", true));
}

#[test]
fn a_peer_with_keys_from_files_is_found_by_its_name_and_again_when_it_is_silent() {
    let Some(()) = unless(missing()) else { return };
    follows_the_name(Pair::new("hm", "aes-128-cbc+hmac-sha256-128", 48, "1"));
}

#[test]
fn a_peer_whose_name_is_lost_is_called_where_it_was() {
    let Some(()) = unless(missing()) else { return };
    let mut pair = Pair::keyed("hl", "", true);
    let names = named(&mut pair);
    names.set(OUTER[1]);
    pair.wait_for_ping();
    names.clear();
    // The peer has lost its keys, and has nobody to call.
    pair.kill(1);
    pair.up(1);
    pair.wait_for_ping();
}

#[test]
fn an_operator_hears_of_a_path_that_is_blocked_and_of_a_peer_that_answers() {
    let Some(()) = unless(missing_nft()) else { return };
    let mut pair = Pair::keyed("b", "", true);
    for end in [0, 1] {
        pair.kill(end);
        nft(&pair.names[end], "add table ip wall");
        nft(&pair.names[end], "add chain ip wall in { type filter hook input priority 0 ; }");
        nft(&pair.names[end], "add rule ip wall in udp dport 4500 drop");
    }
    pair.up(1);
    pair.up(0);
    let is = |pair: &Pair, end: usize, state: &str| pair.status(end)["peers"][0]["state"] == state;
    wait_for("the wall is noticed", || is(&pair, 0, "never heard") && is(&pair, 1, "never heard"));
    let shown = pair.output(0, &["status", "--explain"]);
    let shown = text(&shown.stdout).to_owned();
    for line in ["networks  10.91.2.1/32", "keys      agreed ", "silent    from the peer to us"] {
        assert!(shown.contains(line), "{line}: {shown}");
    }
    for end in [0, 1] {
        nft(&pair.names[end], "delete table ip wall");
    }
    pair.wait_for_ping();
    wait_for("both answer", || is(&pair, 0, "answers") && is(&pair, 1, "answers"));
    for end in [0, 1] {
        let (code, said) = ended(&mut pair, end);
        assert_eq!(code, Some(0), "{said}");
        let blocked = said.find("does something on the way stop UDP to port 4500?").expect(&said);
        let answers = said.find(&format!("peer \"other\" answers at {}:4500", OUTER[1 - end])).expect(&said);
        assert!(blocked < answers, "{said}");
        assert_eq!(said.matches("does something on the way").count(), 1, "{said}");
    }
}

#[test]
fn a_refused_call_is_told_at_both_ends_in_words_about_tunnels() {
    let Some(()) = unless(missing()) else { return };
    let mut pair = Pair::keyed("x", "", true);
    pair.wait_for_ping();
    // The caller gets a new key first, then the called gateway.
    pair.kill(0);
    fs::remove_file(pair.folders[0].path().join("identity")).expect("it was made");
    pair.up(0);
    let refused = ended_after(&mut pair, 0, "does not know our key; its site file needs");
    let refusing = ended_after(&mut pair, 1, &format!("refused a call from {}:", OUTER[0]));
    fs::remove_file(pair.folders[1].path().join("identity")).expect("it was made");
    let found = identity(pair.folders[1].path());
    pair.up(1);
    pair.up(0);
    let wrong = ended_after(&mut pair, 0, "our site file says");
    assert!(wrong.contains(&found), "{wrong}");
    for said in [&refused, &refusing, &wrong] {
        for word in ["authorise", "accept-new", "daemon"] {
            assert!(!said.contains(word), "{word}: {said}");
        }
    }
}

/// Keys of Ed25519 and ML-DSA-65 serve as others do, and half of one is none.
#[test]
fn gateways_with_hybrid_keys_agree_and_renew_and_take_nothing_less() {
    let Some(()) = unless(missing()) else { return };
    let mut pair = Pair::keyed_as("hy", "rekey-seconds = 1", true, Manner { is_hybrid: true, ..TUNNEL });
    pair.wait_for_ping();
    let site = fs::read_to_string(pair.site(0)).expect("a site file");
    assert!(site.contains("key = \"sealane2:"), "{site}");
    let first = pair.outbound_spi(0);
    wait_for("keys are renewed", || pair.ping("56") && pair.outbound_spi(0) != first);
    pair.transfer(1 << 20);
    // The called gateway comes back with a key of Ed25519 alone.
    pair.kill(1);
    let file = pair.folders[1].path().join("identity");
    fs::rename(&file, file.with_extension("kept")).expect("it was made");
    let lesser = identity(pair.folders[1].path());
    assert!(lesser.starts_with("sealane1:"), "{lesser}");
    pair.up(1);
    let wrong = ended_after(&mut pair, 0, "our site file says");
    assert!(wrong.contains(&lesser), "{wrong}");
    // With its own key it is let in again.
    let _ = ended(&mut pair, 1);
    fs::rename(file.with_extension("kept"), &file).expect("it was kept");
    pair.up(1);
    pair.up(0);
    pair.wait_for_ping();
}

#[test]
fn another_user_is_told_that_root_sees_the_gateways() {
    let Some(()) = unless(missing()) else { return };
    let folder = tempfile::tempdir().expect("a folder");
    set_mode(folder.path(), 0o755);
    // Other users may not be allowed to enter the folder of this test's program.
    let program = folder.path().join("sealane");
    fs::copy(env!("CARGO_BIN_EXE_sealane"), &program).expect("a program");
    let mut command = Command::new(&program);
    let output =
        command.args(["tunnel", "status"]).uid(65_534).env_remove("SEALANE_RUN").output().expect("it runs");
    let said = text(&output.stderr);
    assert!(!output.status.success() && said.contains("root"), "{said}");
    assert!(!said.contains("no gateway is running here\n"), "{said}");
}

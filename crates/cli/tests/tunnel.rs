//! `sealane tunnel` between two namespaces: packets that pass, packets that do not, and the state that is left when
//! it ends.

mod network;
mod program;

use std::fs;
use std::io::Write;
use std::net::{TcpStream, UdpSocket};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use network::missing;
use network::namespaces;
use network::pair::{AH, DIRECT, INNER, Manner, OUTER, PLAIN, Pair, TRANSPORT, TUNNEL};
use program::{Ends, eventually, secret, text, unless};

#[test]
fn packets_of_all_sizes_go_through_under_every_kind_of_suite() {
    let Some(()) = unless(missing()) else { return };
    for (tag, suite, material_bytes, lanes) in [
        ("g", "aes-128-gcm", 20, "1"),
        ("l", "aes-128-gcm", 20, "2"),
        ("c", "aes-128-cbc+hmac-sha256-128", 48, "1"),
        ("p", "chacha20-poly1305", 36, "2"),
        ("m", "aes-128-ccm-64", 19, "2"),
        ("n", "null+hmac-sha1-96", 20, "1"),
    ] {
        let pair = Pair::new(tag, suite, material_bytes, lanes);
        for size in ["0", "56", "1300", "5000"] {
            assert!(pair.ping(size), "{suite}: {size} bytes");
        }
        pair.transfer(16 << 20);
        let reasons = ["bad_integrity", "replay_duplicate", "replay_too_old", "selector_mismatch", "no_room"];
        pair.none_dropped(suite, &reasons);
    }
}

#[test]
fn both_protocols_go_through_in_both_modes_and_families() {
    let Some(()) = unless(missing()) else { return };
    let cases = [
        ("a", "hmac-sha256-128", 32, "1", Manner { site: AH, ..TUNNEL }),
        ("b", "hmac-sha1-96", 20, "2", Manner { site: AH, is_outer_v6: true, ..TUNNEL }),
        ("c", "hmac-sha512-256", 64, "1", Manner { site: AH, is_inner_v6: true, ..TUNNEL }),
        ("d", "hmac-sha256-128", 32, "1", Manner { site: AH, peer: TRANSPORT, ..TUNNEL }),
        (
            "e",
            "hmac-sha256-128",
            32,
            "1",
            Manner { site: AH, peer: TRANSPORT, is_outer_v6: true, is_inner_v6: true, ..TUNNEL },
        ),
        ("f", "aes-128-gcm", 20, "2", Manner { peer: TRANSPORT, ..TUNNEL }),
        ("g", "aes-128-gcm", 20, "1", Manner { peer: TRANSPORT, is_inner_v6: true, ..TUNNEL }),
        (
            "h",
            "null+hmac-sha1-96",
            20,
            "1",
            Manner { site: PLAIN, peer: TRANSPORT, is_outer_v6: true, ..TUNNEL },
        ),
        ("i", "aes-128-gmac", 20, "1", Manner { site: PLAIN, is_inner_v6: true, ..TUNNEL }),
        ("j", "aes-128-gmac", 20, "2", Manner { site: AH, ..TUNNEL }),
        (
            "k",
            "aes-256-gmac",
            36,
            "1",
            Manner { site: AH, peer: TRANSPORT, is_outer_v6: true, is_inner_v6: true, ..TUNNEL },
        ),
        ("l", "aes-128-gcm", 20, "2", Manner { site: DIRECT, ..TUNNEL }),
        ("m", "aes-128-gcm", 20, "1", Manner { site: DIRECT, peer: TRANSPORT, ..TUNNEL }),
    ];
    for (tag, suite, material_bytes, lanes, manner) in cases {
        let pair = Pair::new_as(&format!("x{tag}"), suite, material_bytes, lanes, manner);
        let kind = pair.status(0)["peers"][0]["associations"][0]["suite"].clone();
        let is_transport = manner.peer == TRANSPORT;
        assert_eq!(kind.as_str().map(|kind| kind.contains("transport")), Some(is_transport), "{kind}");
        for size in ["0", "56", "1300"] {
            assert!(pair.ping(size), "{kind}: {size} bytes; {} {}", pair.status(0), pair.status(1));
        }
        // Transport mode accepts whole packets only (RFC 4303, section 3.3.4).
        assert_eq!(pair.ping("5000"), !is_transport, "{kind}");
        assert_eq!(pair.dropped(0, "fragment") > 0, is_transport, "{kind}");
        pair.transfer(4 << 20);
        pair.none_dropped(&kind, &["bad_integrity", "malformed", "selector_mismatch", "no_room"]);
    }
}

#[test]
fn peers_that_know_their_keys_agree_on_protocol_and_mode() {
    let Some(()) = unless(missing()) else { return };
    for (tag, site, peer) in [("p", AH, ""), ("q", AH, TRANSPORT), ("r", "", TRANSPORT)] {
        let manner = Manner { site, peer, ..TUNNEL };
        let pair = Pair::keyed_as(&format!("y{tag}"), "rekey-seconds = 1", true, manner);
        pair.wait_for_ping();
        let first = pair.outbound_spi(0);
        pair.transfer(4 << 20);
        assert!(eventually(|| pair.outbound_spi(0) != first), "{}", pair.status(0));
        assert!(pair.ping("1300"));
        // Keepalives are not delivered to anybody.
        pair.none_dropped(tag, &["bad_integrity", "malformed", "selector_mismatch"]);
    }
}

#[test]
fn what_is_not_genuine_or_not_new_is_dropped_and_counted() {
    let Some(()) = unless(missing()) else { return };
    let pair = Pair::new("d", "aes-128-cbc+hmac-sha256-128", 48, "1");
    assert!(pair.ping("56"));
    let socket = pair.inside(0, || UdpSocket::bind((OUTER[0], 0)).expect("a port"));
    let mut esp = 0x1000u32.to_be_bytes().to_vec();
    esp.extend_from_slice(&77u32.to_be_bytes());
    esp.extend_from_slice(&[7; 16 + 32 + 16]);
    let stranger = [&0x9999u32.to_be_bytes()[..], &esp[4..]].concat();
    for (datagram, reason) in [
        (&esp[..], "bad_integrity"),
        (&stranger[..], "unknown_spi"),
        (&b"\xfe"[..], "malformed"),
        (&esp[..20], "malformed"),
        (&[0; 40][..], "unknown_spi"),
    ] {
        let before = pair.dropped(1, reason);
        socket.send_to(datagram, (OUTER[1], 4500)).expect("it is sent");
        assert!(eventually(|| pair.dropped(1, reason) != before), "{reason}");
        assert_eq!(pair.dropped(1, reason), before + 1, "{reason}");
    }
    // Packets from strangers have moved neither the window nor the peer's endpoint.
    assert_eq!(pair.status(1)["peers"][0]["endpoint"], format!("{}:4500", OUTER[0]));
    assert!(pair.ping("56"));
}

#[test]
fn a_gateway_that_was_killed_leaves_no_device_and_comes_back_by_itself() {
    let Some(()) = unless(missing()) else { return };
    let mut pair = Pair::new("k", "aes-128-gcm", 20, "1");
    assert!(pair.ping("56"));
    for end in [1, 0] {
        pair.kill(end);
        let output = Command::new("ip").args(["-n", &pair.names[end], "link", "show", "sl0"]).output();
        assert!(!output.expect("ip runs").status.success(), "its device is gone");
        pair.up(end);
        assert!(pair.ping("56"), "numbers go on above those that were used");
    }
    pair.transfer(1 << 20);
}

#[test]
fn a_gateway_is_asked_and_ended() {
    let Some(()) = unless(missing()) else { return };
    let mut pair = Pair::new("s", "aes-128-gcm", 20, "2");
    assert!(pair.ping("56"));
    let status = pair.status(0);
    assert_eq!(status["peers"][0]["name"], "other");
    assert!(status["peers"][0]["received_packets"].as_u64() >= Some(1));
    let stats = pair.output(0, &["stats"]);
    assert!(text(&stats.stdout).contains("sealane_tunnel_sent_packets_total{device=\"sl0\",peer=\"other\"}"));
    // An attacker who takes over the process has only the privileges of its user, in a thread of its engine too.
    let child = pair.gateways[0].as_ref().expect("it runs").id();
    for thread in fs::read_dir(format!("/proc/{child}/task")).expect("it runs") {
        let status = fs::read_to_string(thread.expect("a thread").path().join("status")).expect("it runs");
        for set in ["CapEff", "CapPrm", "CapInh"] {
            assert!(status.contains(&format!("{set}:\t0000000000000000\n")), "{status}");
        }
        assert!(status.contains("NoNewPrivs:\t1\n"), "{status}");
    }
    let second = pair.output(0, &["up", &pair.site(0), "--allow-manual-counter"]).ends(5);
    assert!(text(&second.stderr).contains("tunnel down sl0"), "{}", text(&second.stderr));
    assert!(pair.output(0, &["down", "sl0"]).status.success());
    let mut child = pair.gateways[0].take().expect("it was running");
    assert!(child.wait().expect("it ends").success());
    assert!(
        fs::read_dir(pair.run_folder(0)).expect("the folder stays").next().is_none(),
        "its socket is gone"
    );
    let none = pair.output(0, &["status"]);
    assert_eq!((none.status.code(), text(&none.stderr)), (Some(3), "sealane: no gateway is running here\n"));
}

#[test]
fn suites_that_are_not_safe_need_consent() {
    let folder = tempfile::tempdir().expect("a folder");
    let site = folder.path().join("site.toml");
    let check = |suite: &str, material_bytes: usize, options: &[&str]| {
        for (name, byte) in [("a.key", "5a"), ("b.key", "a5")] {
            secret(folder.path().join(name), &byte.repeat(material_bytes));
        }
        let text = format!(
            "device = \"sl0\"\nlisten = \"0.0.0.0:4500\"\n[[peers]]\nname = \"p\"\nnetworks = [\"10.0.0.0/8\"]\n\
             [peers.manual]\nsuite = \"{suite}\"\nsend = {{ spi = 300, key-file = \"a.key\" }}\n\
             receive = {{ spi = 300, key-file = \"b.key\" }}\n"
        );
        fs::write(&site, text).expect("a site file");
        let arguments = [&["tunnel", "check", site.to_str().expect("a path in UTF-8")], options].concat();
        program::sealane(&arguments).output().expect("it runs")
    };
    for (suite, material_bytes, option) in
        [("aes-128-gcm", 20, "--allow-manual-counter"), ("3des-cbc+hmac-sha1-96", 44, "--allow-legacy")]
    {
        check(suite, material_bytes, &[]).complains(2, &[option]);
        assert!(check(suite, material_bytes, &[option]).status.success());
    }
    assert!(check("aes-128-cbc+hmac-sha256-128", 48, &[]).status.success());
    let unknown = check("rot13", 48, &[]);
    assert!(text(&unknown.stderr).contains("site.toml:7:9: unknown suite"), "{}", text(&unknown.stderr));
    let short = check("aes-128-cbc+hmac-sha256-128", 47, &[]);
    assert!(text(&short.stderr).contains("openssl rand -hex 48"), "{}", text(&short.stderr));
}

#[test]
fn peers_that_know_their_keys_rekey_under_load_without_losing_a_packet() {
    let Some(()) = unless(missing()) else { return };
    let pair = Pair::keyed("r", "rekey-seconds = 1", false);
    pair.wait_for_ping();
    let mut spis = std::collections::BTreeSet::new();
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        let pings = scope.spawn(|| {
            while !is_done.load(SeqCst) {
                let mut ping = namespaces::command(&pair.names[0], "ping");
                ping.args(["-q", "-i", "0.01", "-c", "300", "-W", "2"]);
                let said = ping.arg(INNER[1]).output().expect("ping runs").stdout;
                assert!(text(&said).contains(" 0% packet loss"), "{}", text(&said));
            }
        });
        let deadline = Instant::now() + Duration::from_secs(180);
        // Each index is a new pair of keys.
        while spis.len() <= 20 && !pings.is_finished() {
            assert!(Instant::now() < deadline, "{spis:?}");
            pair.transfer(1 << 20);
            spis.insert(pair.outbound_spi(0));
        }
        is_done.store(true, SeqCst);
        pings.join().expect("no packet is lost");
    });
    assert!(spis.len() > 20, "{spis:?}");
    // Before the first negotiation there is no association.
    pair.none_dropped("", &["bad_integrity", "replay_duplicate", "replay_too_old", "unknown_spi"]);
}

#[test]
fn a_keyed_gateway_that_was_killed_comes_back_by_itself() {
    let Some(()) = unless(missing()) else { return };
    let mut pair = Pair::keyed("b", "", true);
    pair.wait_for_ping();
    // The caller calls again as soon as it is up; the other is found to be dead.
    for end in [0, 1] {
        pair.kill(end);
        pair.up(end);
        pair.wait_for_ping();
    }
    pair.transfer(1 << 20);
}

#[test]
fn a_peer_is_where_its_newest_genuine_packet_came_from() {
    let Some(()) = unless(missing()) else { return };
    let pair = Pair::keyed("m", "", true);
    pair.wait_for_ping();
    assert_eq!(pair.status(1)["peers"][0]["endpoint"], format!("{}:4500", OUTER[0]));
    network::readdress(&pair.names[0], OUTER[0]);
    pair.wait_for_ping();
    assert_eq!(pair.status(1)["peers"][0]["endpoint"], "10.90.0.77:4500");
}

#[test]
fn a_gateway_with_another_key_gets_no_association() {
    let Some(()) = unless(missing()) else { return };
    let mut pair = Pair::keyed("x", "", true);
    pair.wait_for_ping();
    pair.kill(0);
    let own = pair.folders[0].path().join("identity");
    fs::remove_file(&own).expect("it was made");
    pair.up(0);
    let deadline = Instant::now() + Duration::from_secs(5);
    while Instant::now() < deadline {
        assert!(!pair.ping("56"));
    }
    assert_eq!(pair.outbound_spi(0), 0);
    // Neither a stranger's call nor its garbage moves anything at the other end.
    let mut stranger = pair.inside(0, || TcpStream::connect((OUTER[1], 4500)).expect("it listens"));
    stranger.write_all(&[0x16; 4096]).expect("it is sent");
    assert_eq!(pair.status(1)["peers"][0]["endpoint"], format!("{}:4500", OUTER[0]));
}

//! `sealane tunnel` between two namespaces: what goes through, what does not, and what is left when it ends.

mod network;
mod program;

use std::fs::{self, File};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use network::{ip, missing};
use program::{pattern, skip, text};

/// Inner addresses of the two ends.
const INNER: [&str; 2] = ["10.91.1.1", "10.91.2.1"];
/// Outer addresses.
const OUTER: [&str; 2] = ["10.90.0.1", "10.90.0.2"];

/// How two gateways protect, beyond the suite.
#[derive(Clone, Copy)]
struct Manner {
    /// Of the first lines of a site file.
    site: &'static str,
    /// Of the peer's.
    peer: &'static str,
    is_outer_v6: bool,
    is_inner_v6: bool,
}

const TUNNEL: Manner = Manner { site: "", peer: "", is_outer_v6: false, is_inner_v6: false };
const PLAIN: &str = "encapsulation = \"none\"\n";
const AH: &str = "encapsulation = \"none\"\nprotocol = \"ah\"\n";
const TRANSPORT: &str = "mode = \"transport\"\n";

impl Manner {
    fn outer(self, end: usize) -> &'static str {
        if self.is_outer_v6 { ["[fd90::1]", "[fd90::2]"][end] } else { OUTER[end] }
    }

    /// An end's address inside, and the bits of a host's network.
    fn inner(self, end: usize) -> (&'static str, u8) {
        if self.is_inner_v6 { (["fd91:1::1", "fd91:2::1"][end], 128) } else { (INNER[end], 32) }
    }
}

/// Two namespaces, a link between them, and a gateway in each.
struct Pair {
    names: [String; 2],
    folders: [tempfile::TempDir; 2],
    gateways: [Option<Child>; 2],
    lanes: &'static str,
    manner: Manner,
}

/// Two namespaces with a link between them.
fn linked(tag: &str) -> [String; 2] {
    let names = [0, 1].map(|end| format!("slt{tag}{end}-{}", std::process::id()));
    for name in &names {
        ip(&format!("netns add {name}"));
    }
    let [near, far] = &names;
    ip(&format!("link add o0 netns {near} type veth peer name o1 netns {far}"));
    for (end, name) in names.iter().enumerate() {
        ip(&format!("-n {name} address add {}/24 dev o{end}", OUTER[end]));
        ip(&format!("-n {name} address add fd90::{}/64 dev o{end} nodad", end + 1));
        ip(&format!("-n {name} link set o{end} up"));
        ip(&format!("-n {name} link set lo up"));
    }
    names
}

/// Makes an identity and says its public key.
fn identity(folder: &Path) -> String {
    let file = folder.join("identity");
    let made = program::sealane(&["id", "--identity", file.to_str().expect("a path in UTF-8")]).output();
    text(&made.expect("it runs").stdout).trim().to_owned()
}

impl Pair {
    /// Two ends that know each other's keys; `more` is added to what each says of the other. Only the first has an end point to
    /// call if `has_one_caller`.
    fn keyed(tag: &str, more: &str, has_one_caller: bool) -> Self {
        Self::keyed_as(tag, more, has_one_caller, TUNNEL)
    }

    fn keyed_as(tag: &str, more: &str, has_one_caller: bool, manner: Manner) -> Self {
        let names = linked(tag);
        let folders = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
        let keys = [0, 1].map(|end: usize| identity(folders[end].path()));
        for (end, folder) in folders.iter().enumerate() {
            let other = 1 - end;
            let endpoint = match has_one_caller && end == 1 {
                true => String::new(),
                false => format!("endpoint = \"{}:4500\"\n", OUTER[other]),
            };
            let site = format!(
                "device = \"sl0\"\nlisten = \"{}:4500\"\nidentity = \"identity\"\n{}addresses = [\"{}/32\"]\n\
                 [[peers]]\nname = \"other\"\nkey = \"{}\"\nnetworks = [\"{}/32\"]\n{}{endpoint}{more}\n",
                if manner.site == AH { OUTER[end] } else { "0.0.0.0" },
                manner.site,
                INNER[end],
                keys[other],
                INNER[other],
                manner.peer,
            );
            fs::write(folder.path().join("site.toml"), site).expect("a site file");
        }
        let mut pair = Self { names, folders, gateways: [None, None], lanes: "1", manner };
        pair.up(0);
        pair.up(1);
        pair
    }

    /// Waits until packets come through.
    fn wait_for_ping(&self) {
        let deadline = Instant::now() + Duration::from_secs(60);
        while !self.ping("56") {
            assert!(Instant::now() < deadline, "{}", self.status(0));
        }
    }

    fn kill(&mut self, end: usize) {
        let mut child = self.gateways[end].take().expect("it runs");
        // `ip netns exec` has become the program.
        child.kill().expect("it runs");
        child.wait().expect("it ends");
    }

    /// The index under which an end sends.
    fn outbound_spi(&self, end: usize) -> u64 {
        let status = self.status(end);
        let associations = status["peers"][0]["associations"].as_array().expect("a list").clone();
        let out = associations.iter().find(|association| association["direction"] == "out");
        out.map_or(0, |association| association["spi"].as_u64().expect("a number"))
    }

    fn new(tag: &str, suite: &str, material_bytes: usize, lanes: &'static str) -> Self {
        Self::new_as(tag, suite, material_bytes, lanes, TUNNEL)
    }

    fn new_as(tag: &str, suite: &str, material_bytes: usize, lanes: &'static str, manner: Manner) -> Self {
        let names = linked(tag);
        let folders = [(); 2].map(|()| tempfile::tempdir().expect("a folder"));
        let hex = |seed: usize| -> String {
            (0..material_bytes).map(|at| format!("{:02x}", (at * 7 + seed) % 256)).collect()
        };
        for (end, folder) in folders.iter().enumerate() {
            let other = 1 - end;
            let bits = manner.inner(end).1;
            for (name, seed) in [("send.key", 10 + end), ("receive.key", 10 + other)] {
                let path = folder.path().join(name);
                fs::write(&path, hex(seed)).expect("a key file");
                fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("a mode");
            }
            let site = format!(
                r#"device = "sl0"
listen = "{}:4500"
{}addresses = ["{}/{bits}"]
[[peers]]
name = "other"
endpoint = "{}:4500"
networks = ["{}/{bits}"]
{}[peers.manual]
suite = "{suite}"
send = {{ spi = {}, key-file = "send.key" }}
receive = {{ spi = {}, key-file = "receive.key" }}
"#,
                manner.outer(end),
                manner.site,
                manner.inner(end).0,
                manner.outer(other),
                manner.inner(other).0,
                manner.peer,
                0x1000 + end,
                0x1000 + other,
            );
            fs::write(folder.path().join("site.toml"), site).expect("a site file");
        }
        let mut pair = Self { names, folders, gateways: [None, None], lanes, manner };
        pair.up(0);
        pair.up(1);
        pair
    }

    fn run_folder(&self, end: usize) -> PathBuf {
        self.folders[end].path().join("run")
    }

    /// A `sealane tunnel` command inside an end's namespace.
    fn tunnel(&self, end: usize, arguments: &[&str]) -> Command {
        let mut command = Command::new("ip");
        command
            .args(["netns", "exec", &self.names[end], env!("CARGO_BIN_EXE_sealane"), "tunnel"])
            .args(arguments);
        command.env("SEALANE_RUN", self.run_folder(end));
        command
    }

    fn up(&mut self, end: usize) {
        let site = self.folders[end].path().join("site.toml");
        let site = site.to_str().expect("a path in UTF-8");
        let mut child = self
            .tunnel(end, &["up", site, "--lanes", self.lanes, "--allow-manual-counter"])
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let mut said = [0; 6];
        child.stderr.as_mut().expect("it is a pipe").read_exact(&mut said).expect("it says that it is up");
        assert_eq!(&said, b"sl0 is");
        self.gateways[end] = Some(child);
    }

    fn output(&self, end: usize, arguments: &[&str]) -> Output {
        self.tunnel(end, arguments).output().expect("it runs")
    }

    fn status(&self, end: usize) -> serde_json::Value {
        let output = self.output(end, &["status", "--json"]);
        assert!(output.status.success(), "{}", text(&output.stderr));
        serde_json::from_slice(&output.stdout).expect("it is JSON")
    }

    fn dropped(&self, end: usize, reason: &str) -> u64 {
        let status = self.status(end);
        let drops = status["drops"].as_array().expect("a list").clone();
        drops.iter().find(|drop| drop[0] == reason).map_or(0, |drop| drop[1].as_u64().expect("a count"))
    }

    /// Pieces that an end's kernel has cut packets into.
    fn pieces_made(&self, end: usize) -> u64 {
        let snmp =
            self.inside(end, || fs::read_to_string("/proc/thread-self/net/snmp").expect("Linux has it"));
        let mut lines = snmp.lines().filter(|line| line.starts_with("Ip:"));
        let (names, values) = (lines.next().expect("names"), lines.next().expect("values"));
        let mut fields = names.split(' ').zip(values.split(' '));
        let (_, made) = fields.find(|(name, _)| *name == "FragCreates").expect("it counts them");
        made.parse().expect("a number")
    }

    fn ping(&self, size: &str) -> bool {
        let inner = self.manner.inner(1).0;
        let arguments = ["netns", "exec", &self.names[0], "ping", "-c", "1", "-W", "2", "-s", size, inner];
        Command::new("ip").args(arguments).output().expect("ping runs").status.success()
    }

    /// Runs `work` on a thread of an end's namespace, where its sockets then belong.
    fn inside<T: Send>(&self, end: usize, work: impl FnOnce() -> T + Send) -> T {
        let file = File::open(format!("/run/netns/{}", self.names[end])).expect("a namespace");
        thread::scope(|scope| {
            let entered = scope.spawn(move || {
                use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
                use std::os::fd::AsFd;
                move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))
                    .expect("we are root");
                work()
            });
            entered.join().expect("no panic")
        })
    }

    /// Sends `bytes` over TCP from one end to the other and compares them.
    fn transfer(&self, bytes: usize) {
        let listener = self.inside(1, || TcpListener::bind((self.manner.inner(1).0, 0)).expect("a port"));
        let port = listener.local_addr().expect("a port").port();
        let mut near =
            self.inside(0, || TcpStream::connect((self.manner.inner(1).0, port)).expect("the other end"));
        let (mut far, _) = listener.accept().expect("a connection");
        far.set_read_timeout(Some(Duration::from_secs(60))).expect("a stream");
        let sent = pattern(bytes);
        let expected = sent.clone();
        let sender = thread::spawn(move || near.write_all(&sent).expect("the other end reads"));
        let mut got = Vec::new();
        far.read_to_end(&mut got).expect("all of it");
        sender.join().expect("no panic");
        assert!(got == expected, "{} bytes of {bytes}", got.len());
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        for child in self.gateways.iter_mut().flatten() {
            let _ = child.kill();
            let _ = child.wait();
        }
        for name in &self.names {
            let _ = Command::new("ip").args(["netns", "del", name]).output();
        }
    }
}

#[test]
fn packets_of_all_sizes_go_through_under_every_kind_of_suite() {
    if let Some(why) = missing() {
        return skip(&why);
    }
    for (tag, suite, material_bytes, lanes) in [
        ("g", "aes-128-gcm", 20, "1"),
        ("l", "aes-128-gcm", 20, "2"),
        ("c", "aes-128-cbc+hmac-sha256-128", 48, "1"),
        ("p", "chacha20-poly1305", 36, "2"),
        ("n", "null+hmac-sha1-96", 20, "1"),
    ] {
        let pair = Pair::new(tag, suite, material_bytes, lanes);
        for size in ["0", "56", "1300", "5000"] {
            assert!(pair.ping(size), "{suite}: {size} bytes");
        }
        pair.transfer(16 << 20);
        for end in [0, 1] {
            for reason in
                ["bad_integrity", "replay_duplicate", "replay_too_old", "selector_mismatch", "no_room"]
            {
                assert_eq!(pair.dropped(end, reason), 0, "{suite}: {reason}");
            }
        }
    }
}

#[test]
fn both_protocols_go_through_in_both_modes_and_families() {
    if let Some(why) = missing() {
        return skip(&why);
    }
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
            Manner { site: AH, peer: TRANSPORT, is_outer_v6: true, is_inner_v6: true },
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
            Manner { site: AH, peer: TRANSPORT, is_outer_v6: true, is_inner_v6: true },
        ),
    ];
    for (tag, suite, material_bytes, lanes, manner) in cases {
        let pair = Pair::new_as(&format!("x{tag}"), suite, material_bytes, lanes, manner);
        let kind = pair.status(0)["peers"][0]["associations"][0]["suite"].clone();
        let is_transport = manner.peer == TRANSPORT;
        assert_eq!(kind.as_str().map(|kind| kind.contains("transport")), Some(is_transport), "{kind}");
        for size in ["0", "56", "1300"] {
            assert!(pair.ping(size), "{kind}: {size} bytes; {} {}", pair.status(0), pair.status(1));
        }
        // Transport mode takes whole packets only (RFC 4303, section 3.3.4).
        assert_eq!(pair.ping("5000"), !is_transport, "{kind}");
        assert_eq!(pair.dropped(0, "fragment") > 0, is_transport, "{kind}");
        pair.transfer(4 << 20);
        for end in [0, 1] {
            for reason in ["bad_integrity", "malformed", "selector_mismatch", "no_room"] {
                assert_eq!(pair.dropped(end, reason), 0, "{kind}: {reason}");
            }
        }
    }
}

#[test]
fn peers_that_know_their_keys_agree_on_protocol_and_mode() {
    if let Some(why) = missing() {
        return skip(&why);
    }
    for (tag, site, peer) in [("p", AH, ""), ("q", AH, TRANSPORT), ("r", "", TRANSPORT)] {
        let manner = Manner { site, peer, ..TUNNEL };
        let pair = Pair::keyed_as(&format!("y{tag}"), "rekey-seconds = 1", true, manner);
        pair.wait_for_ping();
        let first = pair.outbound_spi(0);
        pair.transfer(4 << 20);
        let deadline = Instant::now() + Duration::from_secs(10);
        while pair.outbound_spi(0) == first {
            assert!(Instant::now() < deadline, "{}", pair.status(0));
            thread::sleep(Duration::from_millis(50));
        }
        assert!(pair.ping("1300"));
        // Signs of life are no packets for anybody.
        for end in [0, 1] {
            for reason in ["bad_integrity", "malformed", "selector_mismatch"] {
                assert_eq!(pair.dropped(end, reason), 0, "{tag}: {reason}");
            }
        }
    }
}

#[test]
fn what_is_not_genuine_or_not_new_is_dropped_and_counted() {
    if let Some(why) = missing() {
        return skip(&why);
    }
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
        (&b"\xff"[..], "malformed"),
        (&esp[..20], "malformed"),
        (&[0; 40][..], "unknown_spi"),
    ] {
        let before = pair.dropped(1, reason);
        socket.send_to(datagram, (OUTER[1], 4500)).expect("it is sent");
        let deadline = Instant::now() + Duration::from_secs(5);
        while pair.dropped(1, reason) == before {
            assert!(Instant::now() < deadline, "{reason}");
            thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(pair.dropped(1, reason), before + 1, "{reason}");
    }
    // What strangers sent has moved neither the window nor the peer's end point.
    assert_eq!(pair.status(1)["peers"][0]["endpoint"], format!("{}:4500", OUTER[0]));
    assert!(pair.ping("56"));
}

#[test]
fn a_gateway_that_was_killed_leaves_nothing_and_comes_back_by_itself() {
    if let Some(why) = missing() {
        return skip(&why);
    }
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
    if let Some(why) = missing() {
        return skip(&why);
    }
    let mut pair = Pair::new("s", "aes-128-gcm", 20, "1");
    assert!(pair.ping("56"));
    let status = pair.status(0);
    assert_eq!(status["peers"][0]["name"], "other");
    assert!(status["peers"][0]["received_packets"].as_u64() >= Some(1));
    let stats = pair.output(0, &["stats"]);
    assert!(text(&stats.stdout).contains("sealane_tunnel_sent_packets_total{device=\"sl0\",peer=\"other\"}"));
    let site = pair.folders[0].path().join("site.toml");
    // Whoever takes it over has no privilege but those of its user.
    let child = pair.gateways[0].as_ref().expect("it runs").id();
    for thread in fs::read_dir(format!("/proc/{child}/task")).expect("it runs") {
        let status = fs::read_to_string(thread.expect("a thread").path().join("status")).expect("it runs");
        for set in ["CapEff", "CapPrm", "CapInh"] {
            assert!(status.contains(&format!("{set}:\t0000000000000000\n")), "{status}");
        }
        assert!(status.contains("NoNewPrivs:\t1\n"), "{status}");
    }
    let second = pair.output(0, &["up", site.to_str().expect("a path in UTF-8"), "--allow-manual-counter"]);
    assert_eq!(second.status.code(), Some(5));
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
        for name in ["a.key", "b.key"] {
            let path = folder.path().join(name);
            fs::write(&path, "5a".repeat(material_bytes)).expect("a key file");
            fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("a mode");
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
        let refused = check(suite, material_bytes, &[]);
        assert_eq!(refused.status.code(), Some(2));
        assert!(text(&refused.stderr).contains(option), "{}", text(&refused.stderr));
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
    if let Some(why) = missing() {
        return skip(&why);
    }
    let pair = Pair::keyed("r", "rekey-seconds = 1", false);
    pair.wait_for_ping();
    let mut spis = std::collections::BTreeSet::new();
    let is_done = AtomicBool::new(false);
    thread::scope(|scope| {
        let pings = scope.spawn(|| {
            while !is_done.load(SeqCst) {
                let mut ping = Command::new("ip");
                ping.args([
                    "netns",
                    "exec",
                    &pair.names[0],
                    "ping",
                    "-q",
                    "-i",
                    "0.01",
                    "-c",
                    "300",
                    "-W",
                    "2",
                ]);
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
    for end in [0, 1] {
        for reason in ["bad_integrity", "replay_duplicate", "replay_too_old", "unknown_spi", "no_association"]
        {
            // Before the first agreement there is none.
            let allowed = if reason == "no_association" { u64::MAX } else { 0 };
            assert!(pair.dropped(end, reason) <= allowed, "{reason}");
        }
    }
}

#[test]
fn a_keyed_gateway_that_was_killed_comes_back_by_itself() {
    if let Some(why) = missing() {
        return skip(&why);
    }
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
    if let Some(why) = missing() {
        return skip(&why);
    }
    let pair = Pair::keyed("m", "", true);
    pair.wait_for_ping();
    assert_eq!(pair.status(1)["peers"][0]["endpoint"], format!("{}:4500", OUTER[0]));
    let name = &pair.names[0];
    ip(&format!("-n {name} address add 10.90.0.77/24 dev o0"));
    ip(&format!("-n {name} address del {}/24 dev o0", OUTER[0]));
    ip(&format!("-n {name} address replace 10.90.0.77/24 dev o0"));
    pair.wait_for_ping();
    assert_eq!(pair.status(1)["peers"][0]["endpoint"], "10.90.0.77:4500");
}

#[test]
fn a_gateway_with_another_key_gets_no_association() {
    if let Some(why) = missing() {
        return skip(&why);
    }
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
    // Neither a stranger's call nor its noise moves anything at the other end.
    let mut stranger = pair.inside(0, || TcpStream::connect((OUTER[1], 4500)).expect("it listens"));
    stranger.write_all(&[0x16; 4096]).expect("it is sent");
    assert_eq!(pair.status(1)["peers"][0]["endpoint"], format!("{}:4500", OUTER[0]));
}

/// Says to the first end that a packet to the second was too long for a link of `mtu` bytes; of the packet it quotes the IP header
/// and what followed it.
fn say_too_long(pair: &Pair, mtu: u16, protocol: u8, behind: &[u8]) {
    use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, ipproto, sendto, socket_with};
    let sum = |bytes: &[u8]| {
        let sum: u32 = bytes.chunks(2).map(|pair| u32::from(pair[0]) << 8 | u32::from(pair[1])).sum();
        let folded = (sum & 0xffff) + (sum >> 16);
        !(folded as u16 + (folded >> 16) as u16)
    };
    let address = |end: usize| OUTER[end].parse::<std::net::Ipv4Addr>().expect("an address").octets();
    let mut quoted = vec![0x45, 0, 5, 0xdc, 0, 1, 0x40, 0, 64, protocol, 0, 0];
    quoted.extend([address(0), address(1)].concat());
    let check = sum(&quoted).to_be_bytes();
    quoted[10..12].copy_from_slice(&check);
    quoted.extend(behind);
    // Fragmentation needed (RFC 792, RFC 1191).
    let mut message = [&[3, 4, 0, 0, 0, 0][..], &mtu.to_be_bytes(), &quoted].concat();
    let check = sum(&message).to_be_bytes();
    message[2..4].copy_from_slice(&check);
    pair.inside(1, || {
        let socket =
            socket_with(AddressFamily::INET, SocketType::RAW, SocketFlags::CLOEXEC, Some(ipproto::ICMP))
                .expect("we are root");
        let to: std::net::SocketAddr = format!("{}:0", OUTER[0]).parse().expect("an address");
        sendto(&socket, &message, SendFlags::empty(), &to).expect("it is sent");
    });
}

/// UDP's header between these ports, and what it carries.
fn datagram(ports: [u16; 2], carried: &[u8]) -> Vec<u8> {
    [&ports[0].to_be_bytes()[..], &ports[1].to_be_bytes(), &[5, 0xc8, 0, 0], carried].concat()
}

#[test]
fn forged_messages_of_narrow_paths_do_no_harm() {
    if let Some(why) = missing() {
        return skip(&why);
    }
    let mtu = |pair: &Pair| pair.status(0)["peers"][0]["mtu_bytes"].as_u64().expect("a number");
    let messages = |pair: &Pair, verdict: &str| {
        let said = pair.status(0)["path_messages"].as_array().expect("a list").clone();
        said.iter().find(|said| said[0] == verdict).map_or(0, |said| said[1].as_u64().expect("a count"))
    };
    // Waits until one more message was heard, and was worth this.
    let wait = |pair: &Pair, verdict: &str, count: u64| {
        let deadline = Instant::now() + Duration::from_secs(10);
        while messages(pair, verdict) < count {
            assert!(Instant::now() < deadline, "{verdict}: {}", pair.status(0));
            thread::sleep(Duration::from_millis(20));
        }
        assert_eq!(messages(pair, verdict), count);
    };
    // What fits into 1,280 bytes outside, under this suite.
    for (tag, site, protocol, bounded) in [("i", "", 17, 1218), ("j", PLAIN, 50, 1226)] {
        let pair = Pair::new_as(tag, "aes-128-gcm", 20, "1", Manner { site, ..TUNNEL });
        assert!(pair.ping("56"));
        let whole = mtu(&pair);
        let status = pair.status(0);
        let out = &status["peers"][0]["associations"][0];
        let field = |name: &str| out[name].as_u64().expect("a number") as u32;
        let (spi, next) = (field("spi"), field("number"));
        let esp = |spi: u32, number: u32| [spi.to_be_bytes(), number.to_be_bytes()].concat();
        let quote = |ports: [u16; 2], esp: &[u8]| match protocol {
            17 => datagram(ports, esp),
            _ => esp.to_vec(),
        };
        // Of packets of others, as far as anybody can guess them.
        let foreign = [(spi ^ 1, next - 1), (spi, next), (spi, next + 77), (spi, 0)];
        for (count, (spi, number)) in (1..).zip(foreign) {
            say_too_long(&pair, 700, protocol, &quote([4500, 4500], &esp(spi, number)));
            wait(&pair, "foreign", count);
        }
        if protocol == 17 {
            // These are for other sockets, and we do not hear of them.
            for ports in [[4501, 4500], [7, 9]] {
                say_too_long(&pair, 700, protocol, &datagram(ports, &esp(spi, next - 1)));
            }
            say_too_long(&pair, 700, protocol, &datagram([4500, 4501], &esp(spi, next - 1)));
            wait(&pair, "foreign", 1 + foreign.len() as u64);
        }
        assert_eq!(mtu(&pair), whole);
        // The kernel has believed them all, and what is sent does not care: nothing is cut.
        pair.transfer(1 << 20);
        assert_eq!(pair.pieces_made(0), 0);
        // Who quotes too little makes packets shorter, but no shorter than every link of IPv6 takes.
        if protocol == 17 {
            say_too_long(&pair, 68, protocol, &datagram([4500, 4500], &[]));
            wait(&pair, "hint", 1);
            assert_eq!(mtu(&pair), bounded);
            pair.transfer(1 << 20);
        }
        // Who has seen a packet of ours is on the path, and is believed; nothing is lost.
        say_too_long(&pair, 68, protocol, &quote([4500, 4500], &esp(spi, next - 1)));
        wait(&pair, "believed", 1);
        // RFC 791, section 3.1.
        assert_eq!(mtu(&pair), 576);
        for size in ["56", "1300"] {
            // The first that is too long is answered by what fits.
            assert!(pair.ping(size) || pair.ping(size), "{size} bytes");
        }
        pair.transfer(1 << 20);
    }
}

#[test]
fn devices_and_links_of_every_length_carry_packets() {
    if let Some(why) = missing() {
        return skip(&why);
    }
    for (tag, site, link_bytes) in [
        ("s", "mtu = 1280\n", 1500),
        ("l", "mtu = 9000\n", 9200),
        // Longer inside than outside: what may be cut is cut, and senders are told.
        ("n", "mtu = 9000\n", 1500),
    ] {
        let pair = Pair::new_as(&format!("u{tag}"), "aes-128-gcm", 20, "1", Manner { site, ..TUNNEL });
        for (end, name) in pair.names.iter().enumerate() {
            ip(&format!("-n {name} link set o{end} mtu {link_bytes}"));
        }
        // The kernel is asked about the path once a second.
        thread::sleep(Duration::from_millis(1500));
        for size in ["56", "1252", "1300", "8972", "20000"] {
            // The first packet that is too long may be lost to whoever is told so.
            assert!(pair.ping(size) || pair.ping(size), "{site}{link_bytes}: {size} bytes");
        }
        pair.transfer(8 << 20);
        for end in [0, 1] {
            for reason in ["bad_integrity", "malformed", "no_room"] {
                assert_eq!(pair.dropped(end, reason), 0, "{site}{link_bytes}: {reason}");
            }
        }
    }
}

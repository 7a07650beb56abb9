//! Changes that `sealane tunnel` makes to its host, and those that remain: after `down`, after an `up` that fails,
//! after SIGKILL, and after the device was set down. Packets that leave in clear in the meantime, and packets that
//! come in.

mod network;
mod program;

use std::fs;
use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use network::namespaces::ip;
use network::{Net, missing};
use program::{Ends, Running, eventually, skip, text, unless};
use rustix::net::{AddressFamily, Protocol, RecvFlags, SocketFlags, SocketType, recv, socket_with};
use serde_json::Value;

/// The bytes by which a leak is recognised: `ping` fills its packets with them.
const PATTERN: &str = "5ea1de5ea1de";
const PATTERN_BYTES: [u8; 6] = [0x5e, 0xa1, 0xde, 0x5e, 0xa1, 0xde];
/// The protocol number of our routes and rules; `ip` shows who has set one.
const OURS: &str = "83";

/// A gateway whose output is read.
struct Gateway {
    child: Running,
    words: Receiver<String>,
}

impl Gateway {
    /// Waits until it prints this.
    fn says(&self, part: &str) -> String {
        let mut all = Vec::new();
        loop {
            match self.words.recv_timeout(Duration::from_secs(60)) {
                Ok(line) if line.contains(part) => return line,
                Ok(line) => all.push(line),
                Err(_) => panic!("it does not say {part:?}: {all:?}"),
            }
        }
    }

    fn kill(mut self) {
        self.child.kill().expect("it runs");
        self.child.wait().expect("it ends");
        // The process that guards the host ends after it, and then the output ends.
        while self.words.recv_timeout(Duration::from_secs(60)).is_ok() {}
    }
}

impl Net {
    fn site(&self, host: &str, rest: &str) -> String {
        let path = self.folder.path().join(format!("{host}.toml"));
        fs::write(&path, format!("device = \"sl0\"\nidentity = \"{host}.identity\"\n{rest}"))
            .expect("a site file");
        path.to_str().expect("a path in UTF-8").to_owned()
    }

    fn up(&self, host: &str, rest: &str) -> Gateway {
        let site = self.site(host, rest);
        let mut child = self.tunnel(host, "up").arg(site).stderr(Stdio::piped()).spawn().expect("it starts");
        let lines = BufReader::new(child.stderr.take().expect("it is a pipe")).lines();
        let (say, words) = channel();
        thread::spawn(move || lines.map_while(Result::ok).try_for_each(|line| say.send(line)));
        let gateway = Gateway { child: Running(child), words };
        gateway.says("sl0 is up");
        gateway
    }

    /// Returns all routes, rules and addresses of both families, in an order of their own.
    fn picture(&self, host: &str) -> Vec<String> {
        let mut picture = Vec::new();
        for words in ["-4 route show table all", "-6 route show table all", "-4 rule", "-6 rule", "address"] {
            let said = self.run(host, "ip", &format!("-j {words}"));
            let entries: Vec<Value> = serde_json::from_slice(&said.stdout).expect("ip -j prints JSON");
            picture.extend(entries.iter().map(|entry| format!("{words}: {entry}")));
        }
        picture.sort();
        picture
    }

    /// Returns the same, after addresses have settled.
    fn settled(&self, host: &str) -> Vec<String> {
        let is_settled = || self.run(host, "ip", "-6 address show tentative").stdout.is_empty();
        assert!(eventually(is_settled), "{:?}", self.picture(host));
        self.picture(host)
    }

    fn pings(&self, from: &str, to: &str) -> bool {
        self.run(from, "ping", &format!("-c 1 -W 5 -p {PATTERN} {to}")).status.success()
    }

    /// Returns whether packets with the pattern arrive at a host while `work` runs.
    fn arrives(&self, host: &str, work: impl FnOnce()) -> bool {
        // This is ETH_P_ALL, as the kernel expects it.
        let all = Protocol::from_raw(u32::from(3u16.to_be()).try_into().expect("not 0"));
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let socket = self.inside(host, || {
            socket_with(AddressFamily::PACKET, SocketType::RAW, flags, Some(all)).expect("we are root")
        });
        work();
        let mut frame = [0; 2048];
        let mut found = false;
        while let Ok((bytes, _)) = recv(&socket, &mut frame, RecvFlags::empty()) {
            found |= frame[..bytes].windows(PATTERN_BYTES.len()).any(|window| window == PATTERN_BYTES);
        }
        found
    }
}

/// Returns the lines of `after` that are not in `before`. All of `before` must still be there.
fn added<'a>(before: &[String], after: &'a [String]) -> Vec<&'a String> {
    for entry in before {
        assert!(after.contains(entry), "gone: {entry}");
    }
    after.iter().filter(|entry| !before.contains(entry)).collect()
}

/// Makes a host on the road, a router that knows no networks behind the office, the office's gateway, and a host
/// beyond it.
fn road(tag: &str) -> (Net, String) {
    let net = Net::new(tag, &["a", "r", "g", "w"]);
    net.link([("a", "o0", "198.51.100.2/24"), ("r", "r0", "198.51.100.1/24")], 1500);
    net.link([("r", "r1", "192.0.2.254/24"), ("g", "o1", "192.0.2.1/24")], 1500);
    net.link([("g", "h0", "203.0.113.1/24"), ("w", "h1", "203.0.113.2/24")], 1500);
    for (host, words) in [
        ("a", "address add 2001:db8:a::2/64 dev o0 nodad"),
        ("r", "address add 2001:db8:a::1/64 dev r0 nodad"),
        ("g", "address add 2001:db8:c::1/64 dev h0 nodad"),
        ("w", "address add 2001:db8:c::2/64 dev h1 nodad"),
        ("a", "route add default via 198.51.100.1"),
        ("a", "-6 route add default via 2001:db8:a::1"),
        ("g", "route add default via 192.0.2.254"),
        ("w", "route add default via 203.0.113.1"),
        ("w", "-6 route add default via 2001:db8:c::1"),
    ] {
        ip(&format!("-n {} {words}", net.name(host)));
    }
    net.run("g", "sysctl", "-qw net.ipv6.conf.all.forwarding=1").ends(0);
    let (road, office) = (net.key("a"), net.key("g"));
    // Keys are renewed often, so calls are made while everything goes through the tunnel.
    let gateway = format!(
        "listen = \"0.0.0.0:4500\"\naddresses = [\"10.91.0.1/32\"]\n[[peers]]\nname = \"road\"\nkey = \"{road}\"\n\
         networks = [\"10.91.1.1/32\", \"fd91:1::1/128\"]\nrekey-seconds = 1\n"
    );
    let site = format!(
        "listen = \"0.0.0.0:4500\"\naddresses = [\"10.91.1.1/32\", \"fd91:1::1/128\"]\n[[peers]]\nname = \"office\"\n\
         key = \"{office}\"\nendpoint = \"192.0.2.1:4500\"\nrekey-seconds = 1\nnetworks = "
    );
    let mut net = net;
    net.gateway("g", 1400, &gateway);
    (net, site)
}

const DEFAULT: &str = "[\"0.0.0.0/0\", \"::/0\"]\n";

#[test]
fn a_default_route_goes_through_the_tunnel_and_is_taken_back() {
    let Some(()) = unless(missing()) else { return };
    let (net, site) = road("hd");
    let site = format!("{site}{DEFAULT}");
    // This is the strictest setting: packets from the peer must not seem to come from the tunnel.
    assert!(net.run("a", "sysctl", "-qw net.ipv4.conf.all.rp_filter=1").status.success());
    let before = net.settled("a");
    assert!(!net.pings("a", "203.0.113.2"), "the router knows no way there");
    let works = |net: &Net| {
        net.wait_for_ping("a", "203.0.113.2");
        net.wait_for_ping("a", "2001:db8:c::2");
        assert!(net.pings("a", "203.0.113.2") && net.pings("a", "2001:db8:c::2"));
        // The host's own network works as before.
        net.wait_for_ping("a", "198.51.100.1");
    };
    let gateway = net.up("a", &site);
    works(&net);
    assert!(!net.arrives("r", || works(&net)), "it leaves sealed alone");
    // Calls reach the peer without using the device.
    let first = net.spis("a", "out");
    assert!(eventually(|| net.spis("a", "out") != first), "{}", net.status("a"));
    // Nothing that was there is gone, and new entries are marked as ours, or belong to the device.
    for entry in added(&before, &net.picture("a")) {
        let is_ours = entry.contains(&format!("\"protocol\":\"{OURS}\"")) || entry.contains("\"sl0\"");
        assert!(is_ours, "{entry}");
    }
    net.down("a");
    drop(gateway);
    assert_eq!(net.settled("a"), before, "after down");
    assert_eq!(text(&net.run("a", "sysctl", "-n net.ipv4.conf.all.src_valid_mark").stdout).trim(), "0");

    // After a kill the host lets no packets for the peer leave in clear, and only the entries for that are left.
    net.up("a", &site).kill();
    let left = net.settled("a");
    for entry in added(&before, &left) {
        let is_closing = entry.contains("unreachable") || entry.contains("rule: ");
        assert!(is_closing && entry.contains(&format!("\"protocol\":\"{OURS}\"")), "{entry}");
    }
    let leaks = || {
        net.arrives("r", || {
            for to in ["203.0.113.2", "2001:db8:c::2"] {
                assert!(!net.pings("a", to), "{to}");
            }
        })
    };
    assert!(!leaks(), "a packet left in clear");
    // The next gateway takes over the remaining entries, and finds its peer.
    let next = net.up("a", &site);
    works(&net);
    net.down("a");
    drop(next);
    assert_eq!(net.settled("a"), before, "after the next gateway");

    // `down` removes the entries of a killed gateway, without any file of it.
    net.up("a", &site).kill();
    assert_eq!(net.settled("a"), left);
    fs::remove_dir_all(net.folder.path().join("a.run")).expect("it was made");
    net.tunnel("a", "down").complains(0, &["unreachable 0.0.0.0/0"]);
    assert_eq!(net.settled("a"), before, "after down of what was left");
    net.tunnel("a", "down sl0").complains(3, &["no gateway is running here"]);
}

#[test]
fn a_gateway_that_does_not_come_up_leaves_the_host_as_it_was() {
    let Some(()) = unless(missing()) else { return };
    let (net, site) = road("hf");
    ip(&format!("-n {} route add 10.91.2.0/24 via 198.51.100.9", net.name("a")));
    let before = net.settled("a");
    // Conflicting routes are reported, by `check` too; 198.51.100.0/24 is the host's own network.
    for (networks, route, remedy) in [
        ("10.91.2.0/24", "10.91.2.0/24 via 198.51.100.9 dev o0", "10.91.2.0/25 and 10.91.2.128/25"),
        ("198.51.100.0/24", "198.51.100.0/24 dev o0 proto kernel", "take it away"),
    ] {
        let path = net.site("a", &format!("{site}[\"10.91.3.0/24\", \"{networks}\"]\n"));
        for command in ["up", "check"] {
            net.tunnel("a", &format!("{command} {path}")).complains(5, &[route, remedy]);
            assert_eq!(net.settled("a"), before, "{command} {networks}");
        }
    }
    // Everything is set, and then the port turns out to be in use.
    let path = net.site("a", &format!("{site}{DEFAULT}"));
    let socket = net.inside("a", || UdpSocket::bind("0.0.0.0:4500").expect("a port"));
    let refused = net.tunnel("a", &format!("up {path}")).output().expect("it runs");
    assert!(text(&refused.stderr).contains("cannot listen"), "{}", text(&refused.stderr));
    assert_eq!(net.settled("a"), before, "the port was taken");
    drop(socket);
    // `check` reports the planned changes, and changes nothing.
    let check = net.tunnel("a", &format!("check {path}")).ends(0);
    for part in ["0.0.0.0/0, ::/0 go to the device sl0", "mark 0x53", "unreachable, until", "nftables"] {
        assert!(text(&check.stdout).contains(part), "{}", text(&check.stdout));
    }
    let one = net.site("a", &format!("{site}[\"0.0.0.0/0\"]\n"));
    let check = net.tunnel("a", &format!("check {one}")).output().expect("it runs");
    assert!(text(&check.stdout).contains("name ::/0 too"), "{}", text(&check.stdout));
    assert_eq!(net.settled("a"), before);
}

#[test]
fn nothing_leaves_in_clear_while_the_device_is_down_and_its_routes_come_back() {
    let Some(()) = unless(missing()) else { return };
    let (net, site) = road("hv");
    let before = net.settled("a");
    let site = format!("{site}[\"203.0.113.0/24\", \"2001:db8:c::/64\"]\n");
    let gateway = net.up("a", &site);
    let works = |net: &Net| {
        net.wait_for_ping("a", "203.0.113.2");
        net.wait_for_ping("a", "2001:db8:c::2");
        assert!(net.pings("a", "203.0.113.2") && net.pings("a", "2001:db8:c::2"));
    };
    let leaks = |net: &Net| {
        net.arrives("r", || {
            for to in ["203.0.113.2", "2001:db8:c::2"] {
                assert!(!net.pings("a", to), "{to}");
            }
        })
    };
    works(&net);
    let name = net.name("a");
    ip(&format!("-n {name} link set sl0 down"));
    assert!(!leaks(&net), "a packet left in clear");
    gateway.says("was set down");
    ip(&format!("-n {name} link set sl0 up"));
    gateway.says("the route 203.0.113.0/24 dev sl0 had vanished, and is set again");
    works(&net);
    // Entries are restored whatever removes them.
    for (words, said) in [
        ("route del 203.0.113.0/24 dev sl0", "the route 203.0.113.0/24 dev sl0 had vanished"),
        ("route del unreachable 203.0.113.0/24", "the route unreachable 203.0.113.0/24 had vanished"),
        ("-6 route del 2001:db8:c::/64 dev sl0", "the route 2001:db8:c::/64 dev sl0 had vanished"),
    ] {
        ip(&format!("-n {name} {words}"));
        gateway.says(said);
    }
    works(&net);
    gateway.kill();
    assert!(!leaks(&net), "a packet left in clear");
    net.down("a");
    assert_eq!(net.settled("a"), before);
    // With `fail-open`, packets leave in clear.
    net.up("a", &format!("fail-open = true\n{site}")).kill();
    assert_eq!(net.settled("a"), before);
    let open = net.arrives("r", || {
        net.pings("a", "203.0.113.2");
    });
    assert!(open, "fail-open closes");
}

#[test]
fn an_administrators_blackhole_is_let_be() {
    let Some(()) = unless(missing()) else { return };
    let (net, site) = road("hb");
    let name = net.name("a");
    ip(&format!("-n {name} route add blackhole 203.0.113.0/24"));
    ip(&format!("-n {name} -6 route add blackhole 2001:db8:c::/64"));
    let before = net.settled("a");
    let gateway = net.up("a", &format!("{site}[\"203.0.113.0/24\", \"2001:db8:c::/64\"]\n"));
    net.wait_for_ping("a", "203.0.113.2");
    net.wait_for_ping("a", "2001:db8:c::2");
    added(&before, &net.picture("a"));
    // The gateway is ended as systemd does it.
    let mut gateway = gateway;
    let pid = rustix::process::Pid::from_child(&gateway.child);
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).expect("it runs");
    assert!(gateway.child.wait().expect("it ends").success());
    assert_eq!(net.settled("a"), before);
}

#[test]
fn who_keeps_the_host_has_one_capability_and_no_gateway_runs_without() {
    let Some(()) = unless(missing()) else { return };
    let (net, site) = road("hk");
    let before = net.settled("a");
    let gateway = net.up("a", &format!("{site}{DEFAULT}"));
    let parent = gateway.child.id().to_string();
    let is_keeper = |pid: &str| {
        let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
        status.contains(&format!("PPid:\t{parent}\n"))
    };
    let processes = fs::read_dir("/proc").expect("Linux has it");
    let mut names = processes.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let keeper = names.find(|name| is_keeper(name)).expect("the gateway has a child");
    let status = fs::read_to_string(format!("/proc/{keeper}/status")).expect("it runs");
    // CAP_NET_ADMIN is bit 12.
    for set in ["CapEff", "CapPrm"] {
        assert!(status.contains(&format!("{set}:\t0000000000001000\n")), "{status}");
    }
    assert!(status.contains("NoNewPrivs:\t1\n"), "{status}");
    let kill = |signal: rustix::process::Signal| {
        let pid = keeper.parse().ok().and_then(rustix::process::Pid::from_raw).expect("a number");
        rustix::process::kill_process(pid, signal).expect("it runs");
    };
    // A signal that a terminal or a unit sends to all of its processes is meant for the gateway.
    kill(rustix::process::Signal::TERM);
    kill(rustix::process::Signal::INT);
    net.wait_for_ping("a", "203.0.113.2");
    kill(rustix::process::Signal::KILL);
    let said = gateway.says("`sealane tunnel down sl0` takes away what is left");
    assert!(said.contains("keeping the host's routes"), "{said}");
    let mut gateway = gateway;
    assert_eq!(gateway.child.wait().expect("it ends").code(), Some(1));
    assert!(!net.pings("a", "203.0.113.2"));
    net.down("a");
    assert_eq!(net.settled("a"), before);
}

#[test]
fn packets_in_clear_that_claim_a_peers_network_are_refused() {
    let Some(()) = unless(missing()) else { return };
    if Command::new("nft").arg("--version").output().is_err() {
        return skip("nft is missing");
    }
    let net = Net::new("hs", &["a", "b", "m"]);
    net.link([("a", "o0", "192.0.2.1/24"), ("b", "o1", "192.0.2.2/24")], 1500);
    net.link([("a", "h0", "10.91.2.129/25"), ("m", "h1", "10.91.2.130/25")], 1500);
    let (near, attacker) = (net.name("a"), net.name("m"));
    ip(&format!("-n {near} address add fd91:2:0:1::1/64 dev h0 nodad"));
    for words in [
        "address add fd91:2:0:1::2/64 dev h1 nodad",
        "address add 10.91.2.77/32 dev lo",
        "address add 203.0.113.77/32 dev lo",
        "address add fd91:2::77/128 dev lo",
        "address add fd99::77/128 dev lo",
        "route add 10.91.1.1 via 10.91.2.129",
        "-6 route add fd91:1::1 via fd91:2:0:1::1",
    ] {
        ip(&format!("-n {attacker} {words}"));
    }
    assert!(
        net.run("a", "sysctl", "-qw net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.h0.rp_filter=0")
            .status
            .success()
    );
    let _ = net.key("a");
    let key = net.key("b");
    let site = format!(
        "listen = \"0.0.0.0:4500\"\naddresses = [\"10.91.1.1/32\", \"fd91:1::1/128\"]\n[[peers]]\nname = \"other\"\nkey = \"{key}\"\n\
         endpoint = \"192.0.2.2:4500\"\nnetworks = [\"10.91.2.0/24\", \"fd91:2::/48\"]\n"
    );
    let hears = |from: &str, to: &str| {
        let at = |address: &str, port: u16| match address.contains(':') {
            true => format!("[{address}]:{port}"),
            false => format!("{address}:{port}"),
        };
        let socket = net.inside("a", || UdpSocket::bind(at(to, 0)).expect("a port"));
        let port = socket.local_addr().expect("a port").port();
        net.inside("m", || {
            let sender = UdpSocket::bind(at(from, 0)).expect("its own address");
            sender.send_to(b"let me in", at(to, port)).expect("it is sent");
        });
        // A packet over a cable between namespaces has arrived when the call returns, or soon after.
        socket.set_read_timeout(Some(Duration::from_millis(500))).expect("a socket");
        socket.recv(&mut [0; 64]).is_ok()
    };
    // Neighbours have to resolve each other's addresses first.
    let hears_at_last = |from: &str, to: &str| (0..20).any(|_| hears(from, to));
    let refuses = |when: &str| {
        for (from, to, is_heard) in [
            // The first addresses belong to another network; the next to a network of this host that lies within the
            // peer's.
            ("203.0.113.77", "10.91.1.1", true),
            ("fd99::77", "fd91:1::1", true),
            ("10.91.2.130", "10.91.1.1", true),
            ("fd91:2:0:1::2", "fd91:1::1", true),
            ("10.91.2.77", "10.91.1.1", false),
            ("fd91:2::77", "fd91:1::1", false),
        ] {
            let heard = if is_heard { hears_at_last(from, to) } else { hears(from, to) };
            assert_eq!(heard, is_heard, "{when}: from {from} to {to}");
        }
    };
    let takes = |when: &str| {
        for (from, to) in [("10.91.2.77", "10.91.1.1"), ("fd91:2::77", "fd91:1::1")] {
            assert!(hears_at_last(from, to), "{when}: from {from} to {to}");
        }
    };
    // The addresses remain when the device is removed, so that there is somebody to be reached.
    ip(&format!("-n {near} address add 10.91.1.1/32 dev lo"));
    ip(&format!("-n {near} address add fd91:1::1/128 dev lo"));
    takes("without a gateway");
    let gateway = net.up("a", &site);
    refuses("while the gateway runs");
    // An administrator's firewall begins its own rules with this command.
    net.run("a", "nft", "flush ruleset").ends(0);
    gateway.says("the firewall table had vanished, and is set again");
    refuses("after all tables were taken away");
    gateway.kill();
    refuses("after it was killed");
    net.down("a");
    takes("after down");
}

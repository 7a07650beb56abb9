//! ping, iperf3, curl and ssh through `sealane tunnel`: from host to host, between two gateways, and from three hosts
//! on the road through one gateway, each with inner packets of 1,280, 1,500 and 9,000 bytes.

mod network;
mod program;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use network::namespaces::ip;
use network::{Net, missing};
use program::{Running, eventually, pattern, skip, text, unless};

/// MTUs of the devices: the minimum of IPv6, that of Ethernet, and a long one.
const MTUS: [u32; 3] = [1280, 1500, 9000];
/// Bytes that links carry in addition to the devices' MTU, for outer headers and trailers. Hosts behind a gateway
/// therefore have to be told its MTU.
const AROUND: u32 = 100;

fn has(program: &str, argument: &str) -> bool {
    let output = Command::new(program).arg(argument).stdout(Stdio::null()).stderr(Stdio::null()).status();
    let is_there = output.is_ok();
    if !is_there {
        skip(format!("no {program}"));
    }
    is_there
}

impl Net {
    /// Serves `content` over HTTP in a host's namespace, `times` times.
    fn serve(&self, host: &str, address: &str, content: &[u8], times: usize) {
        let (content, address) = (content.to_vec(), format!("{address}:8080"));
        let listener = self.inside(host, || TcpListener::bind(address).expect("a port"));
        thread::spawn(move || {
            for _ in 0..times {
                let (mut stream, _) = listener.accept().expect("a connection");
                let _ = stream.read(&mut [0; 4096]);
                let head = format!("HTTP/1.0 200 OK\r\nContent-Length: {}\r\n\r\n", content.len());
                let _ = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&content));
            }
        });
    }

    /// Starts an ssh server in a host's namespace. Returns the arguments for its client.
    fn sshd(&mut self, host: &str, address: &str) -> String {
        let folder = self.folder.path().to_owned();
        let at = |name: &str| folder.join(name).to_str().expect("a path in UTF-8").to_owned();
        for name in ["hostkey", "userkey"] {
            let made =
                Command::new("ssh-keygen").args(["-q", "-t", "ed25519", "-N", "", "-f", &at(name)]).output();
            assert!(made.expect("ssh-keygen runs").status.success());
        }
        fs::copy(at("userkey.pub"), at("authorized")).expect("a copy");
        let config = format!(
            "ListenAddress {address}:2222\nHostKey {}\nAuthorizedKeysFile {}\nStrictModes no\nUsePAM no\nPidFile none\n\
             PermitRootLogin yes\nPasswordAuthentication no\n",
            at("hostkey"),
            at("authorized"),
        );
        fs::write(at("sshd_config"), config).expect("a file");
        let _ = fs::create_dir_all("/run/sshd");
        let mut sshd = self.command(host, "/usr/sbin/sshd", "-D -e -f");
        sshd.arg(at("sshd_config")).stderr(Stdio::null());
        self.children.push(Running(sshd.spawn().expect("ip runs")));
        format!(
            "-i {} -p 2222 -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR \
             -o ConnectionAttempts=20 root@{address}",
            at("userkey")
        )
    }

    /// Runs everything that people do through a tunnel.
    fn use_it(&mut self, clients: &[&str], server: &str, address: &str, mtu: u32) {
        let content = pattern(2 << 20);
        self.serve(server, address, &content, clients.len());
        let ssh =
            (has("ssh", "-V") && Path::new("/usr/sbin/sshd").exists()).then(|| self.sshd(server, address));
        for client in clients {
            self.wait_for_ping(client, address);
            // The packets are as long as fits, one byte longer with permitted fragmentation, and long enough for many
            // fragments.
            for (bytes, cut) in [(mtu - 28, "do"), (mtu - 27, "dont"), (20_000, "dont")] {
                let ping =
                    self.run(client, "ping", &format!("-c 2 -i 0.05 -W 3 -M {cut} -s {bytes} {address}"));
                assert!(ping.status.success(), "{client}: {bytes} bytes: {}", text(&ping.stdout));
            }
            let refused = self.run(client, "ping", &format!("-c 1 -W 1 -M do -s {} {address}", mtu - 27));
            assert!(!refused.status.success(), "a packet that is too long and must not be cut");
            if has("curl", "--version") {
                let got = self.run(client, "curl", &format!("-s -m 60 http://{address}:8080/"));
                assert!(got.stdout == content, "curl got {} bytes", got.stdout.len());
            }
            if has("iperf3", "-v") {
                let mut iperf3 = self.command(server, "iperf3", "-s -1 --forceflush");
                let mut iperf3 = iperf3.stdout(Stdio::piped()).spawn().expect("ip runs");
                let mut lines = BufReader::new(iperf3.stdout.take().expect("it was piped")).lines();
                while !lines.next().expect("it says that it listens").expect("text").contains("listening") {}
                let report = self.run(client, "iperf3", &format!("-c {address} -n 8M -P 2 -J"));
                let report: serde_json::Value = serde_json::from_slice(&report.stdout).expect("iperf3 -J");
                let bytes = report["end"]["sum_received"]["bytes"].as_f64().unwrap_or_default();
                assert!(bytes > 1e6, "iperf3: {report}");
                lines.for_each(drop);
                iperf3.wait().expect("it was started");
            }
            if let Some(ssh) = &ssh {
                let mut command = self.command(client, "ssh", ssh);
                command.arg("cat").stdin(Stdio::piped()).stdout(Stdio::piped());
                let mut child = command.spawn().expect("ip runs");
                let (mut stdin, sent) = (child.stdin.take().expect("a pipe"), content.clone());
                let writer = thread::spawn(move || stdin.write_all(&sent));
                let output = child.wait_with_output().expect("it ends");
                let _ = writer.join();
                assert!(output.stdout == content, "ssh brought {} bytes back", output.stdout.len());
            }
        }
    }
}

#[test]
fn from_host_to_host() {
    let Some(()) = unless(missing()) else { return };
    let (v4, v6) = (["192.0.2.1", "192.0.2.2"], ["2001:db8::1", "2001:db8::2"]);
    let in_udp = MTUS.map(|mtu| (mtu, v4, "udp"));
    let others = [(1500, v6, "udp"), (1500, v4, "none"), (1500, v6, "none")];
    for (at, (mtu, outer, encapsulation)) in in_udp.into_iter().chain(others).enumerate() {
        let mut net = Net::new(&format!("h{at}"), &["a", "b"]);
        let is_v6 = outer[0].contains(':');
        let bits = if is_v6 { "/64 nodad" } else { "/24" };
        let ends = outer.map(|address| format!("{address}{bits}"));
        net.link([("a", "o0", &ends[0]), ("b", "o1", &ends[1])], mtu + AROUND);
        let at = |address: &str| if is_v6 { format!("[{address}]:4500") } else { format!("{address}:4500") };
        let keys = ["a", "b"].map(|host| net.key(host));
        for (end, host) in ["a", "b"].into_iter().enumerate() {
            let rest = format!(
                "listen = \"{}\"\nencapsulation = \"{encapsulation}\"\naddresses = [\"10.91.{}.1/32\"]\n[[peers]]\n\
                 name = \"other\"\nkey = \"{}\"\nendpoint = \"{}\"\nnetworks = [\"10.91.{}.0/24\"]\n",
                at(outer[end]),
                end + 1,
                keys[1 - end],
                at(outer[1 - end]),
                2 - end,
            );
            net.gateway(host, mtu, &rest);
        }
        net.use_it(&["a"], "b", "10.91.2.1", mtu);
    }
}

#[test]
fn between_two_gateways() {
    let Some(()) = unless(missing()) else { return };
    for mtu in MTUS {
        let mut net = Net::new(&format!("g{mtu}"), &["a", "ga", "gb", "b"]);
        let link_mtu = mtu + AROUND;
        net.link([("a", "h0", "10.91.1.2/24"), ("ga", "h1", "10.91.1.1/24")], link_mtu);
        net.link([("ga", "o0", "192.0.2.1/24"), ("gb", "o1", "192.0.2.2/24")], link_mtu);
        net.link([("b", "h2", "10.91.2.2/24"), ("gb", "h3", "10.91.2.1/24")], link_mtu);
        for (host, gateway) in [("a", "10.91.1.1"), ("b", "10.91.2.1")] {
            ip(&format!("-n {} route add default via {gateway}", net.name(host)));
        }
        let keys = ["ga", "gb"].map(|host| net.key(host));
        for (end, host) in ["ga", "gb"].into_iter().enumerate() {
            let rest = format!(
                "listen = \"192.0.2.{}:4500\"\n[[peers]]\nname = \"other\"\nkey = \"{}\"\n\
                 endpoint = \"192.0.2.{}:4500\"\nnetworks = [\"10.91.{}.0/24\"]\n",
                end + 1,
                keys[1 - end],
                2 - end,
                2 - end,
            );
            net.gateway(host, mtu, &rest);
        }
        // The hosts know nothing of the tunnel: they learn from their gateway that a packet is too long for it (RFC
        // 1191).
        net.use_it(&["a"], "b", "10.91.2.2", mtu);
    }
}

#[test]
fn a_forwarding_gateway_takes_the_longest_gso_packets_whole() {
    let Some(()) = unless(missing()) else { return };
    // The kernel cuts other hosts' packets if the device says less; a host's own sockets respect the device from the
    // start, and fill a burst of 45 packets.
    for (tag, forwards, takes) in [("y", true, 65_536), ("z", false, 45 * (1400 - 52) + 384)] {
        let mut net = Net::new(&format!("s{tag}"), &["a"]);
        let words = format!("-qw net.ipv4.ip_forward={}", u8::from(forwards));
        assert!(net.run("a", "sysctl", &words).status.success());
        let key = net.key("other");
        let rest = format!(
            "listen = \"127.0.0.1:4500\"\n[[peers]]\nname = \"other\"\nkey = \"{key}\"\nnetworks = [\"10.91.2.0/24\"]\n"
        );
        net.gateway("a", 1400, &rest);
        let shown = net.run("a", "ip", "-j -d link show dev sl0");
        let shown: serde_json::Value = serde_json::from_slice(&shown.stdout).expect("ip -j prints JSON");
        let Some(bytes) = shown[0]["gso_max_size"].as_u64() else {
            return skip("ip does not tell gso_max_size");
        };
        assert_eq!(bytes, takes, "forwarding: {forwards}");
    }
}

#[test]
fn a_path_that_is_narrower_than_its_ends_narrows_the_tunnel() {
    let Some(()) = unless(missing()) else { return };
    for (tag, head, suite) in [
        ("u", "", "aes-128-gcm"),
        ("p", "encapsulation = \"none\"\n", "aes-128-gcm"),
        ("h", "encapsulation = \"none\"\nprotocol = \"ah\"\n", "hmac-sha256-128"),
    ] {
        let mut net = Net::new(&format!("n{tag}"), &["a", "r", "b"]);
        net.link([("a", "o0", "192.0.2.1/24"), ("r", "r0", "192.0.2.254/24")], 1500);
        net.link([("r", "r1", "198.51.100.254/24"), ("b", "o1", "198.51.100.1/24")], 1300);
        for (host, router) in [("a", "192.0.2.254"), ("b", "198.51.100.254")] {
            ip(&format!("-n {} route add default via {router}", net.name(host)));
        }
        let (outer, keys) = (["192.0.2.1", "198.51.100.1"], ["a", "b"].map(|host| net.key(host)));
        for (end, host) in ["a", "b"].into_iter().enumerate() {
            let rest = format!(
                "listen = \"{}:4500\"\n{head}addresses = [\"10.91.{}.1/32\"]\n[[peers]]\nname = \"other\"\n\
                 key = \"{}\"\nendpoint = \"{}:4500\"\nsuite = \"{suite}\"\nnetworks = [\"10.91.{}.0/24\"]\n",
                outer[end],
                end + 1,
                keys[1 - end],
                outer[1 - end],
                2 - end,
            );
            net.gateway(host, 1400, &rest);
        }
        net.wait_for_ping("a", "10.91.2.1");
        let takes =
            |net: &Net, host: &str| net.status(host)["peers"][0]["mtu_bytes"].as_u64().expect("a number");
        // The other end sees the narrow link; this one learns of it from the router, through its first packet that is
        // too long.
        assert_eq!(takes(&net, "a"), 1400);
        assert!(takes(&net, "b") < 1280, "{}", takes(&net, "b"));
        let is_told = || {
            net.run("a", "ping", "-c 1 -W 1 -M do -s 1372 10.91.2.1");
            takes(&net, "a") != 1400
        };
        assert!(eventually(is_told), "nobody told the gateway");
        let mtu = takes(&net, "a");
        assert_eq!(mtu, takes(&net, "b"));
        // The sender inside is told, too.
        let told = net.run("a", "ping", &format!("-c 2 -W 1 -M do -s {} 10.91.2.1", mtu - 27));
        let (said, complained) = (text(&told.stdout).to_owned(), text(&told.stderr).to_owned());
        assert!(
            format!("{said}{complained}").contains(&format!("mtu={mtu}"))
                || said.contains(&format!("mtu = {mtu}")),
            "{said} {complained}"
        );
        for (bytes, cut) in [(mtu - 28, "do"), (mtu - 27, "dont"), (5000, "dont")] {
            let ping = net.run("a", "ping", &format!("-c 1 -W 3 -M {cut} -s {bytes} 10.91.2.1"));
            assert!(ping.status.success(), "{suite}: {bytes} bytes: {}", text(&ping.stdout));
        }
        let content = pattern(4 << 20);
        if has("curl", "--version") {
            net.serve("b", "10.91.2.1", &content, 1);
            let got = net.run("a", "curl", "-s -m 60 http://10.91.2.1:8080/");
            assert!(got.stdout == content, "curl got {} bytes", got.stdout.len());
        }
    }
}

#[test]
fn from_three_hosts_on_the_road() {
    let Some(()) = unless(missing()) else { return };
    for mtu in MTUS {
        let mut net = Net::new(&format!("r{mtu}"), &["g", "b", "r1", "r2", "r3"]);
        let link_mtu = mtu + AROUND;
        net.link([("b", "h0", "10.91.0.2/24"), ("g", "h1", "10.91.0.1/24")], link_mtu);
        ip(&format!("-n {} route add default via 10.91.0.1", net.name("b")));
        let key = net.key("g");
        let mut peers = String::new();
        for road in 1..4 {
            let host = format!("r{road}");
            let (far, near) = (format!("198.51.{road}.1/24"), format!("198.51.{road}.2/24"));
            net.link([("g", &format!("o{road}"), &far), (&host, "o0", &near)], link_mtu);
            // The hosts on the road call, so nobody needs to know their addresses.
            let own = net.key(&host);
            peers += &format!(
                "[[peers]]\nname = \"{host}\"\nkey = \"{own}\"\nnetworks = [\"10.91.{road}.1/32\"]\n"
            );
        }
        net.gateway("g", mtu, &format!("listen = \"0.0.0.0:4500\"\n{peers}"));
        for road in 1..4 {
            let rest = format!(
                "listen = \"0.0.0.0:4500\"\naddresses = [\"10.91.{road}.1/32\"]\n[[peers]]\nname = \"office\"\n\
                 key = \"{key}\"\nendpoint = \"198.51.{road}.1:4500\"\nnetworks = [\"10.91.0.0/24\"]\n",
            );
            net.gateway(&format!("r{road}"), mtu, &rest);
        }
        net.use_it(&["r1", "r2", "r3"], "b", "10.91.0.2", mtu);
    }
}

#[test]
fn a_gateway_that_is_interrupted_while_it_comes_up_leaves_no_socket() {
    let Some(()) = unless(missing()) else { return };
    let net = Net::new("i", &["a"]);
    let path = net.folder.path().join("site.toml");
    let text = "device = \"sl0\"\nlisten = \"127.0.0.1:4500\"\naddresses = [\"10.91.1.1/32\"]\n";
    fs::write(&path, text).expect("a site file");
    let run = net.folder.path().join("run");
    for milliseconds in [0, 1, 2, 4, 6, 8, 10, 12, 15, 20, 30, 50] {
        let mut command = net.command("a", env!("CARGO_BIN_EXE_sealane"), "tunnel up");
        let mut child =
            command.arg(&path).env("SEALANE_RUN", &run).stderr(Stdio::null()).spawn().expect("it starts");
        thread::sleep(Duration::from_millis(milliseconds));
        let process = rustix::process::Pid::from_child(&child);
        // A shell makes its background processes ignore SIGINT, including a program that has not set its handler yet.
        rustix::process::kill_process(process, rustix::process::Signal::TERM).expect("it runs");
        child.wait().expect("it ends");
        let left = fs::read_dir(&run).map_or(0, Iterator::count);
        assert_eq!(left, 0, "after {milliseconds} ms");
    }
}

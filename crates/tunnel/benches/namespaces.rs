//! Compares tunnels between two namespaces, in alternation: ours, a tunnel that only moves superpackets (`null-gso`),
//! and wireguard-go if a comparable one is installed (`wireguard` or `wireguard-go`, and `wg`). The benchmark needs
//! root, iperf3 and ping.
//!
//! ```sh
//! cargo bench -p sealane-tunnel --bench namespaces -- [TEST...]   # all of them if none is named
//! ```
//!
//! Prints a table of medians with ratios, and a JSON object per run. All tunnels are up at the same time; each round
//! runs each of them once. The environment sets the length: `ROUNDS` (5), `SECONDS` (4). It may name another program
//! to compare: `NULL_TUNNEL`, which is called with device, own address, peer's address and `gso`. The test `children4`
//! compares gateways with `LANES` (2) lanes that are joined by IKE, with one pair of associations and with four that share
//! the flows of four connections (RFC 9611); its ratio is that of the former to the latter.

mod gateway;
#[allow(dead_code)]
#[path = "../../port/tests/namespaces/mod.rs"]
mod namespaces;

use std::{
    env, fs, io,
    net::UdpSocket,
    path::Path,
    process::{Command, Stdio, exit},
    thread,
};

use gateway::{own, write};
use namespaces::{INNER, Tunnel, missing};
use sealane_port::{
    Port,
    tun::{Options, Tun},
    udp::Udp,
};
use sealane_stack::Batch;
use sealane_tunnel::control::{self, Answer, Ask};
use serde_json::{Value, json};

/// The tests: the name, and iperf3's arguments; tests without arguments run ping.
const TESTS: [(&str, Option<&str>); 10] = [
    ("tcp1", Some("")),
    ("tcp4", Some("-P 4")),
    (CHILDREN, Some("-P 4")),
    ("udp1400", Some("-u -b 0 -l 1400")),
    ("udp64", Some("-u -b 0 -l 64")),
    ("no-loss1400", Some("-u -w 4M -l 1400")),
    ("no-loss64", Some("-u -w 4M -l 64")),
    ("rtt", None),
    // The test runs beside four connections.
    ("rtt-loaded", None),
    // The link splits trains into packets.
    ("tcp1-no-segmentation", Some("")),
];

/// The test of tunnels of their own.
const CHILDREN: &str = "children4";

/// The suite of every tunnel; both peers use it on links of 1500 bytes.
const SUITE: &str = "aes-128-gcm";
/// The length of a datagram of `null-gso` in bytes: at this length, the rooms of a batch are adjacent.
const NULL_SEGMENT_BYTES: usize = 1408;

/// Returns our gateway's arguments for one end.
fn gateway_end(
    folder: &Path,
    (name, travels): (&str, &str),
    device: &str,
    own_address: &str,
    peer: &str,
) -> Vec<String> {
    let end = usize::from(own_address > peer);
    let folder = folder.join(format!("{name}{end}"));
    fs::create_dir_all(&folder).expect("a temporary folder");
    for (name, seed) in [("send.key", 3 + end), ("receive.key", 4 - end)] {
        write(&folder.join(name), &format!("{seed:02x}").repeat(20));
    }
    let site = format!(
        "device = \"{device}\"\nlisten = \"{own_address}:4500\"\n{travels}\nmtu = 1436\n[[peers]]\nname = \"other\"\n\
         endpoint = \"{peer}:4500\"\nnetworks = [\"{}/32\"]\n[peers.manual]\nsuite = \"{SUITE}\"\n\
         send = {{ spi = {}, key-file = \"send.key\" }}\nreceive = {{ spi = {}, key-file = \"receive.key\" }}\n",
        INNER[1 - end],
        0x1000 + end,
        0x1001 - end,
    );
    let path = folder.join("site.toml");
    write(&path, &site);
    own(&["gateway", path.to_str().expect("a path in UTF-8")])
}

/// Returns our gateway's arguments for one end of a tunnel whose keys are agreed by IKE, with so many children.
fn ike_end(
    folder: &Path,
    (name, children, lanes): (&str, u16, &str),
    device: &str,
    own_address: &str,
    peer: &str,
) -> Vec<String> {
    let end = usize::from(own_address > peer);
    let folder = folder.join(format!("{name}{end}"));
    fs::create_dir_all(&folder).expect("a temporary folder");
    write(&folder.join("psk"), "0123456789abcdef0123456789abcdef\n");
    let endpoint = if end == 0 { format!("endpoint = \"{peer}:4500\"\n") } else { String::new() };
    let site = format!(
        "device = \"{device}\"\nlisten = \"{own_address}:4500\"\nmtu = 1436\n[[peers]]\nname = \"other\"\n{endpoint}\
         networks = [\"{}/32\"]\n[peers.ike]\nid = \"end{}.example\"\nlocal-id = \"end{end}.example\"\n\
         local-networks = [\"{}/32\"]\npsk-file = \"psk\"\nesp-proposals = [\"aes128gcm16\"]\nchildren = {children}\n",
        INNER[1 - end],
        1 - end,
        INNER[end],
    );
    let path = folder.join("site.toml");
    write(&path, &site);
    own(&["gateway", path.to_str().expect("a path in UTF-8"), lanes])
}

/// Starts the tunnels of the test [`CHILDREN`], and waits until they have all their children.
fn of_children(folder: &Path, lanes: &str) -> Vec<(&'static str, Tunnel)> {
    let mut tunnels = Vec::new();
    for (name, children) in [("1 child", 1), ("4 children", 4)] {
        let tunnel =
            Tunnel::up(|device, own, peer| ike_end(folder, (name, children, lanes), device, own, peer));
        let answers = || {
            let mut ping = tunnel.command(0, "ping", &format!("-c 1 -W 1 {}", INNER[1]));
            ping.stdout(Stdio::null()).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
        };
        assert!((0..60).any(|_| answers()), "{name}: the gateways do not agree on keys");
        // Flows ask for the children beside the first, one at a time; a short run of theirs brings the next.
        let count = || match control::ask(&folder.join(format!("{name}0/run")), "t0", Ask::Status) {
            Ok(Answer::Status(status)) => {
                status.peers[0].ike.iter().map(|ike| ike.children.len()).sum::<usize>()
            }
            other => panic!("no status: {other:?}"),
        };
        let is_complete = || {
            drop(measure(&tunnel, CHILDREN, Some("-P 4"), "1"));
            count() >= usize::from(children)
        };
        assert!((0..20).any(|_| is_complete()), "{name}: there are {}", count());
        tunnels.push((name, tunnel));
    }
    tunnels
}

/// Moves superpackets between a device and a socket without changes: the system calls of a tunnel, and nothing else.
fn run_null(device: &str, own_address: &str, peer: &str) -> io::Result<()> {
    let tun = Tun::open(&Options::new(device))?.remove(0);
    let socket = UdpSocket::bind((own_address, 7777))?;
    let peer = format!("{peer}:7777").parse().map_err(io::Error::other)?;
    let ((tun_in, tun_out), (mut udp_in, mut udp_out)) = (tun.split(), Udp::new(socket, Some(peer))?.split());
    let outward = move || -> io::Result<()> {
        let mut batch = Batch::new(2 * 65_536, 64);
        loop {
            batch.clear();
            let fd = tun_in.fd().expect("a device has a descriptor");
            let mut left = rustix::io::read(fd, &mut batch.work.buffer.bytes_mut()[..70_000])?;
            while left > 0 {
                let bytes = left.min(NULL_SEGMENT_BYTES);
                batch
                    .push(0, bytes, 0)
                    .and_then(|packet| packet.push_back(bytes))
                    .expect("it was read there");
                left -= bytes;
            }
            udp_out.send(&batch, 0)?;
        }
    };
    let mut inward = move || -> io::Result<()> {
        // A train is a superpacket: behind one there is no room for another.
        let mut batch = Batch::new(2 * 65_536, 64);
        loop {
            batch.clear();
            udp_in.receive(&mut batch)?;
            let (Some(first), Some(last)) = (batch.packets.first(), batch.packets.last()) else { continue };
            let whole = first.span().start as usize..last.span().end();
            // A packet that the device refuses is lost, as on any network.
            let _ = rustix::io::write(tun_out.fd().expect("a descriptor"), &batch.work.buffer.bytes()[whole]);
        }
    };
    let outward = thread::spawn(outward);
    inward()?;
    outward.join().expect("no panic")
}

fn output(program: &str, arguments: &[&str]) -> Option<String> {
    let output = Command::new(program).args(arguments).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The first wireguard-go with superpackets on both sides; Debian 12 has a slower one from 2022.
const WIREGUARD_GO_MIN: u32 = 20_250_522;

/// Returns the name and the version of the comparable wireguard-go.
fn wireguard_program() -> Result<(&'static str, String), String> {
    let how = "`GOBIN=/usr/local/bin go install golang.zx2c4.com/wireguard@latest` brings one";
    let mut programs = ["wireguard", "wireguard-go"]
        .into_iter()
        .filter_map(|name| Some((name, output(name, &["--version"])?.lines().next()?.to_owned())));
    let (program, version) = programs.next().ok_or_else(|| format!("no wireguard-go; {how}"))?;
    let day = version.rsplit('.').next().and_then(|day| day.get(..8)?.parse::<u32>().ok());
    if day.is_none_or(|day| day < WIREGUARD_GO_MIN) {
        return Err(format!("{version} is too old to be compared with; {how}"));
    }
    output("wg", &["--version"]).ok_or("no wg (wireguard-tools)")?;
    Ok((program, version))
}

/// Starts wireguard-go between two ends.
fn wireguard(program: &str, folder: &Path) -> Option<Tunnel> {
    let secret = [output("wg", &["genkey"])?, output("wg", &["genkey"])?];
    let public = secret
        .clone()
        .map(|secret| output("sh", &["-c", &format!("echo {secret} | wg pubkey")]).expect("wg was there"));
    Some(Tunnel::up(|device, own_address, peer| {
        let end = usize::from(own_address > peer);
        let path = folder.join(format!("wg{end}"));
        write(
            &path,
            &format!(
                "[Interface]\nListenPort = 51820\nPrivateKey = {}\n[Peer]\nPublicKey = {}\nEndpoint = {peer}:51820\n\
                 AllowedIPs = {}/32\n",
                secret[end],
                public[1 - end],
                INNER[1 - end],
            ),
        );
        // Both daemons would use the same control socket; `ip netns exec` has given each its own mounts.
        let script = format!(
            "mkdir -p /var/run/wireguard && mount -t tmpfs none /var/run/wireguard || exit; (until wg setconf {device} {0} 2>/dev/null; do sleep 0.1; done) & \
             WG_PROCESS_FOREGROUND=1 LOG_LEVEL=error exec {program} -f {device}",
            path.display()
        );
        ["sh", "-c", &script].map(ToString::to_string).to_vec()
    }))
}

/// Four connections through a tunnel, until this is dropped.
struct Load(Vec<std::process::Child>);

impl Load {
    fn begin(tunnel: &Tunnel, seconds: &str) -> Self {
        let quiet = |mut command: Command| command.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let mut children: Vec<_> = quiet(tunnel.command(1, "iperf3", "-s -1")).into_iter().collect();
        thread::sleep(std::time::Duration::from_millis(300));
        // The load lasts longer than the pings, and never longer than the run.
        let seconds = seconds.parse().unwrap_or(4).max(3);
        children.extend(quiet(tunnel.command(0, "iperf3", &format!("-c {} -P 4 -t {seconds}", INNER[1]))));
        thread::sleep(std::time::Duration::from_millis(500));
        Self(children)
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        for child in self.0.iter_mut().rev() {
            let _ = child.wait();
        }
    }
}

/// Returns the number of packets sent per second, and the share of them that arrived.
fn paced(tunnel: &Tunnel, arguments: &str, packets_per_s: f64) -> Option<(f64, f64)> {
    let mut server = tunnel.command(1, "iperf3", "-s -1 -J").stdout(Stdio::piped()).spawn().ok()?;
    thread::sleep(std::time::Duration::from_millis(200));
    let bytes: f64 = arguments.rsplit(' ').next()?.parse().ok()?;
    let line = format!("-c {} -t 1 -J {arguments} -b {:.0}", INNER[1], packets_per_s * bytes * 8.0);
    let client = tunnel.command(0, "iperf3", &line).output().ok()?;
    if !client.status.success() {
        let _ = server.kill();
    }
    let mut said = String::new();
    io::Read::read_to_string(server.stdout.as_mut()?, &mut said).ok()?;
    server.wait().ok()?;
    let client: Value = serde_json::from_slice(&client.stdout).ok()?;
    let server: Value = serde_json::from_str(&said).ok()?;
    let received: f64 =
        server["intervals"].as_array()?.iter().filter_map(|interval| interval["sum"]["bytes"].as_f64()).sum();
    let sum = &client["end"]["sum"];
    let sent = sum["bytes"].as_f64()?.max(1.0);
    Some((sent / bytes / sum["seconds"].as_f64()?, received / sent))
}

/// Returns the highest rate, found by bisection, at which less than 0.5 % of the packets are lost.
fn no_loss(tunnel: &Tunnel, arguments: &str) -> Option<f64> {
    let (mut low, mut high, mut rate, mut best) = (0.0, 600e3, 60e3, 0.0_f64);
    for _ in 0..8 {
        let (sent, share) = paced(tunnel, arguments, rate)?;
        if share > 0.995 && sent > 0.9 * rate {
            (low, best) = (rate, best.max(sent));
        } else {
            high = rate;
        }
        if high - low < 0.05 * high {
            break;
        }
        rate = if low == 0.0 { high / 2.5 } else { (1.6 * low).min(f64::midpoint(low, high)) };
    }
    Some(best)
}

/// Switches UDP's trains on the links of all tunnels `on` or `off`.
fn segmentation(tunnels: &[(&str, Tunnel)], state: &str) -> Result<(), String> {
    for (_, tunnel) in tunnels {
        for end in [0, 1] {
            let words = format!("-K o{end} tx-udp-segmentation {state}");
            // `ip` exists, and reports missing programs itself.
            let output =
                tunnel.command(end, "ethtool", &words).output().map_err(|error| error.to_string())?;
            if !output.status.success() {
                let said = String::from_utf8_lossy(&output.stderr);
                return Err(format!(
                    "{} (`cargo xtask peers` installs ethtool)",
                    said.trim().replace('\n', "; ")
                ));
            }
        }
    }
    Ok(())
}

/// Measures one run: the figure, and both daemons' CPU seconds per gigabyte.
fn measure(tunnel: &Tunnel, test: &str, arguments: Option<&str>, seconds: &str) -> Option<Value> {
    let Some(arguments) = arguments else {
        let load = (test == "rtt-loaded").then(|| Load::begin(tunnel, seconds));
        let pings = if load.is_some() { "-c 100 -i 0.015" } else { "-c 500 -i 0.002" };
        let output = tunnel.command(0, "ping", &format!("-q {pings} {}", INNER[1])).output().ok()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let times = text.lines().find(|line| line.starts_with("rtt"))?.split(" = ").nth(1)?;
        let milliseconds: f64 = times.split('/').nth(1)?.parse().ok()?;
        return Some(json!({ "test": test, "value": 1000.0 * milliseconds, "unit": "us" }));
    };
    if test.starts_with("no-loss") {
        let packets_per_s = no_loss(tunnel, arguments)?;
        return Some(json!({ "test": test, "value": packets_per_s / 1e3, "unit": "kpackets/s" }));
    }
    let mut server = tunnel.command(1, "iperf3", "-s -1 -J").stdout(Stdio::piped()).spawn().ok()?;
    thread::sleep(std::time::Duration::from_millis(300));
    let before = tunnel.cpu_seconds();
    let line = format!("-c {} -t {seconds} -J {arguments}", INNER[1]);
    let client = tunnel.command(0, "iperf3", line.trim()).output().ok()?;
    if !client.status.success() {
        // No client connected to the server.
        let _ = server.kill();
    }
    let cpu = tunnel.cpu_seconds() - before;
    let mut said = String::new();
    io::Read::read_to_string(server.stdout.as_mut()?, &mut said).ok()?;
    server.wait().ok()?;
    let client: Value = serde_json::from_slice(&client.stdout).ok()?;
    let server: Value = serde_json::from_str(&said).ok()?;
    let bytes: f64 =
        server["intervals"].as_array()?.iter().filter_map(|interval| interval["sum"]["bytes"].as_f64()).sum();
    let time: f64 = server["intervals"]
        .as_array()?
        .iter()
        .filter_map(|interval| interval["sum"]["seconds"].as_f64())
        .sum();
    let cpu_s_per_gb = cpu / (bytes / 1e9);
    if let Some(length) = arguments.split(" -l ").nth(1) {
        let packets = bytes / length.trim().parse::<f64>().ok()? / time;
        return Some(
            json!({ "test": test, "value": packets / 1e3, "unit": "kpackets/s", "cpu_s_per_gb": cpu_s_per_gb }),
        );
    }
    let again = client["end"]["sum_sent"]["retransmits"].clone();
    let gigabits = bytes * 8.0 / time / 1e9;
    Some(
        json!({ "test": test, "value": gigabits, "unit": "Gb/s", "cpu_s_per_gb": cpu_s_per_gb, "retransmissions": again }),
    )
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

fn main() {
    let arguments: Vec<String> = env::args().skip(1).filter(|argument| argument != "--bench").collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    if gateway::has_run(&words) {
        return;
    }
    if let ["null-gso", device, own_address, peer] = words[..] {
        eprintln!("null-gso: {:?}", run_null(device, own_address, peer));
        exit(1);
    }
    if let Some(why) = missing() {
        println!("skipped: {why}");
        return;
    }
    // Another tunnel of the same kind: `PROGRAM DEVICE OWN-ADDRESS PEER-ADDRESS gso`.
    let other = env::var("NULL_TUNNEL").ok();
    let number = |name: &str, default: &str| env::var(name).unwrap_or_else(|_| default.to_owned());
    let (rounds, seconds) = (number("ROUNDS", "5"), number("SECONDS", "4"));
    let folder = tempfile::tempdir().expect("a temporary folder");
    const UDP: (&str, &str) = ("udp", "encapsulation = \"udp\"");
    const PLAIN: (&str, &str) = ("plain", "encapsulation = \"none\"");
    const DIRECT: (&str, &str) = ("direct", "encapsulation = \"none\"\ndirect = true");
    let sealane = |travels| {
        let folder = folder.path();
        Tunnel::up(move |device, own, peer| gateway_end(folder, travels, device, own, peer))
    };
    let mut tunnels = vec![
        ("sealane", sealane(UDP)),
        ("plain ESP", sealane(PLAIN)),
        ("direct ESP", sealane(DIRECT)),
        (
            "null-gso",
            Tunnel::up(|device, own_address, peer| own(&["null-gso", device, own_address, peer]))
                .of_single_trains(),
        ),
    ];
    tunnels.extend(other.as_ref().map(|program| {
        let command = |device: &str, own: &str, peer: &str| {
            [program.as_str(), device, own, peer, "gso"].map(ToString::to_string).to_vec()
        };
        ("NULL_TUNNEL", Tunnel::up(command).of_single_trains())
    }));
    match wireguard_program() {
        Ok((program, version)) => {
            println!("wireguard-go: {version}");
            tunnels.extend(wireguard(program, folder.path()).map(|tunnel| ("wireguard-go", tunnel)));
        }
        Err(why) => println!("wireguard-go is missing: {why}"),
    }
    println!(
        "{:22} {:13} {:>10} {:12} {:>10} {:>8} {:>8}",
        "test", "tunnel", "median", "", "CPU s/GB", "ratio", "CPU"
    );
    for (test, iperf3) in TESTS {
        if !arguments.is_empty() && !arguments.iter().any(|argument| argument == test) {
            continue;
        }
        let own_tunnels = (test == CHILDREN).then(|| of_children(folder.path(), &number("LANES", "2")));
        let tunnels = own_tunnels.as_ref().unwrap_or(&tunnels);
        let is_cut = test.ends_with("no-segmentation");
        if is_cut && let Err(why) = segmentation(tunnels, "off") {
            println!("{test:22} left out: tx-udp-segmentation was not switched off: {why}");
            let _ = segmentation(tunnels, "on");
            continue;
        }
        let can = |name: &str| !is_cut || !["null-gso", "NULL_TUNNEL"].contains(&name);
        let mut runs = vec![Vec::new(); tunnels.len()];
        for _ in 0..rounds.parse().unwrap_or(5) {
            for ((name, tunnel), runs) in tunnels.iter().zip(&mut runs).filter(|((name, _), _)| can(name)) {
                match measure(tunnel, test, iperf3, &seconds) {
                    Some(mut run) => {
                        run["peer"] = (*name).into();
                        eprintln!("{run}");
                        runs.push(run);
                    }
                    None => eprintln!("{name}: no result of {test}"),
                }
            }
        }
        if is_cut && let Err(why) = segmentation(tunnels, "on") {
            println!("what follows is without tx-udp-segmentation, which was not switched on again: {why}");
        }
        let of =
            |runs: &[Value], field: &str| median(runs.iter().filter_map(|run| run[field].as_f64()).collect());
        let ours = (of(&runs[0], "value"), of(&runs[0], "cpu_s_per_gb"));
        for ((name, _), runs) in tunnels.iter().zip(&runs) {
            if !can(name) {
                println!("{test:22} {name:13} left out: it moves trains as they are, and here none arrive");
                continue;
            }
            let (value, cpu) = (of(runs, "value"), of(runs, "cpu_s_per_gb"));
            let unit = runs.first().map_or("", |run| run["unit"].as_str().unwrap_or_default());
            println!(
                "{test:22} {name:13} {value:10.2} {unit:12} {cpu:10.2} {:8.2} {:8.2}",
                ours.0 / value,
                ours.1 / cpu
            );
        }
    }
}

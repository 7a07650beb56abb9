//! Two gateways with a bad network between them, in real time: packets are lost, delayed and duplicated on the way,
//! and an attacker replays, damages and invents packets, while keys change. The first copy of each packet that the
//! network delivers is accepted, and nothing else.
//!
//! Under `cargo test` this takes some seconds; `cargo xtask soak-tunnel SECONDS` is the long run.
//! `SEALANE_FAULT_SEED` sets the seed.

mod network;
mod program;
mod support;

use std::collections::HashSet;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use network::{Net, missing};
use program::{pattern, text, unless};
use sealane_port::Batch;
use sealane_port::{
    Port, Room,
    link::{Emulation, Link},
    udp::Udp,
};
use support::{Chance, setting};

/// Addresses of the gateways, and of the network towards them.
const GATEWAYS: [&str; 2] = ["10.90.1.2", "10.90.2.2"];
const TOWARDS: [&str; 2] = ["10.90.1.1", "10.90.2.1"];
/// Inner addresses of the gateways' hosts.
const INNER: [&str; 2] = ["10.91.1.1", "10.91.2.1"];
/// DSCP CS1, by which the network distinguishes datagrams of this test from other packets: it is copied from the
/// inner packet (RFC 4301, section 5.1.2).
const MARK: u8 = 0x20;
/// Dummies (RFC 4303, section 2.6) are shorter; they are not delivered to anybody, and the network does not touch
/// them.
const PACKET_BYTES_MIN: usize = 60;
/// Pause before the network ends, in which packets under way arrive.
const QUIET: Duration = Duration::from_millis(1500);

fn link(seed: u64) -> Link {
    Link {
        delay: Duration::from_millis(20),
        loss: 0.03,
        reorder: 0.1,
        lateness: Duration::from_millis(90),
        duplicate: 0.02,
        seed,
        ..Link::PERFECT
    }
}

/// Ends the work of the other threads when it is dropped, also by a panic.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// One direction of the network.
struct Direction {
    from: Udp,
    /// The socket towards the other gateway.
    to: UdpSocket,
    gateway: SocketAddr,
    /// Links for datagrams of this test, and for all others.
    links: [Emulation; 2],
    chance: Chance,
    /// The packets that arrived recently.
    seen: Vec<Vec<u8>>,
    attacks: u64,
}

impl Direction {
    fn run(mut self, is_quiet: &AtomicBool, is_ended: &AtomicBool) -> Self {
        let (mut arrived, mut due) = (Batch::new(1 << 20, 512), Batch::new(1 << 20, 512));
        while !is_ended.load(SeqCst) {
            let now = Instant::now();
            loop {
                arrived.clear();
                match self.from.receive(&mut arrived) {
                    Ok(_) => {}
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(error) => panic!("the network's socket: {error}"),
                }
                // The congestion bits are ignored.
                let is_other = self.from.received_traffic_class & !3 != MARK;
                for packet in arrived.passed() {
                    if packet.len() < PACKET_BYTES_MIN {
                        self.send(packet);
                    } else {
                        self.links[usize::from(is_other)].offer(now, packet);
                    }
                }
            }
            due.clear();
            self.links.iter_mut().for_each(|link| {
                link.take(now, Room::NONE, &mut due);
            });
            for packet in due.passed() {
                self.send(packet);
                self.seen.push(packet.to_vec());
            }
            let old = self.seen.len().saturating_sub(4000);
            self.seen.drain(..old);
            if !is_quiet.load(SeqCst) && self.chance.below(5) == 0 {
                self.attack();
            }
            sleep(Duration::from_millis(1));
        }
        self
    }

    fn send(&self, packet: &[u8]) {
        while let Err(error) = self.to.send_to(packet, self.gateway) {
            assert_eq!(error.kind(), ErrorKind::WouldBlock, "{error}");
            sleep(Duration::from_millis(1));
        }
    }

    fn attack(&mut self) {
        let Self { chance, seen, .. } = self;
        if seen.is_empty() {
            return;
        }
        let mut chosen = seen[chance.below(seen.len() as u64) as usize].clone();
        let packet = match chance.below(3) {
            // This is a replay.
            0 => chosen,
            // This is damage.
            1 => {
                let at = chance.below(chosen.len() as u64) as usize;
                chosen[at] ^= 1 << chance.below(8);
                chosen
            }
            // This is garbage, some of it under an index that is in use.
            _ => {
                let bytes = 1 + chance.below(1400) as usize;
                let mut garbage = chance.bytes(bytes);
                if chance.below(2) == 0 {
                    let head = garbage.len().min(4);
                    garbage[..head].copy_from_slice(&chosen[..head]);
                }
                garbage
            }
        };
        self.attacks += 1;
        self.send(&packet);
    }

    /// Returns the number of different packets that either link delivered, and the number of repetitions.
    fn brought(&self) -> ([u64; 2], u64) {
        let fates = self.links.each_ref().map(|link| link.fates);
        let twice = fates.iter().map(|fates| fates.twice).sum();
        (fates.map(|fates| fates.offered - fates.lost - fates.dropped), twice)
    }
}

/// Forwards connections unchanged: keys are negotiated over TCP.
fn relay(listener: &TcpListener, gateway: SocketAddr, is_ended: &AtomicBool) {
    listener.set_nonblocking(true).expect("a listener");
    while !is_ended.load(SeqCst) {
        let Ok((near, _)) = listener.accept() else {
            sleep(Duration::from_millis(10));
            continue;
        };
        near.set_nonblocking(false).expect("a stream");
        // A gateway that is not up yet will be called again.
        let Ok(far) = TcpStream::connect(gateway) else { continue };
        let twin = |stream: &TcpStream| stream.try_clone().expect("a descriptor");
        for (mut from, mut to) in [(twin(&near), twin(&far)), (far, near)] {
            // The thread ends with its gateways' connections.
            thread::spawn(move || {
                let _ = std::io::copy(&mut from, &mut to);
                let _ = to.shutdown(std::net::Shutdown::Write);
            });
        }
    }
}

/// Returns the datagram `number`, whose content nobody else makes by chance.
fn datagram(seed: u64, number: u64) -> Vec<u8> {
    let mut chance = Chance::new(seed ^ number);
    let bytes = chance.below(1300) as usize;
    [&number.to_be_bytes()[..], &chance.bytes(bytes)].concat()
}

/// Sends datagrams until the end. Returns their number.
fn send(socket: &UdpSocket, to: SocketAddr, seed: u64, end: Instant) -> u64 {
    let (mut chance, mut number) = (Chance::new(seed), 0);
    while Instant::now() < end {
        for _ in 0..=chance.below(3) {
            number += u64::from(socket.send_to(&datagram(seed, number), to).is_ok());
        }
        sleep(Duration::from_millis(5));
    }
    number
}

/// Receives datagrams until the end. Returns their numbers, and checks that none occurs twice.
fn receive(socket: &UdpSocket, seed: u64, is_ended: &AtomicBool) -> HashSet<u64> {
    socket.set_read_timeout(Some(Duration::from_millis(100))).expect("a socket");
    let (mut numbers, mut buffer) = (HashSet::new(), [0; 2048]);
    while !is_ended.load(SeqCst) {
        let Ok((bytes, _)) = socket.recv_from(&mut buffer) else { continue };
        let number = u64::from_be_bytes(*buffer.first_chunk().expect("eight bytes"));
        assert!(buffer[..bytes] == datagram(seed, number), "{number} was changed or invented");
        assert!(numbers.insert(number), "{number} came twice");
    }
    numbers
}

/// Sends streams through the tunnel until the end, and compares them. Returns the number of bytes.
fn streams(near: &Net, end: Instant) -> u64 {
    let content = pattern(64 << 10);
    let listener = near.inside("b", || TcpListener::bind((INNER[1], 0)).expect("a port"));
    let port = listener.local_addr().expect("a port").port();
    let mut bytes = 0;
    while Instant::now() < end {
        let one = near.inside("a", || TcpStream::connect((INNER[1], port)).expect("the other end"));
        network::stream(one, &listener, &content);
        bytes += content.len() as u64;
    }
    bytes
}

/// Returns the number of packets that kernels had no room for: a host that is busy with other things loses some, and
/// reports it here.
fn lost_by_kernels(net: &Net) -> u64 {
    let of_host = |host: &str| -> u64 {
        let snmp = net.run(host, "cat", "/proc/net/snmp").stdout;
        let mut lines = text(&snmp).lines().filter(|line| line.starts_with("Udp:"));
        let (names, values) = (lines.next().expect("names"), lines.next().expect("values"));
        let full = |name: &str| ["RcvbufErrors", "SndbufErrors"].contains(&name);
        let fields = names.split(' ').zip(values.split(' ')).filter(|(name, _)| full(name));
        let sockets: u64 = fields.map(|(_, value)| value.parse::<u64>().expect("a number")).sum();
        let device = net.run(host, "cat", "/sys/class/net/sl0/statistics/tx_dropped").stdout;
        sockets + text(&device).trim().parse::<u64>().unwrap_or_default()
    };
    ["a", "m", "b"].into_iter().map(of_host).sum()
}

/// Returns the number of packets that a gateway received and refused, by reason.
fn refused(status: &serde_json::Value) -> Vec<(String, u64)> {
    const REASONS: [&str; 8] = [
        "malformed",
        "unknown_spi",
        "bad_integrity",
        "replay_duplicate",
        "replay_too_old",
        "bad_padding",
        "selector_mismatch",
        "expired",
    ];
    let drops = status["drops"].as_array().expect("a list").iter();
    let drops =
        drops.map(|drop| (drop[0].as_str().expect("a name").to_owned(), drop[1].as_u64().expect("a number")));
    drops.filter(|(name, _)| REASONS.contains(&name.as_str())).collect()
}

/// Makes two hosts with a gateway each, and between them a third as the network.
fn hosts(rekey_seconds: u64) -> (Net, [String; 2]) {
    let net = Net::new("n", &["a", "m", "b"]);
    let cable = |end: usize| [format!("{}/24", GATEWAYS[end]), format!("{}/24", TOWARDS[end])];
    for (end, host) in ["a", "b"].into_iter().enumerate() {
        let [own, towards] = cable(end);
        net.link([(host, "o0", &own), ("m", &format!("m{end}"), &towards)], 1500);
        // Without IPv6, no router solicitations go through the tunnel.
        net.run(host, "sysctl", "-qw net.ipv6.conf.default.disable_ipv6=1");
    }
    let keys = ["a", "b"].map(|host| net.key(host));
    let sites = [0, 1].map(|end: usize| {
        format!(
            "listen = \"{}:4500\"\naddresses = [\"{}/32\"]\n[[peers]]\nname = \"other\"\nkey = \"{}\"\n\
             endpoint = \"{}:4500\"\nnetworks = [\"{}/32\"]\nrekey-seconds = {rekey_seconds}\n",
            GATEWAYS[end],
            INNER[end],
            keys[1 - end],
            TOWARDS[end],
            INNER[1 - end],
        )
    });
    (net, sites)
}

#[test]
fn what_a_bad_network_brings_first_is_kept_and_nothing_else() {
    let Some(()) = unless(missing()) else { return };
    let seconds = setting("SEALANE_SOAK_SECONDS", 8);
    let seed = setting("SEALANE_FAULT_SEED", 17);
    // This is the rate at which the keys of the long run change while packets under the old ones are under way.
    let (mut net, sites) = hosts((seconds / 8).clamp(2, 20));
    let towards = TOWARDS.map(|address| {
        net.inside("m", || {
            let socket = UdpSocket::bind((address, 4500)).expect("a port");
            socket.set_nonblocking(true).expect("a socket");
            (socket, TcpListener::bind((address, 4500)).expect("a port"))
        })
    });
    let gateways = GATEWAYS.map(|address| SocketAddr::new(address.parse().expect("an address"), 4500));
    let directions = [0, 1].map(|end: usize| Direction {
        from: Udp::new(towards[end].0.try_clone().expect("a descriptor"), None).expect("a port"),
        to: towards[1 - end].0.try_clone().expect("a descriptor"),
        gateway: gateways[1 - end],
        links: [0, 1].map(|at| Emulation::new(link(seed + (2 * end + at) as u64))),
        chance: Chance::new(seed ^ end as u64),
        seen: Vec::new(),
        attacks: 0,
    });
    let (is_quiet, is_ended) = (AtomicBool::new(false), AtomicBool::new(false));
    let (is_quiet, is_ended) = (&is_quiet, &is_ended);
    let mut spis = HashSet::new();
    let (sent, received, bytes, brought) = thread::scope(|scope| {
        let ends = Ends(is_ended);
        // The network's threads make sockets, which belong to its host.
        let network = net.inside("m", || {
            for (end, (_, listener)) in towards.iter().enumerate() {
                scope.spawn(move || relay(listener, gateways[1 - end], is_ended));
            }
            directions.map(|direction| scope.spawn(move || direction.run(is_quiet, is_ended)))
        });
        for (host, site) in ["a", "b"].into_iter().zip(&sites) {
            net.gateway(host, 1400, site);
        }
        net.wait_for_ping("a", INNER[1]);
        let net = &net;
        let end = Instant::now() + Duration::from_secs(seconds);
        let sockets = [("a", INNER[0]), ("b", INNER[1])].map(|(host, address)| {
            let socket = net.inside(host, || UdpSocket::bind((address, 7000)).expect("a port"));
            rustix::net::sockopt::set_ip_tos(&socket, MARK).expect("a socket");
            socket
        });
        let twins = sockets.each_ref().map(|socket| socket.try_clone().expect("a descriptor"));
        let to = INNER.map(|address| SocketAddr::new(address.parse().expect("an address"), 7000));
        let [near, far] = twins;
        let receivers =
            [(far, 0), (near, 1)].map(|(socket, seed)| scope.spawn(move || receive(&socket, seed, is_ended)));
        let [near, far] = sockets;
        let senders = [(near, to[1], 0), (far, to[0], 1)]
            .map(|(socket, to, seed)| scope.spawn(move || send(&socket, to, seed, end)));
        let stream = scope.spawn(move || streams(net, end));
        while Instant::now() < end {
            spis.extend(net.status("a")["peers"][0]["associations"][0]["spi"].as_u64());
            sleep(Duration::from_millis(200));
        }
        let sent = senders.map(|sender| sender.join().expect("no panic"));
        let bytes = stream.join().expect("no panic");
        is_quiet.store(true, SeqCst);
        sleep(QUIET);
        drop(ends);
        let brought = network.map(|direction| direction.join().expect("no panic"));
        (sent, receivers.map(|receiver| receiver.join().expect("no panic")), bytes, brought)
    });
    let lost = lost_by_kernels(&net);
    println!(
        "{seconds} s, {} pairs of keys, {bytes} bytes in streams, {lost} packets lost by the kernels",
        spis.len()
    );
    for (direction, host) in ["b", "a"].into_iter().enumerate() {
        let status = net.status(host);
        let (network, received) = (&brought[direction], received[direction].len() as u64);
        let ([datagrams, others], twice) = network.brought();
        let refused = refused(&status);
        let all: u64 = refused.iter().map(|(_, packets)| packets).sum();
        let accepted = status["peers"][0]["received_packets"].as_u64().expect("a number");
        println!(
            "to {host}: {} datagrams sent, {datagrams} brought, {received} received; {accepted} packets accepted of {}; \
             {} attacks and {twice} doubles, {all} refused: {refused:?}; {} came late",
            sent[direction],
            datagrams + others,
            network.attacks,
            network.links.iter().map(|link| link.fates.late).sum::<u64>(),
        );
        let offered = network.links[0].fates.offered;
        for (what, is, should_be) in [
            ("what is sent reaches the network", offered, sent[direction]),
            ("what it brings first is received", received, datagrams),
            ("and accepted by the gateway", accepted, datagrams + others),
            ("all else is refused, once", all, network.attacks + twice),
        ] {
            assert!(is <= should_be && is + lost >= should_be, "{host}: {what}: {is}, not {should_be}");
        }
        for reason in ["replay_duplicate", "bad_integrity", "unknown_spi"] {
            assert!(refused.iter().any(|(name, _)| name == reason), "{reason} in {refused:?}");
        }
        assert!(datagrams > 50 * seconds && twice > 0 && network.attacks > 5 * seconds);
    }
    assert!(spis.len() > 2 && bytes > 0, "{spis:?}, {bytes} bytes");
}

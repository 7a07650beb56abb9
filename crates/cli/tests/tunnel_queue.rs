//! `sealane tunnel` before links that are slower than what is sent: packets wait in the gateway, where flows take turns, and peers have
//! lines of their own; and with several queues of the device that share an association.

mod network;
mod program;

use std::net::UdpSocket;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use network::pair::{INNER, Manner, Pair, TUNNEL};
use network::{Net, missing};
use program::{text, unless};

/// Rounds of a flood, the packets of each, and their bytes: 2 s at the link's rate.
const ROUNDS: u64 = 80;
const PACKETS: u64 = 50;
const BYTES: usize = 1300;
const LINK: &str = "root tbf rate 20mbit burst 32kb latency 50ms";
/// Nothing comes any more.
const SILENCE: Duration = Duration::from_secs(3);

/// Makes a device slow. Returns the reason why it cannot.
fn slow(namespace: &str, device: &str, link: &str) -> Option<String> {
    let mut slow = Command::new("tc");
    slow.args(["-n", namespace, "qdisc", "add", "dev", device]).args(link.split(' '));
    match slow.output() {
        Ok(output) if output.status.success() => None,
        Ok(output) => Some(format!("no slow link: {}", text(&output.stderr))),
        Err(error) => Some(format!("no slow link: {error}")),
    }
}

/// Sends a flood with a packet of another flow in each round. Returns the packets of the flood that had come when the last of the
/// others came, those that came in all, and the others that came.
fn flood(pair: &Pair) -> [u64; 3] {
    let socket = |end: usize| {
        let socket = pair.inside(end, || UdpSocket::bind((INNER[end], 0)).expect("a port"));
        socket.set_read_timeout(Some(SILENCE)).expect("a socket");
        socket
    };
    let [many, few, many_in, few_in] = [0, 0, 1, 1].map(socket);
    let [many_at, few_at] = [&many_in, &few_in].map(|socket| socket.local_addr().expect("a port"));
    let (came, before, others) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut next = 0;
            let mut packet = [0; BYTES];
            while many_in.recv(&mut packet).is_ok() {
                let number = u64::from_be_bytes(*packet.first_chunk().expect("8 bytes"));
                assert!(number >= next, "{number} before {next}");
                next = number + 1;
                came.fetch_add(1, SeqCst);
            }
        });
        scope.spawn(|| {
            while few_in.recv(&mut [0; 100]).is_ok() {
                before.store(came.load(SeqCst), SeqCst);
                others.fetch_add(1, SeqCst);
            }
        });
        for round in 0..ROUNDS {
            for packet in 0..PACKETS {
                let mut bytes = [0; BYTES];
                bytes[..8].copy_from_slice(&(round * PACKETS + packet).to_be_bytes());
                many.send_to(&bytes, many_at).expect("it is sent");
            }
            few.send_to(&[0; 100], few_at).expect("it is sent");
            thread::sleep(Duration::from_millis(2));
        }
    });
    [before, came, others].map(AtomicU64::into_inner)
}

/// The last packet of the flow that sends little is sent behind the whole flood.
#[test]
fn a_flow_that_sends_little_does_not_wait_for_a_flood() {
    let Some(()) = unless(missing()) else { return };
    for (tag, site) in [("qa", "queueing = \"fq-codel\"\n"), ("qb", "queueing = \"fifo\"\n")] {
        let pair = Pair::new_as(tag, "aes-128-gcm", 20, "1", Manner { site, ..TUNNEL });
        let Some(()) = unless(slow(&pair.names[0], "o0", LINK)) else { return };
        let [before, came, others] = flood(&pair);
        let queues = pair.status(0)["queues"].clone();
        if site.contains("fq-codel") {
            assert!(before < came / 2, "{before} of {came} came first: {queues}");
            assert_eq!(others, ROUNDS, "{queues}");
            let waited = queues[0]["wait_p99_us"].as_u64().expect("a time");
            assert!(waited > 5000, "{queues}");
            // The flood does not answer, so its queue loses packets.
            assert!(queues[0]["lost_packets"].as_u64() > Some(0), "{queues}");
            let inward = pair.status(1)["queues"].clone();
            assert!(inward[1]["direction"] == "in" && inward[1]["wait_p50_us"].is_u64(), "{inward}");
        } else {
            assert!(before > came / 2, "{before} of {came} came first");
            assert_eq!(queues.as_array().map(Vec::len), Some(0), "{queues}");
        }
    }
}

#[test]
fn a_peer_behind_a_slow_link_keeps_no_packet_of_another_waiting() {
    two_peers("l", "", Some("root tbf rate 10mbit burst 16kb limit 8mb"));
}

/// The line behind the link is as slow as the site says.
#[test]
fn a_peer_with_a_rate_keeps_no_packet_of_another_waiting() {
    two_peers("r", "rate = \"10Mbit\"\n", None);
}

/// Neither keys from files nor those of a call make an association for each queue. The packets of all queues leave in the order of the
/// numbers: the other end takes none that is behind by more than 64.
#[test]
fn queues_share_an_association_in_the_order_of_its_numbers() {
    let Some(()) = unless(missing()) else { return };
    let manner = |site| Manner { site, peer: "window = 64\n", ..TUNNEL };
    let flows = "queues = 4\nqueueing = \"fq-codel\"\n";
    let pairs: [&dyn Fn() -> Pair; 3] = [
        &|| Pair::new_as("qm", "aes-128-gcm", 20, "8", manner(flows)),
        &|| Pair::new_as("qn", "aes-128-gcm", 20, "1", manner("queues = 3\nqueueing = \"fifo\"\n")),
        &|| Pair::keyed_as("qk", "", false, manner(flows)),
    ];
    for make in pairs {
        let pair = make();
        pair.wait_for_ping();
        thread::scope(|scope| {
            (0..16).for_each(|_| {
                scope.spawn(|| pair.transfer(2_000_000));
            });
        });
        pair.none_dropped("", &["replay_too_old", "replay_duplicate", "bad_integrity", "unknown_spi"]);
        for end in [0, 1] {
            let status = pair.status(end);
            assert_eq!(network::spis(&status, "out").len(), 1, "{status}");
        }
    }
}

/// Two peers, one of 10 Mb/s with a flood of 2,000 packets. All of as many packets to the other have come before half of the flood has.
fn two_peers(tag: &str, rate: &str, link: Option<&str>) {
    let Some(()) = unless(missing()) else { return };
    const COUNT: u64 = 2000;
    let mut net = Net::new(&format!("q{tag}"), &["hub", "slow", "fast"]);
    let hosts = [("slow", "192.0.2", "10.91.1"), ("fast", "198.51.100", "10.91.2")];
    let hub = net.key("hub");
    let mut site =
        "listen = \"0.0.0.0:4500\"\nqueueing = \"fq-codel\"\naddresses = [\"10.91.0.1/32\"]\n".to_owned();
    for (host, outer, inner) in hosts {
        let [own, other] = [1, 2].map(|end| format!("{outer}.{end}/24"));
        net.link([("hub", host, &own), (host, "o0", &other)], 1500);
        site += &format!(
            "[[peers]]\nname = \"{host}\"\nkey = \"{}\"\nnetworks = [\"{inner}.1/32\"]\nendpoint = \"{outer}.2:4500\"\n{}",
            net.key(host),
            if host == "slow" { rate } else { "" }
        );
    }
    net.gateway("hub", 1400, &site);
    for (host, outer, inner) in hosts {
        let site = format!(
            "listen = \"{outer}.2:4500\"\naddresses = [\"{inner}.1/32\"]\n[[peers]]\nname = \"hub\"\nkey = \"{hub}\"\n\
             networks = [\"10.91.0.1/32\"]\nendpoint = \"{outer}.1:4500\"\n"
        );
        net.gateway(host, 1400, &site);
        net.wait_for_ping("hub", &format!("{inner}.1"));
    }
    let Some(()) = unless(link.and_then(|link| slow(&net.name("hub"), "slow", link))) else { return };
    let receivers = hosts.map(|(host, _, inner)| {
        let socket = net.inside(host, || UdpSocket::bind((format!("{inner}.1"), 0)).expect("a port"));
        socket.set_read_timeout(Some(SILENCE)).expect("a socket");
        socket
    });
    let senders = [(); 2].map(|()| net.inside("hub", || UdpSocket::bind("10.91.0.1:0").expect("a port")));
    let to = receivers.each_ref().map(|socket| socket.local_addr().expect("a port"));
    let came = [AtomicU64::new(0), AtomicU64::new(0)];
    let slow_came = AtomicU64::new(0);
    thread::scope(|scope| {
        for (at, receiver) in receivers.iter().enumerate() {
            let (came, slow_came) = (&came, &slow_came);
            scope.spawn(move || {
                while receiver.recv(&mut [0; BYTES]).is_ok() {
                    came[at].fetch_add(1, SeqCst);
                    if at == 1 {
                        slow_came.store(came[0].load(SeqCst), SeqCst);
                    }
                }
            });
        }
        for round in 0..COUNT / PACKETS {
            for _ in 0..PACKETS {
                senders.iter().zip(to).for_each(|(sender, to)| {
                    sender.send_to(&[round as u8; BYTES], to).expect("it is sent");
                });
            }
            thread::sleep(Duration::from_millis(10));
        }
    });
    let queues = net.status("hub")["queues"].clone();
    let [_, fast] = came.map(AtomicU64::into_inner);
    let before = slow_came.into_inner();
    // The device drops what the processor is too slow for, and other programs may have it for a while.
    assert!(fast >= COUNT * 3 / 4, "{fast} of {COUNT} came: {queues}");
    assert!(before < COUNT / 2, "{before} of the flood came before all {fast}: {queues}");
}

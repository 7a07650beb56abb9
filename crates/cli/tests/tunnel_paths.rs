//! `sealane tunnel` on links with various MTUs, and its handling of messages about packets that were too long.

mod network;
mod program;

use std::fs;
use std::thread;
use std::time::Duration;

use network::missing;
use network::namespaces::ip;
use network::pair::{AH, DIRECT, Manner, OUTER, PLAIN, Pair, TUNNEL};
use program::{eventually, unless};

/// Sends an ICMP message to the first end about a packet to the second; it quotes the packet's IP header and the
/// bytes that followed.
fn tell(pair: &Pair, head: [u8; 8], protocol: u8, behind: &[u8]) {
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
    let mut message = [&head, &quoted[..]].concat();
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

/// Sends a message that the packet was too long for a link of `mtu` bytes.
fn say_too_long(pair: &Pair, mtu: u16, protocol: u8, behind: &[u8]) {
    let [high, low] = mtu.to_be_bytes();
    // The message is "fragmentation needed" (RFC 792, RFC 1191).
    tell(pair, [3, 4, 0, 0, 0, 0, high, low], protocol, behind);
}

/// Returns a UDP header between these ports, with its payload.
fn datagram(ports: [u16; 2], carried: &[u8]) -> Vec<u8> {
    [&ports[0].to_be_bytes()[..], &ports[1].to_be_bytes(), &[5, 0xc8, 0, 0], carried].concat()
}

#[test]
fn forged_messages_of_narrow_paths_do_no_harm() {
    let Some(()) = unless(missing()) else { return };
    let mtu = |pair: &Pair| pair.status(0)["peers"][0]["mtu_bytes"].as_u64().expect("a number");
    let messages = |pair: &Pair, verdict: &str| {
        let said = pair.status(0)["path_messages"].as_array().expect("a list").clone();
        said.iter().find(|said| said[0] == verdict).map_or(0, |said| said[1].as_u64().expect("a count"))
    };
    // Waits until one more message was received with this verdict.
    let wait = |pair: &Pair, verdict: &str, count: u64| {
        assert!(eventually(|| messages(pair, verdict) >= count), "{verdict}: {}", pair.status(0));
        assert_eq!(messages(pair, verdict), count);
    };
    // The last value is the size that fits into 1,280 outer bytes under this suite.
    for (tag, manner, protocol, bounded) in [
        ("i", TUNNEL, 17, 1218),
        ("j", Manner { site: PLAIN, ..TUNNEL }, 50, 1226),
        ("l", Manner { site: DIRECT, ..TUNNEL }, 50, 1226),
        ("k", Manner { listens_to_both: true, ..TUNNEL }, 17, 1218),
    ] {
        let pair = Pair::new_as(tag, "aes-128-gcm", 20, "1", manner);
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
        // The messages quote packets of others, as far as anybody can guess them.
        let foreign = [(spi ^ 1, next - 1), (spi, next), (spi, next + 77), (spi, 0)];
        for (count, (spi, number)) in (1..).zip(foreign) {
            say_too_long(&pair, 700, protocol, &quote([4500, 4500], &esp(spi, number)));
            wait(&pair, "foreign", count);
        }
        if protocol == 17 {
            // These are for other sockets, and do not reach ours.
            for ports in [[4501, 4500], [7, 9]] {
                say_too_long(&pair, 700, protocol, &datagram(ports, &esp(spi, next - 1)));
            }
            say_too_long(&pair, 700, protocol, &datagram([4500, 4501], &esp(spi, next - 1)));
            wait(&pair, "foreign", 1 + foreign.len() as u64);
        }
        assert_eq!(mtu(&pair), whole);
        // The kernel has believed all of them, and sending does not depend on that: nothing is cut.
        pair.transfer(1 << 20);
        assert_eq!(pair.pieces_made(0), 0);
        // A message that quotes too little makes packets shorter, but not shorter than the minimum of IPv6.
        if protocol == 17 {
            say_too_long(&pair, 68, protocol, &datagram([4500, 4500], &[]));
            wait(&pair, "hint", 1);
            assert_eq!(mtu(&pair), bounded);
            pair.transfer(1 << 20);
        }
        // A sender that has seen a packet of ours is on the path, and is believed; nothing is lost.
        say_too_long(&pair, 68, protocol, &quote([4500, 4500], &esp(spi, next - 1)));
        wait(&pair, "believed", 1);
        // The minimum is from RFC 791, section 3.1.
        assert_eq!(mtu(&pair), 576);
        for size in ["56", "1300"] {
            // The first packet that is too long is answered with the size that fits.
            assert!(pair.ping(size) || pair.ping(size), "{size} bytes");
        }
        pair.transfer(1 << 20);
    }
}

#[test]
fn packets_past_ip_follow_the_network() {
    let Some(()) = unless(missing()) else { return };
    let pair = Pair::new_as("d", "aes-128-gcm", 20, "1", Manner { site: DIRECT, ..TUNNEL });
    let [near, far] = &pair.names;
    let count = |name: &str| pair.status(0)["peers"][0][name].as_u64().expect("a number");
    // Most packets of a transfer take the direct way; the pauses are longer than the time for which an answer of the
    // kernel is valid.
    let carries = |why: &str| {
        let before = [count("sent_packets"), count("direct_packets")];
        pair.transfer(8 << 20);
        let [sent, direct] = [count("sent_packets") - before[0], count("direct_packets") - before[1]];
        assert!(direct <= sent && 2 * direct > sent, "{why}: {direct} of {sent}; {}", pair.status(0));
        assert_eq!(pair.dropped(0, "no_room"), 0, "{why}");
    };
    assert!(pair.ping("56"));
    carries("at first");
    // Packets to a neighbour that is not in the table are sent by IP.
    ip(&format!("-n {near} neighbour flush dev o0"));
    assert!(pair.ping("56") || pair.ping("56"));
    carries("a neighbour that was forgotten");
    // Another machine takes over the address, and announces it.
    pair.inside(1, || fs::write("/proc/sys/net/ipv4/conf/o1/arp_notify", "1")).expect("root may");
    ip(&format!("-n {far} link set o1 address 02:00:00:00:00:77"));
    thread::sleep(Duration::from_millis(500));
    assert!(pair.ping("56") || pair.ping("56"));
    carries("a neighbour with another link address");
    for state in ["down", "up"] {
        ip(&format!("-n {near} link set o0 {state}"));
    }
    assert!(pair.ping("56") || pair.ping("56") || pair.ping("56"));
    carries("a link that was down");
    // Packets that the device does not accept whole are sent by IP.
    for (end, name) in pair.names.iter().enumerate() {
        ip(&format!("-n {name} link set o{end} mtu 1280"));
    }
    thread::sleep(Duration::from_millis(1500));
    assert!(pair.ping("1300") || pair.ping("1300"));
    carries("a narrower link");
}

#[test]
fn messages_about_its_packets_end_no_gateway() {
    let Some(()) = unless(missing()) else { return };
    for (tag, manner, suite, material_bytes, protocol) in [
        ("e", TUNNEL, "aes-128-gcm", 20, 17),
        ("f", Manner { site: PLAIN, ..TUNNEL }, "aes-128-gcm", 20, 50),
        ("l", Manner { site: DIRECT, ..TUNNEL }, "aes-128-gcm", 20, 50),
        ("h", Manner { site: AH, ..TUNNEL }, "hmac-sha256-128", 32, 51),
        ("k", Manner { listens_to_both: true, ..TUNNEL }, "aes-128-gcm", 20, 17),
    ] {
        let pair = Pair::new_as(&format!("z{tag}"), suite, material_bytes, "1", manner);
        let behind = datagram([4500, 4500], &[0; 16]);
        assert!(pair.ping("56"));
        // The types of RFC 792 are unreachable, source quench, time exceeded, and parameter problem; a forged message
        // may have any code.
        for (kind, codes) in [(3, 0..=16), (4, 0..=0), (11, 0..=1), (12, 0..=2)] {
            for code in codes {
                for _ in 0..10 {
                    tell(&pair, [kind, code, 0, 0, 0, 0, 0, 0], protocol, &behind);
                }
                assert!(pair.ping("56"), "{tag} type {kind} code {code}");
            }
        }
        pair.transfer(1 << 20);
        // A message costs no packet.
        pair.none_dropped(tag, &["no_room"]);
    }
}

#[test]
fn devices_and_links_of_every_length_carry_packets() {
    let Some(()) = unless(missing()) else { return };
    for (tag, site, link_bytes) in [
        ("s", "mtu = 1280\n", 1500),
        ("l", "mtu = 9000\n", 9200),
        // The inner MTU exceeds the outer one: packets that may be cut are cut, and senders are told.
        ("n", "mtu = 9000\n", 1500),
    ] {
        let pair = Pair::new_as(&format!("u{tag}"), "aes-128-gcm", 20, "1", Manner { site, ..TUNNEL });
        for (end, name) in pair.names.iter().enumerate() {
            ip(&format!("-n {name} link set o{end} mtu {link_bytes}"));
        }
        // The kernel is asked about the path once per second.
        thread::sleep(Duration::from_millis(1500));
        for size in ["56", "1252", "1300", "8972", "20000"] {
            // The first packet that is too long may be lost, because its sender is told then.
            assert!(pair.ping(size) || pair.ping(size), "{site}{link_bytes}: {size} bytes");
        }
        pair.transfer(8 << 20);
        pair.none_dropped(format!("{site}{link_bytes}"), &["bad_integrity", "malformed", "no_room"]);
    }
}

//! Gateways of ours on a network that lets no UDP pass: IKE and ESP go in TCP (RFC 9329), and go by UDP again when that passes.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use super::{INNER, called, dropped, load, own_hosts, own_site, sas, transfer};
use crate::network::Net;
use crate::program::wait_for;

/// Makes a host drop all UDP; if that cannot be, the test is skipped.
fn without_udp(net: &Net, host: &str) -> Option<()> {
    let rules = [
        "add table inet noudp",
        "add chain inet noudp in { type filter hook prerouting priority -200 ; }",
        "add rule inet noudp in meta l4proto udp drop",
    ];
    net.filter(host, "firewall", &rules)
}

fn with_udp(net: &Net, host: &str) {
    assert!(net.run(host, "nft", "delete table inet noudp").status.success());
}

/// Returns whether the peer of a gateway is reached by TCP.
fn by_tcp(net: &Net, host: &str) -> bool {
    sas(net, host).iter().any(|ike| ike["transport"] == "tcp")
}

/// Starts `b`, which is called, and `a`, which calls it.
fn start(net: &mut Net, tcp: [&str; 2], rest: &str) {
    called(net, |end| own_site(end, &format!("{}\n{rest}", tcp[end])));
}

#[test]
fn where_no_udp_passes_tcp_carries_packets_until_udp_passes_again() {
    let Some(mut net) = own_hosts("ta") else { return };
    let Some(()) = without_udp(&net, "b") else { return };
    start(&mut net, ["tcp = true", "tcp = true"], "rekey-seconds = 2\n");
    net.wait_for_ping("a", INNER[1]);
    assert!(by_tcp(&net, "a") && by_tcp(&net, "b"), "{}", net.status("a"));
    transfer(&net, 8 << 20);
    // Associations get successors there as well.
    assert!(load(&net, Duration::from_secs(4)) >= 1);
    for host in ["a", "b"] {
        let lost = dropped(&net, host, &["expired", "unknown_spi", "selector_mismatch", "malformed"]);
        assert!(lost.is_empty(), "{host}: {lost:?}");
    }
    // The connection is cut, and made again.
    let cut = net.run("b", "ss", "-K state established sport = :4500");
    if cut.status.success() {
        transfer(&net, 1 << 20);
        assert!(by_tcp(&net, "a"), "{}", net.status("a"));
    }
    with_udp(&net, "b");
    wait_for("UDP again", || !by_tcp(&net, "a") && !by_tcp(&net, "b"));
    transfer(&net, 1 << 20);
    assert_eq!(sas(&net, "a").len(), 1, "{}", net.status("a"));
}

#[test]
fn another_port_of_tcp_is_named_by_both_ends() {
    let Some(mut net) = own_hosts("tp") else { return };
    let Some(()) = without_udp(&net, "b") else { return };
    start(&mut net, ["tcp = 443", "tcp = 443"], "");
    net.wait_for_ping("a", INNER[1]);
    transfer(&net, 1 << 20);
    let status = net.status("a");
    assert_eq!(status["peers"][0]["ike"][0]["endpoint"], "10.90.0.2:443", "{status}");
}

/// A gateway with `key` peers has its calls on the same port.
#[test]
fn connections_that_lie_harm_nobody() {
    let Some(mut net) = own_hosts("tl") else { return };
    let Some(()) = without_udp(&net, "b") else { return };
    start(&mut net, ["tcp = true", "tcp = true"], "");
    net.wait_for_ping("a", INNER[1]);
    let at = SocketAddr::from((Ipv4Addr::new(10, 90, 0, 2), 4500));
    let connect = || TcpStream::connect_timeout(&at, Duration::from_secs(5)).expect("a connection");
    let packet = |length: u16, bytes: &[u8]| [&length.to_be_bytes(), bytes].concat();
    net.inside("a", || {
        for lie in [
            b"GET / HTTP/1.1\r\n\r\n".to_vec(),
            b"IKETCX".to_vec(),
            [&b"IKETCP"[..], &packet(0, b"")].concat(),
            [&b"IKETCP"[..], &packet(1, b"")].concat(),
            [&b"IKETCP"[..], &packet(65_535, b"half")].concat(),
        ] {
            let mut stream = connect();
            stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a stream");
            stream.write_all(&lie).expect("it is sent");
            // It is closed, whatever comes after it.
            let closed = stream.read(&mut [0; 100]);
            assert!(matches!(closed, Ok(0)) || closed.is_err_and(|error| error.raw_os_error() == Some(104)));
        }
        // Packets that are nobody's, packets without a byte, half a packet.
        let mut strange = connect();
        let esp = [0x12, 0x34, 0x56, 0x78, 0, 0, 0, 1].repeat(8);
        let parts =
            [&b"IKETCP"[..], &packet(66, &esp), &packet(2, b""), &packet(30, &[0; 28]), &packet(500, b"x")];
        strange.write_all(&parts.concat()).expect("it is sent");
        // Those who say nothing have few places, and take none of others.
        let idle: Vec<Option<TcpStream>> =
            (0..1000).map(|_| TcpStream::connect_timeout(&at, Duration::from_secs(1)).ok()).collect();
        assert!(idle.len() == 1000);
    });
    net.wait_for_ping("a", INNER[1]);
    transfer(&net, 1 << 20);
    assert!(net.children[0].try_wait().expect("a process").is_none());
    assert!(dropped(&net, "b", &["unknown_spi"]).len() == 1, "{}", net.status("b"));
}

/// The called gateway also has a peer that is known by its key, whose calls come on the same port.
#[test]
fn calls_and_streams_share_a_port() {
    let Some(mut net) = own_hosts("tc") else { return };
    let Some(()) = without_udp(&net, "b") else { return };
    let key = net.key("a");
    let other = format!("[[peers]]\nname = \"caller\"\nkey = \"{key}\"\nnetworks = [\"10.91.9.0/24\"]\n");
    let ours = own_site(1, "tcp = true\n").replace("endpoint", "#") + &other;
    net.gateway("b", 1400, &ours);
    net.gateway("a", 1400, &own_site(0, "tcp = true\n"));
    net.wait_for_ping("a", INNER[1]);
    assert!(by_tcp(&net, "a"));
    let at = SocketAddr::from((Ipv4Addr::new(10, 90, 0, 2), 4500));
    net.inside("a", || {
        // A connection that begins like TLS is answered by TLS.
        let mut stream = TcpStream::connect_timeout(&at, Duration::from_secs(5)).expect("a connection");
        stream.set_read_timeout(Some(Duration::from_secs(10))).expect("a stream");
        stream.write_all(&[0x16, 3, 1, 0, 5, 1, 0, 0, 1, 0]).expect("it is sent");
        let mut answer = [0; 1];
        assert_eq!((stream.read(&mut answer).expect("an alert"), answer[0]), (1, 0x15));
    });
}

//! `sealane tunnel` under a flood of strangers who want to negotiate by IKE, over real sockets.

#[path = "../../../testing/ike_flood.rs"]
mod ike_flood;
mod network;
mod program;

use std::fs;
use std::net::{SocketAddrV4, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use ike_flood::{PROPOSAL, first_message};
use network::Net;
use network::namespaces::ip;
use program::{pattern, secret, unless};

/// Strangers' messages per second; a slow machine sends fewer. A gateway that is not optimised takes several times as long
/// for each.
const PER_SECOND: u32 = if cfg!(debug_assertions) { 20_000 } else { 50_000 };
/// The niceness of strangers.
const NICENESS: i32 = 19;
/// The time for which the flood goes on when all has been tried.
const AFTER_ALL: Duration = Duration::from_secs(2);
/// The most memory that the gateway may take in the flood, in KiB.
const MOST_KIB: u64 = 64 << 10;
/// The gateway's address on the strangers' side, and inside.
const TARGET: &str = "10.92.0.2";
const INNER: &str = "10.91.2.1";

/// Returns whether an answer asks for a cookie: the first payload is a notification of that kind.
fn is_cookie(answer: &[u8]) -> bool {
    answer.get(16) == Some(&41) && answer.get(34..36) == Some(&16390u16.to_be_bytes()[..])
}

/// Returns the site of a branch, whose networks are `10.91.NUMBER.0/24`, with a gateway at `target`.
fn branch(number: u8, target: &str) -> String {
    format!(
        "listen = \"0.0.0.0:4500\"\naddresses = [\"10.91.{number}.1/24\"]\n[[peers]]\nname = \"hq\"\n\
         networks = [\"10.91.2.0/24\"]\nendpoint = \"{target}:4500\"\n[peers.ike]\nid = \"hq.example\"\n\
         local-id = \"branch{number}.example\"\npsk-file = \"psk\"\nproposals = [\"{PROPOSAL}\"]\n"
    )
}

/// Returns the site of the gateway that is attacked, with two branches that begin.
fn target() -> String {
    let peer = |number: u8| {
        format!(
            "[[peers]]\nname = \"branch{number}\"\nnetworks = [\"10.91.{number}.0/24\"]\n[peers.ike]\n\
             id = \"branch{number}.example\"\nlocal-id = \"hq.example\"\npsk-file = \"psk\"\n\
             proposals = [\"{PROPOSAL}\"]\n"
        )
    };
    format!("listen = \"0.0.0.0:4500\"\naddresses = [\"{INNER}/24\"]\n{}{}", peer(1), peer(3))
}

/// Returns the most memory that a process has had, in KiB.
fn most_kib(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).expect("Linux has it");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

#[test]
fn strangers_by_the_ten_thousands_keep_nobody_out() {
    let Some(()) = unless(network::missing()) else { return };
    let mut net = Net::new("fl", &["a", "b", "c", "x"]);
    net.link([("a", "o0", "10.90.0.1/24"), ("b", "o0", "10.90.0.2/24")], 1500);
    net.link([("c", "o0", "10.93.0.1/24"), ("b", "o1", "10.93.0.2/24")], 1500);
    net.link([("x", "o0", "10.92.0.1/24"), ("b", "o2", "10.92.0.2/24")], 1500);
    // Answers to strangers vanish.
    ip(&format!("-n {} route add {} via 10.92.0.1", net.name("b"), ike_flood::NETWORK));
    ip(&format!("-n {} route add blackhole {}", net.name("x"), ike_flood::NETWORK));
    secret(net.folder.path().join("psk"), "0123456789abcdef0123456789abcdef\n");
    net.gateway("b", 1400, &target());
    let process = net.children[0].id();
    net.gateway("a", 1400, &branch(1, "10.90.0.2"));
    net.wait_for_ping("a", INNER);
    let before_kib = most_kib(process);

    let (message, is_ended) = (first_message(), AtomicBool::new(false));
    let to = SocketAddrV4::new(TARGET.parse().expect("an address"), 500);
    let name = net.name("x");
    let sent = thread::scope(|scope| {
        let flood = scope.spawn(|| {
            network::namespaces::inside(&name, || {
                // On a machine with few processors, strangers that share it must not starve the gateway's housekeeper.
                let _ = rustix::process::setpriority_process(Some(rustix::thread::gettid()), NICENESS);
                ike_flood::send(to, &message, PER_SECOND, &is_ended).expect("root may send raw packets")
            })
        });
        // A failure here ends the flood, too.
        let checked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            // A stranger that answers at its address is asked for a cookie.
            let socket = net.inside("x", || UdpSocket::bind(("10.92.0.1", 0)).expect("a port"));
            socket.set_read_timeout(Some(Duration::from_millis(200))).expect("a time");
            let deadline = Instant::now() + Duration::from_secs(60);
            let (mut answer, mut first) = ([0; 2048], message.clone());
            for spi in (0..u64::MAX).rev() {
                // A message that came before the flood is answered again without a cookie; this one is another.
                first[..8].copy_from_slice(&spi.to_be_bytes());
                socket.send_to(&first, to).expect("a way there");
                match socket.recv(&mut answer).map(|length| &answer[..length]) {
                    Ok(answer) if is_cookie(answer) => break,
                    other => assert!(Instant::now() < deadline, "no cookie is asked for: {other:02x?}"),
                }
            }
            // The established tunnel goes on.
            let listener = net.inside("b", || TcpListener::bind((INNER, 0)).expect("a port"));
            let at = listener.local_addr().expect("a port");
            let near = net.inside("a", || TcpStream::connect(at).expect("the other end"));
            network::stream(near, &listener, &pattern(1 << 20));
            // A peer that knows the secret gets in.
            net.gateway("c", 1400, &branch(3, "10.93.0.2"));
            net.wait_for_ping("c", INNER);
            thread::sleep(AFTER_ALL);
        }));
        is_ended.store(true, Ordering::Relaxed);
        let sent = flood.join().expect("no panic");
        checked.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        sent
    });
    let after_kib = most_kib(process);
    println!(
        "{} strangers in {:.1} s, {before_kib} KiB before, {after_kib} KiB at most",
        sent.messages,
        sent.time.as_secs_f64()
    );
    assert!(after_kib < MOST_KIB, "{after_kib} KiB, {before_kib} before the flood");
    for (branch, host) in ["a", "c"].into_iter().enumerate() {
        net.wait_for_ping(host, INNER);
        let status = net.status("b");
        assert_eq!(status["peers"][branch]["ike"].as_array().map(Vec::len), Some(1), "{status}");
    }
}

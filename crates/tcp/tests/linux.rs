//! Linux's own TCP as the other end, over a TUN device in a namespace that the test makes, with packets dropped both
//! ways: connections opened from either side, large transfers both ways at once, curl and iperf3.

mod common;
#[path = "linux/iperf3.rs"]
mod iperf3;
#[path = "../../../testing/skip.rs"]
mod skip;

use common::ip::Address;
use common::node::Node;
use common::tun::Tun;
use common::{Random, content};
use sealane_tcp::{Config, Congestion, Reason, Time};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

const KERNEL: [u8; 4] = [10, 77, 0, 1];
const OURS: Address = Address { ip: [10, 77, 0, 2], port: 4000 };
const BYTES: u64 = 3_000_000;
/// A conversation of this length has failed.
const PATIENCE: Duration = Duration::from_secs(90);

fn config() -> Config {
    Config { time_wait: Duration::from_millis(50), ..Config::default() }
}

fn stream(number: u64) -> Vec<u8> {
    (0..BYTES).map(|at| content(number, at)).collect()
}

/// Runs `body` in a thread of its own with a TUN device; a missing permission or device skips.
fn with_tun(body: impl FnOnce(Tun) + Send + 'static) {
    let result = thread::spawn(move || match Tun::open(KERNEL) {
        Ok(tun) => body(tun),
        Err(error) => {
            skip::skip(format_args!("no TUN device in a namespace: {error}"));
        }
    });
    if let Err(panic) = result.join() {
        std::panic::resume_unwind(panic);
    }
}

/// Carries packets between `node` and the kernel until `is_done`, losing some both ways.
fn carry(
    node: &mut Node,
    tun: &mut Tun,
    start: Instant,
    loss_permille: u64,
    mut is_done: impl FnMut(&mut Node) -> bool,
) {
    carry_all(std::slice::from_mut(node), tun, start, loss_permille, |nodes| is_done(&mut nodes[0]));
}

/// Does as [`carry`] for several connections, each with a port of its own.
fn carry_all(
    nodes: &mut [Node],
    tun: &mut Tun,
    start: Instant,
    loss_permille: u64,
    mut is_done: impl FnMut(&mut [Node]) -> bool,
) {
    let mut random = Random::new(9);
    let mut buffer = vec![0; 65_536];
    let now = || Time::from_ns(start.elapsed().as_nanos() as u64);
    while !is_done(nodes) {
        let mut wait = Duration::from_millis(10);
        for node in &mut *nodes {
            assert!(start.elapsed() < PATIENCE, "{} bytes received, {:?}", node.received.len(), node.ended);
            node.poll(now());
            while let Some(packet) = node.packets.pop_front() {
                if !random.permille(loss_permille) {
                    tun.send(&packet).expect("the device takes packets");
                }
            }
            wait = node.deadline().map_or(wait, |deadline| wait.min(deadline.since(now())));
        }
        if let Some(length) = tun.receive(&mut buffer, wait).expect("the device has packets")
            && !random.permille(loss_permille)
        {
            nodes.iter_mut().for_each(|node| node.on_packet(&buffer[..length], now()));
        }
    }
}

/// Plays the kernel's side: sends one stream, and receives the other and checks it.
fn exchange(mut socket: TcpStream) {
    let mut reader = socket.try_clone().expect("a second handle");
    let sender = thread::spawn(move || {
        socket.write_all(&stream(2)).expect("the stream is sent");
        socket.shutdown(Shutdown::Write).expect("it can be shut down");
    });
    let mut received = Vec::new();
    reader.read_to_end(&mut received).expect("the stream arrives");
    assert!(received == stream(1), "{} bytes arrived", received.len());
    sender.join().expect("all is sent");
}

fn finish(node: &Node) {
    assert!(node.received == stream(2), "{} bytes", node.received.len());
    assert!(node.is_peer_closed);
    // The kernel may have forgotten the connection when our last segment was lost.
    assert!(matches!(node.ended, Some(Reason::Finished | Reason::Reset)), "{:?}", node.ended);
    assert_eq!(node.pool.in_use(), 0, "slots were kept");
}

#[test]
fn linux_connects_and_both_send() {
    for (loss_permille, congestion) in
        [(0, Congestion::Cubic), (10, Congestion::Cubic), (20, Congestion::NewReno)]
    {
        with_tun(move |mut tun| {
            let start = Instant::now();
            let mut node = Node::listen(&Config { congestion, ..config() }, OURS);
            node.stream = stream(1);
            node.closes = true;
            let kernel = thread::spawn(move || {
                exchange(TcpStream::connect((Ipv4Addr::from(OURS.ip), OURS.port)).expect("it connects"))
            });
            carry(&mut node, &mut tun, start, loss_permille, |node| {
                node.ended.is_some() && kernel.is_finished()
            });
            kernel.join().expect("the kernel's side is content");
            finish(&node);
        });
    }
}

#[test]
fn linux_listens_and_both_send() {
    for (loss_permille, sack, timestamps) in
        [(0, true, true), (10, true, true), (10, false, true), (10, true, false)]
    {
        with_tun(move |mut tun| {
            let listener = TcpListener::bind((Ipv4Addr::from(KERNEL), 0)).expect("a port");
            let port = listener.local_addr().expect("an address").port();
            let kernel = thread::spawn(move || exchange(listener.accept().expect("a connection").0));
            let start = Instant::now();
            let config = Config { sack, timestamps, ..config() };
            let mut node = Node::connect(&config, OURS, Address { ip: KERNEL, port }, Time::ZERO);
            node.stream = stream(1);
            node.closes = true;
            carry(&mut node, &mut tun, start, loss_permille, |node| {
                node.ended.is_some() && kernel.is_finished()
            });
            kernel.join().expect("the kernel's side is content");
            finish(&node);
        });
    }
}

/// The kernel's end has neither SACK nor timestamps, and its smallest windows.
#[test]
fn linux_without_extensions() {
    with_tun(|mut tun| {
        for setting in ["tcp_sack", "tcp_timestamps", "tcp_window_scaling"] {
            // The setting belongs to the thread's namespace.
            std::fs::write(format!("/proc/sys/net/ipv4/{setting}"), "0").expect("a setting of the namespace");
        }
        let start = Instant::now();
        let mut node = Node::listen(&config(), OURS);
        node.stream = stream(1);
        node.closes = true;
        let kernel = thread::spawn(|| {
            exchange(TcpStream::connect((Ipv4Addr::from(OURS.ip), OURS.port)).expect("it connects"))
        });
        carry(&mut node, &mut tun, start, 10, |node| node.ended.is_some() && kernel.is_finished());
        kernel.join().expect("the kernel's side is content");
        finish(&node);
    });
}

#[test]
fn linux_is_reset_and_resets() {
    with_tun(|mut tun| {
        let start = Instant::now();
        // Our end breaks off, and the kernel sees a reset.
        let mut node = Node::listen(&config(), OURS);
        let kernel = thread::spawn(|| {
            let mut socket = TcpStream::connect((Ipv4Addr::from(OURS.ip), OURS.port)).expect("it connects");
            socket.write_all(b"hello").expect("it sends");
            socket.read(&mut [0; 10]).expect_err("a reset").kind()
        });
        carry(&mut node, &mut tun, start, 0, |node| node.received.len() == 5);
        node.abort(Time::from_ns(start.elapsed().as_nanos() as u64));
        carry(&mut node, &mut tun, start, 0, |_| kernel.is_finished());
        assert_eq!(kernel.join().expect("it ends"), std::io::ErrorKind::ConnectionReset);
        // Nobody listens there, so our end sees the kernel's reset.
        let now = Time::from_ns(start.elapsed().as_nanos() as u64);
        let mut node = Node::connect(&config(), OURS, Address { ip: KERNEL, port: 9 }, now);
        carry(&mut node, &mut tun, start, 0, |node| node.ended.is_some());
        assert_eq!(node.ended, Some(Reason::Refused));
    });
}

/// Returns the length of an HTTP request's head, once it has arrived.
fn head_bytes(received: &[u8]) -> Option<usize> {
    received.windows(4).position(|window| window == b"\r\n\r\n").map(|at| at + 4)
}

#[test]
fn curl_downloads_and_uploads() {
    if Command::new("curl").arg("--version").stdout(Stdio::null()).status().is_err() {
        return skip::skip("curl is not installed");
    }
    let url = format!("http://10.77.0.2:{}/", OURS.port);
    let download_url = url.clone();
    with_tun(move |mut tun| {
        let start = Instant::now();
        let mut node = Node::listen(&config(), OURS);
        let curl = thread::spawn(move || {
            Command::new("curl")
                .args(["--silent", "--show-error", &download_url])
                .output()
                .expect("curl runs")
        });
        carry(&mut node, &mut tun, start, 10, |node| {
            if head_bytes(&node.received).is_some() && node.stream.is_empty() {
                let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {BYTES}\r\nConnection: close\r\n\r\n");
                node.stream = [head.into_bytes(), stream(1)].concat();
                node.closes = true;
            }
            curl.is_finished()
        });
        let output = curl.join().expect("curl ends");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(output.stdout == stream(1), "{} bytes", output.stdout.len());
    });
    with_tun(move |mut tun| {
        let start = Instant::now();
        let mut node = Node::listen(&config(), OURS);
        let is_answered = AtomicBool::new(false);
        let curl = thread::spawn(move || {
            let arguments = ["--silent", "--show-error", "--header", "Expect:", "--data-binary", "@-", &url];
            let mut curl = Command::new("curl")
                .args(arguments)
                .stdin(Stdio::piped())
                .stdout(Stdio::null())
                .spawn()
                .expect("curl runs");
            let mut input = curl.stdin.take().expect("its input");
            input.write_all(&stream(2)).expect("curl reads");
            drop(input);
            curl.wait().expect("curl ends")
        });
        carry(&mut node, &mut tun, start, 10, |node| {
            let head = head_bytes(&node.received);
            if head.is_some_and(|head| node.received.len() as u64 == head as u64 + BYTES)
                && !is_answered.swap(true, Ordering::Relaxed)
            {
                node.stream = b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n".to_vec();
                node.closes = true;
            }
            curl.is_finished()
        });
        assert!(curl.join().expect("it ends").success());
        let head = head_bytes(&node.received).expect("a request");
        assert!(node.received[head..] == stream(2), "the upload differs");
    });
}

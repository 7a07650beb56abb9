//! Tests the example `null_tunnel` between two namespaces: small packets, whole TCP streams and the order of
//! datagrams.

#[allow(dead_code)]
mod namespaces;
#[path = "../../../testing/skip.rs"]
mod skip;

use namespaces::{INNER, Tunnel, missing, null_tunnel};
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::Duration;

/// Bytes of the transfer.
const TRANSFER_BYTES: usize = 64 << 20;

fn up(lanes: u32) -> Tunnel {
    let program = null_tunnel().to_string_lossy().into_owned();
    Tunnel::up(|device, own, peer| {
        [&program, device, &format!("{own}:7100"), &format!("{peer}:7100"), &lanes.to_string()]
            .map(ToString::to_string)
            .to_vec()
    })
    .of_single_bursts()
}

/// Runs `work` on a thread of namespace `end`.
fn inside<T: Send>(tunnel: &Tunnel, end: usize, work: impl FnOnce() -> T + Send) -> T {
    namespaces::inside(&tunnel.names[end], work)
}

/// Bytes that repeat nowhere near.
struct Stream(u64);

impl Stream {
    fn fill(&mut self, into: &mut [u8]) {
        for word in into.chunks_mut(8) {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            word.copy_from_slice(&(self.0 ^ self.0 >> 29).to_le_bytes()[..word.len()]);
        }
    }
}

fn transfer(tunnel: &Tunnel) {
    let listener = inside(tunnel, 1, || TcpListener::bind((INNER[1], 5000)).unwrap());
    let mut near = inside(tunnel, 0, || TcpStream::connect((INNER[1], 5000)).unwrap());
    let (mut far, _) = listener.accept().unwrap();
    far.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let sender = thread::spawn(move || {
        let (mut bytes, mut stream) = (vec![0; 1 << 16], Stream(1));
        for _ in 0..TRANSFER_BYTES / bytes.len() {
            stream.fill(&mut bytes);
            near.write_all(&bytes).unwrap();
        }
    });
    let (mut got, mut expected, mut stream) = (vec![0; 1 << 16], vec![0; 1 << 16], Stream(1));
    for block in 0..TRANSFER_BYTES / got.len() {
        far.read_exact(&mut got).unwrap();
        stream.fill(&mut expected);
        assert!(got == expected, "block {block} differs");
    }
    sender.join().unwrap();
    assert_eq!(far.read(&mut got).unwrap(), 0, "nothing but what was sent");
}

/// Sends numbered datagrams of changing lengths in bursts, and checks that none overtakes another.
fn datagrams_in_order(tunnel: &Tunnel) {
    let receiver = inside(tunnel, 1, || UdpSocket::bind((INNER[1], 5001)).unwrap());
    receiver.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let sender = inside(tunnel, 0, || UdpSocket::bind((INNER[0], 0)).unwrap());
    let count = 20_000u32;
    let sending = thread::spawn(move || {
        for number in 0..count {
            let mut datagram = vec![0; 64 + (number / 40 % 30) as usize * 40];
            datagram[..4].copy_from_slice(&number.to_be_bytes());
            // A full queue in the kernel may lose datagrams.
            let _ = sender.send_to(&datagram, (INNER[1], 5001));
            if number % 100 == 0 {
                thread::sleep(Duration::from_millis(1));
            }
        }
        // The end mark is sent many times, because it may be lost too.
        for _ in 0..50 {
            let _ = sender.send_to(&u32::MAX.to_be_bytes(), (INNER[1], 5001));
            thread::sleep(Duration::from_millis(10));
        }
    });
    let (mut datagram, mut next, mut received) = ([0; 2048], 0, 0);
    loop {
        let bytes = receiver.recv(&mut datagram).unwrap();
        let number = u32::from_be_bytes(datagram[..4].try_into().unwrap());
        if number == u32::MAX {
            break;
        }
        assert_eq!(bytes, 64 + (number / 40 % 30) as usize * 40);
        assert!(number >= next, "datagram {number} after {}", next - 1);
        next = number + 1;
        received += 1;
    }
    sending.join().unwrap();
    assert!(received > count / 10, "{received} of {count} datagrams came");
}

fn check(lanes: u32) {
    let Some(()) = skip::unless(missing()) else { return };
    let tunnel = up(lanes);
    for size in [0, 56, 1400, 5000] {
        let arguments = format!("-c 3 -i 0.05 -W 5 -s {size} {}", INNER[1]);
        let output = tunnel.command(0, "ping", &arguments).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
    transfer(&tunnel);
    datagrams_in_order(&tunnel);
    let (gigabits, again) = tunnel.iperf3(1);
    let seconds = tunnel.cpu_seconds();
    println!(
        "{lanes} lanes a direction: {gigabits:.2} Gb/s, {again} segments sent again, {seconds} s of CPU in all"
    );
}

#[test]
fn a_lane_a_direction_carries_everything() {
    check(1);
}

#[test]
fn two_lanes_a_direction_keep_the_order() {
    check(2);
}

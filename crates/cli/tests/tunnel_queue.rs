//! `sealane tunnel` before a link that is slower than what is sent: packets wait in the gateway, where flows take turns.

mod network;
mod program;

use std::net::UdpSocket;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use network::missing;
use network::pair::{INNER, Manner, Pair, TUNNEL};
use program::{skip, text};

/// Rounds of a flood, the packets of each, and their bytes: 2 s at the link's rate.
const ROUNDS: u64 = 80;
const PACKETS: u64 = 50;
const BYTES: usize = 1300;
const LINK: &str = "root tbf rate 20mbit burst 32kb latency 50ms";
/// Nothing comes any more.
const SILENCE: Duration = Duration::from_secs(3);

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
    if let Some(why) = missing() {
        return skip(&why);
    }
    for (tag, site) in [("qa", "queueing = \"fair\"\n"), ("qb", "")] {
        let pair = Pair::new_as(tag, "aes-128-gcm", 20, "1", Manner { site, ..TUNNEL });
        let mut slow = Command::new("tc");
        slow.args(["-n", &pair.names[0], "qdisc", "add", "dev", "o0"]).args(LINK.split(' '));
        let slow = slow.output();
        if let Some(why) = match &slow {
            Ok(output) if output.status.success() => None,
            Ok(output) => Some(text(&output.stderr).to_owned()),
            Err(error) => Some(error.to_string()),
        } {
            return skip(&format!("no slow link: {why}"));
        }
        let [before, came, others] = flood(&pair);
        let queues = pair.status(0)["queues"].clone();
        if site.contains("fair") {
            assert!(before < came / 2, "{before} of {came} came first: {queues}");
            assert_eq!(others, ROUNDS, "{queues}");
            let waited = queues[0]["wait_p99_us"].as_u64().expect("a time");
            assert!(waited > 5000, "{queues}");
            // The flood does not answer, so its queue loses packets.
            assert!(queues[0]["lost_packets"].as_u64() > Some(0), "{queues}");
        } else {
            assert!(before > came / 2, "{before} of {came} came first");
            assert_eq!(queues.as_array().map(Vec::len), Some(0), "{queues}");
        }
    }
}

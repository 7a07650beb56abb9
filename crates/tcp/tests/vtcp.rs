//! pktkit's `vtcp` as the other end, in memory, over a link that loses and reorders packets. It reads the clock
//! itself, so these conversations take real time; they run all at once.

mod common;

use common::ip::{Address, around};
use common::link::Direction;
use common::node::Node;
use common::{Random, content};
use pktkit::vtcp::{CongestionKind, Conn, ConnConfig, Segment};
use sealane_tcp::{Config, Congestion, Reason, Time};
use sealane_wire::Ipv4;
use std::thread;
use std::time::{Duration, Instant};

const OURS: Address = Address { ip: [10, 0, 0, 1], port: 4000 };
const THEIRS: Address = Address { ip: [10, 0, 0, 2], port: 5000 };
const BYTES: u64 = 100_000;
/// A conversation longer than this has failed.
const LONGEST: Duration = Duration::from_secs(120);

fn converse(seed: u64) {
    let mut random = Random::new(seed);
    let loss_permille = [0, 10, 40][seed as usize % 3];
    let config = Config {
        mss: 1460,
        congestion: random.one_of(&[Congestion::NewReno, Congestion::Cubic]),
        nagle: random.once_in(2),
        timestamps: random.once_in(2),
        sack: random.once_in(2),
        receive_bytes: random.one_of(&[8_000, 65_535, 300_000]),
        time_wait: Duration::from_millis(50),
        ..Config::default()
    };
    let start = Instant::now();
    let now = || Time::from_ns(start.elapsed().as_nanos() as u64);
    let theirs = ConnConfig::default().local_port(THEIRS.port).remote_port(OURS.port);
    let theirs = theirs
        .congestion(if random.once_in(2) { CongestionKind::NewReno } else { CongestionKind::Cubic })
        .enable_sack(random.once_in(2))
        .enable_timestamps(random.once_in(2))
        .no_window_scaling(random.once_in(2));
    let mut theirs = Conn::new(theirs);
    let is_ours_active = random.once_in(2);
    let mut outbound = Vec::new();
    let mut node = if is_ours_active {
        Node::connect(&config, OURS, THEIRS, now())
    } else {
        outbound.extend(theirs.connect());
        Node::listen(&config, OURS)
    };
    node.stream = (0..BYTES).map(|at| content(1, at)).collect();
    node.closes = true;
    let (mut to_us, mut to_them) = (Direction::default(), Direction::default());
    let (mut sent, mut received) = (0, 0);
    let (mut is_accepted, mut is_closed) = (!is_ours_active, false);
    while node.ended.is_none() || received < BYTES {
        let passed = start.elapsed();
        assert!(
            passed < LONGEST,
            "seed {seed}: {} and {received} bytes, {:?}",
            node.received.len(),
            node.ended
        );
        let ms = passed.as_millis() as u64;
        for packet in to_them.due(ms) {
            let ip = Ipv4::parse(&packet[..]).expect("a packet of ours");
            let segment = Segment::parse(ip.payload()).expect("a segment of ours");
            outbound.extend(if is_accepted {
                theirs.handle_segment(&segment)
            } else {
                theirs.accept_syn(&segment)
            });
            is_accepted = true;
        }
        outbound.extend(theirs.tick());
        let mut piece = [0; 2000];
        loop {
            let length = theirs.read(&mut piece);
            for &byte in &piece[..length] {
                assert_eq!(byte, content(1, received), "seed {seed}: byte {received}");
                received += 1;
            }
            if length == 0 {
                break;
            }
        }
        if theirs.state().is_synchronized() && sent < BYTES {
            let piece: Vec<u8> = (sent..BYTES.min(sent + 1000)).map(|at| content(2, at)).collect();
            let (taken, segments) = theirs.write(&piece);
            sent += taken as u64;
            outbound.extend(segments);
        }
        if sent == BYTES && !is_closed {
            is_closed = true;
            outbound.extend(theirs.close());
        }
        // Reading has made room, which the segments waiting here announce.
        outbound.extend(theirs.take_outgoing());
        for segment in outbound.drain(..) {
            to_us.send(around(THEIRS, OURS, &segment), ms, loss_permille, &mut random);
        }
        for packet in to_us.due(ms) {
            node.on_packet(&packet, now());
        }
        node.poll(now());
        for packet in node.packets.drain(..) {
            to_them.send(packet, ms, loss_permille, &mut random);
        }
        thread::sleep(Duration::from_micros(300));
    }
    let expected: Vec<u8> = (0..BYTES).map(|at| content(2, at)).collect();
    assert!(node.received == expected, "seed {seed}: {} bytes", node.received.len());
    assert_eq!(node.ended, Some(Reason::Finished), "seed {seed}");
    assert_eq!(node.pool.in_use(), 0, "seed {seed}: slots were kept");
}

#[test]
fn vtcp_at_the_other_end() {
    thread::scope(|scope| {
        for seed in 0..24 {
            scope.spawn(move || converse(seed));
        }
    });
}

//! Tests every port that needs no device: packets come out as they went in, in order, for all batches and rooms.

use proptest::prelude::*;
use sealane_port::capture::{Reader, Writer};
use sealane_port::link::{Clock, Emulated, Emulation, Link};
use sealane_port::memory::{Cable, Collect, Discard, Source, Template};
use sealane_port::stream::Stream;
use sealane_port::udp::Udp;
use sealane_port::{Batch, Verdict};
use sealane_port::{Port, Room};
use sealane_wire::pcap;
use std::io::ErrorKind;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

const ESP: Room = Room { headroom_bytes: 16, trailer_bytes: 2, align_bytes: 4, tailroom_bytes: 16 };

fn batch_of(packets: &[Vec<u8>]) -> Batch {
    let bytes: usize = packets.iter().map(|packet| packet.len().next_multiple_of(64) + 64).sum();
    let mut batch = Batch::new(bytes + 64, packets.len().max(1));
    for packet in packets {
        assert!(batch.push_bytes(0, packet, 0));
    }
    batch
}

fn numbered(count: usize, bytes: usize) -> Vec<Vec<u8>> {
    (0..count).map(|number| (number as u32).to_be_bytes().into_iter().cycle().take(bytes).collect()).collect()
}

/// Returns all packets that a port gives, until it ends or has no more now.
fn drain(port: &mut impl Port) -> Vec<Vec<u8>> {
    let mut batch = Batch::new(4 * 65_536, 256);
    let mut packets = Vec::new();
    loop {
        batch.clear();
        match port.receive(&mut batch) {
            Ok(0) => return packets,
            Ok(count) => {
                assert_eq!(count, batch.packets.len());
                packets.extend(batch.passed().map(<[u8]>::to_vec));
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => return packets,
            Err(error) => panic!("{error}"),
        }
    }
}

#[test]
fn a_source_gives_its_packets_and_ends() {
    let packets = numbered(10, 100);
    let mut source = Source::new(packets.clone(), ESP, 3);
    let mut batch = Batch::new(1000, 8);
    assert_eq!(source.receive(&mut batch).unwrap(), 3);
    assert_eq!((batch.packets[1].headroom_bytes(), batch.packets[1].tailroom_bytes()), (16, 4 + 16));
    assert_eq!(batch.packets[0].room().end(), batch.packets[1].room().start as usize);
    let mut all: Vec<Vec<u8>> = batch.passed().map(<[u8]>::to_vec).collect();
    all.extend(drain(&mut source));
    assert_eq!(all, packets);
    assert_eq!(source.receive(&mut batch).unwrap(), 0);
}

#[test]
fn a_batch_without_room_takes_nothing() {
    let mut source = Source::new(numbered(1, 1000), Room::NONE, 1);
    let mut small = Batch::new(999, 1);
    assert_eq!(source.receive(&mut small).unwrap_err().kind(), ErrorKind::InvalidInput);
    assert!(small.packets.is_empty());
    assert_eq!(source.receive(&mut Batch::new(1000, 1)).unwrap(), 1);
}

#[test]
fn a_template_repeats_itself_and_refused_packets_are_passed_over() {
    let mut template = Template::new(vec![5; 60], 100, Room::NONE, 32);
    let mut batch = Batch::new(60 * 32, 32);
    let (mut discard, mut collect) = (Discard::default(), Collect::new(93));
    while template.receive(&mut batch).unwrap() > 0 {
        batch.packets[1].refuse(Verdict::Forged);
        assert_eq!(discard.send(&batch, 0).unwrap(), batch.packets.len());
        assert!(collect.send(&batch, 0).is_ok() || collect.packets.len() == 93);
        batch.clear();
    }
    assert_eq!((discard.packets, discard.bytes), (96, 96 * 60));
    assert_eq!(collect.packets.len(), 93);
}

#[test]
fn a_cable_is_bounded_and_closes() {
    let (mut one, mut other) = Cable::pair(Room::NONE, 4);
    let batch = batch_of(&numbered(6, 50));
    assert_eq!(one.send(&batch, 0).unwrap(), 4);
    assert_eq!(one.send(&batch, 4).unwrap_err().kind(), ErrorKind::WouldBlock);
    assert_eq!(drain(&mut other), numbered(4, 50));
    assert_eq!(one.send(&batch, 4).unwrap(), 2);
    drop(one);
    assert_eq!(drain(&mut other), numbered(6, 50)[4..]);
    assert_eq!(other.receive(&mut Batch::new(100, 1)).unwrap(), 0);
    assert_eq!(other.send(&batch, 0).unwrap_err().kind(), ErrorKind::BrokenPipe);
}

#[test]
fn a_capture_comes_back() {
    let packets = numbered(100, 333);
    let mut writer = Writer::new(Vec::new(), pcap::Link::Ip).unwrap();
    assert_eq!(writer.send(&batch_of(&packets), 0).unwrap(), 100);
    let file = writer.finish().unwrap();
    let mut reader = Reader::new(&file[..], Room::NONE, 7).unwrap();
    assert_eq!(reader.link(), pcap::Link::Ip);
    assert_eq!(drain(&mut reader), packets);
    // The capture is cut within a packet, and within a record's header.
    for missing in [1, 333 + 5] {
        let mut reader = Reader::new(&file[..file.len() - missing], Room::NONE, 1000).unwrap();
        let mut batch = Batch::new(65_536, 256);
        assert_eq!(reader.receive(&mut batch).unwrap_err().kind(), ErrorKind::UnexpectedEof);
        assert_eq!(batch.packets.len(), 99);
    }
}

fn sockets() -> [UdpSocket; 2] {
    let sockets = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    sockets[0].connect(sockets[1].local_addr().unwrap()).unwrap();
    sockets[1].connect(sockets[0].local_addr().unwrap()).unwrap();
    sockets
}

/// Sends packets of many lengths in one batch, and receives as many.
fn check_udp(mut from: Udp, mut to: Udp) {
    let mut packets = numbered(100, 1000);
    packets.extend(numbered(3, 700));
    packets.extend(numbered(70, 64));
    packets.extend(numbered(1, 1));
    // The packets exceed one burst's bytes, so there are several.
    packets.extend(numbered(60, 1400));
    let mut batch = batch_of(&packets);
    batch.packets[150].refuse(Verdict::Damaged);
    packets.remove(150);
    assert_eq!(from.send(&batch, 0).unwrap(), packets.len() + 1);
    let mut received: Vec<Vec<u8>> = Vec::new();
    let mut into = Batch::new(4 * 65_536, 512);
    while received.len() < packets.len() {
        into.clear();
        assert!(to.receive(&mut into).unwrap() > 0);
        received.extend(into.passed().map(<[u8]>::to_vec));
    }
    assert_eq!(received, packets);
    assert_eq!((from.refused_packets, to.refused_packets), (0, 0));
}

#[test]
fn bursts_arrive_as_they_were_sent() {
    let [one, other] = sockets();
    check_udp(Udp::new(one, None).unwrap(), Udp::new(other, None).unwrap());
}

#[test]
fn what_was_cut_into_two_bursts_arrives_in_one_call() {
    // There are too many bytes for one burst, and too many datagrams.
    for packets in [numbered(60, 1400), numbered(100, 500)] {
        let [one, other] = sockets();
        let (mut from, mut to) = (Udp::new(one, None).unwrap(), Udp::new(other, None).unwrap());
        // Two pairs wait at once: the second is for the next call.
        for _ in 0..2 {
            assert_eq!(from.send(&batch_of(&packets), 0).unwrap(), packets.len());
        }
        let mut into = Batch::new(4 * 65_536, 512);
        for _ in 0..2 {
            into.clear();
            assert_eq!(to.receive(&mut into).unwrap(), packets.len());
            assert!(into.passed().eq(packets.iter()));
        }
    }
}

#[test]
fn without_offloads_the_same_arrives() {
    let [one, other] = sockets();
    check_udp(Udp::without_offloads(one, None).unwrap(), Udp::new(other, None).unwrap());
    let [one, other] = sockets();
    check_udp(Udp::without_offloads(one, None).unwrap(), Udp::without_offloads(other, None).unwrap());
}

#[test]
fn an_unconnected_socket_says_who_sent() {
    let [one, other] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    let (source, peer) = (one.local_addr().unwrap(), other.local_addr().unwrap());
    let (mut one, mut other) = (Udp::new(one, Some(peer)).unwrap(), Udp::new(other, None).unwrap());
    let packets = numbered(20, 500);
    assert_eq!(one.send(&batch_of(&packets), 0).unwrap(), 20);
    let mut batch = Batch::new(65_536, 128);
    other.receive(&mut batch).unwrap();
    assert_eq!(other.source, Some(source));
    other.set_peer(source);
    assert_eq!(other.send(&batch_of(&packets), 0).unwrap(), 20);
    batch.clear();
    assert!(one.receive(&mut batch).unwrap() > 0);
}

/// The first port of an address gets all that comes, whoever sends it, and nobody else can have the address.
#[test]
fn siblings_send_from_the_ports_address_and_receive_nothing() {
    for any in ["127.0.0.1:0", "0.0.0.0:0", "[::1]:0"] {
        let socket = UdpSocket::bind(any).expect("a port");
        let at = socket.local_addr().expect("it is bound");
        let mut port = Udp::new(socket, None).expect("a port");
        let mut siblings = port.siblings(7).expect("the kernel has shared addresses");
        assert_eq!(siblings.len(), 7);
        assert_eq!(UdpSocket::bind(at).expect_err("it is taken").kind(), ErrorKind::AddrInUse);
        let loopback = if at.is_ipv4() { "127.0.0.1" } else { "::1" };
        let to = std::net::SocketAddr::new(loopback.parse().expect("an address"), at.port());
        let others: Vec<UdpSocket> =
            (0..64).map(|_| UdpSocket::bind((loopback, 0)).expect("a port")).collect();
        for (sibling, other) in siblings.iter_mut().zip(&others) {
            sibling.set_peer(other.local_addr().expect("it is bound"));
            assert_eq!(sibling.send(&batch_of(&numbered(3, 100)), 0).expect("it is sent"), 3);
            for _ in 0..3 {
                assert_eq!(other.recv_from(&mut [0; 100]).expect("it comes").1, to);
            }
        }
        for other in &others {
            other.send_to(b"answer", to).expect("it is sent");
        }
        let (mut batch, mut came) = (Batch::new(4 * 65_536, 256), 0);
        // Loopback delivers within the call that sends.
        while let Ok(count) = port.receive_now(&mut batch) {
            came += count;
            batch.clear();
        }
        assert_eq!(came, others.len(), "{any}");
        for sibling in &mut siblings {
            assert_eq!(sibling.receive_now(&mut batch).expect_err("none").kind(), ErrorKind::WouldBlock);
        }
    }
}

/// A datagram that was received late has waited.
#[test]
fn datagrams_tell_how_long_they_waited() {
    let [near, far] = sockets();
    let (near, mut far) = (Udp::new(near, None).expect("a port"), Udp::new(far, None).expect("a port"));
    far.report_times().expect("the kernel reports times");
    let mut near = near;
    let mut batch = Batch::new(4 * 65_536, 256);
    near.send(&batch_of(&numbered(1, 100)), 0).expect("it is sent");
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(far.receive_now(&mut batch).expect("it came"), 1);
    assert!(far.waited > Duration::ZERO);
    assert_eq!(far.receive_now(&mut batch).expect_err("no other").kind(), ErrorKind::WouldBlock);
}

#[test]
fn a_destination_that_cannot_be_costs_its_packets_and_nothing_else() {
    for sees_to_lengths in [false, true] {
        let [from, to] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
        let good = to.local_addr().unwrap();
        let mut from = Udp::new(from, None).unwrap();
        if sees_to_lengths {
            from.report_too_long().unwrap();
        }
        let mut to = Udp::new(to, None).unwrap();
        let packets = batch_of(&numbered(3, 100));
        let mut lost = 0;
        // One address has port 0, and one is a broadcast that the socket may not use.
        for bad in ["127.0.0.1:0", "255.255.255.255:9"] {
            from.set_peer(bad.parse().unwrap());
            assert_eq!(from.send(&packets, 0).unwrap(), 3, "{bad}");
            lost += 3;
            assert_eq!(from.refused_packets, lost, "{bad}");
            from.set_peer(good);
            assert_eq!(from.send(&packets, 0).unwrap(), 3, "after {bad}");
            let mut batch = Batch::new(2 * 65_536, 256);
            assert_eq!(to.receive(&mut batch).unwrap(), 3, "after {bad}");
        }
        assert_eq!(from.refused_packets, lost);
    }
}

#[test]
fn marks_of_the_ip_header_are_sent_and_told() {
    for host in ["127.0.0.1:0", "[::1]:0", "[::ffff:127.0.0.1]:0"] {
        let Ok(one) = UdpSocket::bind(host) else { continue };
        let other = UdpSocket::bind(host).unwrap();
        let peer = other.local_addr().unwrap();
        let (mut one, mut other) = (Udp::new(one, Some(peer)).unwrap(), Udp::new(other, None).unwrap());
        let batch = batch_of(&numbered(3, 500));
        // Expedited forwarding, and congestion.
        for class in [0, 46 << 2 | 2, 3, 0] {
            one.traffic_class = class;
            assert_eq!(one.send(&batch, 0).unwrap(), 3);
            let mut arrived = Batch::new(2 * 65_536, 256);
            let mut laid = 0;
            while laid < 3 {
                arrived.clear();
                laid += other.receive(&mut arrived).unwrap();
                assert_eq!(other.received_traffic_class, class, "{host}");
            }
        }
    }
}

#[test]
fn a_stream_keeps_its_bytes() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let near = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let (far, _) = listener.accept().unwrap();
    near.set_nonblocking(true).unwrap();
    let packets = numbered(200, 40_000);
    let expected = packets.concat();
    let reader = std::thread::spawn(move || drain(&mut Stream::new(far, 5000, Room::NONE)).concat());
    let mut stream = Stream::new(near, 5000, Room::NONE);
    let batch = batch_of(&packets);
    let mut sent = 0;
    while sent < packets.len() {
        match stream.send(&batch, sent) {
            Ok(more) => sent += more,
            Err(error) if error.kind() == ErrorKind::WouldBlock => std::thread::yield_now(),
            Err(error) => panic!("{error}"),
        }
    }
    drop(stream);
    assert!(reader.join().unwrap() == expected, "the bytes differ");
}

/// Sends packets at intervals of one millisecond through a link in virtual time; returns the packets that arrive,
/// with the time since the first was sent.
fn through(link: Link, packets: &[Vec<u8>]) -> Vec<(Duration, Vec<u8>)> {
    let clock = Clock::still();
    let begin = clock.now();
    let (mut near, far) = Cable::pair(Room::NONE, packets.len());
    let mut far = Emulated::new(far, link, clock.clone(), Room::NONE);
    let mut arrived = Vec::new();
    let mut collect = |far: &mut Emulated<Cable>, now: Instant| {
        arrived.extend(drain(far).into_iter().map(|packet| (now - begin, packet)));
    };
    for (number, packet) in packets.iter().enumerate() {
        let sent = begin + Duration::from_millis(number as u64);
        // A packet that is due before the next is sent arrives at its own time.
        while let Some(due) = far.poll_timeout().filter(|&due| due <= sent) {
            clock.advance_to(due);
            collect(&mut far, due);
        }
        clock.advance_to(sent);
        near.send(&batch_of(std::slice::from_ref(packet)), 0).unwrap();
        collect(&mut far, sent);
    }
    while let Some(due) = far.poll_timeout() {
        clock.advance_to(due);
        collect(&mut far, due);
    }
    arrived
}

#[test]
fn a_link_delays_and_paces() {
    let packets = numbered(10, 1000);
    let delayed = through(Link { delay: Duration::from_millis(50), ..Link::PERFECT }, &packets);
    for (number, (time, packet)) in delayed.iter().enumerate() {
        assert_eq!((*time, packet), (Duration::from_millis(50 + number as u64), &packets[number]));
    }
    // 1000 bytes take 4 ms, and packets come every millisecond.
    let paced = through(Link { bytes_per_second: Some(250_000), ..Link::PERFECT }, &packets);
    for (number, (time, _)) in paced.iter().enumerate() {
        assert_eq!(*time, Duration::from_millis(4 + 4 * number as u64));
    }
    // The queue holds three of them.
    let link = Link { bytes_per_second: Some(250_000), queue_bytes: 3000, ..Link::PERFECT };
    assert!(through(link, &packets).len() < 10);
}

#[test]
fn chance_comes_from_the_seed_and_in_the_given_share() {
    let packets = numbered(4000, 20);
    let link = Link {
        loss: 0.1,
        duplicate: 0.05,
        reorder: 0.2,
        lateness: Duration::from_millis(3),
        ..Link::PERFECT
    };
    let first = through(link, &packets);
    assert_eq!(first, through(link, &packets));
    assert_ne!(first, through(Link { seed: 1, ..link }, &packets));
    let share = first.len() as f64 / packets.len() as f64;
    assert!((0.9 * 1.05 - share).abs() < 0.03, "{share}");
    let overtaken = first.windows(2).filter(|pair| pair[0].1 > pair[1].1).count();
    assert!(overtaken > 400, "{overtaken}");
}

proptest! {
    #[test]
    fn a_link_invents_nothing(
        loss in 0.0..1.0, reorder in 0.0..1.0, duplicate in 0.0..1.0, seed: u64, count in 1usize..60,
    ) {
        let link = Link { loss, reorder, duplicate, seed, ..Link::PERFECT };
        let mut emulation = Emulation::new(link);
        let now = Instant::now();
        let packets = numbered(count, 10);
        for packet in &packets {
            emulation.offer(now, packet);
        }
        let mut batch = Batch::new(65_536, 256);
        let taken = emulation.take(now + Duration::from_secs(1), Room::NONE, &mut batch);
        let fates = emulation.fates;
        prop_assert_eq!(taken as u64, fates.offered - fates.lost - fates.dropped + fates.twice);
        prop_assert!(batch.passed().all(|packet| packets.iter().any(|sent| sent == packet)));
        prop_assert_eq!(emulation.poll_timeout(), None);
    }
}

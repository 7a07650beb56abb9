//! The lines under virtual time: links of several rates, packets as a device gives them.

use std::{cell::Cell, collections::HashMap, rc::Rc};

use sealane_port::tun::WHOLE_BYTES;
use sealane_wire::{Ipv4Fields, UdpFields, protocol, virtio::VIRTIO_BYTES};

use super::*;
use crate::queue::{fair::Memory, whole::PLACE_BYTES};

const US: u64 = 1000;

/// A link of so many bytes per microsecond, with what waits before it.
#[derive(Clone, Debug, Default)]
struct Link(Rc<Cell<f64>>);

impl Link {
    fn add(&self, bytes: f64) {
        self.0.set((self.0.get() + bytes).max(0.0));
    }
}

impl Gauge for Link {
    fn unsent_bytes(&self) -> u32 {
        self.0.get() as u32
    }
}

impl Memory for Whole {
    fn memory_bytes(&self) -> usize {
        self.buffer.len()
    }
}

/// The line is in the third byte of the destination.
struct ByDestination(Option<u64>);

impl Lines for ByDestination {
    fn of(&mut self, packet: &[u8]) -> usize {
        packet[18].into()
    }

    fn rate(&self, line: usize) -> Option<(u64, usize)> {
        self.0.filter(|_| line == 0).map(|rate| (rate, 28))
    }
}

/// Returns a buffer with a UDP packet of `bytes` of data to `line`, which tells the time.
fn packet(line: u8, port: u16, host: [u8; 2], number: u64, bytes: usize) -> (Box<[u8]>, usize) {
    let mut buffer: Box<[u8]> = vec![0; WHOLE_BYTES].into();
    let packet = &mut buffer[VIRTIO_BYTES..VIRTIO_BYTES + 28 + bytes];
    let fields = Ipv4Fields {
        traffic_class: 0,
        identification: 0,
        dont_fragment: true,
        time_to_live: 64,
        protocol: protocol::UDP,
        source: [10, 1, host[0], host[1]].into(),
        destination: [10, 2, line, 1].into(),
    };
    fields.write(packet, 8 + bytes).expect("there is room");
    let udp = UdpFields { source_port: port, destination_port: 9 };
    udp.write(&mut packet[20..], bytes).expect("there is room");
    packet[28..36].copy_from_slice(&number.to_be_bytes());
    (buffer, VIRTIO_BYTES + 28 + bytes)
}

/// Two or more peers on links of their own, for `ms` milliseconds. Each flow is a line, a port, the microseconds between its packets and
/// their bytes of data. Returns the packets, bytes and the longest wait in microseconds of each flow, and the counts of the queue.
fn run(
    rates: &[f64],
    shaped: Option<u64>,
    flows: &[(u8, u16, u64, usize)],
    ms: u64,
) -> (HashMap<u16, (u64, u64, u64)>, crate::queue::counters::Counts) {
    let links: Vec<Link> = rates.iter().map(|_| Link::default()).collect();
    let mut queue = Queue::new(links.clone(), ByDestination(shaped), &Common::of(1));
    let counters = Counters::default();
    let mut batch = Batch::new(3 * 65_536, 512);
    let mut told: HashMap<u16, (u64, u64, u64)> = HashMap::new();
    let mut last: HashMap<u16, u64> = HashMap::new();
    for us in 0..1000 * ms {
        let now_ns = us * US;
        links.iter().zip(rates).for_each(|(link, rate)| link.add(-rate));
        for &(line, port, apart_us, bytes) in flows {
            if us % apart_us == 0 {
                let (mut buffer, used) = packet(line, port, [0, 1], now_ns, bytes);
                assert!(queue.push(&mut buffer, used, now_ns, &counters));
            }
        }
        // The lane is busy for a moment after each burst.
        if us % 10 > 0 {
            continue;
        }
        batch.clear();
        if queue.busy > 0 && queue.serve(now_ns, Room::NONE, &counters, &mut batch).is_none() {
            let mut line = 0;
            for packet in batch.passed() {
                line = packet[18];
                let port = u16::from_be_bytes([packet[20], packet[21]]);
                let since = u64::from_be_bytes(*packet[28..].first_chunk().expect("8 bytes"));
                let before = last.insert(port, since);
                assert!(before.is_none_or(|before| before < since), "the order of flow {port}");
                let (packets, bytes, longest) = told.entry(port).or_default();
                *packets += 1;
                *bytes += packet.len() as u64;
                // The first half is for finding the rates.
                if us > 500 * ms {
                    *longest = (*longest).max((now_ns - since) / US);
                }
            }
            assert!(batch.passed().all(|packet| packet[18] == line), "a burst is of one line");
            let memory: usize = batch.passed().map(|packet| packet.len() + KERNEL_BYTES as usize).sum();
            links[usize::from(line)].add(memory as f64);
        }
        let charges: u32 = queue.lines.iter().flat_map(|line| &line.fair).map(|fair| fair.charge()).sum();
        assert!(queue.charge == charges && queue.charge <= LIMIT_BYTES);
    }
    (told, counters.read())
}

/// A peer on a line of 10 Mb/s with a flood, and one on a faster line: that one's packets wait as if it were alone, and all leave.
#[test]
fn a_slow_peer_keeps_no_packet_of_another_waiting() {
    // Bytes of memory per microsecond: packets of 1,328 bytes take 2,096.
    let [slow, fast] = [1.25, 125.0].map(|rate| rate * 2096.0 / 1328.0);
    let other = [(1, 20, 40, 1300), (1, 21, 7000, 100)];
    let (alone, _) = run(&[slow, fast], None, &other, 1000);
    let flood = [(0, 10, 300, 1300)];
    let (both, counts) = run(&[slow, fast], None, &[&other[..], &flood].concat(), 1000);
    for port in [20, 21] {
        assert_eq!(both[&port].0, alone[&port].0, "all packets of flow {port} leave");
        assert!(both[&port].2 <= alone[&port].2 + 1000, "{both:?} {alone:?}");
    }
    assert!(counts.lost > 0, "{counts:?}");
    let carried = both[&10].1 as f64 / 1.25e6;
    assert!((0.93..1.05).contains(&carried), "{carried}");
}

/// A rate bounds what leaves for one line alone, headers outside included.
#[test]
fn a_rate_is_kept_and_used() {
    let (told, _) = run(
        &[1e4, 1e4],
        Some(1_250_000),
        &[(0, 10, 300, 1300), (0, 11, 7000, 100), (1, 20, 300, 1300)],
        1000,
    );
    let outside = told[&10].1 + told[&11].1 + 28 * (told[&10].0 + told[&11].0);
    assert!((0.97..1.005).contains(&(outside as f64 / 1.25e6)), "{outside}");
    assert_eq!((told[&20].0, told[&11].0), (3334, 143));
    // Two packets of the flood, of a millisecond each.
    assert!(told[&11].2 < 3300, "{told:?}");
}

/// 100,000 flows of 64 bytes each: the memory that is really used is within what is charged, that within the limit, and packets of old
/// flows still leave.
#[test]
fn memory_is_bounded_under_a_flood_of_flows() {
    let link = Link::default();
    let mut queue = Queue::new([link], ByDestination(None), &Common::of(1));
    let counters = Counters::default();
    let mut most = 0;
    let (mut old, mut left) = (0, 0);
    for number in 0..100_000u32 {
        let host = [(number >> 8) as u8, number as u8];
        let now_ns = u64::from(number) * US;
        let (mut buffer, used) = packet(0, (number >> 16) as u16 + 100, host, now_ns, 64 - 28);
        assert!(queue.push(&mut buffer, used, now_ns, &counters));
        if number % 1000 == 0 {
            let (mut buffer, used) = packet(0, 7, [0, 0], now_ns, 1300);
            assert!(queue.push(&mut buffer, used, now_ns, &counters));
            let mut batch = Batch::new(3 * 65_536, 512);
            assert_eq!(queue.serve(now_ns, Room::NONE, &counters, &mut batch), None);
            old += batch.passed().filter(|packet| packet[20..22] == [0, 7]).count();
            left += batch.passed().count();
            queue.lines[0].outside.0.set(0.0);
        }
        if number % 200 == 0 {
            let fair = queue.lines[0].fair.as_ref().expect("it has packets");
            most = most.max(fair.memory_bytes() + queue.buffers.bytes());
        }
    }
    let fixed = 512 << 10;
    assert!(most <= LIMIT_BYTES as usize + fixed, "{most} bytes");
    assert!(most > LIMIT_BYTES as usize / 2, "the flood fills it: {most}");
    // It sends one of 1,000 packets, of which half have room.
    assert!(old >= 95, "{old} of {left}");
    assert!(counters.read().full > 20_000, "{:?}", counters.read());
    assert!(PLACE_BYTES as usize >= 2 * size_of::<(Whole, u64, u64)>());
}

/// Queues that share a line's rate keep to it together, and each gets about as much as the others.
#[test]
fn queues_share_a_rate_and_the_memory() {
    const QUEUES: usize = 4;
    let common = Common::of(QUEUES);
    assert_eq!(common.limit_bytes() as usize * QUEUES, LIMIT_BYTES as usize);
    let counters = Counters::default();
    let links: Vec<Link> = (0..QUEUES).map(|_| Link::default()).collect();
    let rate = 1_250_000;
    let lines = || ByDestination(Some(rate));
    let mut queues: Vec<_> = links.iter().map(|link| Queue::new([link.clone()], lines(), &common)).collect();
    let mut batch = Batch::new(3 * 65_536, 512);
    let mut left = [0u64; QUEUES];
    for us in 0..2_000_000u64 {
        let now_ns = us * US;
        for (at, queue) in queues.iter_mut().enumerate() {
            // Each queue gets twice the rate.
            if us % 500 == 0 {
                let (mut buffer, used) = packet(0, 7, [0, at as u8], now_ns, 1300);
                assert!(queue.push(&mut buffer, used, now_ns, &counters));
                assert!(queue.charge <= common.limit_bytes());
            }
            // Lanes look at times of their own.
            if !(us + 3 * at as u64).is_multiple_of(10) {
                continue;
            }
            batch.clear();
            if queue.busy > 0 && queue.serve(now_ns, Room::NONE, &counters, &mut batch).is_none() {
                left[at] += batch.passed().map(|packet| packet.len() as u64 + 28).sum::<u64>();
                links[at].0.set(0.0);
            }
        }
    }
    let all: u64 = left.iter().sum();
    assert!((0.97..1.01).contains(&(all as f64 / (2 * rate) as f64)), "{all} of {}", 2 * rate);
    assert!(left.iter().all(|&own| own * 8 > all), "{left:?}");
}

//! Tests a TUN device of the real kernel: written packets arrive, in GSO packets that the kernel takes.

#[allow(dead_code)]
mod namespaces;
#[path = "../../../testing/skip.rs"]
mod skip;

use namespaces::{Alone, INNER, missing};
use sealane_port::Batch;
use sealane_port::Port as _;
use sealane_port::tun::{Options, Tun};
use sealane_wire::{IPV4_BYTES, Ipv4, Ipv4Fields, Udp, UdpFields, protocol};
use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;

const PORT: u16 = 5001;

/// Returns a datagram from another address in the device's network.
fn datagram(number: u32) -> Vec<u8> {
    let mut payload = [7; 64];
    payload[..4].copy_from_slice(&number.to_be_bytes());
    let mut packet = vec![0; IPV4_BYTES + 8];
    UdpFields { source_port: 9, destination_port: PORT }
        .write(&mut packet[IPV4_BYTES..], payload.len())
        .unwrap();
    packet.extend_from_slice(&payload);
    let fields = Ipv4Fields {
        traffic_class: 0,
        identification: number as u16,
        dont_fragment: true,
        time_to_live: 64,
        protocol: protocol::UDP,
        source: INNER[1].parse().unwrap(),
        destination: INNER[0].parse::<Ipv4Addr>().unwrap(),
    };
    fields.write(&mut packet, 8 + payload.len()).unwrap();
    let pseudo = Ipv4::parse(&packet[..]).unwrap().pseudo_sum();
    Udp::parse(&mut packet[IPV4_BYTES..]).unwrap().fill_checksum(pseudo);
    packet
}

/// The kernel refuses a GSO packet of more datagrams than it allows, and all of them would be lost.
#[test]
fn many_small_datagrams_arrive_all() {
    let Some(()) = skip::unless(missing()) else { return };
    // The number is more than any kernel takes in one GSO packet, and no more than a socket's buffer holds.
    let count = 200;
    let alone = Alone::new("s");
    alone.inside(|| {
        let mut tun = Tun::open(&Options::new("t0")).unwrap().remove(0);
        alone.set_up_device();
        let socket = UdpSocket::bind((INNER[0], PORT)).unwrap();
        socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        let mut batch = Batch::new(1 << 16, count as usize);
        (0..count).for_each(|number| assert!(batch.push_bytes(0, &datagram(number), 0)));
        assert_eq!(tun.send(&batch, 0).unwrap(), count as usize);
        assert_eq!(tun.refused_packets, 0);
        let mut into = [0; 100];
        for number in 0..count {
            let bytes = socket.recv(&mut into).unwrap_or_else(|error| panic!("datagram {number}: {error}"));
            assert_eq!(bytes, 64);
            assert_eq!(into[..4], number.to_be_bytes());
        }
    });
}

/// Each flow has one queue, and keeps it although its answers are written meanwhile.
#[test]
fn a_flow_stays_at_its_queue_whatever_is_written() {
    let Some(()) = skip::unless(missing()) else { return };
    const FLOWS: u16 = 64;
    let alone = Alone::new("q");
    alone.inside(|| {
        let options = Options { queues: 4, is_nonblocking: true, has_offloads: false, ..Options::new("t0") };
        let (mut queues, mut sender) = Tun::open_queues(&options).unwrap();
        alone.set_up_device();
        let sockets: Vec<UdpSocket> = (0..FLOWS)
            .map(|flow| {
                let socket = UdpSocket::bind((INNER[0], PORT + flow)).unwrap();
                socket.connect((INNER[1], 9)).unwrap();
                socket.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
                socket
            })
            .collect();
        // Returns the queue of each flow.
        let mut round = || -> Vec<usize> {
            sockets.iter().for_each(|socket| assert_eq!(socket.send(&[7; 64]).unwrap(), 64));
            let mut found = vec![usize::MAX; FLOWS.into()];
            let mut batch = Batch::new(1 << 16, 2 * usize::from(FLOWS));
            for (at, queue) in queues.iter_mut().enumerate() {
                batch.clear();
                while queue.receive(&mut batch).is_ok() {}
                for packet in batch.passed().filter(|packet| packet[9] == protocol::UDP) {
                    let port = u16::from_be_bytes([packet[20], packet[21]]);
                    if let Some(flow) = port.checked_sub(PORT).filter(|&flow| flow < FLOWS) {
                        found[usize::from(flow)] = at;
                    }
                }
            }
            found
        };
        let before = round();
        let count = |at| before.iter().filter(|&&own| own == at).count();
        assert!((0..4).all(|at| count(at) > 0) && !before.contains(&usize::MAX), "{before:?}");
        let mut batch = Batch::new(1 << 16, FLOWS.into());
        for flow in 0..FLOWS {
            let mut answer = datagram(flow.into());
            answer[IPV4_BYTES + 2..IPV4_BYTES + 4].copy_from_slice(&(PORT + flow).to_be_bytes());
            // No checksum, which IPv4 allows.
            answer[IPV4_BYTES + 6..IPV4_BYTES + 8].fill(0);
            assert!(batch.push_bytes(0, &answer, 0));
        }
        sender.send(&batch, 0).unwrap();
        assert_eq!(sender.refused_packets, 0);
        sockets.iter().for_each(|socket| assert_eq!(socket.recv(&mut [0; 100]).unwrap(), 64));
        assert_eq!(round(), before);
    });
}

//! Tests a TUN device of the real kernel: written packets arrive, in superpackets that the kernel takes.

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

/// The kernel refuses a superpacket of more datagrams than it allows, and all of them would be lost.
#[test]
fn many_small_datagrams_arrive_all() {
    if let Some(why) = missing() {
        skip::skip(why);
        return;
    }
    // The number is more than any kernel takes in one superpacket, and no more than a socket's buffer holds.
    let count = 200;
    let alone = Alone::new();
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

//! IPv4 around TCP: the work of the layer below a connection.

use sealane_tcp::{HEADER_BYTES_MAX, Header, Ports, decode, encode};
use sealane_wire::{IPV4_BYTES, Ipv4, Ipv4Fields, Tcp, protocol};
use std::net::Ipv4Addr;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Address {
    pub(crate) ip: [u8; 4],
    pub(crate) port: u16,
}

pub(crate) fn packet(from: Address, to: Address, header: &Header, payload: &[u8]) -> Vec<u8> {
    let ports = Ports { source: from.port, destination: to.port };
    let mut segment = vec![0; HEADER_BYTES_MAX];
    let header_bytes = encode(ports, header, &mut segment).expect("room for a header");
    segment.truncate(header_bytes);
    segment.extend_from_slice(payload);
    around(from, to, &segment)
}

/// Returns a segment as a packet, its checksum filled in.
pub(crate) fn around(from: Address, to: Address, segment: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; IPV4_BYTES];
    packet.extend_from_slice(segment);
    let fields = Ipv4Fields {
        traffic_class: 0,
        identification: 0,
        dont_fragment: true,
        time_to_live: 64,
        protocol: protocol::TCP,
        source: Ipv4Addr::from(from.ip),
        destination: Ipv4Addr::from(to.ip),
    };
    fields.write(&mut packet, segment.len()).expect("a packet's length");
    let pseudo = Ipv4::parse(&packet[..]).expect("a whole packet").pseudo_sum();
    Tcp::parse(&mut packet[IPV4_BYTES..]).expect("a whole segment").fill_checksum(pseudo);
    packet
}

/// Returns source, destination, header and payload of a TCP packet. A wrong checksum panics, because no test here
/// corrupts bytes.
pub(crate) fn parse(packet: &[u8]) -> Option<(Address, Address, Header, Vec<u8>)> {
    let ip = Ipv4::parse(packet).ok()?;
    if ip.protocol() != protocol::TCP {
        return None;
    }
    let tcp = Tcp::parse(ip.payload()).ok()?;
    assert!(tcp.checksum_is_right(ip.pseudo_sum()), "the peer's checksum is wrong");
    let (ports, header, at) = decode(ip.payload()).ok()?;
    let address = |ip: Ipv4Addr, port| Address { ip: ip.octets(), port };
    let (from, to) = (address(ip.source(), ports.source), address(ip.destination(), ports.destination));
    Some((from, to, header, ip.payload()[at..].to_vec()))
}

//! Packet headers: the parts of a view lie within the bytes it was made of, and its accessors answer; the fields,
//! written again, give the same header.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sealane_wire::{Ah, Esp, EspTrailer, Ethernet, Fddi, Icmp, Ipv4, Ipv6, Tcp, Udp, protocol};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(frame) = Ethernet::parse(bytes) {
        packet(frame.payload());
    }
    if let Ok(frame) = Fddi::parse(bytes) {
        packet(frame.payload());
    }
    packet(bytes);
});

fn packet(bytes: &[u8]) {
    if let Ok(ip) = Ipv4::parse(bytes) {
        assert_eq!(ip.header_bytes() + ip.payload().len(), ip.total_bytes());
        assert_eq!(ip.options().len() + 20, ip.header_bytes());
        let mut copy = bytes.to_vec();
        let mut edited = Ipv4::parse(&mut copy[..]).expect("the same bytes");
        edited.fill_checksum();
        edited.set_time_to_live(ip.time_to_live().wrapping_sub(1));
        edited.set_ecn(3);
        assert!(edited.checksum_is_right());
        upper(ip.protocol(), ip.payload());
    }
    if let Ok(ip) = Ipv6::parse(bytes) {
        assert_eq!(40 + ip.payload().len(), ip.total_bytes());
        if let Ok(found) = ip.upper() {
            assert_eq!(bytes[found.named_at], found.protocol);
            upper(found.protocol, &bytes[found.offset_bytes..ip.total_bytes()]);
        }
    }
}

fn upper(protocol: u8, bytes: &[u8]) {
    match protocol {
        protocol::TCP => {
            if let Ok(tcp) = Tcp::parse(bytes) {
                assert_eq!(tcp.header_bytes() + tcp.payload().len(), bytes.len());
                assert!(tcp.options().count() <= 40);
            }
        }
        protocol::UDP => {
            if let Ok(udp) = Udp::parse(bytes) {
                assert_eq!(8 + udp.payload().len(), udp.total_bytes());
            }
        }
        protocol::ICMP | protocol::ICMPV6 => {
            if let Ok(icmp) = Icmp::parse(bytes) {
                assert_eq!(8 + icmp.payload().len(), bytes.len());
            }
        }
        protocol::ESP => {
            if let Ok(esp) = Esp::parse(bytes)
                && let Ok((payload, trailer)) = EspTrailer::split(esp.payload())
            {
                let mut written = vec![0; trailer.total_bytes()];
                trailer.write(&mut written).expect("it has the room");
                assert_eq!(written, esp.payload()[payload.len()..]);
            }
        }
        protocol::AH => {
            if let Ok(ah) = Ah::parse(bytes) {
                assert_eq!(ah.header_bytes() + ah.payload().len(), bytes.len());
                assert_eq!(ah.check_value().len() + 12, ah.header_bytes());
            }
        }
        _ => {}
    }
}

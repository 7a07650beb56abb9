//! The ICMP messages to senders of packets that are too long for a tunnel (RFC 4301, section 8.2; RFC 1191; RFC
//! 8201).
//!
//! Guarantees: an answer is made only if RFC 1122, section 3.2.2, and RFC 4443, section 2.4 (e), allow one, so two
//! gateways never answer each other's answers; no bytes can make this panic.

use sealane_wire::{
    ICMP_BYTES, IPV4_BYTES, IPV6_BYTES, Icmp, IcmpFields, Ipv4, Ipv4Fields, Ipv6, Ipv6Fields, Sum, icmp_kind,
    icmp6_kind, protocol,
};

use crate::frame::HOPS;

/// The length that every IPv4 host must accept in one piece; no smaller size is assumed for a tunnel (RFC 791,
/// section 3.1).
pub const LEAST_V4: u16 = 576;
/// The same for IPv6 (RFC 8200, section 5).
pub const LEAST_V6: u16 = 1280;

/// The maximum length of an answer over IPv4 in bytes (RFC 1812, section 4.3.2.3).
const ANSWER_V4_BYTES_MAX: usize = 576;
/// The maximum length of an answer over IPv6 in bytes (RFC 4443, section 2.4 (c)).
const ANSWER_V6_BYTES_MAX: usize = 1280;
/// Fragmentation needed.
const CODE: u8 = 4;

/// Returns whether `packet` must not be fragmented on its way (RFC 4301, section 8.1).
pub fn is_whole(packet: &[u8]) -> bool {
    match packet.first().map(|byte| byte >> 4) {
        Some(4) => Ipv4::parse(packet).is_ok_and(|ip| ip.dont_fragment()),
        _ => true,
    }
}

/// Returns the ICMP packet that asks the sender of `packet` to send at most `mtu` bytes. Its source is the
/// destination of `packet`: a packet from the device with an address of the gateway would be dropped as forged.
pub fn answer(packet: &[u8], mtu: u16) -> Option<Vec<u8>> {
    match packet.first()? >> 4 {
        4 => answer_v4(packet, mtu),
        6 => answer_v6(packet, mtu),
        _ => None,
    }
}

/// Returns a packet with room for an IP header, followed by `icmp`, without its checksum, and as much of `packet` as
/// fits into `most` bytes.
fn message(header_bytes: usize, icmp: IcmpFields, packet: &[u8], most: usize) -> Option<Vec<u8>> {
    let mut message = vec![0; header_bytes + ICMP_BYTES];
    icmp.write(&mut message[header_bytes..]).ok()?;
    message.extend_from_slice(&packet[..packet.len().min(most - header_bytes - ICMP_BYTES)]);
    Some(message)
}

fn answer_v4(packet: &[u8], mtu: u16) -> Option<Vec<u8>> {
    let ip = Ipv4::parse(packet).ok()?;
    let (source, destination) = (ip.source(), ip.destination());
    let upper = packet.get(ip.header_bytes()..ip.total_bytes())?;
    let is_first = ip.fragment_offset_bytes() == 0;
    let is_error = ip.protocol() == protocol::ICMP
        && !Icmp::parse(upper).is_ok_and(|icmp| {
            matches!(icmp.kind(), icmp_kind::ECHO_REPLY | icmp_kind::ECHO_REQUEST | 13..=18)
        });
    let is_one = !source.is_multicast() && !source.is_unspecified() && !source.is_broadcast();
    if !is_first || is_error || !is_one || destination.is_multicast() || destination.is_broadcast() {
        return None;
    }
    let [high, low] = mtu.to_be_bytes();
    let icmp = IcmpFields { kind: icmp_kind::UNREACHABLE, code: CODE, rest: [0, 0, high, low] };
    let mut answer = message(IPV4_BYTES, icmp, &packet[..ip.total_bytes()], ANSWER_V4_BYTES_MAX)?;
    let fields = Ipv4Fields {
        traffic_class: 0,
        identification: 0,
        dont_fragment: true,
        time_to_live: HOPS,
        protocol: protocol::ICMP,
        source: destination,
        destination: source,
    };
    let upper_bytes = answer.len() - IPV4_BYTES;
    fields.write(&mut answer, upper_bytes).ok()?;
    Icmp::parse(&mut answer[IPV4_BYTES..]).ok()?.fill_checksum(Sum::new());
    Some(answer)
}

fn answer_v6(packet: &[u8], mtu: u16) -> Option<Vec<u8>> {
    let ip = Ipv6::parse(packet).ok()?;
    let (source, destination) = (ip.source(), ip.destination());
    let upper = ip.upper().ok()?;
    // Errors have types below 128. A packet to a group is answered, because its path's limit cannot be found
    // otherwise (section 2.4 (e.3)).
    let is_error = upper.protocol == protocol::ICMPV6
        && packet.get(upper.offset_bytes).is_none_or(|&kind| kind < icmp6_kind::ECHO_REQUEST);
    if is_error || source.is_multicast() || source.is_unspecified() {
        return None;
    }
    let rest = u32::from(mtu.max(LEAST_V6)).to_be_bytes();
    let icmp = IcmpFields { kind: icmp6_kind::TOO_BIG, code: 0, rest };
    let mut answer = message(IPV6_BYTES, icmp, &packet[..ip.total_bytes()], ANSWER_V6_BYTES_MAX)?;
    let fields = Ipv6Fields {
        traffic_class: 0,
        flow_label: 0,
        next_header: protocol::ICMPV6,
        hop_limit: HOPS,
        source: destination,
        destination: source,
    };
    let upper_bytes = answer.len() - IPV6_BYTES;
    fields.write(&mut answer, upper_bytes).ok()?;
    let pseudo = Ipv6::parse(&answer[..]).ok()?.pseudo_sum(protocol::ICMPV6, upper_bytes);
    Icmp::parse(&mut answer[IPV6_BYTES..]).ok()?.fill_checksum(pseudo);
    Some(answer)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn v4(upper: u8, bytes: usize) -> Vec<u8> {
        let mut packet = vec![7; bytes];
        let fields = Ipv4Fields {
            traffic_class: 0,
            identification: 1,
            dont_fragment: true,
            time_to_live: 9,
            protocol: upper,
            source: [10, 0, 0, 1].into(),
            destination: [10, 0, 0, 2].into(),
        };
        fields.write(&mut packet, bytes - 20).expect("there is room");
        packet
    }

    fn v6(upper: u8, bytes: usize) -> Vec<u8> {
        let mut packet = vec![7; bytes];
        let fields = Ipv6Fields {
            traffic_class: 0,
            flow_label: 0,
            next_header: upper,
            hop_limit: 9,
            source: "fd00::1".parse().expect("an address"),
            destination: "fd00::2".parse().expect("an address"),
        };
        fields.write(&mut packet, bytes - 40).expect("there is room");
        packet
    }

    #[test]
    fn senders_are_told_what_fits() {
        let sent = v4(protocol::UDP, 1400);
        let told = answer(&sent, 1234).expect("an answer");
        let ip = Ipv4::parse(&told[..]).expect("a packet");
        assert!(ip.checksum_is_right() && ip.total_bytes() == told.len() && told.len() == 576);
        assert_eq!((ip.source(), ip.destination()), ([10, 0, 0, 2].into(), [10, 0, 0, 1].into()));
        let icmp = Icmp::parse(&told[20..]).expect("a message");
        assert!(icmp.checksum_is_right(Sum::new()));
        assert_eq!((icmp.kind(), icmp.code(), icmp.rest()), (3, 4, [0, 0, 0x04, 0xd2]));
        assert_eq!(icmp.payload(), &sent[..548]);

        let sent = v6(protocol::TCP, 1400);
        let told = answer(&sent, 1290).expect("an answer");
        let ip = Ipv6::parse(&told[..]).expect("a packet");
        assert_eq!((told.len(), ip.source(), ip.destination()), (1280, ip_of(&sent).1, ip_of(&sent).0));
        let icmp = Icmp::parse(&told[40..]).expect("a message");
        assert!(icmp.checksum_is_right(ip.pseudo_sum(protocol::ICMPV6, told.len() - 40)));
        assert_eq!((icmp.kind(), icmp.code(), icmp.rest()), (2, 0, 1290u32.to_be_bytes()));
        // No answer announces less than every host must accept.
        let told = answer(&sent, 600).expect("an answer");
        assert_eq!(Icmp::parse(&told[40..]).expect("a message").rest(), 1280u32.to_be_bytes());
    }

    fn ip_of(packet: &[u8]) -> (std::net::Ipv6Addr, std::net::Ipv6Addr) {
        let ip = Ipv6::parse(packet).expect("a packet");
        (ip.source(), ip.destination())
    }

    #[test]
    fn errors_groups_and_later_pieces_get_no_answer() {
        assert!(answer(&v4(protocol::ICMP, 1400), 1300).is_none(), "type 7 is no question");
        let mut echo = v4(protocol::ICMP, 1400);
        echo[20] = icmp_kind::ECHO_REQUEST;
        assert!(answer(&echo, 1300).is_some());
        let mut piece = v4(protocol::UDP, 1400);
        Ipv4::parse(&mut piece[..]).expect("a packet").set_fragment(64, true);
        assert!(answer(&piece, 1300).is_none());
        for (at, byte) in [(16, 224), (12, 224), (12, 0)] {
            let mut packet = v4(protocol::UDP, 1400);
            packet[at] = byte;
            if byte == 0 {
                packet[12..16].fill(0);
            }
            assert!(answer(&packet, 1300).is_none(), "byte {at} is {byte}");
        }
        let mut error = v6(protocol::ICMPV6, 1400);
        error[40] = icmp6_kind::TOO_BIG;
        assert!(answer(&error, 1300).is_none());
        error[40] = icmp6_kind::ECHO_REQUEST;
        assert!(answer(&error, 1300).is_some());
        // An answer is an error message, and is not answered.
        let told = answer(&v4(protocol::UDP, 1400), 1300).expect("an answer");
        assert!(answer(&told, 100).is_none());
        let told = answer(&v6(protocol::UDP, 1400), 1300).expect("an answer");
        assert!(answer(&told, 100).is_none());
    }

    proptest! {
        #[test]
        fn garbage_is_answered_within_bounds(bytes in prop::collection::vec(any::<u8>(), 0..2000), mtu: u16) {
            let _ = is_whole(&bytes);
            if let Some(told) = answer(&bytes, mtu) {
                prop_assert!(told.len() <= 1280);
            }
        }
    }
}

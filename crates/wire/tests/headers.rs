//! Tests of every header: another parser reads what the crate writes, the views read packets as another parser does,
//! and any bytes give a value or an error.

use etherparse::{
    Icmpv4Slice, IpAuthHeaderSlice, Ipv4HeaderSlice, Ipv6HeaderSlice, TcpHeaderSlice, TcpOptionElement,
    UdpHeaderSlice,
};
use proptest::prelude::*;
use sealane_wire::{
    Ah, AhFields, Esp, EspFields, EspTrailer, Ethernet, EthernetFields, Fddi, FddiFields, Icmp, IcmpFields,
    Ipv4, Ipv4Fields, Ipv6, Ipv6Fields, Malformed, Sum, Tcp, TcpFields, TcpFlags, TcpOption, Udp, UdpFields,
    protocol, update,
};

/// Returns random bytes, some of them with a plausible beginning.
fn any_bytes() -> impl Strategy<Value = Vec<u8>> {
    (prop::collection::vec(any::<u8>(), 0..120), 0u8..6).prop_map(|(mut bytes, kind)| {
        let length = bytes.len() as u16;
        if bytes.len() > 13 {
            match kind {
                0 => {
                    bytes[0] = 0x40 | (bytes[0] % 8);
                    bytes[2..4].copy_from_slice(&(length - length % 3).to_be_bytes());
                }
                1 => {
                    bytes[0] = 0x60;
                    bytes[4..6].copy_from_slice(&length.saturating_sub(40).to_be_bytes());
                }
                2 => bytes[12] = (bytes[12] % 9) << 4,
                3 => bytes[4..6].copy_from_slice(&(length - length % 2).to_be_bytes()),
                4 => bytes[1] %= 16,
                _ => {}
            }
        }
        bytes
    })
}

proptest! {
    #[test]
    fn ipv4_is_read_as_another_parser_reads_it(bytes in any_bytes()) {
        let theirs = Ipv4HeaderSlice::from_slice(&bytes);
        let ours = Ipv4::parse(&bytes[..]);
        if let Ok(ip) = &ours {
            let other = theirs.as_ref().unwrap();
            prop_assert_eq!(ip.header_bytes(), other.slice().len());
            prop_assert_eq!(ip.total_bytes(), usize::from(other.total_len()));
            prop_assert_eq!((ip.dscp(), ip.ecn()), (other.dcp().value(), other.ecn().value()));
            prop_assert_eq!(ip.identification(), other.identification());
            prop_assert_eq!(ip.dont_fragment(), other.dont_fragment());
            prop_assert_eq!(ip.more_fragments(), other.more_fragments());
            prop_assert_eq!(ip.fragment_offset_bytes(), usize::from(other.fragments_offset().value()) * 8);
            prop_assert_eq!(ip.is_fragment(), other.is_fragmenting_payload());
            prop_assert_eq!((ip.time_to_live(), ip.protocol()), (other.ttl(), other.protocol().0));
            prop_assert_eq!((ip.source(), ip.destination()), (other.source_addr(), other.destination_addr()));
            prop_assert_eq!(ip.options(), other.options());
            let right = other.to_header().calc_header_checksum();
            prop_assert_eq!(ip.checksum_is_right(), right == ip.checksum() || right == !ip.checksum() && right == 0);
            prop_assert_eq!(ip.payload().len() + ip.header_bytes(), ip.total_bytes());
        } else if let Ok(other) = theirs {
            // The other parser looks at the header alone.
            prop_assert!(usize::from(other.total_len()) < other.slice().len() || usize::from(other.total_len()) > bytes.len());
        }
    }

    #[test]
    fn ipv6_is_read_as_another_parser_reads_it(bytes in any_bytes()) {
        let theirs = Ipv6HeaderSlice::from_slice(&bytes);
        if let Ok(ip) = Ipv6::parse(&bytes[..]) {
            let other = theirs.unwrap();
            prop_assert_eq!(ip.traffic_class(), other.traffic_class());
            prop_assert_eq!(ip.flow_label(), other.flow_label().value());
            prop_assert_eq!(ip.payload_bytes(), usize::from(other.payload_length()));
            prop_assert_eq!((ip.next_header(), ip.hop_limit()), (other.next_header().0, other.hop_limit()));
            prop_assert_eq!((ip.source(), ip.destination()), (other.source_addr(), other.destination_addr()));
            if let Ok(upper) = ip.upper() {
                prop_assert!(upper.offset_bytes <= ip.total_bytes());
                prop_assert_eq!(bytes[upper.named_at], upper.protocol);
            }
        } else if let Ok(other) = theirs {
            prop_assert!(usize::from(other.payload_length()) + 40 > bytes.len());
        }
    }

    #[test]
    fn tcp_is_read_as_another_parser_reads_it(bytes in any_bytes()) {
        let theirs = TcpHeaderSlice::from_slice(&bytes);
        let ours = Tcp::parse(&bytes[..]);
        prop_assert_eq!(ours.is_ok(), theirs.is_ok());
        let (Ok(tcp), Ok(other)) = (ours, theirs) else { return Ok(()) };
        prop_assert_eq!((tcp.source_port(), tcp.destination_port()), (other.source_port(), other.destination_port()));
        prop_assert_eq!(tcp.sequence_number(), other.sequence_number());
        prop_assert_eq!(tcp.acknowledgment_number(), other.acknowledgment_number());
        prop_assert_eq!(tcp.window(), other.window_size());
        prop_assert_eq!(tcp.urgent_pointer(), other.urgent_pointer());
        let set = |flag| tcp.flags().contains(flag);
        prop_assert_eq!(
            [TcpFlags::FIN, TcpFlags::SYN, TcpFlags::RST, TcpFlags::PSH].map(set),
            [other.fin(), other.syn(), other.rst(), other.psh()]
        );
        prop_assert_eq!(
            [TcpFlags::ACK, TcpFlags::URG, TcpFlags::ECE, TcpFlags::CWR].map(set),
            [other.ack(), other.urg(), other.ece(), other.cwr()]
        );
        prop_assert_eq!(tcp.option_bytes(), other.options());
        // The views read each option that the other parser knows alike, up to the first one that it refuses.
        for (option, other) in tcp.options().zip(other.options_iterator()) {
            let (Ok(option), Ok(other)) = (option, other) else { break };
            let same = match (option, other) {
                (TcpOption::NoOperation, TcpOptionElement::Noop)
                | (TcpOption::SackPermitted, TcpOptionElement::SelectiveAcknowledgementPermitted) => true,
                (TcpOption::MaxSegmentBytes(bytes), TcpOptionElement::MaximumSegmentSize(other)) => bytes == other,
                (TcpOption::WindowScale(bits), TcpOptionElement::WindowScale(other)) => bits == other,
                (TcpOption::Sack(blocks), TcpOptionElement::SelectiveAcknowledgement(first, rest)) => {
                    let count = 1 + rest.iter().flatten().count();
                    blocks.len() == count * 8 && blocks[..4] == first.0.to_be_bytes()
                }
                (TcpOption::Timestamps { value, echo }, TcpOptionElement::Timestamp(one, two)) => {
                    (value, echo) == (one, two)
                }
                _ => false,
            };
            prop_assert!(same, "{:?}", option);
        }
    }

    #[test]
    fn udp_icmp_esp_and_ah_are_read_as_they_lie(bytes in any_bytes()) {
        if let Ok(udp) = Udp::parse(&bytes[..]) {
            let other = UdpHeaderSlice::from_slice(&bytes).unwrap();
            prop_assert_eq!((udp.source_port(), udp.destination_port()), (other.source_port(), other.destination_port()));
            prop_assert_eq!((udp.total_bytes(), udp.checksum()), (usize::from(other.length()), other.checksum()));
            prop_assert_eq!(udp.payload().len() + 8, udp.total_bytes());
        }
        if let (Ok(icmp), Ok(other)) = (Icmp::parse(&bytes[..]), Icmpv4Slice::from_slice(&bytes)) {
            prop_assert_eq!((icmp.kind(), icmp.code()), (other.type_u8(), other.code_u8()));
            prop_assert_eq!((icmp.checksum(), icmp.rest()), (other.checksum(), other.bytes5to8()));
        }
        let theirs = IpAuthHeaderSlice::from_slice(&bytes);
        let ours = Ah::parse(&bytes[..]);
        prop_assert_eq!(ours.is_ok(), theirs.is_ok());
        if let (Ok(ah), Ok(other)) = (ours, theirs) {
            prop_assert_eq!((ah.next_header(), ah.spi()), (other.next_header().0, other.spi()));
            prop_assert_eq!((ah.sequence_number(), ah.check_value()), (other.sequence_number(), other.raw_icv()));
        }
        if let Ok(esp) = Esp::parse(&bytes[..]) {
            let again = EspFields { spi: esp.spi(), sequence_number: esp.sequence_number() };
            let mut written = [0; 8];
            again.write(&mut written).unwrap();
            prop_assert_eq!(&written[..], &bytes[..8]);
        }
    }

    #[test]
    fn a_written_ipv4_header_is_right(
        traffic_class in any::<u8>(), identification in any::<u16>(), dont_fragment in any::<bool>(),
        time_to_live in any::<u8>(), protocol in any::<u8>(), source in any::<[u8; 4]>(), payload_bytes in 0usize..2000,
    ) {
        let (source, destination) = (source.into(), [192, 0, 2, 9].into());
        let fields = Ipv4Fields { traffic_class, identification, dont_fragment, time_to_live, protocol, source, destination };
        let mut packet = vec![0; 20 + payload_bytes];
        fields.write(&mut packet, payload_bytes).unwrap();
        let other = Ipv4HeaderSlice::from_slice(&packet).unwrap().to_header();
        prop_assert_eq!(other.header_checksum, other.calc_header_checksum());
        let mut ip = Ipv4::parse(&mut packet[..]).unwrap();
        prop_assert!(ip.checksum_is_right());
        // An edit by a router on the way keeps the checksum right.
        ip.set_time_to_live(time_to_live.wrapping_sub(1));
        ip.set_ecn(3);
        prop_assert!(ip.checksum_is_right());
        prop_assert_eq!((ip.ecn(), ip.dscp()), (3, traffic_class >> 2));
        ip.set_fragment(1480, true);
        ip.set_source([127, 0, 0, 1].into());
        ip.fill_checksum();
        prop_assert!(ip.checksum_is_right() && ip.is_fragment());
        prop_assert_eq!((ip.fragment_offset_bytes(), ip.dont_fragment()), (1480, dont_fragment));
    }

    #[test]
    fn checksums_of_a_changed_word_are_mended(mut data in prop::collection::vec(any::<u8>(), 2..64), at in any::<prop::sample::Index>(), new in any::<u16>()) {
        data.truncate(data.len() & !1);
        let at = at.index(data.len() / 2) * 2;
        let before = Sum::new().bytes(&data).checksum();
        let old = u16::from_be_bytes([data[at], data[at + 1]]);
        data[at..at + 2].copy_from_slice(&new.to_be_bytes());
        let (mended, computed) = (update(before, old, new), Sum::new().bytes(&data).checksum());
        // All zeros have the sum 0, which no update yields: RFC 1624 section 3.
        prop_assert!(mended == computed || data.iter().all(|&byte| byte == 0) || (mended ^ computed) == 0xffff);
    }

    #[test]
    fn sums_of_pieces_are_the_sum_of_the_whole(data in prop::collection::vec(any::<u8>(), 0..200), at in any::<prop::sample::Index>()) {
        let at = at.index(data.len() + 1) & !1;
        let pieces = Sum::new().bytes(&data[..at]).plus(Sum::new().bytes(&data[at..]));
        prop_assert_eq!(pieces.checksum(), Sum::new().bytes(&data).checksum());
    }

    #[test]
    fn esp_trailers_come_back(payload in prop::collection::vec(any::<u8>(), 0..100), shift in 0u32..6, next_header in any::<u8>()) {
        let align = 1 << shift;
        let trailer = EspTrailer::for_payload(payload.len(), align, next_header);
        let mut bytes = payload.clone();
        bytes.resize(payload.len() + trailer.total_bytes(), 0xee);
        prop_assert_eq!(bytes.len() % align, 0);
        trailer.write(&mut bytes[payload.len()..]).unwrap();
        prop_assert_eq!(EspTrailer::split(&bytes), Ok((&payload[..], trailer)));
    }

    #[test]
    fn esp_trailers_of_any_bytes_are_a_value_or_an_error(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        if let Ok((payload, trailer)) = EspTrailer::split(&bytes) {
            prop_assert_eq!(payload.len() + trailer.total_bytes(), bytes.len());
        }
    }
}

#[test]
fn tcp_options_come_back() {
    let options = [
        TcpOption::MaxSegmentBytes(1460),
        TcpOption::SackPermitted,
        TcpOption::Timestamps { value: 5, echo: 6 },
        TcpOption::NoOperation,
        TcpOption::WindowScale(7),
        TcpOption::Sack(&[9; 8]),
        TcpOption::Other { kind: 254, data: &[1, 2] },
    ];
    let mut bytes = [0; 40];
    let mut at = 0;
    for option in options {
        at += option.write(&mut bytes[at..]).unwrap();
    }
    let fields = TcpFields {
        source_port: 1,
        destination_port: 2,
        sequence_number: 3,
        acknowledgment_number: 4,
        flags: TcpFlags::SYN | TcpFlags::ACK,
        window: 5,
        urgent_pointer: 6,
    };
    let mut segment = [0; 60];
    let header_bytes = fields.write(&mut segment, &bytes[..at]).unwrap();
    let tcp = Tcp::parse(&segment[..header_bytes]).unwrap();
    assert_eq!(tcp.options().map(Result::unwrap).collect::<Vec<_>>(), options);
    assert!(fields.write(&mut segment, &[1; 41]).is_err());
}

#[test]
fn udp_over_ipv6_has_its_checksum() {
    let fields = Ipv6Fields {
        traffic_class: 0xab,
        flow_label: 0x1_2345,
        next_header: protocol::UDP,
        hop_limit: 3,
        source: "fd00::1".parse().unwrap(),
        destination: "fd00::2".parse().unwrap(),
    };
    let mut packet = vec![7; 40 + 8 + 11];
    fields.write(&mut packet, 19).unwrap();
    UdpFields { source_port: 500, destination_port: 4500 }.write(&mut packet[40..], 11).unwrap();
    let pseudo = Ipv6::parse(&packet[..]).unwrap().pseudo_sum(protocol::UDP, 19);
    Udp::parse(&mut packet[40..]).unwrap().fill_checksum(pseudo);
    let ip = Ipv6HeaderSlice::from_slice(&packet).unwrap().to_header();
    let udp = UdpHeaderSlice::from_slice(&packet[40..]).unwrap().to_header();
    assert_eq!(udp.checksum, udp.calc_checksum_ipv6(&ip, &packet[48..]).unwrap());
    assert_eq!(Ipv6::parse(&packet[..]).unwrap().traffic_class(), 0xab);
}

#[test]
fn extension_headers_are_passed() {
    let fields = Ipv6Fields {
        traffic_class: 0,
        flow_label: 0,
        next_header: protocol::HOP_BY_HOP,
        hop_limit: 3,
        source: "fd00::1".parse().unwrap(),
        destination: "fd00::2".parse().unwrap(),
    };
    let mut packet = vec![0; 40 + 8 + 8 + 8];
    fields.write(&mut packet, 24).unwrap();
    packet[40] = protocol::FRAGMENT;
    packet[48] = protocol::ESP;
    let upper = Ipv6::parse(&packet[..]).unwrap().upper().unwrap();
    assert_eq!((upper.protocol, upper.offset_bytes), (protocol::ESP, 56));
    assert_eq!((upper.named_at, upper.fragment_at), (48, Some(48)));
    // The first extension header says that it is longer than the packet.
    packet[41] = 3;
    assert!(matches!(Ipv6::parse(&packet[..]).unwrap().upper(), Err(Malformed::Short { .. })));
}

#[test]
fn icmp_echo_has_its_checksum() {
    let mut message = [5; 30];
    IcmpFields { kind: 8, code: 0, rest: [0, 1, 0, 2] }.write(&mut message).unwrap();
    let mut icmp = Icmp::parse(&mut message[..]).unwrap();
    icmp.fill_checksum(Sum::new());
    assert!(icmp.checksum_is_right(Sum::new()));
    let slice = Icmpv4Slice::from_slice(&message).unwrap();
    let right = slice.header().icmp_type.calc_checksum(slice.payload());
    assert_eq!(slice.checksum(), right);
}

#[test]
fn frames_carry_what_they_say() {
    let (destination, source) = ([1, 2, 3, 4, 5, 6], [7, 8, 9, 10, 11, 12]);
    let mut frame = [0; 30];
    EthernetFields { destination, source, ethertype: 0x86dd }.write(&mut frame).unwrap();
    let ethernet = Ethernet::parse(&frame[..]).unwrap();
    assert_eq!(
        (ethernet.destination(), ethernet.source(), ethernet.ethertype()),
        (destination, source, 0x86dd)
    );
    assert_eq!(ethernet.payload().len(), 16);
    FddiFields { destination, source, ethertype: 0x0800 }.write(&mut frame).unwrap();
    let fddi = Fddi::parse(&frame[..]).unwrap();
    assert_eq!((fddi.destination(), fddi.source(), fddi.ethertype()), (destination, source, 0x0800));
    assert_eq!(fddi.payload().len(), 9);
    frame[14] = 0;
    assert!(Fddi::parse(&frame[..]).is_err());
    assert!(Ethernet::parse(&frame[..13]).is_err());
}

#[test]
fn ah_states_its_length() {
    let mut bytes = [0xff; 64];
    let fields = AhFields { next_header: 4, check_value_bytes: 12, spi: 256, sequence_number: 1 };
    fields.write(&mut bytes).unwrap();
    assert_eq!((Ah::parse(&bytes[..]).unwrap().header_bytes(), bytes[1]), (24, 4));
    assert!(AhFields { check_value_bytes: 13, ..fields }.write(&mut bytes).is_err());
    assert!(AhFields { check_value_bytes: 1020, ..fields }.write(&mut bytes).is_err());
}

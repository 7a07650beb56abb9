//! Tests packets of every suite, mode, family and kind of number, and the damage that a network can do to them.

mod common;

use common::{ends, parameters, protect, unprotect};
use proptest::prelude::*;
use sealane_ipsec::{
    ah::Alignment,
    association::{Association, AssociationError, Inbound, Mode, Outbound, Parameters, Protocol},
    counters::DropReason,
    frame::{self, Ends, Outer},
    marks::Ecn,
    sequence::SequenceBits,
    suite::Suite,
};
use sealane_wire::{Ipv4, Ipv4Fields, Ipv6, Ipv6Fields};

/// Returns an IP packet that carries `payload` as protocol 253, for experiments (RFC 3692).
fn packet(is_ipv6: bool, traffic_class: u8, payload: &[u8]) -> Vec<u8> {
    let mut packet = vec![0; if is_ipv6 { 40 } else { 20 }];
    if is_ipv6 {
        let fields = Ipv6Fields {
            traffic_class,
            flow_label: 0x12345,
            next_header: 253,
            hop_limit: 7,
            source: "fd00::1".parse().expect("an address"),
            destination: "fd00::2".parse().expect("an address"),
        };
        fields.write(&mut packet, payload.len()).expect("there is room");
    } else {
        let fields = Ipv4Fields {
            traffic_class,
            identification: 99,
            dont_fragment: true,
            time_to_live: 7,
            protocol: 253,
            source: [10, 0, 0, 1].into(),
            destination: [10, 0, 0, 2].into(),
        };
        fields.write(&mut packet, payload.len()).expect("there is room");
    }
    packet.extend_from_slice(payload);
    packet
}

fn outer(is_ipv6: bool) -> Outer {
    let ends = if is_ipv6 {
        Ends::V6 {
            source: "2001:db8::1".parse().expect("an address"),
            destination: "2001:db8::2".parse().expect("an address"),
        }
    } else {
        Ends::V4 { source: [192, 0, 2, 1].into(), destination: [192, 0, 2, 2].into() }
    };
    Outer { ends, hop_limit: 64, dont_fragment: true, identification: 5 }
}

/// Returns every combination of parameters that an association may have.
fn all() -> impl Iterator<Item = Parameters> {
    let suites = Suite::all_esp().map(|suite| (Protocol::Esp, suite));
    let suites = suites.chain(Suite::all_ah().map(|suite| (Protocol::Ah, suite)));
    let bits = [SequenceBits::Short, SequenceBits::Extended];
    let modes = [Mode::Tunnel, Mode::Transport];
    suites.flat_map(move |(protocol, suite)| {
        modes.into_iter().flat_map(move |mode| {
            bits.into_iter().map(move |sequence| parameters(protocol, mode, suite, sequence))
        })
    })
}

#[test]
fn every_suite_mode_family_and_length_comes_back() {
    for parameters in all() {
        let first = if parameters.sequence == SequenceBits::Extended { (1 << 32) - 2 } else { 1 };
        for (inner_v6, outer_v6) in [(false, false), (false, true), (true, false), (true, true)] {
            let (outbound, inbound) = ends(parameters, first);
            if parameters.sequence == SequenceBits::Extended {
                inbound.window().accept(first - 1);
            }
            for payload_bytes in [0, 1, 2, 13, 14, 15, 16, 17, 31, 64, 100, 1400] {
                let payload: Vec<u8> = (0..payload_bytes).map(|at| (at * 31) as u8).collect();
                let inner = packet(inner_v6, 0xb8, &payload);
                let sent =
                    protect(&outbound, &inner, &outer(outer_v6), Alignment::Rfc).expect("it is protected");
                let what = format!("{parameters:?} {inner_v6} {outer_v6} {payload_bytes}");
                assert_eq!(frame::named(&sent), Some((parameters.protocol, 0x1234)), "{what}");
                let is_v6 = if parameters.mode == Mode::Tunnel { outer_v6 } else { inner_v6 };
                if is_v6 {
                    assert_eq!(Ipv6::parse(&sent[..]).expect(&what).total_bytes(), sent.len());
                } else {
                    let ip = Ipv4::parse(&sent[..]).expect(&what);
                    assert!(ip.total_bytes() == sent.len() && ip.checksum_is_right(), "{what}");
                }
                let hides = parameters.suite.encrypts() && payload_bytes >= 16;
                assert_eq!(
                    hides,
                    payload_bytes >= 16 && !sent.windows(16).any(|part| part == &payload[..16]),
                    "{what}"
                );
                assert_eq!(unprotect(&inbound, &sent).as_ref(), Ok(&inner), "{what}");
                assert_eq!(unprotect(&inbound, &sent), Err(DropReason::Duplicate), "{what}");
            }
        }
    }
}

#[test]
fn gmac_is_gcm_of_no_text_with_the_whole_number_behind_the_spi() {
    use sealane_engine::{Direction, Job, Session, Span};
    let suite: Suite = "aes-128-gmac".parse().expect("a suite");
    for (sequence, number, high) in
        [(SequenceBits::Short, 9, &[][..]), (SequenceBits::Extended, (5 << 32) + 9, &[0, 0, 0, 5][..])]
    {
        let (outbound, _) = ends(parameters(Protocol::Esp, Mode::Tunnel, suite, sequence), number);
        let inner = packet(false, 0, b"RFC 4543, section 3.3");
        let sent = protect(&outbound, &inner, &outer(false), Alignment::Rfc).expect("it is protected");
        let (esp, check) = sent[20..].split_at(sent.len() - 36);
        // The SPI, the number, the IV and everything up to the check value, as in the RFC's figures.
        let mut bytes = [&esp[..4], high, &esp[4..]].concat();
        let clear = Span::new(0, bytes.len() as u32);
        let tag = Span::new(clear.len, 16);
        bytes.extend_from_slice(&[0; 16]);
        let material = common::material(suite);
        let session = Session::with(common::kernels(), suite.protection(), &material[..16]).expect("a key");
        let mut iv = [0; 16];
        iv[..12].copy_from_slice(&[&material[16..], &esp[8..16]].concat());
        let job = Job { clear, body: Span::new(clear.len, 0), tag, iv, ..Job::default() };
        common::run(&session.into(), Direction::Seal, &mut bytes, job);
        assert_eq!(&bytes[tag.range()], check, "{sequence:?}");
    }
}

#[test]
fn gmac_in_ah_is_gcm_of_no_text_with_its_iv_in_front_of_the_tag() {
    use sealane_engine::{Direction, Job, Session, Span};
    for (name, sequence, number, high) in [
        ("aes-128-gmac", SequenceBits::Short, 9, &[][..]),
        ("aes-128-gmac", SequenceBits::Extended, (5 << 32) + 9, &[0, 0, 0, 5][..]),
        ("aes-256-gmac", SequenceBits::Extended, (5 << 32) + 9, &[0, 0, 0, 5][..]),
    ] {
        let suite: Suite = name.parse().expect("a suite");
        for (is_ipv6, header_bytes, padding_bytes) in [(false, 20, 0), (true, 40, 4)] {
            let (outbound, _) = ends(parameters(Protocol::Ah, Mode::Tunnel, suite, sequence), number);
            let inner = packet(is_ipv6, 0xb9, b"RFC 4543, section 4");
            let sent = protect(&outbound, &inner, &outer(is_ipv6), Alignment::Rfc).expect("it is protected");
            let (header, ah) = sent.split_at(header_bytes);
            let (fields, behind) = ah.split_at(12);
            // The IV is the number, followed by the tag; over IPv6 padding follows (erratum 3643), then the protected
            // data.
            let (iv, behind) = behind.split_at(8);
            let (check, behind) = behind.split_at(16);
            assert_eq!(iv, number.to_be_bytes());
            assert_eq!(behind.len(), padding_bytes + inner.len());
            assert!(behind[..padding_bytes].iter().all(|&byte| byte == 0));
            // RFC 4302, appendix A: fields that routers may change are zero, and so is the field with IV and tag
            // (section 3.3.3).
            let mut header = header.to_vec();
            if is_ipv6 {
                header[0] = 0x60;
                header[1..4].fill(0);
                header[7] = 0;
            } else {
                header[1] = 0;
                header[6..9].fill(0);
                header[10..12].fill(0);
            }
            let mut bytes = [&header, fields, &[0; 24], behind, high].concat();
            let clear = Span::new(0, bytes.len() as u32);
            let tag = Span::new(clear.len, 16);
            bytes.extend_from_slice(&[0; 16]);
            let material = common::material(suite);
            let (key, salt) = material.split_at(material.len() - 4);
            let session = Session::with(common::kernels(), suite.protection(), key).expect("a key");
            let mut nonce = [0; 16];
            nonce[..12].copy_from_slice(&[salt, iv].concat());
            let job = Job { clear, body: Span::new(clear.len, 0), tag, iv: nonce, ..Job::default() };
            common::run(&session.into(), Direction::Seal, &mut bytes, job);
            assert_eq!(&bytes[tag.range()], check, "{name} {sequence:?} v6: {is_ipv6}");
        }
    }
}

#[test]
fn a_changed_bit_is_never_accepted() {
    for parameters in all() {
        let (outbound, inbound) = ends(parameters, 1);
        let inner = packet(false, 0, b"forty bytes or so of a payload, not more");
        let sent = protect(&outbound, &inner, &outer(false), Alignment::Rfc).expect("it is protected");
        // The place is behind the outer IP header, which only AH covers.
        let from = if parameters.protocol == Protocol::Ah { 12 } else { 20 };
        for byte in from..sent.len() {
            for bit in [0, 7] {
                let mut changed = sent.clone();
                changed[byte] ^= 1 << bit;
                let outcome = unprotect(&inbound, &changed);
                assert!(outcome.is_err(), "{parameters:?} byte {byte} bit {bit}");
            }
        }
        for bytes in 0..sent.len() {
            assert!(unprotect(&inbound, &sent[..bytes]).is_err());
        }
        assert_eq!(unprotect(&inbound, &sent), Ok(inner), "the window was not moved by forgeries");
    }
}

#[test]
fn routers_may_change_what_ah_does_not_cover() {
    let suite = "hmac-sha256-128".parse().expect("a suite");
    for mode in [Mode::Tunnel, Mode::Transport] {
        let (outbound, inbound) = ends(parameters(Protocol::Ah, mode, suite, SequenceBits::Short), 1);
        for is_ipv6 in [false, true] {
            let inner = packet(is_ipv6, 0, b"payload");
            let mut sent =
                protect(&outbound, &inner, &outer(is_ipv6), Alignment::Rfc).expect("it is protected");
            if is_ipv6 {
                let mut ip = Ipv6::parse(&mut sent[..]).expect("an IPv6 packet");
                ip.set_hop_limit(3);
                ip.set_ecn(0);
            } else {
                let mut ip = Ipv4::parse(&mut sent[..]).expect("an IPv4 packet");
                ip.set_time_to_live(3);
                ip.fill_checksum();
            }
            assert!(unprotect(&inbound, &sent).is_ok(), "{mode:?} {is_ipv6}");
            // A source address rewritten by NAT is covered, so the packet is refused.
            let sent = protect(&outbound, &inner, &outer(is_ipv6), Alignment::Rfc).expect("it is protected");
            let mut moved = sent.clone();
            moved[if is_ipv6 { 23 } else { 15 }] ^= 1;
            assert_eq!(unprotect(&inbound, &moved), Err(DropReason::BadIntegrity));
        }
    }
}

#[test]
fn ah_headers_are_padded_as_asked() {
    let suite: Suite = "hmac-sha256-128".parse().expect("a suite");
    let (outbound, inbound) = ends(parameters(Protocol::Ah, Mode::Tunnel, suite, SequenceBits::Short), 1);
    let inner = packet(false, 0, b"payload");
    for (alignment, is_ipv6, expected) in
        [(Alignment::Rfc, false, 28), (Alignment::Eight, false, 32), (Alignment::Rfc, true, 32)]
    {
        let sent = protect(&outbound, &inner, &outer(is_ipv6), alignment).expect("it is protected");
        let headers = if is_ipv6 { 40 } else { 20 };
        assert_eq!(sent.len(), headers + expected + inner.len());
        assert_eq!(usize::from(sent[headers + 1]), expected / 4 - 2);
        assert_eq!(unprotect(&inbound, &sent), Ok(inner.clone()));
    }
}

#[test]
fn congestion_marks_cross_the_tunnel() {
    let suite = "aes-128-gcm".parse().expect("a suite");
    let (outbound, inbound) = ends(parameters(Protocol::Esp, Mode::Tunnel, suite, SequenceBits::Short), 1);
    for (inner_mark, outer_mark, expected) in [
        (Ecn::Capable0, Ecn::Congested, Ok(Ecn::Congested)),
        (Ecn::Capable0, Ecn::Capable0, Ok(Ecn::Capable0)),
        (Ecn::Congested, Ecn::Capable0, Ok(Ecn::Congested)),
        (Ecn::NotCapable, Ecn::Congested, Err(DropReason::CongestionMark)),
    ] {
        for is_ipv6 in [false, true] {
            let inner = packet(is_ipv6, 0xb8 | inner_mark as u8, b"payload");
            let mut sent =
                protect(&outbound, &inner, &outer(false), Alignment::Rfc).expect("it is protected");
            let mut ip = Ipv4::parse(&mut sent[..]).expect("an IPv4 packet");
            assert_eq!(ip.traffic_class(), 0xb8 | inner_mark as u8);
            ip.set_ecn(outer_mark as u8);
            let class = |packet: &Vec<u8>| match packet[0] >> 4 {
                4 => Ipv4::parse(&packet[..]).map(|ip| (ip.checksum_is_right(), ip.traffic_class())),
                _ => Ipv6::parse(&packet[..]).map(|ip| (true, ip.traffic_class())),
            };
            let arrived = unprotect(&inbound, &sent);
            let arrived = arrived.map(|packet| class(&packet).expect("an IP packet"));
            assert_eq!(arrived, expected.map(|mark| (true, 0xb8 | mark as u8)));
        }
    }
}

#[test]
fn fragments_go_through_tunnels_only() {
    let suite = "aes-128-gcm".parse().expect("a suite");
    let mut inner = packet(false, 0, b"a piece of a packet");
    Ipv4::parse(&mut inner[..]).expect("an IPv4 packet").set_fragment(64, true);
    for (mode, expected) in [(Mode::Tunnel, Ok(inner.clone())), (Mode::Transport, Err(DropReason::Fragment))]
    {
        let (outbound, inbound) = ends(parameters(Protocol::Esp, mode, suite, SequenceBits::Short), 1);
        let arrived = protect(&outbound, &inner, &outer(false), Alignment::Rfc)
            .and_then(|sent| unprotect(&inbound, &sent));
        assert_eq!(arrived, expected);
    }
}

#[test]
fn numbers_end_instead_of_cycling() {
    let suite = "aes-128-gcm".parse().expect("a suite");
    let short = parameters(Protocol::Esp, Mode::Tunnel, suite, SequenceBits::Short);
    let (outbound, _) = ends(short, u64::from(u32::MAX));
    let inner = packet(false, 0, b"the last");
    assert!(protect(&outbound, &inner, &outer(false), Alignment::Rfc).is_ok());
    let after = protect(&outbound, &inner, &outer(false), Alignment::Rfc);
    assert_eq!(after, Err(DropReason::NumbersExhausted));
}

#[test]
fn contradictory_parameters_are_refused() {
    let now = std::time::Instant::now();
    let make = |parameters: Parameters, material: &[u8]| {
        Outbound::new(common::kernels(), parameters, material, 1, now).map(|_| ())
    };
    let gcm: Suite = "aes-128-gcm".parse().expect("a suite");
    let hmac: Suite = "hmac-sha256-128".parse().expect("a suite");
    let good = parameters(Protocol::Esp, Mode::Tunnel, gcm, SequenceBits::Short);
    let material = common::material(gcm);
    assert_eq!(make(good, &material), Ok(()));
    let reserved = Parameters { spi: 255, ..good };
    assert_eq!(make(reserved, &material), Err(AssociationError::ReservedSpi { spi: 255 }));
    let wrong = Parameters { protocol: Protocol::Ah, ..good };
    let expected = AssociationError::WrongProtocol { suite: gcm, protocol: Protocol::Ah };
    assert_eq!(make(wrong, &material), Err(expected));
    let wrong = Parameters { suite: hmac, ..good };
    let expected = AssociationError::WrongProtocol { suite: hmac, protocol: Protocol::Esp };
    assert_eq!(make(wrong, &common::material(hmac)), Err(expected));
    assert!(matches!(make(good, &material[1..]), Err(AssociationError::Material { given_bytes: 19, .. })));
    let printed = format!("{:?}", Inbound::new(common::kernels(), good, &material, 64, now).expect("good"));
    assert!(!printed.contains("[1, 8"), "{printed}");
    let _: fn(&Outbound) -> &Association = Outbound::association;
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]
    /// No received bytes are accepted, cause a panic or make a function read outside the packet.
    #[test]
    fn garbage_is_dropped(mut bytes in prop::collection::vec(any::<u8>(), 0..200), kind in 0..6usize) {
        let protocol = if kind % 2 == 0 { Protocol::Esp } else { Protocol::Ah };
        let suite: Suite = match protocol {
            Protocol::Esp => ["aes-128-gcm", "aes-128-cbc+hmac-sha1-96", "null+hmac-sha1-96"][kind / 2],
            Protocol::Ah => "hmac-sha1-96",
        }.parse().expect("a suite");
        let (_, inbound) = ends(parameters(protocol, Mode::Tunnel, suite, SequenceBits::Extended), 1);
        if bytes.len() > 40 {
            bytes[0] = if kind < 3 { 0x45 } else { 0x60 };
            bytes[if kind < 3 { 9 } else { 6 }] = protocol.number();
            let total = bytes.len() as u16;
            if kind < 3 {
                bytes[2..4].copy_from_slice(&total.to_be_bytes());
                bytes[6..8].fill(0);
            } else {
                bytes[4..6].copy_from_slice(&(total - 40).to_be_bytes());
            }
        }
        let _ = frame::named(&bytes);
        prop_assert!(unprotect(&inbound, &bytes).is_err());
    }
}

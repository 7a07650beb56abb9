//! Reading and writing of messages: a written message reads back unchanged, and any bytes that arrive are a value or
//! an error.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use proptest::{collection::vec, prelude::*};
use sealane_ike::wire::{
    Attribute, Configuration, ConfigurationType, Delete, Exchange, HEADER_BYTES, Header, Identification,
    MAX_PAYLOADS, Malformed, Notify, NotifyType, Payload, PayloadType, Payloads, Proposal, Protocol, Spis,
    TrafficSelector, Transform, TransformType, payload,
};

fn bytes(most: usize) -> impl Strategy<Value = Vec<u8>> {
    vec(any::<u8>(), 0..most)
}

fn transform() -> impl Strategy<Value = Transform> {
    (any::<u8>(), any::<u16>(), any::<Option<u16>>())
        .prop_map(|(kind, id, key_bits)| Transform::new(TransformType(kind), id, key_bits))
}

fn proposal() -> impl Strategy<Value = Proposal> {
    (any::<u8>(), any::<u8>(), bytes(9), vec(transform(), 0..12)).prop_map(
        |(number, protocol, spi, transforms)| Proposal {
            number,
            protocol: Protocol::from_number(protocol),
            spi,
            transforms,
        },
    )
}

fn selector() -> impl Strategy<Value = TrafficSelector> {
    let v4 = any::<(u32, u32)>()
        .prop_map(|(a, b)| (IpAddr::from(Ipv4Addr::from(a.min(b))), IpAddr::from(Ipv4Addr::from(a.max(b)))));
    let v6 = any::<(u128, u128)>()
        .prop_map(|(a, b)| (IpAddr::from(Ipv6Addr::from(a.min(b))), IpAddr::from(Ipv6Addr::from(a.max(b)))));
    let ports = prop_oneof![
        Just((u16::MAX, 0)),
        Just((0, u16::MAX)),
        any::<(u16, u16)>().prop_map(|(a, b)| (a.min(b), a.max(b)))
    ];
    (any::<u8>(), ports, prop_oneof![v4, v6]).prop_map(|(protocol, ports, addresses)| TrafficSelector {
        protocol,
        ports,
        addresses,
    })
}

fn any_payload() -> impl Strategy<Value = Payload> {
    let identity = || (any::<u8>(), bytes(40)).prop_map(|(kind, data)| Identification { kind, data });
    let notify = (any::<u8>(), bytes(9), any::<u16>(), bytes(40)).prop_map(|(protocol, spi, kind, data)| {
        Payload::Notify(Notify { protocol, spi, kind: NotifyType(kind), data })
    });
    let delete = prop_oneof![
        Just(Delete::Ike),
        vec(any::<u32>(), 0..8).prop_map(Delete::Esp),
        vec(any::<u32>(), 0..8).prop_map(Delete::Ah),
        Just(Delete::Other(4))
    ];
    let configuration = vec((0u16..0x8000, bytes(20)), 0..6).prop_map(|attributes| Configuration {
        kind: ConfigurationType::Request,
        attributes: attributes.into_iter().map(|(kind, value)| Attribute { kind, value }).collect(),
    });
    let eap = bytes(40).prop_map(|data| {
        let length = (data.len() + 4) as u16;
        Payload::Eap([&[1, 7], &length.to_be_bytes()[..], &data].concat())
    });
    prop_oneof![
        vec(proposal(), 1..4).prop_map(Payload::SecurityAssociation),
        (any::<u16>(), bytes(300)).prop_map(|(method, data)| Payload::KeyExchange { method, data }),
        identity().prop_map(Payload::IdInitiator),
        identity().prop_map(Payload::IdResponder),
        (any::<u8>(), bytes(300)).prop_map(|(encoding, data)| Payload::Certificate { encoding, data }),
        (any::<u8>(), bytes(60)).prop_map(|(encoding, data)| Payload::CertificateRequest { encoding, data }),
        (any::<u8>(), bytes(80)).prop_map(|(method, data)| Payload::Authentication { method, data }),
        vec(any::<u8>(), 16..=256).prop_map(Payload::Nonce),
        notify,
        delete.prop_map(Payload::Delete),
        bytes(40).prop_map(Payload::VendorId),
        vec(selector(), 0..5).prop_map(Payload::SelectorsInitiator),
        vec(selector(), 0..5).prop_map(Payload::SelectorsResponder),
        configuration.prop_map(Payload::Configuration),
        eap,
    ]
}

proptest! {
    #[test]
    fn what_is_written_reads_back_as_itself(payloads in vec(any_payload(), 0..10)) {
        let chain: Payloads = payloads.iter().cloned().collect();
        prop_assert_eq!(payload::parse_all(chain.first(), chain.bytes()), Ok(payloads));
    }

    #[test]
    fn a_message_that_is_cut_is_refused(payloads in vec(any_payload(), 1..6), cut in 1usize..40) {
        let chain: Payloads = payloads.into_iter().collect();
        let kept = &chain.bytes()[..chain.bytes().len().saturating_sub(cut)];
        prop_assert!(payload::parse_all(chain.first(), kept).is_err());
    }

    #[test]
    fn any_bytes_are_a_value_or_an_error(first in any::<u8>(), bytes in bytes(400)) {
        let _ = payload::parse_all(PayloadType(first), &bytes);
        let _ = Header::parse(&bytes);
    }

    #[test]
    fn a_header_reads_back_as_itself(
        (initiator, responder) in any::<(u64, u64)>(),
        (first, exchange, message_id) in any::<(u8, u8, u32)>(),
        (is_from_initiator, is_response) in any::<(bool, bool)>(),
    ) {
        let header = Header {
            spis: Spis { initiator, responder },
            first: PayloadType(first),
            exchange: Exchange::from_number(exchange),
            is_from_initiator,
            is_response,
            message_id,
        };
        prop_assert_eq!(Header::parse(&header.to_bytes(HEADER_BYTES)), Ok(header));
        prop_assert!(Header::parse(&header.to_bytes(HEADER_BYTES + 1)).is_err());
    }

    #[test]
    fn an_intersection_lies_within_both(a in selector(), b in selector()) {
        if let Some(both) = a.intersection(&b) {
            prop_assert!(a.contains(&both) && b.contains(&both));
            prop_assert_eq!(b.intersection(&a), Some(both));
        }
        prop_assert!(a.contains(&a));
    }
}

#[test]
fn an_unknown_payload_is_skipped_unless_it_is_critical() {
    let unknown = |flags| [&[0, flags, 0, 6, 1, 2][..]].concat();
    assert_eq!(payload::parse_all(PayloadType(200), &unknown(0)), Ok(Vec::new()));
    assert_eq!(
        payload::parse_all(PayloadType(200), &unknown(0x80)),
        Err(Malformed::UnknownCritical { number: 200 })
    );
    // For a known type the bit has no meaning (RFC 7296, section 3.2).
    let vendor = payload::parse_all(PayloadType::VENDOR_ID, &unknown(0x80));
    assert_eq!(vendor, Ok(vec![Payload::VendorId(vec![1, 2])]));
}

#[test]
fn bombs_are_refused() {
    let vendor: Payloads = (0..=MAX_PAYLOADS).map(|_| Payload::VendorId(Vec::new())).collect();
    let refused = payload::parse_all(vendor.first(), vendor.bytes());
    assert!(matches!(refused, Err(Malformed::TooMany { what: "payloads", .. })));
    let transforms = vec![Transform::new(TransformType::ENCRYPTION, 20, Some(256)); 200];
    let proposal = Proposal { number: 1, protocol: Protocol::Ike, spi: Vec::new(), transforms };
    let many: Payloads = [Payload::SecurityAssociation(vec![proposal; 4])].into_iter().collect();
    let refused = payload::parse_all(many.first(), many.bytes());
    assert!(matches!(refused, Err(Malformed::TooMany { what: "transforms", .. })));
}

#[test]
fn a_transform_with_an_unknown_attribute_is_marked() {
    // Proposal 1 of IKE with one transform, which has two attributes: a key length and one of an unknown type.
    let body = [0, 0, 0, 28, 1, 1, 0, 1, 0, 0, 0, 20, 1, 0, 0, 20, 0x80, 14, 1, 0, 0, 77, 0, 4, 1, 2, 3, 4];
    let payload = [&[0, 0, 0, 32][..], &body].concat();
    let read = payload::parse_all(PayloadType::SECURITY_ASSOCIATION, &payload).unwrap();
    let [Payload::SecurityAssociation(proposals)] = &read[..] else { panic!("one payload") };
    assert_eq!(proposals[0].transforms[0].key_bits, Some(256));
    assert!(proposals[0].transforms[0].has_unknown_attributes);
}

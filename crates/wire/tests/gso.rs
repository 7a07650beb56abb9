//! GSO packets cut and joined: another parser finds the resulting packets right, and cutting and joining undo each
//! other.

use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use proptest::prelude::*;
use sealane_wire::gso::{Join, Pieces, behead};
use sealane_wire::virtio::{Cut, VIRTIO_BYTES, Virtio};
use sealane_wire::{Ipv4, Ipv4Fields, Ipv6, Ipv6Fields, Tcp, TcpFields, TcpFlags, Udp, UdpFields, protocol};
use std::net::Ipv6Addr;

const SOURCE: [u8; 4] = [10, 0, 0, 1];
const DESTINATION: [u8; 4] = [10, 0, 0, 2];

/// A packet as a sending host hands it to its device.
#[derive(Debug, Clone)]
struct Super {
    is_v4: bool,
    is_tcp: bool,
    identification: u16,
    sequence_number: u32,
    flags: u8,
    option_words: usize,
    piece_bytes: u16,
    data: Vec<u8>,
}

impl Super {
    /// Returns the packet with a partial checksum, under its header.
    fn build(&self) -> (Virtio, Vec<u8>) {
        let mut upper = vec![0; 60];
        let upper_bytes = if self.is_tcp {
            let fields = TcpFields {
                source_port: 5201,
                destination_port: 40_000,
                sequence_number: self.sequence_number,
                acknowledgment_number: 77,
                flags: TcpFlags(self.flags),
                window: 500,
                urgent_pointer: 0,
            };
            fields.write(&mut upper, &vec![1; self.option_words * 4]).unwrap()
        } else {
            let fields = UdpFields { source_port: 5201, destination_port: 40_000 };
            fields.write(&mut upper, self.data.len()).unwrap();
            8
        };
        upper.truncate(upper_bytes);
        upper.extend_from_slice(&self.data);
        let protocol = if self.is_tcp { protocol::TCP } else { protocol::UDP };
        let mut packet = if self.is_v4 {
            let fields = Ipv4Fields {
                traffic_class: 2,
                identification: self.identification,
                dont_fragment: true,
                time_to_live: 64,
                protocol,
                source: SOURCE.into(),
                destination: DESTINATION.into(),
            };
            let mut header = vec![0; 20];
            fields.write(&mut header, upper.len()).unwrap();
            header
        } else {
            let fields = Ipv6Fields {
                traffic_class: 1,
                flow_label: 0xf_1234,
                next_header: protocol,
                hop_limit: 64,
                source: Ipv6Addr::LOCALHOST,
                destination: Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 9),
            };
            let mut header = vec![0; 40];
            fields.write(&mut header, upper.len()).unwrap();
            header
        };
        let upper_at = packet.len();
        packet.extend_from_slice(&upper);
        let pseudo = if self.is_v4 {
            Ipv4::parse(&packet[..]).unwrap().pseudo_sum()
        } else {
            Ipv6::parse(&packet[..]).unwrap().pseudo_sum(protocol, upper.len())
        };
        let checksum_at = if self.is_tcp { 16 } else { 6 };
        packet[upper_at + checksum_at..][..2].copy_from_slice(&pseudo.folded().to_be_bytes());
        let header = Virtio {
            partial: Some((upper_at as u16, checksum_at as u16)),
            cut: match (self.is_tcp, self.is_v4) {
                (true, true) => Cut::TcpV4,
                (true, false) => Cut::TcpV6,
                (false, _) => Cut::Udp,
            },
            is_ecn: false,
            header_bytes: (upper_at + upper_bytes) as u16,
            piece_bytes: self.piece_bytes,
        };
        (header, packet)
    }
}

fn any_super() -> impl Strategy<Value = Super> {
    let data = (1usize..20_000, any::<u64>()).prop_map(|(length, seed)| {
        let mut state = seed | 1;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        };
        (0..length).map(|_| next()).collect::<Vec<u8>>()
    });
    let flags = prop_oneof![Just(0x10u8), Just(0x18), Just(0x11), Just(0x19), Just(0x50), Just(0x98)];
    (any::<bool>(), any::<bool>(), any::<u16>(), any::<u32>(), flags, 0usize..=10, 1u16..1500, data).prop_map(
        |(is_v4, is_tcp, identification, sequence_number, flags, option_words, piece_bytes, data)| Super {
            is_v4,
            is_tcp,
            identification,
            sequence_number,
            flags,
            option_words,
            piece_bytes,
            data,
        },
    )
}

fn cut(header: Virtio, packet: &[u8]) -> Vec<Vec<u8>> {
    let pieces = Pieces::of(header, packet).unwrap();
    let mut room = vec![0; 65_536];
    (0..pieces.count())
        .map(|index| {
            let bytes = pieces.write(index, &mut room).unwrap();
            assert_eq!(bytes, pieces.bytes(index));
            room[..bytes].to_vec()
        })
        .collect()
}

/// Joins packets, and returns the GSO packets with their headers.
fn join<'a>(packets: impl IntoIterator<Item = &'a Vec<u8>>) -> Vec<(Virtio, Vec<u8>)> {
    let mut join = Join::new(65_535, true);
    let mut joined = Vec::new();
    let mut take = |join: &mut Join| {
        if let Some(bytes) = join.take() {
            let (header, packet) = Virtio::parse(bytes).unwrap();
            joined.push((header, packet.to_vec()));
        }
    };
    for packet in packets {
        if !join.push(packet) {
            take(&mut join);
            assert!(join.push(packet), "an empty one takes any packet");
        }
    }
    take(&mut join);
    joined
}

/// Checks a piece with the other parser.
fn check_piece(of: &Super, index: usize, count: usize, piece: &[u8]) {
    let start = index * usize::from(of.piece_bytes);
    let data = &of.data[start..of.data.len().min(start + usize::from(of.piece_bytes))];
    let sliced = SlicedPacket::from_ip(piece).unwrap();
    match (sliced.net.unwrap(), sliced.transport.unwrap()) {
        (NetSlice::Ipv4(ip), TransportSlice::Tcp(tcp)) => {
            let checksum =
                tcp.to_header().calc_checksum_ipv4(&ip.header().to_header(), tcp.payload()).unwrap();
            assert_eq!(tcp.checksum(), checksum);
            assert_eq!(ip.header().identification(), of.identification.wrapping_add(index as u16));
            assert_eq!(ip.header().header_checksum(), ip.header().to_header().calc_header_checksum());
            check_tcp(of, index, count, data, &tcp);
        }
        (NetSlice::Ipv6(ip), TransportSlice::Tcp(tcp)) => {
            let checksum =
                tcp.to_header().calc_checksum_ipv6(&ip.header().to_header(), tcp.payload()).unwrap();
            assert_eq!(tcp.checksum(), checksum);
            check_tcp(of, index, count, data, &tcp);
        }
        (NetSlice::Ipv4(ip), TransportSlice::Udp(udp)) => {
            let checksum =
                udp.to_header().calc_checksum_ipv4(&ip.header().to_header(), udp.payload()).unwrap();
            assert_eq!(udp.checksum(), checksum);
            assert_eq!(udp.payload(), data);
        }
        (NetSlice::Ipv6(ip), TransportSlice::Udp(udp)) => {
            let checksum =
                udp.to_header().calc_checksum_ipv6(&ip.header().to_header(), udp.payload()).unwrap();
            assert_eq!(udp.checksum(), checksum);
            assert_eq!(udp.payload(), data);
        }
        other => panic!("{other:?}"),
    }
}

fn check_tcp(of: &Super, index: usize, count: usize, data: &[u8], tcp: &etherparse::TcpSlice<'_>) {
    let flags = TcpFlags(of.flags);
    let start = index * usize::from(of.piece_bytes);
    assert_eq!(tcp.payload(), data);
    assert_eq!(tcp.sequence_number(), of.sequence_number.wrapping_add(start as u32));
    assert_eq!(tcp.psh(), flags.contains(TcpFlags::PSH) && index + 1 == count);
    assert_eq!(tcp.fin(), flags.contains(TcpFlags::FIN) && index + 1 == count);
    assert_eq!(tcp.cwr(), flags.contains(TcpFlags::CWR) && index == 0);
    assert_eq!(tcp.ece(), flags.contains(TcpFlags::ECE));
    assert_eq!(tcp.options().len(), of.option_words * 4);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn pieces_are_right_packets_and_join_to_what_was_cut(of in any_super()) {
        let (header, packet) = of.build();
        let pieces = cut(header, &packet);
        prop_assert_eq!(pieces.len(), of.data.len().div_ceil(of.piece_bytes.into()));
        for (index, piece) in pieces.iter().enumerate() {
            check_piece(&of, index, pieces.len(), piece);
        }
        let joined = join(&pieces);
        let is_one = if of.is_tcp { !TcpFlags(of.flags).contains(TcpFlags::CWR) } else { pieces.len() <= 64 };
        if pieces.len() > 1 && is_one {
            prop_assert_eq!(&joined, &vec![(header, packet)]);
        }
        // Joined packets, cut again, are the same packets.
        let again: Vec<Vec<u8>> = joined.iter().flat_map(|(header, packet)| cut(*header, packet)).collect();
        prop_assert_eq!(again, pieces);
    }

    #[test]
    fn what_was_altered_lost_or_moved_is_passed_on_as_it_is(
        of in any_super(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), 0u8..5, any::<prop::sample::Index>(), 1u8..), 1..6),
    ) {
        let (header, packet) = of.build();
        let mut pieces = cut(header, &packet);
        for (which, change, byte, with) in changes {
            let index = which.index(pieces.len());
            match change {
                // An earlier change has emptied it.
                0 if pieces[index].is_empty() => {}
                0 => {
                    let byte = byte.index(pieces[index].len());
                    pieces[index][byte] ^= with;
                }
                1 if pieces.len() > 1 => drop(pieces.remove(index)),
                2 => {
                    let copy = pieces[index].clone();
                    pieces.push(copy);
                }
                3 => {
                    let other = byte.index(pieces.len());
                    pieces.swap(index, other);
                }
                _ => {
                    let kept = byte.index(pieces[index].len().max(1));
                    pieces[index].truncate(kept);
                }
            }
        }
        let again: Vec<Vec<u8>> = join(&pieces).iter().flat_map(|(header, packet)| cut(*header, packet)).collect();
        prop_assert_eq!(again.len(), pieces.len());
        for (before, after) in pieces.iter().zip(&again) {
            prop_assert_eq!(without_atomic_identification(before), without_atomic_identification(after));
        }
    }

    #[test]
    fn the_rest_of_a_gso_packet_without_its_first_packets_is_cut_into_the_others(of in any_super(), count in any::<usize>()) {
        let (header, packet) = of.build();
        let pieces = cut(header, &packet);
        let mut whole = header.to_bytes().to_vec();
        whole.extend_from_slice(&packet);
        let before = whole.clone();
        prop_assert_eq!(behead(&mut whole, pieces.len()), None);
        prop_assert_eq!(&whole, &before);
        let count = count % pieces.len();
        let start = behead(&mut whole, count).unwrap();
        let (header, packet) = Virtio::parse(&whole[start..]).unwrap();
        prop_assert_eq!(header.cut == Cut::Whole, count > 0 && pieces.len() - count == 1);
        let rest = cut(header, packet);
        prop_assert_eq!(&rest[..], &pieces[count..]);
    }

    #[test]
    fn any_bytes_are_cut_or_refused(header in any::<[u8; VIRTIO_BYTES]>(), kind in 0u8..6, packet in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut bytes = header.to_vec();
        bytes[1] = kind;
        bytes.extend_from_slice(&packet);
        if let Ok((header, packet)) = Virtio::parse(&bytes) && let Ok(pieces) = Pieces::of(header, packet) {
            let mut room = vec![0; 65_536];
            for index in 0..pieces.count() {
                prop_assert!(pieces.write(index, &mut room).is_ok());
            }
        }
    }
}

/// Returns the packet with its meaningless identification, and the checksum over it, set to zero.
fn without_atomic_identification(packet: &[u8]) -> Vec<u8> {
    let mut packet = packet.to_vec();
    if packet.len() >= 20 && packet[0] >> 4 == 4 && packet[6] & 0x40 != 0 {
        packet[4..6].fill(0);
        packet[10..12].fill(0);
    }
    packet
}

#[test]
fn a_wrong_checksum_is_never_hidden() {
    let of = Super {
        is_v4: true,
        is_tcp: true,
        identification: 1,
        sequence_number: 1,
        flags: 0x10,
        option_words: 3,
        piece_bytes: 1000,
        data: vec![7; 3000],
    };
    let (header, packet) = of.build();
    let mut pieces = cut(header, &packet);
    pieces[1][600] ^= 1;
    let joined = join(&pieces);
    assert_eq!(joined.len(), 3);
    assert_eq!(joined[1], (Virtio::default(), pieces[1].clone()));
}

#[test]
fn a_small_packet_leaves_with_its_checksum_complete() {
    let of = Super {
        is_v4: true,
        is_tcp: true,
        identification: 1,
        sequence_number: 1,
        flags: 0x02,
        option_words: 5,
        piece_bytes: 0,
        data: Vec::new(),
    };
    let (header, packet) = of.build();
    let whole = cut(Virtio { cut: Cut::Whole, ..header }, &packet);
    let ip = Ipv4::parse(&whole[0][..]).unwrap();
    assert!(Tcp::parse(ip.payload()).unwrap().checksum_is_right(ip.pseudo_sum()));
}

#[test]
fn a_datagram_of_which_nobody_vouches_is_not_joined() {
    let of = Super {
        is_v4: true,
        is_tcp: false,
        identification: 1,
        sequence_number: 0,
        flags: 0,
        option_words: 0,
        piece_bytes: 100,
        data: vec![1; 300],
    };
    let (header, packet) = of.build();
    let mut pieces = cut(header, &packet);
    assert_eq!(join(&pieces).len(), 1);
    for piece in &mut pieces {
        // The sender computed no checksum if the field is 0.
        piece[26..28].fill(0);
        assert_eq!(Udp::parse(&piece[20..]).unwrap().checksum(), 0);
    }
    assert_eq!(join(&pieces).len(), 3);
    let mut without = Join::new(65_535, false);
    let (header, packet) = of.build();
    let pieces = cut(header, &packet);
    assert!(without.push(&pieces[0]) && !without.push(&pieces[1]), "the device takes no UDP GSO packets");
}

#[test]
fn no_gso_packet_has_more_datagrams_than_the_kernel_takes() {
    let of = |is_tcp| Super {
        is_v4: true,
        is_tcp,
        identification: 1,
        sequence_number: 0,
        flags: 0x10,
        option_words: 0,
        piece_bytes: 10,
        data: vec![1; 1500],
    };
    let counts = |of: Super| {
        let (header, packet) = of.build();
        let joined = join(&cut(header, &packet));
        joined.iter().map(|(header, packet)| cut(*header, packet).len()).collect::<Vec<_>>()
    };
    assert_eq!(counts(of(false)), [64, 64, 22]);
    assert_eq!(counts(of(true)), [150], "segments of a stream have no such bound");
}

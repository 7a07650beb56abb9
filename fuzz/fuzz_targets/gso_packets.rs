//! GSO packets: cutting joined packets yields the packets that were joined; a header over any bytes cuts them into
//! the right lengths or is refused.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sealane_wire::gso::{Join, Pieces, behead};
use sealane_wire::virtio::Virtio;

fuzz_target!(|bytes: &[u8]| {
    let mut room = vec![0; 70_000];
    if let Ok((header, packet)) = Virtio::parse(bytes)
        && let Ok(pieces) = Pieces::of(header, packet)
    {
        let mut packets: Vec<Vec<u8>> = Vec::new();
        for index in 0..pieces.count() {
            let length = pieces.write(index, &mut room).expect("it has the room");
            assert_eq!(length, pieces.bytes(index));
            packets.push(room[..length].to_vec());
        }
        check(&packets, &mut room);
        check_rest(bytes, &packets, &mut room);
    }
    // The same bytes are read as packets, each behind its length.
    let mut packets = Vec::new();
    let mut rest = bytes;
    while let Some((&[high, low], behind)) = rest.split_first_chunk::<2>() {
        let (packet, behind) =
            behind.split_at(behind.len().min(usize::from(u16::from_be_bytes([high, low]))));
        packets.push(packet.to_vec());
        rest = behind;
    }
    check(&packets, &mut room);
});

/// Without its first packets the rest is cut into the others.
fn check_rest(bytes: &[u8], packets: &[Vec<u8>], room: &mut [u8]) {
    let count = packets.len() / 2;
    let mut whole = bytes.to_vec();
    let Some(start) = behead(&mut whole, count) else { panic!("it has {} packets", packets.len()) };
    let (header, packet) = Virtio::parse(&whole[start..]).expect("a header of our own");
    let pieces = Pieces::of(header, packet).expect("a GSO packet of our own");
    assert_eq!(pieces.count(), packets.len() - count);
    for (index, before) in packets[count..].iter().enumerate() {
        let length = pieces.write(index, room).expect("it has the room");
        assert_eq!(&room[..length], before);
    }
}

fn check(packets: &[Vec<u8>], room: &mut [u8]) {
    let mut join = Join::new(65_535, true);
    let mut again: Vec<Vec<u8>> = Vec::new();
    for packet in packets {
        if !join.push(packet) {
            cut(&mut join, room, &mut again);
            assert!(join.push(packet));
        }
    }
    cut(&mut join, room, &mut again);
    assert_eq!(again.len(), packets.len());
    for (before, after) in packets.iter().zip(&again) {
        assert_eq!(comparable(before), comparable(after));
    }
}

fn cut(join: &mut Join, room: &mut [u8], again: &mut Vec<Vec<u8>>) {
    let Some(joined) = join.take() else { return };
    let (header, packet) = Virtio::parse(joined).expect("a header of our own");
    let pieces = Pieces::of(header, packet).expect("a GSO packet of our own");
    for index in 0..pieces.count() {
        let length = pieces.write(index, room).expect("it has the room");
        again.push(room[..length].to_vec());
    }
}

/// Returns the packet without its identification, which has no meaning if it must not be fragmented (RFC 6864).
fn comparable(packet: &[u8]) -> Vec<u8> {
    let mut packet = packet.to_vec();
    if packet.len() >= 20 && packet[0] >> 4 == 4 && packet[6] & 0x40 != 0 {
        packet[4..6].fill(0);
        packet[10..12].fill(0);
    }
    packet
}

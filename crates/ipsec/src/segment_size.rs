//! The maximum segment size that a TCP connection through a tunnel agrees on (RFC 9293, section 3.7.1).
//!
//! Guarantees: a connection's ends never agree on segments that do not fit into the tunnel, even if no ICMP message
//! reaches them; only the option of a SYN changes, and the checksum with it; no bytes can make this panic.

use sealane_wire::{protocol, update};

const SYN: u8 = 2;
/// Kinds of options: the end of the list, one byte of padding, the maximum segment size.
const END: u8 = 0;
const PADDING: u8 = 1;
const SEGMENT_SIZE: u8 = 2;

/// Returns the place of the TCP header of `packet`, if it has one.
fn tcp_at(packet: &[u8]) -> Option<usize> {
    let at = match packet.first()? >> 4 {
        4 => {
            let is_later_piece = u16::from_be_bytes([*packet.get(6)?, *packet.get(7)?]) & 0x1fff != 0;
            let header_bytes = usize::from(packet[0] & 15) * 4;
            (*packet.get(9)? == protocol::TCP && !is_later_piece && header_bytes >= 20)
                .then_some(header_bytes)?
        }
        6 => (*packet.get(6)? == protocol::TCP).then_some(40)?,
        _ => return None,
    };
    (packet.len() >= at + 20).then_some(at)
}

/// Lowers the maximum segment size that a SYN announces to the size that fits into packets of `mtu` bytes.
pub fn clamp(packet: &mut [u8], mtu: u16) {
    let Some(at) = tcp_at(packet) else { return };
    if packet[at + 13] & SYN == 0 {
        return;
    }
    let ip_bytes = if packet[0] >> 4 == 4 { 20 } else { 40 };
    let most = mtu.saturating_sub(ip_bytes + 20);
    let end = (at + usize::from(packet[at + 12] >> 4) * 4).min(packet.len());
    let mut option = at + 20;
    while option < end && packet[option] != END {
        if packet[option] == PADDING {
            option += 1;
            continue;
        }
        let Some(&bytes) = packet[..end].get(option + 1).filter(|&&bytes| bytes >= 2) else { return };
        if packet[option] == SEGMENT_SIZE && bytes == 4 && option + 4 <= end {
            let value = u16::from_be_bytes([packet[option + 2], packet[option + 3]]);
            if value > most {
                packet[option + 2..option + 4].copy_from_slice(&most.to_be_bytes());
                // At an odd place the option's bytes are in the other halves of the summed words.
                let is_even = (option - at).is_multiple_of(2);
                let word = |value: u16| if is_even { value } else { value.swap_bytes() };
                let checksum = u16::from_be_bytes([packet[at + 16], packet[at + 17]]);
                let checksum = update(checksum, word(value), word(most));
                packet[at + 16..at + 18].copy_from_slice(&checksum.to_be_bytes());
            }
            return;
        }
        option += usize::from(bytes);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sealane_wire::{Ipv4, Ipv4Fields, Ipv6, Ipv6Fields, Tcp, TcpFields, TcpFlags};

    use super::*;

    /// Returns a segment with `options` and a right checksum.
    fn segment(is_v4: bool, flags: u8, options: &[u8]) -> Vec<u8> {
        let mut upper = vec![0; 60];
        let fields = TcpFields {
            source_port: 40_000,
            destination_port: 22,
            sequence_number: 7,
            acknowledgment_number: 0,
            flags: TcpFlags(flags),
            window: 64_000,
            urgent_pointer: 0,
        };
        let bytes = fields.write(&mut upper, options).expect("there is room");
        upper.truncate(bytes);
        let mut packet = vec![0; if is_v4 { 20 } else { 40 }];
        let pseudo = if is_v4 {
            let fields = Ipv4Fields {
                traffic_class: 0,
                identification: 1,
                dont_fragment: true,
                time_to_live: 64,
                protocol: protocol::TCP,
                source: [10, 0, 0, 1].into(),
                destination: [10, 0, 0, 2].into(),
            };
            fields.write(&mut packet, bytes).expect("there is room");
            packet.extend_from_slice(&upper);
            Ipv4::parse(&packet[..]).expect("a packet").pseudo_sum()
        } else {
            let fields = Ipv6Fields {
                traffic_class: 0,
                flow_label: 0,
                next_header: protocol::TCP,
                hop_limit: 64,
                source: "fd00::1".parse().expect("an address"),
                destination: "fd00::2".parse().expect("an address"),
            };
            fields.write(&mut packet, bytes).expect("there is room");
            packet.extend_from_slice(&upper);
            Ipv6::parse(&packet[..]).expect("a packet").pseudo_sum(protocol::TCP, bytes)
        };
        let at = packet.len() - bytes;
        Tcp::parse(&mut packet[at..]).expect("a segment").fill_checksum(pseudo);
        packet
    }

    fn is_right(packet: &[u8]) -> bool {
        if packet[0] >> 4 == 4 {
            let pseudo = Ipv4::parse(packet).expect("a packet").pseudo_sum();
            Tcp::parse(&packet[20..]).expect("a segment").checksum_is_right(pseudo)
        } else {
            let ip = Ipv6::parse(packet).expect("a packet");
            let pseudo = ip.pseudo_sum(protocol::TCP, packet.len() - 40);
            Tcp::parse(&packet[40..]).expect("a segment").checksum_is_right(pseudo)
        }
    }

    #[test]
    fn a_syn_announces_no_more_than_fits() {
        for (is_v4, most) in [(true, 1360u16), (false, 1340)] {
            for before in [&[][..], &[1], &[1, 1], &[4, 2], &[3, 3, 7]] {
                for (value, expected) in [(1460, most), (most, most), (536, 536)] {
                    let announced = |value: u16| [before, &[2, 4], &value.to_be_bytes()].concat();
                    let pad = |mut options: Vec<u8>| {
                        options.resize(options.len().next_multiple_of(4), 0);
                        options
                    };
                    let mut packet = segment(is_v4, SYN, &pad(announced(value)));
                    clamp(&mut packet, 1400);
                    let same = segment(is_v4, SYN, &pad(announced(expected)));
                    assert!(is_right(&packet));
                    assert_eq!(packet, same, "{value} behind {before:?}");
                    // Only a SYN announces a segment size.
                    let data = segment(is_v4, 16, &pad(announced(value)));
                    let mut clamped = data.clone();
                    clamp(&mut clamped, 1400);
                    assert_eq!(clamped, data);
                }
            }
        }
    }

    proptest! {
        #[test]
        fn any_bytes_stay_as_long_as_they_are(mut bytes: Vec<u8>, mtu: u16, first in prop_oneof![Just(0x45u8), Just(0x60), any::<u8>()]) {
            if let [version, ..] = &mut bytes[..] {
                *version = first;
            }
            clamp(&mut bytes, mtu);
        }
    }
}

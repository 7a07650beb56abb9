//! The fields of a packet that selectors match (RFC 4301, section 4.4.1.1).
//!
//! Guarantees: any bytes give either a flow or a reason to drop them; ports that a packet hides are `None`, never
//! invented.

use std::net::IpAddr;

use sealane_wire::{Icmp, Ipv4, Ipv6, Tcp, Udp, protocol};

use crate::{counters::DropReason, selector::Flow};

/// The direction of a packet, seen from this gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// To the peer: the source is local.
    Out,
    /// From the peer: the destination is local.
    In,
}

/// Returns the flow of `packet`, which should be an IP packet.
///
/// # Errors
/// Fails if `packet` is not an IP packet.
pub fn flow(packet: &[u8], bound: Bound) -> Result<Flow, DropReason> {
    let malformed = |_| DropReason::Malformed;
    let (source, destination, protocol, upper): (IpAddr, IpAddr, u8, Option<&[u8]>) = match packet
        .first()
        .map(|byte| byte >> 4)
    {
        Some(4) => {
            let ip = Ipv4::parse(packet).map_err(malformed)?;
            let is_later_piece = ip.fragment_offset_bytes() != 0;
            let upper = &packet[ip.header_bytes()..ip.total_bytes()];
            (ip.source().into(), ip.destination().into(), ip.protocol(), (!is_later_piece).then_some(upper))
        }
        Some(6) => {
            let ip = Ipv6::parse(packet).map_err(malformed)?;
            let upper = ip.upper().map_err(malformed)?;
            let is_later_piece = upper
                .fragment_at
                .is_some_and(|at| u16::from_be_bytes([packet[at + 2], packet[at + 3]]) >> 3 != 0);
            let bytes = &packet[upper.offset_bytes..ip.total_bytes()];
            let bytes = (!is_later_piece).then_some(bytes);
            (ip.source().into(), ip.destination().into(), upper.protocol, bytes)
        }
        _ => return Err(DropReason::Malformed),
    };
    let (source_port, destination_port) = upper.map_or((None, None), |upper| ports(protocol, upper));
    let (local, remote, local_port, remote_port) = match bound {
        Bound::Out => (source, destination, source_port, destination_port),
        Bound::In => (destination, source, destination_port, source_port),
    };
    Ok(Flow { local, remote, protocol, local_port, remote_port })
}

/// A few words that identify the flow of a whole TCP segment or UDP datagram without parsing it: for two packets with
/// equal marks, [`flow`] returns the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowMark {
    addresses: [u64; 4],
    /// Version, protocol and ports.
    rest: u64,
}

impl FlowMark {
    /// Returns the mark of `packet`; `None` if the packet has to be parsed.
    pub fn of(packet: &[u8]) -> Option<Self> {
        let (version, upper, addresses) = match packet.first()? >> 4 {
            4 => {
                let header = packet.first_chunk::<20>()?;
                let total = u16::from_be_bytes([header[2], header[3]]);
                let is_piece = u16::from_be_bytes([header[6], header[7]]) & 0x3fff != 0;
                if header[0] != 0x45 || usize::from(total) != packet.len() || is_piece {
                    return None;
                }
                let addresses = u64::from_ne_bytes(*header[12..].first_chunk()?);
                (4, (header[9], 20), [addresses, 0, 0, 0])
            }
            6 => {
                let header = packet.first_chunk::<40>()?;
                let payload = u16::from_be_bytes([header[4], header[5]]);
                if usize::from(payload) + 40 != packet.len() {
                    return None;
                }
                let (words, _) = header[8..].as_chunks::<8>();
                (6, (header[6], 40), std::array::from_fn(|at| u64::from_ne_bytes(words[at])))
            }
            _ => return None,
        };
        let (protocol, upper_at) = upper;
        let upper = &packet[upper_at..];
        let is_whole = match protocol {
            protocol::TCP => {
                let header_bytes = usize::from(upper.get(12)? >> 4) * 4;
                header_bytes >= 20 && header_bytes <= upper.len()
            }
            protocol::UDP => {
                usize::from(u16::from_be_bytes([*upper.get(4)?, *upper.get(5)?])) == upper.len()
                    && upper.len() >= 8
            }
            _ => false,
        };
        let ports = u32::from_ne_bytes(*upper.first_chunk()?);
        let rest = u64::from(ports) << 32 | u64::from(protocol) << 8 | version;
        is_whole.then_some(Self { addresses, rest })
    }
}

/// Returns the source and destination port; for ICMP, both are its type and code.
fn ports(protocol: u8, upper: &[u8]) -> (Option<u16>, Option<u16>) {
    match protocol {
        protocol::TCP => Tcp::parse(upper)
            .map_or((None, None), |tcp| (Some(tcp.source_port()), Some(tcp.destination_port()))),
        protocol::UDP => Udp::parse(upper)
            .map_or((None, None), |udp| (Some(udp.source_port()), Some(udp.destination_port()))),
        protocol::ICMP | protocol::ICMPV6 => Icmp::parse(upper).map_or((None, None), |icmp| {
            let both = Some(u16::from_be_bytes([icmp.kind(), icmp.code()]));
            (both, both)
        }),
        _ => (None, None),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns packets of two protocols and versions that differ in few bytes; some are damaged.
    fn packet() -> impl Strategy<Value = Vec<u8>> {
        let small = 0..3u8;
        (any::<bool>(), any::<bool>(), small.clone(), small, proptest::option::of((0..80usize, any::<u8>())))
            .prop_map(|(is_v4, is_tcp, address, port, damage)| {
                let protocol = if is_tcp { protocol::TCP } else { protocol::UDP };
                let mut packet = if is_v4 { vec![0; 20] } else { vec![0; 40] };
                let at = packet.len();
                packet.resize(at + 32, 0);
                let bytes = packet.len() as u16;
                if is_v4 {
                    packet[0] = 0x45;
                    packet[2..4].copy_from_slice(&bytes.to_be_bytes());
                    packet[9] = protocol;
                    packet[19] = address;
                } else {
                    packet[0] = 0x60;
                    packet[4..6].copy_from_slice(&32u16.to_be_bytes());
                    packet[6] = protocol;
                    packet[39] = address;
                }
                packet[at + 1] = port;
                packet[at + 5] = if is_tcp { 0 } else { 32 };
                packet[at + 12] = 0x50;
                if let Some((place, byte)) = damage {
                    let place = place % packet.len();
                    packet[place] = byte;
                }
                packet
            })
    }

    proptest! {
        #[test]
        fn packets_of_one_mark_are_of_one_flow(one in packet(), other in packet()) {
            if let Some(mark) = FlowMark::of(&one) {
                prop_assert!(flow(&one, Bound::Out).is_ok());
                if FlowMark::of(&other) == Some(mark) {
                    prop_assert_eq!(flow(&one, Bound::Out), flow(&other, Bound::Out));
                    prop_assert_eq!(flow(&one, Bound::In), flow(&other, Bound::In));
                }
            }
        }
    }
}

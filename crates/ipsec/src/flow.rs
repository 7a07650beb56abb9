//! What selectors see of a packet (RFC 4301, section 4.4.1.1).
//!
//! Guarantees: any bytes give a flow or a reason to drop them; ports that a packet hides are `None`, never invented.

use std::net::IpAddr;

use sealane_wire::{Icmp, Ipv4, Ipv6, Tcp, Udp, protocol};

use crate::{counters::DropReason, selector::Flow};

/// Which way a packet goes, seen from this gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// To the peer: its source is local.
    Out,
    /// From the peer: its destination is local.
    In,
}

/// The flow of `packet`, an IP packet.
///
/// # Errors
/// It is none.
pub fn flow(packet: &[u8], way: Way) -> Result<Flow, DropReason> {
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
    let (local, remote, local_port, remote_port) = match way {
        Way::Out => (source, destination, source_port, destination_port),
        Way::In => (destination, source, destination_port, source_port),
    };
    Ok(Flow { local, remote, protocol, local_port, remote_port })
}

/// Source and destination port; of ICMP, its type and code in both places.
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

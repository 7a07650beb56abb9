//! Facts that the layers of one stack share: addresses, ports, and the numbers by which a header names the next one.
//!
//! Stacks are used in a laboratory: their hosts have the addresses that RFC 2544 and RFC 5180 reserve for benchmarks.

use std::net::{Ipv4Addr, Ipv6Addr};

use sealane_tcp::Ports;
use sealane_transform::Digest;
use sealane_wire::{Sum, ethertype, protocol};

use crate::{Context, End, LayerSpec};

/// The protocol number over IP of a digest's header: one of the two for experiments (RFC 3692).
pub const DIGEST_PROTOCOL: u8 = 253;
/// The protocol number over IP of all packets without a number of their own, such as packets enciphered below a
/// transport.
pub const OPAQUE_PROTOCOL: u8 = 254;
/// The Ethernet type of packets that are neither IPv4 nor IPv6: the first one for local experiments (IEEE 802).
pub const OPAQUE_ETHERTYPE: u16 = 0x88b5;

/// The addresses of a stack's two ends, over one version of IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Addresses {
    V4 { local: Ipv4Addr, remote: Ipv4Addr },
    V6 { local: Ipv6Addr, remote: Ipv6Addr },
}

impl Addresses {
    /// Returns the addresses of the layer with this name, if it is one of IP.
    pub(crate) fn of(name: &str, end: End) -> Option<Self> {
        fn order<T>(end: End, near: T, far: T) -> (T, T) {
            if end == End::Near { (near, far) } else { (far, near) }
        }
        match name {
            "ip" => {
                let (local, remote) = order(end, [198, 18, 0, 1], [198, 19, 0, 1]);
                Some(Self::V4 { local: local.into(), remote: remote.into() })
            }
            "ipv6" => {
                let host = |network| [0x2001, 2, 0, network, 0, 0, 0, 1];
                let (local, remote) = order(end, host(1), host(2));
                Some(Self::V6 { local: local.into(), remote: remote.into() })
            }
            _ => None,
        }
    }

    /// Returns the pseudo-header of an empty packet, in either direction.
    fn pseudo(self, protocol: u8) -> Sum {
        match self {
            Self::V4 { local, remote } => Sum::pseudo_ipv4(local, remote, protocol, 0),
            Self::V6 { local, remote } => Sum::pseudo_ipv6(local, remote, protocol, 0),
        }
    }
}

/// Returns the pseudo-header of a transport's packets without their length; `None` if there is no network below.
pub(crate) fn pseudo(context: &Context, protocol: u8) -> Option<Sum> {
    let network = context.below().iter().find_map(|layer| Addresses::of(&layer.name, context.end));
    network.map(|addresses| addresses.pseudo(protocol))
}

impl Context {
    /// Returns the ports of segments and datagrams that this end sends: discard (RFC 863) at the far end, and a dynamic
    /// port at the near end.
    pub fn ports(&self) -> Ports {
        const DISCARD: u16 = 9;
        let dynamic = 49_152 + (self.association % 16_384) as u16;
        match self.end {
            End::Near => Ports { source: dynamic, destination: DISCARD },
            End::Far => Ports { source: DISCARD, destination: dynamic },
        }
    }
}

/// Returns the digests and MACs that are layers.
pub(crate) fn digests() -> impl Iterator<Item = Digest> {
    Digest::ALL.into_iter().filter(|digest| digest.output_bytes() > 0)
}

/// Returns the protocol number over IP of a layer's packets; without a layer there are only an application's bytes.
pub(crate) fn protocol_above(context: &Context) -> u8 {
    let is_digest = |name: &str| digests().any(|digest| digest.name() == name);
    match context.above().map(|layer: &LayerSpec| layer.name.as_str()) {
        None => protocol::NONE,
        Some("tcp") => protocol::TCP,
        Some("udp") => protocol::UDP,
        Some("ip") => protocol::IPV4,
        Some("ipv6") => protocol::IPV6,
        Some(name) if is_digest(name) => DIGEST_PROTOCOL,
        Some(_) => OPAQUE_PROTOCOL,
    }
}

/// Returns the type of a layer's packets on a local network. IPsec below a network leaves its headers in front.
pub(crate) fn ethertype_above(context: &Context) -> u16 {
    let mut above = context.all_above().map(|layer| layer.name.as_str());
    match above.find(|name| !matches!(*name, "esp" | "ah")) {
        Some("ip") => ethertype::IPV4,
        Some("ipv6") => ethertype::IPV6,
        _ => OPAQUE_ETHERTYPE,
    }
}

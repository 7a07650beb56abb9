//! Conversions between the traffic selectors of IKEv2 (RFC 7296, section 3.13.1) and those of the lanes.
//!
//! Guarantees: a conversion neither widens nor narrows.

use std::net::IpAddr;

use sealane_ike::wire::TrafficSelector;
use sealane_ipsec::{
    selector::Flow,
    traffic::{Ports, Range},
};

/// Returns the selectors of a packet, ours first.
pub(super) fn trigger(flow: &Flow) -> (TrafficSelector, TrafficSelector) {
    let of = |address: IpAddr, port: Option<u16>| TrafficSelector {
        protocol: flow.protocol,
        ports: port.map_or((0, u16::MAX), |port| (port, port)),
        addresses: (address, address),
    };
    (of(flow.local, flow.local_port), of(flow.remote, flow.remote_port))
}

/// Converts a selector to a range for the lanes.
pub(super) fn range(selector: &TrafficSelector) -> Range {
    Range {
        protocol: (selector.protocol != 0).then_some(selector.protocol),
        ports: match selector.ports {
            (0, u16::MAX) => Ports::Any,
            _ if selector.is_opaque() => Ports::Hidden,
            (first, last) => Ports::Within(first..=last),
        },
        addresses: selector.addresses.0..=selector.addresses.1,
    }
}

//! The traffic of one association, as agreed by both ends (RFC 7296, section 2.9): ranges of addresses and ports.
//!
//! Guarantees: a flow is carried only if a range of either side contains it; matching costs a few comparisons and
//! takes no lock. *Local* is the side of this gateway, in either direction.

use std::{fmt, net::IpAddr, ops::RangeInclusive};

use crate::selector::Flow;

/// The ports of a [`Range`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ports {
    /// Any ports, and packets whose ports are hidden.
    Any,
    /// Only packets whose ports are hidden, such as later fragments (RFC 4301, section 4.4.1.1: OPAQUE).
    Hidden,
    /// These ports.
    Within(RangeInclusive<u16>),
}

/// A range of addresses of one side; both bounds are of one family.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Range {
    /// The protocol above IP; `None` matches any.
    pub protocol: Option<u8>,
    /// The ports of that side (RFC 4301, section 4.4.1.1).
    pub ports: Ports,
    /// The first and the last address, both included.
    pub addresses: RangeInclusive<IpAddr>,
}

impl Range {
    fn takes(&self, protocol: u8, address: IpAddr, port: Option<u16>) -> bool {
        let takes_port = match &self.ports {
            Ports::Any => true,
            Ports::Hidden => port.is_none(),
            Ports::Within(ports) => port.is_some_and(|port| ports.contains(&port)),
        };
        takes_port && self.protocol.is_none_or(|own| own == protocol) && self.addresses.contains(&address)
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, last) = (self.addresses.start(), self.addresses.end());
        match network_bits(*first, *last) {
            Some(bits) => write!(f, "{first}/{bits}")?,
            None => write!(f, "{first}-{last}")?,
        }
        let ports = match &self.ports {
            Ports::Any => None,
            Ports::Hidden => Some("hidden".to_owned()),
            Ports::Within(ports) if ports.start() == ports.end() => Some(ports.start().to_string()),
            Ports::Within(ports) => Some(format!("{}-{}", ports.start(), ports.end())),
        };
        match (self.protocol, ports) {
            (None, None) => Ok(()),
            (Some(protocol), None) => write!(f, "[{protocol}]"),
            (None, Some(ports)) => write!(f, "[any/{ports}]"),
            (Some(protocol), Some(ports)) => write!(f, "[{protocol}/{ports}]"),
        }
    }
}

/// Returns the number of bits of the network with this first and last address; `None` if they are not those of a
/// network.
fn network_bits(first: IpAddr, last: IpAddr) -> Option<u32> {
    let (first, last, width) = match (first, last) {
        (IpAddr::V4(first), IpAddr::V4(last)) => (u32::from(first).into(), u32::from(last).into(), 32),
        (IpAddr::V6(first), IpAddr::V6(last)) => (u128::from(first), u128::from(last), 128),
        _ => return None,
    };
    let host: u128 = first ^ last;
    let is_network = host.checked_add(1).is_none_or(u128::is_power_of_two) && first & host == 0;
    is_network.then(|| width - host.count_ones())
}

/// The traffic of an association.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traffic {
    /// The ranges on this gateway's side.
    pub local: Vec<Range>,
    /// The ranges on the peer's side.
    pub remote: Vec<Range>,
}

impl Traffic {
    /// Returns whether the association carries `flow`.
    pub fn matches(&self, flow: &Flow) -> bool {
        self.local.iter().any(|range| range.takes(flow.protocol, flow.local, flow.local_port))
            && self.remote.iter().any(|range| range.takes(flow.protocol, flow.remote, flow.remote_port))
    }
}

/// The maximum number of single hosts that are listed.
const HOSTS_MAX: usize = 8;

impl Traffic {
    /// Returns the hosts on the peer's side, if they are few single ones; otherwise the list is empty.
    pub fn remote_hosts(&self) -> Vec<IpAddr> {
        let is_host = |range: &Range| range.addresses.start() == range.addresses.end();
        if self.remote.len() > HOSTS_MAX || !self.remote.iter().all(is_host) {
            return Vec::new();
        }
        let mut hosts: Vec<IpAddr> = self.remote.iter().map(|range| *range.addresses.start()).collect();
        hosts.sort_unstable();
        hosts.dedup();
        hosts
    }
}

impl fmt::Display for Traffic {
    /// Prints the traffic as `10.1.0.0/16 === 10.2.0.0/16`, ours first.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let list = |ranges: &[Range]| ranges.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        write!(f, "{} === {}", list(&self.local), list(&self.remote))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(first: &str, last: &str) -> Range {
        let address = |word: &str| word.parse().expect("an address");
        Range { protocol: None, ports: Ports::Any, addresses: address(first)..=address(last) }
    }

    fn flow(local: &str, remote: &str, ports: Option<(u16, u16)>) -> Flow {
        let (local_port, remote_port) = ports.unzip();
        let address = |word: &str| word.parse().expect("an address");
        Flow { local: address(local), remote: address(remote), protocol: 6, local_port, remote_port }
    }

    #[test]
    fn a_flow_is_carried_if_both_sides_take_it() {
        let traffic = Traffic {
            local: vec![range("10.1.0.0", "10.1.255.255"), range("fd01::", "fd01::ffff")],
            remote: vec![range("10.2.0.3", "10.2.0.9"), range("fd02::", "fd02::ffff")],
        };
        for (local, remote, is_carried) in [
            ("10.1.2.3", "10.2.0.3", true),
            ("10.1.2.3", "10.2.0.9", true),
            ("10.1.2.3", "10.2.0.10", false),
            ("10.0.2.3", "10.2.0.3", false),
            ("fd01::1", "fd02::1", true),
            ("fd01::1:0", "fd02::1", false),
        ] {
            assert_eq!(traffic.matches(&flow(local, remote, Some((1, 2)))), is_carried, "{local} {remote}");
        }
        assert_eq!(traffic.to_string(), "10.1.0.0/16, fd01::/112 === 10.2.0.3-10.2.0.9, fd02::/112");
    }

    #[test]
    fn protocols_and_ports_narrow_it() {
        let web =
            Range { protocol: Some(6), ports: Ports::Within(80..=80), ..range("10.2.0.0", "10.2.0.255") };
        let hidden = Range { ports: Ports::Hidden, ..range("10.2.0.0", "10.2.0.255") };
        let to = |remote: &Range| Traffic {
            local: vec![range("0.0.0.0", "255.255.255.255")],
            remote: vec![remote.clone()],
        };
        let (open, closed) =
            (flow("10.1.0.1", "10.2.0.1", Some((5, 80))), flow("10.1.0.1", "10.2.0.1", None));
        assert!(to(&web).matches(&open) && !to(&web).matches(&closed));
        assert!(!to(&hidden).matches(&open) && to(&hidden).matches(&closed));
        assert!(!to(&web).matches(&Flow { protocol: 17, ..open }));
        assert!(!to(&web).matches(&Flow { remote_port: Some(81), ..open }));
        assert_eq!(web.to_string(), "10.2.0.0/24[6/80]");
        assert_eq!(hidden.to_string(), "10.2.0.0/24[any/hidden]");
        assert_eq!(range("::", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff").to_string(), "::/0");
        assert_eq!(range("10.0.0.1", "10.0.0.2").to_string(), "10.0.0.1-10.0.0.2");
    }
}

//! Traffic selectors (RFC 4301, section 4.4.1.1): the packets that a policy or an association applies to.
//!
//! Guarantees: a selector parses to exactly one meaning and prints back the same; matching costs a few comparisons
//! and takes no lock. *Local* is the side of this gateway, in either direction.

use std::{
    fmt,
    net::{IpAddr, Ipv6Addr},
    ops::RangeInclusive,
    str::FromStr,
};

/// A network: an address and the number of its significant bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Prefix {
    address: IpAddr,
    bits: u8,
}

/// The text is not a network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PrefixError {
    /// There is no address.
    #[error("{word:?} is not an IP address or network such as 10.1.0.0/16 or fd00::/8")]
    NoAddress {
        /// The given text.
        word: String,
    },
    /// The prefix has more bits than the address.
    #[error("{word:?}: a prefix of {bits_max} bits at most")]
    TooLong {
        /// The given text.
        word: String,
        /// The number of bits of the address.
        bits_max: u8,
    },
    /// Bits behind the prefix are set.
    #[error("{word:?} has bits set behind its prefix; did you mean {meant}?")]
    HostBits {
        /// The given text.
        word: String,
        /// The network that contains it.
        meant: Prefix,
    },
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(u32::from(address)) << 96,
        IpAddr::V6(address) => u128::from(address),
    }
}

fn address_bits(address: IpAddr) -> u8 {
    if address.is_ipv4() { 32 } else { 128 }
}

impl Prefix {
    /// All of IPv4.
    pub const ALL_V4: Self = Self { address: IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), bits: 0 };
    /// All of IPv6.
    pub const ALL_V6: Self = Self { address: IpAddr::V6(Ipv6Addr::UNSPECIFIED), bits: 0 };

    /// Returns the network of `bits` bits that contains `address`; if the address has fewer bits, all of them are
    /// significant.
    pub fn containing(address: IpAddr, bits: u8) -> Self {
        let bits = bits.min(address_bits(address));
        let kept = number(address) & mask(bits);
        let address = match address {
            IpAddr::V4(_) => IpAddr::V4(((kept >> 96) as u32).into()),
            IpAddr::V6(_) => IpAddr::V6(kept.into()),
        };
        Self { address, bits }
    }

    /// Returns the network of one address.
    pub fn host(address: IpAddr) -> Self {
        Self { address, bits: address_bits(address) }
    }

    /// Returns the first address.
    pub fn address(self) -> IpAddr {
        self.address
    }

    /// Returns the number of significant bits.
    pub fn bits(self) -> u8 {
        self.bits
    }

    /// Returns whether the network contains `address`.
    pub fn contains(self, address: IpAddr) -> bool {
        let same_family = address.is_ipv4() == self.address.is_ipv4();
        same_family && (number(address) ^ number(self.address)) & mask(self.bits) == 0
    }
}

fn mask(bits: u8) -> u128 {
    u128::MAX.checked_shl(128 - u32::from(bits)).unwrap_or(0)
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.bits)
    }
}

impl fmt::Debug for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Prefix {
    type Err = PrefixError;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        let (address, bits) =
            word.split_once('/').map_or((word, None), |(address, bits)| (address, Some(bits)));
        let no_address = || PrefixError::NoAddress { word: word.to_owned() };
        let address: IpAddr = address.parse().map_err(|_| no_address())?;
        let bits_max = address_bits(address);
        let bits = bits.map_or(Ok(bits_max), |bits| bits.parse().map_err(|_| no_address()))?;
        if bits > bits_max {
            return Err(PrefixError::TooLong { word: word.to_owned(), bits_max });
        }
        let network = Self::containing(address, bits);
        if network.address != address {
            return Err(PrefixError::HostBits { word: word.to_owned(), meant: network });
        }
        Ok(network)
    }
}

/// The fields of a packet that selectors match; the addresses are of one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Flow {
    /// The address on this gateway's side.
    pub local: IpAddr,
    /// The address beyond the peer.
    pub remote: IpAddr,
    /// The protocol above IP.
    pub protocol: u8,
    /// The local port, or ICMP type and code; `None` if the packet has no port or hides it (a later fragment, ESP).
    pub local_port: Option<u16>,
    /// The remote port, or ICMP type and code; `None` as for the local port.
    pub remote_port: Option<u16>,
}

/// A description of packets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selector {
    /// The networks on this gateway's side.
    pub local: Prefix,
    /// The networks beyond the peer.
    pub remote: Prefix,
    /// The protocol above IP; `None` matches any.
    pub protocol: Option<u8>,
    /// The local ports; `None` matches any, and packets whose ports are hidden.
    pub local_ports: Option<RangeInclusive<u16>>,
    /// The remote ports; `None` as for the local ports.
    pub remote_ports: Option<RangeInclusive<u16>>,
}

impl Selector {
    /// Returns a selector of all packets between two networks.
    pub fn between(local: Prefix, remote: Prefix) -> Self {
        Self { local, remote, protocol: None, local_ports: None, remote_ports: None }
    }

    /// Returns whether the selector matches `flow`. A selector with ports does not match a packet with hidden ports
    /// (RFC 4301, section 4.4.1.1: OPAQUE matches only ANY).
    pub fn matches(&self, flow: &Flow) -> bool {
        let port = |wanted: &Option<RangeInclusive<u16>>, seen: Option<u16>| {
            wanted.as_ref().is_none_or(|range| seen.is_some_and(|port| range.contains(&port)))
        };
        self.local.contains(flow.local)
            && self.remote.contains(flow.remote)
            && self.protocol.is_none_or(|protocol| protocol == flow.protocol)
            && port(&self.local_ports, flow.local_port)
            && port(&self.remote_ports, flow.remote_port)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn networks_parse_and_print() {
        for word in ["0.0.0.0/0", "10.1.0.0/16", "192.168.1.7/32", "::/0", "fd00::/8", "2001:db8::1/128"] {
            assert_eq!(word.parse::<Prefix>().expect(word).to_string(), word);
        }
        assert_eq!("10.1.2.3".parse::<Prefix>().expect("a host").bits(), 32);
        for word in
            ["", "10.1", "10.0.0.0/", "10.0.0.0/x", "10.0.0.0/-1", "::/129", "10.0.0.0/33", "10.0.0.0/300"]
        {
            assert!(word.parse::<Prefix>().is_err(), "{word}");
        }
        let error = "10.1.2.3/16".parse::<Prefix>().expect_err("it has host bits");
        assert!(error.to_string().ends_with("did you mean 10.1.0.0/16?"), "{error}");
    }

    fn flow(local: &str, remote: &str) -> Flow {
        let address = |word: &str| word.parse().expect("an address");
        Flow {
            local: address(local),
            remote: address(remote),
            protocol: 6,
            local_port: Some(1024),
            remote_port: Some(443),
        }
    }

    #[test]
    fn every_part_has_to_match() {
        let prefix = |word: &str| word.parse().expect("a network");
        let selector = Selector {
            protocol: Some(6),
            remote_ports: Some(400..=500),
            ..Selector::between(prefix("10.0.0.0/8"), prefix("192.168.0.0/16"))
        };
        let inside = flow("10.9.9.9", "192.168.255.1");
        assert!(selector.matches(&inside));
        assert!(!selector.matches(&Flow { protocol: 17, ..inside }));
        assert!(!selector.matches(&Flow { remote_port: Some(501), ..inside }));
        assert!(!selector.matches(&Flow { remote_port: None, ..inside }));
        assert!(selector.matches(&Flow { local_port: None, ..inside }));
        assert!(!selector.matches(&flow("11.0.0.1", "192.168.0.1")));
        assert!(!selector.matches(&flow("10.0.0.1", "192.169.0.1")));
        assert!(!selector.matches(&flow("::1", "::1")));
        assert!(!Selector::between(Prefix::ALL_V6, Prefix::ALL_V6).matches(&inside));
        assert!(Selector::between(Prefix::ALL_V4, Prefix::ALL_V4).matches(&inside));
    }

    proptest! {
        #[test]
        fn a_network_contains_what_shares_its_bits(address in any::<u128>(), other in any::<u128>(), bits in 0u8..=128) {
            let (address, other) = (Ipv6Addr::from(address), Ipv6Addr::from(other));
            let network = Prefix::containing(address.into(), bits);
            prop_assert!(network.contains(address.into()));
            prop_assert_eq!(network.to_string().parse::<Prefix>(), Ok(network));
            let shared = (u128::from(address) ^ u128::from(other)).leading_zeros() as u8;
            prop_assert_eq!(network.contains(other.into()), shared >= bits);
        }
    }
}

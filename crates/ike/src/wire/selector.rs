//! Traffic selectors (RFC 7296, section 3.13): ranges of addresses, a protocol, a range of ports.
//!
//! Guarantees: a selector that was read is not empty: its first address and port do not exceed its last, except for
//! OPAQUE ports, which are written as 65,535 to 0.

use std::{fmt, net::IpAddr};

use super::{MAX_SELECTORS, Malformed, Reader, with_length};

const TS_IPV4_ADDR_RANGE: u8 = 7;
const TS_IPV6_ADDR_RANGE: u8 = 8;

/// A set of packets, described at one end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TrafficSelector {
    /// The protocol above IP; 0 for any.
    pub protocol: u8,
    /// First and last port; 0 and 65,535 for any, 65,535 and 0 for packets whose ports are hidden (OPAQUE). For ICMP,
    /// type and code are the port's upper and lower byte.
    pub ports: (u16, u16),
    /// First and last address, of one family.
    pub addresses: (IpAddr, IpAddr),
}

impl TrafficSelector {
    /// Returns a selector for all packets from or to a range of addresses of one family.
    pub fn addresses(first: IpAddr, last: IpAddr) -> Self {
        Self { protocol: 0, ports: (0, u16::MAX), addresses: (first, last) }
    }

    /// Returns a selector for all packets from or to the network of `bits` bits around `address`; more bits than the
    /// address has count as all its bits.
    pub fn network(address: IpAddr, bits: u8) -> Self {
        match address {
            IpAddr::V4(address) => {
                let host = u32::MAX.checked_shr(bits.into()).unwrap_or(0);
                let first = u32::from(address) & !host;
                Self::addresses(IpAddr::V4(first.into()), IpAddr::V4((first | host).into()))
            }
            IpAddr::V6(address) => {
                let host = u128::MAX.checked_shr(bits.into()).unwrap_or(0);
                let first = u128::from(address) & !host;
                Self::addresses(IpAddr::V6(first.into()), IpAddr::V6((first | host).into()))
            }
        }
    }

    /// Returns whether the selector describes packets whose ports are hidden.
    pub fn is_opaque(&self) -> bool {
        self.ports == (u16::MAX, 0)
    }

    fn has_any_port(&self) -> bool {
        self.ports == (0, u16::MAX)
    }

    /// Returns the packets in both selectors; `None` if there are none.
    pub fn intersection(&self, other: &Self) -> Option<Self> {
        let protocol = match (self.protocol, other.protocol) {
            (0, protocol) | (protocol, 0) => protocol,
            (ours, theirs) if ours == theirs => ours,
            _ => return None,
        };
        let ports = match (self.is_opaque(), other.is_opaque()) {
            (false, false) => {
                let ports = (self.ports.0.max(other.ports.0), self.ports.1.min(other.ports.1));
                (ports.0 <= ports.1).then_some(ports)?
            }
            (true, true) => self.ports,
            (true, false) => other.has_any_port().then_some(self.ports)?,
            (false, true) => self.has_any_port().then_some(other.ports)?,
        };
        if self.addresses.0.is_ipv4() != other.addresses.0.is_ipv4() {
            return None;
        }
        let addresses = (self.addresses.0.max(other.addresses.0), self.addresses.1.min(other.addresses.1));
        (addresses.0 <= addresses.1).then_some(Self { protocol, ports, addresses })
    }

    /// Returns whether the selector includes every packet of `other`.
    pub fn contains(&self, other: &Self) -> bool {
        self.intersection(other) == Some(*other)
    }

    pub(crate) fn parse_all(body: &[u8]) -> Result<Vec<Self>, Malformed> {
        let mut reader = Reader::new("traffic selectors", body);
        let count = usize::from(reader.u8()?);
        reader.bytes(3)?;
        if count > MAX_SELECTORS {
            return Err(Malformed::TooMany { what: "traffic selectors", most: MAX_SELECTORS });
        }
        let mut selectors = Vec::with_capacity(count);
        for _ in 0..count {
            let kind = reader.u8()?;
            let protocol = reader.u8()?;
            let length = usize::from(reader.u16()?);
            let body = length.checked_sub(4).ok_or(Malformed::Length { what: "a traffic selector" })?;
            let mut body = Reader::new("a traffic selector", reader.bytes(body)?);
            let ports = (body.u16()?, body.u16()?);
            let addresses: (IpAddr, IpAddr) = match kind {
                TS_IPV4_ADDR_RANGE => (body.array::<4>()?.into(), body.array::<4>()?.into()),
                TS_IPV6_ADDR_RANGE => (body.array::<16>()?.into(), body.array::<16>()?.into()),
                // A type that is not known describes packets that cannot be matched here.
                _ => continue,
            };
            let selector = Self { protocol, ports, addresses };
            let is_empty = addresses.0 > addresses.1 || (ports.0 > ports.1 && !selector.is_opaque());
            if is_empty || !body.is_empty() {
                return Err(Malformed::Value { what: "a traffic selector" });
            }
            selectors.push(selector);
        }
        if !reader.is_empty() {
            return Err(Malformed::Length { what: "traffic selectors" });
        }
        Ok(selectors)
    }

    pub(crate) fn write_all(selectors: &[Self], out: &mut Vec<u8>) {
        let count = u8::try_from(selectors.len()).expect("at most MAX_SELECTORS are kept");
        out.extend([count, 0, 0, 0]);
        for selector in selectors {
            let kind = if selector.addresses.0.is_ipv4() { TS_IPV4_ADDR_RANGE } else { TS_IPV6_ADDR_RANGE };
            out.extend([kind, selector.protocol]);
            with_length(out, 2, |out| {
                out.extend(selector.ports.0.to_be_bytes());
                out.extend(selector.ports.1.to_be_bytes());
                for address in [selector.addresses.0, selector.addresses.1] {
                    match address {
                        IpAddr::V4(address) => out.extend(address.octets()),
                        IpAddr::V6(address) => out.extend(address.octets()),
                    }
                }
            });
        }
    }
}

impl fmt::Display for TrafficSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (first, last) = self.addresses;
        if first == last {
            write!(f, "{first}")?
        } else {
            write!(f, "{first}-{last}")?
        }
        if self.protocol != 0 {
            write!(f, " protocol {}", self.protocol)?;
        }
        match self.ports {
            (0, u16::MAX) => Ok(()),
            (u16::MAX, 0) => f.write_str(" opaque ports"),
            (first, last) if first == last => write!(f, " port {first}"),
            (first, last) => write!(f, " ports {first}-{last}"),
        }
    }
}

/// Returns the packets in both lists, in the order of the second and without repetition, at most [`MAX_SELECTORS`]
/// selectors (RFC 7296, section 2.9).
pub fn narrow(ours: &[TrafficSelector], theirs: &[TrafficSelector]) -> Vec<TrafficSelector> {
    let mut narrowed: Vec<TrafficSelector> = Vec::new();
    for selector in theirs.iter().flat_map(|theirs| ours.iter().filter_map(|ours| ours.intersection(theirs)))
    {
        if narrowed.len() < MAX_SELECTORS && !narrowed.iter().any(|wider| wider.contains(&selector)) {
            narrowed.push(selector);
        }
    }
    narrowed
}

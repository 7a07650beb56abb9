//! The endpoint of a peer: an address, or a host name.
//!
//! Guarantees: a parsed endpoint is an address that packets can be sent to, or a name that a resolver accepts;
//! nothing is resolved here.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
    str::FromStr,
};

use sealane_peer::HostPort;

/// The port that an error suggests (RFC 3948).
const PORT_DEFAULT: u16 = 4500;

/// The endpoint of a peer in the site file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Endpoint {
    /// A fixed address.
    Address(SocketAddr),
    /// A host name, which is resolved again when the peer is silent.
    Name(HostPort),
}

/// The text is not an endpoint.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{word:?} is no endpoint ({fault}): it is an address or a host name with a port, such as 198.51.100.7:4500, \
     [2001:db8::7]:4500 or vpn.example.org:4500"
)]
pub struct EndpointError {
    word: String,
    fault: String,
}

/// Returns a peer's present address as text, without the port 0 that packets without UDP have.
pub fn shown(address: SocketAddr) -> String {
    if address.port() == 0 { address.ip().to_string() } else { address.to_string() }
}

impl Endpoint {
    /// Returns the address; `None` for a host name.
    pub fn address(&self) -> Option<SocketAddr> {
        match self {
            Self::Address(address) => Some(*address),
            Self::Name(_) => None,
        }
    }

    /// Returns the host and port to which a call connects.
    pub fn host_port(&self) -> HostPort {
        match self {
            Self::Address(address) => HostPort { host: address.ip().to_string(), port: address.port() },
            Self::Name(name) => name.clone(),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Name(name) => name.fmt(f),
        }
    }
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        let fail = |fault: &str| EndpointError { word: word.to_owned(), fault: fault.to_owned() };
        let no_port = |whole: &dyn fmt::Display| fail(&format!("the port is missing: write \"{whole}\""));
        if let Ok(address) = word.parse::<SocketAddr>() {
            if !can_be_endpoint(address, true) {
                return Err(fail("nothing can be sent to it"));
            }
            return Ok(Self::Address(address));
        }
        if let Ok(ip) = word.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>() {
            return Err(no_port(&SocketAddr::new(ip, PORT_DEFAULT)));
        }
        let (host, port) =
            word.rsplit_once(':').ok_or_else(|| no_port(&format_args!("{word}:{PORT_DEFAULT}")))?;
        if host.contains(':') || host.starts_with('[') {
            return Err(fail("an IPv6 address stands in brackets"));
        }
        let port = port.parse().ok().filter(|&port| port != 0);
        let port = port.ok_or_else(|| fail("a port is a number from 1 to 65535"))?;
        if !is_host_name(host) {
            return Err(fail("it has neither an address nor a host name"));
        }
        Ok(Self::Name(HostPort { host: host.to_ascii_lowercase(), port }))
    }
}

/// Returns whether `host` is a host name (RFC 1123, section 2.1; underscores are met in practice). A name that ends
/// in a label of digits alone is a mistyped address.
fn is_host_name(host: &str) -> bool {
    let is_label = |label: &str| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    let relative = host.strip_suffix('.').unwrap_or(host);
    let last = relative.rsplit('.').next().unwrap_or_default();
    relative.len() <= 253
        && relative.split('.').all(is_label)
        && !last.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns whether packets can be sent to `address`. Outer headers are not authenticated: anybody on the path of a
/// genuine packet may write any source into it. `has_ports` is whether the packets travel in UDP.
pub fn can_be_endpoint(address: SocketAddr, has_ports: bool) -> bool {
    let ip = address.ip().to_canonical();
    let is_host = match ip {
        // RFC 1122, section 3.2.1.3: 0.0.0.0/8 is "this network".
        IpAddr::V4(v4) => v4.octets()[0] != 0 && !v4.is_broadcast(),
        IpAddr::V6(v6) => !v6.is_unspecified(),
    };
    is_host && !ip.is_multicast() && (address.port() != 0 || !has_ports)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_without_a_port_is_shown_without_one() {
        let address = |port| SocketAddr::from(([192, 0, 2, 1], port));
        assert_eq!([shown(address(0)), shown(address(4500))], ["192.0.2.1", "192.0.2.1:4500"]);
    }

    #[test]
    fn addresses_and_names_with_ports_are_endpoints() {
        for word in ["198.51.100.7:4500", "[2001:db8::7]:4500", "[fe80::1%3]:4500"] {
            let endpoint: Endpoint = word.parse().expect(word);
            assert_eq!((endpoint.to_string(), endpoint.address().is_some()), (word.to_owned(), true));
        }
        for (word, host, port) in [
            ("vpn.example.org:4500", "vpn.example.org", 4500),
            ("VPN.Example.org.:1", "vpn.example.org.", 1),
            ("branch:65535", "branch", 65_535),
            ("1.example:4500", "1.example", 4500),
        ] {
            let host = host.to_owned();
            assert_eq!(word.parse(), Ok(Endpoint::Name(HostPort { host, port })), "{word}");
        }
    }

    #[test]
    fn an_error_says_what_an_endpoint_looks_like() {
        let long = format!("{}:4500", "a.".repeat(200));
        for (word, fault) in [
            ("198.51.100.7", "port is missing: write \"198.51.100.7:4500\""),
            ("vpn.example.org", "port is missing: write \"vpn.example.org:4500\""),
            ("2001:db8::7", "port is missing: write \"[2001:db8::7]:4500\""),
            ("[2001:db8::7]", "port is missing: write \"[2001:db8::7]:4500\""),
            ("2001:db8::7:zz", "in brackets"),
            ("vpn.example.org:0", "from 1 to 65535"),
            ("vpn.example.org:65536", "from 1 to 65535"),
            ("vpn.example.org:", "from 1 to 65535"),
            ("198.51.100.7:0", "nothing can be sent"),
            ("0.0.0.0:4500", "nothing can be sent"),
            ("255.255.255.255:4500", "nothing can be sent"),
            ("[ff02::1]:4500", "nothing can be sent"),
            ("198.51.100:4500", "nor a host name"),
            ("198.51.100.777:4500", "nor a host name"),
            ("two words:4500", "nor a host name"),
            ("-a:4500", "nor a host name"),
            ("a..b:4500", "nor a host name"),
            (":4500", "nor a host name"),
            (&long, "nor a host name"),
        ] {
            let error = word.parse::<Endpoint>().expect_err(word).to_string();
            assert!(error.contains(fault) && error.contains("vpn.example.org:4500"), "{error}");
        }
    }
}

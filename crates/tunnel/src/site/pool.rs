//! The pool of a site file: addresses that clients get when they connect by IKE, and their resolvers.
//!
//! ```toml
//! [pool]
//! networks = ["10.99.0.0/24", "fd99::/64"]
//! dns = ["10.91.1.53"]
//! domains = ["corp.example"]
//! ```
//!
//! Guarantees: the gateway's own addresses, and the first and last address of a network of IPv4, are not given to
//! clients.

use std::net::IpAddr;

use sealane_ipsec::selector::Prefix;
use serde::Deserialize;
use toml::Spanned;

use super::{SiteError, Text, hooks};

/// The maximum number of networks, and of resolvers and domains.
const ENTRIES_MAX: usize = 16;

/// Addresses for clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pool {
    /// The networks of the addresses.
    pub networks: Vec<Prefix>,
    /// The ranges of addresses that clients get: first and last address.
    pub ranges: Vec<(IpAddr, IpAddr)>,
    /// The resolvers that clients are told to use.
    pub dns: Vec<IpAddr>,
    /// The domains that these resolvers know; if there are none, clients use them for all names.
    pub domains: Vec<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub(super) struct RawPool {
    networks: Vec<Spanned<String>>,
    #[serde(default)]
    dns: Vec<Spanned<String>>,
    #[serde(default)]
    domains: Vec<Spanned<String>>,
}

/// Reads the `[pool]` table of a gateway with these addresses.
pub(super) fn read(
    place: &Text<'_>,
    raw: &Spanned<RawPool>,
    addresses: &[(IpAddr, u8)],
) -> Result<Pool, SiteError> {
    let (at, raw) = (raw.span().start, raw.get_ref());
    let lists = [raw.networks.len(), raw.dns.len(), raw.domains.len()];
    if raw.networks.is_empty() || lists.iter().any(|&length| length > ENTRIES_MAX) {
        let message =
            format!("a pool has from 1 to {ENTRIES_MAX} networks, and as many resolvers and domains");
        return Err(place.error(Some(at), message));
    }
    let (mut networks, mut ranges) = (Vec::<Prefix>::new(), Vec::new());
    for word in &raw.networks {
        let network: Prefix = place.parsed(word)?;
        let fail = |message: String| Err(place.error(Some(word.span().start), message));
        if networks.iter().any(|other| overlap(*other, network)) {
            return fail(format!("{network} has addresses of another network of the pool"));
        }
        let is_own = |&&(address, bits): &&(IpAddr, u8)| network == Prefix::containing(address, bits);
        if let Some((address, bits)) = addresses.iter().find(is_own) {
            return fail(format!(
                "{network} is this gateway's own network, by {address}/{bits} in addresses: give it the one address \"{}\"",
                Prefix::host(*address)
            ));
        }
        let own: Vec<IpAddr> = addresses.iter().map(|&(address, _)| address).collect();
        let free = free(network, &own);
        if free.is_empty() {
            return fail(format!("{network} has no address for a client"));
        }
        ranges.extend(free);
        networks.push(network);
    }
    Ok(Pool {
        networks,
        ranges,
        dns: raw.dns.iter().map(|word| hooks::resolver(place, word)).collect::<Result<_, _>>()?,
        domains: raw.domains.iter().map(|word| hooks::domain(place, word)).collect::<Result<_, _>>()?,
    })
}

fn overlap(one: Prefix, other: Prefix) -> bool {
    let bits = one.bits().min(other.bits());
    one.address().is_ipv4() == other.address().is_ipv4()
        && Prefix::containing(one.address(), bits) == Prefix::containing(other.address(), bits)
}

fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u32::from(address).into(),
        IpAddr::V6(address) => address.into(),
    }
}

/// Returns the ranges of addresses in `network` without those of `own`, and without those that name the network
/// itself: its first address (RFC 4291, section 2.6.1), and in IPv4 its last one.
fn free(network: Prefix, own: &[IpAddr]) -> Vec<(IpAddr, IpAddr)> {
    let is_v4 = network.address().is_ipv4();
    let host_bits = if is_v4 { 32 } else { 128 } - u32::from(network.bits());
    let mut first = number(network.address());
    let mut last = first | u128::MAX.checked_shr(128 - host_bits).unwrap_or(0);
    if host_bits >= 2 {
        first += 1;
        last -= u128::from(is_v4);
    }
    let address = |number: u128| match is_v4 {
        true => IpAddr::from((number as u32).to_be_bytes()),
        false => IpAddr::from(number.to_be_bytes()),
    };
    let mut own: Vec<u128> =
        own.iter().filter(|own| own.is_ipv4() == is_v4).map(|&own| number(own)).collect();
    own.retain(|own| (first..=last).contains(own));
    own.sort_unstable();
    own.dedup();
    let mut ranges = Vec::new();
    let mut next = Some(first);
    for own in own {
        if let Some(from) = next.filter(|&from| from < own) {
            ranges.push((address(from), address(own - 1)));
        }
        next = own.checked_add(1);
    }
    ranges.extend(next.filter(|&from| from <= last).map(|from| (address(from), address(last))));
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_get_no_address_of_the_gateway_or_the_network() {
        let ranges = |network: &str, own: &[&str]| {
            let own: Vec<IpAddr> = own.iter().map(|own| own.parse().expect("an address")).collect();
            let ranges = free(network.parse().expect("a network"), &own);
            ranges.iter().map(|(first, last)| format!("{first}-{last}")).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(ranges("10.99.0.0/24", &[]), "10.99.0.1-10.99.0.254");
        assert_eq!(ranges("10.99.0.0/24", &["10.99.0.1", "fd99::1"]), "10.99.0.2-10.99.0.254");
        assert_eq!(
            ranges("10.99.0.0/29", &["10.99.0.6", "10.99.0.3"]),
            "10.99.0.1-10.99.0.2 10.99.0.4-10.99.0.5"
        );
        assert_eq!(ranges("10.99.0.4/31", &[]), "10.99.0.4-10.99.0.5");
        assert_eq!(ranges("10.99.0.4/32", &["10.99.0.4"]), "");
        assert_eq!(ranges("0.0.0.0/0", &[]), "0.0.0.1-255.255.255.254");
        assert_eq!(ranges("fd99::/126", &["fd99::1"]), "fd99::2-fd99::3");
        let last = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff";
        assert_eq!(ranges("::/0", &["10.0.0.1"]), format!("::1-{last}"));
        assert_eq!(ranges(&format!("{last}/128"), &[]), format!("{last}-{last}"));
    }
}

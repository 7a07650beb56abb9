//! Addresses and name servers for peers without a network of their own (RFC 7296, sections 2.19 and 3.15; RFC 8598).
//!
//! Guarantees: an address belongs to at most one IKE SA and is free again when that IKE SA has ended; a returning
//! peer gets its previous address unless somebody else has it; the number of remembered addresses is bounded.

use std::{
    collections::{BTreeMap, HashMap},
    net::{IpAddr, Ipv4Addr, Ipv6Addr},
};

use crate::{
    id::IkeId,
    identity::Identity,
    wire::{
        TrafficSelector,
        configuration::{Attribute, Configuration, ConfigurationType},
    },
};

/// Maximum number of previous addresses that are remembered.
const MAX_REMEMBERED: usize = 65_536;
/// Maximum number of name servers, and of domains, that are accepted from an answer.
const MAX_TAKEN: usize = 16;
/// Longest name of a domain, in bytes.
const MAX_DOMAIN_BYTES: usize = 253;

/// Addresses for peers, and the settings that accompany them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pool {
    /// Ranges of addresses: first and last address, both of one family.
    pub addresses: Vec<(IpAddr, IpAddr)>,
    /// Name servers.
    pub dns: Vec<IpAddr>,
    /// Domains that these name servers know (RFC 8598).
    pub domains: Vec<String>,
}

/// The addresses and settings of one peer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assignment {
    /// The peer's addresses: at most one of each family.
    pub addresses: Vec<IpAddr>,
    /// Name servers.
    pub dns: Vec<IpAddr>,
    /// Domains that these name servers know.
    pub domains: Vec<String>,
}

/// A set of address families.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Families {
    /// Whether an IPv4 address and name servers at such addresses are wanted.
    pub ipv4: bool,
    /// Whether an IPv6 address and name servers at such addresses are wanted.
    pub ipv6: bool,
}

impl Families {
    /// Returns whether the set has no family.
    pub fn is_empty(self) -> bool {
        self == Self::default()
    }
}

/// The owner of an address.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Holder {
    pub(crate) identity: Identity,
    pub(crate) user: Option<String>,
}

fn to_number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u32::from(address).into(),
        IpAddr::V6(address) => address.into(),
    }
}

fn from_number(like: IpAddr, number: u128) -> IpAddr {
    match like {
        IpAddr::V4(_) => Ipv4Addr::from(number as u32).into(),
        IpAddr::V6(_) => Ipv6Addr::from(number).into(),
    }
}

/// A pool's addresses, and their owners.
pub(crate) struct Leases {
    pool: Pool,
    /// For each range, the first address that nobody has had yet; `None` if there is none left.
    fresh: Vec<Option<u128>>,
    /// Returned addresses, numbered in the order of their return.
    returned: BTreeMap<u64, IpAddr>,
    returned_at: HashMap<IpAddr, u64>,
    returns: u64,
    by_ike: HashMap<IkeId, Vec<IpAddr>>,
    remembered: HashMap<(Holder, bool), IpAddr>,
}

impl Leases {
    pub(crate) fn new(pool: Pool) -> Self {
        let is_range = |(first, last): &&(IpAddr, IpAddr)| first.is_ipv4() == last.is_ipv4() && first <= last;
        debug_assert!(
            pool.addresses.iter().all(|range| is_range(&range)),
            "a range is of one family, and not empty"
        );
        let addresses: Vec<_> = pool.addresses.iter().filter(is_range).copied().collect();
        let fresh = addresses.iter().map(|(first, _)| Some(to_number(*first))).collect();
        Self {
            pool: Pool { addresses, ..pool },
            fresh,
            returned: BTreeMap::new(),
            returned_at: HashMap::new(),
            returns: 0,
            by_ike: HashMap::new(),
            remembered: HashMap::new(),
        }
    }

    fn next_fresh(&mut self, is_ipv4: bool) -> Option<IpAddr> {
        for ((first, last), fresh) in self.pool.addresses.iter().zip(&mut self.fresh) {
            if let Some(number) = fresh.filter(|_| first.is_ipv4() == is_ipv4) {
                *fresh = number.checked_add(1).filter(|next| *next <= to_number(*last));
                return Some(from_number(*first, number));
            }
        }
        None
    }

    /// Returns the address that was returned first.
    fn next_returned(&self, is_ipv4: bool) -> Option<IpAddr> {
        self.returned.values().copied().find(|address| address.is_ipv4() == is_ipv4)
    }

    fn lease_one(&mut self, ike: IkeId, holder: &Holder, is_ipv4: bool) -> Option<IpAddr> {
        let key = (holder.clone(), is_ipv4);
        // An address that was given and has not been returned has an owner.
        let last =
            self.remembered.get(&key).copied().filter(|address| self.returned_at.contains_key(address));
        let address = last.or_else(|| self.next_fresh(is_ipv4)).or_else(|| self.next_returned(is_ipv4))?;
        if let Some(at) = self.returned_at.remove(&address) {
            self.returned.remove(&at);
        }
        self.by_ike.entry(ike).or_default().push(address);
        if self.remembered.len() < MAX_REMEMBERED || self.remembered.contains_key(&key) {
            self.remembered.insert(key, address);
        }
        Some(address)
    }

    /// Gives an IKE SA the addresses and settings that its peer asks for, as far as they are available; at most one
    /// address of each family.
    pub(crate) fn lease(
        &mut self,
        ike: IkeId,
        holder: &Holder,
        request: &Configuration,
    ) -> Option<Assignment> {
        let asks = |kind: u16| request.attributes.iter().any(|attribute| attribute.kind == kind);
        let families = [(Attribute::INTERNAL_IP4_ADDRESS, true), (Attribute::INTERNAL_IP6_ADDRESS, false)];
        let wanted = families.into_iter().filter(|(kind, _)| asks(*kind));
        let addresses: Vec<IpAddr> =
            wanted.filter_map(|(_, is_ipv4)| self.lease_one(ike, holder, is_ipv4)).collect();
        if addresses.is_empty() {
            return None;
        }
        let kind = |dns: &IpAddr| {
            if dns.is_ipv4() { Attribute::INTERNAL_IP4_DNS } else { Attribute::INTERNAL_IP6_DNS }
        };
        let dns = self.pool.dns.iter().copied().filter(|dns| asks(kind(dns))).collect();
        let domains =
            if asks(Attribute::INTERNAL_DNS_DOMAIN) { self.pool.domains.clone() } else { Vec::new() };
        Some(Assignment { addresses, dns, domains })
    }

    /// Takes back the addresses of an IKE SA.
    pub(crate) fn release(&mut self, ike: IkeId) {
        for address in self.by_ike.remove(&ike).unwrap_or_default() {
            self.returns += 1;
            self.returned.insert(self.returns, address);
            self.returned_at.insert(address, self.returns);
        }
    }
}

/// Returns our request.
pub(crate) fn request(families: Families) -> Configuration {
    let mut kinds = Vec::new();
    if families.ipv4 {
        kinds.extend([Attribute::INTERNAL_IP4_ADDRESS, Attribute::INTERNAL_IP4_DNS]);
    }
    if families.ipv6 {
        kinds.extend([Attribute::INTERNAL_IP6_ADDRESS, Attribute::INTERNAL_IP6_DNS]);
    }
    kinds.push(Attribute::INTERNAL_DNS_DOMAIN);
    let attributes = kinds.into_iter().map(|kind| Attribute { kind, value: Vec::new() }).collect();
    Configuration { kind: ConfigurationType::Request, attributes }
}

impl Assignment {
    /// Returns the assignment as an answer.
    pub(crate) fn to_wire(&self) -> Configuration {
        let octets = |address: &IpAddr| match address {
            IpAddr::V4(address) => address.octets().to_vec(),
            IpAddr::V6(address) => address.octets().to_vec(),
        };
        let addresses = self.addresses.iter().map(|address| match address {
            IpAddr::V4(_) => Attribute { kind: Attribute::INTERNAL_IP4_ADDRESS, value: octets(address) },
            IpAddr::V6(_) => {
                let value = [octets(address), vec![128]].concat();
                Attribute { kind: Attribute::INTERNAL_IP6_ADDRESS, value }
            }
        });
        let dns = self.dns.iter().map(|address| {
            let kind =
                if address.is_ipv4() { Attribute::INTERNAL_IP4_DNS } else { Attribute::INTERNAL_IP6_DNS };
            Attribute { kind, value: octets(address) }
        });
        let domains = self.domains.iter().map(|domain| Attribute {
            kind: Attribute::INTERNAL_DNS_DOMAIN,
            value: domain.as_bytes().to_vec(),
        });
        Configuration {
            kind: ConfigurationType::Reply,
            attributes: addresses.chain(dns).chain(domains).collect(),
        }
    }

    /// Reads an answer as far as it is valid: one address of each requested family, and a bounded number of the other
    /// settings.
    pub(crate) fn from_wire(reply: &Configuration, asked: Families) -> Self {
        let mut assignment = Self::default();
        for Attribute { kind, value } in &reply.attributes {
            let v4 = || <[u8; 4]>::try_from(value.as_slice()).ok().map(IpAddr::from);
            let v6 = || {
                value.first_chunk::<16>().filter(|_| value.len() <= 17).map(|octets| IpAddr::from(*octets))
            };
            let (address, is_wanted) = match *kind {
                Attribute::INTERNAL_IP4_ADDRESS | Attribute::INTERNAL_IP4_DNS => (v4(), asked.ipv4),
                Attribute::INTERNAL_IP6_ADDRESS | Attribute::INTERNAL_IP6_DNS => (v6(), asked.ipv6),
                Attribute::INTERNAL_DNS_DOMAIN => {
                    let domain = str::from_utf8(value).ok().filter(|domain| is_domain(domain));
                    if let Some(domain) = domain.filter(|_| assignment.domains.len() < MAX_TAKEN) {
                        assignment.domains.push(domain.to_owned());
                    }
                    continue;
                }
                _ => continue,
            };
            let usable =
                address.filter(|address| is_wanted && !address.is_unspecified() && !address.is_multicast());
            let Some(address) = usable else { continue };
            let is_dns = matches!(*kind, Attribute::INTERNAL_IP4_DNS | Attribute::INTERNAL_IP6_DNS);
            if is_dns && assignment.dns.len() < MAX_TAKEN {
                assignment.dns.push(address);
            } else if !is_dns && assignment.addresses.iter().all(|known| known.is_ipv4() != address.is_ipv4())
            {
                assignment.addresses.push(address);
            }
        }
        assignment
    }
}

/// Returns whether a text is the name of a domain. Such names are written into files of resolvers.
fn is_domain(text: &str) -> bool {
    let is_label = |label: &str| {
        !label.is_empty()
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_')
    };
    text.len() <= MAX_DOMAIN_BYTES && text.trim_end_matches('.').split('.').all(is_label)
}

/// Returns selectors for all packets of the given addresses.
pub(crate) fn selectors(addresses: &[IpAddr]) -> Vec<TrafficSelector> {
    addresses.iter().map(|&address| TrafficSelector::addresses(address, address)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holder(name: &str) -> Holder {
        Holder { identity: Identity::from_text(name), user: None }
    }

    fn pool(first: &str, last: &str) -> Leases {
        let addresses = vec![(first.parse().unwrap(), last.parse().unwrap())];
        Leases::new(Pool { addresses, ..Pool::default() })
    }

    fn lease(leases: &mut Leases, ike: u64, name: &str, families: Families) -> Option<Vec<IpAddr>> {
        leases.lease(IkeId(ike), &holder(name), &request(families)).map(|assignment| assignment.addresses)
    }

    const V4: Families = Families { ipv4: true, ipv6: false };

    #[test]
    fn an_address_has_one_holder_and_comes_back() {
        let mut leases = pool("10.9.0.1", "10.9.0.3");
        let given: Vec<_> = (0..4).map(|ike| lease(&mut leases, ike, &format!("p{ike}"), V4)).collect();
        let address = |last: u8| Some(vec![IpAddr::from([10, 9, 0, last])]);
        assert_eq!(given, [address(1), address(2), address(3), None]);
        leases.release(IkeId(1));
        leases.release(IkeId(0));
        // A returning holder gets its previous address although another address was returned before.
        assert_eq!(lease(&mut leases, 5, "p0", V4), address(1));
        assert_eq!(lease(&mut leases, 6, "p9", V4), address(2));
        assert_eq!(lease(&mut leases, 7, "p1", V4), None);
        leases.release(IkeId(7));
        assert_eq!(lease(&mut leases, 8, "p1", V4), None);
    }

    #[test]
    fn the_last_addresses_of_a_family_are_given_and_no_others() {
        let mut leases = pool("255.255.255.254", "255.255.255.255");
        let both = Families { ipv4: true, ipv6: true };
        assert!(lease(&mut leases, 0, "a", both).is_some_and(|given| given.len() == 1));
        assert!(lease(&mut leases, 1, "b", both).is_some());
        assert_eq!(lease(&mut leases, 2, "c", both), None);
        let mut leases =
            pool("ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff", "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff");
        assert!(lease(&mut leases, 0, "a", both).is_some());
        assert_eq!(lease(&mut leases, 1, "b", both), None);
    }

    #[test]
    fn what_is_written_is_read_and_what_makes_no_sense_is_not_taken() {
        let assignment = Assignment {
            addresses: vec!["10.9.0.1".parse().unwrap(), "fd00::1".parse().unwrap()],
            dns: vec!["10.9.0.53".parse().unwrap(), "fd00::53".parse().unwrap()],
            domains: vec!["corp.example".to_owned()],
        };
        let both = Families { ipv4: true, ipv6: true };
        assert_eq!(Assignment::from_wire(&assignment.to_wire(), both), assignment);
        let odd = |kind, value: &[u8]| Attribute { kind, value: value.to_vec() };
        let attributes = vec![
            odd(Attribute::INTERNAL_IP4_ADDRESS, &[10, 9, 0]),
            odd(Attribute::INTERNAL_IP4_ADDRESS, &[0; 4]),
            odd(Attribute::INTERNAL_IP6_ADDRESS, &[0xfd; 18]),
            odd(Attribute::INTERNAL_IP4_DNS, &[224, 0, 0, 1]),
            odd(Attribute::INTERNAL_DNS_DOMAIN, b"a\nnameserver 1.2.3.4"),
            odd(Attribute::INTERNAL_DNS_DOMAIN, b""),
        ];
        let reply = Configuration { kind: ConfigurationType::Reply, attributes };
        assert_eq!(Assignment::from_wire(&reply, both), Assignment::default());
    }
}

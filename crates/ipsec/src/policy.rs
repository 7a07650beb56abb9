//! The security policy database (RFC 4301, section 4.4.1): an ordered list whose first match decides.
//!
//! Guarantees: the answer is that of the list, and is found without a linear search; a packet that no policy matches
//! is discarded; a database is an immutable value, so lanes read it without a lock and a new one replaces it; a
//! cached answer is never used after its database was replaced.

use std::{
    hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher},
    sync::Arc,
};

use crate::{
    counters::DropReason,
    ranges::Lookup,
    selector::{Flow, Selector},
};

/// The identifier of the group of associations that protects a policy's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PeerId(pub u32);

/// The action for a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// The packet goes through the tunnel of this peer, and may come out of it.
    Protect(PeerId),
    /// The packet passes in clear.
    Bypass,
    /// The packet is dropped.
    Discard,
}

/// One line of the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The packets that the policy matches.
    pub selector: Selector,
    /// The action for them.
    pub action: Action,
}

/// The ordered policies.
#[derive(Clone, Debug, Default)]
pub struct Policies {
    ordered: Vec<Policy>,
    lookup: Lookup,
}

impl Policies {
    /// Makes a database of policies, the most important first.
    pub fn new(ordered: Vec<Policy>) -> Self {
        let selectors: Vec<&Selector> = ordered.iter().map(|policy| &policy.selector).collect();
        Self { lookup: Lookup::new(&selectors), ordered }
    }

    /// Returns all policies, in order.
    pub fn ordered(&self) -> &[Policy] {
        &self.ordered
    }

    /// Returns the action for `flow`; `None` if no policy matches it.
    pub fn decide(&self, flow: &Flow) -> Option<Action> {
        let mut candidates =
            self.lookup.candidates(flow.remote).iter().map(|&index| &self.ordered[index as usize]);
        candidates.find(|policy| policy.selector.matches(flow)).map(|policy| policy.action)
    }
}

/// The cached answers of one lane, so that a busy flow does not search a long list for every packet (RFC 4301,
/// section 4.4.1, allows the cache because its answers are those of the list).
#[derive(Debug)]
pub struct PolicyCache {
    policies: Arc<Policies>,
    slots: Vec<Option<(Flow, Option<Action>)>>,
}

const SLOTS: usize = 1024;

impl PolicyCache {
    /// Returns an empty cache over `policies`.
    pub fn new(policies: Arc<Policies>) -> Self {
        Self { policies, slots: vec![None; SLOTS] }
    }

    /// Uses `policies` from now on, and clears the cache if they differ from the previous ones. Returns whether they
    /// differ.
    pub fn follow(&mut self, policies: &Arc<Policies>) -> bool {
        let is_other = !Arc::ptr_eq(&self.policies, policies);
        if is_other {
            self.policies = Arc::clone(policies);
            self.slots.fill(None);
        }
        is_other
    }

    /// Returns the action for `flow`.
    ///
    /// # Errors
    /// Fails with the reason if the packet is to be dropped.
    pub fn decide(&mut self, flow: &Flow) -> Result<Action, DropReason> {
        let hash = BuildHasherDefault::<DefaultHasher>::new().hash_one(flow);
        let slot = &mut self.slots[hash as usize % SLOTS];
        let action = match slot {
            Some((cached, action)) if cached == flow => *action,
            _ => {
                let action = self.policies.decide(flow);
                *slot = Some((*flow, action));
                action
            }
        };
        match action {
            None => Err(DropReason::NoPolicy),
            Some(Action::Discard) => Err(DropReason::Discarded),
            Some(action) => Ok(action),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use proptest::prelude::*;

    use super::*;
    use crate::selector::Prefix;

    fn flow(remote: &str) -> Flow {
        Flow {
            local: "10.0.0.1".parse().expect("an address"),
            remote: remote.parse().expect("an address"),
            protocol: 17,
            local_port: Some(1),
            remote_port: Some(53),
        }
    }

    fn policy(remote: &str, action: Action) -> Policy {
        let prefix = |word: &str| word.parse().expect("a network");
        Policy { selector: Selector::between(prefix("0.0.0.0/0"), prefix(remote)), action }
    }

    #[test]
    fn the_first_match_decides_and_nothing_passes_unnamed() {
        let peer = Action::Protect(PeerId(7));
        let policies = Arc::new(Policies::new(vec![
            policy("192.168.1.0/24", Action::Discard),
            policy("192.168.0.0/16", peer),
            policy("192.168.2.0/24", Action::Bypass),
            policy("172.16.0.0/12", Action::Bypass),
        ]));
        let mut cache = PolicyCache::new(Arc::clone(&policies));
        for _ in 0..2 {
            assert_eq!(cache.decide(&flow("192.168.1.1")), Err(DropReason::Discarded));
            assert_eq!(cache.decide(&flow("192.168.2.1")), Ok(peer));
            assert_eq!(cache.decide(&flow("172.31.0.1")), Ok(Action::Bypass));
            assert_eq!(cache.decide(&flow("8.8.8.8")), Err(DropReason::NoPolicy));
            assert_eq!(cache.decide(&flow("::1")), Err(DropReason::NoPolicy));
        }
    }

    #[test]
    fn a_new_database_replaces_every_cached_answer() {
        let old = Arc::new(Policies::new(vec![policy("0.0.0.0/0", Action::Bypass)]));
        let new = Arc::new(Policies::default());
        let mut cache = PolicyCache::new(Arc::clone(&old));
        assert_eq!(cache.decide(&flow("1.2.3.4")), Ok(Action::Bypass));
        cache.follow(&old);
        assert_eq!(cache.decide(&flow("1.2.3.4")), Ok(Action::Bypass));
        cache.follow(&new);
        assert_eq!(cache.decide(&flow("1.2.3.4")), Err(DropReason::NoPolicy));
    }

    #[test]
    fn the_cache_answers_as_the_list_does() {
        let policies: Vec<Policy> = (0..=255)
            .map(|third| policy(&format!("10.{third}.0.0/16"), Action::Protect(PeerId(third))))
            .collect();
        let policies = Arc::new(Policies::new(policies));
        let mut cache = PolicyCache::new(Arc::clone(&policies));
        for round in 0..4u32 {
            for host in 0..2000u32 {
                let flow = flow(&format!("10.{}.{}.{}", host % 256, host / 256, round));
                assert_eq!(cache.decide(&flow).ok(), policies.decide(&flow));
            }
        }
    }

    /// Returns the first match of a linear search of the list.
    fn twin(policies: &Policies, flow: &Flow) -> Option<Action> {
        policies.ordered().iter().find(|policy| policy.selector.matches(flow)).map(|policy| policy.action)
    }

    /// Returns addresses close to each other, so that networks contain and touch each other, and addresses at both
    /// ends of the address space.
    fn address() -> impl Strategy<Value = IpAddr> {
        let v4 = (any::<bool>(), 0u32..64).prop_map(|(is_high, low)| {
            let number = if is_high { u32::MAX - low } else { low };
            IpAddr::from(number.to_be_bytes())
        });
        let v6 = (any::<bool>(), 0u128..64).prop_map(|(is_high, low)| {
            let number = if is_high { u128::MAX - low } else { low };
            IpAddr::from(number.to_be_bytes())
        });
        prop_oneof![3 => v4, 2 => v6]
    }

    fn network() -> impl Strategy<Value = Prefix> {
        // Most prefixes are long, because short ones contain everything; some cover the whole space.
        let bits = prop_oneof![8 => 24u8..=32, 8 => 120u8..=128, 1 => Just(0u8), 1 => 0u8..=128];
        (address(), bits).prop_map(|(address, bits)| Prefix::containing(address, bits))
    }

    fn any_policy() -> impl Strategy<Value = (Prefix, Prefix, Option<u8>, Option<(u16, u16)>)> {
        let local = prop_oneof![3 => Just(Prefix::ALL_V4), 3 => Just(Prefix::ALL_V6), 2 => network()];
        let protocol = prop_oneof![3 => Just(None), 1 => Just(Some(6)), 1 => Just(Some(17))];
        let ports = prop_oneof![3 => Just(None), 1 => (0u16..4, 0u16..4).prop_map(Some)];
        (local, network(), protocol, ports)
    }

    /// Returns two addresses of one family.
    fn addresses() -> impl Strategy<Value = (IpAddr, IpAddr)> {
        (address(), address()).prop_filter("of one family", |(one, other)| one.is_ipv4() == other.is_ipv4())
    }

    proptest! {
        #[test]
        fn the_table_answers_as_the_list_does(
            policies in proptest::collection::vec(any_policy(), 0..40),
            flows in proptest::collection::vec((addresses(), any::<bool>(), proptest::option::of(0u16..4)), 1..60),
        ) {
            let ordered = (0..).zip(policies).map(|(number, (local, remote, protocol, ports))| {
                let local_ports = ports.map(|(one, other)| one.min(other)..=one.max(other));
                let selector = Selector { protocol, local_ports, ..Selector::between(local, remote) };
                Policy { selector, action: Action::Protect(PeerId(number)) }
            });
            let policies = Policies::new(ordered.collect());
            for ((local, remote), is_tcp, local_port) in flows {
                let protocol = if is_tcp { 6 } else { 17 };
                let flow = Flow { local, remote, protocol, local_port, remote_port: Some(443) };
                prop_assert_eq!(policies.decide(&flow), twin(&policies, &flow), "{:?}", flow);
            }
        }
    }

    #[test]
    fn a_look_up_among_many_networks_looks_at_one() {
        let ordered: Vec<Policy> = (0..20_001u32)
            .map(|number| {
                let [_, high, middle, low] = number.to_be_bytes();
                let remote = format!("10.{}.{}.{}/32", high, middle, low);
                policy(&remote, Action::Protect(PeerId(number)))
            })
            .chain([policy("0.0.0.0/0", Action::Bypass)])
            .collect();
        let policies = Policies::new(ordered);
        for number in (0..20_001u32).step_by(997) {
            let [_, high, middle, low] = number.to_be_bytes();
            let flow = flow(&format!("10.{high}.{middle}.{low}"));
            assert_eq!(policies.decide(&flow), Some(Action::Protect(PeerId(number))));
            assert_eq!(policies.lookup.candidates(flow.remote).len(), 1);
        }
        assert_eq!(policies.decide(&flow("11.0.0.1")), Some(Action::Bypass));
    }
}

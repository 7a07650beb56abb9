//! The security policy database (RFC 4301, section 4.4.1): an ordered list, the first match decides.
//!
//! Guarantees: a packet that no policy names is discarded; a database is a value that never changes after it was made,
//! so lanes read it without a lock and a new one replaces it whole; a cached answer never outlives its database.

use std::{
    hash::{BuildHasher as _, BuildHasherDefault, DefaultHasher},
    sync::Arc,
};

use crate::{
    counters::DropReason,
    selector::{Flow, Selector},
};

/// Names the group of associations that protects a policy's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PeerId(pub u32);

/// What is done with a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// It goes through the tunnel of this peer, and may come out of it.
    Protect(PeerId),
    /// It passes in clear.
    Bypass,
    /// It is dropped.
    Discard,
}

/// One line of the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// Which packets.
    pub selector: Selector,
    /// What is done with them.
    pub action: Action,
}

/// The ordered policies.
#[derive(Clone, Debug, Default)]
pub struct Policies {
    ordered: Vec<Policy>,
}

impl Policies {
    /// Takes policies, most important first.
    pub fn new(ordered: Vec<Policy>) -> Self {
        Self { ordered }
    }

    /// All of them, in order.
    pub fn ordered(&self) -> &[Policy] {
        &self.ordered
    }

    /// What is done with `flow`; `None` where no policy names it.
    pub fn decide(&self, flow: &Flow) -> Option<Action> {
        self.ordered.iter().find(|policy| policy.selector.matches(flow)).map(|policy| policy.action)
    }
}

/// Answers of one lane, so that a busy flow does not search a long list packet by packet (RFC 4301, section 4.4.1, allows
/// the cache because the answer is the list's own).
#[derive(Debug)]
pub struct PolicyCache {
    policies: Arc<Policies>,
    slots: Vec<Option<(Flow, Option<Action>)>>,
}

const SLOTS: usize = 1024;

impl PolicyCache {
    /// An empty cache over `policies`.
    pub fn new(policies: Arc<Policies>) -> Self {
        Self { policies, slots: vec![None; SLOTS] }
    }

    /// Reads `policies` from now on; what was cached of others is forgotten. Says whether they are others.
    pub fn follow(&mut self, policies: &Arc<Policies>) -> bool {
        let is_other = !Arc::ptr_eq(&self.policies, policies);
        if is_other {
            self.policies = Arc::clone(policies);
            self.slots.fill(None);
        }
        is_other
    }

    /// What is done with `flow`.
    ///
    /// # Errors
    /// It is dropped, and why.
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
    use super::*;

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
}

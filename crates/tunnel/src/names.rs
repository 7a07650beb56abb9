//! Host names of peers with keys from files. (The calls resolve the names of peers that are known by their keys.)
//!
//! Guarantees: lookups run on threads of their own, one at a time per peer, and never delay packets; a name is looked
//! up again while its peer is silent, at most once per [`PAUSE_MAX`] after the first minute; the addresses of a name
//! are tried in turn.

use std::{
    io,
    net::{SocketAddr, ToSocketAddrs as _},
    sync::mpsc::{Receiver, TryRecvError, sync_channel},
    thread,
    time::{Duration, Instant},
};

use rustix::thread::{CapabilitySet, CapabilitySets, set_capabilities};
use sealane_ipsec::policy::PeerId;
use sealane_peer::HostPort;

use crate::{
    endpoint::Endpoint,
    outside::Families,
    peer_state::State,
    peers::Peers,
    site::{Keys, PeerSite, Site},
};

/// The maximum number of addresses of one name that are tried.
const ADDRESSES_MAX: usize = 16;
/// The longest time that the start of a gateway waits for names.
const FIRST: Duration = Duration::from_secs(3);
/// The maximum number of names that the start of a gateway waits for.
const FIRST_MAX: usize = 64;
/// The first pause between two lookups of a name; each pause is twice the one before.
const PAUSE: Duration = Duration::from_secs(2);
/// The longest pause.
pub const PAUSE_MAX: Duration = Duration::from_secs(60);

/// The time of a name's next lookup, and the turn of its addresses. It has no thread and no clock.
#[derive(Debug)]
struct Plan {
    pause: Duration,
    not_before: Option<Instant>,
    /// The number of addresses returned so far.
    turn: usize,
    /// The last message about a failed lookup.
    told: Option<String>,
}

impl Plan {
    fn new() -> Self {
        Self { pause: PAUSE, not_before: None, turn: 0, told: None }
    }

    /// Returns whether a lookup is due now; `is_out_of_reach` is about the name's peer.
    fn is_due(&mut self, is_out_of_reach: bool, now: Instant) -> bool {
        if !is_out_of_reach {
            *self = Self { turn: self.turn, told: self.told.take(), ..Self::new() };
            return false;
        }
        if self.not_before.is_some_and(|at| now < at) {
            return false;
        }
        self.not_before = Some(now + self.pause);
        self.pause = (2 * self.pause).min(PAUSE_MAX);
        true
    }

    /// Processes the result of a lookup. Returns the address whose turn it is, or the reason why there is none,
    /// unless that was logged last.
    fn found(
        &mut self,
        found: io::Result<Vec<SocketAddr>>,
        families: Families,
    ) -> Result<SocketAddr, Option<String>> {
        let problem = match found {
            Ok(mut addresses) => {
                addresses.retain(|address| families.has(address.ip()));
                if !addresses.is_empty() {
                    self.told = None;
                    let address = addresses[self.turn % addresses.len()];
                    self.turn = self.turn.wrapping_add(1);
                    return Ok(address);
                }
                format!("it has no {families} address, which is what `listen` asks for")
            }
            Err(error) => error.to_string(),
        };
        let is_new = self.told.as_ref() != Some(&problem);
        self.told = Some(problem.clone());
        Err(is_new.then_some(problem))
    }
}

/// One name.
#[derive(Debug)]
struct Name {
    id: PeerId,
    name: HostPort,
    plan: Plan,
    asked: Option<Receiver<io::Result<Vec<SocketAddr>>>>,
}

/// The names of a site's peers, except those whose keys are agreed in calls.
#[derive(Debug)]
pub struct Names {
    names: Vec<Name>,
    families: Families,
}

impl Names {
    /// Returns the names of the peers of `site`.
    pub fn new(site: &Site) -> Self {
        let mut names = Self { names: Vec::new(), families: Families::of(site.listen) };
        (0..).map(PeerId).zip(&site.peers).for_each(|(id, peer)| names.add(id, peer));
        names
    }

    /// Looks up the name of a peer from now on, if it has one.
    pub fn add(&mut self, id: PeerId, peer: &PeerSite) {
        if let (Some(Endpoint::Name(name)), Keys::Manual(_) | Keys::Ike(_)) = (&peer.endpoint, &peer.keys) {
            self.names.push(Name { id, name: name.clone(), plan: Plan::new(), asked: None });
        }
    }

    /// Does not look up the name of a peer any more.
    pub fn remove(&mut self, id: PeerId) {
        self.names.retain(|name| name.id != id);
    }

    /// Processes the results of lookups, and begins lookups that are due. It is to be called several times per
    /// second.
    pub fn look(&mut self, peers: &Peers, now: Instant, mut say: impl FnMut(&str)) {
        for Name { id, name, plan, asked } in &mut self.names {
            let peer = peers.get(*id);
            if let Some(answer) = asked {
                let found = match answer.try_recv() {
                    Ok(found) => found,
                    Err(TryRecvError::Empty) => continue,
                    Err(TryRecvError::Disconnected) => Err(io::Error::other("the lookup ended early")),
                };
                *asked = None;
                match plan.found(found, self.families) {
                    Ok(address) => peers.is_at(*id, address),
                    Err(Some(problem)) => {
                        say(&format!("peer {:?}: cannot resolve {name}: {problem}", peer.name))
                    }
                    Err(None) => {}
                }
            }
            let is_out_of_reach = peers.endpoint(*id).is_none()
                || matches!(peer.state.get(), State::Silent | State::NeverHeard);
            if plan.is_due(is_out_of_reach, now) {
                *asked = resolve(name);
            }
        }
    }
}

/// Looks up the names of all peers of `site`, at most [`FIRST_MAX`], before the device is up: once a default route
/// leads into the tunnel, the resolver may be reachable only through the peer that is to be found. Names that take
/// longer than [`FIRST`] are left for later.
pub fn look_up_first(site: &Site, peers: &Peers) {
    let (families, deadline) = (Families::of(site.listen), Instant::now() + FIRST);
    let lookups = (0..).map(PeerId).zip(&site.peers).filter_map(|(id, peer)| match &peer.endpoint {
        Some(Endpoint::Name(name)) => Some((id, resolve(name)?)),
        _ => None,
    });
    let lookups: Vec<_> = lookups.take(FIRST_MAX).collect();
    for (id, answer) in lookups {
        let left = deadline.saturating_duration_since(Instant::now());
        let found = answer.recv_timeout(left).ok().and_then(Result::ok).unwrap_or_default();
        if let Some(address) = found.into_iter().find(|address| families.has(address.ip())) {
            peers.is_at(id, address);
        }
    }
}

/// Begins a lookup. The system's resolver has no deadline, so it runs on a thread that the gateway does not wait for.
/// Returns `None` if the system cannot start a thread now.
fn resolve(name: &HostPort) -> Option<Receiver<io::Result<Vec<SocketAddr>>>> {
    let (answer, answered) = sync_channel(1);
    let (host, port) = (name.host.clone(), name.port);
    let lookup = move || {
        // Capabilities belong to threads, and this one may outlast the moment at which the others give theirs up.
        let none = CapabilitySet::empty();
        let none = CapabilitySets { effective: none, permitted: none, inheritable: none };
        if set_capabilities(None, none).is_err() {
            return;
        }
        let found = (host.as_str(), port).to_socket_addrs();
        let _ = answer.send(found.map(|found| found.take(ADDRESSES_MAX).collect::<Vec<_>>()));
    };
    thread::Builder::new().name("resolver".to_owned()).spawn(lookup).ok().map(|_| answered)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn addresses(words: &[&str]) -> Vec<SocketAddr> {
        words.iter().map(|word| word.parse().expect("an address")).collect()
    }

    #[test]
    fn a_name_is_asked_for_at_once_and_again_while_its_peer_is_out_of_reach() {
        let (mut plan, mut now) = (Plan::new(), Instant::now());
        let lookups = |plan: &mut Plan, now: &mut Instant, is_out_of_reach, seconds: u32| {
            let mut count = 0;
            for _ in 0..10 * seconds {
                *now += Duration::from_millis(100);
                count += u32::from(plan.is_due(is_out_of_reach, *now));
            }
            count
        };
        // At 0, 2, 6, 14, 30, 62, 122 seconds, and every minute from then on.
        assert_eq!(lookups(&mut plan, &mut now, true, 120), 6);
        assert_eq!(lookups(&mut plan, &mut now, true, 600), 10);
        assert_eq!(lookups(&mut plan, &mut now, false, 600), 0);
        assert_eq!(lookups(&mut plan, &mut now, true, 1), 1);
    }

    #[test]
    fn each_address_of_a_family_that_the_socket_serves_has_its_turn() {
        let both = ["[2001:db8::7]:4500", "198.51.100.7:4500", "198.51.100.8:4500"];
        for (listen, expected) in [
            ("0.0.0.0:4500", &both[1..]),
            ("192.0.2.1:4500", &both[1..]),
            ("[2001:db8::1]:4500", &both[..1]),
            ("[::]:4500", &both[..]),
        ] {
            let families = Families::of(listen.parse().expect("an address"));
            let mut plan = Plan::new();
            for turn in 0..2 * expected.len() {
                let found = plan.found(Ok(addresses(&both)), families);
                assert_eq!(found, Ok(addresses(expected)[turn % expected.len()]), "{listen}");
            }
        }
        let families = Families::of("0.0.0.0:4500".parse().expect("an address"));
        let mut plan = Plan::new();
        let problem = plan.found(Ok(addresses(&both[..1])), families).expect_err("none of IPv4");
        assert!(problem.is_some_and(|problem| problem.contains("no IPv4 address")));
        assert_eq!(plan.found(Ok(addresses(&both[..1])), families), Err(None), "it is told once");
        assert!(matches!(plan.found(Err(io::Error::other("no such host")), families), Err(Some(_))));
    }
}

//! Log messages about peers: one for each change of a peer's state.
//!
//! Guarantees: a state is logged once; a peer that moves to and fro gets at most one line per [`MOVES`]; the module
//! has no socket and no clock.

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use crate::{
    endpoint::shown,
    peer_state::{SILENT, State},
    peers::Peers,
    site::Encapsulation,
};

/// The peer's first packet arrives within this time after the agreement of keys, unless the path is blocked.
const FIRST: Duration = Duration::from_secs(5);
/// The minimum time between two lines about a peer's endpoint.
const MOVES: Duration = Duration::from_secs(10);

/// The facts about a peer at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Sight<'a> {
    /// The peer's name.
    pub name: &'a str,
    /// The time since which agreed keys are in use; `None` if there are no keys, or if they are from files.
    pub agreed: Option<Instant>,
    /// The peer's endpoint.
    pub endpoint: Option<SocketAddr>,
    /// The number of packets sent to the peer.
    pub sent: u64,
    /// The time of the newest genuine packet, in milliseconds of any clock; 0 if there is none yet.
    pub heard_ms: u64,
    /// The protocol that carries the peer's packets, in words.
    pub carrier: &'a str,
}

/// The state of one peer that was logged last.
#[derive(Clone, Copy, Debug, Default)]
struct Told {
    state: State,
    endpoint: Option<SocketAddr>,
    moved: Option<Instant>,
    sent: u64,
    heard_ms: u64,
    unanswered_since: Option<Instant>,
}

impl Told {
    /// Checks the state of the peer. Returns a line if its state has changed.
    fn look(&mut self, sight: &Sight<'_>, now: Instant) -> Option<String> {
        if sight.sent > self.sent {
            self.unanswered_since.get_or_insert(now);
        }
        let is_heard = sight.heard_ms != self.heard_ms;
        if is_heard {
            self.unanswered_since = None;
        }
        (self.sent, self.heard_ms) = (sight.sent, sight.heard_ms);
        let waits = |since: Option<Instant>, time| since.is_some_and(|since| now >= since + time);
        let next = match self.state {
            _ if is_heard => State::Answers,
            State::Answers if waits(self.unanswered_since, SILENT) => State::Silent,
            State::Waiting if waits(sight.agreed, FIRST) || waits(self.unanswered_since, SILENT) => {
                State::NeverHeard
            }
            same => same,
        };
        let (before, name) = (std::mem::replace(&mut self.state, next), sight.name);
        let place = || sight.endpoint.map_or_else(String::new, |endpoint| format!(" at {}", shown(endpoint)));
        if before == next {
            return self.moved(sight, now);
        }
        self.endpoint = sight.endpoint;
        Some(match (before, next) {
            (State::Silent, State::Answers) => format!("peer {name:?} answers again{}", place()),
            (_, State::Answers) => format!("peer {name:?} answers{}", place()),
            (_, State::Silent) => {
                format!("peer {name:?}{} is silent: no answer for {} s", place(), SILENT.as_secs())
            }
            (_, State::NeverHeard | State::Waiting) => format!(
                "peer {name:?}: there are keys, but none of its packets has come; does something on the way stop {}?",
                sight.carrier
            ),
        })
    }

    fn moved(&mut self, sight: &Sight<'_>, now: Instant) -> Option<String> {
        let (from, to) = (self.endpoint, sight.endpoint);
        let is_soon = self.moved.is_some_and(|moved| now < moved + MOVES);
        if self.state != State::Answers || from == to || is_soon {
            return None;
        }
        self.endpoint = to;
        self.moved = Some(now);
        let (from, to) = (shown(from?), shown(to?));
        Some(format!("peer {:?} has moved from {from} to {to}", sight.name))
    }
}

/// The states of all peers that were logged last.
#[derive(Debug)]
pub struct News {
    told: Vec<Told>,
    carrier: String,
}

impl News {
    /// Returns the news before the first line. `encapsulation` is the protocol that carries packets.
    pub fn new(peers: &Peers, encapsulation: Encapsulation) -> Self {
        let carrier = match encapsulation {
            Encapsulation::Udp => format!("UDP to port {}", peers.listen().port()),
            Encapsulation::None => format!("IP protocol {}", peers.protocol().number()),
        };
        Self { told: vec![Told::default(); peers.iter().count()], carrier }
    }

    /// Checks all peers, and passes a line about each change to `say`. It is to be called several times per second.
    pub fn look(&mut self, peers: &Peers, now: Instant, mut say: impl FnMut(&str)) {
        let snapshot = peers.database().snapshot();
        self.told.resize_with(peers.iter().count(), Told::default);
        for ((id, peer), told) in peers.iter().zip(&mut self.told) {
            if peer.is_many() || peer.is_removed() {
                // The key maker logs each client.
                continue;
            }
            let agreed = snapshot.outbound.get(&id).filter(|_| peer.has_agreed_keys());
            let sight = Sight {
                name: &peer.name,
                agreed: agreed.and_then(|all| now.checked_sub(all.newest()?.association().lived(now))),
                endpoint: peers.endpoint(id),
                sent: peer.sent.read().0,
                heard_ms: peer.heard_ms(),
                carrier: &self.carrier,
            };
            if sight.sent != told.sent {
                peers.note_sent(id);
            }
            if let Some(line) = told.look(&sight, now) {
                say(&line);
            }
            peer.state.set(told.state);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: Duration = Duration::from_secs(1);

    fn sight() -> Sight<'static> {
        let endpoint = Some(SocketAddr::from(([192, 0, 2, 1], 4500)));
        Sight { name: "branch", agreed: None, endpoint, sent: 0, heard_ms: 0, carrier: "UDP to port 4500" }
    }

    #[test]
    fn a_peers_changes_are_told_once_each() {
        let (mut told, begun) = (Told::default(), Instant::now());
        let mut now = begun;
        let mut sight = sight();
        let mut look = |sight: &Sight<'_>, after: Duration| {
            now += after;
            let line = told.look(sight, now);
            assert_eq!(told.look(sight, now), None, "it is told once");
            line
        };
        assert_eq!(look(&sight, S), None);
        sight.agreed = Some(begun + S);
        assert_eq!(look(&sight, S), None);
        sight.heard_ms = 2100;
        assert_eq!(look(&sight, S).as_deref(), Some("peer \"branch\" answers at 192.0.2.1:4500"));
        // No packet is sent, so the peer need not answer.
        assert_eq!(look(&sight, 1000 * S), None);
        sight.sent += 1;
        assert_eq!(look(&sight, S), None);
        sight.sent += 1;
        let silent = "peer \"branch\" at 192.0.2.1:4500 is silent: no answer for 15 s";
        assert_eq!(look(&sight, SILENT).as_deref(), Some(silent));
        sight.heard_ms += 1;
        sight.endpoint = Some(SocketAddr::from(([192, 0, 2, 2], 4500)));
        assert_eq!(look(&sight, S).as_deref(), Some("peer \"branch\" answers again at 192.0.2.2:4500"));
        let mut lines = 0;
        for turn in 0..1000u16 {
            sight.endpoint = Some(SocketAddr::from(([192, 0, 2, 3], 1 + turn)));
            lines += u32::from(look(&sight, S / 10).is_some_and(|line| line.contains("has moved from")));
        }
        assert_eq!(lines, 10, "one in ten seconds");
    }

    #[test]
    fn keys_without_packets_are_a_path_that_is_blocked() {
        let begun = Instant::now();
        // With agreed keys a packet is expected at once; with keys from files, only after packets were sent.
        for (agreed, sent, after, is_told) in [
            (Some(begun), 0, FIRST, true),
            (Some(begun), 0, FIRST - S, false),
            (None, 0, 100 * SILENT, false),
            (None, 1, SILENT, true),
        ] {
            let mut told = Told::default();
            let sight = Sight { agreed, sent, ..sight() };
            assert_eq!(told.look(&sight, begun), None);
            let line = told.look(&sight, begun + after);
            assert_eq!(
                line.is_some_and(|line| line.contains("UDP to port 4500")),
                is_told,
                "{agreed:?} {sent}"
            );
            assert_eq!(told.state == State::NeverHeard, is_told);
            let heard = Sight { heard_ms: 7, ..sight };
            let line = told.look(&heard, begun + after + S).expect("it is heard of");
            assert!(line.contains("answers at"), "{line}");
        }
    }
}

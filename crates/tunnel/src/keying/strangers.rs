//! Strangers are connections that have not yet proved their identity. This module decides which of them is dropped
//! for a new one.
//!
//! Guarantees: no address, and no /64, /56 or /48 of IPv6, has more than its share of the places; strangers whose handshake
//! has failed are dropped first, then silent ones that had time to speak, then those of whoever has the most places;
//! older ones before newer ones; the newest stranger in a handshake is never dropped.

use std::{cmp::Reverse, collections::HashMap, net::IpAddr, time::Duration};

use sealane_ipsec::selector::Prefix;

/// The maximum number of strangers.
pub const STRANGERS_MAX: usize = 128;

/// The shares of networks: bits of IPv4, bits of IPv6, places. The owner of one IPv6 address has its whole /64, and
/// customers are given a /56 or a /48 (RFC 6177).
const SHARES: [(u8, u8, usize); 3] =
    [(32, 64, STRANGERS_MAX / 4), (32, 56, STRANGERS_MAX * 3 / 8), (32, 48, STRANGERS_MAX / 2)];

/// The properties of a stranger that matter here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stranger {
    /// The stranger's address.
    pub from: IpAddr,
    /// The stranger has sent bytes.
    pub has_spoken: bool,
    /// Its handshake has failed, and it only has a moment to read the reason.
    pub has_failed: bool,
    /// It has been here for less than [`NEW`].
    pub is_new: bool,
}

/// The time that a stranger has for its first bytes, which come from far away.
pub const NEW: Duration = Duration::from_secs(1);

impl Stranger {
    /// Returns a stranger that has just come.
    pub fn new(from: IpAddr) -> Self {
        Self { from, has_spoken: false, has_failed: false, is_new: true }
    }
}

fn network(address: IpAddr, (v4_bits, v6_bits, _): (u8, u8, usize)) -> Prefix {
    let address = address.to_canonical();
    Prefix::containing(address, if address.is_ipv4() { v4_bits } else { v6_bits })
}

/// Returns the place in `held`, which is in order of arrival, of the stranger that is dropped for one from
/// `newcomer`. If the newcomer's network has used up its share, it is one of the same network. If all places are in
/// use, it is one that has failed, else a silent one that is not new, else one of the address with the most strangers.
/// Returns `None` if there is room.
pub fn victim(held: &[Stranger], newcomer: IpAddr) -> Option<usize> {
    let newest_speaker = held.iter().rposition(|stranger| stranger.has_spoken && !stranger.has_failed);
    let may_go = |at: usize| Some(at) != newest_speaker;
    // The lower the class, the sooner a stranger goes.
    let class = |stranger: &Stranger| match (stranger.has_failed, stranger.has_spoken, stranger.is_new) {
        (true, ..) => 0,
        (false, false, false) => 1,
        _ => 2,
    };
    for share in SHARES {
        let own = network(newcomer, share);
        let theirs = || (0..held.len()).filter(|&at| network(held[at].from, share) == own);
        if theirs().count() >= share.2 {
            let rank = |at: usize| (class(&held[at]), held[at].has_spoken);
            // `min_by_key` returns the first of equals, which is the oldest.
            return theirs().filter(|&at| may_go(at)).min_by_key(|&at| rank(at));
        }
    }
    if held.len() < STRANGERS_MAX {
        return None;
    }
    let networks: Vec<Prefix> = held.iter().map(|stranger| network(stranger.from, SHARES[0])).collect();
    let mut crowds: HashMap<Prefix, usize> = HashMap::new();
    networks.iter().for_each(|own| *crowds.entry(*own).or_default() += 1);
    let rank = |at: usize| {
        let stranger = &held[at];
        (class(stranger), Reverse(crowds[&networks[at]]), stranger.is_new, stranger.has_spoken)
    };
    (0..held.len()).filter(|&at| may_go(at)).min_by_key(|&at| rank(at))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    fn v4(number: usize) -> IpAddr {
        IpAddr::from(u32::to_be_bytes(0x0a00_0000 + u32::try_from(number).expect("few")))
    }

    fn silent(from: IpAddr) -> Stranger {
        Stranger { is_new: false, ..Stranger::new(from) }
    }

    fn speaking(from: IpAddr) -> Stranger {
        Stranger { has_spoken: true, ..silent(from) }
    }

    /// Adds a stranger, and returns the one that was dropped.
    fn enter(held: &mut Vec<Stranger>, newcomer: Stranger) -> Option<Stranger> {
        let went = victim(held, newcomer.from).map(|at| held.remove(at));
        held.push(newcomer);
        went
    }

    #[test]
    fn an_address_has_its_share_of_strangers_and_no_more() {
        let (loud, shy) = (ip("192.0.2.1"), ip("192.0.2.2"));
        let mut held = vec![speaking(shy)];
        for _ in 0..STRANGERS_MAX / 4 {
            assert_eq!(enter(&mut held, silent(loud)), None);
        }
        // The loud address loses its own oldest stranger.
        assert_eq!(victim(&held, loud), Some(1));
        assert_eq!(victim(&held, ip("::ffff:192.0.2.1")), Some(1));
        assert_eq!(victim(&held, shy), None);
        let mut others = 0..;
        while held.len() < STRANGERS_MAX {
            held.push(silent(v4(others.next().expect("one more"))));
        }
        assert_eq!(victim(&held, v4(9999)), Some(1), "of whoever has the most");
    }

    #[test]
    fn a_network_of_ipv6_costs_no_more_than_its_share() {
        type Format = fn(usize) -> String;
        let cases: [(Format, usize); 3] = [
            (|n| format!("2001:db8:1:2::{n:x}"), STRANGERS_MAX / 4),
            (|n| format!("2001:db8:1:2{n:02x}::1"), STRANGERS_MAX * 3 / 8),
            (|n| format!("2001:db8:1:{:x}::1", n << 8), STRANGERS_MAX / 2),
        ];
        for (of, places) in cases {
            let mut held = Vec::new();
            for number in 0..places {
                assert_eq!(enter(&mut held, silent(ip(&of(number)))), None, "{number}");
            }
            assert_eq!(victim(&held, ip(&of(places))), Some(0), "{}", of(places));
            assert_eq!(victim(&held, ip("2001:db8:2::1")), None);
        }
    }

    #[test]
    fn a_flood_of_silence_takes_no_place_from_who_shakes_hands() {
        let honest = speaking(ip("198.51.100.7"));
        let mut held: Vec<_> = (0..STRANGERS_MAX).map(|number| silent(v4(number))).collect();
        let newcomer = held.len();
        // The oldest stranger is dropped, and not the newest.
        assert_eq!(enter(&mut held, honest), Some(silent(v4(0))));
        for number in newcomer..newcomer + 10 * STRANGERS_MAX {
            assert_eq!(enter(&mut held, silent(v4(number))), Some(silent(v4(number + 1 - STRANGERS_MAX))));
        }
        assert!(held.contains(&honest));
    }

    #[test]
    fn newer_speakers_outlive_older_ones() {
        // All strangers have sent bytes, and each has another address.
        let mut held: Vec<_> = (0..STRANGERS_MAX).map(|number| speaking(v4(number))).collect();
        for number in STRANGERS_MAX..3 * STRANGERS_MAX {
            // A silent newcomer takes the place of the oldest speaker, and is the first to be dropped.
            let newest = *held.last().expect("somebody");
            assert_eq!(enter(&mut held, silent(v4(number))), Some(speaking(v4(number - STRANGERS_MAX))));
            assert!(held.contains(&newest));
            held.last_mut().expect("somebody").has_spoken = true;
        }
    }

    /// Four addresses call 200 times a second, speak TLS and fail. Somebody far away, whose first bytes come after 150 ms and
    /// whose last ones after 450 ms, gets through each time.
    #[test]
    fn failed_handshakes_keep_nobody_out() {
        let far = ip("198.51.100.7");
        // The time of arrival in milliseconds, beside the stranger.
        let mut held: Vec<(u64, Stranger)> = Vec::new();
        let mut entered = 0;
        for now in 0..20_000u64 {
            for (since, stranger) in &mut held {
                let age = now - *since;
                stranger.is_new = age < 1000;
                match stranger.from == far {
                    true => stranger.has_spoken = age >= 150,
                    // They keep their places after they have failed.
                    false => (stranger.has_spoken, stranger.has_failed) = (age >= 1, age >= 20),
                }
            }
            entered += held.iter().filter(|(since, own)| own.from == far && now - since == 450).count();
            held.retain(|(since, own)| now - since < if own.from == far { 451 } else { 5000 });
            let newcomer = match now {
                now if now % 500 == 7 => far,
                now if now % 5 == 0 => v4((now / 5 % 4) as usize),
                _ => continue,
            };
            let all: Vec<Stranger> = held.iter().map(|(_, own)| *own).collect();
            victim(&all, newcomer).map(|at| held.remove(at));
            held.push((now, Stranger::new(newcomer)));
        }
        assert_eq!(entered, 40, "each time");
    }
}

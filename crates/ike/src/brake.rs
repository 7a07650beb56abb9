//! The brake on guesses: addresses and users whose proofs fail again and again are judged less often.
//!
//! Guarantees: nobody is locked out by others: the first try of an address at a user is judged at once, whoever has failed
//! elsewhere, and so is who has succeeded from the same address before, as far as the address is concerned; what is
//! remembered is bounded.

use std::{
    collections::HashMap,
    hash::Hash,
    net::{IpAddr, Ipv6Addr},
    time::{Duration, Instant},
};

/// Number of failures that cost nothing.
const FREE: u32 = 5;
/// Time between two judgements about an address after that.
const PAUSE: Duration = Duration::from_secs(2);
/// Time between two judgements about one user from one address that has failed, while the user is guessed at.
const USER_PAUSE: Duration = Duration::from_secs(15);
/// Time without a failure after which those before are forgotten.
const FORGOTTEN: Duration = Duration::from_secs(600);
/// Time for which a success is remembered.
const REMEMBERED: Duration = Duration::from_secs(86_400);
/// Maximum number of entries of each kind.
const MAX_ENTRIES: usize = 16_384;

#[derive(Clone, Copy)]
struct Tally {
    count: u32,
    last: Instant,
}

/// Failed and successful proofs of strangers.
#[derive(Default)]
pub(crate) struct Brake {
    addresses: HashMap<IpAddr, Tally>,
    users: HashMap<String, Tally>,
    /// Failures at a user from an address.
    pairs: HashMap<(IpAddr, String), Tally>,
    /// Successes from an address, by the identity that was given.
    good: HashMap<(IpAddr, Vec<u8>), Tally>,
}

/// Returns the address that counts: whoever has one of IPv6 has its whole /64.
fn counted(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => Ipv6Addr::from(u128::from(address) >> 64 << 64).into(),
        address => address,
    }
}

fn count<K: Eq + Hash>(all: &mut HashMap<K, Tally>, key: K, life: Duration, now: Instant) {
    let is_fresh = |tally: &Tally| now.saturating_duration_since(tally.last) < life;
    if all.len() >= MAX_ENTRIES && !all.contains_key(&key) {
        all.retain(|_, tally| is_fresh(tally));
        if all.len() >= MAX_ENTRIES {
            // The oldest half goes; this happens once for as many new entries.
            let mut times: Vec<Instant> = all.values().map(|tally| tally.last).collect();
            times.sort_unstable();
            let middle = times[times.len() / 2];
            all.retain(|_, tally| tally.last > middle);
        }
    }
    let tally = all.entry(key).or_insert(Tally { count: 0, last: now });
    let before = if is_fresh(tally) { tally.count } else { 0 };
    *tally = Tally { count: before.saturating_add(1), last: now };
}

fn fresh<K: Eq + Hash>(all: &HashMap<K, Tally>, key: &K, life: Duration, now: Instant) -> Option<Tally> {
    all.get(key).copied().filter(|tally| now.saturating_duration_since(tally.last) < life)
}

impl Brake {
    /// Notes that a proof from `address` has failed, that of a user if one was named.
    pub(crate) fn fail(&mut self, address: IpAddr, user: &str, now: Instant) {
        let address = counted(address);
        count(&mut self.addresses, address, FORGOTTEN, now);
        count(&mut self.users, user.to_owned(), FORGOTTEN, now);
        count(&mut self.pairs, (address, user.to_owned()), FORGOTTEN, now);
    }

    /// Notes that whoever gave `identity` from `address` has proved it.
    pub(crate) fn succeed(&mut self, address: IpAddr, identity: Vec<u8>, now: Instant) {
        count(&mut self.good, (counted(address), identity), REMEMBERED, now);
    }

    /// Returns whether a stranger from `address` who gives `identity` has to try again later.
    pub(crate) fn is_slow(&self, address: IpAddr, identity: &[u8], now: Instant) -> bool {
        let address = counted(address);
        let Some(tally) = fresh(&self.addresses, &address, FORGOTTEN, now) else { return false };
        tally.count > FREE
            && now < tally.last + PAUSE
            && fresh(&self.good, &(address, identity.to_vec()), REMEMBERED, now).is_none()
    }

    /// Returns whether the proof of a user from `address` has to come again later.
    pub(crate) fn is_user_slow(&self, address: IpAddr, user: &str, now: Instant) -> bool {
        let pair = fresh(&self.pairs, &(counted(address), user.to_owned()), FORGOTTEN, now);
        let user = fresh(&self.users, &user.to_owned(), FORGOTTEN, now);
        let is_guessed_at = user.is_some_and(|tally| tally.count > FREE);
        is_guessed_at && pair.is_some_and(|pair| now < pair.last + USER_PAUSE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().expect("an address")
    }

    #[test]
    fn guesses_of_an_address_and_at_a_user_become_rare_and_nobody_else_waits() {
        let (mut brake, mut now) = (Brake::default(), Instant::now());
        let (loud, shy) = (ip("203.0.113.9"), ip("198.51.100.7"));
        brake.succeed(loud, b"carol".to_vec(), now);
        let mut judged = 0;
        // It tries ten times a second for a minute.
        for turn in 0..600 {
            now += Duration::from_millis(100);
            if !brake.is_slow(loud, b"x", now) && !brake.is_user_slow(loud, "alice", now) {
                judged += 1;
                brake.fail(loud, "alice", now);
            }
            assert!(!brake.is_slow(loud, b"carol", now), "{turn}: who was right before is not slowed");
            assert!(!brake.is_user_slow(shy, "alice", now) && !brake.is_slow(shy, b"alice", now));
        }
        assert!((5..=10).contains(&judged), "{judged}");
        // One more user from the same address is slowed by the address alone.
        assert!(!brake.is_user_slow(loud, "bob", now));
        now += FORGOTTEN;
        assert!(!brake.is_slow(loud, b"x", now) && !brake.is_user_slow(loud, "alice", now));
        // A whole /64 is one stranger.
        for number in 0..20u16 {
            brake.fail(ip(&format!("2001:db8::{number:x}")), "alice", now);
        }
        assert!(brake.is_slow(ip("2001:db8::ffff"), b"x", now));
        assert!(!brake.is_slow(ip("2001:db8:0:1::1"), b"x", now));
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let (mut brake, now) = (Brake::default(), Instant::now());
        for number in 0..3 * MAX_ENTRIES as u32 {
            let at = now + Duration::from_millis(number.into());
            brake.fail(IpAddr::from(number.to_be_bytes()), &number.to_string(), at);
        }
        assert!(brake.addresses.len() <= MAX_ENTRIES);
        assert!(brake.users.len() <= MAX_ENTRIES && brake.pairs.len() <= MAX_ENTRIES);
    }
}

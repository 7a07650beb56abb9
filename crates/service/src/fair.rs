//! The order of users: an account per user, by start-time fair queueing, and a bucket of tokens if the policy has a
//! rate.
//!
//! **Guarantees:** of users that all have work, the one with the least computing time is next, so their computing
//! times differ by one job at most; a user that was idle has no credit from that. A user with a rate of n gets at
//! most n jobs in any second after the first. The types are values without a clock or a lock.

use std::time::{Duration, Instant};

/// The account of one user.
#[derive(Clone, Debug)]
pub(crate) struct Account {
    /// The nanoseconds computed for it, raised to the others' when it was idle.
    spent_ns: u64,
    bucket: Option<Bucket>,
}

#[derive(Clone, Debug)]
struct Bucket {
    rate: u32,
    /// The time at which the bucket is full again. A job moves it forward by 1/rate; if it is more than a second
    /// ahead, the bucket is empty.
    full_at: Instant,
}

impl Account {
    pub(crate) fn new(rate: Option<u32>, now: Instant) -> Self {
        Self { spent_ns: 0, bucket: rate.map(|rate| Bucket { rate, full_at: now }) }
    }

    /// Returns the time from which it may have a job, if that is not now.
    pub(crate) fn waits_until(&self, now: Instant) -> Option<Instant> {
        let bucket = self.bucket.as_ref()?;
        let Some(between) = Duration::from_secs(1).checked_div(bucket.rate) else {
            return Some(now + Duration::from_secs(3600));
        };
        let first = (bucket.full_at + between).checked_sub(Duration::from_secs(1))?;
        (first > now).then_some(first)
    }

    /// Returns whether all of its rate is there: it is then like a new one.
    pub(crate) fn is_full(&self, now: Instant) -> bool {
        self.bucket.as_ref().is_none_or(|bucket| bucket.full_at <= now)
    }

    /// Gives it another rate. What it has used of the present one stays used.
    pub(crate) fn set_rate(&mut self, rate: Option<u32>, now: Instant) {
        let full_at = self.bucket.as_ref().map_or(now, |bucket| bucket.full_at);
        self.bucket = rate.map(|rate| Bucket { rate, full_at });
    }

    /// Charges `jobs` jobs of the expected cost `ns` each.
    pub(crate) fn charge(&mut self, jobs: u32, ns: u64, now: Instant) {
        self.spent_ns = self.spent_ns.saturating_add(ns.saturating_mul(jobs.into()));
        if let Some(bucket) = &mut self.bucket {
            let between = Duration::from_secs(1).checked_div(bucket.rate).unwrap_or_default();
            bucket.full_at = bucket.full_at.max(now) + between.saturating_mul(jobs);
        }
    }

    /// Replaces the expected cost of a job by its real cost.
    pub(crate) fn correct(&mut self, expected_ns: u64, cost_ns: u64) {
        self.spent_ns = self.spent_ns.saturating_sub(expected_ns).saturating_add(cost_ns);
    }
}

/// The computing time of the user that had the last turn, at its start.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Turns {
    start_ns: u64,
}

impl Turns {
    /// Returns the rank for the next turn: the least one is next. It removes the credit of an idle user.
    pub(crate) fn rank(self, account: &mut Account) -> u64 {
        account.spent_ns = account.spent_ns.max(self.start_ns);
        account.spent_ns
    }

    /// Starts the turn of `account`.
    pub(crate) fn begin(&mut self, account: &Account) {
        self.start_ns = self.start_ns.max(account.spent_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn users_that_all_have_work_are_computed_for_alike(costs in prop::collection::vec(1u64..1_000_000, 2..6)) {
            let now = Instant::now();
            let mut turns = Turns::default();
            let mut accounts: Vec<_> = costs.iter().map(|_| Account::new(None, now)).collect();
            let mut got = vec![0u64; costs.len()];
            for _ in 0..2000 {
                let next = (0..costs.len()).min_by_key(|&index| turns.rank(&mut accounts[index])).unwrap();
                turns.begin(&accounts[next]);
                accounts[next].charge(1, 500, now);
                accounts[next].correct(500, costs[next]);
                got[next] += costs[next];
            }
            let dearest = costs.iter().max().unwrap();
            prop_assert!(got.iter().max().unwrap() - got.iter().min().unwrap() <= 2 * dearest);
        }
    }

    #[test]
    fn idleness_gives_no_credit() {
        let now = Instant::now();
        let mut turns = Turns::default();
        let (mut busy, mut idle) = (Account::new(None, now), Account::new(None, now));
        for _ in 0..1000 {
            turns.rank(&mut busy);
            turns.begin(&busy);
            busy.charge(1, 1000, now);
        }
        let mut of_idle = 0;
        for _ in 0..100 {
            let idle_first = turns.rank(&mut idle) < turns.rank(&mut busy);
            let next = if idle_first { &mut idle } else { &mut busy };
            of_idle += u32::from(idle_first);
            turns.begin(next);
            next.charge(1, 1000, now);
        }
        assert!((45..=55).contains(&of_idle), "{of_idle}");
    }

    #[test]
    fn a_rate_is_kept() {
        let mut now = Instant::now();
        let mut account = Account::new(Some(10), now);
        let mut done = 0;
        for _ in 0..5000 {
            if account.waits_until(now).is_none() {
                account.charge(1, 1, now);
                done += 1;
            }
            now += Duration::from_millis(1);
        }
        assert!((59..=61).contains(&done), "ten at once, and fifty in five seconds: {done}");
        assert!(Account::new(Some(0), now).waits_until(now).is_some());
    }
}

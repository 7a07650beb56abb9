//! Work that users make for the service beside their jobs: set-up, and questions. It is done in turn.
//!
//! **Guarantees:** of the users that have work, each is next after at most one piece of every other one; beyond a credit, the work of
//! one user takes at most its share of a processor. A user that has paid takes no memory. The type is a value without a clock or a lock.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;
use std::time::{Duration, Instant};

/// The processor time that one user's work may take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowance {
    /// The time before the share counts.
    pub(crate) credit: Duration,
    /// The part of a processor, as its inverse.
    pub(crate) share: u32,
}

/// The work of all users.
#[derive(Debug)]
pub(crate) struct Queue<U, T> {
    allowance: Allowance,
    waiting: BTreeMap<U, VecDeque<T>>,
    /// The user who had the last turn.
    last: Option<U>,
    /// The times at which users will have paid for what was done.
    paid_at: BTreeMap<U, Instant>,
}

impl<U: Copy + Ord, T> Queue<U, T> {
    pub(crate) const fn new(allowance: Allowance) -> Self {
        Self { allowance, waiting: BTreeMap::new(), last: None, paid_at: BTreeMap::new() }
    }

    pub(crate) fn add(&mut self, user: U, work: T) {
        self.waiting.entry(user).or_default().push_back(work);
    }

    /// Forgets the work of a user for which `stays` is false.
    pub(crate) fn retain(&mut self, user: U, stays: impl FnMut(&T) -> bool) {
        if let Some(own) = self.waiting.get_mut(&user) {
            own.retain(stays);
            if own.is_empty() {
                self.waiting.remove(&user);
            }
        }
    }

    /// Returns the user of the next piece of work with it, or the time until there may be one.
    pub(crate) fn next(&mut self, now: Instant) -> Result<(U, T), Option<Duration>> {
        self.paid_at.retain(|_, at| *at > now);
        let credit = self.allowance.credit;
        let due = |user: &U| self.paid_at.get(user).map_or(now, |at| (*at).max(now + credit) - credit);
        let after = |last| (Bound::Excluded(last), Bound::Unbounded);
        let until = |last| (Bound::Unbounded, Bound::Included(last));
        let users: Vec<U> = match self.last {
            Some(last) => {
                let (behind, before) = (self.waiting.range(after(last)), self.waiting.range(until(last)));
                behind.chain(before).map(|(user, _)| *user).collect()
            }
            None => self.waiting.keys().copied().collect(),
        };
        let Some(user) = users.iter().copied().find(|user| due(user) <= now) else {
            return Err(users.iter().map(due).min().map(|first| first - now));
        };
        self.last = Some(user);
        let work = self.waiting.get_mut(&user).and_then(VecDeque::pop_front);
        self.retain(user, |_| true);
        work.map(|work| (user, work)).ok_or(None)
    }

    /// Charges the time that some work took.
    pub(crate) fn charge(&mut self, user: U, took: Duration, now: Instant) {
        let at = self.paid_at.entry(user).or_insert(now);
        *at = (*at).max(now) + took * self.allowance.share;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALLOWANCE: Allowance = Allowance { credit: Duration::from_millis(20), share: 20 };

    #[test]
    fn users_have_turns() {
        let (mut queue, now) = (Queue::new(ALLOWANCE), Instant::now());
        for id in 0..100 {
            queue.add(7, id);
        }
        queue.add(8, 100);
        queue.add(3, 101);
        let order: Vec<_> = (0..4).map(|_| queue.next(now).unwrap()).collect();
        assert_eq!(order, [(3, 101), (7, 0), (8, 100), (7, 1)]);
        queue.retain(7, |id| *id == 99);
        assert_eq!((queue.next(now), queue.next(now)), (Ok((7, 99)), Err(None)));
        assert!(queue.waiting.is_empty());
    }

    #[test]
    fn one_user_has_a_share_of_a_processor() {
        let (mut queue, start) = (Queue::new(ALLOWANCE), Instant::now());
        let (mut now, mut spent) = (start, Duration::ZERO);
        let took = Duration::from_millis(1);
        for id in 0..1000 {
            queue.add(7, id);
        }
        while now - start < Duration::from_secs(10) {
            match queue.next(now) {
                Ok((user, _)) => {
                    queue.charge(user, took, now);
                    (now, spent) = (now + took, spent + took);
                }
                Err(pause) => now += pause.expect("it is to go on"),
            }
            // Another user waits for one turn of that.
            queue.add(8, 5000);
            let before = (0..).find(|_| {
                let (user, _) = queue.next(now).expect("it is due");
                if user == 7 {
                    queue.charge(user, took, now);
                    (now, spent) = (now + took, spent + took);
                }
                user == 8
            });
            assert!(before <= Some(1), "{before:?}");
        }
        let most = (now - start) / ALLOWANCE.share + ALLOWANCE.credit + took;
        assert!(spent <= most && spent * 2 > most, "{spent:?} of {most:?}");
        queue.charge(7, took, now);
        queue.next(now + Duration::from_secs(3600)).unwrap();
        assert!(queue.paid_at.is_empty(), "accounts that are paid are forgotten");
    }
}

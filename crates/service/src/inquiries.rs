//! Questions whose answers take a look at all keys or clients: lists and statuses. They have a thread of their own, so that no
//! client waits while others ask.
//!
//! **Guarantees:** users are answered in turn; beyond a credit of [`CREDIT`], the answers to one user take at most the [`SHARE`]th
//! part of a processor; each connection has one question at a time, and none is answered for a connection that is gone.

use crate::inquiry::{Facts, Inquiry};
use crate::scheduler::Id;
use crate::workers::{Shared, ring};
use sealane_client::setup::Told;
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::ops::Bound;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// The time that answers to one user take before the user's share of a processor counts.
const CREDIT: Duration = Duration::from_millis(20);

/// The part of a processor that one user's questions get, as its inverse.
const SHARE: u32 = 20;

/// The questions of all users, without a clock.
#[derive(Debug)]
struct Queue<T> {
    waiting: BTreeMap<u32, VecDeque<(Id, T)>>,
    /// The user who was answered last.
    last: u32,
    /// The times at which users will have paid for their answers.
    paid_at: BTreeMap<u32, Instant>,
    is_over: bool,
}

impl<T> Default for Queue<T> {
    fn default() -> Self {
        Self { waiting: BTreeMap::new(), last: 0, paid_at: BTreeMap::new(), is_over: false }
    }
}

impl<T> Queue<T> {
    fn add(&mut self, user: u32, id: Id, question: T) {
        self.waiting.entry(user).or_default().push_back((id, question));
    }

    fn forget(&mut self, user: u32, id: Id) {
        if let Some(own) = self.waiting.get_mut(&user) {
            own.retain(|(other, _)| *other != id);
            if own.is_empty() {
                self.waiting.remove(&user);
            }
        }
    }

    /// Returns the user of the next question with it, or the time until there may be one.
    fn next(&mut self, now: Instant) -> Result<(u32, T), Option<Duration>> {
        self.paid_at.retain(|_, at| *at > now);
        let due = |user: &u32| self.paid_at.get(user).map_or(now, |at| (*at).max(now + CREDIT) - CREDIT);
        let (until, after) = (
            self.waiting.range(..=self.last),
            self.waiting.range((Bound::Excluded(self.last), Bound::Unbounded)),
        );
        let mut first: Option<Instant> = None;
        let mut found = None;
        for (user, _) in after.chain(until) {
            let due = due(user);
            if due <= now {
                found = Some(*user);
                break;
            }
            first = Some(first.map_or(due, |first| first.min(due)));
        }
        let Some(user) = found else { return Err(first.map(|first| first - now)) };
        self.last = user;
        let own = self.waiting.get_mut(&user);
        let question = own.and_then(VecDeque::pop_front);
        if self.waiting.get(&user).is_some_and(VecDeque::is_empty) {
            self.waiting.remove(&user);
        }
        question.map(|(_, question)| (user, question)).ok_or(None)
    }

    /// Charges the time that an answer took.
    fn charge(&mut self, user: u32, took: Duration, now: Instant) {
        let at = self.paid_at.entry(user).or_insert(now);
        *at = (*at).max(now) + took * SHARE;
    }
}

#[derive(Debug, Default)]
struct Desk {
    queue: Mutex<Queue<Inquiry>>,
    came: Condvar,
}

impl Desk {
    fn queue(&self) -> MutexGuard<'_, Queue<Inquiry>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the next question; returns `None` at the end.
    fn take(&self) -> Option<(u32, Inquiry)> {
        let mut queue = self.queue();
        loop {
            if queue.is_over {
                return None;
            }
            queue = match queue.next(Instant::now()) {
                Ok(found) => return Some(found),
                Err(None) => self.came.wait(queue).unwrap_or_else(PoisonError::into_inner),
                Err(Some(pause)) => {
                    self.came.wait_timeout(queue, pause).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }
}

/// The thread of the questions. It ends when this is dropped, after its present answer.
#[derive(Debug)]
pub(crate) struct Inquiries {
    desk: Arc<Desk>,
    done: Receiver<(Id, Told)>,
}

impl Inquiries {
    /// Starts the thread, which rings the set-up thread after each answer.
    pub(crate) fn start(shared: &Arc<Shared>, facts: Facts) -> io::Result<Self> {
        let (tell, done) = channel();
        let desk = Arc::new(Desk::default());
        let (own, shared) = (Arc::clone(&desk), Arc::clone(shared));
        thread::Builder::new().name("engine-inquiries".to_owned()).spawn(move || {
            while let Some((user, inquiry)) = own.take() {
                let start = Instant::now();
                let told = inquiry.answer(&shared, &facts);
                let id = inquiry.id;
                drop(inquiry);
                own.queue().charge(user, start.elapsed(), start);
                if tell.send((id, told)).is_err() {
                    return;
                }
                ring(&shared.control);
            }
        })?;
        Ok(Self { desk, done })
    }

    pub(crate) fn add(&self, inquiry: Inquiry) {
        self.desk.queue().add(inquiry.user, inquiry.id, inquiry);
        self.desk.came.notify_one();
    }

    /// Removes the question of a connection that is gone.
    pub(crate) fn forget(&self, user: u32, id: Id) {
        self.desk.queue().forget(user, id);
    }

    pub(crate) fn done(&self) -> Option<(Id, Told)> {
        self.done.try_recv().ok()
    }
}

impl Drop for Inquiries {
    fn drop(&mut self) {
        self.desk.queue().is_over = true;
        self.desk.came.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn users_are_answered_in_turn() {
        let (mut queue, now) = (Queue::default(), Instant::now());
        for id in 0..100 {
            queue.add(7, id, id);
        }
        queue.add(8, 100, 100);
        queue.add(3, 101, 101);
        let order: Vec<_> = (0..4).map(|_| queue.next(now).unwrap()).collect();
        assert_eq!(order, [(3, 101), (7, 0), (8, 100), (7, 1)]);
        (0..99).for_each(|id| queue.forget(7, id));
        assert_eq!((queue.next(now), queue.next(now)), (Ok((7, 99)), Err(None)));
        assert!(queue.waiting.is_empty());
    }

    #[test]
    fn one_user_has_a_share_of_a_processor() {
        let (mut queue, start) = (Queue::default(), Instant::now());
        let (mut now, mut spent) = (start, Duration::ZERO);
        let took = Duration::from_millis(1);
        for id in 0..1000 {
            queue.add(7, id, ());
        }
        while now - start < Duration::from_secs(10) {
            match queue.next(now) {
                Ok((user, ())) => {
                    queue.charge(user, took, now);
                    (now, spent) = (now + took, spent + took);
                }
                Err(pause) => now += pause.expect("it is to go on"),
            }
            // Another user waits for nothing of that.
            queue.add(8, 5000, ());
            while let Ok((user, ())) = queue.next(now) {
                if user == 8 {
                    break;
                }
                queue.charge(user, took, now);
                (now, spent) = (now + took, spent + took);
            }
            queue.forget(8, 5000);
        }
        let most = (now - start) / SHARE + CREDIT + took;
        assert!(spent <= most && spent * 2 > most, "{spent:?} of {most:?}");
        queue.charge(7, took, now);
        queue.next(now + Duration::from_secs(3600)).unwrap();
        assert!(queue.paid_at.is_empty(), "accounts that are paid are forgotten");
    }
}

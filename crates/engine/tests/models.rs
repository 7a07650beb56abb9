//! Explores interleavings of gathering and of the breaker of fail-over, compiled from the crate's own sources with
//! [shuttle](https://github.com/awslabs/shuttle)'s threads, locks and atomics. A lost wake-up appears as a deadlock.

#![allow(dead_code, unreachable_pub, reason = "of the sources only what the models call is used")]

#[path = "../src/bell.rs"]
mod bell;
#[path = "../src/scheduler/breaker.rs"]
mod breaker;
#[path = "../src/gathering.rs"]
mod gathering;

/// Replaces `src/sync.rs` of the crate.
mod sync {
    use std::time::Instant;

    use shuttle::rand::{Rng as _, thread_rng};
    pub(crate) use shuttle::sync::{
        Condvar, Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst, fence},
    };
    pub(crate) use std::sync::PoisonError;

    /// The window ends at once or never, so that an error that only the end of a window would repair appears.
    pub(crate) fn wait_until<'a, T>(
        condvar: &Condvar,
        guard: MutexGuard<'a, T>,
        _: Instant,
    ) -> (MutexGuard<'a, T>, bool) {
        if thread_rng().gen_bool(0.5) {
            return (guard, true);
        }
        (condvar.wait(guard).unwrap_or_else(PoisonError::into_inner), false)
    }
}

use std::{num::NonZeroUsize, sync::Arc, time::Duration};

use bell::Signal;
use breaker::{Breaker, WAIT_NS};
use gathering::{Gathered, Gathering};
use shuttle::{
    sync::{Condvar, Mutex},
    thread,
};

const SCHEDULES: usize = 500;

#[derive(Clone, Copy, Debug, PartialEq)]
struct Item {
    submitter: u64,
    number: u64,
}

impl Gathered for Item {
    fn submitter(&self) -> u64 {
        self.submitter
    }

    fn share(&self) -> Option<f32> {
        // Every third item makes a batch alone.
        (self.number % 3 != 2).then_some(0.4)
    }

    fn goes_with(&self, _: &Self) -> bool {
        true
    }
}

/// Wakes a submitter that found no room.
#[derive(Clone)]
struct Bell(Arc<(Mutex<bool>, Condvar)>);

impl PartialEq for Bell {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Bell {
    fn ring(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_one();
    }

    fn wait(&self) {
        let mut rung = self.0.0.lock().unwrap();
        while !*rung {
            rung = self.0.1.wait(rung).unwrap();
        }
        *rung = false;
    }
}

#[test]
fn whatever_is_put_is_taken_once_and_nobody_waits_for_ever() {
    fn model() {
        const ITEMS: u64 = 5;
        let queue =
            Arc::new(Gathering::<Item, Bell>::new(NonZeroUsize::new(2).unwrap(), Duration::from_secs(1)));
        let taken = Arc::new(Mutex::new(Vec::new()));
        let consumers: Vec<_> = (0..2)
            .map(|_| {
                let (queue, taken) = (Arc::clone(&queue), Arc::clone(&taken));
                thread::spawn(move || {
                    let mut batch = Vec::new();
                    while let Some(wanting) = queue.take(&mut batch) {
                        wanting.iter().for_each(Bell::ring);
                        assert!(!batch.is_empty() && batch.len() <= 2, "{batch:?}");
                        taken.lock().unwrap().append(&mut batch);
                    }
                })
            })
            .collect();
        let submitters: Vec<_> = (0..2)
            .map(|submitter| {
                let queue = Arc::clone(&queue);
                thread::spawn(move || {
                    let bell = Bell(Arc::new((Mutex::new(false), Condvar::new())));
                    for number in 0..ITEMS {
                        let mut item = Item { submitter, number };
                        while let Err(refused) = queue.put(item, || bell.clone()) {
                            item = refused;
                            bell.wait();
                        }
                    }
                })
            })
            .collect();
        submitters.into_iter().for_each(|submitter| submitter.join().unwrap());
        queue.close();
        consumers.into_iter().for_each(|consumer| consumer.join().unwrap());
        let taken = taken.lock().unwrap();
        assert_eq!(taken.len() as u64, 2 * ITEMS);
        for submitter in 0..2 {
            for number in 0..ITEMS {
                assert!(taken.contains(&Item { submitter, number }));
            }
        }
    }
    shuttle::check_random(model, SCHEDULES);
    shuttle::check_pct(model, SCHEDULES, 3);
}

/// A signal that threads of the model sleep for.
struct Flag(Mutex<bool>, Condvar);

impl Signal for Flag {
    fn raise(&self) {
        *self.0.lock().unwrap() = true;
        self.1.notify_one();
    }

    fn lower(&self) {
        *self.0.lock().unwrap() = false;
    }
}

impl Flag {
    fn sleep(&self) {
        let mut is_raised = self.0.lock().unwrap();
        while !*is_raised {
            is_raised = self.1.wait(is_raised).unwrap();
        }
    }
}

/// A submitter as the workers see it: its bell, and the number of its answers.
#[derive(Clone)]
struct Asker(Arc<(bell::Bell<Flag>, Mutex<usize>)>);

impl PartialEq for Asker {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Asker {
    fn take(&self) -> bool {
        let mut answers = self.0.1.lock().unwrap();
        let has_one = *answers > 0;
        *answers -= usize::from(has_one);
        has_one
    }
}

/// Submitters that share a queue of one place, and that look, ask to be woken, look once more, submit and sleep, as the lanes'
/// do, get every answer: a ring is lost neither for an answer nor for room that another one has taken.
#[test]
fn a_submitter_that_asks_before_it_sleeps_misses_nothing() {
    fn model() {
        const ITEMS: u64 = 2;
        let queue = Arc::new(Gathering::<Item, Asker>::new(NonZeroUsize::MIN, Duration::ZERO));
        let askers: Vec<Asker> = (0..2)
            .map(|_| {
                let bell = bell::Bell::new(Flag(Mutex::new(false), Condvar::new()));
                Asker(Arc::new((bell, Mutex::new(0))))
            })
            .collect();
        let worker = {
            let (queue, askers) = (Arc::clone(&queue), askers.clone());
            thread::spawn(move || {
                let mut batch = Vec::new();
                while let Some(wanting) = queue.take(&mut batch) {
                    wanting.iter().for_each(|asker| asker.0.0.ring());
                    for item in batch.drain(..) {
                        let asker = &askers[item.submitter as usize].0;
                        *asker.1.lock().unwrap() += 1;
                        asker.0.ring();
                    }
                }
            })
        };
        let submitters: Vec<_> = (0..)
            .zip(askers)
            .map(|(submitter, asker)| {
                let queue = Arc::clone(&queue);
                thread::spawn(move || {
                    let (mut given, mut taken) = (0, 0);
                    while taken < ITEMS {
                        let has_one = asker.take() || {
                            asker.0.0.ask();
                            asker.take()
                        };
                        if has_one {
                            taken += 1;
                        } else if given < ITEMS
                            && queue.put(Item { submitter, number: given }, || asker.clone()).is_ok()
                        {
                            given += 1;
                        } else {
                            asker.0.0.signal().sleep();
                        }
                    }
                })
            })
            .collect();
        submitters.into_iter().for_each(|submitter| submitter.join().unwrap());
        queue.close();
        worker.join().unwrap();
    }
    shuttle::check_random(model, SCHEDULES);
    shuttle::check_pct(model, SCHEDULES, 3);
}

/// An engine that gives a wrong answer while it is asked is not used again because of an earlier answer, and one lane
/// asks.
#[test]
fn an_engine_that_lies_is_asked_anew() {
    fn model() {
        let breaker = Arc::new(Breaker::default());
        breaker.was_late(0);
        let asking: Vec<_> = (0..2)
            .map(|_| {
                let breaker = Arc::clone(&breaker);
                thread::spawn(move || {
                    let lies = breaker.lies();
                    breaker.is_to_be_asked(WAIT_NS).then(|| {
                        breaker.answered(lies);
                        lies
                    })
                })
            })
            .collect();
        let lying = {
            let breaker = Arc::clone(&breaker);
            thread::spawn(move || breaker.lied(WAIT_NS))
        };
        let asked: Vec<u64> = asking.into_iter().filter_map(|lane| lane.join().unwrap()).collect();
        lying.join().unwrap();
        assert!(asked.len() <= 1, "one lane asks");
        assert!(!breaker.is_closed() || asked == [1], "it is open, or was asked after it had lied");
    }
    shuttle::check_random(model, SCHEDULES);
    shuttle::check_pct(model, SCHEDULES, 3);
}

//! Explores interleavings of the hand-over of halves between workers, compiled from the crate's own source with
//! [shuttle](https://github.com/awslabs/shuttle)'s threads, locks and atomics.

#[path = "../src/handover.rs"]
mod handover;

/// Replaces `src/sync.rs` of the crate.
mod sync {
    pub(crate) use shuttle::sync::atomic::{AtomicBool, Ordering::SeqCst};
    pub(crate) use shuttle::sync::{Mutex, MutexGuard};
    pub(crate) use std::sync::PoisonError;
}

use handover::{Meeting, OfferSlot};
use shuttle::{sync::Mutex, thread};
use std::sync::Arc;

const SCHEDULES: usize = 2000;

/// An operation with a half for each of two workers.
struct Operation {
    number: u64,
    meeting: Meeting<char>,
}

/// Computes one half, and answers if it is the second.
fn half(operation: &Operation, name: char, answered: &Mutex<Vec<u64>>) {
    if let Some([first, second]) = operation.meeting.arrive(name) {
        assert_ne!(first, second, "no half is computed twice");
        answered.lock().unwrap().push(operation.number);
    }
}

/// Workers divide operations of their own, and come for halves of others between them.
#[test]
fn every_operation_is_answered_once_whoever_comes_for_its_halves() {
    fn model() {
        const OPERATIONS: u64 = 2;
        let place = Arc::new(OfferSlot::<Arc<Operation>>::new());
        let answered = Arc::new(Mutex::new(Vec::new()));
        let workers: Vec<_> = (0..3)
            .map(|worker| {
                let (place, answered) = (Arc::clone(&place), Arc::clone(&answered));
                thread::spawn(move || {
                    for number in 0..OPERATIONS {
                        let number = worker * OPERATIONS + number;
                        let operation = Arc::new(Operation { number, meeting: Meeting::new() });
                        let is_offered = place.offer(Arc::clone(&operation));
                        half(&operation, 'p', &answered);
                        let left = if is_offered { place.take() } else { Some(operation) };
                        if let Some(left) = left {
                            half(&left, 'q', &answered);
                        }
                        if place.has_offer()
                            && let Some(other) = place.take()
                        {
                            half(&other, 'q', &answered);
                        }
                    }
                })
            })
            .collect();
        workers.into_iter().for_each(|worker| worker.join().unwrap());
        assert!(place.take().is_none(), "no offer is left");
        let mut answered = answered.lock().unwrap();
        answered.sort_unstable();
        assert_eq!(*answered, (0..3 * OPERATIONS).collect::<Vec<_>>());
    }
    shuttle::check_random(model, SCHEDULES);
    shuttle::check_pct(model, SCHEDULES, 3);
}

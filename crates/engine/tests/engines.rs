//! Engines, their queues and submitters keep their guarantees: each work comes back once and done, queues are
//! bounded, any engine continues the work of another one, and sessions, costs and buffers are common to all of them.

mod common;
#[path = "../../../testing/late_engine.rs"]
mod late_engine;

use std::{
    num::NonZeroUsize,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
};

use common::{
    ESP_CBC, SHA256_128, copy_of, engines, every_work_comes_back_done, no_more_than_its_depth_is_held,
    protections, random_work, run, run_on, session,
};
use late_engine::LateEngine;
use sealane_engine::{
    Engine, Implementations, Inline, JobStatus, Lanes, Maker, Protection, Session, Submitter,
};
use sealane_transform::{Aead, Kernels};

#[test]
fn what_one_engine_hands_back_another_finishes() {
    let sessions: Vec<_> = protections()
        .into_iter()
        .map(|protection| session(Implementations::default(), protection, 3))
        .collect();
    let work = random_work(&sessions, 300, 100, 7);
    let whole = run(&Inline::default(), copy_of(&work));
    let half = run(&LateEngine::new(7), work);
    assert!((50..150).contains(&half.pending()));
    let [inline, lanes, ..] = engines();
    let finished = run(&*lanes, half);
    assert_eq!(finished.pending(), 0);
    assert!(finished.buffer.bytes() == whole.buffer.bytes());
    // No job is left to do: running the work once more changes nothing.
    assert!(run(&*inline, finished).buffer.bytes() == whole.buffer.bytes());
}

/// Returns a submitter to `engine` that takes `depth` works at once.
fn submitter<T>(engine: &dyn Engine, depth: usize) -> Submitter<T> {
    Submitter::new(engine.queue(NonZeroUsize::new(depth).unwrap()).unwrap(), depth)
}

#[test]
fn what_is_submitted_comes_back_done_with_its_note() {
    for engine in engines() {
        every_work_comes_back_done(&*engine);
    }
    let late = LateEngine::new(1);
    every_work_comes_back_done(&late);
    let done = late.done();
    let count = |counter: &AtomicU64| counter.load(Relaxed);
    let (pending, computed) = (count(&done.pending_jobs), count(&done.computed_jobs));
    assert!(3 * pending > computed && pending < computed, "{pending} jobs came back, {computed} were done");
    assert!(count(&done.overtaking_works) > 10 && count(&done.refusals) > 10);
}

/// The late engine detects a work that its owner lays anew under a number that was used before.
#[test]
#[should_panic(expected = "a nonce protects two texts")]
fn the_late_engine_notices_a_nonce_that_comes_again() {
    let sessions = [session(Implementations::default(), Protection::Aead(Aead::Aes128Gcm), 1)];
    let late = LateEngine::new(1);
    let mut submitter = submitter::<()>(&late, 1);
    let mut work = random_work(&sessions, 2, 100, 1);
    let first = copy_of(&work);
    submitter.run(&mut work);
    // The same bytes under the same nonce may run any number of times.
    let mut again = copy_of(&first);
    submitter.run(&mut again);
    assert!(again.buffer.bytes() == work.buffer.bytes());
    // A text that is already sealed is another text.
    work.jobs.iter_mut().for_each(|job| job.status = JobStatus::Pending);
    submitter.run(&mut work);
}

/// A queue that has nothing under way finds the workers' queue full of others' work, and is woken nevertheless.
#[test]
fn an_asker_waits_for_room_that_others_have() {
    let one = NonZeroUsize::MIN;
    let lanes = Lanes::new(Kernels::best(), one, one).unwrap();
    let sessions = [session(Implementations::default(), ESP_CBC, 1)];
    thread::scope(|scope| {
        for asker in 0..4 {
            let (lanes, sessions) = (&lanes, &sessions);
            scope.spawn(move || {
                let mut submitter = submitter(lanes, 2);
                for turn in 0..200 {
                    (0..3).for_each(|_| submitter.submit(random_work(sessions, 3, 400, turn), asker));
                    while submitter.wait().is_some() {}
                }
            });
        }
    });
}

/// An engine derives its data from a session once, and not before a job comes; other engines derive their own.
#[test]
fn engines_make_of_a_session_what_they_need_once() {
    struct Handle(Arc<AtomicU64>, u64);
    impl Drop for Handle {
        fn drop(&mut self) {
            self.0.fetch_sub(1, Relaxed);
        }
    }
    let open = Arc::new(AtomicU64::new(0));
    let session = session(Implementations::default(), ESP_CBC, 1);
    let makers = [(); 3].map(|()| Maker::new());
    let handle = |number: u64| {
        let make = |made_of: &Session| {
            assert_eq!(made_of.protection(), ESP_CBC);
            open.fetch_add(1, Relaxed);
            Handle(Arc::clone(&open), number)
        };
        session.made(makers[number as usize], make).1
    };
    thread::scope(|scope| {
        for lane in 0..4 {
            let handle = &handle;
            scope.spawn(move || {
                (0..300).for_each(|turn| assert_eq!(handle((turn + lane) % 3), (turn + lane) % 3))
            });
        }
    });
    assert_eq!(open.load(Relaxed), 3);
    drop(session);
    assert_eq!(open.load(Relaxed), 0, "what was made ends with the session");
}

#[test]
fn queues_are_bounded_and_hand_everything_back() {
    for engine in engines() {
        no_more_than_its_depth_is_held(&*engine);
    }
}

#[test]
fn a_queue_outlives_its_engine() {
    let two = NonZeroUsize::new(2).unwrap();
    let mut queue = Lanes::new(Kernels::best(), two, two).unwrap().queue(two).unwrap();
    let work =
        run_on(&mut *queue, random_work(&[session(Implementations::default(), ESP_CBC, 1)], 4, 100, 1));
    assert_eq!(work.pending(), 0);
}

#[test]
fn every_protection_has_a_cost() {
    for engine in engines() {
        for protection in [ESP_CBC, Protection::Aead(Aead::Aes128Gcm), SHA256_128] {
            let cost = engine.cost(protection).unwrap();
            // On a busy machine, a line through two measured points may be flat.
            assert!(cost.fixed_ns >= 0.0 && cost.byte_ns >= 0.0 && cost.job_ns(100) > 0.0, "{cost:?}");
            assert_eq!(engine.cost(protection), Some(cost), "it is measured once");
        }
    }
}

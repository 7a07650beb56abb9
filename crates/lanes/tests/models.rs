//! Explores interleavings of flow, bells and shutdown, compiled from the crate's own sources with
//! [shuttle](https://github.com/awslabs/shuttle)'s threads, locks and atomics. A lost wake-up appears as a deadlock.

#![allow(dead_code, unreachable_pub, reason = "of the sources only what the models call is used")]

#[path = "../src/bells.rs"]
mod bells;
#[path = "../src/flow.rs"]
mod flow;
#[path = "../src/lane_loop.rs"]
mod lane_loop;
#[path = "../src/order.rs"]
mod order;
#[path = "../src/stop.rs"]
mod stop;

/// Replaces `src/sync.rs` of the crate.
mod sync {
    use std::{io, os::fd::BorrowedFd, time::Duration};

    use rustix::event::PollFd;
    use shuttle::sync::Condvar;
    pub(crate) use shuttle::sync::{
        Mutex, MutexGuard,
        atomic::{AtomicBool, AtomicU64, Ordering::SeqCst},
    };

    #[derive(Debug)]
    pub(crate) struct Signal {
        rung: Mutex<bool>,
        wake: Condvar,
    }

    impl Signal {
        pub(crate) fn new() -> io::Result<Self> {
            Ok(Self { rung: Mutex::new(false), wake: Condvar::new() })
        }

        pub(crate) fn ring(&self) {
            *self.rung.lock().unwrap() = true;
            self.wake.notify_one();
        }

        pub(crate) fn clear(&self) {
            *self.rung.lock().unwrap() = false;
        }

        pub(crate) fn fd(&self) -> BorrowedFd<'_> {
            unreachable!("models have no descriptors")
        }

        /// Waits for ever, regardless of the timeout, so that an error that only a timeout would repair appears.
        pub(crate) fn wait<'a>(&'a self, _: &mut Vec<PollFd<'a>>, _: Duration) -> io::Result<bool> {
            let mut rung = self.rung.lock().unwrap();
            while !*rung {
                rung = self.wake.wait(rung).unwrap();
            }
            *rung = false;
            Ok(true)
        }
    }
}

use std::{collections::VecDeque, sync::Arc, time::Duration};

use bells::Bells;
use flow::{Flow, Refused, Ticket};
use lane_loop::{LaneWork, Turn, run_lane};
use order::OrderRing;
use rustix::event::PollFd;
use shuttle::{sync::Mutex, thread};
use stop::Stop;

const SCHEDULES: usize = 300;

type Numbers = Flow<u64, u64, Vec<u64>>;

/// Takes numbers until none are left, as lanes of `packet` placement do.
fn lane(flow: &Numbers, last: u64) {
    loop {
        match flow.give(|next, _| (*next < last).then(|| std::mem::replace(next, *next + 1))) {
            Some((ticket, number)) => {
                thread::yield_now();
                flow.restore(ticket, number).unwrap();
                flow.drain(|_| true, |taken, number| taken.push(number));
            }
            None if flow.with_given(|next| *next == last) => return,
            None => thread::yield_now(),
        }
    }
}

#[test]
fn whatever_lanes_do_order_is_restored_and_nothing_stays_behind() {
    let model = || {
        let flow = Arc::new(Numbers::new(2, 0, Vec::new()));
        let lanes: Vec<_> = (0..3)
            .map(|_| {
                let flow = Arc::clone(&flow);
                thread::spawn(move || lane(&flow, 6))
            })
            .collect();
        lanes.into_iter().for_each(|lane| lane.join().unwrap());
        // No lane looks again: the lane that brought the last item, or another one that was draining then, has taken
        // it.
        flow.with_restored(|taken| assert_eq!(*taken, [0, 1, 2, 3, 4, 5]));
    };
    shuttle::check_random(model, SCHEDULES);
    shuttle::check_pct(model, SCHEDULES, 3);
}

#[test]
fn what_was_given_before_a_cut_never_leaves_after_it_and_is_never_lost() {
    type Cut = Flow<(), Ticket, Vec<Ticket>>;
    let model = || {
        let flow = Arc::new(Cut::new(2, (), Vec::new()));
        let lost = Arc::new(Mutex::new(0));
        let lanes: Vec<_> = (0..2)
            .map(|_| {
                let (flow, lost) = (Arc::clone(&flow), Arc::clone(&lost));
                thread::spawn(move || {
                    let mut given = 0;
                    for _ in 0..4 {
                        let Some((ticket, ())) = flow.give(|_, _| Some(())) else { continue };
                        given += 1;
                        match flow.restore(ticket, ticket) {
                            Ok(()) => {}
                            Err(Refused::Stale(_)) => *lost.lock().unwrap() += 1,
                            Err(Refused::Misplaced(ticket)) => panic!("{ticket:?} is its own place"),
                        }
                        flow.drain(|_| true, |taken, ticket| taken.push(ticket));
                    }
                    given
                })
            })
            .collect();
        let before = flow.cut(|(), taken, waiting| taken.len() + waiting.len());
        let back = flow.with_restored(|taken| before - taken.len());
        let generation = flow.open(|(), _| {});
        assert_eq!(generation, 1);
        let given: usize = lanes.into_iter().map(|lane| lane.join().unwrap()).sum();
        let lost = *lost.lock().unwrap();
        flow.with_restored(|taken| {
            assert!(taken.is_sorted(), "{taken:?}");
            assert_eq!(given, taken.len() + back + lost, "{taken:?}, {back} came back, {lost} were refused");
        });
    };
    shuttle::check_random(model, SCHEDULES);
}

/// Counts a place that is given.
fn count(given: &mut u64, _: Ticket) -> Option<u64> {
    *given += 1;
    Some(*given)
}

#[test]
fn whoever_visits_last_has_looked_at_all_there_is() {
    // The number of items taken, and their number at the last look.
    type Counted = Flow<u64, (), (u64, u64)>;
    let model = || {
        let flow = Arc::new(Counted::new(2, 0, (0, 0)));
        let lanes: Vec<_> = (0..2)
            .map(|_| {
                let flow = Arc::clone(&flow);
                thread::spawn(move || {
                    for _ in 0..2 {
                        let Some((ticket, _)) = flow.give(count) else { continue };
                        flow.restore(ticket, ()).unwrap();
                        flow.visit(
                            |_| true,
                            |counts, ()| counts.0 += 1,
                            |(taken, seen)| {
                                thread::yield_now();
                                *seen = *taken;
                            },
                        );
                    }
                })
            })
            .collect();
        lanes.into_iter().for_each(|lane| lane.join().unwrap());
        let given = flow.with_given(|given| *given);
        flow.with_restored(|counts| assert_eq!(*counts, (given, given)));
    };
    shuttle::check_random(model, SCHEDULES);
    shuttle::check_pct(model, SCHEDULES, 3);
}

#[test]
fn what_is_out_when_a_flow_closes_still_leaves_and_nothing_comes_after_it() {
    type Counted = Flow<u64, (), u64>;
    let model = || {
        let flow = Arc::new(Counted::new(2, 0, 0));
        let lanes: Vec<_> = (0..2)
            .map(|_| {
                let flow = Arc::clone(&flow);
                thread::spawn(move || {
                    for _ in 0..3 {
                        let Some((ticket, _)) = flow.give(count) else { continue };
                        thread::yield_now();
                        flow.restore(ticket, ()).unwrap();
                        flow.drain(|_| true, |taken, ()| *taken += 1);
                    }
                })
            })
            .collect();
        let given = flow.close(|given| *given);
        while flow.out() > 0 {
            thread::yield_now();
        }
        flow.with_restored(|taken| assert_eq!(*taken, given));
        assert!(!flow.has_room());
        assert_eq!(flow.open(|given, taken| assert_eq!(given, taken)), 0);
        lanes.into_iter().for_each(|lane| lane.join().unwrap());
        let given = flow.with_given(|given| *given);
        flow.with_restored(|taken| assert_eq!(*taken, given));
    };
    shuttle::check_random(model, SCHEDULES);
}

/// Takes items from the queue until it has taken `wanted` of them.
struct Consumer<'a> {
    queue: &'a Mutex<VecDeque<u32>>,
    taken: u32,
    wanted: u32,
}

impl LaneWork for Consumer<'_> {
    fn step(&mut self) -> Turn {
        if self.taken == self.wanted {
            return Turn::Done;
        }
        let Some(_) = self.queue.lock().unwrap().pop_front() else { return Turn::Idle };
        self.taken += 1;
        Turn::Moved
    }

    fn wait_for<'a>(&'a mut self, _: &mut Vec<PollFd<'a>>) -> Duration {
        Duration::MAX
    }
}

#[test]
fn a_ring_is_never_lost() {
    let model = || {
        let bells = Arc::new(Bells::new(1).unwrap());
        let queue = Arc::new(Mutex::new(VecDeque::new()));
        let producers: Vec<_> = (0..2)
            .map(|_| {
                let (bells, queue) = (Arc::clone(&bells), Arc::clone(&queue));
                thread::spawn(move || {
                    for item in 0..3 {
                        queue.lock().unwrap().push_back(item);
                        bells.ring();
                    }
                })
            })
            .collect();
        let mut work = Consumer { queue: &queue, taken: 0, wanted: 6 };
        run_lane(0, &bells, &Stop::<()>::new(), &mut work);
        producers.into_iter().for_each(|producer| producer.join().unwrap());
    };
    shuttle::check_random(model, SCHEDULES);
    shuttle::check_pct(model, SCHEDULES, 3);
}

#[test]
fn a_stop_ends_every_lane_and_the_first_reason_counts() {
    let model = || {
        let bells = Arc::new(Bells::new(3).unwrap());
        let stop = Arc::new(Stop::<&'static str>::new());
        let lanes: Vec<_> = (0..3)
            .map(|lane| {
                let (bells, stop) = (Arc::clone(&bells), Arc::clone(&stop));
                thread::spawn(move || {
                    if lane == 2 {
                        stop.fail("first", &bells);
                        stop.fail("second", &bells);
                    }
                    let queue = Mutex::new(VecDeque::new());
                    run_lane(lane, &bells, &stop, &mut Consumer { queue: &queue, taken: 0, wanted: 1 });
                })
            })
            .collect();
        lanes.into_iter().for_each(|lane| lane.join().unwrap());
        assert_eq!(stop.reason(), Some("first"));
    };
    shuttle::check_random(model, SCHEDULES);
}

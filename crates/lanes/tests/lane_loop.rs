//! Tests of the lane loop, with real bells.

use std::{sync::atomic::AtomicBool, sync::atomic::Ordering::SeqCst, thread, time::Duration};

use rustix::event::PollFd;
use sealane_lanes::{Bells, LaneWork, Stop, Turn, run_lane};

/// Is idle until `wake` is set; counts the sleeps that were not interrupted.
struct Sleeper<'a> {
    wake: &'a AtomicBool,
    asleep: &'a AtomicBool,
    slept_out: usize,
}

impl LaneWork for Sleeper<'_> {
    fn step(&mut self) -> Turn {
        if self.wake.load(SeqCst) { Turn::Done } else { Turn::Idle }
    }

    fn wait_for<'a>(&'a mut self, _: &mut Vec<PollFd<'a>>) -> Duration {
        self.asleep.store(true, SeqCst);
        Duration::MAX
    }

    fn slept_out(&mut self) {
        self.slept_out += 1;
    }
}

#[test]
fn a_ring_wakes_a_lane_and_a_stop_ends_it() {
    let (bells, stop) = (Bells::new(2).unwrap(), Stop::<()>::new());
    let (wake, asleep, never) = (AtomicBool::new(false), AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        let woken = scope.spawn(|| {
            let mut work = Sleeper { wake: &wake, asleep: &asleep, slept_out: 0 };
            run_lane(0, &bells, &stop, &mut work);
        });
        let stopped = scope.spawn(|| {
            let mut work = Sleeper { wake: &never, asleep: &AtomicBool::new(false), slept_out: 0 };
            run_lane(1, &bells, &stop, &mut work);
        });
        while !asleep.load(SeqCst) {
            thread::yield_now();
        }
        wake.store(true, SeqCst);
        bells.ring();
        woken.join().unwrap();
        assert!(!stop.is_set());
        stop.finish(&bells);
        stopped.join().unwrap();
    });
}

/// A lane that is awake when a wake-up comes after its announcement has an unread count in its bell. It must not spin
/// because of it.
#[test]
fn a_ring_that_found_the_lane_awake_does_not_keep_it_from_sleeping() {
    let bells = Bells::new(1).unwrap();
    bells.announce(0);
    bells.ring();
    // The lane found work meanwhile, did it, and goes to sleep: it wakes once without need, because of the old
    // wake-up, but not again.
    bells.announce(0);
    bells.sleep(0, &mut Vec::new(), Duration::from_millis(1));
    bells.announce(0);
    assert!(!bells.sleep(0, &mut Vec::new(), Duration::from_millis(1)), "nobody has rung since");
}

//! Models lanes that share one lock, event by event.
//!
//! A lane does a batch's free work, then takes its turn at the lock, then begins the next batch. The additional cost
//! of the lock if another lane held it last (its lines are in that lane's cache) is the hand-over, and the additional
//! cost of free work for the same reason is the spread. Guarantees: the same figures give the same prediction.

use super::STACKS;
use super::rig::{Direction, Setup};
use crate::experiment::{Cell, RATE};
use crate::rng::Rng;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The cost of a message in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Costs {
    /// Work that any lane may do at any time.
    pub(super) free_ns: f64,
    /// Work in the lock.
    pub(super) locked_ns: f64,
    /// The additional cost of a turn after another lane's.
    pub(super) hand_over_ns: f64,
    /// The spread: the additional cost of free work that is shared by two lanes: a packet's bytes, its batch and the
    /// places in the order are then in the other's cache half of the time, with more lanes more often.
    pub(super) spread_ns: f64,
}

/// Messages per batch, the same as in the drivers.
const BATCH: f64 = super::driver::SEGMENTS as f64;
/// Batches that are simulated.
const BATCHES: usize = 20_000;
/// The relative variation of a batch's free work, in either direction.
const VARIATION: f64 = 0.1;

impl Costs {
    /// Returns the messages per second on `lanes` lanes.
    pub(super) fn per_second(self, lanes: usize) -> f64 {
        let lanes = lanes.max(1);
        let mut rng = Rng::new(lanes as u64);
        // It is half of the time with two lanes, as measured; n - 1 of n times with n.
        let free_ns = self.free_ns + self.spread_ns * 2.0 * (lanes - 1) as f64 / lanes as f64;
        let mut free = || {
            let share = rng.below(2001) as f64 / 1000.0 - 1.0;
            free_ns * BATCH * (1.0 + VARIATION * share)
        };
        // The time at which each lane arrives at the lock, in thousandths of a nanosecond, so that times are ordered.
        let mut arrivals: BinaryHeap<Reverse<(u64, usize)>> =
            (0..lanes).map(|lane| Reverse(((free() * 1e3) as u64, lane))).collect();
        let (mut open_at, mut holder) = (0.0_f64, usize::MAX);
        for _ in 0..BATCHES {
            let Some(Reverse((arrival, lane))) = arrivals.pop() else { break };
            let hand_over = if holder == lane || holder == usize::MAX { 0.0 } else { self.hand_over_ns };
            let begin = open_at.max(arrival as f64 / 1e3);
            open_at = begin + (self.locked_ns + hand_over) * BATCH;
            holder = lane;
            arrivals.push(Reverse((((open_at + free()) * 1e3) as u64, lane)));
        }
        BATCHES as f64 * BATCH / (open_at / 1e9)
    }

    /// Returns the rate of `lanes` lanes relative to one lane.
    pub(super) fn speedup(self, lanes: usize) -> f64 {
        self.per_second(lanes) / self.per_second(1)
    }

    /// Returns the maximum rate of any number of lanes, relative to one lane.
    pub(super) fn cap(self) -> f64 {
        (self.free_ns + self.locked_ns) / (self.locked_ns + self.hand_over_ns)
    }
}

/// The additional cost of a message on two lanes that share a connection over two that do not, from the stack without
/// security: TCP/IP.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sharing {
    hand_over_ns: f64,
    spread_ns: f64,
}

/// Returns the nanoseconds of one lane per message.
fn message_ns(cell: &Cell, lanes: usize, message_bytes: usize) -> f64 {
    lanes as f64 * message_bytes as f64 * 1e3 / cell.figure(RATE).unwrap_or(0.0).max(1e-9)
}

fn locked_ns(cell: &Cell) -> f64 {
    cell.figure("locked_ns").unwrap_or(0.0)
}

impl Sharing {
    /// Returns the setups of two lanes that share one connection, and of two that have one each.
    pub(super) fn setups(direction: Direction) -> [Setup; 2] {
        let bare = Setup::new(STACKS[0], direction, None);
        [Setup { lanes: 2, ..bare.clone() }, Setup { is_apart: true, connections: 2, ..bare }]
    }

    /// Returns the costs from the cells of these setups.
    pub(super) fn of(shared: &Cell, apart: &Cell, message_bytes: usize) -> Self {
        let hand_over_ns = (locked_ns(shared) - locked_ns(apart)).max(0.0);
        let [together, alone] = [shared, apart].map(|cell| message_ns(cell, 2, message_bytes));
        Self { hand_over_ns, spread_ns: (together - alone - hand_over_ns).max(0.0) }
    }

    /// Returns the costs of a stack's messages, from its independent lanes.
    pub(super) fn costs(self, apart: &Cell, lanes: usize, message_bytes: usize) -> Costs {
        let Self { hand_over_ns, spread_ns } = self;
        let locked_ns = locked_ns(apart);
        let free_ns = (message_ns(apart, lanes, message_bytes) - locked_ns).max(0.0);
        Costs { free_ns, locked_ns, hand_over_ns, spread_ns }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn costs(free_ns: f64, locked_ns: f64) -> Costs {
        Costs { free_ns, locked_ns, hand_over_ns: 0.0, spread_ns: 0.0 }
    }

    #[test]
    fn what_has_no_lock_scales_and_what_is_all_lock_does_not() {
        assert!((costs(1000.0, 0.0).speedup(16) - 16.0).abs() < 0.2);
        assert!((costs(0.0, 1000.0).speedup(16) - 1.0).abs() < 0.01);
    }

    #[test]
    fn the_cap_is_reached_and_not_passed() {
        let costs = costs(900.0, 100.0);
        assert!((costs.cap() - 10.0).abs() < 1e-9);
        assert!(costs.speedup(64) <= 10.05 && costs.speedup(64) > 9.8, "{}", costs.speedup(64));
        assert!(costs.speedup(4) > 3.8);
        let spread = Costs { spread_ns: 100.0, ..costs };
        assert!((spread.per_second(2) / costs.per_second(2) - 1000.0 / 1100.0).abs() < 0.02);
        assert!((spread.per_second(1) - costs.per_second(1)).abs() < 1e-6);
        let dear = Costs { hand_over_ns: 100.0, ..costs };
        assert!((dear.cap() - 5.0).abs() < 1e-9 && dear.speedup(64) < 5.05);
    }
}

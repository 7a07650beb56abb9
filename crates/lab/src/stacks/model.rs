//! Models lanes that share one lock, event by event.
//!
//! A lane does a batch's free work, then takes its turn at the lock, then begins the next batch. The additional cost
//! of the lock if another lane held it last (its lines are in that lane's cache) is the hand-over, and the additional
//! cost of free work for the same reason is the spread. Guarantees: the same figures give the same prediction; a fit reads no
//! figure of more lanes than [`FITTED_MAX`]; lanes without a connection add nothing.

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
        self.rate_in(BATCHES, lanes)
    }

    /// Returns the cost of free work on `lanes` lanes.
    fn free_ns_on(self, lanes: usize) -> f64 {
        // A packet's lines are another's half of the time with two lanes, n - 1 of n times with n.
        (self.free_ns + self.spread_ns * 2.0 * (lanes - 1) as f64 / lanes as f64).max(0.0)
    }

    fn rate_in(self, batches: usize, lanes: usize) -> f64 {
        let lanes = lanes.max(1);
        let mut rng = Rng::new(lanes as u64);
        let free_ns = self.free_ns_on(lanes);
        let mut free = || {
            let share = rng.below(2001) as f64 / 1000.0 - 1.0;
            free_ns * BATCH * (1.0 + VARIATION * share)
        };
        // The time at which each lane arrives at the lock, in thousandths of a nanosecond, so that times are ordered.
        let mut arrivals: BinaryHeap<Reverse<(u64, usize)>> =
            (0..lanes).map(|lane| Reverse(((free() * 1e3) as u64, lane))).collect();
        let (mut open_at, mut holder) = (0.0_f64, usize::MAX);
        for _ in 0..batches {
            let Some(Reverse((arrival, lane))) = arrivals.pop() else { break };
            let hand_over = if holder == lane || holder == usize::MAX { 0.0 } else { self.hand_over_ns };
            let begin = open_at.max(arrival as f64 / 1e3);
            open_at = begin + (self.locked_ns + hand_over) * BATCH;
            holder = lane;
            arrivals.push(Reverse((((open_at + free()) * 1e3) as u64, lane)));
        }
        batches as f64 * BATCH / (open_at / 1e9)
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

/// The most lanes to which the model is fitted. What it says of more is tested where they are measured.
pub(super) const FITTED_MAX: usize = 4;
/// The number of times the measured lanes beyond which the model is not asked.
pub(super) const BEYOND_MAX: usize = 4;
/// The range of the spread that a fit looks through, relative to a message's whole cost: lanes may help each other's caches.
const SPREADS: (f64, f64) = (-0.5, 4.0);
/// The halvings of that range: to a thousandth of the cost.
const HALVINGS: usize = 24;
/// The batches that are simulated for each step of a fit.
const FIT_BATCHES: usize = 2_000;

/// The model of a stack's lanes, fitted to the rates of few.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fit {
    pub(super) costs: Costs,
    /// The number of connections if each has one lane: more lanes have nothing to do. `None` if all lanes share one connection.
    connections: Option<usize>,
}

impl Fit {
    /// Fits the model to messages per second by lanes, of which those beyond [`FITTED_MAX`] are not read, and to the
    /// nanoseconds of a message's turn by lanes. `None` without one lane.
    pub(super) fn of(
        rates: &[(usize, f64)],
        turns_ns: &[(usize, f64)],
        connections: Option<usize>,
    ) -> Option<Self> {
        let at_one =
            |points: &[(usize, f64)]| points.iter().find(|(lanes, _)| *lanes == 1).map(|(_, figure)| *figure);
        let total_ns = 1e9 / at_one(rates).filter(|rate| *rate > 0.0)?;
        let locked_ns = at_one(turns_ns).unwrap_or(0.0).min(total_ns);
        let is_fitted = |(lanes, _): &&(usize, f64)| (2..=FITTED_MAX).contains(lanes);
        // The longest turn among few lanes: each has the lock from another's cache.
        let turn_ns = turns_ns.iter().filter(is_fitted).map(|(_, turn)| *turn).fold(locked_ns, f64::max);
        let costs = Costs {
            free_ns: total_ns - locked_ns,
            locked_ns,
            hand_over_ns: turn_ns - locked_ns,
            spread_ns: 0.0,
        };
        let fitted: Vec<(usize, f64)> = rates.iter().filter(is_fitted).copied().collect();
        let with = |spread: f64| Self { costs: Costs { spread_ns: spread * total_ns, ..costs }, connections };
        if fitted.is_empty() {
            return Some(with(0.0));
        }
        let miss = |spread: f64| -> f64 {
            let miss = |(lanes, rate): &(usize, f64)| {
                (with(spread).rate_in(FIT_BATCHES, *lanes) / rate).ln().powi(2)
            };
            fitted.iter().map(miss).sum()
        };
        let (mut low, mut high) = SPREADS;
        for _ in 0..HALVINGS {
            let third = (high - low) / 3.0;
            // The least spread is as good as any other where the lock alone decides.
            if miss(low + third) <= miss(high - third) { high -= third } else { low += third }
        }
        Some(with((low + high) / 2.0))
    }

    /// Returns the messages per second on `lanes` lanes.
    pub(super) fn per_second(self, lanes: usize) -> f64 {
        self.rate_in(BATCHES, lanes)
    }

    fn rate_in(self, batches: usize, lanes: usize) -> f64 {
        let Some(connections) = self.connections else { return self.costs.rate_in(batches, lanes) };
        let lanes = lanes.clamp(1, connections.max(1));
        let Costs { locked_ns, .. } = self.costs;
        lanes as f64 * 1e9 / (self.costs.free_ns_on(lanes) + locked_ns).max(1e-3)
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

    fn rates(fit: Fit) -> Vec<(usize, f64)> {
        [1, 2, 4, 8, 16].map(|lanes| (lanes, fit.per_second(lanes))).to_vec()
    }

    /// A stack that is as the model has it is found again from its few lanes, and so is its rate on many.
    #[test]
    fn a_fit_to_few_lanes_finds_the_costs() {
        for spread_ns in [0.0, 150.0] {
            let costs = Costs { free_ns: 900.0, locked_ns: 50.0, hand_over_ns: 30.0, spread_ns };
            let truth = Fit { costs, connections: None };
            let turns = [(1, 50.0), (2, 80.0), (4, 80.0), (8, 80.0), (16, 80.0)];
            let fit = Fit::of(&rates(truth), &turns, None).unwrap();
            assert!((fit.costs.spread_ns - spread_ns).abs() < 20.0, "{fit:?}");
            assert!((fit.per_second(16) / truth.per_second(16) - 1.0).abs() < 0.05, "{fit:?}");
        }
    }

    /// A fit that had read the rates of more lanes could not be tested by them.
    #[test]
    fn a_fit_does_not_read_what_tests_it() {
        let costs = Costs { free_ns: 900.0, locked_ns: 50.0, hand_over_ns: 30.0, spread_ns: 0.0 };
        let mut rates = rates(Fit { costs, connections: None });
        let turns = [(1, 50.0), (2, 80.0), (4, 80.0), (16, 80.0)];
        let before = Fit::of(&rates, &turns, None).unwrap();
        rates.iter_mut().filter(|(lanes, _)| *lanes > FITTED_MAX).for_each(|(_, rate)| *rate /= 3.0);
        let after = Fit::of(&rates, &[turns[0], turns[1], turns[2], (16, 800.0)], None).unwrap();
        assert_eq!(before.costs, after.costs);
        assert!(Fit::of(&rates[1..], &turns, None).is_none());
    }

    /// Sixteen lanes serve twelve connections as twelve do.
    #[test]
    fn lanes_without_a_connection_add_nothing() {
        let rates = [(1, 1e6), (2, 2e6), (4, 3.9e6)];
        let fit = Fit::of(&rates, &[(1, 50.0)], Some(12)).unwrap();
        assert_eq!(fit.per_second(16), fit.per_second(12));
        assert!((fit.per_second(12) / 11.6e6 - 1.0).abs() < 0.04, "{}", fit.per_second(12));
    }
}

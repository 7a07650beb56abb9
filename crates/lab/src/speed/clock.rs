//! Measures rates by alternating slices.
//!
//! Our kernel and the peer's take turns in short slices, on every lane at the same time, and the median slice counts:
//! long disturbances affect both sides, and short ones are excluded. By the rule of a paper the slices are long runs,
//! each warmed up, and their mean counts.

use super::work::{Done, Handler, Runner, Share};
use super::{Rule, SpeedError};
use crate::experiment::{RESAMPLING_SEED, Runs};
use crate::load::{LOST_MAX, thread_waited_seconds};
use crate::stats::{CONFIDENCE, Interval, mean, mean_interval, median, median_interval};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// The length of a slice: long enough that the cost of a common start of all lanes is negligible, short enough to
/// have many.
const SLICE_SECONDS: f64 = 0.01;
/// The number of slices of each side; they are shortened if necessary.
const SLICES: std::ops::RangeInclusive<usize> = 5..=201;
/// The time between two readings of the clock.
const CHECK: Duration = Duration::from_micros(50);

/// The result of one side.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Pace {
    /// The rate of all lanes together.
    pub(super) mb_per_s: f64,
    /// The interval of the rate, if it is a mean.
    pub(super) interval: Option<Interval>,
    /// The interval of the rate over the slices of this run, a mean or a median.
    pub(super) spread: Option<Interval>,
    /// The messages of all lanes together.
    pub(super) messages_per_s: f64,
    /// The interval of their rate, if it is a mean.
    pub(super) messages_interval: Option<Interval>,
    /// The time of one lane.
    pub(super) ns_per_message: f64,
    /// The slices.
    pub(super) runs: Runs,
}

/// Lanes that start each slice together.
pub(super) struct Gate {
    lanes: usize,
    arrived: AtomicUsize,
    generation: AtomicUsize,
    is_closed: AtomicBool,
}

impl Gate {
    pub(super) fn new(lanes: usize) -> Self {
        Self {
            lanes,
            arrived: AtomicUsize::new(0),
            generation: AtomicUsize::new(0),
            is_closed: AtomicBool::new(false),
        }
    }

    /// Waits for all lanes; returns `false` once a lane has left.
    pub(super) fn pass(&self) -> bool {
        if self.is_closed.load(Ordering::Acquire) {
            return false;
        }
        let generation = self.generation.load(Ordering::Acquire);
        if self.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.lanes {
            self.arrived.store(0, Ordering::Release);
            self.generation.fetch_add(1, Ordering::AcqRel);
            return true;
        }
        for spins in 0_u32.. {
            if self.generation.load(Ordering::Acquire) != generation {
                return true;
            }
            if self.is_closed.load(Ordering::Acquire) {
                return false;
            }
            if spins > 1000 {
                thread::yield_now();
            }
            std::hint::spin_loop();
        }
        true
    }
}

/// Closes the gate when dropped, so that no lane waits for one that has ended, for any reason.
pub(super) struct Leave<'a>(pub(super) &'a Gate);

impl Drop for Leave<'_> {
    fn drop(&mut self) {
        self.0.is_closed.store(true, Ordering::Release);
    }
}

/// The counts of one lane in one slice.
#[derive(Clone, Copy, Debug)]
struct Slice {
    start: Instant,
    end: Instant,
    done: Done,
    /// Others ran in the lane's place.
    is_disturbed: bool,
}

/// Returns the number of a side's slices, the time for which each warms up, and its length.
fn timing(rule: Rule) -> (usize, Duration, Duration) {
    let duration = Duration::from_secs_f64;
    match rule {
        Rule::Slices { seconds } => {
            let count = ((seconds / SLICE_SECONDS) as usize).clamp(*SLICES.start(), *SLICES.end());
            (count, Duration::ZERO, duration(seconds / count as f64))
        }
        Rule::Runs { count, warm_up_seconds, seconds } => {
            (count, duration(warm_up_seconds), duration(seconds))
        }
    }
}

/// Measures `ours` and, if there is one, the peer by a rule, in `lanes` threads. Returns `None` after `stop`.
pub(super) fn alternate<T: Share>(
    ours: &dyn Runner<T>,
    peer: Option<&dyn Runner<T>>,
    task: &T,
    lanes: usize,
    rule: Rule,
    stop: &AtomicBool,
) -> Result<Option<(Pace, Option<Pace>)>, SpeedError> {
    let (count, warm_up, slice) = timing(rule);
    let gate = Gate::new(lanes);
    let lane = |index: usize| -> Result<[Vec<Slice>; 2], SpeedError> {
        let _leave = Leave(&gate);
        let task = task.of_lane(index);
        let mut slices = [Vec::with_capacity(count), Vec::with_capacity(count)];
        let mut take = |ours: &mut Handler<'_>, mut peer: Option<&mut Handler<'_>>| {
            let checks = [calls_between_checks(ours), peer.as_deref_mut().map_or(1, calls_between_checks)];
            // Lanes start each slice together. If one lane is missing, there is no slice.
            let one = |work: &mut Handler<'_>, calls: u32| -> Option<Slice> {
                if !warm_up.is_zero() {
                    gate.pass().then(|| run(work, warm_up, calls, stop))?;
                }
                gate.pass().then(|| run(work, slice, calls, stop))
            };
            while slices[0].len() < count && !stop.load(Ordering::Relaxed) {
                let Some(own) = one(ours, checks[0]) else { break };
                slices[0].push(own);
                let Some(peer) = peer.as_deref_mut() else { continue };
                let Some(theirs) = one(peer, checks[1]) else { break };
                slices[1].push(theirs);
            }
        };
        match peer {
            None => ours.with(&task, &mut |ours| take(ours, None))?,
            Some(peer) => {
                let mut inner = Ok(());
                ours.with(&task, &mut |ours| inner = peer.with(&task, &mut |peer| take(ours, Some(peer))))?;
                inner?;
            }
        }
        Ok(slices)
    };
    let results: Vec<Result<[Vec<Slice>; 2], SpeedError>> = if lanes == 1 {
        vec![lane(0)]
    } else {
        thread::scope(|scope| {
            let handles: Vec<_> = (0..lanes)
                .map(|index| {
                    let lane = &lane;
                    let name = thread::Builder::new().name(format!("lane {index}"));
                    name.spawn_scoped(scope, move || lane(index))
                })
                .collect();
            let mut results = Vec::with_capacity(lanes);
            for handle in handles {
                results.push(match handle {
                    Ok(handle) => handle.join().unwrap_or(Err(SpeedError::LaneFailed)),
                    Err(_) => {
                        gate.is_closed.store(true, Ordering::Release);
                        Err(SpeedError::LaneFailed)
                    }
                });
            }
            results
        })
    };
    let lanes = results.into_iter().collect::<Result<Vec<_>, _>>()?;
    let pace = |side: usize| pace_of(&lanes.iter().map(|slices| &*slices[side]).collect::<Vec<_>>(), rule);
    let Some(own) = pace(0).filter(|_| !stop.load(Ordering::Relaxed)) else { return Ok(None) };
    Ok(Some((own, pace(1))))
}

/// Returns the medians, or by a paper's rule means, over slices of the work of all lanes, in the time from the first
/// lane's start to the last one's end: with more lanes than cores they run one after the other, and the sum of their
/// own rates would exceed that of the machine.
fn pace_of(lanes: &[&[Slice]], rule: Rule) -> Option<Pace> {
    let count = lanes.iter().map(|slices| slices.len()).min()?;
    let rates = |amount: fn(&Done) -> u64| -> Option<Vec<f64>> {
        (0..count).map(|slice| rate(lanes, slice, amount)).collect()
    };
    let is_mean = matches!(rule, Rule::Runs { .. });
    let (bytes, messages) = (rates(|done| done.bytes)?, rates(|done| done.messages)?);
    let centre = |rates: &[f64]| if is_mean { mean(rates) } else { median(rates) };
    let interval = |rates: &[f64]| mean_interval(rates, CONFIDENCE).filter(|_| is_mean);
    let spread = interval(&bytes).or_else(|| median_interval(&bytes, CONFIDENCE, RESAMPLING_SEED));
    // More lanes than processors disturb each other, which is what is measured.
    let are_alone = lanes.len() <= thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let is_disturbed = |slice: &usize| are_alone && lanes.iter().any(|slices| slices[*slice].is_disturbed);
    let runs = Runs { taken: count, disturbed: (0..count).filter(is_disturbed).count() };
    let megabytes = |Interval { low, high }: Interval| Interval { low: low / 1e6, high: high / 1e6 };
    let messages_per_s = centre(&messages)?;
    Some(Pace {
        mb_per_s: centre(&bytes)? / 1e6,
        interval: interval(&bytes).map(megabytes),
        spread: spread.map(megabytes),
        messages_per_s,
        messages_interval: interval(&messages),
        ns_per_message: lanes.len() as f64 * 1e9 / messages_per_s,
        runs,
    })
}

fn rate(lanes: &[&[Slice]], slice: usize, amount: fn(&Done) -> u64) -> Option<f64> {
    let start = lanes.iter().map(|slices| slices[slice].start).min()?;
    let end = lanes.iter().map(|slices| slices[slice].end).max()?;
    let total: u64 = lanes.iter().map(|slices| amount(&slices[slice].done)).sum();
    Some(total as f64 / (end - start).as_secs_f64())
}

fn run(work: &mut Handler<'_>, slice: Duration, calls_between_checks: u32, stop: &AtomicBool) -> Slice {
    let before = thread_waited_seconds();
    let start = Instant::now();
    let mut done = Done::default();
    loop {
        for _ in 0..calls_between_checks {
            done += work();
        }
        let end = Instant::now();
        if end - start >= slice || stop.load(Ordering::Relaxed) {
            let waited = before.and_then(|before| Some(thread_waited_seconds()? - before));
            let is_disturbed = waited.is_some_and(|waited| waited > LOST_MAX * (end - start).as_secs_f64());
            return Slice { start, end, done, is_disturbed };
        }
    }
}

/// Warms up, and determines the number of calls between two readings of the clock.
fn calls_between_checks(work: &mut Handler<'_>) -> u32 {
    let start = Instant::now();
    for calls in 1_u32..=1 << 16 {
        work();
        let spent = start.elapsed();
        if spent >= CHECK.saturating_mul(4) {
            return (calls / 4).max(1);
        }
    }
    1 << 14
}

#[cfg(test)]
mod tests {
    use super::super::work::Task;
    use super::*;

    const SHORT: Rule = Rule::Slices { seconds: 0.02 };
    const RUNS: Rule = Rule::Runs { count: 3, warm_up_seconds: 0.001, seconds: 0.002 };

    struct Steady(u64);

    impl Runner for Steady {
        fn with(&self, _: &Task, scope: &mut dyn FnMut(&mut Handler<'_>)) -> Result<(), SpeedError> {
            scope(&mut || {
                let start = Instant::now();
                while start.elapsed() < Duration::from_micros(self.0) {
                    std::hint::spin_loop();
                }
                Done { messages: 1, bytes: 1000 }
            });
            Ok(())
        }
    }

    struct Broken;

    impl Runner for Broken {
        fn with(&self, _: &Task, _: &mut dyn FnMut(&mut Handler<'_>)) -> Result<(), SpeedError> {
            Err(SpeedError::LaneFailed)
        }
    }

    fn task() -> Task {
        Task {
            algorithm: "md5".parse().unwrap(),
            direction: sealane_transform::Direction::Encrypt,
            lengths: vec![1000],
            batch: 1,
            keys: 1,
            seed: 1,
        }
    }

    #[test]
    fn both_sides_are_measured_and_told_apart() {
        let stop = AtomicBool::new(false);
        let (own, peer) =
            alternate(&Steady(20), Some(&Steady(80)), &task(), 1, Rule::Slices { seconds: 0.05 }, &stop)
                .unwrap()
                .unwrap();
        let ratio = own.mb_per_s / peer.unwrap().mb_per_s;
        assert!(ratio > 1.0, "{ratio}");
        // Messages have 1000 bytes, so both figures express the same rate.
        assert!((own.mb_per_s * own.ns_per_message / 1e6 - 1.0).abs() < 0.1);
    }

    #[test]
    fn lanes_add_up_and_a_lost_one_stops_the_others() {
        let stop = AtomicBool::new(false);
        let (own, peer) = alternate(&Steady(20), None, &task(), 3, SHORT, &stop).unwrap().unwrap();
        assert!(own.mb_per_s > 0.0 && peer.is_none());
        assert!(alternate(&Steady(20), Some(&Broken), &task(), 2, SHORT, &stop).is_err());
    }

    #[test]
    fn a_stop_is_no_result() {
        let stop = AtomicBool::new(true);
        assert!(
            alternate(&Steady(1), None, &task(), 1, Rule::Slices { seconds: 10.0 }, &stop).unwrap().is_none()
        );
    }

    /// Returns slices of these messages of 1000 bytes, each 10 ms long, the first after `from_ms`.
    fn slices(from_ms: u64, messages: &[u64]) -> Vec<Slice> {
        let zero = Instant::now();
        let at = |ms| zero + Duration::from_millis(ms);
        let slice = |(index, &messages): (usize, &u64)| {
            let from = from_ms + 100 * index as u64;
            Slice {
                start: at(from),
                end: at(from + 10),
                done: Done { messages, bytes: 1000 * messages },
                is_disturbed: false,
            }
        };
        messages.iter().enumerate().map(slice).collect()
    }

    #[test]
    fn medians_are_taken_over_slices_of_all_lanes() {
        let one = slices(0, &[10, 50, 20]);
        let pace = pace_of(&[&one, &one], SHORT).unwrap();
        let expected = Pace {
            mb_per_s: 4.0,
            interval: None,
            // Three slices give no interval of 90 %, but the range.
            spread: Some(Interval { low: 2.0, high: 10.0 }),
            messages_per_s: 4000.0,
            messages_interval: None,
            ns_per_message: 2.0 * 1e9 / 4000.0,
            runs: Runs { taken: 3, disturbed: 0 },
        };
        assert_eq!(pace, expected);
        let mut other = one.clone();
        other[1].is_disturbed = true;
        assert_eq!(
            pace_of(&[&one, &other], SHORT).map(|pace| pace.runs),
            Some(Runs { taken: 3, disturbed: 1 })
        );
        assert_eq!(pace_of(&[&[]], SHORT), None);
    }

    /// N25 requires the mean of the runs, and a 90 % interval by Student's t.
    #[test]
    fn means_are_taken_over_runs() {
        let one = slices(0, &[10, 50, 30]);
        let pace = pace_of(&[&one], RUNS).unwrap();
        assert_eq!((pace.mb_per_s, pace.ns_per_message), (3.0, 1e9 / 3000.0));
        // The deviation is 2, with two degrees of freedom.
        let half = 2.919_986 * 2.0 / 3.0_f64.sqrt();
        let Interval { low, high } = pace.interval.unwrap();
        assert!((low - (3.0 - half)).abs() < 1e-4 && (high - (3.0 + half)).abs() < 1e-4, "{low} {high}");
    }

    #[test]
    fn runs_are_warmed_up_on_every_lane() {
        let stop = AtomicBool::new(false);
        let (own, peer) =
            alternate(&Steady(20), Some(&Steady(20)), &task(), 2, RUNS, &stop).unwrap().unwrap();
        assert!(own.interval.is_some() && peer.unwrap().interval.is_some());
        assert!((RUNS.side_seconds() - 0.009).abs() < 1e-9);
    }

    /// This is the case of a machine with fewer cores than lanes.
    #[test]
    fn lanes_that_run_one_after_the_other_are_no_faster_than_one() {
        let one = slices(0, &[20, 20, 20]);
        let other: Vec<Slice> = one
            .iter()
            .map(|slice| Slice { start: slice.end, end: slice.end + (slice.end - slice.start), ..*slice })
            .collect();
        let alone = pace_of(&[&one], SHORT).unwrap();
        let together = pace_of(&[&one, &other], SHORT).unwrap();
        assert_eq!(together.mb_per_s, alone.mb_per_s);
        assert_eq!(together.ns_per_message, 2.0 * alone.ns_per_message);
    }
}

//! Counts of a queue: what was marked or lost, and how long packets waited.
//!
//! Guarantees: the lane that counts takes no lock, and allocates nothing; the times are those of the newest 10 to 20 seconds.

use std::{
    sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    time::{Duration, Instant},
};

use super::{fair::Fate, whole::Whole};

/// The time after which the older half of the times is forgotten.
const HALF: Duration = Duration::from_secs(10);
/// Times are told apart by an eighth of their powers of two, from this many nanoseconds on.
const LEAST_NS: u64 = 1024;
const PARTS: u64 = 8;
/// The powers of two that are told apart: the longest is about 4 s.
const POWERS: usize = 22;
const PLACES: usize = POWERS * PARTS as usize;

/// The counts of one direction.
#[derive(Debug)]
pub struct Counters {
    marked: AtomicU64,
    lost: AtomicU64,
    full: AtomicU64,
    /// The packets by the time that they waited, for this half and the one before.
    waited: [[AtomicU64; PLACES]; 2],
    /// The half that is counted in, and the time of its beginning in nanoseconds.
    half: AtomicUsize,
    half_ns: AtomicU64,
    begun: Instant,
}

/// Counts at one time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// GSO packets that CoDel marked.
    pub marked: u64,
    /// Packets that CoDel lost.
    pub lost: u64,
    /// Packets that were lost because the memory was full.
    pub full: u64,
    /// The time that half of the packets waited at most, and that 99 % did, in microseconds; `None` without packets.
    pub wait_us: Option<[u64; 2]>,
}

impl Default for Counters {
    fn default() -> Self {
        let zeros = || std::array::from_fn(|_| AtomicU64::new(0));
        Self {
            marked: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            full: AtomicU64::new(0),
            waited: [zeros(), zeros()],
            half: AtomicUsize::new(0),
            half_ns: AtomicU64::new(0),
            begun: Instant::now(),
        }
    }
}

/// Returns the place of a time.
fn place(ns: u64) -> usize {
    let ns = ns.max(LEAST_NS);
    let power = ns.ilog2();
    let part = (ns >> (power - PARTS.ilog2())) - PARTS;
    let place = u64::from(power - LEAST_NS.ilog2()) * PARTS + part;
    (place as usize).min(PLACES - 1)
}

/// Returns the longest time of a place in nanoseconds.
fn longest_ns(place: usize) -> u64 {
    let (power, part) = (place as u64 / PARTS, place as u64 % PARTS);
    (LEAST_NS << power) / PARTS * (PARTS + part + 1)
}

impl Counters {
    /// Adds packets of this fate.
    pub fn add(&self, fate: Fate, count: u64) {
        let counter = match fate {
            Fate::Marked => &self.marked,
            Fate::Lost => &self.lost,
            Fate::Full => &self.full,
        };
        counter.fetch_add(count, Relaxed);
    }

    /// Adds what became of a GSO packet.
    pub(super) fn met(&self, fate: Fate, whole: &Whole) {
        self.add(fate, if fate == Fate::Full { u64::from(whole.count - whole.next) } else { 1 });
    }

    /// Notes the time that packets waited.
    pub fn waited(&self, ns: u64) {
        self.waited[self.half.load(Relaxed) & 1][place(ns)].fetch_add(1, Relaxed);
    }

    /// Forgets the older times when it is time to.
    pub fn pass(&self) {
        let now = self.begun.elapsed();
        if now < Duration::from_nanos(self.half_ns.load(Relaxed)) + HALF {
            return;
        }
        self.half_ns.store(now.as_nanos() as u64, Relaxed);
        let next = self.half.load(Relaxed) + 1;
        self.waited[next & 1].iter().for_each(|count| count.store(0, Relaxed));
        self.half.store(next, Relaxed);
    }

    /// Returns the counts.
    pub fn read(&self) -> Counts {
        let count = |at: usize| self.waited.iter().map(|half| half[at].load(Relaxed)).sum::<u64>();
        let counts: [u64; PLACES] = std::array::from_fn(count);
        let all: u64 = counts.iter().sum();
        let quantile = |percent: u64| {
            let mut before = 0;
            let at = counts.iter().position(|count| {
                before += count;
                100 * before >= percent * all
            });
            longest_ns(at.unwrap_or(PLACES - 1)).div_ceil(1000)
        };
        Counts {
            marked: self.marked.load(Relaxed),
            lost: self.lost.load(Relaxed),
            full: self.full.load(Relaxed),
            wait_us: (all > 0).then(|| [quantile(50), quantile(99)]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_time_has_the_place_that_ends_behind_it() {
        for ns in (0..5_000_000u64).step_by(997).chain([u64::MAX, 1 << 40]) {
            let place = place(ns);
            assert!(place < PLACES);
            if ns < 1 << 31 {
                assert!(longest_ns(place) >= ns, "{ns}");
                assert!(ns < LEAST_NS || longest_ns(place) <= ns + ns / 8 + 1, "{ns}: {}", longest_ns(place));
            }
        }
    }

    #[test]
    fn quantiles_are_of_the_times() {
        let counters = Counters::default();
        assert_eq!(counters.read(), Counts::default());
        (1..=1000).for_each(|us| counters.waited(us * 1000));
        let [half, most] = counters.read().wait_us.expect("there are times");
        assert!((500..=565).contains(&half) && (990..=1120).contains(&most), "{half} {most}");
        counters.add(Fate::Lost, 3);
        assert_eq!((counters.read().lost, counters.read().marked), (3, 0));
    }
}

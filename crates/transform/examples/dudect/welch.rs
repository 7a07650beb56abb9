//! Welch's t-test of two classes of times, by the method of dudect (Reparaz, Balasch and Verbauwhede, "Dude, is my code
//! constant time?", 2017): the classes are interleaved at random, and the test is repeated on times below each of
//! several percentiles, because the longest times are the machine's and not the code's.

use std::hint::black_box;
use std::time::{Duration, Instant};

/// One of the two classes of secrets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// Always the same secret.
    Fixed,
    /// A new secret each time.
    Random,
}

/// Secrets of each class that are made beforehand: of the fixed one as many copies, so that both classes have the same
/// effects on caches.
const POOL: usize = 64;

/// Measurements that set the percentiles, and do not count themselves.
const CALIBRATION: usize = 500;

/// Percentiles at which times are cropped.
const CROPS: usize = 50;

/// The least number of times of each class of which a test says anything.
const ENOUGH: f64 = 500.0;

/// Above this, two classes differ beyond doubt.
pub(crate) const LEAK: f64 = 10.0;

/// The mean and the variance of times, as they come (Welford).
#[derive(Clone, Copy, Default)]
struct Moments {
    count: f64,
    mean: f64,
    squares: f64,
}

impl Moments {
    fn add(&mut self, value: f64) {
        self.count += 1.0;
        let difference = value - self.mean;
        self.mean += difference / self.count;
        self.squares += difference * (value - self.mean);
    }

    /// The variance of the mean.
    fn error(&self) -> f64 {
        self.squares / (self.count - 1.0) / self.count
    }
}

/// Both classes' times below a limit.
#[derive(Clone, Copy, Default)]
struct Test {
    fixed: Moments,
    random: Moments,
}

impl Test {
    fn add(&mut self, class: Class, value: f64) {
        match class {
            Class::Fixed => self.fixed.add(value),
            Class::Random => self.random.add(value),
        }
    }

    /// Welch's t: the difference of the means in its own standard deviations; none of too few times.
    fn t(&self) -> Option<f64> {
        let enough = self.fixed.count >= ENOUGH && self.random.count >= ENOUGH;
        let error = self.fixed.error() + self.random.error();
        (enough && error > 0.0).then(|| (self.fixed.mean - self.random.mean) / error.sqrt())
    }
}

/// The outcome of a test.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Verdict {
    /// The times that counted.
    pub(crate) measurements: usize,
    /// The mean of the fixed class's times, in units of the clock.
    pub(crate) mean: f64,
    /// The random class's mean less the fixed one's, at the cropping with the largest |t|.
    pub(crate) difference: f64,
    /// The largest |t| of all croppings; none if there were too few times.
    pub(crate) t: Option<f64>,
}

impl Verdict {
    /// Returns whether the classes differ beyond doubt.
    pub(crate) fn is_leak(&self) -> bool {
        self.t.is_some_and(|t| t > LEAK)
    }
}

/// Times `run` over what `build` makes of secrets of the two classes, for as long as `budget`.
///
/// The secrets are made beforehand; an input is built right before it runs and dropped right after, outside of the time.
/// So both classes execute the same instructions before, and the allocator puts their inputs into the same places:
/// inputs in places of their own would differ by caches and by addresses, not by secrets.
pub(crate) fn measure<S, T>(
    budget: Duration,
    secret: impl Fn(Class) -> S,
    build: impl Fn(&S) -> T,
    mut run: impl FnMut(&mut T),
) -> Verdict {
    let (mut fixed, mut random) = (Vec::new(), Vec::new());
    for _ in 0..POOL {
        fixed.push(secret(Class::Fixed));
        random.push(secret(Class::Random));
    }
    let mut state = seed();
    let mut once = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        let class = if state >> 63 == 0 { Class::Fixed } else { Class::Random };
        let pool = if class == Class::Fixed { &fixed } else { &random };
        let mut input = build(&pool[(state >> 32) as usize % POOL]);
        let start = clock();
        run(black_box(&mut input));
        (class, clock().wrapping_sub(start) as f64)
    };
    let mut calibration: Vec<f64> = (0..CALIBRATION).map(|_| once().1).collect();
    calibration.sort_by(f64::total_cmp);
    // Closer to each other towards the longest times, as dudect takes them; the last one crops nothing.
    let limits: [f64; CROPS] = core::array::from_fn(|n| {
        let part = 1.0 - 0.5f64.powf(10.0 * (n + 1) as f64 / CROPS as f64);
        calibration[((CALIBRATION as f64 * part) as usize).min(CALIBRATION - 1)]
    });
    let mut tests = [Test::default(); CROPS + 1];
    let start = Instant::now();
    let mut measurements = 0;
    while start.elapsed() < budget {
        let (class, time) = once();
        measurements += 1;
        for (test, limit) in tests.iter_mut().zip(limits.into_iter().chain([f64::INFINITY])) {
            if time < limit {
                test.add(class, time);
            }
        }
    }
    let largest = tests
        .iter()
        .filter_map(|test| Some((test.t()?.abs(), test.random.mean - test.fixed.mean)))
        .max_by(|one, other| one.0.total_cmp(&other.0));
    let (t, difference) = largest.map_or((None, 0.0), |(t, difference)| (Some(t), difference));
    Verdict { measurements, mean: tests[CROPS].fixed.mean, difference, t }
}

/// Returns a number that is not zero, another one in every run.
fn seed() -> u64 {
    use std::hash::{BuildHasher as _, RandomState};
    RandomState::new().hash_one(0) | 1
}

/// Returns the time in cycles of the time-stamp counter.
#[cfg(target_arch = "x86_64")]
fn clock() -> u64 {
    // The fences keep the operation between the two readings.
    // SAFETY: every x86-64 processor has these instructions.
    #[allow(unsafe_code)]
    unsafe {
        core::arch::x86_64::_mm_lfence();
        let now = core::arch::x86_64::_rdtsc();
        core::arch::x86_64::_mm_lfence();
        now
    }
}

/// Returns the time in nanoseconds.
#[cfg(not(target_arch = "x86_64"))]
fn clock() -> u64 {
    use std::sync::OnceLock;
    static START: OnceLock<Instant> = OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}

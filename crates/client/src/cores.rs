//! Detects whether some core is idle, so that waiting by spinning takes no time from other threads, and whether two cores are
//! left to workers, so that two of them can compute one operation.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

/// The time for which one reading is used.
const GOOD_FOR: Duration = Duration::from_millis(10);

/// Reads /proc/loadavg, at most every [`GOOD_FOR`]. If the file cannot be read, no core counts as idle.
#[derive(Debug)]
pub struct Cores {
    load: Option<File>,
    count: usize,
    start: Instant,
    /// The time of the last reading, in microseconds after the start.
    looked: AtomicU64,
    is_free: AtomicBool,
    /// The workers that are awake, where there are workers.
    awake: AtomicUsize,
    /// The number of readings in a row, up to [`CROWDED`], at which other threads left fewer than two cores.
    crowded: AtomicU32,
}

/// The number of such readings that are believed: a reading may catch a client on its way to sleep.
const CROWDED: u32 = 2;

impl Cores {
    /// Opens /proc/loadavg.
    pub fn of_this_machine() -> Self {
        let count = available_parallelism().map_or(1, usize::from);
        let load = File::open("/proc/loadavg").ok().filter(|_| count > 1);
        Self {
            load,
            count,
            start: Instant::now(),
            looked: AtomicU64::new(0),
            is_free: AtomicBool::new(false),
            awake: AtomicUsize::new(0),
            crowded: AtomicU32::new(CROWDED),
        }
    }

    /// Records that a worker is awake from now on.
    pub fn woke(&self) {
        self.awake.fetch_add(1, Relaxed);
    }

    /// Records that a worker that was awake is about to sleep.
    pub fn sleeps(&self) {
        self.awake.fetch_sub(1, Relaxed);
    }

    /// Returns whether at most as many threads want to run as there are cores, the caller's included.
    pub fn is_one_free(&self, now: Instant) -> bool {
        self.read(now);
        self.is_free.load(Relaxed)
    }

    /// Returns whether threads other than workers leave two cores.
    pub fn are_two_left(&self, now: Instant) -> bool {
        self.read(now);
        self.crowded.load(Relaxed) < CROWDED
    }

    /// Reads, if the last reading is too old.
    fn read(&self, now: Instant) {
        let Some(load) = &self.load else { return };
        let now = now.saturating_duration_since(self.start).as_micros() as u64;
        let looked = self.looked.load(Relaxed);
        if now.saturating_sub(looked) >= GOOD_FOR.as_micros() as u64
            && self.looked.compare_exchange(looked, now, Relaxed, Relaxed).is_ok()
        {
            let mut text = [0; 64];
            let length = load.read_at(&mut text, 0).unwrap_or(0);
            let wanting = running(&text[..length]).unwrap_or(usize::MAX);
            self.is_free.store(wanting <= self.count, Relaxed);
            let others = wanting.saturating_sub(self.awake.load(Relaxed));
            let is_crowded = others.saturating_add(2) > self.count;
            let so_far = self.crowded.load(Relaxed);
            self.crowded.store(if is_crowded { (so_far + 1).min(CROWDED) } else { 0 }, Relaxed);
        }
    }
}

/// Returns the number of threads that run or could run, from a text like `0.20 0.18 0.12 1/80 11206`
/// (proc_loadavg(5)).
fn running(text: &[u8]) -> Option<usize> {
    std::str::from_utf8(text).ok()?.split(' ').nth(3)?.split('/').next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fourth_word_tells() {
        assert_eq!(running(b"0.20 0.18 0.12 3/80 11206\n"), Some(3));
        assert_eq!(running(b"0.20 0.18"), None);
        assert_eq!(running(b""), None);
    }
}

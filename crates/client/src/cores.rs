//! Detects whether some core is idle, so that waiting by spinning takes no time from other threads.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
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
}

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
        }
    }

    /// Returns whether at most as many threads want to run as there are cores, the caller's included.
    pub fn is_one_free(&self, now: Instant) -> bool {
        let Some(load) = &self.load else { return false };
        let now = now.saturating_duration_since(self.start).as_micros() as u64;
        let looked = self.looked.load(Relaxed);
        if now.saturating_sub(looked) >= GOOD_FOR.as_micros() as u64
            && self.looked.compare_exchange(looked, now, Relaxed, Relaxed).is_ok()
        {
            let mut text = [0; 64];
            let length = load.read_at(&mut text, 0).unwrap_or(0);
            let wanting = running(&text[..length]);
            self.is_free.store(wanting.is_some_and(|wanting| wanting <= self.count), Relaxed);
        }
        self.is_free.load(Relaxed)
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

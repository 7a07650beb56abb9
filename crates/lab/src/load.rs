//! Measures the load of other programs, and avoids the cost of memory that the host took back: the two traps of
//! measuring on virtual machines.
//!
//! Guarantees: time stolen by the hypervisor is never counted as CPU time; memory touched by [`warm_memory`] is free
//! again when it returns.

use crate::speed::usage;
use std::fs;
use std::time::{Duration, Instant};

/// `sysconf(_SC_CLK_TCK)` is 100 on every Linux architecture that Rust supports; `/proc/stat` counts in it.
const TICKS_PER_SECOND: f64 = 100.0;

/// CPU time of the whole machine since it started.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct MachineTime {
    /// Seconds in which a CPU worked, user and system, interrupts included, stolen time excluded.
    pub busy_seconds: f64,
    /// Seconds in which a CPU had work and the hypervisor gave the time to others.
    pub stolen_seconds: f64,
}

impl MachineTime {
    /// Reads the counters; returns `None` if the kernel does not show them.
    pub fn now() -> Option<Self> {
        Self::parse(&fs::read_to_string("/proc/stat").ok()?)
    }

    /// Returns the difference to `earlier`.
    pub fn since(self, earlier: Self) -> Self {
        Self {
            busy_seconds: (self.busy_seconds - earlier.busy_seconds).max(0.0),
            stolen_seconds: (self.stolen_seconds - earlier.stolen_seconds).max(0.0),
        }
    }

    /// The fields are, by proc_pid_stat(5): user nice system idle iowait irq softirq steal guest guest_nice; guest is
    /// within user.
    fn parse(text: &str) -> Option<Self> {
        let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
        let ticks: Vec<f64> = line.split_whitespace().filter_map(|word| word.parse().ok()).collect();
        let [user, nice, system, _idle, _wait, irq, softirq, steal, ..] = ticks[..] else { return None };
        Some(Self {
            busy_seconds: (user + nice + system + irq + softirq) / TICKS_PER_SECOND,
            stolen_seconds: steal / TICKS_PER_SECOND,
        })
    }
}

/// The load beside a run, in cores, from which on the run should be repeated.
const DISTURBING_CORES: f64 = 0.35;

/// The counters' resolution: a smaller difference in CPU seconds is meaningless.
const GRAIN_SECONDS: f64 = 0.06;

/// Returns whether others used, or the hypervisor took, so much time that a run of `wall` should be repeated.
pub fn is_disturbed(other_seconds: f64, stolen_seconds: f64, wall: Duration) -> bool {
    let excess = other_seconds.max(0.0) + stolen_seconds.max(0.0) - GRAIN_SECONDS;
    excess > DISTURBING_CORES * wall.as_secs_f64()
}

/// The machine's and this process's use of processors when a measurement begins.
#[derive(Clone, Copy, Debug)]
pub struct Watch {
    began: Instant,
    machine: Option<MachineTime>,
    own_seconds: f64,
    waited_seconds: Option<f64>,
}

impl Watch {
    /// Begins to watch.
    pub fn begin() -> Self {
        Self {
            began: Instant::now(),
            machine: MachineTime::now(),
            own_seconds: usage::own_and_ended_seconds(),
            waited_seconds: thread_waited_seconds(),
        }
    }

    /// Returns whether other programs or the hypervisor have taken so much that the run should be repeated.
    /// `living_seconds` is the CPU time of programs that are measured and still run.
    pub fn is_disturbed(&self, living_seconds: f64) -> bool {
        let wall = self.began.elapsed();
        let Some(machine) = self.machine.and_then(|before| Some(MachineTime::now()?.since(before))) else {
            return false;
        };
        let own_seconds = usage::own_and_ended_seconds() - self.own_seconds + living_seconds;
        is_disturbed(machine.busy_seconds - own_seconds, machine.stolen_seconds, wall)
    }

    /// Returns the same for a run of this thread alone, however short: it was also disturbed if others ran in its place.
    pub fn is_thread_disturbed(&self) -> bool {
        let waited = self.waited_seconds.and_then(|before| Some(thread_waited_seconds()? - before));
        waited.is_some_and(|waited| waited > LOST_MAX * self.began.elapsed().as_secs_f64())
            || self.is_disturbed(0.0)
    }
}

/// Returns the seconds in which this thread was ready to run while others ran in its place.
pub(crate) fn thread_waited_seconds() -> Option<f64> {
    let text = fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    waited_of(&text).map(|waited_ns| waited_ns as f64 / 1e9)
}

/// Returns the seconds in which living threads of this process were ready to run while others ran in their place. The
/// resolution is a nanosecond, so the figure is useful for runs that are too short for the counters above. Returns
/// `None` if the kernel does not report it.
pub fn waited_seconds() -> Option<f64> {
    let threads = fs::read_dir("/proc/self/task").ok()?;
    let mut waited_ns = 0;
    for thread in threads {
        // A thread that has ended meanwhile does not count.
        let Ok(text) = fs::read_to_string(thread.ok()?.path().join("schedstat")) else { continue };
        waited_ns += waited_of(&text)?;
    }
    Some(waited_ns as f64 / 1e9)
}

/// The fields are, by Linux's sched-stats.rst: nanoseconds on a CPU, nanoseconds of waiting for one, and the number
/// of runs.
fn waited_of(text: &str) -> Option<u64> {
    text.split_whitespace().nth(1)?.parse().ok()
}

/// The share of its CPUs' time that a slice of a few milliseconds may lose to others before it is repeated.
pub const LOST_MAX: f64 = 0.05;

/// Touches and frees `bytes`.
///
/// On a virtual machine with ballooning or free-page reporting, memory freed by the last run goes back to the host,
/// and its first touch later costs up to three times as much. Touching the memory before the clock starts keeps this
/// cost out of the run.
pub fn warm_memory(bytes: u64) {
    const PAGE_BYTES: usize = 4096;
    let available = crate::machine::available_memory_bytes().unwrap_or(0);
    // Half of the available memory is used: warming must never push the machine into swapping or the OOM killer.
    let bytes = usize::try_from(bytes.min(available / 2)).unwrap_or(0);
    let mut memory: Vec<u8> = Vec::new();
    if memory.try_reserve_exact(bytes).is_err() {
        return;
    }
    // One byte per page makes the kernel provide the page.
    for page in memory.spare_capacity_mut().chunks_mut(PAGE_BYTES) {
        page[0].write(1);
    }
    std::hint::black_box(&memory);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stolen_time_is_kept_apart() {
        let text = "cpu  100 10 50 1000 5 2 3 70 20 0\ncpu0 1 1 1 1 1 1 1 1 1 1\n";
        let time = MachineTime::parse(text).unwrap();
        assert_eq!(time, MachineTime { busy_seconds: 1.65, stolen_seconds: 0.7 });
        assert_eq!(time.since(time), MachineTime::default());
        assert_eq!(MachineTime::parse("cpu  1 2 3\n"), None);
        assert_eq!(MachineTime::parse(""), None);
    }

    #[test]
    fn short_runs_are_not_disturbed_by_the_grain_of_the_counters() {
        assert!(!is_disturbed(0.05, 0.0, Duration::from_millis(20)));
        assert!(is_disturbed(0.5, 0.0, Duration::from_secs(1)));
        assert!(is_disturbed(0.0, 0.5, Duration::from_secs(1)));
        assert!(!is_disturbed(-3.0, 0.0, Duration::from_secs(1)));
    }

    #[test]
    fn threads_that_wait_for_a_cpu_are_counted() {
        assert_eq!(waited_of("12 69624 1\n"), Some(69624));
        assert_eq!(waited_of("12"), None);
        let Some(before) = waited_seconds() else { return };
        // There are more than twice as many threads as CPUs, so some must wait.
        let busy = || {
            let began = Instant::now();
            while began.elapsed() < Duration::from_millis(30) {
                std::hint::spin_loop();
            }
            waited_seconds().unwrap()
        };
        let count = 2 + 2 * std::thread::available_parallelism().unwrap().get();
        let found = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..count).map(|_| scope.spawn(busy)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).fold(0.0, f64::max)
        });
        assert!(found > before, "{found} {before}");
    }

    #[test]
    fn warming_more_than_there_is_does_no_harm() {
        warm_memory(1 << 20);
        warm_memory(0);
    }
}

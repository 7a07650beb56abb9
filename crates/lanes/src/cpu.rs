//! CPU time of threads that work together.
//!
//! Guarantees: a thread that ended is counted once, to the microsecond.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

/// Sums the CPU time (user and system) of threads as they end.
#[derive(Clone, Debug, Default)]
pub struct CpuClock {
    ended_us: Arc<AtomicU64>,
}

/// When dropped, adds the current thread's CPU time since it was made to the clock.
#[derive(Debug)]
pub struct CpuShare {
    clock: CpuClock,
    start_us: u64,
}

impl CpuClock {
    /// Starts counting the current thread.
    pub fn share(&self) -> CpuShare {
        CpuShare { clock: self.clone(), start_us: thread_cpu_us() }
    }

    /// Returns the microseconds of the threads that ended.
    pub fn ended_us(&self) -> u64 {
        self.ended_us.load(Relaxed)
    }
}

impl CpuShare {
    /// Returns the microseconds of this thread since the share was taken.
    pub fn elapsed_us(&self) -> u64 {
        thread_cpu_us() - self.start_us
    }
}

impl Drop for CpuShare {
    fn drop(&mut self) {
        self.clock.ended_us.fetch_add(self.elapsed_us(), Relaxed);
    }
}

fn thread_cpu_us() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    (Duration::from_secs(time.tv_sec as u64) + Duration::from_nanos(time.tv_nsec as u64)).as_micros() as u64
}

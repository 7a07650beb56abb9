//! The time stamp counter, which defines "cycles" here.
//!
//! It runs at one rate at any frequency of the core, so cycles are those of the machine's nominal clock. Reading it
//! is an intrinsic that the language marks `unsafe`; the rest of this file is safe.
#![allow(unsafe_code)]

use std::time::{Duration, Instant};

/// The time of calibration: long enough that the error of reading two clocks one after the other is below one in ten
/// thousand.
const CALIBRATION: Duration = Duration::from_millis(20);

/// Returns the ticks per nanosecond of the time stamp counter, if the machine has one.
pub fn ticks_per_ns() -> Option<f64> {
    let (from, start) = (ticks()?, Instant::now());
    while start.elapsed() < CALIBRATION {
        std::hint::spin_loop();
    }
    let (to, spent) = (ticks()?, start.elapsed());
    let rate = to.checked_sub(from)? as f64 / spent.as_nanos() as f64;
    (rate > 0.0).then_some(rate)
}

#[cfg(target_arch = "x86_64")]
fn ticks() -> Option<u64> {
    // SAFETY: the instruction is part of every x86-64 CPU and touches no memory.
    Some(unsafe { core::arch::x86_64::_rdtsc() })
}

#[cfg(not(target_arch = "x86_64"))]
fn ticks() -> Option<u64> {
    None
}

#[cfg(test)]
mod tests {
    #[test]
    #[cfg(target_arch = "x86_64")]
    fn the_counter_runs_at_a_clock_rate() {
        let rate = super::ticks_per_ns().unwrap();
        assert!((0.1..20.0).contains(&rate), "{rate}");
    }
}

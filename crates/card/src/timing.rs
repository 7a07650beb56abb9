//! The timing of a card's jobs.
//!
//! Guarantees: no clock and no thread; the same jobs at the same times are due at the same times.

use crate::dice::Dice;
use sealane_engine::Cost;

/// A card of several units behind one host.
///
/// A job alone takes [`line`](Self::line). A part of that, [`host`](Self::host) on average, belongs to the host and
/// the bus, which serve one job at a time; the unit that takes the job is busy from then until
/// [`answer_ns`](Self::answer_ns) before the job's end.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Timing {
    /// The time that a job takes alone.
    pub line: Cost,
    /// The mean of the serial part. Its distribution is exponential.
    pub host: Cost,
    /// The end of a job that occupies no unit: interrupt and wake-up.
    pub answer_ns: f64,
    /// The number of jobs that are computed at a time.
    pub units: usize,
}

impl Timing {
    /// A card of four Hifn 7751 computing triple DES in OpenBSD: Keromytis, Wright and de Raadt, "The design of the
    /// OpenBSD cryptographic framework" (USENIX 2003), table 1. The line is the table's row for one thread. The other
    /// values were chosen such that the closed loop of 1, 2, 3, 4 and 32 threads meets each of the table's 30 values
    /// within 13 %, and that of 32 threads reaches 96 % of four jobs per `line`, or of one per `host` if that takes longer.
    pub const FOUR_HIFN_7751: Self = Self {
        line: Cost { fixed_ns: 38_300.0, byte_ns: 96.7 },
        host: Cost { fixed_ns: 17_500.0, byte_ns: 10.0 },
        answer_ns: 23_000.0,
        units: 4,
    };

    /// A processor of that card's time computing triple DES, about 27 Mb/s, one job after another.
    pub const PROCESSOR_OF_ITS_TIME: Self = Self::processor(Cost { fixed_ns: 3_000.0, byte_ns: 300.0 });

    /// Returns the timing of a processor that computes jobs by `line`, one at a time.
    pub const fn processor(line: Cost) -> Self {
        Self { line, host: Cost { fixed_ns: 0.0, byte_ns: 0.0 }, answer_ns: 0.0, units: 1 }
    }

    /// Returns the nanoseconds between two jobs of `bytes` bytes by the card's line: each unit takes [`line`](Self::line) for
    /// a job, one after another, unless the host takes longer.
    pub fn rated_ns(&self, bytes: usize) -> f64 {
        (self.line.job_ns(bytes) / self.units.max(1) as f64).max(self.host.job_ns(bytes))
    }

    /// Returns the nanoseconds between two jobs of `bytes` bytes while there are always more jobs.
    pub fn pace_ns(&self, bytes: usize) -> f64 {
        let unit_ns = (self.line.job_ns(bytes) - self.answer_ns).max(0.0);
        (unit_ns / self.units.max(1) as f64).max(self.host.job_ns(bytes))
    }
}

/// The due times of the jobs that a card of this timing has taken. Times are nanoseconds of one clock, whose origin
/// does not matter.
#[derive(Debug)]
pub(crate) struct Schedule {
    timing: Timing,
    host_free_ns: u64,
    units_free_ns: Vec<u64>,
    dice: Dice,
}

impl Schedule {
    pub(crate) fn new(timing: Timing, seed: u64) -> Self {
        let units_free_ns = vec![0; timing.units.max(1)];
        Self { timing, host_free_ns: 0, units_free_ns, dice: Dice::new(seed) }
    }

    /// Returns the time at which a job that comes now will be done.
    pub(crate) fn admit(&mut self, now_ns: u64, bytes: usize) -> u64 {
        let Timing { line, host, answer_ns, .. } = self.timing;
        let unit = self.units_free_ns.iter_mut().min().expect("a card has a unit");
        let start_ns = now_ns.max(self.host_free_ns).max(*unit);
        let host_ns = host.job_ns(bytes);
        self.host_free_ns = start_ns + (host_ns * self.dice.exponential()) as u64;
        let rest_ns = (line.job_ns(bytes) - host_ns).max(0.0);
        let due_ns = self.host_free_ns + rest_ns as u64;
        *unit = self.host_free_ns.max(due_ns.saturating_sub(answer_ns as u64));
        due_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{OCF_BYTES, OCF_TABLE_1 as TABLE};

    fn megabits_a_second(threads: usize, bytes: usize) -> f64 {
        const JOBS: usize = 20_000;
        let mut schedule = Schedule::new(Timing::FOUR_HIFN_7751, 1);
        let mut ready = vec![0; threads];
        for _ in 0..JOBS {
            let next = ready.iter_mut().min().unwrap();
            *next = schedule.admit(*next, bytes);
        }
        let end_ns = *ready.iter().max().unwrap();
        (JOBS * bytes * 8) as f64 * 1e3 / end_ns as f64
    }

    #[test]
    fn a_closed_loop_meets_each_value_of_the_published_table() {
        for (threads, row) in TABLE {
            for (bytes, published) in OCF_BYTES.into_iter().zip(row) {
                let found = megabits_a_second(threads, bytes as usize);
                let off = found / published - 1.0;
                assert!(off.abs() < 0.13, "{threads} threads, {bytes} bytes: {found:.2} for {published}");
            }
        }
    }

    /// With a job for each unit at any time, units and host are the machines and the repairman of queueing theory: the host's
    /// times are exponential, and those that a unit computes by itself are constant, which makes no difference to the rate
    /// (Gross et al., "Fundamentals of queueing theory", 2.7: finite-source queues).
    fn jobs_per_second_by_theory(timing: &Timing, bytes: usize) -> f64 {
        let host_ns = timing.host.job_ns(bytes);
        let alone_ns = (timing.line.job_ns(bytes) - host_ns - timing.answer_ns).max(0.0);
        let (mut idle, mut waiting) = (1.0, 1.0);
        // Weights of 1, 2, ... units at the host, relative to that of none.
        for count in 0..timing.units {
            waiting *= (timing.units - count) as f64 * host_ns / alone_ns;
            idle += waiting;
        }
        (1.0 - 1.0 / idle) * 1e9 / host_ns
    }

    #[test]
    fn many_threads_reach_the_rate_of_queueing_theory_and_the_line() {
        let timing = Timing::FOUR_HIFN_7751;
        for bytes in [16, 64, 100, 256, 1000, 1024, 4096, 8192, 16384] {
            let found = megabits_a_second(32, bytes) * 1e6 / (8 * bytes) as f64;
            let theory = jobs_per_second_by_theory(&timing, bytes);
            let line = 1e9 / timing.rated_ns(bytes);
            assert!(
                (0.97..1.03).contains(&(found / theory)),
                "{bytes} bytes: {found:.0} for {theory:.0} a second"
            );
            assert!(theory > 0.95 * line, "{bytes} bytes: {theory:.0} for {line:.0} a second");
        }
    }
}

//! The costs of AEADs by our kernels and by AWS-LC's, and the choice between them for a call.
//!
//! Costs are lines through the measurements of the example `crossover --library`: nanoseconds on one machine, of
//! which only the ratios apply to another one with the same instructions.

/// Totals of a call's jobs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AeadTotals {
    /// Jobs.
    pub messages: usize,
    /// Enciphered bytes of all jobs.
    pub data_bytes: usize,
    /// Bytes of all jobs that are authenticated only.
    pub clear_bytes: usize,
}

impl AeadTotals {
    /// Adds a job.
    #[inline]
    pub const fn add(&mut self, data_bytes: usize, clear_bytes: usize) {
        self.messages += 1;
        self.data_bytes = self.data_bytes.saturating_add(data_bytes);
        self.clear_bytes = self.clear_bytes.saturating_add(clear_bytes);
    }
}

/// The implementation that should run an AEAD's jobs by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cheaper {
    /// Our kernels, whatever the jobs.
    Own,
    /// AWS-LC, whatever the jobs.
    Library,
    /// It depends on the jobs: [`crate::Kernels::is_own_cheaper`] decides for each call.
    Depends,
}

/// The cost of jobs by one implementation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AeadCost {
    pub(crate) call_ns: u32,
    pub(crate) message_ns: u32,
    /// The cost of enciphered bytes.
    pub(crate) data_kib_ns: u32,
    /// The cost of bytes that are authenticated only.
    pub(crate) clear_kib_ns: u32,
}

impl AeadCost {
    /// Makes a cost from nanoseconds per call, per message, per KiB of enciphered bytes and per KiB of clear ones.
    pub(crate) const fn new([call_ns, message_ns, data_kib_ns, clear_kib_ns]: [u32; 4]) -> Self {
        Self { call_ns, message_ns, data_kib_ns, clear_kib_ns }
    }

    /// Returns the cost in units of 1/1024 ns, which need no division.
    const fn of(self, jobs: AeadTotals) -> u64 {
        const fn times(count: usize, cost: u32) -> u64 {
            (count as u64).saturating_mul(cost as u64)
        }
        let fixed = (self.call_ns as u64).saturating_add(times(jobs.messages, self.message_ns));
        let data = times(jobs.data_bytes, self.data_kib_ns);
        let clear = times(jobs.clear_bytes, self.clear_kib_ns);
        fixed.saturating_mul(1024).saturating_add(data).saturating_add(clear)
    }

    /// Returns whether it is cheaper than `other` for no jobs at all.
    const fn is_never_below(self, other: Self) -> bool {
        self.call_ns + self.message_ns >= other.call_ns + other.message_ns
            && self.message_ns >= other.message_ns
            && self.data_kib_ns >= other.data_kib_ns
            && self.clear_kib_ns >= other.clear_kib_ns
    }
}

/// Costs of both, one way.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AeadCosts {
    /// Our kernels, for one message.
    pub(crate) alone: AeadCost,
    /// Our kernels, for several.
    pub(crate) together: AeadCost,
    /// Up to this many messages have the costs of `alone`.
    pub(crate) few: usize,
    /// The cost of AWS-LC, which takes messages one by one.
    pub(crate) library: AeadCost,
}

impl AeadCosts {
    /// Returns whether our kernels are no more expensive.
    pub(crate) const fn is_own_cheaper(&self, jobs: AeadTotals) -> bool {
        let own = if jobs.messages <= self.few { self.alone } else { self.together };
        own.of(jobs) <= self.library.of(jobs)
    }

    /// Returns the implementation that is cheaper for all jobs, if there is one.
    pub(crate) const fn cheaper(&self) -> Cheaper {
        if self.library.is_never_below(self.alone) && self.library.is_never_below(self.together) {
            Cheaper::Own
        } else if self.alone.is_never_below(self.library) && self.together.is_never_below(self.library) {
            Cheaper::Library
        } else {
            Cheaper::Depends
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn cost(call_ns: u32, message_ns: u32, kib_ns: u32) -> AeadCost {
        AeadCost { call_ns, message_ns, data_kib_ns: kib_ns, clear_kib_ns: kib_ns }
    }

    fn jobs(messages: usize, bytes: usize) -> AeadTotals {
        let mut totals = AeadTotals::default();
        (0..messages).for_each(|_| totals.add(bytes, 8));
        totals
    }

    /// Ours are set up once per call, the library once per message, and its bytes are cheaper.
    #[test]
    fn many_short_messages_are_ours_and_long_ones_the_librarys() {
        let own = cost(40, 10, 50);
        let costs = AeadCosts { alone: own, together: own, few: 0, library: cost(0, 100, 30) };
        assert_eq!(costs.cheaper(), Cheaper::Depends);
        assert!(costs.is_own_cheaper(jobs(1, 64)) && costs.is_own_cheaper(jobs(64, 1408)));
        assert!(!costs.is_own_cheaper(jobs(1, 65_536)) && !costs.is_own_cheaper(jobs(8, 65_536)));
        // More messages share the cost of a call.
        assert!(!costs.is_own_cheaper(jobs(1, 4096)) && costs.is_own_cheaper(jobs(8, 4096)));
    }

    #[test]
    fn who_is_never_dearer_is_always_chosen() {
        let (less, more) = (cost(0, 10, 30), cost(0, 100, 30));
        let of = |own, library| AeadCosts { alone: own, together: own, few: 0, library }.cheaper();
        assert_eq!(
            [of(less, more), of(more, less), of(less, less)],
            [Cheaper::Own, Cheaper::Library, Cheaper::Own]
        );
    }

    #[test]
    fn few_messages_are_run_as_one_is() {
        let costs = AeadCosts {
            alone: cost(0, 200, 30),
            together: cost(0, 20, 30),
            few: 2,
            library: cost(0, 100, 30),
        };
        assert!(!costs.is_own_cheaper(jobs(2, 64)) && costs.is_own_cheaper(jobs(3, 64)));
        // The sums do not overflow.
        let huge = AeadTotals { messages: usize::MAX, data_bytes: usize::MAX, clear_bytes: usize::MAX };
        assert!(costs.is_own_cheaper(huge));
    }
}

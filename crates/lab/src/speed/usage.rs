//! Resource usage of this process by `getrusage(2)`, which neither the standard library nor rustix offers.
#![allow(unsafe_code)]

use std::mem::MaybeUninit;

/// Counters of this process since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Usage {
    pub(crate) user_seconds: f64,
    pub(crate) system_seconds: f64,
    pub(crate) minor_faults: i64,
    pub(crate) major_faults: i64,
    pub(crate) swaps: i64,
    pub(crate) voluntary_switches: i64,
    pub(crate) involuntary_switches: i64,
}

/// Returns the CPU seconds of this process, and of the children that it has waited for.
pub(crate) fn own_and_ended_seconds() -> f64 {
    [libc::RUSAGE_SELF, libc::RUSAGE_CHILDREN]
        .map(of)
        .map(|usage| usage.user_seconds + usage.system_seconds)
        .iter()
        .sum()
}

/// Returns the present counters of this process; all zero if the system does not provide them.
pub(crate) fn now() -> Usage {
    of(libc::RUSAGE_SELF)
}

fn of(who: libc::c_int) -> Usage {
    let mut usage = MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: the pointer is to a live local of the type that getrusage(2) writes.
    let result = unsafe { libc::getrusage(who, usage.as_mut_ptr()) };
    if result != 0 {
        return Usage::default();
    }
    // SAFETY: zeroed memory is a valid `rusage` (integers only), and the call has filled it in.
    let usage = unsafe { usage.assume_init() };
    let seconds = |time: libc::timeval| time.tv_sec as f64 + time.tv_usec as f64 / 1e6;
    Usage {
        user_seconds: seconds(usage.ru_utime),
        system_seconds: seconds(usage.ru_stime),
        minor_faults: usage.ru_minflt,
        major_faults: usage.ru_majflt,
        swaps: usage.ru_nswap,
        voluntary_switches: usage.ru_nvcsw,
        involuntary_switches: usage.ru_nivcsw,
    }
}

impl Usage {
    /// Returns the usage since `before`.
    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            user_seconds: self.user_seconds - before.user_seconds,
            system_seconds: self.system_seconds - before.system_seconds,
            minor_faults: self.minor_faults - before.minor_faults,
            major_faults: self.major_faults - before.major_faults,
            swaps: self.swaps - before.swaps,
            voluntary_switches: self.voluntary_switches - before.voluntary_switches,
            involuntary_switches: self.involuntary_switches - before.involuntary_switches,
        }
    }
}

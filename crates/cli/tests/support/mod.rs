//! Common helpers of the tests of faults and of hostile networks: seeded random numbers, trees, runs of the program
//! that may be killed, a daemon, and a proxy that cuts and alters.

// Each file of tests is a program of its own and uses only a part of this module.
#![allow(dead_code)]

pub(crate) mod daemon;
pub(crate) mod proxy;
pub(crate) mod run;
pub(crate) mod tree;

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};

/// An ssh that runs the command which it would run at the far end on this host, in the folder of the test.
pub(crate) const SSH: &str = "#!/bin/sh\nif [ \"$1\" = -G ]; then echo 'hostname 127.0.0.1'; exit 0; fi\n\
                   for last; do :; done\nexec sh -c \"$last\"\n";

/// Reproducible random numbers.
#[derive(Debug, Clone)]
pub(crate) struct Chance(SplitMix64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self(SplitMix64::seed_from_u64(seed))
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Returns a number below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    pub(crate) fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }

    /// Returns random bytes.
    pub(crate) fn bytes(&mut self, count: usize) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(count + 8);
        while bytes.len() < count {
            bytes.extend_from_slice(&self.next().to_le_bytes());
        }
        bytes.truncate(count);
        bytes
    }
}

/// Returns a number from the environment, or `default`.
pub(crate) fn setting(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name} must be a number, not {text:?}")),
        Err(_) => default,
    }
}

/// The settings that repeat one case of tests whose number of cases is `SEALANE_FAULT_RUNS`.
pub(crate) const AGAIN_BY_RUNS: &str = "SEALANE_FAULT_SEED=<seed> SEALANE_FAULT_RUNS=1";

/// Runs cases `0..count` on a few threads. Every failure is printed, with the settings that repeat it (`again`); then the
/// test fails.
pub(crate) fn many(
    what: &str,
    again: &str,
    seed: u64,
    count: u64,
    case: impl Fn(u64, usize) -> Result<(), String> + Sync,
) {
    const WORKERS: usize = 4;
    let next = std::sync::atomic::AtomicU64::new(0);
    let failures = std::sync::Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for worker in 0..WORKERS {
            let (next, failures, case) = (&next, &failures, &case);
            scope.spawn(move || {
                loop {
                    let number = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    if number >= count {
                        return;
                    }
                    // A panic is a failure like any other; it must not hide its seed.
                    let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                        case(seed.wrapping_add(number), worker)
                    }));
                    let reason = match outcome {
                        Ok(Ok(())) => continue,
                        Ok(Err(reason)) => reason,
                        Err(_) => "panicked, see above".to_owned(),
                    };
                    let seed = seed.wrapping_add(number);
                    let mut failures = failures.lock().expect("nothing panics here");
                    failures.push(format!("{what}, seed {seed}: {reason}"));
                }
            });
        }
    });
    let failures = failures.into_inner().expect("nothing panics here");
    assert!(
        failures.is_empty(),
        "{} of {count} failed; {again} repeats one:\n{}",
        failures.len(),
        failures.join("\n")
    );
}

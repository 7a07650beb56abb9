//! Pseudo-random numbers from a seed, for the card's times and faults.

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};

/// A source of such numbers.
#[derive(Debug)]
pub(crate) struct Dice(SplitMix64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(SplitMix64::seed_from_u64(seed))
    }

    pub(crate) fn draw(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Returns a number less than `bound`, which is not 0.
    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.draw() % bound
    }

    /// Returns an exponentially distributed number with mean 1.
    pub(crate) fn exponential(&mut self) -> f64 {
        // The number is in (0, 1].
        let uniform = ((self.draw() >> 11) + 1) as f64 / (1u64 << 53) as f64;
        -uniform.ln()
    }
}

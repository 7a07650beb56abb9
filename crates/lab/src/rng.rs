//! A small seeded generator for workloads, shuffles and resampling.
//!
//! Guarantees: the same seed gives the same stream on every machine, so a run can be repeated from its report. It
//! must not be used for secrets. The generator is xoshiro256++ (Blackman and Vigna, 2019), seeded by SplitMix64 as
//! its authors advise.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};

/// A seeded xoshiro256++ generator.
#[derive(Clone, Debug)]
pub struct Rng(Xoshiro256PlusPlus);

impl Rng {
    /// Returns a generator whose stream is a function of `seed` alone.
    pub fn new(seed: u64) -> Self {
        Self(Xoshiro256PlusPlus::seed_from_u64(seed))
    }

    /// Returns a seed from the operating system, for runs without a seed from the user.
    pub fn fresh_seed() -> u64 {
        getrandom::u64().unwrap_or_else(|_| {
            // Only the variety of workloads depends on this, so the clock is sufficient if the system provides no
            // randomness.
            std::time::SystemTime::now()
                .duration_since(std::time::UNIX_EPOCH)
                .map_or(0, |since| since.as_nanos() as u64)
        })
    }

    /// Returns the next 64 bits.
    pub fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Returns a number in `0..bound`; 0 when `bound` is 0.
    ///
    /// Multiplication replaces the remainder; its bias is below `bound / 2^64`, far below the resolution of any
    /// sample count.
    pub fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next_u64()) * bound as u128) >> 64) as usize
    }

    /// Fills `buffer` with the stream, eight bytes little-endian at a time.
    pub fn fill(&mut self, buffer: &mut [u8]) {
        self.0.fill_bytes(buffer);
    }

    /// Puts `items` into a uniformly random order (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            let other = self.below(last + 1);
            items.swap(last, other);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reports name their seeds, so the stream must not change. The values are from the authors' reference C, which
    /// starts from the state {1, 2, 3, 4}, and from its state after SplitMix64 from 0.
    #[test]
    fn gives_the_published_stream() {
        let state = [1_u64, 2, 3, 4].map(u64::to_le_bytes).as_flattened().try_into().unwrap();
        let mut rng = Rng(Xoshiro256PlusPlus::from_seed(state));
        let first: Vec<u64> = (0..4).map(|_| rng.next_u64()).collect();
        assert_eq!(first, [41_943_041, 58_720_359, 3_588_806_011_781_223, 3_591_011_842_654_386]);
        let mut rng = Rng::new(0);
        assert_eq!([rng.next_u64(), rng.next_u64()], [0x5317_5d61_490b_23df, 0x61da_6f3d_c380_d507]);
    }

    #[test]
    fn repeats_from_a_seed_and_differs_between_seeds() {
        let stream = |seed| {
            let mut buffer = [0; 37];
            Rng::new(seed).fill(&mut buffer);
            buffer
        };
        assert_eq!(stream(7), stream(7));
        assert_ne!(stream(7), stream(8));
    }

    #[test]
    fn stays_below_its_bound_and_shuffles_all() {
        let mut rng = Rng::new(1);
        assert_eq!(rng.below(0), 0);
        assert!((0..1000).all(|_| rng.below(3) < 3));
        let mut items: Vec<u32> = (0..50).collect();
        rng.shuffle(&mut items);
        assert_ne!(items, (0..50).collect::<Vec<_>>());
        items.sort_unstable();
        assert_eq!(items, (0..50).collect::<Vec<_>>());
    }
}

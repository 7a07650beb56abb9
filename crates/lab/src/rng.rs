//! A small seeded generator for workloads, shuffles and resampling.
//!
//! Guarantees: the same seed gives the same stream on every machine, so a run can be repeated from its report. It
//! must not be used for secrets. The generator is xoshiro256++ (Blackman and Vigna, 2019), seeded by SplitMix64 as
//! its authors advise.

/// A seeded xoshiro256++ generator.
#[derive(Clone, Debug)]
pub struct Rng {
    state: [u64; 4],
}

impl Rng {
    /// Returns a generator whose stream is a function of `seed` alone.
    pub fn new(seed: u64) -> Self {
        let mut splitmix = seed;
        let state = std::array::from_fn(|_| {
            splitmix = splitmix.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = splitmix;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        });
        Self { state }
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
        let [s0, s1, s2, s3] = self.state;
        let result = s0.wrapping_add(s3).rotate_left(23).wrapping_add(s0);
        let mut next = [s0, s1, s2 ^ s0, s3 ^ s1];
        next[1] ^= next[2];
        next[0] ^= next[3];
        next[2] ^= s1 << 17;
        next[3] = next[3].rotate_left(45);
        self.state = next;
        result
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
        let mut words = buffer.chunks_exact_mut(8);
        for word in &mut words {
            word.copy_from_slice(&self.next_u64().to_le_bytes());
        }
        let rest = words.into_remainder();
        let last = self.next_u64().to_le_bytes();
        let taken = rest.len();
        rest.copy_from_slice(&last[..taken]);
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

    /// The values are from the authors' reference C, run from the state {1, 2, 3, 4}.
    #[test]
    fn gives_the_published_stream() {
        let mut rng = Rng { state: [1, 2, 3, 4] };
        let first: Vec<u64> = (0..4).map(|_| rng.next_u64()).collect();
        assert_eq!(first, [41_943_041, 58_720_359, 3_588_806_011_781_223, 3_591_011_842_654_386]);
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

//! Keccak-f\[1600\] and its sponges: those of FIPS 202, and those of RFC 9861, which have half of the rounds.
//!
//! ML-KEM spends most of its time in them. `reference` follows the definition, one state at a time; `ways` keeps
//! eight states side by side, one 64-bit word of each in every vector, so that a permutation of eight costs about as
//! much as one in general registers. For one state alone the native tier is AWS-LC's (through `aws-lc-rs`).

pub(crate) mod abreast;
pub(crate) mod alone;
pub(crate) mod reference;
pub(crate) mod streams;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
pub(crate) mod ways;

/// The rounds of Keccak-f\[1600\].
pub(crate) const ROUNDS: usize = 24;

/// A sponge over Keccak-f\[1600\]: how many bytes of a state it uses, and what it appends to a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sponge {
    /// Bytes of the state that a block of input or output fills, a multiple of 8.
    pub(crate) rate_bytes: usize,
    /// The bits that separate the function's domain, with the first bit of the padding.
    pub(crate) suffix: u8,
    /// The last rounds of the permutation that are applied, an even number: all, or the half of TurboSHAKE.
    pub(crate) rounds: usize,
}

impl Sponge {
    /// Whole 64-bit words of a block.
    pub(crate) const fn words(self) -> usize {
        self.rate_bytes / 8
    }

    /// Returns a sponge of FIPS 202.
    pub(crate) const fn new(rate_bytes: usize, suffix: u8) -> Self {
        Self { rate_bytes, suffix, rounds: ROUNDS }
    }

    /// Returns a sponge of TurboSHAKE, RFC 9861 section 2, with a domain separation byte.
    pub(crate) const fn turbo(rate_bytes: usize, domain: u8) -> Self {
        Self { rate_bytes, suffix: domain, rounds: ROUNDS / 2 }
    }

    /// Returns the same sponge with another suffix.
    pub(crate) const fn with_suffix(self, suffix: u8) -> Self {
        Self { suffix, ..self }
    }
}

/// SHA3-256, FIPS 202 section 6.1: H of ML-KEM.
pub(crate) const SHA3_256: Sponge = Sponge::new(136, 0x06);
/// SHA3-512, FIPS 202 section 6.1: G of ML-KEM.
pub(crate) const SHA3_512: Sponge = Sponge::new(72, 0x06);
/// SHAKE128, FIPS 202 section 6.2: the matrix of ML-KEM.
pub(crate) const SHAKE128: Sponge = Sponge::new(168, 0x1f);
/// SHAKE256, FIPS 202 section 6.2: J and the noise of ML-KEM.
pub(crate) const SHAKE256: Sponge = Sponge::new(136, 0x1f);

/// The last bit of the padding, in the last byte of a block.
pub(crate) const LAST_BIT: u8 = 0x80;

/// FIPS 202 section 3.2.2: the rotation of the word at (x, y), at index `5y + x`.
pub(crate) const ROTATIONS: [u32; 25] = rotations();

/// FIPS 202 section 3.2.5: what a round adds to the word at (0, 0).
pub(crate) const ROUND_CONSTANTS: [u64; ROUNDS] = round_constants();

const fn rotations() -> [u32; 25] {
    let mut all = [0; 25];
    let (mut x, mut y, mut t) = (1, 0, 0);
    while t < 24 {
        all[5 * y + x] = ((t as u32 + 1) * (t as u32 + 2) / 2) % 64;
        (x, y) = (y, (2 * x + 3 * y) % 5);
        t += 1;
    }
    all
}

const fn round_constants() -> [u64; ROUNDS] {
    let mut all = [0; ROUNDS];
    // Algorithm 5: a shift register of eight bits, whose output bit is its lowest.
    let mut register = 1u16;
    let mut round = 0;
    while round < ROUNDS {
        let mut j = 0;
        while j <= 6 {
            all[round] |= ((register & 1) as u64) << ((1 << j) - 1);
            register <<= 1;
            register ^= 0x171 * (register >> 8);
            j += 1;
        }
        round += 1;
    }
    all
}

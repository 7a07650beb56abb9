//! The common part of MD5, SHA-1 and SHA-256: 64-byte blocks, at most eight 32-bit words of state, length padding,
//! HMAC.
//!
//! Every tier is a [`Compress`] function over whole blocks or a multi-way kernel; padding and HMAC are implemented once
//! here and once in [`ways`].

#[cfg(any(test, not(target_arch = "x86_64")))]
pub(crate) mod library;
pub(crate) mod stream;
pub(crate) mod ways;

use core::fmt;

use crate::facts::{ByteOrder, Facts, KeyBytes, Limits, Standing};
use crate::isa::{Features, Tier};
use crate::job::{DigestJob, Status};
use crate::key::Keyed;
use crate::order::WaysCost;

/// Absorbs whole 64-byte blocks.
pub(crate) type Compress = fn(&mut [u32; 8], &[u8]);

/// The longest tail that fits into two blocks with its padding and length.
const MAX_TAIL: usize = 128 - 9;

/// A Merkle-Damgard hash.
pub(crate) struct Hash {
    pub(crate) name: &'static str,
    pub(crate) initial: [u32; 8],
    /// Words of state, which are also the digest's.
    pub(crate) words: usize,
    pub(crate) is_little_endian: bool,
    /// Returns the kernel of a tier for single messages.
    pub(crate) compress: fn(Tier, Features) -> Compress,
    /// Returns whether the CPU has instructions made for this hash, which then run single messages.
    pub(crate) has_instructions: fn(Features) -> bool,
    /// Absorbs a block by the reference kernel, whose operations are reported.
    pub(crate) traced: fn(&mut [u32; 8], &[u8; 64]),
    /// Returns the multi-way kernels for a machine's features and so many messages.
    pub(crate) ways: fn(Features, usize) -> Option<HashWays>,
}

/// The multi-way kernels of a hash.
#[derive(Clone, Copy)]
pub(crate) struct HashWays {
    /// The cost of these ways, as the `crossover` example measures it.
    pub(crate) cost: WaysCost,
    /// Narrowest first.
    pub(crate) widths: &'static [ways::Width],
    pub(crate) drive: ways::Drive,
}

impl fmt::Debug for Hash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// Returns the facts of a hash of blocks of 64 bytes without a key.
pub(crate) const fn facts(
    rounds: usize,
    output_bytes: usize,
    byte_order: ByteOrder,
    standing: Standing,
    source: &'static str,
) -> Facts {
    Facts {
        block_bytes: 64,
        rounds,
        key_bytes: KeyBytes::NONE,
        iv_bytes: 0,
        output_bytes,
        table_bytes: 0,
        working_set_bytes: 64 + output_bytes,
        chained: true,
        byte_order,
        standing,
        limits: Limits::NONE,
        source,
    }
}

impl Hash {
    /// Writes the digest held by a state.
    #[inline(always)]
    pub(crate) fn write_digest(&self, state: &[u32; 8], output: &mut [u8]) {
        for (word, bytes) in state[..self.words].iter().zip(output.chunks_exact_mut(4)) {
            bytes.copy_from_slice(&if self.is_little_endian {
                word.to_le_bytes()
            } else {
                word.to_be_bytes()
            });
        }
    }

    /// Lays out the last one or two blocks of a message in zeroed `scratch`: its tail (at most [`MAX_TAIL`] bytes),
    /// the padding and its length. Returns their bytes.
    #[inline(always)]
    pub(crate) fn pad(&self, tail: &[u8], message_bytes: u64, scratch: &mut [u8; 128]) -> usize {
        debug_assert!(tail.len() <= MAX_TAIL);
        let bytes = if tail.len() < 56 { 64 } else { 128 };
        // This avoids a function call if there is nothing to copy, as after a block cipher's packets.
        if !tail.is_empty() {
            scratch[..tail.len()].copy_from_slice(tail);
        }
        scratch[tail.len()] = 0x80;
        let bits = message_bytes.wrapping_mul(8);
        let length = if self.is_little_endian { bits.to_le_bytes() } else { bits.to_be_bytes() };
        scratch[bytes - 8..bytes].copy_from_slice(&length);
        bytes
    }

    /// Returns the length in bytes of a message's blocks with their padding.
    pub(crate) const fn padded_bytes(message_bytes: usize) -> usize {
        // `next_multiple_of` would have a branch.
        (message_bytes + 9 + 63) & !63
    }

    /// Finishes `state`, which has absorbed `absorbed` bytes (whole blocks), with the rest of the message.
    pub(crate) fn finish(&self, compress: Compress, state: &mut [u32; 8], absorbed: u64, rest: &[u8]) {
        let whole = rest.len() & !63;
        compress(state, &rest[..whole]);
        let mut scratch = [0; 128];
        let padded = self.pad(&rest[whole..], absorbed + rest.len() as u64, &mut scratch);
        compress(state, &scratch[..padded]);
    }

    /// Computes the plain digest of a message.
    pub(crate) fn digest(&self, compress: Compress, message: &[u8], output: &mut [u8]) {
        let mut state = self.initial;
        self.finish(compress, &mut state, 0, message);
        self.write_digest(&state, output);
    }

    /// Returns the states of HMAC after the inner and outer key blocks.
    pub(crate) fn hmac_states(&self, key: &[u8]) -> ([u32; 8], [u32; 8]) {
        let compress = (self.compress)(Tier::Generic, Features::NONE);
        let mut block = [0u8; 64];
        if key.len() > 64 {
            let mut digest = [0; 32];
            self.digest(compress, key, &mut digest);
            block[..4 * self.words].copy_from_slice(&digest[..4 * self.words]);
        } else {
            block[..key.len()].copy_from_slice(key);
        }
        let absorb = |mask: u8| {
            let mut padded = block.map(|byte| byte ^ mask);
            let mut state = self.initial;
            compress(&mut state, &padded);
            zeroize::Zeroize::zeroize(&mut padded);
            state
        };
        let states = (absorb(0x36), absorb(0x5c));
        zeroize::Zeroize::zeroize(&mut block);
        states
    }
}

/// Runs one job through a compression function.
pub(crate) fn one(hash: &Hash, compress: Compress, job: &mut DigestJob<'_>) {
    match job.key.keyed() {
        Keyed::Own(_) => hash.digest(compress, job.input, &mut job.output),
        Keyed::Hmac { inner, outer } => {
            let mut state = *inner;
            hash.finish(compress, &mut state, 64, job.input);
            let mut digest = [0; 32];
            hash.write_digest(&state, &mut digest);
            let mut state = *outer;
            hash.finish(compress, &mut state, 64, &digest[..4 * hash.words]);
            hash.write_digest(&state, &mut job.output);
        }
    }
    job.status = Status::Done;
}

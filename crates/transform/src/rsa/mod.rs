//! RSA of 2048, 3072 and 4096 bits, RFC 8017: the private and the public operation on whole blocks, and the
//! paddings.
//!
//! An operation takes a block of as many bytes as the modulus has, and gives one. The rules are the same in
//! all tiers: the private operation refuses a block that is 0, 1, n - 1 or not below n, as AWS-LC does; the
//! public operation refuses one that is not below n. The private operation uses the Chinese remainder
//! theorem, and checks s^e = m before a byte leaves: a result that fails the check, by a fault of the machine
//! or a wrong part of the key, would reveal a prime (Boneh, DeMillo, Lipton 1997), and is an error instead.
//!
//! The native and the batch tier blind: AWS-LC by itself, the ways by pairs (r^e, 1 / r) of a pool in the
//! key (see `ways`). The reference does not. `halves` has an operation that two threads compute together.

mod halves;
mod operation;

pub(crate) mod key;
pub(crate) mod library;
pub(crate) mod padding;
pub(crate) mod reference;
#[cfg(target_arch = "x86_64")]
pub(crate) mod ways;

#[cfg(test)]
mod acvp;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod vectors;

pub use halves::{Half, Halves, Prime, Spent};
pub use operation::Operation;
pub(crate) use operation::{RSA_2048, RSA_3072, RSA_4096};

pub use key::{RsaKeyError, RsaPrivateKey, RsaPublicKey};
pub use padding::{PaddingError, RsaHash, pkcs1_block, pkcs1_verifies, pss_block, pss_verifies};

/// The result of an operation with an RSA key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RsaOutcome {
    /// The operation has not run yet.
    Pending,
    /// The output is complete.
    Done,
    /// Input or output has not the length of the modulus; no byte was written.
    BadLength,
    /// The block is not a number that the operation takes; the output was zeroed.
    OutOfRange,
    /// The result did not pass its check, or the library failed; the output was zeroed.
    Fault,
}

/// One operation with a key `K`.
#[derive(Debug)]
pub(crate) struct Job<'a, K> {
    pub(crate) key: &'a K,
    /// The block, as long as the modulus.
    pub(crate) input: &'a [u8],
    /// The result, as long as the modulus.
    pub(crate) output: &'a mut [u8],
    /// Pending until the operation has run.
    pub(crate) outcome: RsaOutcome,
}

/// One private operation: a signature of an encoded block, or a decryption.
pub(crate) type PrivateJob<'a> = Job<'a, RsaPrivateKey>;

/// One public operation: the block of a signature, or an encryption.
pub(crate) type PublicJob<'a> = Job<'a, RsaPublicKey>;

impl<'a, K> Job<'a, K> {
    /// Returns a job from `input` to `output`.
    pub(crate) const fn new(key: &'a K, input: &'a [u8], output: &'a mut [u8]) -> Self {
        Self { key, input, output, outcome: RsaOutcome::Pending }
    }

    /// Returns whether input and output have `bytes` bytes, the length of the modulus, and says so in the job if they
    /// have not.
    fn fits(&mut self, bytes: usize) -> bool {
        let fits = self.input.len() == bytes && self.output.len() == bytes;
        if !fits {
            self.outcome = RsaOutcome::BadLength;
        }
        fits
    }

    /// Ends the job, and zeroes the output unless it is complete.
    fn finish(&mut self, outcome: RsaOutcome) {
        if outcome != RsaOutcome::Done {
            self.output.fill(0);
        }
        self.outcome = outcome;
    }
}

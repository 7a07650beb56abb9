//! Finite-field Diffie-Hellman in the groups 14, 15 and 16 of RFC 3526: 2048, 3072 and 4096 bits, generator
//! 2.
//!
//! A private exponent has twice the bits of its group's security level (SP 800-56A revision 3, section 5.6.1.1), 256
//! or, in group 16, 320; or it has the full length of the group. All its bits take part in the computation, zeros
//! too. The other side's value y must satisfy 1 < y < p - 1, and so must the shared secret (sections 5.6.2.3.1 and
//! 5.7.1.1); all tiers refuse the same values. Values have the length of the group, with leading zeros.

mod operation;

pub(crate) mod groups;
pub(crate) mod library;
pub(crate) mod reference;
#[cfg(target_arch = "x86_64")]
pub(crate) mod ways;

#[cfg(test)]
mod tests;

pub use operation::Operation;
pub(crate) use operation::{DH_2048, DH_3072, DH_4096};

use std::sync::OnceLock;

use sealane_native::number::{Modulus as LibraryModulus, Natural};
use zeroize::Zeroizing;

use crate::debug_only;
use crate::montgomery::reference::{Modulus, Words, from_bytes, to_bytes};
use crate::montgomery::{Constants, TopAndOne};

/// A group of RFC 3526.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DhGroup {
    /// Group 14.
    Modp2048,
    /// Group 15.
    Modp3072,
    /// Group 16.
    Modp4096,
}

/// The length of a private exponent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DhExponent {
    /// 256 bits, in group 16 320: twice the group's level of security.
    Short,
    /// The length of the group.
    Full,
}

/// Why bytes are no private exponent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DhKeyError {
    /// The exponent has more bytes than its length allows.
    #[error("an exponent of {given_bytes} bytes; at most {max_bytes} are taken")]
    Length {
        /// The given length.
        given_bytes: usize,
        /// The longest that is taken.
        max_bytes: usize,
    },
    /// The exponent is 0 or 1, or not below p - 1.
    #[error("the exponent is below 2 or not below p - 1")]
    Range,
    /// The library gave no random numbers.
    #[error("the library gave no random numbers")]
    Random,
}

/// The result of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DhOutcome {
    /// The operation has not run yet.
    Pending,
    /// The output is complete.
    Done,
    /// A value has not the length of the group; no byte was written.
    BadLength,
    /// The other side's value or the secret that it gives is 0, 1, p - 1 or not below p; the output was
    /// zeroed.
    BadPeer,
    /// The library failed; the output was zeroed.
    Fault,
}

/// A group's prime, prepared for all tiers.
pub(crate) struct Prepared {
    /// The prime.
    pub(crate) modulus: Modulus,
    /// The bounds of values.
    pub(crate) bounds: TopAndOne,
    /// The prime for the ways.
    pub(crate) constants: Constants,
    /// The prime for AWS-LC; `None` if it had no memory.
    pub(crate) library: Option<LibraryModulus>,
}

impl DhGroup {
    /// All groups, the smallest first.
    pub const ALL: [Self; 3] = [Self::Modp2048, Self::Modp3072, Self::Modp4096];

    /// Returns the length of the prime in bits.
    pub const fn bits(self) -> usize {
        match self {
            Self::Modp2048 => 2048,
            Self::Modp3072 => 3072,
            Self::Modp4096 => 4096,
        }
    }

    /// Returns the length of public values and shared secrets in bytes.
    pub const fn bytes(self) -> usize {
        self.bits() / 8
    }

    /// Returns the prime, big-endian.
    pub const fn prime(self) -> &'static [u8] {
        match self {
            Self::Modp2048 => &groups::PRIME_2048,
            Self::Modp3072 => &groups::PRIME_3072,
            Self::Modp4096 => &groups::PRIME_4096,
        }
    }

    pub(crate) fn prepared(self) -> &'static Prepared {
        static PREPARED: [OnceLock<Prepared>; 3] = [const { OnceLock::new() }; 3];
        PREPARED[self as usize].get_or_init(|| {
            let words = from_bytes(self.prime(), self.bits() / 64);
            let modulus = Modulus::new(&words).expect("the groups' primes are odd");
            let bounds = TopAndOne::new(&modulus);
            let constants = Constants::new(&modulus, self.bits());
            Prepared { modulus, bounds, constants, library: LibraryModulus::new(self.prime()).ok() }
        })
    }
}

/// A private exponent.
pub struct DhPrivateKey {
    group: DhGroup,
    length: DhExponent,
    exponent: Words,
    library: Option<Natural>,
}

debug_only!(DhPrivateKey { group, length });

impl DhPrivateKey {
    /// Takes a big-endian exponent of at most 32 or 40 bytes ([`DhExponent::Short`]) or as many as the group has.
    ///
    /// # Errors
    /// The exponent is longer, below 2, or not below p - 1.
    pub fn new(group: DhGroup, length: DhExponent, exponent: &[u8]) -> Result<Self, DhKeyError> {
        let max_bytes = Self::exponent_bytes(group, length);
        if exponent.len() > max_bytes {
            return Err(DhKeyError::Length { given_bytes: exponent.len(), max_bytes });
        }
        let prepared = group.prepared();
        if !prepared.bounds.hold(&from_bytes(exponent, group.bits() / 64)) {
            return Err(DhKeyError::Range);
        }
        let words = from_bytes(exponent, max_bytes / 8);
        let mut padded = Zeroizing::new(vec![0; max_bytes]);
        to_bytes(&words, &mut padded);
        Ok(Self { group, length, exponent: words, library: Natural::from_bytes(&padded).ok() })
    }

    /// Draws an exponent.
    ///
    /// # Errors
    /// The library gave no random numbers.
    pub fn generate(group: DhGroup, length: DhExponent) -> Result<Self, DhKeyError> {
        let mut bytes = Zeroizing::new(vec![0; Self::exponent_bytes(group, length)]);
        // Nearly every string of a group's length is below its prime.
        for _ in 0..64 {
            aws_lc_rs::rand::fill(&mut bytes).map_err(|_| DhKeyError::Random)?;
            if let Ok(key) = Self::new(group, length, &bytes) {
                return Ok(key);
            }
        }
        Err(DhKeyError::Random)
    }

    const fn exponent_bytes(group: DhGroup, length: DhExponent) -> usize {
        match length {
            DhExponent::Short if matches!(group, DhGroup::Modp4096) => 40,
            DhExponent::Short => 32,
            DhExponent::Full => group.bytes(),
        }
    }

    /// Returns the group that the exponent was made for.
    pub const fn group(&self) -> DhGroup {
        self.group
    }

    /// Returns the length of the exponent.
    pub const fn length(&self) -> DhExponent {
        self.length
    }

    pub(crate) fn exponent(&self) -> &[u64] {
        &self.exponent
    }

    pub(crate) const fn library(&self) -> Option<&Natural> {
        self.library.as_ref()
    }
}

/// One operation: the public value of a key, or the secret that it shares with another side.
#[derive(Debug)]
pub(crate) struct DhJob<'a> {
    /// The private exponent.
    pub(crate) key: &'a DhPrivateKey,
    /// The other side's value; `None` asks for the public value.
    pub(crate) peer: Option<&'a [u8]>,
    /// The result, as long as the group.
    pub(crate) output: &'a mut [u8],
    /// The result.
    pub(crate) outcome: DhOutcome,
}

impl<'a> DhJob<'a> {
    /// Returns a job.
    pub(crate) const fn new(key: &'a DhPrivateKey, peer: Option<&'a [u8]>, output: &'a mut [u8]) -> Self {
        Self { key, peer, output, outcome: DhOutcome::Pending }
    }

    /// Returns whether the lengths fit, and says so in the job if they do not.
    fn fits(&mut self) -> bool {
        let bytes = self.key.group.bytes();
        let fits = self.output.len() == bytes && self.peer.is_none_or(|peer| peer.len() == bytes);
        if !fits {
            self.outcome = DhOutcome::BadLength;
        }
        fits
    }

    /// Ends the job, and zeroes the output unless it is complete.
    fn finish(&mut self, outcome: DhOutcome) {
        if outcome != DhOutcome::Done {
            self.output.fill(0);
        }
        self.outcome = outcome;
    }
}

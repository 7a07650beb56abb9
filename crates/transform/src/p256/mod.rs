//! P-256 (SP 800-186 section 3.2.1.3): ECDH of SP 800-56A, ECDSA of FIPS 186-5, and public keys.
//!
//! Three tiers: `reference`, obvious; `library`, AWS-LC's single operations; `ways` and
//! `ecdsa_ways`, up to eight at a time by AVX-512 IFMA. All accept and refuse the same, and write the same
//! bytes:
//! - A private key is between zero and the order of the group.
//! - A point has 65 bytes and starts with 4, or 33 and starts with 2 or 3 (SEC 1); its coordinates are below
//!   the prime, and it is on the curve. The neutral point and the hybrid form are refused.
//! - A digest has at least 20 bytes, of which the leftmost 32 count, as an integer modulo the order.
//! - r and s of a signature are between zero and the order; s may be above half of it, so that a second
//!   signature follows from each (its owner must not take signatures as names).
//! - A signature's nonce is RFC 6979's over HMAC-SHA-256, whatever made the digest: the same key and digest
//!   give the same signature. With 32 random bytes as additional data (its section 3.6) it is hedged:
//!   signatures differ, and a fault that repeats a nonce for another digest is not enough to reveal the key.
//!
//! Eight ways against AWS-LC on Zen 4 (one IFMA of 512 bits a cycle), and the fewest ways that are not
//! slower: signing 5.9 and 2, verification 4.8 and 2, ECDH 5.2 and 2 (compressed points 6.3), public keys 5.0
//! and 2.

mod operation;

#[cfg(target_arch = "x86_64")]
mod comb;
pub(crate) mod curve;
mod der;
#[cfg(target_arch = "x86_64")]
pub(crate) mod ecdsa_ways;
#[cfg(target_arch = "x86_64")]
mod field;
mod integer;
#[cfg(target_arch = "x86_64")]
mod inverse;
mod key;
#[cfg(target_arch = "x86_64")]
mod multiply;
pub(crate) mod native;
mod nonce;
#[cfg(target_arch = "x86_64")]
mod nonce_ways;
#[cfg(target_arch = "x86_64")]
mod points;
pub(crate) mod reference;
#[cfg(test)]
mod tests;
#[cfg(target_arch = "x86_64")]
mod vector;
#[cfg(target_arch = "x86_64")]
pub(crate) mod ways;

pub(crate) use operation::{ECDH_P256, ECDSA_P256};
pub use operation::{Operation, P256_DIGEST_BYTES_MAX, P256Digest};

pub use der::{LONGEST_SIGNATURE_DER_BYTES, signature_of_der, signature_to_der};
pub use key::{P256KeyError, P256PrivateKey, P256PublicKey};

/// The shortest digest that is signed or verified: SHA-1's and those of 160 bits.
pub(crate) const SHORTEST_DIGEST_BYTES: usize = 20;

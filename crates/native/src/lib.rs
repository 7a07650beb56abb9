//! AWS-LC, called through C: this crate alone depends on its bindings. It has what `aws-lc-rs` has not, or has only with
//! another cost or another shape: keys and texts as the caller's bytes, texts in parts, hashes that go on from a state, numbers,
//! and functions that the library exports for tests.
//!
//! - For kernels that are compared with others: [`aes`], [`states`], [`number`], [`rsa`], [`p256`], [`curve25519`], [`ml_kem`],
//!   [`ml_dsa`], [`Ccm`].
//! - For keys in files, and all that is done with one: [`key`], [`scrypt`].
//! - For texts in parts, between the places of a caller in C ([`Text`]): [`Blocks`], [`Gcm`], [`ChaCha`], [`unpad`], [`Digest`].
//!
//! **Guarantees:** no safe function of this crate reads or writes outside of what it was given, whatever the bytes; a failure is
//! [`Refused`], and says no more; each object of C's has one owner, which frees it; keys are wiped when dropped, and no `Debug` prints
//! them. Some functions are none that the library promises to keep: they are linked by names that contain its version, so that this
//! crate does not link with another.

#![deny(unsafe_code)]

/// The README's example is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

pub mod aes;
mod blocks;
mod ccm;
mod chacha;
pub mod curve25519;
mod digest;
mod gcm;
pub mod key;
pub mod ml_dsa;
pub mod ml_kem;
pub mod number;
mod outcome;
pub mod p256;
mod record;
pub mod rsa;
mod scrypt;
pub mod states;
mod text;

pub use blocks::{Blocks, Mode};
pub use ccm::Ccm;
pub use chacha::ChaCha;
pub use digest::{DIGEST_BYTES_MAX, Digest, Hash};
pub use gcm::Gcm;
pub use outcome::Refused;
pub use record::{Unpadded, unpad};
pub use scrypt::scrypt;
pub use text::{Places, Text};

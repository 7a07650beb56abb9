//! The algorithms: facts, key schedules, and kernels in four tiers.
//!
//! - [`catalogue`] names every algorithm and states its facts as data.
//! - A key is expanded once ([`DigestKey`], [`CipherKey`], [`AeadKey`]) and shared by the jobs of an association.
//! - A job ([`DigestJob`], [`CipherJob`], [`AeadJob`]) carries its whole context: key, IV, bytes.
//! - A message that does not fit into memory is a [`DigestStream`]; parts of many are absorbed together.
//! - [`Kernels`] runs a slice of jobs of one algorithm and leaves a status in each. It chooses the tier by the
//!   machine's features and the number of jobs; tier and instruction set can be forced.
//!
//! The crate has no I/O, no threads, no allocation per job, and no panics on any length. `unsafe` is confined to leaf
//! modules.
#![deny(unsafe_code)]
// On other architectures the helpers of the vector kernels have no callers.
#![cfg_attr(not(target_arch = "x86_64"), allow(dead_code, unused_imports, unused_macros, unused_variables))]

/// The README's example is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

#[macro_use]
mod list;

ciphers!(folders);
digests!(folders);
aeads!(folders);
asymmetrics!(folders);

mod aead;
mod algorithm;
mod asymmetric;
pub mod catalogue;
mod cipher_ways;
mod copy;
mod cost;
mod counted;
mod curve25519;
mod debug;
mod descriptor;
mod dispatch;
mod facts;
mod hash;
mod isa;
mod job;
mod keccak;
mod key;
mod mix;
mod modes;
mod montgomery;
mod order;
mod poly1305;
mod prepared;
mod schedule;
#[cfg(target_arch = "x86_64")]
mod short_ways;
mod simd;
mod wipe;
mod word;
mod word_ways;

pub use crate::blake3::{ChainingValue, LEAF_BYTES};
pub use crate::des::double::DoubleBoxDes;
pub use aead::{AeadJob, AeadKey, AeadKeyError, AeadLengths};
pub use algorithm::{Aead, Algorithm, Asymmetric, BlockCipher, Cipher, Digest, Gmac};
pub use asymmetric::{
    ASYMMETRIC_WAYS, AsymmetricFacts, AsymmetricJob, AsymmetricOperation, AsymmetricStep, Refusal,
};
pub use bucket::BUCKET_WORDS;
#[cfg(target_arch = "x86_64")]
pub use chacha::parts::ChaChaParts;
pub use cost::{AeadTotals, Cheaper};
pub use counted::{PACKET_KERNELS, PUBLIC_LOOPS, PacketKernel, PublicLoop};
pub use descriptor::{PeerNames, Promise};
pub use dispatch::Kernels;
pub use facts::{ByteOrder, Facts, KeyBytes, Limits, Standing};
pub use hash::stream::{DigestStream, StreamPart};
pub use isa::{Isa, SelectError, Tier};
pub use job::{Buffer, CipherJob, DIGEST_BYTES_MAX, DigestJob, LengthMismatch, Status};
pub use key::{CipherKey, DigestKey, KeyLengthError};
pub use mix::{TEN, code_sites, instruction_mix, trace};
pub use modes::{Direction, Mode};
pub use prepared::{Prepared, prepared};
pub use sha3::KeccakStream;
pub use word::{Event, MemoryAccess, Mix, Region};

//! Ciphers, digests and ML-KEM as the provider offers them: by AWS-LC, and by Sealane's kernels where these are faster.

mod chacha;
mod cipher;
mod hash;
mod kem;

pub(crate) use cipher::{Cipher, Kind, Mode};
pub(crate) use hash::Hash;
pub(crate) use kem::Kem;
pub(crate) use sealane_native::ml_kem::{SECRET_BYTES, SEED_BYTES};
pub(crate) use sealane_native::{DIGEST_BYTES_MAX, Digest, Refused, Text, unpad};

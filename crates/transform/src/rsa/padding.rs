//! The paddings of signatures, RFC 8017 section 9: PKCS #1 v1.5 and PSS, as functions over blocks.

use aws_lc_rs::digest::{self, Algorithm};
use subtle::ConstantTimeEq as _;
use zeroize::Zeroizing;

/// The hash of a padding or of its mask.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RsaHash {
    /// SHA-1, for old signatures.
    Sha1,
    /// SHA-256.
    Sha256,
    /// SHA-384.
    Sha384,
    /// SHA-512.
    Sha512,
}

/// Why a digest, a salt and a modulus make no block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PaddingError {
    /// The digest has not the length of the hash.
    #[error("a digest of {given_bytes} bytes; the hash has {hash_bytes}")]
    DigestLength {
        /// The given length.
        given_bytes: usize,
        /// The length that the hash gives.
        hash_bytes: usize,
    },
    /// The block is too short for digest and salt.
    #[error("digest and salt do not fit into the block")]
    TooLong,
}

/// Longest modulus in bytes.
const BLOCK_MAX: usize = 512;

/// The longest digest in bytes.
const DIGEST_MAX: usize = 64;

impl RsaHash {
    /// All hashes.
    pub const ALL: [Self; 4] = [Self::Sha1, Self::Sha256, Self::Sha384, Self::Sha512];

    /// Returns the length of a digest in bytes.
    pub const fn bytes(self) -> usize {
        match self {
            Self::Sha1 => 20,
            Self::Sha256 => 32,
            Self::Sha384 => 48,
            Self::Sha512 => 64,
        }
    }

    fn algorithm(self) -> &'static Algorithm {
        match self {
            Self::Sha1 => &digest::SHA1_FOR_LEGACY_USE_ONLY,
            Self::Sha256 => &digest::SHA256,
            Self::Sha384 => &digest::SHA384,
            Self::Sha512 => &digest::SHA512,
        }
    }

    /// Returns the DER encoding of `DigestInfo` up to the digest, RFC 8017 section 9.2, note 1.
    const fn prefix(self) -> &'static [u8] {
        match self {
            Self::Sha1 => &[0x30, 0x21, 0x30, 9, 6, 5, 0x2b, 0x0e, 3, 2, 0x1a, 5, 0, 4, 0x14],
            Self::Sha256 => {
                &[0x30, 0x31, 0x30, 0x0d, 6, 9, 0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, 1, 5, 0, 4, 0x20]
            }
            Self::Sha384 => {
                &[0x30, 0x41, 0x30, 0x0d, 6, 9, 0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, 2, 5, 0, 4, 0x30]
            }
            Self::Sha512 => {
                &[0x30, 0x51, 0x30, 0x0d, 6, 9, 0x60, 0x86, 0x48, 1, 0x65, 3, 4, 2, 3, 5, 0, 4, 0x40]
            }
        }
    }

    fn check(self, digest: &[u8]) -> Result<(), PaddingError> {
        let (given_bytes, hash_bytes) = (digest.len(), self.bytes());
        (given_bytes == hash_bytes)
            .then_some(())
            .ok_or(PaddingError::DigestLength { given_bytes, hash_bytes })
    }

    fn digest(self, parts: &[&[u8]]) -> Zeroizing<[u8; DIGEST_MAX]> {
        let mut context = digest::Context::new(self.algorithm());
        for part in parts {
            context.update(part);
        }
        let mut out = Zeroizing::new([0; DIGEST_MAX]);
        out[..self.bytes()].copy_from_slice(context.finish().as_ref());
        out
    }
}

/// Writes the block of PKCS #1 v1.5 (EMSA-PKCS1-v1_5) for a digest; `block` is as long as the modulus.
///
/// # Errors
/// The digest has another length than the hash, or the block has no room for it and eight bytes of padding.
pub fn pkcs1_block(hash: RsaHash, digest: &[u8], block: &mut [u8]) -> Result<(), PaddingError> {
    hash.check(digest)?;
    let prefix = hash.prefix();
    let text = prefix.len() + digest.len();
    let padding =
        block.len().checked_sub(text + 3).filter(|padding| *padding >= 8).ok_or(PaddingError::TooLong)?;
    block[..2].copy_from_slice(&[0, 1]);
    block[2..][..padding].fill(0xff);
    block[2 + padding] = 0;
    block[3 + padding..][..prefix.len()].copy_from_slice(prefix);
    block[3 + padding + prefix.len()..].copy_from_slice(digest);
    Ok(())
}

/// Returns whether `block`, the public operation's result, is the one block of PKCS #1 v1.5 for the digest.
pub fn pkcs1_verifies(hash: RsaHash, digest: &[u8], block: &[u8]) -> bool {
    let mut expected = [0; BLOCK_MAX];
    let Some(expected) = expected.get_mut(..block.len()) else { return false };
    pkcs1_block(hash, digest, expected).is_ok() && bool::from(expected.ct_eq(block))
}

/// XORs the mask MGF1 of `seed` to `data`, RFC 8017 appendix B.2.1.
fn mask(hash: RsaHash, seed: &[u8], data: &mut [u8]) {
    for (counter, chunk) in (0u32..).zip(data.chunks_mut(hash.bytes())) {
        let mask = hash.digest(&[seed, &counter.to_be_bytes()]);
        for (byte, mask) in chunk.iter_mut().zip(mask.iter()) {
            *byte ^= mask;
        }
    }
}

/// Writes the block of PSS (EMSA-PSS) for a digest and a salt; `block` is as long as the modulus, whose
/// length is a multiple of 8 bits. The salt should be random and as long as the digest.
///
/// # Errors
/// The digest has another length than the hash, or the block has no room for digest and salt.
pub fn pss_block(
    hash: RsaHash,
    mask_hash: RsaHash,
    digest: &[u8],
    salt: &[u8],
    block: &mut [u8],
) -> Result<(), PaddingError> {
    hash.check(digest)?;
    let masked = block.len().checked_sub(hash.bytes() + 1).ok_or(PaddingError::TooLong)?;
    let zeros = masked.checked_sub(salt.len() + 1).ok_or(PaddingError::TooLong)?;
    let tag = hash.digest(&[&[0; 8], digest, salt]);
    let (data, rest) = block.split_at_mut(masked);
    data[..zeros].fill(0);
    data[zeros] = 1;
    data[zeros + 1..].copy_from_slice(salt);
    mask(mask_hash, &tag[..hash.bytes()], data);
    // The block is one bit shorter than the modulus.
    if let Some(first) = data.first_mut() {
        *first &= 0x7f;
    }
    rest[..hash.bytes()].copy_from_slice(&tag[..hash.bytes()]);
    rest[hash.bytes()] = 0xbc;
    Ok(())
}

/// Returns whether `block`, the public operation's result, is a block of PSS for the digest with a salt of
/// `salt_bytes`. The block is public, so the time may depend on it.
pub fn pss_verifies(
    hash: RsaHash,
    mask_hash: RsaHash,
    digest: &[u8],
    salt_bytes: usize,
    block: &[u8],
) -> bool {
    let room = block.len().checked_sub(hash.bytes() + 1).filter(|_| block.len() <= BLOCK_MAX);
    let Some(masked) = room else { return false };
    let Some(zeros) = masked.checked_sub(salt_bytes + 1) else { return false };
    let (data, rest) = block.split_at(masked);
    let (tag, trailer) = rest.split_at(hash.bytes());
    if hash.check(digest).is_err() || trailer != [0xbc] || data.first().is_none_or(|first| first & 0x80 != 0)
    {
        return false;
    }
    let mut plain = [0; BLOCK_MAX];
    let plain = &mut plain[..masked];
    plain.copy_from_slice(data);
    mask(mask_hash, tag, plain);
    plain[0] &= 0x7f;
    let (padding, salt) = plain.split_at(zeros + 1);
    let is_padded = padding[..zeros].iter().all(|byte| *byte == 0) && padding[zeros] == 1;
    let expected = hash.digest(&[&[0; 8], digest, salt]);
    is_padded && bool::from(expected[..hash.bytes()].ct_eq(tag))
}

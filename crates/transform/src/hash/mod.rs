//! What MD5, SHA-1 and SHA-256 share: 64-byte blocks, at most eight 32-bit words of state, length padding, HMAC.
//!
//! Every tier is a [`Compress`] function over whole blocks or a lane kernel; padding and HMAC are written once here
//! and once in [`lanes`].

pub(crate) mod lanes;
pub(crate) mod stream;

use crate::catalogue::Digest;
use crate::isa::{Features, Tier};
use crate::job::{DigestJob, Status};
use crate::key::HashKey;
use crate::{md5, sha1, sha256};

/// Absorbs whole 64-byte blocks.
pub(crate) type Compress = fn(&mut [u32; 8], &[u8]);

/// The longest tail that fits into two blocks with its padding and length.
pub(crate) const MAX_TAIL: usize = 128 - 9;

/// The Merkle-Damgard hashes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hash {
    Md5,
    Sha1,
    Sha256,
}

impl Hash {
    /// The hash inside a digest or HMAC of the catalogue.
    pub(crate) const fn of(digest: Digest) -> Option<Self> {
        match digest {
            Digest::Md5 | Digest::HmacMd5 => Some(Self::Md5),
            Digest::Sha1 | Digest::HmacSha1 => Some(Self::Sha1),
            Digest::Sha256 | Digest::HmacSha256 => Some(Self::Sha256),
            _ => None,
        }
    }

    pub(crate) const fn initial(self) -> &'static [u32; 8] {
        match self {
            Self::Md5 => &md5::INITIAL,
            Self::Sha1 => &sha1::INITIAL,
            Self::Sha256 => &sha256::INITIAL,
        }
    }

    /// Words of state, which are also the digest's.
    pub(crate) const fn words(self) -> usize {
        match self {
            Self::Md5 => 4,
            Self::Sha1 => 5,
            Self::Sha256 => 8,
        }
    }

    pub(crate) fn compress(self, tier: Tier, features: Features) -> Compress {
        match (self, tier) {
            (Self::Md5, Tier::Reference) => md5::reference::blocks,
            (Self::Sha1, Tier::Reference) => sha1::reference::blocks,
            (Self::Sha256, Tier::Reference) => sha256::reference::blocks,
            (Self::Md5, _) => md5::single::blocks,
            (Self::Sha1, Tier::Generic) => sha1::lanes::one,
            (Self::Sha256, Tier::Generic) => sha256::lanes::one,
            (Self::Sha1, _) => sha1::native(features).unwrap_or(sha1::lanes::one),
            (Self::Sha256, _) => sha256::native(features).unwrap_or(sha256::lanes::one),
        }
    }

    /// Writes the digest held by a state.
    #[inline(always)]
    pub(crate) fn write_digest(self, state: &[u32; 8], output: &mut [u8; 32]) {
        for (word, bytes) in state[..self.words()].iter().zip(output.chunks_exact_mut(4)) {
            bytes.copy_from_slice(&match self {
                Self::Md5 => word.to_le_bytes(),
                Self::Sha1 | Self::Sha256 => word.to_be_bytes(),
            });
        }
    }

    /// Lays out the last one or two blocks of a message in zeroed `scratch`: its tail (at most [`MAX_TAIL`] bytes), the
    /// padding and its length. Returns their bytes.
    #[inline(always)]
    pub(crate) fn pad(self, tail: &[u8], message_bytes: u64, scratch: &mut [u8; 128]) -> usize {
        debug_assert!(tail.len() <= MAX_TAIL);
        let bytes = if tail.len() < 56 { 64 } else { 128 };
        // Without the call of a function where there is nothing to copy, as after a block cipher's packets.
        if !tail.is_empty() {
            scratch[..tail.len()].copy_from_slice(tail);
        }
        scratch[tail.len()] = 0x80;
        let bits = message_bytes.wrapping_mul(8);
        scratch[bytes - 8..bytes].copy_from_slice(&match self {
            Self::Md5 => bits.to_le_bytes(),
            Self::Sha1 | Self::Sha256 => bits.to_be_bytes(),
        });
        bytes
    }

    /// Bytes of the blocks that a message is with its padding.
    pub(crate) const fn padded_bytes(message_bytes: usize) -> usize {
        // What `next_multiple_of` makes with a branch.
        (message_bytes + 9 + 63) & !63
    }

    /// Finishes `state`, which has absorbed `absorbed` bytes (whole blocks), with the rest of the message.
    pub(crate) fn finish(self, compress: Compress, state: &mut [u32; 8], absorbed: u64, rest: &[u8]) {
        let whole = rest.len() & !63;
        compress(state, &rest[..whole]);
        let mut scratch = [0; 128];
        let padded = self.pad(&rest[whole..], absorbed + rest.len() as u64, &mut scratch);
        compress(state, &scratch[..padded]);
    }

    /// The plain digest of a message.
    pub(crate) fn digest(self, compress: Compress, message: &[u8], output: &mut [u8; 32]) {
        let mut state = *self.initial();
        self.finish(compress, &mut state, 0, message);
        self.write_digest(&state, output);
    }

    /// The states of HMAC after the inner and outer key blocks.
    pub(crate) fn hmac_states(self, key: &[u8]) -> ([u32; 8], [u32; 8]) {
        let compress = self.compress(Tier::Generic, Features::NONE);
        let mut block = [0u8; 64];
        if key.len() > 64 {
            let mut digest = [0; 32];
            self.digest(compress, key, &mut digest);
            block[..4 * self.words()].copy_from_slice(&digest[..4 * self.words()]);
        } else {
            block[..key.len()].copy_from_slice(key);
        }
        let absorb = |mask: u8| {
            let mut padded = block.map(|byte| byte ^ mask);
            let mut state = *self.initial();
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
pub(crate) fn one(hash: Hash, compress: Compress, job: &mut DigestJob<'_>) {
    match job.key.hash_key() {
        HashKey::Plain => hash.digest(compress, job.input, &mut job.output),
        HashKey::Hmac { inner, outer } => {
            let mut state = *inner;
            hash.finish(compress, &mut state, 64, job.input);
            let mut digest = [0; 32];
            hash.write_digest(&state, &mut digest);
            let mut state = *outer;
            hash.finish(compress, &mut state, 64, &digest[..4 * hash.words()]);
            hash.write_digest(&state, &mut job.output);
        }
    }
    job.status = Status::Done;
}

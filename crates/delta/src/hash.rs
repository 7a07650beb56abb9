//! The keyed hash of pieces.
//!
//! Guarantees: whoever chooses two pieces without knowing the key gets the same hash for them with a probability of at most
//! 2^-107 (the blocks of 16 bytes of the longest piece, over 2^128), however they are chosen.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

/// The length of a hash.
pub const HASH_BYTES: usize = 16;

/// The key of the hashes of pieces.
///
/// A hash is AES-256-GCM's tag of no text with the piece as additional data (GMAC, NIST SP 800-38D), under one nonce for all
/// pieces: GHASH, which is a polynomial over GF(2^128) at a secret point, plus a constant. The nonce may repeat because the tags
/// authenticate nothing: whoever sees two of them learns the point, and only both ends of a transfer, which have the key,
/// see any. A processor computes it several times as fast as a hash for which no key is needed.
#[derive(Debug)]
pub struct Key(LessSafeKey);

impl Key {
    /// Returns the key that is made of a secret.
    pub fn new(secret: &[u8; 32]) -> Self {
        let key = UnboundKey::new(&AES_256_GCM, secret).expect("a key of this algorithm has 32 bytes");
        Self(LessSafeKey::new(key))
    }

    /// Returns the hash of a piece.
    pub(crate) fn hash(&self, content: &[u8]) -> [u8; HASH_BYTES] {
        let nonce = Nonce::assume_unique_for_key([0; 12]);
        let tag = self.0.seal_in_place_separate_tag(nonce, Aad::from(content), &mut []);
        let tag = tag.expect("additional data may have 2^61 bytes, and a piece has less");
        tag.as_ref().try_into().expect("a tag of this algorithm has 16 bytes")
    }
}

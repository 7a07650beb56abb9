//! Records by libraries, one after the other: AWS-LC's AEADs and the authors' BLAKE3.
//!
//! Guarantees: tags are compared in constant time; a record that does not open says nothing but that.

use aws_lc_rs::aead;
use subtle::ConstantTimeEq;
use zeroize::{Zeroize, ZeroizeOnDrop, Zeroizing};

use super::{Suite, batch::JobStatus, session::NonceMask, together::Record};
use crate::Direction;

/// Tag of every AEAD, and of BLAKE3 as we cut it.
const TAG_BYTES: usize = 16;

/// Keys of a library.
pub(crate) enum Library {
    Null,
    Aead(aead::LessSafeKey, NonceMask),
    /// An AEAD whose body is associated data.
    Gmac(aead::LessSafeKey, NonceMask),
    Blake3(Blake3Key),
}

#[derive(Zeroize, ZeroizeOnDrop)]
pub(crate) struct Blake3Key([u8; 32]);

impl Library {
    /// `None` where no library runs the suite, or the material does not fit it.
    pub(crate) fn new(suite: Suite, material: &[u8]) -> Option<Self> {
        let aead = |algorithm: &'static aead::Algorithm| {
            let (key, mask) = material.split_at_checked(algorithm.key_len())?;
            let key = aead::UnboundKey::new(algorithm, key).ok()?;
            Some((aead::LessSafeKey::new(key), NonceMask(mask.try_into().ok()?)))
        };
        match suite {
            Suite::Null => Some(Self::Null),
            Suite::Aes128Gcm => aead(&aead::AES_128_GCM).map(|(key, mask)| Self::Aead(key, mask)),
            Suite::Aes256Gcm => aead(&aead::AES_256_GCM).map(|(key, mask)| Self::Aead(key, mask)),
            Suite::ChaCha20Poly1305 => {
                aead(&aead::CHACHA20_POLY1305).map(|(key, mask)| Self::Aead(key, mask))
            }
            Suite::Aes128Gmac => aead(&aead::AES_128_GCM).map(|(key, mask)| Self::Gmac(key, mask)),
            Suite::Blake3 => Some(Self::Blake3(Blake3Key(material.try_into().ok()?))),
            Suite::TripleDesCbcHmacSha1 | Suite::HmacSha1 => None,
        }
    }

    /// Seals or opens a record.
    pub(crate) fn run(&self, direction: Direction, record: &mut Record<'_>) {
        let done = match direction {
            Direction::Seal => {
                self.seal(record);
                Some(record.bytes.len() - record.header_bytes)
            }
            Direction::Open => self.open(record),
        };
        *record.status = done.map_or(JobStatus::Forged, |body_bytes| JobStatus::Done { body_bytes });
    }

    fn seal(&self, record: &mut Record<'_>) {
        let (header_bytes, sequence) = (record.header_bytes, record.sequence);
        let (clear, tag) = record.bytes.split_at_mut(header_bytes + record.body_bytes);
        match self {
            Self::Null => {}
            Self::Aead(key, mask) => {
                let (header, body) = clear.split_at_mut(header_bytes);
                let made = key
                    .seal_in_place_separate_tag(unique(mask, sequence), aead::Aad::from(header), body)
                    .expect("a record is far below the AEAD's length limit");
                tag.copy_from_slice(made.as_ref());
            }
            Self::Gmac(key, mask) => {
                let made = key
                    .seal_in_place_separate_tag(unique(mask, sequence), aead::Aad::from(clear), &mut [])
                    .expect("a record is far below the AEAD's length limit");
                tag.copy_from_slice(made.as_ref());
            }
            Self::Blake3(key) => tag.copy_from_slice(&blake3_tag(key, sequence, clear)),
        }
    }

    /// Returns the length of the plain body, which starts where the sealed body started, or `None` when the record is
    /// not authentic.
    fn open(&self, record: &mut Record<'_>) -> Option<usize> {
        let (header_bytes, sequence) = (record.header_bytes, record.sequence);
        let tag_bytes = if matches!(self, Self::Null) { 0 } else { TAG_BYTES };
        let body_bytes = record.body_bytes.checked_sub(tag_bytes)?;
        match self {
            Self::Null => {}
            Self::Aead(key, mask) => {
                let (header, sealed) = record.bytes.split_at_mut(header_bytes);
                key.open_in_place(unique(mask, sequence), aead::Aad::from(header), sealed).ok()?;
            }
            Self::Gmac(key, mask) => {
                let (clear, tag) = record.bytes.split_at_mut(header_bytes + body_bytes);
                key.open_in_place(unique(mask, sequence), aead::Aad::from(clear), tag).ok()?;
            }
            Self::Blake3(key) => {
                let (clear, tag) = record.bytes.split_at(header_bytes + body_bytes);
                let made = Zeroizing::new(blake3_tag(key, sequence, clear));
                if !bool::from(made.as_slice().ct_eq(tag)) {
                    return None;
                }
            }
        }
        Some(body_bytes)
    }
}

fn unique(mask: &NonceMask, sequence: u64) -> aead::Nonce {
    aead::Nonce::assume_unique_for_key(mask.nonce(sequence))
}

fn blake3_tag(key: &Blake3Key, sequence: u64, clear: &[u8]) -> [u8; TAG_BYTES] {
    // The number comes last so that the data keeps its alignment to BLAKE3's 1024-byte chunks; the header
    // carries the length, so no two inputs collide.
    let mut hasher = blake3::Hasher::new_keyed(&key.0);
    hasher.update(clear).update(&sequence.to_le_bytes());
    let mut tag = [0; TAG_BYTES];
    tag.copy_from_slice(&hasher.finalize().as_bytes()[..TAG_BYTES]);
    tag
}

//! ChaCha20-Poly1305 over one text that comes in parts of any length, for callers that have one text at a time.
//!
//! The elements of vectors are sixteen consecutive blocks of the stream; those that a part does not need wait for the next.
//! The first of them makes the one-time key. **Guarantees:** nothing is transformed outside of a text; keys and stream are
//! wiped when the value is dropped.

use zeroize::Zeroize as _;

use super::solo::{self, Words};
use crate::isa::{Avx512, Features};
use crate::job::Buffer;
use crate::modes::Direction;
use crate::poly1305::generic::Poly1305;
use crate::poly1305::poly1305_blocks;

/// Bytes of a block of the stream.
const BLOCK: usize = 64;
/// Bytes of the stream that one run of the rounds makes.
const AHEAD: usize = 16 * BLOCK;
/// Most bytes that are encrypted before they are authenticated: both find them in the first cache.
const PIECE: usize = 16 * AHEAD;
/// Bytes of a block of the authenticator.
const TAG: usize = 16;
/// Most bytes of a text: block counters have 32 bits, and the first block makes the key.
const TEXT_BYTES_MAX: u64 = ((1 << 32) - 1) * BLOCK as u64;

/// A text of ChaCha20-Poly1305 (RFC 8439, 2.8) under way.
#[derive(Clone)]
#[expect(missing_debug_implementations, reason = "it holds keys")]
pub struct ChaChaParts {
    proof: Avx512,
    words: Words,
    poly: Poly1305,
    /// Bytes of an incomplete block of the authenticator.
    open: [u8; TAG],
    open_bytes: usize,
    /// The stream of the next bytes, of which the first `used` are no longer needed.
    ahead: [u8; AHEAD],
    used: usize,
    data_bytes: u64,
    text_bytes: u64,
    direction: Direction,
    is_begun: bool,
    has_text: bool,
}

impl Drop for ChaChaParts {
    fn drop(&mut self) {
        self.words.wipe();
        self.open.zeroize();
        self.ahead.zeroize();
    }
}

impl ChaChaParts {
    /// Returns a value without a text; `None` on a processor without AVX-512, for which other libraries are faster.
    pub fn new() -> Option<Self> {
        Some(Self {
            proof: Features::detect().avx512?,
            words: Words::new(&[0; 32], &[0; 12]),
            poly: Poly1305::new(&[0; 32]),
            open: [0; TAG],
            open_bytes: 0,
            ahead: [0; AHEAD],
            used: AHEAD,
            data_bytes: 0,
            text_bytes: 0,
            direction: Direction::Encrypt,
            is_begun: false,
            has_text: false,
        })
    }

    /// Begins a text.
    pub fn begin(&mut self, direction: Direction, key: &[u8; 32], nonce: &[u8; 12]) {
        self.words = Words::new(key, nonce);
        (self.direction, self.is_begun, self.has_text) = (direction, true, false);
        (self.data_bytes, self.text_bytes, self.open_bytes) = (0, 0, 0);
        solo::ahead(self.proof, &self.words, 0, &mut self.ahead);
        if let Some(key) = self.ahead.first_chunk() {
            self.poly = Poly1305::new(key);
        }
        self.used = BLOCK;
    }

    /// Absorbs bytes into the authenticator.
    fn absorb(&mut self, mut bytes: &[u8]) {
        if self.open_bytes > 0 {
            let (first, rest) = bytes.split_at(bytes.len().min(TAG - self.open_bytes));
            self.open[self.open_bytes..][..first.len()].copy_from_slice(first);
            self.open_bytes += first.len();
            bytes = rest;
            if self.open_bytes < TAG {
                return;
            }
            self.poly.update(&self.open);
            self.open_bytes = 0;
        }
        let (blocks, rest) = bytes.as_chunks::<TAG>();
        poly1305_blocks::update(self.proof, &mut self.poly, blocks.as_flattened());
        self.open[..rest.len()].copy_from_slice(rest);
        self.open_bytes = rest.len();
    }

    /// Fills an incomplete block up with zeros.
    fn pad(&mut self) {
        if self.open_bytes > 0 {
            self.open[self.open_bytes..].fill(0);
            self.poly.update(&self.open);
            self.open_bytes = 0;
        }
    }

    fn end_data(&mut self) {
        if !std::mem::replace(&mut self.has_text, true) {
            self.pad();
        }
    }

    /// Authenticates bytes that are not encrypted; returns false outside of a text, and after its first bytes.
    #[must_use]
    pub fn authenticate(&mut self, data: &[u8]) -> bool {
        let may = self.is_begun && !self.has_text;
        if may {
            self.data_bytes += data.len() as u64;
            self.absorb(data);
        }
        may
    }

    /// Transforms the next bytes of the text; returns false outside of a text, or if it became too long.
    #[must_use]
    pub fn update(&mut self, mut data: Buffer<'_>) -> bool {
        let fits =
            self.text_bytes.checked_add(data.len() as u64).is_some_and(|total| total <= TEXT_BYTES_MAX);
        if !self.is_begun || !fits {
            return false;
        }
        if !data.is_empty() {
            self.end_data();
        }
        while !data.is_empty() {
            let left = data.len();
            let counter = (self.text_bytes / BLOCK as u64 + 1) as u32;
            let is_long = left > AHEAD && self.text_bytes.is_multiple_of(BLOCK as u64);
            if !is_long && self.used == AHEAD {
                solo::ahead(self.proof, &self.words, counter, &mut self.ahead);
                // The text may go on within a block.
                self.used = (self.text_bytes % BLOCK as u64) as usize;
            }
            let count = if is_long { (left - left % AHEAD).min(PIECE) } else { left.min(AHEAD - self.used) };
            let (part, rest) = data.split_at(count);
            if self.direction == Direction::Decrypt {
                self.absorb(part.source_bytes());
            }
            if is_long {
                solo::whole(self.proof, &self.words, counter, &part);
                self.used = AHEAD;
            } else {
                solo::xor_bytes(&part, &self.ahead[self.used..]);
                self.used += count;
            }
            if self.direction == Direction::Encrypt {
                self.absorb(part.written_bytes());
            }
            self.text_bytes += count as u64;
            data = rest;
        }
        true
    }

    /// Ends the text; returns its tag, and `None` outside of a text.
    pub fn finish(&mut self) -> Option<[u8; TAG]> {
        if !std::mem::replace(&mut self.is_begun, false) {
            return None;
        }
        self.end_data();
        self.pad();
        let lengths = u128::from(self.data_bytes) | u128::from(self.text_bytes) << 64;
        self.poly.update(&lengths.to_le_bytes());
        Some(self.poly.tag())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chacha::aead::seal_or_open;
    use crate::{Aead, AeadJob, AeadKey, Status};

    /// Texts in parts are those of the reference as a whole, and come back.
    #[test]
    fn parts_are_a_whole() {
        let Some(mut parts) = ChaChaParts::new() else { return };
        let (key, nonce) = ([7; 32], [9; 12]);
        let bytes: Vec<u8> = (0..40_000u32).map(|at| ((at * 31) >> 3) as u8).collect();
        let chacha = AeadKey::new(Aead::ChaCha20Poly1305, &key).unwrap();
        for (n, length) in [0, 1, 15, 16, 63, 64, 959, 960, 961, 1024, 1025, 2049, 5000, 17_000, 40_000]
            .into_iter()
            .enumerate()
        {
            let (aad, text) = (&bytes[..7 * n], &bytes[..length]);
            let mut whole = text.to_vec();
            let mut job = AeadJob::seal(&chacha, nonce, aad, Buffer::in_place(&mut whole));
            seal_or_open(&key, Direction::Encrypt, &mut job);
            let (tag, status) = (job.tag, job.status);
            assert_eq!(status, Status::Done);
            for cut in [1, 16, 17, 64, 333, 1024, 3000, 40_000] {
                for direction in [Direction::Encrypt, Direction::Decrypt] {
                    let sealing = direction == Direction::Encrypt;
                    let mut made = if sealing { text.to_vec() } else { whole.clone() };
                    parts.begin(direction, &key, &nonce);
                    aad.chunks(cut).for_each(|data| assert!(parts.authenticate(data)));
                    for part in made.chunks_mut(cut) {
                        assert!(parts.update(Buffer::in_place(part)));
                    }
                    assert_eq!(parts.finish(), Some(tag), "{length} bytes by {cut}");
                    assert!(made == if sealing { &whole[..] } else { text }, "{length} bytes by {cut}");
                }
            }
        }
        assert!(
            !parts.authenticate(&[]) && !parts.update(Buffer::in_place(&mut [])) && parts.finish().is_none()
        );
    }
}

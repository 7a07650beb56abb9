//! ChaCha20-Poly1305 (RFC 8439), in parts of any length; aws-lc-rs has texts as a whole.
//!
//! Four blocks of keystream are computed at a time, which takes little longer than one: the first makes the key of Poly1305, the
//! others are kept for short parts.
//!
//! **Guarantees:** no bytes are transformed and no tag is made before a key and a nonce are set; a nonce is used for
//! one text; the keys are zeroed when the value is dropped.

#![allow(unsafe_code)]

use aws_lc_sys as c;
use zeroize::Zeroize as _;

use crate::outcome::Refused;
use crate::text::Text;

/// The length of ChaCha20's block in bytes.
const BLOCK: usize = 64;

/// The length of the keystream that is computed at a time, in bytes.
const AHEAD: usize = 4 * BLOCK;

/// The length in bytes of a piece of a long part, which is encrypted and then authenticated while it is in the cache.
const PIECE: usize = 4096;

/// The length of Poly1305's block, and of a tag, in bytes.
const TAG: usize = 16;

/// The maximum length of a text in bytes: block counters have 32 bits, and the first is Poly1305's.
const TEXT_BYTES_MAX: u64 = ((1 << 32) - 1) * BLOCK as u64;

static ZEROS: [u8; AHEAD] = [0; AHEAD];

/// A `poly1305_state`. The library aligns what it keeps there, so a copy must be aligned alike.
#[derive(Clone)]
#[repr(C, align(64))]
struct Poly(c::poly1305_state);

/// A text under way, and its key.
#[derive(Clone)]
pub struct ChaCha {
    poly: Poly,
    key: [u8; 32],
    nonce: [u8; 12],
    /// Keystream for the next bytes of the text.
    ahead: [u8; AHEAD],
    /// The number of bytes at the start of `ahead` that are no longer needed.
    used: usize,
    data_bytes: u64,
    text_bytes: u64,
    encrypts: bool,
    has_key: bool,
    /// Whether there is a text under way.
    is_begun: bool,
    /// Whether the data that are only authenticated have ended.
    has_text: bool,
}

impl Drop for ChaCha {
    fn drop(&mut self) {
        self.key.zeroize();
        self.ahead.zeroize();
        self.poly.0.zeroize();
    }
}

impl ChaCha {
    /// Makes one that refuses everything until it has a key.
    #[must_use]
    pub fn without_key() -> Self {
        Self {
            poly: Poly([0; 512]),
            key: [0; 32],
            nonce: [0; 12],
            ahead: [0; AHEAD],
            used: AHEAD,
            data_bytes: 0,
            text_bytes: 0,
            encrypts: true,
            has_key: false,
            is_begun: false,
            has_text: false,
        }
    }

    /// Sets the key; a nonce must follow.
    ///
    /// # Errors
    /// Fails if it has not 32 bytes.
    pub fn set_key(&mut self, key: &[u8]) -> Result<(), Refused> {
        self.is_begun = false;
        self.key = key.try_into().map_err(|_| Refused)?;
        self.has_key = true;
        Ok(())
    }

    /// Begins a text.
    ///
    /// # Errors
    /// Fails without a key, or if the nonce has not 12 bytes.
    pub fn begin(&mut self, encrypts: bool, nonce: &[u8]) -> Result<(), Refused> {
        self.is_begun = false;
        if !self.has_key {
            return Err(Refused);
        }
        self.nonce = nonce.try_into().map_err(|_| Refused)?;
        (self.data_bytes, self.text_bytes) = (0, 0);
        (self.encrypts, self.has_text) = (encrypts, false);
        self.fill(0);
        self.used = BLOCK;
        // SAFETY: the key of Poly1305 has 32 bytes.
        unsafe { c::CRYPTO_poly1305_init(&mut self.poly.0, self.ahead.as_ptr()) };
        self.is_begun = true;
        Ok(())
    }

    /// Computes keystream from the block with this counter on.
    fn fill(&mut self, counter: u32) {
        let (key, nonce) = (self.key.as_ptr(), self.nonce.as_ptr());
        // SAFETY: both places have as many bytes.
        unsafe { c::CRYPTO_chacha_20(self.ahead.as_mut_ptr(), ZEROS.as_ptr(), AHEAD, key, nonce, counter) };
        self.used = 0;
    }

    /// Returns the counter of the block in which the next byte of the text is.
    fn counter(&self) -> u32 {
        (self.text_bytes / BLOCK as u64 + 1) as u32
    }

    fn add(&mut self, bytes: &[u8]) {
        // SAFETY: the bytes are a slice with its length.
        unsafe { c::CRYPTO_poly1305_update(&mut self.poly.0, bytes.as_ptr(), bytes.len()) };
    }

    /// Fills the last block of Poly1305 up.
    fn pad(&mut self, bytes: u64) {
        let open = (bytes % TAG as u64) as usize;
        if open > 0 {
            self.add(&ZEROS[..TAG - open]);
        }
    }

    /// Authenticates bytes that are not encrypted.
    ///
    /// # Errors
    /// Fails outside of a text, or after its first bytes.
    pub fn authenticate(&mut self, data: &[u8]) -> Result<(), Refused> {
        if !self.is_begun || self.has_text {
            return Err(Refused);
        }
        self.data_bytes = self.data_bytes.checked_add(data.len() as u64).ok_or(Refused)?;
        self.add(data);
        Ok(())
    }

    fn end_data(&mut self) {
        if !core::mem::replace(&mut self.has_text, true) {
            self.pad(self.data_bytes);
        }
    }

    /// Transforms the next bytes of the text.
    ///
    /// # Errors
    /// Fails outside of a text, if the text becomes too long, or if there is no room.
    pub fn update(&mut self, text: &Text) -> Result<(), Refused> {
        let length = text.length();
        let total = self.text_bytes.checked_add(length as u64).ok_or(Refused)?;
        if !self.is_begun || total > TEXT_BYTES_MAX || text.capacity() < length {
            return Err(Refused);
        }
        if length > 0 {
            self.end_data();
        }
        let mut done = 0;
        while done < length {
            let left = length - done;
            let is_long = left >= AHEAD && self.text_bytes.is_multiple_of(BLOCK as u64);
            if !is_long && self.used == AHEAD {
                self.fill(self.counter());
                // The text may go on within a block.
                self.used = (self.text_bytes % BLOCK as u64) as usize;
            }
            let count = if is_long { (left - left % BLOCK).min(PIECE) } else { left.min(AHEAD - self.used) };
            let part = text.part(done, count)?;
            if !self.encrypts {
                part.with_input(|ciphertext| self.add(ciphertext));
            }
            if is_long {
                self.long(&part);
            } else {
                self.short(&part)?;
            }
            if self.encrypts {
                part.with_output(|ciphertext| self.add(ciphertext));
            }
            self.text_bytes += count as u64;
            done += count;
        }
        Ok(())
    }

    /// Transforms whole blocks.
    fn long(&mut self, text: &Text) {
        let (key, nonce, counter) = (self.key.as_ptr(), self.nonce.as_ptr(), self.counter());
        // SAFETY: the places are as long as stated, which `part` has checked, and the same or apart.
        unsafe { c::CRYPTO_chacha_20(text.to(), text.from(), text.length(), key, nonce, counter) };
        self.used = AHEAD;
    }

    /// Transforms bytes for which there is keystream.
    fn short(&mut self, text: &Text) -> Result<(), Refused> {
        let key = &self.ahead[self.used..][..text.length()];
        let (blocks, bytes) = key.as_chunks::<TAG>();
        for (at, block) in blocks.iter().enumerate() {
            let after = u128::from_ne_bytes(text.read(at * TAG)?) ^ u128::from_ne_bytes(*block);
            text.write(at * TAG, &after.to_ne_bytes())?;
        }
        for (at, byte) in (blocks.len() * TAG..).zip(bytes) {
            let [before] = text.read(at)?;
            text.write(at, &[before ^ byte])?;
        }
        self.used += text.length();
        Ok(())
    }

    /// Ends the text; writes its tag.
    ///
    /// # Errors
    /// Fails outside of a text.
    pub fn finish(&mut self, tag: &mut [u8; TAG]) -> Result<(), Refused> {
        if !core::mem::replace(&mut self.is_begun, false) {
            return Err(Refused);
        }
        self.end_data();
        self.pad(self.text_bytes);
        let mut lengths = [0; TAG];
        lengths[..8].copy_from_slice(&self.data_bytes.to_le_bytes());
        lengths[8..].copy_from_slice(&self.text_bytes.to_le_bytes());
        self.add(&lengths);
        // SAFETY: the tag has as many bytes as Poly1305 writes.
        unsafe { c::CRYPTO_poly1305_finish(&mut self.poly.0, tag.as_mut_ptr()) };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use aws_lc_rs::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn texts_in_parts_are_what_they_are_as_a_whole(
            key: [u8; 32],
            nonce: [u8; 12],
            data in proptest::collection::vec(any::<u8>(), 0..70),
            text in prop_oneof![
                proptest::collection::vec(any::<u8>(), 0..40),
                proptest::collection::vec(any::<u8>(), 200..9000)
            ],
            cuts in proptest::collection::vec(any::<usize>(), 0..7),
        ) {
            let whole = LessSafeKey::new(UnboundKey::new(&CHACHA20_POLY1305, &key).unwrap());
            let mut sealed = text.clone();
            let nonce_of = || Nonce::assume_unique_for_key(nonce);
            let wanted = whole.seal_in_place_separate_tag(nonce_of(), Aad::from(&data), &mut sealed).unwrap();
            let mut ends: Vec<usize> =
                cuts.iter().map(|cut| cut % (text.len() + 1)).chain([text.len()]).collect();
            ends.sort_unstable();
            let mut chacha = ChaCha::without_key();
            let mut tag = [0; TAG];
            prop_assert!(chacha.begin(true, &nonce).is_err() && chacha.finish(&mut tag).is_err());
            chacha.set_key(&key).unwrap();
            for (encrypts, from, to) in [(true, &text, &sealed), (false, &sealed, &text)] {
                chacha.begin(encrypts, &nonce).unwrap();
                chacha.authenticate(&data).unwrap();
                let mut out = vec![0; from.len()];
                let mut start = 0;
                for end in &ends {
                    let place = out[start..].as_mut_ptr();
                    // SAFETY: both places have as many bytes.
                    let part = unsafe { Text::new(from[start..].as_ptr(), end - start, place, end - start) };
                    chacha.update(&part).unwrap();
                    start = *end;
                }
                chacha.finish(&mut tag).unwrap();
                prop_assert_eq!(&out, to);
                prop_assert_eq!(&tag[..], wanted.as_ref());
                prop_assert!(chacha.finish(&mut tag).is_err(), "a nonce is used for one text");
            }
        }
    }
}

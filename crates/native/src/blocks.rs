//! AES-CBC and AES-CTR (NIST SP 800-38A, 6.2 and 6.5) in parts of any length, with the padding of PKCS#7; aws-lc-rs has texts as
//! a whole.
//!
//! **Guarantees:** no more bytes are written than there is room for; keys and contexts are wiped when dropped.
#![allow(unsafe_code)]

use core::ffi::c_int;
use core::ptr::{null, null_mut};

use aws_lc_sys as c;
use zeroize::Zeroize as _;

use crate::aes::{BLOCK, Key};
use crate::outcome::{Refused, owned, yes};
use crate::text::Text;

owned! {
    /// A cipher with its key and a text under way.
    pub(crate) struct Context(c::EVP_CIPHER_CTX), EVP_CIPHER_CTX_free
}

// SAFETY: the context is used by its owner alone, and the library ties it to no thread.
unsafe impl Send for Context {}

impl Context {
    pub(crate) fn new() -> Result<Self, Refused> {
        // SAFETY: the function takes no arguments; the context is new.
        unsafe { Self::take(c::EVP_CIPHER_CTX_new()) }
    }

    #[inline]
    #[expect(clippy::needless_pass_by_ref_mut, reason = "whatever takes the pointer changes the object")]
    pub(crate) const fn context(&mut self) -> *mut c::EVP_CIPHER_CTX {
        self.as_ptr()
    }
}

/// A mode of operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Each block is added to the next; texts are padded, or are whole blocks.
    Cbc,
    /// Encrypted counters are added to the text.
    Ctr,
}

/// A key with a text under way.
pub struct Blocks {
    context: Context,
    /// The key of the context once more, for texts that need nothing else of it: for a block, the calls in between take
    /// as long as AES.
    key: Key,
    mode: Mode,
    key_bytes: usize,
    encrypts: bool,
    has_key: bool,
    pads: bool,
}

impl Blocks {
    /// Makes one that refuses everything until it has a key.
    ///
    /// # Errors
    /// AES has no keys of that length, or there is no memory.
    pub fn new(mode: Mode, key_bytes: usize) -> Result<Self, Refused> {
        // SAFETY: the functions take no arguments and return constants.
        let cipher = unsafe {
            match (mode, key_bytes) {
                (Mode::Cbc, 16) => c::EVP_aes_128_cbc(),
                (Mode::Cbc, 24) => c::EVP_aes_192_cbc(),
                (Mode::Cbc, 32) => c::EVP_aes_256_cbc(),
                (Mode::Ctr, 16) => c::EVP_aes_128_ctr(),
                (Mode::Ctr, 24) => c::EVP_aes_192_ctr(),
                (Mode::Ctr, 32) => c::EVP_aes_256_ctr(),
                _ => return Err(Refused),
            }
        };
        let mut context = Context::new()?;
        // SAFETY: the context is new; the cipher is static; key and vector follow later.
        yes(unsafe { c::EVP_CipherInit_ex(context.context(), cipher, null_mut(), null(), null(), 1) })?;
        Ok(Self { context, key: Key::none(), mode, key_bytes, encrypts: true, has_key: false, pads: true })
    }

    /// Returns a copy that goes on from the same state.
    ///
    /// # Errors
    /// There is no memory.
    pub fn duplicate(&self) -> Result<Self, Refused> {
        let mut context = Context::new()?;
        // SAFETY: both are contexts; the first is empty, and the second only read.
        yes(unsafe { c::EVP_CIPHER_CTX_copy(context.context(), self.context.as_ptr()) })?;
        Ok(Self { context, key: self.key.clone(), ..*self })
    }

    /// Sets direction, key and initialisation vector; one that is absent stays.
    ///
    /// # Errors
    /// A length is not that of this cipher.
    pub fn start(&mut self, encrypts: bool, key: Option<&[u8]>, iv: Option<&[u8]>) -> Result<(), Refused> {
        if key.is_some_and(|key| key.len() != self.key_bytes) || iv.is_some_and(|iv| iv.len() != BLOCK) {
            return Err(Refused);
        }
        self.encrypts = encrypts;
        if let Some(key) = key {
            self.has_key = self.key.set(encrypts || self.mode == Mode::Ctr, key).is_ok();
        }
        let (key, iv) = (key.map_or(null(), <[u8]>::as_ptr), iv.map_or(null(), <[u8]>::as_ptr));
        // SAFETY: the lengths were checked.
        yes(unsafe {
            c::EVP_CipherInit_ex(self.context.context(), null(), null_mut(), key, iv, encrypts.into())
        })
    }

    /// Sets whether AES-CBC pads texts.
    pub fn set_padding(&mut self, pads: bool) {
        self.pads = pads;
        // SAFETY: it sets a flag.
        unsafe { c::EVP_CIPHER_CTX_set_padding(self.context.context(), pads.into()) };
    }

    /// Transforms the next bytes; returns how many were written.
    ///
    /// # Errors
    /// There is no room for them, or no key.
    #[inline]
    pub fn update(&mut self, text: &Text) -> Result<usize, Refused> {
        if text.length() == 0 {
            return Ok(0);
        }
        if !self.has_key {
            return Err(Refused);
        }
        if self.transform(text) {
            return Ok(text.length());
        }
        let length = c_int::try_from(text.length()).map_err(|_| Refused)?;
        let most = if self.mode == Mode::Ctr {
            text.length()
        } else {
            // SAFETY: these are plain fields of a context that this value owns.
            let (kept, has_last) = unsafe {
                let context = &*self.context.as_ptr();
                (context.buf_len, context.final_used != 0)
            };
            let kept = usize::try_from(kept).map_err(|_| Refused)? + if has_last { BLOCK } else { 0 };
            (kept + text.length()) / BLOCK * BLOCK
        };
        if text.capacity() < most {
            return Err(Refused);
        }
        let mut written = 0;
        // SAFETY: the place has room for all complete blocks, and nothing beyond them is written.
        yes(unsafe {
            c::EVP_CipherUpdate(self.context.context(), text.to(), &mut written, text.from(), length)
        })?;
        usize::try_from(written).map_err(|_| Refused)
    }

    /// Transforms bytes of which nothing is kept back; returns false, and has done nothing, if they are others.
    #[inline]
    fn transform(&mut self, text: &Text) -> bool {
        let (from, to, length) = (text.from(), text.to(), text.length());
        if text.capacity() < length {
            return false;
        }
        // SAFETY: the context is this value's alone.
        let context = unsafe { &mut *self.context.context() };
        let key = &raw const self.key.0;
        if self.mode == Mode::Ctr {
            let (iv, stream) = (context.iv.as_mut_ptr(), context.buf.as_mut_ptr());
            // SAFETY: there is a key, vector and buffer are blocks, and the places are as long as stated.
            unsafe { c::AES_ctr128_encrypt(from, to, length, key, iv, stream, &mut context.num) };
            return true;
        }
        let is_whole = context.buf_len == 0 && context.final_used == 0 && length.is_multiple_of(BLOCK);
        if !is_whole || !self.encrypts && self.pads {
            return false;
        }
        let (iv, encrypts) = (context.iv.as_mut_ptr(), c_int::from(self.encrypts));
        // SAFETY: there is a key, the vector is a block, and the places have as many whole blocks.
        unsafe { c::AES_cbc_encrypt(from, to, length, key, iv, encrypts) };
        true
    }

    /// Ends a text; returns how many bytes were written.
    ///
    /// # Errors
    /// The padding is wrong, blocks are incomplete, or there is no key.
    pub fn finish(&mut self, out: &Text) -> Result<usize, Refused> {
        if !self.has_key {
            return Err(Refused);
        }
        let mut last = [0u8; 2 * BLOCK];
        let mut written = 0;
        // SAFETY: at most one block is written.
        yes(unsafe { c::EVP_CipherFinal_ex(self.context.context(), last.as_mut_ptr(), &mut written) })?;
        let written = usize::try_from(written).map_err(|_| Refused)?;
        if written == 0 {
            return Ok(0);
        }
        let outcome = out.write(0, &last[..written.min(BLOCK)]);
        last.zeroize();
        outcome.map(|()| written)
    }

    /// Returns the vector for the next block, and how many bytes of the present one were used.
    #[must_use]
    pub fn next_iv(&self) -> ([u8; BLOCK], u32) {
        // SAFETY: these are plain fields of a context that this value owns.
        let context = unsafe { &*self.context.as_ptr() };
        (context.iv, context.num)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Transforms a text in parts that end at these places.
    fn in_parts(blocks: &mut Blocks, text: &[u8], cuts: &[usize]) -> Result<Vec<u8>, Refused> {
        let mut ends: Vec<usize> =
            cuts.iter().map(|cut| cut % (text.len() + 1)).chain([text.len()]).collect();
        ends.sort_unstable();
        let mut out = vec![0; text.len() + BLOCK];
        let (mut start, mut done) = (0, 0);
        for end in ends {
            let (from, to) = (text[start..].as_ptr(), out[done..].as_mut_ptr());
            // SAFETY: the places are apart, and as long as stated.
            done += blocks.update(&unsafe { Text::new(from, end - start, to, text.len() + BLOCK - done) })?;
            start = end;
        }
        let to = out[done..].as_mut_ptr();
        // SAFETY: the place is as long as stated, and nothing is read.
        done += blocks.finish(&unsafe { Text::new(null(), 0, to, text.len() + BLOCK - done) })?;
        out.truncate(done);
        Ok(out)
    }

    proptest! {
        #[test]
        fn texts_in_parts_are_what_they_are_as_a_whole_and_come_back(
            key in prop_oneof![Just(16), Just(24), Just(32)].prop_map(|bytes| vec![7u8; bytes]),
            is_cbc: bool,
            text in proptest::collection::vec(any::<u8>(), 0..400),
            cuts in proptest::collection::vec(any::<usize>(), 0..7),
        ) {
            let mode = if is_cbc { Mode::Cbc } else { Mode::Ctr };
            let mut blocks = Blocks::new(mode, key.len()).unwrap();
            let vector = [9; BLOCK];
            blocks.start(true, Some(&key), Some(&vector)).unwrap();
            let whole = in_parts(&mut blocks, &text, &[]).unwrap();
            let padded = text.len() + BLOCK - text.len() % BLOCK;
            prop_assert_eq!(whole.len(), if is_cbc { padded } else { text.len() });
            blocks.start(true, None, Some(&vector)).unwrap();
            let mut copy = blocks.duplicate().unwrap();
            prop_assert_eq!(&in_parts(&mut blocks, &text, &cuts).unwrap(), &whole);
            prop_assert_eq!(&in_parts(&mut copy, &text, &cuts).unwrap(), &whole);
            blocks.start(false, Some(&key), Some(&vector)).unwrap();
            prop_assert_eq!(in_parts(&mut blocks, &whole, &cuts).unwrap(), text);
        }
    }

    /// NIST SP 800-38A, F.2.1: the first block.
    #[test]
    fn a_block_without_padding_is_the_vector_and_rooms_are_kept() {
        let key = hex_literal::hex!("2b7e151628aed2a6abf7158809cf4f3c");
        let vector = hex_literal::hex!("000102030405060708090a0b0c0d0e0f");
        let block = hex_literal::hex!("6bc1bee22e409f96e93d7e117393172a");
        let mut blocks = Blocks::new(Mode::Cbc, 16).unwrap();
        blocks.set_padding(false);
        blocks.start(true, Some(&key), Some(&vector)).unwrap();
        let made = in_parts(&mut blocks, &block, &[]).unwrap();
        assert_eq!(made, hex_literal::hex!("7649abac8119b246cee98e9b12e9197d"));
        assert_eq!(blocks.next_iv().0, made[..]);
        let mut out = [0; 15];
        // SAFETY: the places are apart, and as long as stated.
        let text = unsafe { Text::new(block.as_ptr(), 16, out.as_mut_ptr(), 15) };
        assert_eq!((blocks.update(&text), out), (Err(Refused), [0; 15]));
        assert_eq!(in_parts(&mut blocks, &block[1..], &[]), Err(Refused), "no whole block");
        for mode in [Mode::Cbc, Mode::Ctr] {
            let mut blocks = Blocks::new(mode, 16).unwrap();
            assert_eq!(in_parts(&mut blocks, &block, &[]), Err(Refused), "no key");
            blocks.start(true, None, Some(&vector)).unwrap();
            assert_eq!(in_parts(&mut blocks, &block, &[]), Err(Refused), "no key");
        }
        assert!(blocks.start(true, Some(&key[1..]), None).is_err() && Blocks::new(Mode::Ctr, 17).is_err());
    }
}

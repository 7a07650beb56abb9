//! AES-GCM (NIST SP 800-38D), in parts of any length.
//!
//! A part of up to eight blocks is encrypted here, with keystream for up to eight blocks at a time, because AWS-LC's
//! function for a text takes as long for one block as for ten. That function computes longer parts.
//!
//! The functions are AWS-LC's own, which its header for programs does not declare. The names contain the library's
//! version, so another version, whose structures may differ, does not link.
//!
//! **Guarantees:** no bytes are transformed and no tag is made before a key and a vector are set; a vector is used for
//! one text; the keys are zeroed when the value is dropped.

#![allow(unsafe_code)]

use crate::aes::BLOCK;
use crate::outcome::{Refused, yes};
use crate::text::Text;
use aws_lc_sys as c;
use core::ffi::{c_int, c_uint, c_void};
use core::hint::black_box;
use core::mem::offset_of;
use core::ptr::null_mut;

/// The maximum length in bytes of a part that is encrypted here: eight blocks, which AES's units work on side by side.
const SHORT: usize = 8 * BLOCK;

/// The maximum length of a text in bytes (SP 800-38D, 5.2.1.1).
const TEXT_BYTES_MAX: u64 = (1 << 36) - 32;

/// The length in bytes of a vector whose counters start at 1. Another vector's counters may start anywhere.
const IV_BYTES: usize = 12;

static ZEROS: [u8; SHORT] = [0; SHORT];

type Block = [u8; BLOCK];

/// Returns the sum of two blocks. It is one operation on vectors, whose result another one can read at once, which it could
/// not if words were stored.
#[inline(always)]
fn sum(one: Block, other: Block) -> Block {
    core::array::from_fn(|at| one[at] ^ other[at])
}

/// Multiples of the hash key, in an order that depends on the processor.
type Table = [[u64; 2]; 16];

/// `gmult_func`: multiplies a hash by the key.
type Multiply = unsafe extern "C" fn(hash: *mut Block, table: *const Table);

/// `ghash_func`: adds and multiplies each of several whole blocks.
type HashBlocks =
    unsafe extern "C" fn(hash: *mut Block, table: *const Table, blocks: *const u8, length: usize);

/// `ctr128_f`: encrypts whole blocks with a counter of 32 bits.
type Stream = unsafe extern "C" fn(
    from: *const u8,
    to: *mut u8,
    blocks: usize,
    key: *const c::AES_KEY,
    counter: *const Block,
);

/// `GCM128_KEY`.
#[derive(Clone)]
#[repr(C)]
struct HashKey {
    table: Table,
    multiply: Option<Multiply>,
    hash_blocks: Option<HashBlocks>,
    encrypt: Option<unsafe extern "C" fn()>,
    is_fused: c_uint,
}

/// `GCM128_CONTEXT`.
#[derive(Clone)]
#[repr(C, align(16))]
struct State {
    /// The counter: the next block's, or with AVX-512 the last block's in little-endian order.
    counter: Block,
    keystream: Block,
    /// The encrypted first counter, which hides the tag.
    mask: Block,
    data_bytes: u64,
    text_bytes: u64,
    hash: Block,
    key: HashKey,
    /// The number of bytes in the last, incomplete block of the text.
    open_text: c_uint,
    /// The same of the data that are only authenticated.
    open_data: c_uint,
}

const _: () = assert!(
    size_of::<State>() == 384
        && offset_of!(State, hash) == 64
        && offset_of!(State, key) == 80
        && offset_of!(State, open_text) == 368
);

// # Safety
// The declarations, and the structures above, are those of AWS-LC at the version in the names. Structures are aligned,
// and writable where they are not constant. `set_key` takes a key of 16, 24 or 32 readable bytes, and `encrypt` null or
// a place for a pointer. All others take a state whose hash key is that of `key`, which `set_key` has written; all but
// `set_iv` take one whose vector was set. Bytes are readable for `length`, and those at `to` and `tag` writable (of a
// tag at most 16); `from` and `to` are equal or disjoint. `stream` is what `set_key` returned for the key.
unsafe extern "C" {
    #[link_name = "aws_lc_0_47_0_aes_ctr_set_key"]
    fn set_key(
        key: *mut c::AES_KEY,
        hash_key: *mut HashKey,
        encrypt: *mut c_void,
        bytes: *const u8,
        length: usize,
    ) -> Option<Stream>;
    #[link_name = "aws_lc_0_47_0_CRYPTO_gcm128_setiv"]
    fn set_iv(state: *mut State, key: *const c::AES_KEY, iv: *const u8, length: usize);
    #[link_name = "aws_lc_0_47_0_CRYPTO_gcm128_aad"]
    fn add_data(state: *mut State, data: *const u8, length: usize) -> c_int;
    #[link_name = "aws_lc_0_47_0_CRYPTO_gcm128_encrypt_ctr32"]
    fn encrypt(
        state: *mut State,
        key: *const c::AES_KEY,
        from: *const u8,
        to: *mut u8,
        length: usize,
        stream: Stream,
    ) -> c_int;
    #[link_name = "aws_lc_0_47_0_CRYPTO_gcm128_decrypt_ctr32"]
    fn decrypt(
        state: *mut State,
        key: *const c::AES_KEY,
        from: *const u8,
        to: *mut u8,
        length: usize,
        stream: Stream,
    ) -> c_int;
    #[link_name = "aws_lc_0_47_0_CRYPTO_gcm128_tag"]
    fn write_tag(state: *mut State, tag: *mut u8, length: usize);
}

// # Safety
// The declaration is that of AWS-LC at the version in the name. The function takes no arguments, and any call is safe.
#[cfg(target_arch = "x86_64")]
unsafe extern "C" {
    #[link_name = "aws_lc_0_47_0_crypto_gcm_avx512_enabled"]
    safe fn has_avx512() -> c_int;
}

/// A text under way, and its key.
#[derive(Clone)]
pub struct Gcm {
    state: State,
    key: c::AES_KEY,
    /// The key as it was given, with zeros behind it, and its length. Programs set a key that stays with every vector; it
    /// takes as long to expand and to multiply as a short text.
    given: ([u64; 4], usize),
    /// Encrypts counters; it is there once a key is.
    stream: Option<Stream>,
    /// The first counter.
    first: Block,
    /// Keystream for the next bytes of the text.
    ahead: [u8; SHORT],
    /// The number of bytes at the start of `ahead` that are no longer needed.
    used: usize,
    /// The number of blocks to be computed next.
    stride: usize,
    /// Whether the first counter is encrypted, in the state.
    has_mask: bool,
    encrypts: bool,
    /// Whether there is a text under way.
    is_begun: bool,
    /// Whether parts may be encrypted here.
    is_usual: bool,
}

impl Drop for Gcm {
    fn drop(&mut self) {
        // SAFETY: the value consists of plain data, for which zeros are valid.
        unsafe { c::OPENSSL_cleanse(core::ptr::from_mut(self).cast(), size_of::<Self>()) };
    }
}

impl Gcm {
    /// Makes one that refuses everything until it has a key.
    #[must_use]
    pub fn without_key() -> Self {
        let key =
            HashKey { table: [[0; 2]; 16], multiply: None, hash_blocks: None, encrypt: None, is_fused: 0 };
        let zeros = [0; BLOCK];
        Self {
            state: State {
                counter: zeros,
                keystream: zeros,
                mask: zeros,
                data_bytes: 0,
                text_bytes: 0,
                hash: zeros,
                key,
                open_text: 0,
                open_data: 0,
            },
            key: c::AES_KEY { rd_key: [0; 60], rounds: 0 },
            given: ([0; 4], 0),
            stream: None,
            first: zeros,
            ahead: [0; SHORT],
            used: SHORT,
            stride: 1,
            has_mask: false,
            encrypts: true,
            is_begun: false,
            is_usual: false,
        }
    }

    /// Sets the key; a vector must follow.
    ///
    /// # Errors
    /// Fails if AES has no keys of this length, or on a processor of 32 bits without a function for counters.
    pub fn set_key(&mut self, key: &[u8]) -> Result<(), Refused> {
        self.is_begun = false;
        if !matches!(key.len(), 16 | 24 | 32) {
            return Err(Refused);
        }
        let mut given = [0; 4];
        for (word, bytes) in given.iter_mut().zip(key.chunks_exact(8)) {
            *word = u64::from_ne_bytes(bytes.try_into().map_err(|_| Refused)?);
        }
        // All words are compared, however many of them are equal.
        let differs = self.given.0.iter().zip(given).fold(0, |differs, (old, new)| differs | (old ^ new));
        if self.given.1 == key.len() && black_box(differs) == 0 {
            return Ok(());
        }
        self.given = (given, key.len());
        // SAFETY: both structures are this version's, and the length is one of AES's.
        self.stream =
            unsafe { set_key(&mut self.key, &mut self.state.key, null_mut(), key.as_ptr(), key.len()) };
        self.stream.map(|_| ()).ok_or(Refused)
    }

    /// Begins a text with a vector of any length.
    ///
    /// # Errors
    /// Fails without a key.
    #[inline]
    pub fn begin(&mut self, encrypts: bool, iv: &[u8]) -> Result<(), Refused> {
        self.stream.ok_or(Refused)?;
        self.encrypts = encrypts;
        self.is_begun = true;
        let usual: Option<&[u8; IV_BYTES]> = iv.try_into().ok();
        self.is_usual = usual.is_some();
        let Some(iv) = usual else {
            // SAFETY: there is a key, and the vector is a slice with its length.
            unsafe { set_iv(&mut self.state, &self.key, iv.as_ptr(), iv.len()) };
            return Ok(());
        };
        let state = &mut self.state;
        (state.data_bytes, state.text_bytes) = (0, 0);
        (state.open_data, state.open_text) = (0, 0);
        state.hash = [0; BLOCK];
        self.first[..IV_BYTES].copy_from_slice(iv);
        self.first[IV_BYTES..].copy_from_slice(&1u32.to_be_bytes());
        self.has_mask = false;
        Ok(())
    }

    /// Encrypts the first counter, together with those of a short part that follows.
    fn mask(&mut self, stream: Stream, part_bytes: usize) {
        let blocks = if part_bytes > SHORT { 0 } else { part_bytes.div_ceil(BLOCK) };
        self.fill(stream, 0, (1 + blocks).min(SHORT / BLOCK));
        self.stride = 2;
        self.state.mask.copy_from_slice(&self.ahead[self.used..self.used + BLOCK]);
        self.used += BLOCK;
        self.has_mask = true;
    }

    /// Returns the counter that is `blocks` after the first.
    fn counter(&self, blocks: u64) -> Block {
        let mut counter = self.first;
        // Refused text is so long that the counter starts again.
        counter[IV_BYTES..].copy_from_slice(&(blocks as u32).wrapping_add(1).to_be_bytes());
        counter
    }

    /// Encrypts the counters of `blocks` blocks, the first of which is `from` after the first of all.
    fn fill(&mut self, stream: Stream, from: u64, blocks: usize) {
        let counter = self.counter(from);
        self.used = SHORT - blocks * BLOCK;
        let place = &mut self.ahead[self.used..];
        // SAFETY: there is a key, and the place has as many blocks.
        unsafe { stream(ZEROS.as_ptr(), place.as_mut_ptr(), blocks, &self.key, &counter) };
    }

    /// Authenticates bytes that are not encrypted.
    ///
    /// # Errors
    /// Fails outside of a text, or after its first bytes.
    #[inline]
    pub fn authenticate(&mut self, data: &[u8]) -> Result<(), Refused> {
        if !self.is_begun {
            return Err(Refused);
        }
        // SAFETY: the data are a slice with its length.
        yes(unsafe { add_data(&mut self.state, data.as_ptr(), data.len()) })
    }

    /// Transforms the next bytes of the text.
    ///
    /// # Errors
    /// Fails outside of a text, if the text becomes too long, or if there is no room.
    #[inline]
    pub fn update(&mut self, text: &Text) -> Result<(), Refused> {
        let stream = self.stream.filter(|_| self.is_begun).ok_or(Refused)?;
        let length = text.length();
        let total = self.state.text_bytes.checked_add(length as u64).ok_or(Refused)?;
        if total > TEXT_BYTES_MAX || text.capacity() < length {
            return Err(Refused);
        }
        if !self.is_usual {
            return self.transform(stream, text);
        }
        if !self.has_mask {
            self.mask(stream, length);
        }
        if self.state.open_data > 0 && length > 0 {
            self.multiply()?;
            self.state.open_data = 0;
        }
        let mut done = 0;
        while done < length {
            let left = text.part(done, length - done)?;
            done += if left.length() > SHORT && self.state.text_bytes.is_multiple_of(BLOCK as u64) {
                self.long(stream, &left)?
            } else {
                self.short(stream, &left)?
            };
        }
        Ok(())
    }

    /// Transforms bytes by AWS-LC's function.
    fn transform(&mut self, stream: Stream, text: &Text) -> Result<(), Refused> {
        let (from, to, length) = (text.from(), text.to(), text.length());
        let function = if self.encrypts { encrypt } else { decrypt };
        // SAFETY: there are a key and a vector; the places are as long as stated, which `update` has checked.
        yes(unsafe { function(&mut self.state, &self.key, from, to, length, stream) })
    }

    /// Transforms the whole blocks of a long part; returns their length in bytes.
    fn long(&mut self, stream: Stream, text: &Text) -> Result<usize, Refused> {
        let whole = text.length() - text.length() % BLOCK;
        let before = self.state.text_bytes / BLOCK as u64;
        self.state.counter = if self.counts_last() {
            let mut last = self.counter(before);
            last.reverse();
            last
        } else {
            self.counter(before + 1)
        };
        self.transform(stream, &text.part(0, whole)?)?;
        // With AVX-512 the last block of sixteen is added, and multiplied with what follows.
        if core::mem::replace(&mut self.state.open_text, 0) > 0 {
            self.multiply()?;
        }
        // A rest has less than a block.
        (self.used, self.stride) = (SHORT, 1);
        Ok(whole)
    }

    /// Returns whether AWS-LC's function has the last counter instead of the next.
    fn counts_last(&self) -> bool {
        #[cfg(target_arch = "x86_64")]
        return self.state.key.is_fused & 1 == 1 && has_avx512() == 1;
        #[cfg(not(target_arch = "x86_64"))]
        return false;
    }

    /// Transforms bytes at the start of a short part; returns their number.
    fn short(&mut self, stream: Stream, text: &Text) -> Result<usize, Refused> {
        if self.used == SHORT {
            self.fill(stream, self.state.text_bytes / BLOCK as u64 + 1, self.stride);
            self.stride = (2 * self.stride).min(SHORT / BLOCK);
        }
        let open = (self.state.text_bytes % BLOCK as u64) as usize;
        let ready = text.length().min(SHORT - self.used);
        let count = if open == 0 && ready >= BLOCK {
            self.blocks(text, ready - ready % BLOCK)?
        } else {
            self.bytes(text, open, ready.min(BLOCK - open))?
        };
        self.used += count;
        self.state.text_bytes += count as u64;
        Ok(count)
    }

    /// Transforms whole blocks.
    fn blocks(&mut self, text: &Text, length: usize) -> Result<usize, Refused> {
        if length == BLOCK {
            self.state.hash = sum(self.state.hash, self.block(text, 0)?);
            self.multiply()?;
            return Ok(length);
        }
        let mut hidden = [0; SHORT];
        for (at, place) in hidden[..length].chunks_exact_mut(BLOCK).enumerate() {
            place.copy_from_slice(&self.block(text, at * BLOCK)?);
        }
        let hash_blocks = self.state.key.hash_blocks.ok_or(Refused)?;
        // SAFETY: the table is that of a key, and there are as many bytes, whole blocks.
        unsafe { hash_blocks(&mut self.state.hash, &self.state.key.table, hidden.as_ptr(), length) };
        Ok(length)
    }

    /// Transforms one block; returns it as it is when encrypted.
    #[inline(always)]
    fn block(&self, text: &Text, at: usize) -> Result<Block, Refused> {
        let from = self.used + at;
        let key: Block = self.ahead[from..from + BLOCK].try_into().map_err(|_| Refused)?;
        let before = text.read(at)?;
        let after = sum(before, key);
        text.write(at, &after)?;
        Ok(if self.encrypts { after } else { before })
    }

    /// Transforms bytes of an incomplete block, which has `open` bytes before.
    fn bytes(&mut self, text: &Text, open: usize, length: usize) -> Result<usize, Refused> {
        for at in 0..length {
            let [before] = text.read(at)?;
            let after = before ^ self.ahead[self.used + at];
            self.state.hash[open + at] ^= if self.encrypts { after } else { before };
            text.write(at, &[after])?;
        }
        if open + length == BLOCK {
            self.multiply()?;
        }
        Ok(length)
    }

    fn multiply(&mut self) -> Result<(), Refused> {
        let multiply = self.state.key.multiply.ok_or(Refused)?;
        // SAFETY: the table is that of a key.
        unsafe { multiply(&mut self.state.hash, &self.state.key.table) };
        Ok(())
    }

    /// Ends the text; writes its tag.
    ///
    /// # Errors
    /// Fails outside of a text.
    #[inline]
    pub fn finish(&mut self, tag: &mut Block) -> Result<(), Refused> {
        let stream = self.stream.filter(|_| self.is_begun).ok_or(Refused)?;
        self.is_begun = false;
        if !self.is_usual {
            // SAFETY: there are a key and a vector, and the tag has as many bytes.
            unsafe { write_tag(&mut self.state, tag.as_mut_ptr(), BLOCK) };
            return Ok(());
        }
        if !self.has_mask {
            self.mask(stream, 0);
        }
        if self.state.open_data > 0 || !self.state.text_bytes.is_multiple_of(BLOCK as u64) {
            self.multiply()?;
        }
        let bits = u128::from(8 * self.state.data_bytes) << 64 | u128::from(8 * self.state.text_bytes);
        self.state.hash = sum(self.state.hash, bits.to_be_bytes());
        self.multiply()?;
        *tag = sum(self.state.hash, self.state.mask);
        Ok(())
    }
}

#[cfg(test)]
mod tests;

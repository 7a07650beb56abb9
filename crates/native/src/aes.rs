//! AES by an expanded key (FIPS 197) in two modes that go on from any state: aws-lc-rs has messages as a whole.
//!
//! The time does not depend on the bytes where the library's does not, which is wherever the processor has instructions for AES.
//!
//! **Guarantees:** nothing is allocated; expanded keys are wiped when dropped.
#![allow(unsafe_code)]

use core::ffi::{c_int, c_uint};

use aws_lc_sys as c;
use zeroize::Zeroize as _;

use crate::outcome::{Refused, yes};

/// The length of AES's block in bytes.
pub(crate) const BLOCK: usize = 16;

/// Bytes whose chain is computed by one call, into memory that nobody reads.
const PIECE: usize = 1024;

/// Expanded round keys for one direction.
#[derive(Clone)]
pub struct Key(pub(crate) c::AES_KEY);

impl Drop for Key {
    fn drop(&mut self) {
        self.0.rd_key.zeroize();
    }
}

/// A function that expands a key: bytes, their bits, and the place for the result.
type Expand = unsafe extern "C" fn(*const u8, c_uint, *mut c::AES_KEY) -> c_int;

impl Key {
    /// Without a key: the round keys are zero.
    pub(crate) const fn none() -> Self {
        Self(c::AES_KEY { rd_key: [0; 60], rounds: 0 })
    }

    /// Expands 16, 24 or 32 bytes for encryption.
    ///
    /// # Errors
    /// There are others.
    pub fn encrypting(bytes: &[u8]) -> Result<Self, Refused> {
        let mut key = Self::none();
        key.set(true, bytes)?;
        Ok(key)
    }

    /// Expands 16, 24 or 32 bytes.
    pub(crate) fn set(&mut self, encrypts: bool, bytes: &[u8]) -> Result<(), Refused> {
        let expand: Expand = if encrypts { c::AES_set_encrypt_key } else { c::AES_set_decrypt_key };
        // Not all of the library's functions check it.
        let bits = match bytes.len() {
            16 => 128,
            24 => 192,
            32 => 256,
            _ => return Err(Refused),
        };
        // SAFETY: as many bits as the slice has, one of AES's lengths; the key is written.
        yes((unsafe { expand(bytes.as_ptr(), bits, &raw mut self.0) } == 0).into())
    }

    /// Continues a CBC chain over whole blocks, as CCM's authentication does; others are left out.
    pub fn chain(&self, chain: &mut [u8; BLOCK], blocks: &[u8]) {
        let mut sealed = [0; PIECE];
        let whole = blocks.as_chunks::<BLOCK>().0.as_flattened();
        for piece in whole.chunks(PIECE) {
            // SAFETY: the piece, whole blocks, is read and as many bytes are written, at most PIECE; the chain is a block.
            unsafe {
                c::AES_cbc_encrypt(
                    piece.as_ptr(),
                    sealed.as_mut_ptr(),
                    piece.len(),
                    &raw const self.0,
                    chain.as_mut_ptr(),
                    c::AES_ENCRYPT as c_int,
                );
            }
        }
        sealed.zeroize();
    }

    /// Transforms bytes by counter mode, from a first counter on.
    pub fn count(&self, first: [u8; BLOCK], data: &mut [u8]) {
        let (mut counter, mut stream, mut used) = (first, [0; BLOCK], 0);
        let (at, length) = (data.as_mut_ptr(), data.len());
        // SAFETY: the data are read and written in place; counter and stream are blocks.
        unsafe {
            c::AES_ctr128_encrypt(
                at.cast_const(),
                at,
                length,
                &raw const self.0,
                counter.as_mut_ptr(),
                stream.as_mut_ptr(),
                &raw mut used,
            );
        }
        stream.zeroize();
    }
}

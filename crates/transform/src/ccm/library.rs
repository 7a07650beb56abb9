//! CCM with AWS-LC's AES: the native tier where there are no kernels of ours. Constant time where the library's AES
//! is, which is wherever the processor has instructions for it.
//!
//! AWS-LC's own CCM needs a context of its own for each message that is under way; these functions take a key that
//! threads share, and allocate nothing.
//!
//! `unsafe`: calls of the C library.
#![allow(unsafe_code)]

use core::ffi::{c_int, c_uint};

use aws_lc_sys::{AES_ENCRYPT, AES_KEY, AES_cbc_encrypt, AES_ctr128_encrypt, AES_set_encrypt_key};
use zeroize::Zeroize as _;

use super::format::{associated, behind_first, counter_block, first_block, padded};
use crate::aead::AeadJob;
use crate::modes::{self, Direction};

/// Bytes whose chain is computed by one call, into memory that nobody reads.
const PIECE: usize = 1024;

/// The library's round keys.
pub(super) struct Key(AES_KEY);

impl Drop for Key {
    fn drop(&mut self) {
        self.0.rd_key.zeroize();
    }
}

impl Key {
    /// Expands 16 or 32 bytes.
    pub(super) fn new(key: &[u8]) -> Option<Self> {
        let mut made = AES_KEY { rd_key: [0; 60], rounds: 0 };
        // SAFETY: as many bits as the slice has; the key is written.
        let result = unsafe { AES_set_encrypt_key(key.as_ptr(), 8 * key.len() as c_uint, &raw mut made) };
        (result == 0).then_some(Self(made))
    }

    /// Continues a chain over whole blocks.
    fn chain(&self, chain: &mut [u8; 16], blocks: &[u8]) {
        let mut sealed = [0; PIECE];
        for piece in blocks.chunks(PIECE) {
            // SAFETY: the piece is read and as many bytes are written, at most PIECE; the chain is a block.
            unsafe {
                AES_cbc_encrypt(
                    piece.as_ptr(),
                    sealed.as_mut_ptr(),
                    piece.len(),
                    &raw const self.0,
                    chain.as_mut_ptr(),
                    AES_ENCRYPT as c_int,
                );
            }
        }
        sealed.zeroize();
    }

    /// Continues a chain over bytes, and zeros to the end of their last block.
    fn chain_padded(&self, chain: &mut [u8; 16], bytes: &[u8]) {
        let (blocks, rest) = bytes.split_at(bytes.len() & !15);
        self.chain(chain, blocks);
        if !rest.is_empty() {
            self.chain(chain, &padded(rest));
        }
    }

    /// Transforms bytes by counter mode.
    fn count(&self, first: [u8; 16], data: &mut [u8]) {
        let (mut counter, mut stream, mut used) = (first, [0; 16], 0);
        // SAFETY: the data are read and written in place; counter and stream are blocks.
        unsafe {
            AES_ctr128_encrypt(
                data.as_ptr(),
                data.as_mut_ptr(),
                data.len(),
                &raw const self.0,
                counter.as_mut_ptr(),
                stream.as_mut_ptr(),
                &raw mut used,
            );
        }
        stream.zeroize();
    }
}

/// Seals or opens one message.
pub(super) fn seal_or_open(direction: Direction, job: &mut AeadJob<'_>) {
    let Some(key) = super::key_of(job).map(|key| &key.library) else { return };
    let mut chain = [0; 16];
    key.chain(&mut chain, &first_block(job));
    if !job.aad.is_empty() {
        let (first, rest) = (associated(job.aad), behind_first(job.aad));
        key.chain(&mut chain, &first);
        key.chain_padded(&mut chain, rest);
    }
    let mask = counter_block(job);
    let mut first = mask;
    modes::increase(&mut first, 1);
    let data = job.data.copied_in_place();
    match direction {
        Direction::Encrypt => {
            key.chain_padded(&mut chain, data);
            key.count(first, data);
        }
        Direction::Decrypt => {
            key.count(first, data);
            key.chain_padded(&mut chain, data);
        }
    }
    key.count(mask, &mut chain);
    super::conclude(direction, job, &chain);
    chain.zeroize();
}

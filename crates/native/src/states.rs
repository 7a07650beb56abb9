//! SHA-1, SHA-256 and SHA-512 that go on from a state: HMAC, streams and kernels of several ways do, and aws-lc-rs has whole messages only.
//!
//! **Guarantees:** states are wiped from the contexts of C's that carry them; nothing is allocated.
#![allow(unsafe_code)]

use aws_lc_sys as c;
use zeroize::Zeroize as _;

/// The length of SHA-512's block in bytes.
const LONG_BLOCK: usize = 128;

/// Absorbs blocks into the first five words of a state of SHA-1.
#[inline]
pub fn sha1(state: &mut [u32; 8], blocks: &[[u8; 64]]) {
    let [a, b, c, d, e, ..] = *state;
    let mut context = c::SHA_CTX { h: [a, b, c, d, e], Nl: 0, Nh: 0, data: [0; 64], num: 0 };
    let bytes = blocks.as_flattened();
    // SAFETY: the context is one of C's that has absorbed no part of a block, and the pointer is to so many bytes.
    unsafe { c::SHA1_Update(&raw mut context, bytes.as_ptr().cast(), bytes.len()) };
    state[..5].copy_from_slice(&context.h);
    context.h.zeroize();
}

/// Absorbs blocks into a state of SHA-256.
#[inline]
pub fn sha256(state: &mut [u32; 8], blocks: &[[u8; 64]]) {
    // The library's loops check for their end only after a block.
    if blocks.is_empty() {
        return;
    }
    // SAFETY: eight words of state, and a pointer to so many blocks of 64 bytes, at least one.
    unsafe { c::SHA256_TransformBlocks(state.as_mut_ptr(), blocks.as_ptr().cast(), blocks.len()) };
}

/// A context of SHA-512 with a state that has absorbed so many bytes, whole blocks.
#[inline]
fn long(state: &[u64; 8], absorbed_bytes: usize) -> c::SHA512_CTX {
    let bits = 8 * absorbed_bytes as u64;
    c::SHA512_CTX { h: *state, Nl: bits, Nh: 0, p: [0; LONG_BLOCK], num: 0, md_len: 64 }
}

/// Absorbs a block into a state of SHA-512.
#[inline]
pub fn sha512(state: &mut [u64; 8], block: &[u8; LONG_BLOCK]) {
    let mut context = long(state, 0);
    // SAFETY: a context of C's, and a block.
    unsafe { c::SHA512_Transform(&raw mut context, block.as_ptr()) };
    *state = context.h;
    context.h.zeroize();
}

/// Ends a message of SHA-512: returns its digest, from a state that has absorbed so many bytes, whole blocks, and the bytes that
/// follow them, in two parts.
#[inline]
#[must_use]
pub fn sha512_end(state: &[u64; 8], absorbed_bytes: usize, rest: [&[u8]; 2]) -> [u8; 64] {
    let mut context = long(state, absorbed_bytes);
    let mut digest = [0; 64];
    for part in rest {
        // SAFETY: the context is one of C's that has absorbed whole blocks and the parts before; the pointer is to so many bytes.
        unsafe { c::SHA512_Update(&raw mut context, part.as_ptr().cast(), part.len()) };
    }
    // SAFETY: the context has absorbed all parts; `md_len` bytes are written, as many as there are.
    unsafe { c::SHA512_Final(digest.as_mut_ptr(), &raw mut context) };
    context.h.zeroize();
    context.p.zeroize();
    digest
}

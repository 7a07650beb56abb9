//! SHA-1 and SHA-256 by AWS-LC, block by block: the native kernels on architectures for which this crate has none,
//! because AWS-LC detects a machine's instructions.
//!
//! It needs `unsafe` to call C: aws-lc-rs has whole messages only, but HMAC, streams and lanes continue from a
//! chaining state.
#![allow(unsafe_code)]

use aws_lc_sys::{SHA_CTX, SHA1_Update, SHA256_TransformBlocks};
use zeroize::Zeroize as _;

/// Absorbs whole blocks into a state of SHA-1.
pub(crate) fn sha1(state: &mut [u32; 8], blocks: &[u8]) {
    let [a, b, c, d, e, ..] = *state;
    let mut context = SHA_CTX { h: [a, b, c, d, e], Nl: 0, Nh: 0, data: [0; 64], num: 0 };
    let whole = blocks.as_chunks::<64>().0.as_flattened();
    // SAFETY: the context is one of C's that has absorbed no part of a block, and the pointer is to so many bytes.
    unsafe { SHA1_Update(&raw mut context, whole.as_ptr().cast(), whole.len()) };
    state[..5].copy_from_slice(&context.h);
    context.h.zeroize();
}

/// Absorbs whole blocks into a state of SHA-256.
pub(crate) fn sha256(state: &mut [u32; 8], blocks: &[u8]) {
    let whole = blocks.as_chunks::<64>().0;
    // The library's loops check for their end only after a block.
    if whole.is_empty() {
        return;
    }
    // SAFETY: eight words of state, and a pointer to so many blocks of 64 bytes, at least one.
    unsafe { SHA256_TransformBlocks(state.as_mut_ptr(), whole.as_ptr().cast(), whole.len()) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{sha1 as own_sha1, sha256 as own_sha256};

    #[test]
    fn the_library_goes_on_from_any_state_as_the_oracle_does() {
        let bytes: Vec<u8> = (0..=255).cycle().take(64 * 9).collect();
        let state: [u32; 8] = core::array::from_fn(|n| 0x9e37_79b9u32.wrapping_mul(n as u32 + 1));
        for blocks in 0..=9 {
            let bytes = &bytes[..64 * blocks];
            let (mut wanted, mut made) = (state, state);
            own_sha256::reference::blocks(&mut wanted, bytes);
            sha256(&mut made, bytes);
            assert_eq!(made, wanted, "SHA-256, {blocks} blocks");
            let (mut wanted, mut made) = (state, state);
            own_sha1::reference::blocks(&mut wanted, bytes);
            sha1(&mut made, bytes);
            assert_eq!(made, wanted, "SHA-1, {blocks} blocks");
        }
    }
}

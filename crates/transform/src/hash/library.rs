//! SHA-1 and SHA-256 by AWS-LC, block by block: the native kernels on architectures for which this crate has none,
//! because AWS-LC detects a machine's instructions.

use sealane_native::states;

/// Absorbs whole blocks into a state of SHA-1.
pub(crate) fn sha1(state: &mut [u32; 8], blocks: &[u8]) {
    states::sha1(state, blocks.as_chunks().0);
}

/// Absorbs whole blocks into a state of SHA-256.
pub(crate) fn sha256(state: &mut [u32; 8], blocks: &[u8]) {
    states::sha256(state, blocks.as_chunks().0);
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

//! CCM with AWS-LC's AES: the native tier where there are no kernels of ours. Constant time where the library's AES
//! is, which is wherever the processor has instructions for it.
//!
//! AWS-LC's own CCM needs a context of its own for each message that is under way; these functions take a key that
//! threads share, and allocate nothing.

use sealane_native::aes::Key;
use zeroize::Zeroize as _;

use super::format::{associated, behind_first, counter_block, first_block, padded};
use crate::aead::AeadJob;
use crate::modes::{self, Direction};

/// Continues a chain over bytes, and zeros to the end of their last block.
fn chain_padded(key: &Key, chain: &mut [u8; 16], bytes: &[u8]) {
    let (blocks, rest) = bytes.split_at(bytes.len() & !15);
    key.chain(chain, blocks);
    if !rest.is_empty() {
        key.chain(chain, &padded(rest));
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
        chain_padded(key, &mut chain, rest);
    }
    let mask = counter_block(job);
    let mut first = mask;
    modes::increase(&mut first, 1);
    let data = job.data.copied_in_place();
    match direction {
        Direction::Encrypt => {
            chain_padded(key, &mut chain, data);
            key.count(first, data);
        }
        Direction::Decrypt => {
            key.count(first, data);
            chain_padded(key, &mut chain, data);
        }
    }
    key.count(mask, &mut chain);
    super::conclude(direction, job, &chain);
    chain.zeroize();
}

//! CCM of one message by AES-NI: a block of the chain and one of the stream are under way together, which takes no
//! longer than the chain alone. Constant time.
//!
//! `unsafe`: intrinsics behind [`crate::aes::vector`], and a function with features, which [`run`] calls under its
//! token.
#![allow(unsafe_code)]

use super::Key;
use super::format::{associated, behind_first, counter_block, first_block, padded};
use crate::aead::AeadJob;
use crate::aes;
use crate::aes::vector::{Blocks, One};
use crate::isa::Avx2;
use crate::modes::Direction;

#[inline(always)]
fn load(block: &[u8; 16]) -> One {
    // SAFETY: one block.
    unsafe { One::load(block) }
}

#[inline(always)]
fn store(vector: One) -> [u8; 16] {
    let mut block = [0; 16];
    // SAFETY: one block.
    unsafe { vector.store(&raw mut block) };
    block
}

#[inline(always)]
fn encrypted<const N: usize>(key: &aes::Key, mut blocks: [One; N]) -> [One; N] {
    aes::ni::rounds::<One, N, false>(key, &mut blocks);
    blocks
}

/// Seals or opens one message.
#[target_feature(enable = "aes,sse4.1,ssse3,avx2")]
fn seal_or_open(key: &Key, direction: Direction, job: &mut AeadJob<'_>) {
    let key = &key.cipher;
    let counter = counter_block(job);
    // The mask of the tag is made beside the first block of the chain.
    let [mut chain, mask] = encrypted(key, [load(&first_block(job)), load(&counter)]);
    if !job.aad.is_empty() {
        let (first, rest) = (associated(job.aad), behind_first(job.aad));
        [chain] = encrypted(key, [chain.xor(load(&first))]);
        for bytes in rest.chunks(16) {
            [chain] = encrypted(key, [chain.xor(load(&padded(bytes)))]);
        }
    }
    let mut counter = load(&counter).reverse().increment();
    let data = job.data.copied_in_place();
    let mut stream = One::zero();
    if !data.is_empty() {
        [stream] = encrypted(key, [counter.reverse()]);
    }
    let (blocks, rest) = data.as_chunks_mut::<16>();
    for block in blocks {
        counter = counter.increment();
        let given = load(block);
        let made = given.xor(stream);
        *block = store(made);
        let plain = if direction == Direction::Encrypt { given } else { made };
        [chain, stream] = encrypted(key, [chain.xor(plain), counter.reverse()]);
    }
    if !rest.is_empty() {
        let given = padded(rest);
        let made = store(load(&given).xor(stream));
        rest.copy_from_slice(&made[..rest.len()]);
        let plain = if direction == Direction::Encrypt { given } else { padded(rest) };
        [chain] = encrypted(key, [chain.xor(load(&plain))]);
    }
    let tag = store(chain.xor(mask));
    super::conclude(direction, job, &tag);
}

/// Runs one message.
pub(super) fn run(_: Avx2, direction: Direction, job: &mut AeadJob<'_>) {
    let Some(key) = super::key_of(job) else { return };
    // SAFETY: the token.
    unsafe { seal_or_open(key, direction, job) }
}

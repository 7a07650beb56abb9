//! AES-NI, one message: eight blocks in flight where the mode allows. Constant time.
//!
//! `unsafe`: intrinsics behind [`super::vector`]; the entry point takes the token.
#![allow(unsafe_code)]

use super::Key;
use super::vector::{Blocks as _, One};
use crate::catalogue::Mode;
use crate::isa::Avx2;
use crate::job::Direction;
use crate::modes;

/// Transforms `data` in place, as [`modes::run`] does.
pub(crate) fn run(_: Avx2, key: &Key, mode: Mode, direction: Direction, iv: &[u8; 16], data: &mut [u8]) {
    // SAFETY: the token proves AES-NI, SSSE3 and SSE4.1.
    unsafe { run_ni(key, mode, direction, iv, data) }
}

#[inline(always)]
fn crypt<const N: usize>(key: &Key, direction: Direction, block: &mut [One; N]) {
    let keys = match direction {
        Direction::Encrypt => &key.encrypt,
        Direction::Decrypt => &key.decrypt,
    };
    // SAFETY: one block of the schedule's fifteen.
    let load = |round: usize| unsafe { One::load(&raw const keys[round]) };
    let first = load(0);
    for block in &mut *block {
        *block = block.xor(first);
    }
    for round in 1..key.rounds {
        let key = load(round);
        for block in &mut *block {
            *block = match direction {
                Direction::Encrypt => block.encrypt(key),
                Direction::Decrypt => block.decrypt(key),
            };
        }
    }
    let last = load(key.rounds);
    for block in &mut *block {
        *block = match direction {
            Direction::Encrypt => block.encrypt_last(last),
            Direction::Decrypt => block.decrypt_last(last),
        };
    }
}

#[target_feature(enable = "aes,sse4.1,ssse3,avx2")]
fn run_ni(key: &Key, mode: Mode, direction: Direction, iv: &[u8; 16], data: &mut [u8]) {
    let one = |direction: Direction, block: &mut [u8; 16]| {
        // SAFETY: one block.
        let mut vector = [unsafe { One::load(block) }];
        crypt(key, direction, &mut vector);
        // SAFETY: one block.
        unsafe { vector[0].store(block) };
    };
    if mode == Mode::Cbc && direction == Direction::Encrypt {
        return modes::run(mode, direction, iv, data, one);
    }
    let mut chain = *iv;
    let whole = data.len() & !127;
    let (eights, rest) = data.split_at_mut(whole);
    for eight in eights.as_chunks_mut::<128>().0 {
        let blocks = eight.as_chunks_mut::<16>().0;
        let mut input = [One::zero(); 8];
        for (input, block) in input.iter_mut().zip(&*blocks) {
            // SAFETY: one block.
            *input = unsafe { One::load(block) };
        }
        let mut x = input;
        if mode == Mode::Ctr {
            // SAFETY: one block.
            let mut counter = unsafe { One::load(&raw const chain) }.reverse();
            for x in &mut x {
                *x = counter.reverse();
                counter = counter.increment();
            }
            // SAFETY: one block.
            unsafe { counter.reverse().store(&raw mut chain) };
            crypt(key, Direction::Encrypt, &mut x);
        } else {
            crypt(key, direction, &mut x);
        }
        for i in 0..8 {
            x[i] = match mode {
                Mode::Ecb => x[i],
                Mode::Ctr => x[i].xor(input[i]),
                // SAFETY: one block.
                Mode::Cbc if i == 0 => x[i].xor(unsafe { One::load(&raw const chain) }),
                Mode::Cbc => x[i].xor(input[i - 1]),
            };
        }
        if mode == Mode::Cbc {
            // SAFETY: one block.
            unsafe { input[7].store(&raw mut chain) };
        }
        for (x, block) in x.iter().zip(blocks) {
            // SAFETY: one block.
            unsafe { x.store(block) };
        }
    }
    modes::run(mode, direction, &chain, rest, one);
}

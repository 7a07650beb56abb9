//! Blowfish as its paper writes it.

use super::Key;
use crate::job::Direction;
use crate::word::{Plain, Word};

fn f<W: Word>(key: &Key, x: W) -> W {
    let byte = |shift: u32| x.shr(shift) & W::imm(0xff);
    let s = |i: usize, index: W| W::lookup(["S1", "S2", "S3", "S4"][i], &key.s[i], index);
    ((s(0, x.shr(24)) + s(1, byte(16))) ^ s(2, byte(8))) + s(3, x & W::imm(0xff))
}

/// One block.
pub(crate) fn crypt<W: Word>(key: &Key, direction: Direction, block: &mut [u8; 8]) {
    let value = u64::from_be_bytes(*block);
    let (mut left, mut right) = (W::load((value >> 32) as u32), W::load(value as u32));
    let p = |i: usize| {
        W::load(match direction {
            Direction::Encrypt => key.p[i],
            Direction::Decrypt => key.p[17 - i],
        })
    };
    for round in 0..16 {
        left = left ^ p(round);
        right = right ^ f(key, left);
        (left, right) = (right, left);
        W::branch();
    }
    // The last swap is undone.
    (left, right) = (right ^ p(17), left ^ p(16));
    *block = (u64::from(left.store()) << 32 | u64::from(right.store())).to_be_bytes();
}

/// One block, not counted.
pub(crate) fn plain(key: &Key, direction: Direction, block: &mut [u8; 8]) {
    crypt::<Plain>(key, direction, block);
}

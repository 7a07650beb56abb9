//! Blowfish as its paper defines it.

use super::Key;
use crate::modes::Direction;
use crate::word::{Plain, Region, Word};

fn f<W: Word>(key: &Key, x: W) -> W {
    let byte = |shift: u32| x.shr(shift) & W::imm(0xff);
    let s = |i: usize, index: W| W::lookup("S", 256 * i, &key.s[i], index);
    ((s(0, x.shr(24)) + s(1, byte(16))) ^ s(2, byte(8))) + s(3, x & W::imm(0xff))
}

/// Transforms one block.
pub(crate) fn crypt<W: Word>(key: &Key, direction: Direction, block: &mut [u8; 8]) {
    let value = u64::from_be_bytes(*block);
    let (mut left, mut right) = (
        W::load(Region::Message.word(0), (value >> 32) as u32),
        W::load(Region::Message.word(1), value as u32),
    );
    let p = |i: usize| {
        let at = match direction {
            Direction::Encrypt => i,
            Direction::Decrypt => 17 - i,
        };
        W::load(Region::Key.word(at), key.p[at])
    };
    for round in 0..16 {
        left = left ^ p(round);
        right = right ^ f(key, left);
        (left, right) = (right, left);
        W::branch(round != 15);
    }
    // The last swap is undone.
    (left, right) = (right ^ p(17), left ^ p(16));
    let (high, low) = (left.store(Region::Message.word(0)), right.store(Region::Message.word(1)));
    *block = (u64::from(high) << 32 | u64::from(low)).to_be_bytes();
}

/// Transforms one block, without counting operations.
pub(crate) fn plain(key: &Key, direction: Direction, block: &mut [u8; 8]) {
    crypt::<Plain>(key, direction, block);
}

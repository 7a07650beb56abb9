//! RC5 as RFC 2040 section 6 defines it.

use super::Key;
use crate::modes::Direction;
use crate::word::{Plain, Region, Word};

/// Transforms one block.
pub(crate) fn crypt<W: Word>(key: &Key, direction: Direction, block: &mut [u8; 8]) {
    let value = u64::from_le_bytes(*block);
    let (mut a, mut b) = (
        W::load(Region::Message.word(0), value as u32),
        W::load(Region::Message.word(1), (value >> 32) as u32),
    );
    let s = |i: usize| W::load(Region::Key.word(i), key.table[i]);
    match direction {
        Direction::Encrypt => {
            a = a + s(0);
            b = b + s(1);
            for i in 1..=key.rounds {
                a = (a ^ b).rotl_by(b) + s(2 * i);
                b = (b ^ a).rotl_by(a) + s(2 * i + 1);
                W::branch(i != key.rounds);
            }
        }
        Direction::Decrypt => {
            for i in (1..=key.rounds).rev() {
                b = b.sub(s(2 * i + 1)).rotr_by(a) ^ a;
                a = a.sub(s(2 * i)).rotr_by(b) ^ b;
                W::branch(i != 1);
            }
            b = b.sub(s(1));
            a = a.sub(s(0));
        }
    }
    let (low, high) = (a.store(Region::Message.word(0)), b.store(Region::Message.word(1)));
    *block = (u64::from(high) << 32 | u64::from(low)).to_le_bytes();
}

/// Transforms one block, without counting operations.
pub(crate) fn plain(key: &Key, direction: Direction, block: &mut [u8; 8]) {
    crypt::<Plain>(key, direction, block);
}

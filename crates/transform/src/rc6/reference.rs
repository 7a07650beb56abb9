//! RC6 as the submission defines it.

use super::{Key, ROUNDS};
use crate::modes::Direction;
use crate::word::{Plain, Region, Word};

fn quadratic<W: Word>(x: W) -> W {
    x.mul(x + x + W::imm(1)).rotl(5)
}

/// Transforms one block.
pub(crate) fn crypt<W: Word>(key: &Key, direction: Direction, block: &mut [u8; 16]) {
    let [mut a, mut b, mut c, mut d]: [W; 4] = core::array::from_fn(|i| {
        W::load(Region::Message.word(i), u32::from_le_bytes(block.as_chunks().0[i]))
    });
    let s = |i: usize| W::load(Region::Key.word(i), key.table[i]);
    match direction {
        Direction::Encrypt => {
            b = b + s(0);
            d = d + s(1);
            for i in 1..=ROUNDS {
                let (t, u) = (quadratic(b), quadratic(d));
                a = (a ^ t).rotl_by(u) + s(2 * i);
                c = (c ^ u).rotl_by(t) + s(2 * i + 1);
                (a, b, c, d) = (b, c, d, a);
                W::branch(i != ROUNDS);
            }
            a = a + s(2 * ROUNDS + 2);
            c = c + s(2 * ROUNDS + 3);
        }
        Direction::Decrypt => {
            c = c.sub(s(2 * ROUNDS + 3));
            a = a.sub(s(2 * ROUNDS + 2));
            for i in (1..=ROUNDS).rev() {
                (a, b, c, d) = (d, a, b, c);
                let (t, u) = (quadratic(b), quadratic(d));
                c = c.sub(s(2 * i + 1)).rotr_by(t) ^ u;
                a = a.sub(s(2 * i)).rotr_by(u) ^ t;
                W::branch(i != 1);
            }
            d = d.sub(s(1));
            b = b.sub(s(0));
        }
    }
    for (i, (word, bytes)) in [a, b, c, d].into_iter().zip(block.chunks_exact_mut(4)).enumerate() {
        bytes.copy_from_slice(&word.store(Region::Message.word(i)).to_le_bytes());
    }
}

/// Transforms one block, without counting operations.
pub(crate) fn plain(key: &Key, direction: Direction, block: &mut [u8; 16]) {
    crypt::<Plain>(key, direction, block);
}

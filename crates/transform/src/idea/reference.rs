//! IDEA as the Handbook of Applied Cryptography (section 7.6) defines it, in the 32-bit word of our machines.

use super::Key;
use crate::modes::Direction;
use crate::word::{Plain, Region, Word};

fn low<W: Word>(x: W) -> W {
    x & W::imm(0xffff)
}

/// Returns the product mod 2^16 + 1, by the low-high rule.
pub(crate) fn product<W: Word>(a: W, b: W) -> W {
    let wide = a.mul(b);
    W::choose(wide.bits() == 0);
    if wide.bits() == 0 {
        W::jump();
        // One factor is 2^16 = -1: the product is minus the other.
        return low(W::imm(1).sub(a).sub(b));
    }
    let (high, rest) = (wide.shr(16), low(wide));
    let borrows = rest.bits() < high.bits();
    W::choose(!borrows);
    low(if borrows { rest.sub(high) + W::imm(1) } else { rest.sub(high) })
}

/// Transforms one block.
pub(crate) fn crypt<W: Word>(key: &Key, direction: Direction, block: &mut [u8; 8]) {
    let keys = match direction {
        Direction::Encrypt => &key.encrypt,
        Direction::Decrypt => &key.decrypt,
    };
    let k = |i: usize| W::load(Region::Key.word(i), u32::from(keys[i]));
    let [mut a, mut b, mut c, mut d]: [W; 4] = core::array::from_fn(|i| {
        let value = u32::from(block[2 * i]) << 8 | u32::from(block[2 * i + 1]);
        W::load(Region::Message.part(2 * i, 2), value)
    });
    for round in 0..8 {
        a = product(a, k(6 * round));
        b = low(b + k(6 * round + 1));
        c = low(c + k(6 * round + 2));
        d = product(d, k(6 * round + 3));
        let e = product(a ^ c, k(6 * round + 4));
        let f = product(low((b ^ d) + e), k(6 * round + 5));
        let e = low(e + f);
        (a, b, c, d) = (a ^ f, c ^ f, b ^ e, d ^ e);
        W::branch(round != 7);
    }
    let out = [product(a, k(48)), low(c + k(49)), low(b + k(50)), product(d, k(51))];
    for (i, (word, bytes)) in out.into_iter().zip(block.chunks_exact_mut(2)).enumerate() {
        bytes.copy_from_slice(&(word.store(Region::Message.part(2 * i, 2)) as u16).to_be_bytes());
    }
}

/// Transforms one block, without counting operations.
pub(crate) fn plain(key: &Key, direction: Direction, block: &mut [u8; 8]) {
    crypt::<Plain>(key, direction, block);
}

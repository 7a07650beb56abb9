//! AES encryption as NPCryptBench stores it: four tables of 256 words and the S-box as a fifth, 5120 bytes.
//!
//! It exists for traces; no product uses it.

use super::generic::ENCRYPT;
use super::{Key, S};
use crate::word::{Region, Word};

/// Encrypts one block.
pub(crate) fn encrypt<W: Word>(key: &Key, block: &mut [u8; 16]) {
    let little = |bytes: &[u8; 16], i: usize| {
        u32::from_le_bytes([bytes[4 * i], bytes[4 * i + 1], bytes[4 * i + 2], bytes[4 * i + 3]])
    };
    let round_key =
        |round: usize, i: usize| W::load(Region::Key.word(4 * round + i), little(&key.encrypt[round], i));
    // Returns the byte of row `row` from which column i of the next state is computed.
    let byte = |state: &[W; 4], i: usize, row: usize| {
        let word = state[(i + row) % 4];
        match row {
            0 => word & W::imm(0xff),
            3 => word.shr(24),
            _ => word.shr(8 * row as u32) & W::imm(0xff),
        }
    };
    let message: [W; 4] = core::array::from_fn(|i| W::load(Region::Message.word(i), little(block, i)));
    let mut state: [W; 4] = core::array::from_fn(|i| message[i] ^ round_key(0, i));
    for round in 1..key.rounds {
        state = core::array::from_fn(|i| {
            let [a, b, c, d]: [W; 4] =
                core::array::from_fn(|row| W::lookup("T", 256 * row, &ENCRYPT[row], byte(&state, i, row)));
            a ^ b ^ c ^ d ^ round_key(round, i)
        });
        W::branch(round + 1 != key.rounds);
    }
    let last: [W; 4] = core::array::from_fn(|i| {
        let [a, b, c, d]: [W; 4] = core::array::from_fn(|row| W::lookup("S", 0, &S, byte(&state, i, row)));
        (a | b.shl(8) | c.shl(16) | d.shl(24)) ^ round_key(key.rounds, i)
    });
    for (i, (word, bytes)) in last.into_iter().zip(block.as_chunks_mut().0).enumerate() {
        *bytes = word.store(Region::Message.word(i)).to_le_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::aes::reference;
    use crate::modes::Direction;
    use crate::word::Plain;

    #[test]
    fn tables_say_what_the_standard_says() {
        for bytes in [16, 24, 32] {
            for seed in 0..64u8 {
                let key = Key::new(&Vec::from_iter((0..bytes).map(|i: u8| i.wrapping_mul(37) ^ seed)));
                let mut ours: [u8; 16] = core::array::from_fn(|i| (i as u8).wrapping_mul(seed | 1));
                let mut theirs = ours;
                encrypt::<Plain>(&key, &mut ours);
                reference::crypt::<Plain>(&key, Direction::Encrypt, &mut theirs);
                assert_eq!(ours, theirs);
            }
        }
    }
}

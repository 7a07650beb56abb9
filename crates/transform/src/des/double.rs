//! DES by tables of two S-boxes each: four of 4,096 words, 64 KB, the form that the stacks of Nahum et al. (NDSS 1996)
//! used. No tier has it: it exists to be measured beside the tables of one S-box.
//!
//! Guarantees: the result is that of every other form of DES; only the look-ups of a round differ from the generic
//! tier's. They leak key and data through the cache, as there.

use super::Key;
use super::generic::{TABLES, modes, rounds_by};
use crate::modes::{Direction, Mode};

/// The pairs of S-boxes whose six bits lie in neighbouring bytes of a round's two words.
const PAIRS: [[usize; 2]; 4] = [[0, 6], [4, 2], [1, 7], [5, 3]];

/// `DOUBLE[pair][twelve]` is what both S-boxes of a pair add to a half.
static DOUBLE: [[u32; 4096]; 4] = {
    let mut tables = [[0; 4096]; 4];
    let mut pair = 0;
    while pair < 4 {
        let mut twelve = 0;
        while twelve < 4096 {
            let [low, high] = PAIRS[pair];
            tables[pair][twelve] = TABLES[low][twelve & 63] ^ TABLES[high][twelve >> 6];
            twelve += 1;
        }
        pair += 1;
    }
    tables
};

#[inline(always)]
fn f(right: u32, key: [u32; 2]) -> u32 {
    let (even, odd) = (right ^ key[0], right.rotate_left(4) ^ key[1]);
    let at = |pair: usize, word: u32| DOUBLE[pair][(word & 0x3f | word >> 2 & 0xfc0) as usize];
    (at(0, even) ^ at(1, even >> 16)) ^ (at(2, odd) ^ at(3, odd >> 16))
}

/// DES with one key, by tables of two S-boxes each.
pub struct DoubleBoxDes(Key);

impl DoubleBoxDes {
    /// Bytes of the tables.
    pub const TABLE_BYTES: usize = size_of_val(&DOUBLE);

    /// Expands a key.
    pub fn new(key: &[u8; 8]) -> Self {
        Self(Key::new(key))
    }

    /// Transforms a message in place. In modes ECB and CBC, bytes after the last whole block stay as they are.
    pub fn crypt(&self, mode: Mode, direction: Direction, iv: &[u8; 16], message: &mut [u8]) {
        modes(mode, direction, iv, message, |direction, halves| rounds_by(&self.0, direction, halves, f));
    }
}

#[cfg(test)]
mod tests {
    use super::super::{generic, reference};
    use super::*;
    use proptest::prelude::{any, prop_assert_eq, prop_oneof, proptest};

    /// NIST SP 500-20, and the example of FIPS 81: key, plaintext, ciphertext.
    const VECTORS: [(u64, u64, u64); 6] = [
        (0x0101_0101_0101_0101, 0x95f8_a5e5_dd31_d900, 0x8000_0000_0000_0000),
        (0x8001_0101_0101_0101, 0, 0x95a8_d728_13da_a94d),
        (0x1046_9134_8998_0131, 0, 0x88d5_5e54_f54c_97b4),
        (0x7ca1_1045_4a1a_6e57, 0x01a1_d6d0_3977_6742, 0x690f_5b0d_9a26_939b),
        (0x0131_d961_9dc1_376e, 0x5cd5_4ca8_3def_57da, 0x7a38_9d10_354b_d271),
        (0x0123_4567_89ab_cdef, 0x4e6f_7720_6973_2074, 0x3fa4_0e8a_984d_4815),
    ];

    #[test]
    fn published_vectors_hold_both_ways() {
        for (key, plain, sealed) in VECTORS {
            let double = DoubleBoxDes::new(&key.to_be_bytes());
            let mut block = plain.to_be_bytes();
            double.crypt(Mode::Ecb, Direction::Encrypt, &[0; 16], &mut block);
            assert_eq!(u64::from_be_bytes(block), sealed, "{key:016x}");
            double.crypt(Mode::Ecb, Direction::Decrypt, &[0; 16], &mut block);
            assert_eq!(u64::from_be_bytes(block), plain, "{key:016x}");
        }
        assert_eq!(DoubleBoxDes::TABLE_BYTES, 64 << 10);
    }

    proptest! {
        #[test]
        fn every_message_is_that_of_the_plain_tables(
            key: [u8; 8],
            iv: [u8; 16],
            message in proptest::collection::vec(any::<u8>(), 0..200),
            mode in prop_oneof![
                proptest::strategy::Just(Mode::Ecb),
                proptest::strategy::Just(Mode::Cbc),
                proptest::strategy::Just(Mode::Ctr)
            ],
            is_sealed: bool,
        ) {
            let direction = if is_sealed { Direction::Encrypt } else { Direction::Decrypt };
            let (mut ours, mut plain) = (message.clone(), message);
            DoubleBoxDes::new(&key).crypt(mode, direction, &iv, &mut ours);
            generic::crypt_message(&Key::new(&key), mode, direction, &iv, &mut plain);
            prop_assert_eq!(ours, plain);
        }

        #[test]
        fn every_block_is_that_of_the_reference(key: [u8; 8], block: [u8; 8], is_sealed: bool) {
            let direction = if is_sealed { Direction::Encrypt } else { Direction::Decrypt };
            let (mut ours, mut reference) = (block, block);
            DoubleBoxDes::new(&key).crypt(Mode::Ecb, direction, &[0; 16], &mut ours);
            reference::plain(&Key::new(&key), direction, &mut reference);
            prop_assert_eq!(ours, reference);
        }
    }
}

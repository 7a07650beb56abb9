//! IDEA, Lai and Massey 1991: sums mod 2^16, XOR, and products mod 2^16 + 1 with 0 standing for 2^16.

pub(crate) mod generic;
#[cfg(target_arch = "x86_64")]
pub(crate) mod lanes;
pub(crate) mod reference;

use zeroize::{Zeroize, ZeroizeOnDrop};

/// An expanded key.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub(crate) struct Key {
    /// Six subkeys a round, four for the output.
    pub(crate) encrypt: [u16; 52],
    /// The inverses, in the order of decryption.
    pub(crate) decrypt: [u16; 52],
}

/// The inverse of x mod 2^16 + 1 by Fermat: x^(p - 2), with 0 for 2^16.
fn invert(x: u16) -> u16 {
    let x = if x == 0 { 65_536u64 } else { u64::from(x) };
    // p - 2 = 65535: sixteen one bits.
    let (mut power, mut result) = (x, 1);
    for _ in 0..16 {
        result = result * power % 65_537;
        power = power * power % 65_537;
    }
    result as u16
}

impl Key {
    pub(crate) fn new(key: &[u8; 16]) -> Self {
        let mut rotating = u128::from_be_bytes(*key);
        let mut encrypt = [0; 52];
        for eight in encrypt.chunks_mut(8) {
            for (i, subkey) in eight.iter_mut().enumerate() {
                *subkey = (rotating >> (112 - 16 * i)) as u16;
            }
            rotating = rotating.rotate_left(25);
        }
        rotating.zeroize();
        let mut decrypt = [0; 52];
        for round in 0..9 {
            let from = &encrypt[6 * (8 - round)..];
            let to = &mut decrypt[6 * round..];
            to[0] = invert(from[0]);
            // The inner words are swapped between rounds, so their keys are too.
            let (b, c) = if round == 0 || round == 8 { (1, 2) } else { (2, 1) };
            to[1] = from[b].wrapping_neg();
            to[2] = from[c].wrapping_neg();
            to[3] = invert(from[3]);
            if round < 8 {
                let before = &encrypt[6 * (7 - round)..];
                to[4] = before[4];
                to[5] = before[5];
            }
        }
        Self { encrypt, decrypt }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_inverse() {
        for x in 0..=u16::MAX {
            let wide = |x: u16| if x == 0 { 65_536u64 } else { u64::from(x) };
            assert_eq!(wide(x) * wide(invert(x)) % 65_537, 1);
        }
    }

    #[test]
    fn subkeys_of_lai() {
        let key = Key::new(&core::array::from_fn(|i| if i % 2 == 0 { 0 } else { i as u8 / 2 + 1 }));
        assert_eq!(key.encrypt[8..16], [0x400, 0x600, 0x800, 0xa00, 0xc00, 0xe00, 0x1000, 0x200]);
        assert_eq!(
            key.encrypt[40..52],
            [0, 0x2000, 0x4000, 0x6000, 0x8000, 0xa000, 0xc000, 0xe001, 0x80, 0xc0, 0x100, 0x140]
        );
    }
}

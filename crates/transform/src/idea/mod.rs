//! IDEA, Lai and Massey 1991: sums mod 2^16, XOR, and products mod 2^16 + 1 with 0 standing for 2^16.

pub(crate) mod generic;
pub(crate) mod reference;
#[cfg(target_arch = "x86_64")]
pub(crate) mod ways;

use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::cipher_ways::by_width;
use crate::descriptor::{
    Alone, CipherDescriptor, CipherWays, CutFor, LeastBytes, PeerNames, Promise, block_after_block,
    no_instructions,
};
use crate::facts::{ByteOrder, Facts, KeyBytes, Limits, Standing};
use crate::isa::{Isa, Tier};
use crate::modes::Direction;
use crate::order::WaysCost;
use crate::schedule::Schedule;
use crate::word::{Counted, trace_blocks};

/// IDEA as the catalogue knows it.
pub(crate) static IDEA: CipherDescriptor = CipherDescriptor {
    name: "idea",
    facts: Facts {
        block_bytes: 8,
        rounds: 9,
        key_bytes: KeyBytes::exactly(16),
        iv_bytes: 8,
        output_bytes: 0,
        table_bytes: 0,
        working_set_bytes: 104,
        chained: true,
        byte_order: ByteOrder::Big,
        standing: Standing::Legacy,
        limits: Limits::NARROW_BLOCKS,
        source: "Lai 1992",
    },
    expand: |key| Some(Schedule::Idea(Key::new(key.try_into().ok()?))),
    alone: |_, tier, _, _| -> Alone { if tier == Tier::Reference { by_reference } else { unrolled } },
    has_instructions: no_instructions,
    #[cfg(target_arch = "x86_64")]
    ways: Some(CipherWays {
        cost: |_, _, isa, count| {
            let (few, fixed_bytes) = if isa == Isa::Avx512 { ([2, 3, 5], 96) } else { ([1, 1, 2], 64) };
            Some(WaysCost { few: by_width(isa, count, 32, few)?, fixed_bytes, job_bytes: 4 })
        },
        least_bytes: LeastBytes { chained: 64, free: 96 },
        cut: Some(CutFor { ways: [1, 64, 128], set_up: 16 }),
        run: ways::run_widest,
    }),
    #[cfg(not(target_arch = "x86_64"))]
    ways: None,
    trace: |key, data, sink| {
        let Schedule::Idea(key) = key else { return };
        trace_blocks(data, sink, |b| reference::crypt::<Counted>(key, Direction::Encrypt, b));
    },
    words: |key| {
        let Schedule::Idea(key) = key else { return None };
        Some((key.encrypt.map(u32::from).to_vec(), Vec::new()))
    },
    peers: PeerNames::NONE.openssl("IDEA").rust_crypto("idea"),
    promises: &[
        Promise::new("4idea4ways10run_avx512", "vpmullw", 64),
        Promise::new("4idea4ways10run_avx512", "vpmulhuw", 64),
        Promise::new("4idea4ways8run_avx2", "vpmulhuw", 32),
    ],
};

block_after_block!(by_reference, Idea => reference::plain);
block_after_block!(unrolled, Idea => generic::crypt);

/// An expanded key.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub(crate) struct Key {
    /// Six subkeys per round, and four for the output.
    pub(crate) encrypt: [u16; 52],
    /// The inverses, in the order of decryption.
    pub(crate) decrypt: [u16; 52],
}

/// Returns the inverse of x mod 2^16 + 1 by Fermat: x^(p - 2), with 0 for 2^16.
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

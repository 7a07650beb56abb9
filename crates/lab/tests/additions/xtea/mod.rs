//! XTEA, Needham and Wheeler 1997: a block cipher that the catalogue does not have, for the test that adds one.

use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::facts::{ByteOrder, Facts, KeyBytes, Limits, Standing};
use crate::descriptor::{Alone, CipherDescriptor, PeerNames, block_after_block, no_instructions, no_words};
use crate::modes::Direction;
use crate::schedule::Schedule;
use crate::word::{Counted, Plain, Region, Word, trace_blocks};

/// The catalogue's entry of XTEA.
pub(crate) static XTEA: CipherDescriptor = CipherDescriptor {
    name: "xtea",
    facts: Facts {
        block_bytes: 8,
        rounds: 2 * CYCLES,
        key_bytes: KeyBytes::exactly(16),
        iv_bytes: 8,
        output_bytes: 0,
        table_bytes: 0,
        working_set_bytes: 16,
        chained: true,
        byte_order: ByteOrder::Big,
        standing: Standing::Legacy,
        limits: Limits::NARROW_BLOCKS,
        source: "Needham and Wheeler 1997",
    },
    expand: |key| Some(Schedule::Xtea(Key::new(key.try_into().ok()?))),
    alone: |_, _, _, _| -> Alone { by_reference },
    has_instructions: no_instructions,
    ways: None,
    trace: |key, data, sink| {
        let Schedule::Xtea(key) = key else { return };
        trace_blocks(data, sink, |b| crypt::<Counted>(key, Direction::Encrypt, b));
    },
    words: no_words,
    peers: PeerNames::NONE,
    promises: &[],
};

block_after_block!(by_reference, Xtea => crypt::<Plain>);

const CYCLES: usize = 32;
const DELTA: u32 = 0x9e37_79b9;

#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub(crate) struct Key([u32; 4]);

impl Key {
    fn new(key: &[u8; 16]) -> Self {
        let (words, _) = key.as_chunks();
        Self(core::array::from_fn(|i| u32::from_be_bytes(words[i])))
    }
}

/// Encrypts or decrypts one block.
fn crypt<W: Word>(key: &Key, direction: Direction, block: &mut [u8; 8]) {
    let value = u64::from_be_bytes(*block);
    let mut v = [(value >> 32) as u32, value as u32].map(|word| W::load(Region::Message.word(0), word));
    let k = |i: u32| W::load(Region::Key.word(i as usize & 3), key.0[i as usize & 3]);
    let mix = |x: W, sum: u32, i: u32| ((x.shl(4) ^ x.shr(5)) + x) ^ (k(i) + W::imm(sum));
    match direction {
        Direction::Encrypt => {
            for cycle in 0..CYCLES as u32 {
                let sum = DELTA.wrapping_mul(cycle);
                v[0] = v[0] + mix(v[1], sum, sum);
                let sum = sum.wrapping_add(DELTA);
                v[1] = v[1] + mix(v[0], sum, sum >> 11);
            }
        }
        Direction::Decrypt => {
            for cycle in (0..CYCLES as u32).rev() {
                let sum = DELTA.wrapping_mul(cycle + 1);
                v[1] = v[1].sub(mix(v[0], sum, sum >> 11));
                let sum = sum.wrapping_sub(DELTA);
                v[0] = v[0].sub(mix(v[1], sum, sum));
            }
        }
    }
    let [high, low] = v.map(|word| word.store(Region::Message.word(0)));
    *block = (u64::from(high) << 32 | u64::from(low)).to_be_bytes();
}

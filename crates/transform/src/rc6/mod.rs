//! RC6-32/20, the AES candidate of Rivest, Robshaw, Sidney and Yin.

pub(crate) mod reference;
pub(crate) mod ways;

use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::cipher_ways::by_width;
use crate::descriptor::{
    Alone, CipherDescriptor, CipherWays, CutFor, LeastBytes, PeerNames, Promise, block_after_block,
    no_instructions,
};
use crate::facts::{ByteOrder, Facts, KeyBytes, Limits, Standing};
use crate::isa::{Features, Tier};
use crate::modes::Direction;
use crate::order::WaysCost;
use crate::schedule::Schedule;
use crate::word::{Counted, trace_blocks};

/// RC6 as the catalogue knows it.
pub(crate) static RC6: CipherDescriptor = CipherDescriptor {
    name: "rc6",
    facts: Facts {
        block_bytes: 16,
        rounds: ROUNDS,
        key_bytes: KeyBytes { min: 0, max: 255, usual: 16 },
        iv_bytes: 16,
        output_bytes: 0,
        table_bytes: 0,
        working_set_bytes: 176,
        chained: true,
        byte_order: ByteOrder::Little,
        standing: Standing::Legacy,
        limits: Limits::WIDE_BLOCKS,
        source: "Rivest, Robshaw, Sidney, Yin 1998",
    },
    expand: |key| Some(Schedule::Rc6(Key::new(key))),
    alone: |_: Features, tier, _, _| -> Alone {
        if tier == Tier::Reference { by_reference } else { unrolled }
    },
    has_instructions: no_instructions,
    ways: Some(CipherWays {
        cost: |_, _, isa, count| {
            let few = by_width(isa, count, 16, [1, 2, 2])?;
            Some(WaysCost { few, fixed_bytes: 224, job_bytes: 12 })
        },
        least_bytes: LeastBytes { chained: 192, free: 192 },
        cut: Some(CutFor { ways: [1, 32, 64], set_up: 4 }),
        run: ways::run_widest,
    }),
    trace: |key, data, sink| {
        let Schedule::Rc6(key) = key else { return };
        trace_blocks(data, sink, |b| reference::crypt::<Counted>(key, Direction::Encrypt, b));
    },
    words: |key| {
        let Schedule::Rc6(key) = key else { return None };
        Some((key.table.to_vec(), Vec::new()))
    },
    peers: PeerNames::NONE.rust_crypto("rc6"),
    promises: &[Promise::new("3rc64ways6avx51212crypt_chunks", "vpmulld", 64)],
};

block_after_block!(by_reference, Rc6 => reference::plain);
block_after_block!(unrolled, Rc6 => ways::one);

/// The number of rounds of RC6-32/20.
pub(crate) const ROUNDS: usize = 20;

/// Words of the table S.
pub(crate) const KEY_WORDS: usize = 2 * ROUNDS + 4;

/// An expanded key.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
#[repr(align(32))]
pub(crate) struct Key {
    /// The table S; it is aligned, so that no eight words that ways load cross a cache line.
    pub(crate) table: [u32; KEY_WORDS],
}

impl Key {
    pub(crate) fn new(key: &[u8]) -> Self {
        let mut table = [0; KEY_WORDS];
        crate::rc5::expand(key, &mut table);
        Self { table }
    }
}

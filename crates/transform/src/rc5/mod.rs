//! RC5-32 with 12 or 16 rounds, RFC 2040.

pub(crate) mod reference;
pub(crate) mod ways;

use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::cipher_ways::by_width;
use crate::descriptor::{
    Alone, CipherDescriptor, CipherWays, CutFor, LeastBytes, PeerNames, Promise, block_after_block,
    no_instructions,
};
use crate::facts::{ByteOrder, Facts, KeyBytes, Limits, Standing};
use crate::isa::{Isa, Tier};
use crate::modes::{Direction, Mode};
use crate::order::WaysCost;
use crate::schedule::Schedule;
use crate::word::{Counted, trace_blocks};

/// RC5-32/12/16 as the catalogue knows it.
pub(crate) static RC5: CipherDescriptor = CipherDescriptor {
    name: "rc5",
    facts: facts(12, "RFC 2040"),
    expand: |key| Some(Schedule::Rc5(Key::new(key, 12))),
    alone: |_, tier, _, _| -> Alone { if tier == Tier::Reference { by_reference } else { unrolled } },
    has_instructions: no_instructions,
    ways: Some(WAYS),
    trace: |key, data, sink| {
        let Schedule::Rc5(key) = key else { return };
        trace_blocks(data, sink, |b| reference::crypt::<Counted>(key, Direction::Encrypt, b));
    },
    words: |key| {
        let Schedule::Rc5(key) = key else { return None };
        Some((key.table[..2 * key.rounds + 2].to_vec(), Vec::new()))
    },
    peers: PeerNames::NONE.openssl("RC5").rust_crypto("rc5"),
    promises: &[
        Promise::new("3rc54ways6avx51212crypt_chunks", "vprolvd", 64),
        Promise::new("3rc54ways4avx212crypt_chunks", "vpsllvd", 32),
    ],
};

/// RC5-32/16/16, of the same kernels.
pub(crate) static RC5_R16: CipherDescriptor = CipherDescriptor {
    name: "rc5-r16",
    facts: facts(16, "Rivest 1994"),
    expand: |key| Some(Schedule::Rc5R16(Key::new(key, 16))),
    alone: |_, tier, _, _| -> Alone { if tier == Tier::Reference { by_reference } else { unrolled } },
    has_instructions: no_instructions,
    ways: Some(WAYS),
    trace: |key, data, sink| {
        let Schedule::Rc5R16(key) = key else { return };
        trace_blocks(data, sink, |b| reference::crypt::<Counted>(key, Direction::Encrypt, b));
    },
    words: |key| {
        let Schedule::Rc5R16(key) = key else { return None };
        Some((key.table[..2 * key.rounds + 2].to_vec(), Vec::new()))
    },
    peers: PeerNames::NONE.rust_crypto("rc5"),
    promises: &[],
};

const fn facts(rounds: usize, source: &'static str) -> Facts {
    Facts {
        block_bytes: 8,
        rounds,
        key_bytes: KeyBytes { min: 0, max: 255, usual: 16 },
        iv_bytes: 8,
        output_bytes: 0,
        table_bytes: 0,
        working_set_bytes: 8 * rounds + 8,
        chained: true,
        byte_order: ByteOrder::Little,
        standing: Standing::Legacy,
        limits: Limits::NARROW_BLOCKS,
        source,
    }
}

const WAYS: CipherWays = CipherWays {
    cost: |mode, direction, isa, count| {
        let seals = (mode, direction) == (Mode::Cbc, Direction::Encrypt);
        let (few, fixed_bytes, job_bytes) = match (seals, isa) {
            (true, Isa::Avx512) => ([1, 2, 3], 224, 8),
            (true, _) => ([2, 2, 3], 64, 12),
            (false, Isa::Avx512) => ([2, 3, 4], 150, 16),
            (false, _) => ([3, 4, 6], 64, 24),
        };
        Some(WaysCost { few: by_width(isa, count, 16, few)?, fixed_bytes, job_bytes })
    },
    least_bytes: LeastBytes { chained: 64, free: 350 },
    cut: Some(CutFor { ways: [1, 32, 64], set_up: 4 }),
    run: ways::run_widest,
};

block_after_block!(by_reference, Rc5 | Rc5R16 => reference::plain);
block_after_block!(unrolled, Rc5 | Rc5R16 => ways::one);

const P: u32 = 0xb7e1_5163;
const Q: u32 = 0x9e37_79b9;

/// Mixes a key of up to 255 bytes into `table`, in three passes over the longer of the two; RC6 does the same.
pub(crate) fn expand(key: &[u8], table: &mut [u32]) {
    let mut words = [0u32; 64];
    for (i, byte) in key.iter().enumerate() {
        words[i / 4] |= u32::from(*byte) << (8 * (i % 4));
    }
    let used = key.len().div_ceil(4).max(1);
    for (i, word) in table.iter_mut().enumerate() {
        *word = P.wrapping_add(Q.wrapping_mul(i as u32));
    }
    let (mut a, mut b, mut i, mut j) = (0u32, 0u32, 0, 0);
    for _ in 0..3 * table.len().max(used) {
        a = table[i].wrapping_add(a).wrapping_add(b).rotate_left(3);
        table[i] = a;
        let sum = a.wrapping_add(b);
        b = words[j].wrapping_add(sum).rotate_left(sum & 31);
        words[j] = b;
        i = (i + 1) % table.len();
        j = (j + 1) % used;
    }
    words.zeroize();
}

/// An expanded key.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
#[repr(C, align(32))]
pub(crate) struct Key {
    /// The table S, of which 2 * rounds + 2 words are in use. It comes first, so that no eight words that ways load
    /// cross a cache line.
    pub(crate) table: [u32; 34],
    /// 12 or 16.
    pub(crate) rounds: usize,
}

impl Key {
    pub(crate) fn new(key: &[u8], rounds: usize) -> Self {
        let mut table = [0; 34];
        expand(key, &mut table[..2 * rounds + 2]);
        Self { table, rounds }
    }
}

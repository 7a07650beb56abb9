//! DES and triple DES, FIPS 46-3.
//!
//! This module has the standard's tables as data; every tier derives its own form from them at compile time.

mod circuits;
pub(crate) mod double;
pub(crate) mod generic;
#[cfg(target_arch = "x86_64")]
pub(crate) mod permuted;
pub(crate) mod reference;
pub(crate) mod sliced;
mod staging;

use zeroize::{Zeroize, ZeroizeOnDrop};

#[cfg(target_arch = "x86_64")]
use crate::cipher_ways::few_ways_do;
use crate::cipher_ways::{self, HandOver};
use crate::descriptor::{
    Alone, CipherDescriptor, CipherWays, CutFor, LeastBytes, PeerNames, Promise, block_after_block,
    no_instructions, no_words,
};
use crate::facts::{ByteOrder, Facts, KeyBytes, Limits, Standing};
use crate::isa::{Features, Isa, Tier};
use crate::job::{Buffer, CipherJob};
use crate::modes::{Direction, Mode};
use crate::order::WaysCost;
use crate::schedule::Schedule;
use crate::word::{Counted, trace_blocks};

/// DES as the catalogue knows it.
pub(crate) static DES: CipherDescriptor = CipherDescriptor {
    name: "des",
    facts: facts(1, Standing::Broken),
    expand: |key| Some(Schedule::Des(Key::new(key.try_into().ok()?))),
    alone: |_, tier, _, _| -> Alone { if tier == Tier::Reference { by_reference } else { unrolled } },
    has_instructions: no_instructions,
    ways: Some(CipherWays {
        cost: |mode, _, isa, _| match (mode, isa) {
            (Mode::Ctr, _) => None,
            (_, Isa::Portable) => Some(WaysCost { few: 21, fixed_bytes: 256, job_bytes: 8 }),
            (_, Isa::Avx2) => Some(WaysCost { few: 24, fixed_bytes: 384, job_bytes: 8 }),
            (_, Isa::Avx512) => Some(WaysCost { few: 4, fixed_bytes: 256, job_bytes: 8 }),
        },
        least_bytes: LeastBytes { chained: 256, free: 256 },
        cut: Some(CutFor { ways: [64, 256, 512], set_up: 256 }),
        run: run_ways::<1>,
    }),
    trace: |key, data, sink| {
        let Schedule::Des(key) = key else { return };
        trace_blocks(data, sink, |b| reference::crypt::<Counted>(key, Direction::Encrypt, b));
    },
    words: |key| {
        let Schedule::Des(key) = key else { return None };
        Some((key.merged.as_flattened().to_vec(), reference::SP.as_flattened().to_vec()))
    },
    peers: PeerNames::NONE.openssl("DES").rust_crypto("des").ipsec_mb("DES"),
    promises: &[
        Promise::new("3des8permuted", "vpermb", 64),
        Promise::new("3des6sliced3x8610run_avx512", "vpternlogq", 64),
        Promise::new("3des6sliced3x868run_avx2", "vpxor", 32),
    ],
};

/// Triple DES as the catalogue lists it; NPCryptBench does not run it.
pub(crate) static TRIPLE_DES: CipherDescriptor = CipherDescriptor {
    name: "3des",
    facts: facts(3, Standing::Legacy),
    expand: |key| Some(Schedule::TripleDes(Box::new(TripleKey::new(key.try_into().ok()?)))),
    alone: |_, tier, _, _| -> Alone {
        if tier == Tier::Reference { triple_by_reference } else { triple_unrolled }
    },
    has_instructions: no_instructions,
    ways: Some(CipherWays {
        cost: |mode, _, isa, _| match (mode, isa) {
            (Mode::Ctr, _) => None,
            (_, Isa::Portable | Isa::Avx2) => Some(WaysCost { few: 20, fixed_bytes: 256, job_bytes: 8 }),
            (_, Isa::Avx512) => Some(WaysCost { few: 4, fixed_bytes: 256, job_bytes: 8 }),
        },
        least_bytes: LeastBytes { chained: 256, free: 256 },
        cut: Some(CutFor { ways: [64, 256, 512], set_up: 256 }),
        run: run_ways::<3>,
    }),
    trace: |key, data, sink| {
        let Schedule::TripleDes(key) = key else { return };
        trace_blocks(data, sink, |b| reference::crypt_triple::<Counted>(key, Direction::Encrypt, b));
    },
    words: no_words,
    peers: PeerNames::NONE.openssl("DES-EDE3").rust_crypto("des").ipsec_mb("DES3"),
    promises: &[],
};

const fn facts(passes: usize, standing: Standing) -> Facts {
    Facts {
        block_bytes: 8,
        rounds: 16 * passes,
        key_bytes: KeyBytes::exactly(8 * passes),
        iv_bytes: 8,
        output_bytes: 0,
        table_bytes: 512,
        working_set_bytes: 512 + 128 * passes,
        chained: true,
        byte_order: ByteOrder::Big,
        standing,
        limits: Limits::NARROW_BLOCKS,
        source: "FIPS 46-3",
    }
}

block_after_block!(by_reference, Des => reference::plain);
block_after_block!(triple_by_reference, TripleDes => reference::plain_triple);

fn unrolled(key: &Schedule, mode: Mode, direction: Direction, iv: &[u8; 16], data: &mut Buffer<'_>) {
    if let Schedule::Des(key) = key {
        generic::crypt_message(key, mode, direction, iv, data.copied_in_place());
    }
}

fn triple_unrolled(key: &Schedule, mode: Mode, direction: Direction, iv: &[u8; 16], data: &mut Buffer<'_>) {
    if let Schedule::TripleDes(key) = key {
        generic::run_triple(key, mode, direction, iv, data.copied_in_place());
    }
}

/// This many busy ways of 512 are no faster than as many single messages.
#[cfg(target_arch = "x86_64")]
const SLICED_FEW: usize = 16;

/// Runs `PASSES` passes of DES side by side: of bits, or of bytes if there are few messages.
fn run_ways<const PASSES: usize>(
    features: Features,
    mode: Mode,
    direction: Direction,
    jobs: &mut [CipherJob<'_>],
    order: &[u16],
    hand_over: &HandOver<'_>,
) {
    #[cfg(target_arch = "x86_64")]
    match (features.avx512, features.avx2) {
        (Some(proof), _) if few_ways_do(jobs, order, 64, 512, (13, 2)) => {
            let kernel = &mut permuted::Permuted::<PASSES>::new(proof, mode, direction);
            return cipher_ways::run_jobs(kernel, jobs, order, hand_over);
        }
        // A step of 512 ways costs less than one of 256 by AVX2, however few ways are busy.
        (Some(proof), _) => {
            let kernel = &mut sliced::avx512(proof, mode, direction, PASSES);
            return cipher_ways::run_jobs(kernel, jobs, order, &hand_over.at(SLICED_FEW));
        }
        (_, Some(proof)) => {
            let kernel = &mut sliced::avx2(proof, mode, direction, PASSES);
            return cipher_ways::run_jobs(kernel, jobs, order, hand_over);
        }
        _ => {}
    }
    cipher_ways::run_jobs(&mut sliced::portable(mode, direction, PASSES), jobs, order, hand_over);
}

/// The three expanded keys in [`Schedule`].
pub(crate) type BoxedTripleKey = Box<TripleKey>;

/// Permuted choice 1: bits of the key, numbered from 1 at the most significant.
const PC1: [u8; 56] = [
    57, 49, 41, 33, 25, 17, 9, 1, 58, 50, 42, 34, 26, 18, 10, 2, 59, 51, 43, 35, 27, 19, 11, 3, 60, 52, 44,
    36, //
    63, 55, 47, 39, 31, 23, 15, 7, 62, 54, 46, 38, 30, 22, 14, 6, 61, 53, 45, 37, 29, 21, 13, 5, 28, 20, 12,
    4,
];

/// Permuted choice 2: bits of C and D.
pub(crate) const PC2: [u8; 48] = [
    14, 17, 11, 24, 1, 5, 3, 28, 15, 6, 21, 10, 23, 19, 12, 4, 26, 8, 16, 7, 27, 20, 13, 2, //
    41, 52, 31, 37, 47, 55, 30, 40, 51, 45, 33, 48, 44, 49, 39, 56, 34, 53, 46, 42, 50, 36, 29, 32,
];

/// Number of bits by which C and D have been rotated left when round r takes its key.
pub(crate) const ROTATIONS: [u32; 16] = [1, 2, 4, 6, 8, 10, 12, 14, 15, 17, 19, 21, 23, 25, 27, 28];

/// The permutation P.
pub(crate) const P: [u8; 32] = [
    16, 7, 20, 21, 29, 12, 28, 17, 1, 15, 23, 26, 5, 18, 31, 10, 2, 8, 24, 14, 32, 27, 3, 9, 19, 13, 30, 6,
    22, 11, 4, 25,
];

/// The S-boxes, by row and column.
pub(crate) const S: [[u8; 64]; 8] = [
    [
        14, 4, 13, 1, 2, 15, 11, 8, 3, 10, 6, 12, 5, 9, 0, 7, //
        0, 15, 7, 4, 14, 2, 13, 1, 10, 6, 12, 11, 9, 5, 3, 8, //
        4, 1, 14, 8, 13, 6, 2, 11, 15, 12, 9, 7, 3, 10, 5, 0, //
        15, 12, 8, 2, 4, 9, 1, 7, 5, 11, 3, 14, 10, 0, 6, 13, //
    ],
    [
        15, 1, 8, 14, 6, 11, 3, 4, 9, 7, 2, 13, 12, 0, 5, 10, //
        3, 13, 4, 7, 15, 2, 8, 14, 12, 0, 1, 10, 6, 9, 11, 5, //
        0, 14, 7, 11, 10, 4, 13, 1, 5, 8, 12, 6, 9, 3, 2, 15, //
        13, 8, 10, 1, 3, 15, 4, 2, 11, 6, 7, 12, 0, 5, 14, 9, //
    ],
    [
        10, 0, 9, 14, 6, 3, 15, 5, 1, 13, 12, 7, 11, 4, 2, 8, //
        13, 7, 0, 9, 3, 4, 6, 10, 2, 8, 5, 14, 12, 11, 15, 1, //
        13, 6, 4, 9, 8, 15, 3, 0, 11, 1, 2, 12, 5, 10, 14, 7, //
        1, 10, 13, 0, 6, 9, 8, 7, 4, 15, 14, 3, 11, 5, 2, 12, //
    ],
    [
        7, 13, 14, 3, 0, 6, 9, 10, 1, 2, 8, 5, 11, 12, 4, 15, //
        13, 8, 11, 5, 6, 15, 0, 3, 4, 7, 2, 12, 1, 10, 14, 9, //
        10, 6, 9, 0, 12, 11, 7, 13, 15, 1, 3, 14, 5, 2, 8, 4, //
        3, 15, 0, 6, 10, 1, 13, 8, 9, 4, 5, 11, 12, 7, 2, 14, //
    ],
    [
        2, 12, 4, 1, 7, 10, 11, 6, 8, 5, 3, 15, 13, 0, 14, 9, //
        14, 11, 2, 12, 4, 7, 13, 1, 5, 0, 15, 10, 3, 9, 8, 6, //
        4, 2, 1, 11, 10, 13, 7, 8, 15, 9, 12, 5, 6, 3, 0, 14, //
        11, 8, 12, 7, 1, 14, 2, 13, 6, 15, 0, 9, 10, 4, 5, 3, //
    ],
    [
        12, 1, 10, 15, 9, 2, 6, 8, 0, 13, 3, 4, 14, 7, 5, 11, //
        10, 15, 4, 2, 7, 12, 9, 5, 6, 1, 13, 14, 0, 11, 3, 8, //
        9, 14, 15, 5, 2, 8, 12, 3, 7, 0, 4, 10, 1, 13, 11, 6, //
        4, 3, 2, 12, 9, 5, 15, 10, 11, 14, 1, 7, 6, 0, 8, 13, //
    ],
    [
        4, 11, 2, 14, 15, 0, 8, 13, 3, 12, 9, 7, 5, 10, 6, 1, //
        13, 0, 11, 7, 4, 9, 1, 10, 14, 3, 5, 12, 2, 15, 8, 6, //
        1, 4, 11, 13, 12, 3, 7, 14, 10, 15, 6, 8, 0, 5, 9, 2, //
        6, 11, 13, 8, 1, 4, 10, 7, 9, 5, 0, 15, 14, 2, 3, 12, //
    ],
    [
        13, 2, 8, 4, 6, 15, 11, 1, 10, 9, 3, 14, 5, 0, 12, 7, //
        1, 15, 13, 8, 10, 3, 7, 4, 12, 5, 6, 11, 0, 14, 9, 2, //
        7, 11, 4, 1, 9, 12, 14, 2, 0, 6, 10, 13, 15, 3, 5, 8, //
        2, 1, 14, 7, 4, 10, 8, 13, 15, 12, 9, 0, 3, 5, 6, 11, //
    ],
];

/// Returns the output of S-box `number` for six bits in the order of the E expansion.
pub(crate) const fn s_box(number: usize, six: usize) -> u8 {
    let row = (six >> 4 & 2) | (six & 1);
    let column = six >> 1 & 15;
    S[number][16 * row + column]
}

/// One DES key, expanded.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub(crate) struct Key {
    /// C and D: bit i (from 0, least significant) is the standard's bit i + 1 of C || D.
    pub(crate) cd: u64,
    /// Round keys as eight times six bits.
    pub(crate) rounds: [[u8; 8]; 16],
    /// The round keys merged: S-boxes 1, 7, 5, 3 and 2, 8, 6, 4, one byte each from the lowest.
    pub(crate) merged: [[u32; 2]; 16],
}

impl Key {
    pub(crate) fn new(key: &[u8; 8]) -> Self {
        let key = u64::from_be_bytes(*key);
        let mut cd = 0;
        for (i, bit) in PC1.into_iter().enumerate() {
            cd |= (key >> (64 - bit) & 1) << i;
        }
        let half = |start: u64, rotation: u32| {
            let half = cd >> start & 0xfff_ffff;
            (half >> rotation | half << (28 - rotation)) & 0xfff_ffff
        };
        let rounds = ROTATIONS.map(|rotation| {
            let rotated = half(0, rotation) | half(28, rotation) << 28;
            let mut groups = [0; 8];
            for (i, bit) in PC2.into_iter().enumerate() {
                groups[i / 6] |= ((rotated >> (bit - 1) & 1) as u8) << (5 - i % 6);
            }
            groups
        });
        let merged = rounds.map(|part| {
            [0, 1].map(|odd| u32::from_le_bytes([part[odd], part[6 + odd], part[4 + odd], part[2 + odd]]))
        });
        Self { cd, rounds, merged }
    }
}

/// Three DES keys: encrypt with the first, decrypt with the second, encrypt with the third.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub(crate) struct TripleKey(pub(crate) [Key; 3]);

impl TripleKey {
    pub(crate) fn new(key: &[u8; 24]) -> Self {
        let (parts, _) = key.as_chunks();
        Self(core::array::from_fn(|i| Key::new(&parts[i])))
    }

    /// Returns the single DES passes of a direction, in order.
    pub(crate) const fn passes(&self, direction: Direction) -> [(&Key, Direction); 3] {
        let [first, second, third] = &self.0;
        match direction {
            Direction::Encrypt => {
                [(first, Direction::Encrypt), (second, Direction::Decrypt), (third, Direction::Encrypt)]
            }
            Direction::Decrypt => {
                [(third, Direction::Decrypt), (second, Direction::Encrypt), (first, Direction::Decrypt)]
            }
        }
    }
}

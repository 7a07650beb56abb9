//! Blowfish, Schneier 1993. The S-boxes depend on the key: they take 4 KB per association, and 521 encryptions to
//! expand.

#[cfg(target_arch = "x86_64")]
pub(crate) mod permuted;
pub(crate) mod pi;
pub(crate) mod reference;
pub(crate) mod ways;

use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::cipher_ways::{HandOver, Interleave};
#[cfg(target_arch = "x86_64")]
use crate::cipher_ways::{few_ways_do, one_key};
use crate::descriptor::{
    Alone, CipherDescriptor, CipherWays, CutFor, LeastBytes, PeerNames, Promise, block_after_block,
    no_instructions,
};
use crate::facts::{ByteOrder, Facts, KeyBytes, Limits, Standing};
use crate::isa::{Features, Tier};
use crate::job::CipherJob;
use crate::modes::{Direction, Mode};
use crate::order::WaysCost;
use crate::schedule::Schedule;
use crate::word::{Counted, trace_blocks};

/// Blowfish as the catalogue knows it.
pub(crate) static BLOWFISH: CipherDescriptor = CipherDescriptor {
    name: "blowfish",
    facts: Facts {
        block_bytes: 8,
        rounds: 16,
        key_bytes: KeyBytes { min: 4, max: 56, usual: 16 },
        iv_bytes: 8,
        output_bytes: 0,
        table_bytes: 4096,
        working_set_bytes: 4096 + 4168,
        chained: true,
        byte_order: ByteOrder::Big,
        standing: Standing::Legacy,
        limits: Limits::NARROW_BLOCKS,
        source: "Schneier 1993",
    },
    expand: |key| Some(Schedule::Blowfish(Key::new(key))),
    alone: |_, tier, _, _| -> Alone { if tier == Tier::Reference { by_reference } else { unrolled } },
    has_instructions: no_instructions,
    ways: Some(CipherWays {
        cost: |_, direction, _, _| {
            let fixed_bytes = if direction == Direction::Decrypt { 256 } else { 192 };
            Some(WaysCost { few: 1, fixed_bytes, job_bytes: 24 })
        },
        least_bytes: LeastBytes { chained: 192, free: 192 },
        cut: Some(CutFor { ways: [6, 6, 64], set_up: 64 }),
        run: run_ways,
    }),
    trace: |key, data, sink| {
        let Schedule::Blowfish(key) = key else { return };
        trace_blocks(data, sink, |b| reference::crypt::<Counted>(key, Direction::Encrypt, b));
    },
    words: |key| {
        let Schedule::Blowfish(key) = key else { return None };
        Some((key.p.to_vec(), key.s.as_flattened().to_vec()))
    },
    peers: PeerNames::NONE.openssl("BF").rust_crypto("blowfish"),
    promises: &[
        Promise::new("8blowfish4ways7run_bmi", "bextr", 8),
        Promise::new("8blowfish8permuted", "vpermt2b", 64),
    ],
};

block_after_block!(by_reference, Blowfish => reference::plain);
block_after_block!(unrolled, Blowfish => ways::one);

/// This many busy ways of 64 are no faster than as many single messages.
#[cfg(target_arch = "x86_64")]
const PERMUTED_FEW: usize = 5;

/// Runs Blowfish side by side: 64 ways if one key's tables serve all of them, or a few that are interleaved.
fn run_ways(
    features: Features,
    mode: Mode,
    direction: Direction,
    jobs: &mut [CipherJob<'_>],
    order: &[u16],
    hand_over: &HandOver<'_>,
) {
    #[cfg(target_arch = "x86_64")]
    if let Some(proof) = features.avx512
        && one_key(jobs, order)
        && !few_ways_do(jobs, order, ways::WAYS, permuted::WAYS, (19, 4))
    {
        let kernel = &mut permuted::Permuted::new(proof, mode, direction);
        return crate::cipher_ways::run_jobs(kernel, jobs, order, &hand_over.at(PERMUTED_FEW));
    }
    let kernel = ways::BlowfishWays::<{ ways::WAYS }>::new(mode, direction, features.avx2);
    crate::cipher_ways::run_jobs(&mut Interleave(kernel), jobs, order, hand_over);
}

/// The expanded key in [`Schedule`].
pub(crate) type BoxedKey = Box<Key>;

/// An expanded key.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub(crate) struct Key {
    pub(crate) p: [u32; 18],
    pub(crate) s: [[u32; 256]; 4],
}

impl Key {
    /// Expands 4 to 56 bytes.
    pub(crate) fn new(key: &[u8]) -> Box<Self> {
        let mut made = Box::new(Self { p: [0; 18], s: [[0; 256]; 4] });
        let (p, s) = pi::PI.split_at(18);
        made.p.copy_from_slice(p);
        made.s.as_flattened_mut().copy_from_slice(s);
        let mut bytes = key.iter().cycle();
        for word in &mut made.p {
            let mut next = || bytes.next().copied().unwrap_or(0);
            *word ^= u32::from_be_bytes([next(), next(), next(), next()]);
        }
        let mut block = [0; 8];
        let mut next = |made: &Self| {
            reference::plain(made, Direction::Encrypt, &mut block);
            let value = u64::from_be_bytes(block);
            ((value >> 32) as u32, value as u32)
        };
        for i in 0..9 {
            (made.p[2 * i], made.p[2 * i + 1]) = next(&made);
        }
        for i in 0..512 {
            let (left, right) = next(&made);
            made.s[i / 128][2 * (i % 128)] = left;
            made.s[i / 128][2 * (i % 128) + 1] = right;
        }
        made
    }
}

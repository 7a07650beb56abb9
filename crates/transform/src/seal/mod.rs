//! SEAL 3.0, Rogaway and Coppersmith 1998: a stream of at most 64 KiB for each 32-bit index under one key.
//!
//! Words are written most significant byte first.

pub(crate) mod generic;
pub(crate) mod reference;
#[cfg(target_arch = "x86_64")]
pub(crate) mod ways;

use zeroize::{Zeroize, ZeroizeOnDrop};

use crate::cipher_ways::{self, HandOver, Interleave};
use crate::descriptor::{
    Alone, CipherDescriptor, CipherWays, LeastBytes, PeerNames, Promise, no_instructions,
};
use crate::facts::{ByteOrder, Facts, KeyBytes, Limits, Standing};
use crate::isa::{Features, Tier};
use crate::job::{Buffer, CipherJob};
use crate::modes::{Direction, Mode};
use crate::order::WaysCost;
use crate::schedule::Schedule;
use crate::word::{Counted, Event, end_block};

/// SEAL 3.0 as the catalogue lists it.
pub(crate) static SEAL_3: CipherDescriptor = CipherDescriptor {
    name: "seal3",
    facts: Facts {
        block_bytes: 16,
        rounds: 8,
        key_bytes: KeyBytes::exactly(20),
        iv_bytes: 4,
        output_bytes: 0,
        table_bytes: 3072 + 64,
        working_set_bytes: 3072 + 1024,
        chained: true,
        byte_order: ByteOrder::Big,
        standing: Standing::Legacy,
        // There are 2^32 indices, each with a stream of 64 KiB.
        limits: Limits { blocks_a_key: (1 << 32) * (MAX_BYTES as u64 / 16), bytes_a_nonce: MAX_BYTES as u64 },
        source: "Rogaway and Coppersmith, J. Cryptology 11 (1998) 273-287",
    },
    expand: |key| Some(Schedule::Seal3(Key::new(key.try_into().ok()?))),
    alone: |_, tier, _, _| -> Alone { if tier == Tier::Reference { by_reference } else { unrolled } },
    has_instructions: no_instructions,
    ways: Some(CipherWays {
        cost: |_, _, _, _| Some(WaysCost { few: 2, fixed_bytes: 320, job_bytes: 0 }),
        least_bytes: LeastBytes { chained: 0, free: 320 },
        cut: None,
        run: run_ways,
    }),
    trace,
    words: |key| {
        let Schedule::Seal3(key) = key else { return None };
        Some((Vec::new(), [&key.t[..], &key.s, &key.r].concat()))
    },
    peers: PeerNames::NONE,
    promises: &[
        Promise::new("4seal4ways10run_avx512", "vpgatherdd", 64),
        Promise::new("4seal4ways8run_avx2", "vpgatherdd", 32),
    ],
};

fn by_reference(key: &Schedule, _: Mode, _: Direction, iv: &[u8; 16], data: &mut Buffer<'_>) {
    if let Schedule::Seal3(key) = key {
        reference::plain(key, index(iv), data.copied_in_place());
    }
}

fn unrolled(key: &Schedule, _: Mode, _: Direction, iv: &[u8; 16], data: &mut Buffer<'_>) {
    if let Schedule::Seal3(key) = key {
        generic::rest(key, generic::State::new(index(iv)), data.copied_in_place());
    }
}

fn trace(key: &Schedule, data: &mut [u8], sink: &mut dyn FnMut(Event)) {
    let Schedule::Seal3(key) = key else { return };
    let limit = data.len().min(MAX_BYTES);
    for (number, page) in data[..limit].chunks_mut(1024).enumerate() {
        reference::page::<Counted>(key, 1, number, page);
        end_block(sink);
    }
}

/// The cost of ways by gathers compared with interleaved ways, and with single messages when few ways are left.
#[cfg(target_arch = "x86_64")]
const GATHER: WaysCost = WaysCost { few: 12, fixed_bytes: 8192, job_bytes: 256 };
#[cfg(target_arch = "x86_64")]
const GATHER_FEW: usize = 5;

/// Runs SEAL side by side: by gathers if they pay, or with a few messages interleaved.
fn run_ways(
    features: Features,
    _: Mode,
    _: Direction,
    jobs: &mut [CipherJob<'_>],
    order: &[u16],
    hand_over: &HandOver<'_>,
) {
    #[cfg(target_arch = "x86_64")]
    {
        if hand_over.is_never() || GATHER.is_worth(cipher_ways::lengths(jobs, order)) {
            let hand_over = &hand_over.at(GATHER_FEW);
            match (features.avx512, features.avx2) {
                (Some(proof), _) => {
                    return cipher_ways::run_jobs(&mut ways::avx512(proof), jobs, order, hand_over);
                }
                (_, Some(proof)) => {
                    return cipher_ways::run_jobs(&mut ways::avx2(proof), jobs, order, hand_over);
                }
                _ => {}
            }
        }
    }
    let kernel = generic::SealWays::<{ generic::WAYS }>::new();
    cipher_ways::run_jobs(&mut Interleave(kernel), jobs, order, hand_over);
}

/// The tables in [`Schedule`].
pub(crate) type BoxedKey = Box<Key>;

/// Kilobytes of stream under one index; each takes four words of R.
const PAGES: usize = 64;

/// The longest message.
pub(crate) const MAX_BYTES: usize = 1024 * PAGES;

/// The tables of a key.
#[derive(Clone, Zeroize, ZeroizeOnDrop)]
pub(crate) struct Key {
    pub(crate) t: [u32; 512],
    pub(crate) s: [u32; 256],
    pub(crate) r: [u32; 4 * PAGES],
}

/// The key of ways that have none.
static ZERO: Key = Key { t: [0; 512], s: [0; 256], r: [0; 4 * PAGES] };

/// Returns the index in an IV.
pub(crate) fn index(iv: &[u8; 16]) -> u32 {
    u32::from_be_bytes([iv[0], iv[1], iv[2], iv[3]])
}

impl Key {
    pub(crate) fn new(key: &[u8; 20]) -> Box<Self> {
        let mut start = [0; 8];
        for (word, bytes) in start.iter_mut().zip(key.as_chunks::<4>().0) {
            *word = u32::from_be_bytes(*bytes);
        }
        // G(i): word i mod 5 of SHA-1's compression of the block (i / 5, 0, ..., 0), chained to the key.
        let (mut at, mut words) = (u32::MAX, [0; 8]);
        let mut g = |i: u32| {
            if i / 5 != at {
                at = i / 5;
                let mut block = [0; 64];
                block[..4].copy_from_slice(&at.to_be_bytes());
                words = start;
                crate::sha1::ways::one(&mut words, &block);
            }
            words[i as usize % 5]
        };
        let mut made = Box::new(Self { t: [0; 512], s: [0; 256], r: [0; 4 * PAGES] });
        for (i, word) in made.t.iter_mut().enumerate() {
            *word = g(i as u32);
        }
        for (i, word) in made.s.iter_mut().enumerate() {
            *word = g(0x1000 + i as u32);
        }
        for (i, word) in made.r.iter_mut().enumerate() {
            *word = g(0x2000 + i as u32);
        }
        words.zeroize();
        start.zeroize();
        made
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hex_literal::hex;

    /// The key is that of the paper's appendix.
    #[test]
    fn tables_of_the_paper() {
        let key = Key::new(&hex!("67452301efcdab8998badcfe10325476c3d2e1f0"));
        assert_eq!(key.t[..4], [0x92b404e5, 0x56588ced, 0x6c1acd4e, 0xbf053f68]);
        assert_eq!(key.t[511], 0x19ccf158);
        assert_eq!((key.s[0], key.s[1], key.s[255]), (0x907c1e3d, 0xce71ef0a, 0x0b5a0949));
        assert_eq!((key.r[0], key.r[1], key.r[15]), (0x5021758d, 0xce577c11, 0x4506dd64));
    }
}

//! ChaCha20-Poly1305, RFC 8439.

pub(crate) mod aead;
#[cfg(target_arch = "x86_64")]
mod long;
#[cfg(target_arch = "x86_64")]
pub(crate) mod parts;
pub(crate) mod reference;
#[cfg(target_arch = "x86_64")]
mod solo;
#[cfg(target_arch = "x86_64")]
pub(crate) mod ways;

use zeroize::Zeroizing;

use crate::aead::AeadJob;
use crate::cost::{AeadCost, AeadCosts};
use crate::descriptor::{AeadDescriptor, PeerNames, Promise, only_usual};
use crate::facts::{ByteOrder, Facts, KeyBytes, Limits, Standing};
use crate::isa::{Features, Tier};
use crate::job::Status;
use crate::modes::Direction;
use crate::order::{WINDOW, by_length};
use crate::schedule::AeadSchedule;

/// ChaCha20-Poly1305 as the catalogue knows it.
pub(crate) static CHACHA20_POLY1305: AeadDescriptor = AeadDescriptor {
    name: "chacha20-poly1305",
    facts: Facts {
        block_bytes: 64,
        rounds: 20,
        key_bytes: KeyBytes::exactly(32),
        iv_bytes: 12,
        output_bytes: 16,
        table_bytes: 0,
        working_set_bytes: 64,
        chained: false,
        byte_order: ByteOrder::Little,
        standing: Standing::Current,
        // Section 2.8: the first of 2^32 blocks makes the one-time key.
        limits: Limits { blocks_a_key: u64::MAX, bytes_a_nonce: ((1 << 32) - 1) * 64 },
        source: "RFC 8439",
    },
    takes: only_usual,
    expand: |key| Some(AeadSchedule::ChaCha(Zeroizing::new(key.try_into().ok()?))),
    portable,
    native: None,
    instructions: run_widest,
    costs,
    peers: PeerNames::NONE
        .openssl("ChaCha20-Poly1305")
        .aws_lc("CHACHA20_POLY1305")
        .ipsec_mb("CHACHA20_POLY1305"),
    promises: &[
        Promise::new("6chacha4ways13rounds_avx512", "vprold", 64),
        Promise::new("6chacha4ways11rounds_avx2", "vpshufb", 32),
    ],
};

/// The key in [`AeadSchedule`].
pub(crate) type Key = Zeroizing<[u8; 32]>;

/// The costs with AVX-512 are those of a Zen 5 host: ours by `docs/results/crossover-zen5`, AWS-LC's by its rate with
/// packets. The costs with AVX2 are those of a Zen 3 host, where AWS-LC's rounds are twice as fast as ours: only
/// short messages gain side by side.
fn costs(features: Features, direction: Direction) -> Option<AeadCosts> {
    let costs = |alone: [u32; 4], together: [u32; 4], few, library: [u32; 4]| AeadCosts {
        alone: AeadCost::new(alone),
        together: AeadCost::new(together),
        few,
        library: AeadCost::new(library),
    };
    Some(match (features.avx512, features.avx2?, direction) {
        (Some(_), ..) => costs([0, 183, 130, 130], [0, 40, 135, 135], 4, [0, 200, 385, 385]),
        (None, _, Direction::Encrypt) => {
            costs([110, 150, 880, 880], [0, 125, 862, 862], 7, [0, 202, 475, 475])
        }
        (None, _, Direction::Decrypt) => {
            costs([60, 170, 1040, 1040], [0, 100, 1140, 1140], 7, [0, 157, 602, 602])
        }
    })
}

fn portable(_: Tier, direction: Direction, job: &mut AeadJob<'_>) {
    let AeadSchedule::ChaCha(key) = job.key.schedule() else { return };
    aead::seal_or_open(key, direction, job);
}

/// Runs the pending jobs, by the largest instruction set available.
fn run_widest(features: Features, direction: Direction, jobs: &mut [AeadJob<'_>]) {
    #[cfg(target_arch = "x86_64")]
    for window in jobs.chunks_mut(WINDOW) {
        let Some(avx2) = features.avx2 else { return };
        if ways::one_by_one(direction, window) {
            for job in window.iter_mut().filter(|job| job.status == Status::Pending) {
                match features.avx512 {
                    Some(avx512) => solo::avx512(avx512, direction, job),
                    None => solo::avx2(avx2, direction, job),
                }
            }
            continue;
        }
        let bytes =
            |job: &mut AeadJob<'_>| (job.status == Status::Pending).then_some(job.data.len() + job.aad.len());
        by_length(window, bytes, |jobs, order| match features.avx512 {
            Some(avx512) => long::avx512(avx512, direction, jobs, order),
            None => long::avx2(avx2, direction, jobs, order),
        });
    }
}

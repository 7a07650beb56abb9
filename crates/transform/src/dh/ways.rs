//! Diffie-Hellman eight ways at once: up to eight operations of one group and one length of exponents at a time.
//!
//! A shared secret is a power with digits of four bits. A public value is a power of 2: between the squares
//! of three bits it is shifted by the digit, which the almost-Montgomery form's spare bits take, so it needs
//! no multiplications.
//!
//! Cost of eight operations of 2048 bits with exponents of 256 bits in IFMA instructions: 263 squares of 4840
//! and 71 multiplications of 6400 for a secret, 258 squares for a public value.
#![allow(unsafe_code)]

use core::arch::x86_64::{_mm_cvtsi64_si128, _mm512_cvtepu8_epi64, _mm512_setzero_si512, _mm512_sllv_epi64};

use super::{DhExponent, DhGroup, DhJob, DhOutcome};
use crate::isa::Avx512;
use crate::montgomery::kernel::{Number, WAYS, zero};
use crate::montgomery::table::cut;
use crate::montgomery::ways::{
    self, Moduli, Scratch, each_eight, from_bytes, gather, is_inner, to_bytes, way_jobs,
};
use crate::wipe::wipe;

/// Bits of a digit for a shared secret, and the powers that they select.
const DIGIT: usize = 4;
const POWERS: usize = 1 << DIGIT;

/// Bits of a digit for a public value: 2 (2^7)^2 p^2 stays below p R.
const SHIFT: usize = 3;

/// Digits of the longest exponent.
const DIGITS_MAX: usize = 4096usize.div_ceil(SHIFT);

/// Runs operations, of which each has its own key of any group; at most eight of a kind share the ways.
pub(crate) fn run(_token: Avx512, jobs: &mut [DhJob<'_>]) {
    let kinds = DhGroup::ALL.into_iter().flat_map(|group| {
        let of = move |length| [(group, length, false), (group, length, true)];
        [DhExponent::Short, DhExponent::Full].into_iter().flat_map(of)
    });
    let kind =
        |job: &mut DhJob<'_>| job.fits().then(|| (job.key.group(), job.key.length(), job.peer.is_some()));
    each_eight(jobs, kinds, kind, |(group, _, is_shared), jobs| {
        // SAFETY: the token proves the instructions.
        unsafe {
            match group {
                DhGroup::Modp2048 => batch::<40>(group, is_shared, jobs),
                DhGroup::Modp3072 => batch::<60>(group, is_shared, jobs),
                DhGroup::Modp4096 => batch::<80>(group, is_shared, jobs),
            }
        }
    });
}

/// Runs up to eight operations of a kind.
#[target_feature(enable = "avx512f,avx512ifma,avx512bw,avx512dq,avx512vl")]
fn batch<const L: usize>(group: DhGroup, is_shared: bool, jobs: &mut [&mut DhJob<'_>]) {
    let way_job = way_jobs(jobs.len(), WAYS);
    let constants = &group.prepared().constants;
    let prime = Moduli::<L>::new([constants; WAYS]);
    let one = gather::<L>([&*constants.one; WAYS]);
    let scratch = &mut Scratch::new();
    let mut digits = [[0; WAYS]; DIGITS_MAX];
    let bits = 64 * jobs[0].key.exponent().len();
    let digits = &mut digits[..bits.div_ceil(if is_shared { DIGIT } else { SHIFT })];
    for (way, job) in way_job.iter().enumerate() {
        let exponent = jobs[*job].key.exponent();
        if is_shared {
            cut::<DIGIT>(exponent, way, digits);
        } else {
            cut::<SHIFT>(exponent, way, digits);
        }
    }
    let mut taken = 0xff;
    let mut number;
    if is_shared {
        number = from_bytes::<L>(way_job.map(|job| jobs[job].peer.unwrap_or(&[])));
        taken &= is_inner(&prime, &number);
        shared(&prime, &mut number, &one, &gather([&*constants.square; WAYS]), digits, scratch);
        taken &= is_inner(&prime, &number);
    } else {
        number = one;
        power_of_two(&prime, &mut number, digits, scratch);
    }
    for (way, job) in jobs.iter_mut().enumerate() {
        if taken & (1 << way) == 0 {
            job.finish(DhOutcome::BadPeer);
        } else {
            to_bytes(&number, way, job.output);
            job.finish(DhOutcome::Done);
        }
    }
    wipe(&mut number, _mm512_setzero_si512());
    wipe(digits, [0; WAYS]);
    scratch.wipe();
}

/// `x` = x to the power of the exponent, fully reduced.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512ifma,avx512bw,avx512dq,avx512vl")]
fn shared<const L: usize>(
    prime: &Moduli<L>,
    x: &mut Number<L>,
    one: &Number<L>,
    square: &Number<L>,
    digits: &[[u8; WAYS]],
    scratch: &mut Scratch,
) {
    let mut table = [zero::<L>(); POWERS];
    prime.multiply(x, square, scratch);
    prime.power::<DIGIT, POWERS>(x, one, digits, &mut table, scratch);
    prime.leave(x, scratch);
}

/// `x` = 2 to the power of the exponent, fully reduced; `x` is 1 in Montgomery's form.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512ifma,avx512bw,avx512dq,avx512vl")]
fn power_of_two<const L: usize>(
    prime: &Moduli<L>,
    x: &mut Number<L>,
    digits: &[[u8; WAYS]],
    scratch: &mut Scratch,
) {
    for (n, digit) in digits.iter().enumerate() {
        if n > 0 {
            for _ in 0..SHIFT {
                prime.square(x, scratch);
            }
        }
        let by = _mm512_cvtepu8_epi64(_mm_cvtsi64_si128(i64::from_le_bytes(*digit)));
        for limb in x.iter_mut() {
            *limb = _mm512_sllv_epi64(*limb, by);
        }
        ways::carry(x);
    }
    prime.leave(x, scratch);
}

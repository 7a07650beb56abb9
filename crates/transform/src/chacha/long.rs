//! ChaCha20-Poly1305 over long messages: while the vectors compute the stream of one unit of groups, the integer
//! units, which the rounds leave idle, authenticate the middles of texts of another unit, the one before (sealing) or
//! after (opening).
//!
//! `unsafe`: see [`super::ways`].
#![allow(unsafe_code)]

use super::ways::{
    AVX2, AVX512, Kernels, LONG, Streams, Tags, Wave, Zeroth, all_avx2, all_avx512, crypt, settle,
    tags_one_by_one, tags_side_by_side, text,
};
use crate::aead::AeadJob;
use crate::isa::{Avx2, Avx512};
use crate::modes::Direction;
use crate::poly1305::Text;
use crate::poly1305::beside::Beside;
use crate::simd::avx2::Y;
use crate::simd::avx512::Z;
use crate::wipe::wipe;

/// Messages of the largest unit.
const UNIT: usize = <Z as Streams>::UNIT;
/// Texts that vectors authenticate together.
const TOGETHER: usize = 8;

/// Does as [`crypt`], for the groups of a unit.
///
/// # Safety
/// The contract of [`crypt`]; if `zeroth` is given, it has as many blocks as the unit has messages.
#[inline(always)]
unsafe fn crypt_unit<'k, V: Streams, const SETS: usize>(
    wave: &mut Wave<'k, V, SETS>,
    jobs: &[AeadJob<'k>],
    unit: &[u16],
    mut zeroth: Option<&mut [Zeroth]>,
    with_data: bool,
    beside: &mut Beside,
) {
    for (n, group) in unit.chunks(V::WAYS).enumerate() {
        let zeroth = zeroth.as_deref_mut().map(|zeroth| &mut zeroth[n * V::WAYS..]);
        // SAFETY: the contract is that of `crypt`, group by group.
        unsafe { crypt(wave, jobs, group, zeroth, with_data, Some(beside)) };
    }
}

/// Runs the jobs that `order` lists, all of them pending.
///
/// # Safety
/// The CPU has the features of `V` and of `kernels`, and BMI2.
#[inline(always)]
pub(super) unsafe fn all<'k, V: Streams, P: Copy, const SETS: usize>(
    kernels: Kernels<V, SETS>,
    proof: P,
    tags: Tags<P>,
    direction: Direction,
    jobs: &mut [AeadJob<'k>],
    order: &[u16],
) {
    let sealing = direction == Direction::Encrypt;
    let mut wave = Wave::<V, SETS>::new(kernels);
    let mut zeroth = [[[0; 32]; 2]; UNIT];
    let mut beside = Beside::new();
    let (mut before, mut under_way): (&[u16], &[u16]) = (&[], &[]);
    // No unit is processed beside the first one when sealing, or beside the last one when opening: few messages make
    // small units.
    let mut units = order.chunks(if order.len() < 4 * V::UNIT { V::WAYS } else { V::UNIT }).peekable();
    while let Some(unit) = units.next() {
        // SAFETY: the jobs' buffers.
        unsafe {
            crypt_unit(&mut wave, jobs, unit, Some(&mut zeroth), sealing, &mut beside);
            if sealing {
                finish::<V>(&mut beside, direction, jobs, under_way);
            }
        }
        let mut texts = [Text { key: &[0; 32], aad: &[], data: &[] }; UNIT];
        let texts = &mut texts[..unit.len()];
        for ((&index, place), [key, _]) in unit.iter().zip(&mut *texts).zip(&zeroth) {
            // SAFETY: nothing writes these buffers before the tags are made.
            *place = unsafe { text(direction, &jobs[usize::from(index)], key) };
        }
        let company = if sealing { units.peek().copied().unwrap_or_default() } else { before };
        let company: usize = company.iter().map(|&index| jobs[usize::from(index)].data.len() / 64).sum();
        // The integer units get about as many texts as they finish while the vectors compute the stream beside them.
        let time = 20 * V::BESIDE * (company / (SETS * V::WAYS));
        let mut left: usize = texts.iter().map(|text| text.data.len() / 16).sum();
        let mut now = 0;
        while left > time + time / 8 {
            let taken = &texts[now..texts.len().min(now + TOGETHER)];
            left -= taken.iter().map(|text| text.data.len() / 16).sum::<usize>();
            now += taken.len();
        }
        let mut made = [[0; 16]; UNIT];
        tags(proof, &texts[..now], &mut made[..now]);
        for (&index, &tag) in unit.iter().zip(&made[..now]) {
            settle(direction, &mut jobs[usize::from(index)], tag);
        }
        under_way = &unit[now..];
        for text in &texts[now..] {
            beside.push(text, V::BESIDE);
        }
        beside.start();
        if !sealing {
            // SAFETY: the jobs' buffers.
            unsafe {
                crypt_unit(&mut wave, jobs, before, None, true, &mut beside);
                finish::<V>(&mut beside, direction, jobs, under_way);
            }
        }
        before = unit;
    }
    if !sealing {
        // SAFETY: the jobs' buffers.
        unsafe { crypt_unit(&mut wave, jobs, before, None, true, &mut beside) };
    }
    wave.wipe();
    beside.wipe();
    wipe(&mut zeroth, [[0; 32]; 2]);
}

/// Finishes the texts of a unit, if they are under way.
///
/// # Safety
/// The texts of `unit` that were pushed to `beside`, in this order, are those of the unit's jobs; nobody
/// writes them meanwhile. The CPU has BMI2.
#[inline(always)]
unsafe fn finish<V: Streams>(
    beside: &mut Beside,
    direction: Direction,
    jobs: &mut [AeadJob<'_>],
    unit: &[u16],
) {
    // SAFETY: the contract: the texts that are under way are readable, and the CPU has BMI2.
    let states = unsafe { beside.finish(V::BESIDE) };
    for (&index, state) in unit.iter().zip(states) {
        let job = &mut jobs[usize::from(index)];
        // SAFETY: nothing writes the buffer meanwhile.
        let text = unsafe { text(direction, job, &[0; 32]) };
        state.update_padded(text.data.as_chunks::<16>().1);
        state.update_padded(&text.lengths());
        settle(direction, job, state.tag());
    }
}

/// # Safety
/// The CPU has AVX2, BMI1, BMI2, SSSE3 and SSE4.1.
#[target_feature(enable = "avx2,bmi1,bmi2,ssse3,sse4.1")]
unsafe fn long_avx2(proof: Avx2, direction: Direction, jobs: &mut [AeadJob<'_>], order: &[u16]) {
    // SAFETY: this function has the features of Y, of its kernels, and BMI2.
    unsafe { all(AVX2, proof, tags_one_by_one, direction, jobs, order) }
}

/// # Safety
/// The CPU has AVX-512 F, BW, DQ, VL and IFMA, and BMI2.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512ifma,bmi2")]
unsafe fn long_avx512(proof: Avx512, direction: Direction, jobs: &mut [AeadJob<'_>], order: &[u16]) {
    // SAFETY: this function has the features of Z, of its kernels, and BMI2.
    unsafe {
        all(AVX512, proof, tags_side_by_side, direction, jobs, order);
    }
}

/// Returns the messages that are long enough to be authenticated beside others, if they make enough groups; and the
/// rest.
fn split<'o, V: Streams>(jobs: &[AeadJob<'_>], order: &'o [u16]) -> (&'o [u16], &'o [u16]) {
    let is_short = |index: &u16| jobs[usize::from(*index)].data.len() < LONG;
    let long = order.iter().position(is_short).unwrap_or(order.len());
    order.split_at(if long < 3 * V::WAYS { 0 } else { long })
}

/// Runs the jobs that `order` lists, all of them pending, eight ways at once.
pub(crate) fn avx2(proof: Avx2, direction: Direction, jobs: &mut [AeadJob<'_>], order: &[u16]) {
    let (long, others) = split::<Y>(jobs, order);
    // SAFETY: the token.
    unsafe {
        if !long.is_empty() {
            long_avx2(proof, direction, jobs, long);
        }
        if !others.is_empty() {
            all_avx2(proof, direction, jobs, others);
        }
    }
}

/// Does as [`avx2`], sixteen ways at once.
pub(crate) fn avx512(proof: Avx512, direction: Direction, jobs: &mut [AeadJob<'_>], order: &[u16]) {
    let (long, others) = split::<Z>(jobs, order);
    // SAFETY: the token.
    unsafe {
        if !long.is_empty() {
            long_avx512(proof, direction, jobs, long);
        }
        if !others.is_empty() {
            all_avx512(proof, direction, jobs, others);
        }
    }
}

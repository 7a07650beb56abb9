//! ChaCha20-Poly1305 over long messages: while the vectors make the stream of one group, the integer units, which the
//! rounds leave idle, authenticate the middles of the texts of another, the one before (sealing) or after (opening).
//!
//! `unsafe`: see [`super::lanes`].
#![allow(unsafe_code)]

use core::slice::from_raw_parts;

use super::lanes::{GROUP, Kernels, Streams, Tags, Wave, ZEROS, settle};
use crate::aead::AeadJob;
use crate::job::{Direction, Status};
use crate::poly1305::Text;
use crate::poly1305::beside::Beside;
use crate::wipe::wipe;

/// Adds the data of a group to a wave, and runs it.
///
/// # Safety
/// The CPU has the vector's instructions, and `beside` what it reads.
#[inline(always)]
unsafe fn crypt<'k, V: Streams, const SETS: usize>(
    wave: &mut Wave<'k, V, SETS>,
    jobs: &[AeadJob<'k>],
    group: &[u16],
    beside: &mut Beside,
) {
    for (message, &index) in group.iter().enumerate() {
        let job = &jobs[usize::from(index)];
        let (destination, bytes) = (job.data.destination(), job.data.len());
        // SAFETY: the job's buffer, here and when the wave is flushed.
        unsafe {
            if job.status == Status::Forged {
                destination.write_bytes(0, bytes);
            } else {
                wave.add(message, 1, (job.data.source(), destination), bytes, Some(beside));
            }
        }
    }
    // SAFETY: as said above.
    unsafe { wave.flush(Some(beside)) };
}

/// Runs the jobs that `order` lists, all of them pending.
///
/// # Safety
/// The CPU has the vector's instructions, and BMI2.
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
    let mut waves = [Wave::<V, SETS>::new(kernels), Wave::<V, SETS>::new(kernels)];
    // The group's, and, when opening, that of the group before.
    let [mut wave, mut other] = waves.each_mut();
    let mut zeroth = [[[0; 32]; 2]; GROUP];
    let mut beside = Beside::new();
    let (mut before, mut under_way): (&[u16], &[u16]) = (&[], &[]);
    let mut groups = order.chunks(V::LANES).peekable();
    while let Some(group) = groups.next() {
        for (message, &index) in group.iter().enumerate() {
            wave.take(message, &jobs[usize::from(index)]);
        }
        for (message, zeroth) in zeroth[..group.len()].iter_mut().enumerate() {
            let key = zeroth.as_flattened_mut().as_mut_ptr();
            // SAFETY: as many bytes on both sides.
            unsafe { wave.add(message, 0, (ZEROS.as_ptr(), key), 64, Some(&mut beside)) };
        }
        // SAFETY: the jobs' buffers.
        unsafe {
            if sealing {
                crypt(wave, jobs, group, &mut beside);
                finish::<V>(&mut beside, direction, jobs, under_way);
            } else {
                wave.flush(None);
            }
        }
        let mut texts = [Text { key: &[0; 32], aad: &[], data: &[] }; GROUP];
        let texts = &mut texts[..group.len()];
        for ((&index, text), [key, _]) in group.iter().zip(&mut *texts).zip(&zeroth) {
            let job = &jobs[usize::from(index)];
            let sealed = if sealing { job.data.destination().cast_const() } else { job.data.source() };
            // SAFETY: the job's buffer, which nothing writes while the texts live.
            *text = Text { key, aad: job.aad, data: unsafe { from_raw_parts(sealed, job.data.len()) } };
        }
        let company = if sealing { groups.peek().copied().unwrap_or_default() } else { before };
        let blocks = |group: &[u16]| -> usize {
            group.iter().map(|&index| jobs[usize::from(index)].data.len() / 64).sum()
        };
        // The integer units take texts only if the stream beside them lasts as long.
        let time = 20 * V::BESIDE * (blocks(company) / (SETS * V::LANES));
        let mut now = group.len() * V::NOW / 16;
        if time < 4 * blocks(&group[now..]) {
            now = group.len();
        }
        let mut made = [[0; 16]; GROUP];
        tags(proof, &texts[..now], &mut made[..now]);
        for (&index, &tag) in group.iter().zip(&made[..now]) {
            settle(direction, &mut jobs[usize::from(index)], tag);
        }
        under_way = &group[now..];
        for text in &texts[now..] {
            beside.push(text, V::BESIDE);
        }
        beside.start();
        if !sealing {
            // SAFETY: the jobs' buffers.
            unsafe {
                crypt(other, jobs, before, &mut beside);
                finish::<V>(&mut beside, direction, jobs, under_way);
            }
        }
        core::mem::swap(&mut wave, &mut other);
        before = group;
    }
    if !sealing {
        // SAFETY: the jobs' buffers.
        unsafe { crypt(other, jobs, before, &mut beside) };
    }
    for wave in &mut waves {
        wave.wipe();
    }
    beside.wipe();
    wipe(&mut zeroth, [[0; 32]; 2]);
}

/// Finishes the texts of a group, if they are under way.
///
/// # Safety
/// Their bytes are readable, and the CPU has BMI2.
#[inline(always)]
unsafe fn finish<V: Streams>(
    beside: &mut Beside,
    direction: Direction,
    jobs: &mut [AeadJob<'_>],
    group: &[u16],
) {
    // SAFETY: the caller's contract.
    let states = unsafe { beside.finish(V::BESIDE) };
    for (&index, state) in group.iter().zip(states) {
        let job = &mut jobs[usize::from(index)];
        let sealed = match direction {
            Direction::Encrypt => job.data.destination().cast_const(),
            Direction::Decrypt => job.data.source(),
        };
        // SAFETY: the job's buffer, which nothing writes meanwhile.
        let data = unsafe { from_raw_parts(sealed, job.data.len()) };
        let text = Text { key: &[0; 32], aad: job.aad, data };
        state.update_padded(data.as_chunks::<16>().1);
        state.update_padded(&text.lengths());
        settle(direction, job, state.tag());
    }
}

//! Integrated layer processing (A12): what it gains to do all that touches a packet while it is in the cache, instead of
//! one layer over all packets after the other.
//!
//! Copy, checksum, digest and cipher over packets of 4 KB, by the kernels of one message at a time, so that the only
//! difference is the order. Guarantees: both orders leave the same bytes.

use crate::LabError;
use crate::rng::Rng;
use sealane_engine::{Engine as _, Inline, Job, Mac, Protection, Queue, Session, Span, Work};
use sealane_transform::{BlockCipher, Cipher, Digest, Kernels, Mode, Tier, internet_sum};
use serde::Serialize;
use std::collections::VecDeque;
use std::hint::black_box;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Instant;

const PACKET_BYTES: usize = 4096;

/// What is done to each packet, and how long it takes.
#[derive(Clone, Debug, Serialize)]
pub struct Pass {
    /// The layers.
    pub layers: &'static str,
    /// Bytes of all packets.
    pub bytes: usize,
    /// MB/s, layer after layer.
    pub separate_mb_per_s: f64,
    /// MB/s, packet after packet.
    pub fused_mb_per_s: f64,
}

impl Pass {
    /// How many times as fast packet after packet is.
    pub fn gain(&self) -> f64 {
        self.fused_mb_per_s / self.separate_mb_per_s
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Copy,
    Checksum,
    Digest,
    Cipher,
}

const PASSES: [(&str, &[Step]); 5] = [
    ("copy, checksum", &[Step::Copy, Step::Checksum]),
    ("checksum, md5", &[Step::Checksum, Step::Digest]),
    ("copy, checksum, md5", &[Step::Copy, Step::Checksum, Step::Digest]),
    ("copy, checksum, aes-128-ctr", &[Step::Copy, Step::Checksum, Step::Cipher]),
    ("copy, checksum, md5, des", &[Step::Copy, Step::Checksum, Step::Digest, Step::Cipher]),
];

/// Packets and what is done to them.
struct Packets {
    source: Vec<u8>,
    work: Work,
    queue: Box<dyn Queue>,
    digest: Arc<Session>,
    cipher: Arc<Session>,
    sum: u64,
}

impl Packets {
    fn new(bytes: usize, cipher: BlockCipher, mode: Mode, rng: &mut Rng) -> Result<Self, LabError> {
        let unavailable = |error: &dyn std::fmt::Display| LabError::Unavailable(error.to_string());
        let kernels = Kernels::select(Some(Tier::Native), None).map_err(|error| unavailable(&error))?;
        let session = |protection: Protection| {
            Session::with(kernels, protection, &vec![0x35; protection.key_bytes()])
                .map(Arc::new)
                .map_err(|error| unavailable(&error))
        };
        let mut source = vec![0; bytes];
        rng.fill(&mut source);
        let count = bytes / PACKET_BYTES;
        // Digests lie behind all packets.
        let buffer = sealane_engine::Buffer::new(bytes + 16 * count);
        let queue = Inline::new(kernels).queue(NonZeroUsize::MIN).map_err(|error| unavailable(&error))?;
        let mut packets = Self {
            source,
            work: Work { buffer, ..Work::default() },
            queue,
            digest: session(Protection::Mac { mac: Mac::Digest(Digest::Md5), tag_bytes: 16 })?,
            cipher: session(Protection::Cipher(Cipher::Block(cipher, mode)))?,
            sum: 0,
        };
        let Self { work, source, .. } = &mut packets;
        work.buffer.bytes_mut()[..bytes].copy_from_slice(source);
        Ok(packets)
    }

    /// One step over packets `from..to`.
    fn step(&mut self, step: Step, from: usize, to: usize) {
        let range = from * PACKET_BYTES..to * PACKET_BYTES;
        match step {
            Step::Copy => self.work.buffer.bytes_mut()[range.clone()].copy_from_slice(&self.source[range]),
            Step::Checksum => {
                for packet in self.work.buffer.bytes()[range].chunks(PACKET_BYTES) {
                    self.sum = self.sum.wrapping_add(internet_sum(packet).into());
                }
            }
            Step::Digest => {
                let all = self.source.len();
                self.run(Step::Digest, from, to, |packet| {
                    let clear = Span::new((packet * PACKET_BYTES) as u32, PACKET_BYTES as u32);
                    let tag = Span::new((all + 16 * packet) as u32, 16);
                    Job { clear, body: Span::new(clear.end() as u32, 0), tag, ..Job::default() }
                });
            }
            Step::Cipher => self.run(Step::Cipher, from, to, |packet| {
                let body = Span::new((packet * PACKET_BYTES) as u32, PACKET_BYTES as u32);
                let (clear, tag) = (Span::new(body.start, 0), Span::new(body.end() as u32, 0));
                Job { clear, body, tag, ..Job::default() }
            }),
        }
    }

    fn run(&mut self, step: Step, from: usize, to: usize, job: impl Fn(usize) -> Job) {
        let session = if step == Step::Digest { &self.digest } else { &self.cipher };
        self.work.jobs.clear();
        self.work.sessions.clear();
        let session = self.work.session(session).expect("the first of a work");
        self.work.jobs.extend((from..to).map(|packet| Job { session, ..job(packet) }));
        let mut works = VecDeque::from([std::mem::take(&mut self.work)]);
        self.queue.submit(&mut works);
        self.work = self.queue.finished().expect("it computes at once");
    }

    /// MB/s of all steps over all packets, in one order or the other.
    fn rate(&mut self, steps: &[Step], is_fused: bool) -> f64 {
        let count = self.source.len() / PACKET_BYTES;
        // Small sets are gone over again until the clock is fine enough.
        let rounds = (8_usize << 20).div_ceil(self.source.len());
        let began = Instant::now();
        for _ in 0..rounds {
            if is_fused {
                (0..count)
                    .for_each(|packet| steps.iter().for_each(|&step| self.step(step, packet, packet + 1)));
            } else {
                steps.iter().for_each(|&step| self.step(step, 0, count));
            }
        }
        black_box(self.sum);
        (rounds * self.source.len()) as f64 / began.elapsed().as_secs_f64() / 1e6
    }
}

/// Measures every combination over sets from the first-level cache to far beyond the last.
pub(super) fn measure(rounds: usize, rng: &mut Rng) -> Result<Vec<Pass>, LabError> {
    let mut passes = Vec::new();
    for bytes in [16 << 10, 512 << 10, 64 << 20] {
        for (layers, steps) in PASSES {
            let (cipher, mode) = if layers.ends_with("des") {
                (BlockCipher::Des, Mode::Cbc)
            } else {
                (BlockCipher::Aes128, Mode::Ctr)
            };
            let mut packets = Packets::new(bytes, cipher, mode, rng)?;
            let mut rates = [Vec::new(), Vec::new()];
            for _ in 0..rounds {
                for (is_fused, rates) in [false, true].into_iter().zip(&mut rates) {
                    rates.push(packets.rate(steps, is_fused));
                }
            }
            let [separate, fused] = rates.map(|rates| crate::stats::median(&rates).unwrap_or(0.0));
            passes.push(Pass { layers, bytes, separate_mb_per_s: separate, fused_mb_per_s: fused });
        }
    }
    Ok(passes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_orders_leave_the_same_bytes() {
        for (layers, steps) in PASSES {
            let run = |is_fused: bool| {
                let mut packets =
                    Packets::new(32 << 10, BlockCipher::Aes128, Mode::Ctr, &mut Rng::new(5)).unwrap();
                let count = packets.source.len() / PACKET_BYTES;
                if is_fused {
                    (0..count).for_each(|at| steps.iter().for_each(|&step| packets.step(step, at, at + 1)));
                } else {
                    steps.iter().for_each(|&step| packets.step(step, 0, count));
                }
                (packets.sum, packets.work.buffer.bytes().to_vec())
            };
            assert!(run(false) == run(true), "{layers}");
        }
    }
}

//! Integrated layer processing (A12): the gain if all work on a packet is done while it is in the cache, instead of
//! one layer over all packets after the other; or if all work on a byte is done in one loop over the data, as
//! ATOMIC-2 proposed.
//!
//! The steps are copy, checksum, digest and cipher over packets of 4 KB, by the kernels of one message at a time, so
//! that only the order differs. Guarantees: the result of all orders is the same bytes.

use super::{Bench, rate, words};
use crate::LabError;
use crate::error::unavailable;
use crate::experiment::{Cell, Claim, Experiment, Measure, Outcome, Plan, RATE, Repetition, Sample, at, by};
use crate::load::Watch;
use crate::report::number::bytes as size;
use crate::rng::Rng;
use crate::studies::ATOMIC_TITLE;
use sealane_checksum::{internet_sum, internet_sum_copying};
use sealane_engine::{Engine as _, Inline, Job, Mac, Protection, Queue, Session, Span, Work};
use sealane_transform::{BlockCipher, Cipher, Digest, DigestStream, Kernels, Mode, StreamPart, Tier};
use std::collections::VecDeque;
use std::hint::black_box;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Instant;

const PACKET_BYTES: usize = 4096;

/// The orders of steps and packets, by their names in tables.
const ORDERS: [(&str, Order); 5] = [
    ("one layer after another", Order::ByLayer),
    ("one packet after another", Order::ByPacket),
    ("one loop over the data", Order::OneLoop),
    ("a pass for each, by words", Order::PassesOfWords),
    ("one loop over words", Order::OneLoopOfWords),
];

/// The steps that are written over words.
const OF_WORDS: [Step; 3] = [Step::Copy, Step::Checksum, Step::Digest];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    /// One step over all packets, then the next one.
    ByLayer,
    /// All steps over a packet, then the next one.
    ByPacket,
    /// All steps over a piece of a packet, then the next one.
    OneLoop,
    /// A pass for each step over a packet, in code over words.
    PassesOfWords,
    /// All steps over a word, then the next one, in the same code.
    OneLoopOfWords,
}

impl Order {
    /// Returns whether these steps can run in this order.
    fn has(self, steps: &[Step]) -> bool {
        match self {
            Self::ByLayer | Self::ByPacket => true,
            Self::OneLoop => !steps.contains(&Step::Cipher),
            Self::PassesOfWords | Self::OneLoopOfWords => steps == OF_WORDS,
        }
    }
}

/// The length of a piece in one loop: a few cache lines, and enough blocks that the cost of calls is negligible.
const PIECE_BYTES: usize = 512;

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

/// Packets and the state of the steps over them.
struct Packets {
    source: Vec<u8>,
    work: Work,
    queue: Box<dyn Queue>,
    digest: Arc<Session>,
    cipher: Arc<Session>,
    kernels: Kernels,
    sum: u64,
}

impl Packets {
    fn new(bytes: usize, cipher: BlockCipher, mode: Mode, rng: &mut Rng) -> Result<Self, LabError> {
        let kernels = Kernels::select(Some(Tier::Native), None).map_err(unavailable)?;
        let session = |protection: Protection| {
            Session::with(kernels, protection, &vec![0x35; protection.key_bytes()])
                .map(Arc::new)
                .map_err(unavailable)
        };
        let mut source = vec![0; bytes];
        rng.fill(&mut source);
        let count = bytes / PACKET_BYTES;
        // Digests lie behind all packets.
        let buffer = sealane_engine::Buffer::new(bytes + 16 * count);
        let queue = Inline::new(kernels).queue(NonZeroUsize::MIN).map_err(unavailable)?;
        let mut packets = Self {
            source,
            work: Work { buffer, ..Work::default() },
            queue,
            digest: session(Protection::Mac { mac: Mac::Digest(Digest::Md5), tag_bytes: 16 })?,
            cipher: session(Protection::Cipher(Cipher::Block(cipher, mode)))?,
            kernels,
            sum: 0,
        };
        let Self { work, source, .. } = &mut packets;
        work.buffer.bytes_mut()[..bytes].copy_from_slice(source);
        Ok(packets)
    }

    /// Runs one step over packets `from..to`.
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

    /// Runs all steps over one packet in one loop.
    fn one_loop(&mut self, steps: &[Step], packet: usize) {
        let (copies, digests) = (steps.contains(&Step::Copy), steps.contains(&Step::Digest));
        let from = packet * PACKET_BYTES;
        let Self { source, work, kernels, sum, .. } = self;
        let all = source.len();
        let bytes = work.buffer.bytes_mut();
        let mut stream = DigestStream::new(Digest::Md5).filter(|_| digests);
        let mut packet_sum = 0_u32;
        for at in (from..from + PACKET_BYTES).step_by(PIECE_BYTES) {
            let range = at..at + PIECE_BYTES;
            let piece = &mut bytes[range.clone()];
            let sum = if copies { internet_sum_copying(&source[range], piece) } else { internet_sum(piece) };
            packet_sum += u32::from(sum);
            if let Some(stream) = &mut stream {
                kernels.absorb(&mut [StreamPart { stream, part: piece }]);
            }
        }
        // The sum of the pieces' sums is the packet's sum, folded in the same way.
        *sum = sum.wrapping_add(u64::from(fold(packet_sum)));
        if let Some(stream) = &stream {
            bytes[all + 16 * packet..][..16].copy_from_slice(&kernels.finish(stream)[..16]);
        }
    }

    /// Runs the three steps over one packet in code over words.
    fn of_words(&mut self, packet: usize, run: fn(&[u8], &mut [u8]) -> words::Found) {
        let range = packet * PACKET_BYTES..(packet + 1) * PACKET_BYTES;
        let bytes = self.work.buffer.bytes_mut();
        let found = run(&self.source[range.clone()], &mut bytes[range]);
        self.sum = self.sum.wrapping_add(found.sum.swap_bytes().into());
        bytes[self.source.len() + 16 * packet..][..16].copy_from_slice(&found.digest);
    }

    /// Returns the MB/s of all steps over all packets in an order.
    fn rate(&mut self, steps: &[Step], order: Order) -> f64 {
        let count = self.source.len() / PACKET_BYTES;
        // Small sets are repeated until the clock is precise enough.
        let rounds = (8_usize << 20).div_ceil(self.source.len());
        let began = Instant::now();
        for _ in 0..rounds {
            self.go(steps, order, count);
        }
        black_box(self.sum);
        (rounds * self.source.len()) as f64 / began.elapsed().as_secs_f64() / 1e6
    }

    /// Runs all steps over `count` packets.
    fn go(&mut self, steps: &[Step], order: Order, count: usize) {
        match order {
            Order::ByLayer => steps.iter().for_each(|&step| self.step(step, 0, count)),
            Order::ByPacket => (0..count)
                .for_each(|packet| steps.iter().for_each(|&step| self.step(step, packet, packet + 1))),
            Order::OneLoop => (0..count).for_each(|packet| self.one_loop(steps, packet)),
            Order::PassesOfWords => (0..count).for_each(|packet| self.of_words(packet, words::by_passes)),
            Order::OneLoopOfWords => (0..count).for_each(|packet| self.of_words(packet, words::in_one_loop)),
        }
    }
}

/// Adds the carries of a sum of 16-bit words to it (RFC 1071).
const fn fold(mut sum: u32) -> u16 {
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Measures every combination over sets from the first-level cache to far beyond the last.
pub(super) fn outcome(bench: &mut Bench<'_>) -> Result<Option<Outcome>, LabError> {
    for bytes in [16 << 10, 512 << 10, 64 << 20] {
        for (layers, steps) in PASSES {
            let (cipher, mode) = match layers.ends_with("des") {
                true => (BlockCipher::Des, Mode::Cbc),
                false => (BlockCipher::Aes128, Mode::Ctr),
            };
            let mut packets = Packets::new(bytes, cipher, mode, &mut bench.rng)?;
            let size = size(bytes as u64);
            let place =
                |order| at([("id", "A12"), ("layers", layers), ("packets", &*size), ("order", order)]);
            let rounds = bench.repetition.rounds.min(5);
            let repetition = Repetition { rounds, ..bench.repetition };
            let orders: Vec<_> = ORDERS.into_iter().filter(|(_, order)| order.has(steps)).collect();
            let places = orders.iter().map(|(order, _)| place(order)).collect();
            let plan = Plan::of_cells(format!("A12 {layers}"), repetition, places, bench.rng.next_u64());
            // The orders take turns over one set of packets.
            let mut sampler = by(|cell| {
                let watch = Watch::begin();
                let rate = packets.rate(steps, orders[cell].1);
                Ok(Sample::slice(RATE, rate, watch.is_thread_disturbed()))
            });
            let mut cells = plan.measure(&mut sampler, bench.progress)?;
            super::over(&mut cells, |_| Some(0));
            bench.cells.extend(cells);
        }
    }
    let notes = [
        "ATOMIC-2's proposal: digest and checksum both touch every byte, so do both at once. Packets of 4 KB, kernels of one \
         message at a time; one loop does all steps over pieces of 512 bytes, and has no ciphers, which take packets as a whole.",
        "One loop over words is the proposal to the letter: each word is loaded once, stored, added and digested. Beside it stands \
         the same code with a pass for each, so that nothing else differs; times are over one layer after another.",
    ];
    let measures = vec![rate(), Measure::times("times", "times separate")];
    let axes = ["layers", "packets", "order"];
    let experiment = Experiment::new("passes", "A12", "Integrated layer processing", &axes, measures);
    let experiment = experiment.of(ATOMIC_TITLE).notes(&notes);
    Ok(bench.outcome(experiment, &["A12"], Vec::new(), |cells| {
        let is_digest = |cell: &&Cell| {
            [ORDERS[2].0, ORDERS[4].0].contains(&&*cell.at["order"])
                && cell.at["layers"].contains("md5")
                && !cell.samples.is_empty()
        };
        let claim = |cell: &Cell| {
            let [words, other] = match cell.at["order"] == ORDERS[4].0 {
                true => ["over words", ORDERS[3].0],
                false => ["over pieces", ORDERS[0].0],
            };
            let statement = format!(
                "{}, {}: one loop {words} is faster than a pass for each, as the paper proposes.",
                cell.at["layers"], cell.at["packets"]
            );
            let places = (cell.at.clone(), cell.elsewhere(&[("order", other)]));
            Claim::ratio((statement, "A12"), RATE, places, (Some(1.0), None))
        };
        cells.iter().filter(is_digest).map(claim).collect()
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_orders_leave_the_same_bytes() {
        for (layers, steps) in PASSES {
            let run = |order: Order| {
                if !order.has(steps) {
                    return None;
                }
                let mut packets =
                    Packets::new(32 << 10, BlockCipher::Aes128, Mode::Ctr, &mut Rng::new(5)).unwrap();
                let count = packets.source.len() / PACKET_BYTES;
                packets.go(steps, order, count);
                Some((packets.sum, packets.work.buffer.bytes().to_vec()))
            };
            let by_layer = run(Order::ByLayer);
            assert!(by_layer.is_some() && run(Order::ByPacket) == by_layer, "{layers}");
            for (name, order) in ORDERS {
                let found = run(order);
                assert!(found.is_none() || found == by_layer, "{layers}: {name}");
            }
        }
        let has = |order: Order| PASSES.iter().filter(|(_, steps)| order.has(steps)).count();
        assert_eq!(ORDERS.map(|(_, order)| has(order)), [5, 5, 3, 1, 1]);
    }
}

//! An engine of a scheduler, with the state that all lanes share.
//!
//! Guarantees: the expected time of a work is derived from the engine's cost, corrected by observed times; the
//! question that an engine is asked before it is used again has one correct answer.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering::Relaxed},
};

use sealane_transform::debug_only;
use sealane_transform::{Aead, BlockCipher, Cipher, Mode};

use super::breaker::Breaker;
use crate::{Buffer, Cost, Engine, Implementations, Job, Protection, Session, Software, Span, Trust, Work};

/// The outcomes of an engine's works so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemberReport {
    /// The name of the engine.
    pub name: &'static str,
    /// The number of works that it answered in time.
    pub answered_works: u64,
    /// The number of works that it did not answer in time.
    pub late_works: u64,
    /// The number of works that it handed back with jobs that were not run.
    pub refused_works: u64,
    /// The number of works of which a result or a verdict was wrong.
    pub wrong_works: u64,
    /// Whether it gets work.
    pub is_used: bool,
}

pub(super) struct Member {
    pub(super) engine: Arc<dyn Engine>,
    pub(super) trust: Trust,
    pub(super) breaker: Breaker,
    pub(super) counts: Counts,
    question: Option<Question>,
    /// The nanoseconds that its present works take.
    backlog_ns: AtomicU64,
    /// The ratio of the times that works took lately to the engine's cost, in thousandths.
    slowness: AtomicU64,
    /// The time of the last correction.
    learned_ns: AtomicU64,
}

#[derive(Debug, Default)]
pub(super) struct Counts {
    pub(super) answered: AtomicU64,
    pub(super) late: AtomicU64,
    pub(super) refused: AtomicU64,
    pub(super) wrong: AtomicU64,
}

debug_only!(Member { engine, counts });

/// The maximum factor by which an engine is taken to be slower than its cost.
const SLOWNESS_MAX: f64 = 1000.0;
/// Ratios in this range are ignored, because the times of jobs vary.
const NORMAL: std::ops::RangeInclusive<f64> = 0.5..=2.0;
/// An engine that has had no work for this time is expected to be as fast as its cost says; otherwise it would never
/// be tried again.
const MEMORY_NS: u64 = 1_000_000_000;

impl Member {
    pub(super) fn new(engine: Arc<dyn Engine>) -> Self {
        let trust = engine.trust();
        let question = match trust {
            Trust::Full => None,
            Trust::Checked { .. } => Question::of(&*engine),
        };
        Self {
            engine,
            trust,
            breaker: Breaker::default(),
            counts: Counts::default(),
            question,
            backlog_ns: AtomicU64::new(0),
            slowness: AtomicU64::new(1000),
            learned_ns: AtomicU64::new(0),
        }
    }

    pub(super) fn report(&self) -> MemberReport {
        let count = |counter: &AtomicU64| counter.load(Relaxed);
        MemberReport {
            name: self.engine.name(),
            answered_works: count(&self.counts.answered),
            late_works: count(&self.counts.late),
            refused_works: count(&self.counts.refused),
            wrong_works: count(&self.counts.wrong),
            is_used: self.breaker.is_closed(),
        }
    }

    /// Returns the nanoseconds until a work would be done that takes `own_ns` alone.
    pub(super) fn expected_ns(&self, own_ns: f64, now_ns: u64) -> f64 {
        let slowness = self.slowness.load(Relaxed) as f64 / 1000.0;
        let is_believed =
            !NORMAL.contains(&slowness) && now_ns.saturating_sub(self.learned_ns.load(Relaxed)) < MEMORY_NS;
        (self.backlog_ns.load(Relaxed) as f64 + own_ns) * if is_believed { slowness } else { 1.0 }
    }

    /// Records that a work was given to the engine that occupies it for `pace_ns`. Returns the nanoseconds of the
    /// works that it had before.
    pub(super) fn begin(&self, pace_ns: u64) -> u64 {
        self.backlog_ns.fetch_add(pace_ns, Relaxed)
    }

    /// Records that a work was taken from the engine or handed back.
    pub(super) fn end(&self, pace_ns: u64) {
        self.backlog_ns.fetch_sub(pace_ns, Relaxed);
    }

    /// Records that a work took `took_ns` where the engine's cost predicted `expected_ns`.
    pub(super) fn learn(&self, took_ns: u64, expected_ns: f64, now_ns: u64) {
        if expected_ns <= 0.0 {
            return;
        }
        let seen = (took_ns as f64 / expected_ns).min(SLOWNESS_MAX);
        let before = self.slowness.load(Relaxed) as f64 / 1000.0;
        // If lanes do this at the same time, one correction may be lost.
        self.slowness.store(((7.0 * before + seen) / 8.0 * 1000.0) as u64, Relaxed);
        self.learned_ns.store(now_ns, Relaxed);
    }

    /// Returns the known question, if the engine can be asked one.
    pub(super) fn question(&self) -> Option<&Work> {
        self.question.as_ref().map(|question| &question.work)
    }

    /// Returns whether `answer` answers the known question correctly.
    pub(super) fn is_right(&self, answer: &Work) -> bool {
        self.question.as_ref().is_some_and(|question| {
            let bytes = question.answer.buffer.bytes();
            answer.jobs == question.answer.jobs && answer.buffer.bytes().get(..bytes.len()) == Some(bytes)
        })
    }
}

/// Jobs whose results are known.
struct Question {
    work: Work,
    answer: Work,
}

/// The number of jobs, and the bytes per job.
const QUESTION_JOBS: u32 = 4;
const QUESTION_BYTES: u32 = 256;

impl Question {
    /// Makes a question under the first of three protections that the engine can run.
    fn of(engine: &dyn Engine) -> Option<Self> {
        let triple_des = Protection::Cipher(Cipher::Block(BlockCipher::TripleDes, Mode::Cbc));
        let protections = [Protection::Aead(Aead::Aes128Gcm), triple_des, Protection::Null];
        let protection =
            protections.into_iter().find(|&protection| engine.cost(protection).is_some_and(is_a_cost))?;
        let material: Vec<u8> = (1..=protection.key_bytes() as u8).collect();
        let session = Arc::new(Session::with(Implementations::default(), protection, &material).ok()?);
        let make = || {
            let tag_bytes = protection.tag_bytes() as u32;
            let room = QUESTION_BYTES + tag_bytes;
            let mut buffer = Buffer::new((QUESTION_JOBS * room) as usize);
            buffer.bytes_mut().iter_mut().zip(0u32..).for_each(|(byte, at)| *byte = (at * 31) as u8);
            let job = |index| Job {
                body: Span::new(index * room, QUESTION_BYTES),
                tag: Span::new(index * room + QUESTION_BYTES, tag_bytes),
                iv: [index as u8; 16],
                ..Job::default()
            };
            let jobs = (0..QUESTION_JOBS).map(job).collect();
            Work { buffer, sessions: vec![Arc::clone(&session)], jobs, ..Work::default() }
        };
        let mut answer = make();
        Software::default().run(&mut answer);
        Some(Self { work: make(), answer })
    }
}

fn is_a_cost(cost: Cost) -> bool {
    cost.fixed_ns.is_finite() && cost.byte_ns.is_finite()
}

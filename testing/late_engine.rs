//! An engine that does everything an engine is permitted to do to its users. Tests include this file with `#[path]`.
//!
//! It answers late and out of order, accepts less than it is offered, answers again for works that it has returned,
//! and leaves every third job pending. It asserts that its users follow the rules: under one session a nonce never
//! protects two texts, so nothing is sealed twice either.

#![allow(dead_code, reason = "each test uses some of it")]

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    io,
    num::NonZeroUsize,
    os::fd::{AsFd as _, BorrowedFd, OwnedFd},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};
use sealane_engine::{
    Cost, Direction, Engine, Job, JobStatus, Maker, Protection, Queue, Session, Software, Work,
};

/// An engine whose queues misbehave as is permitted, each by a seed of its own.
#[derive(Debug)]
pub(crate) struct LateEngine {
    seed: AtomicU64,
    maker: Maker,
    done: Arc<Done>,
}

/// Counters of the engine's permitted misbehaviour.
#[derive(Debug, Default)]
pub(crate) struct Done {
    /// Jobs that were returned pending.
    pub(crate) pending_jobs: AtomicU64,
    /// Jobs that were computed.
    pub(crate) computed_jobs: AtomicU64,
    /// Works that were returned before one that was submitted earlier.
    pub(crate) overtaking_works: AtomicU64,
    /// Calls of `submit` that left work with its owner.
    pub(crate) refusals: AtomicU64,
    /// Nonces that protect a text.
    pub(crate) nonces: AtomicU64,
}

impl LateEngine {
    /// Returns an engine whose queues derive their behaviour from `seed`.
    pub(crate) fn new(seed: u64) -> Self {
        Self { seed: AtomicU64::new(seed << 16), maker: Maker::new(), done: Arc::default() }
    }

    /// Returns the counters so far.
    pub(crate) fn done(&self) -> &Done {
        &self.done
    }
}

impl Engine for LateEngine {
    fn name(&self) -> &'static str {
        "late"
    }

    fn cost(&self, _: Protection) -> Option<Cost> {
        Some(Cost { fixed_ns: 1000.0, byte_ns: 1.0 })
    }

    fn queue(&self, depth: NonZeroUsize) -> io::Result<Box<dyn Queue>> {
        // The descriptor is always readable: there may always be a result.
        let bell = rustix::event::eventfd(1, rustix::event::EventfdFlags::CLOEXEC)?;
        Ok(Box::new(LateQueue {
            dice: SplitMix64::seed_from_u64(self.seed.fetch_add(1, Relaxed)),
            maker: self.maker,
            done: Arc::clone(&self.done),
            depth: depth.get(),
            submitted: 0,
            held: Vec::new(),
            software: Software::default(),
            bell,
        }))
    }
}

struct LateQueue {
    dice: SplitMix64,
    maker: Maker,
    done: Arc<Done>,
    depth: usize,
    submitted: u64,
    held: Vec<Held>,
    software: Software,
    bell: OwnedFd,
}

struct Held {
    work: Work,
    number: u64,
    /// The number of polls without a result.
    looks: u64,
}

impl LateQueue {
    fn below(&mut self, bound: u64) -> u64 {
        self.dice.next_u64() % bound
    }

    /// Runs about two thirds of a work's jobs.
    fn compute(&mut self, work: &mut Work) {
        let mut left = Vec::new();
        for index in 0..work.jobs.len() {
            if work.jobs[index].status == JobStatus::Pending && self.below(3) == 0 {
                // Jobs that are not pending must be left alone.
                work.jobs[index].status = JobStatus::Malformed;
                left.push(index);
            }
        }
        self.done.computed_jobs.fetch_add(work.pending() as u64, Relaxed);
        self.done.pending_jobs.fetch_add(left.len() as u64, Relaxed);
        self.software.run(work);
        left.into_iter().for_each(|index| work.jobs[index].status = JobStatus::Pending);
    }
}

impl Queue for LateQueue {
    fn submit(&mut self, from: &mut VecDeque<Work>) -> usize {
        let (offered, mut taken) = (from.len(), 0);
        while self.held.len() < self.depth && self.below(4) > 0 {
            let Some(work) = from.pop_front() else { break };
            note_nonces(self.maker, &work, &self.done);
            self.submitted += 1;
            let (number, looks) = (self.submitted, self.below(6));
            self.held.push(Held { work, number, looks });
            taken += 1;
        }
        self.done.refusals.fetch_add(u64::from(taken < offered), Relaxed);
        taken
    }

    fn finished(&mut self) -> Option<Work> {
        self.held.iter_mut().for_each(|held| held.looks = held.looks.saturating_sub(1));
        let which = (!self.held.is_empty()).then(|| self.below(self.held.len() as u64) as usize)?;
        if self.held[which].looks > 0 {
            return None;
        }
        let Held { mut work, number, .. } = self.held.swap_remove(which);
        let overtakes = self.held.iter().any(|held| held.number < number);
        self.done.overtaking_works.fetch_add(u64::from(overtakes), Relaxed);
        self.compute(&mut work);
        if self.below(8) == 0 {
            // A second answer for a work must be ignored.
            let again = Work { token: work.token, ..Work::default() };
            self.held.push(Held { work: again, number, looks: 3 });
        }
        Some(work)
    }

    fn in_flight(&self) -> usize {
        self.held.len()
    }

    fn fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.bell.as_fd())
    }
}

/// The texts that a session's nonces protect.
type Texts = Mutex<HashMap<[u8; 16], u64>>;

fn note_nonces(maker: Maker, work: &Work, done: &Done) {
    if work.direction != Direction::Seal {
        return;
    }
    for job in work.jobs.iter().filter(|job| job.status == JobStatus::Pending) {
        let Some(session) = work.sessions.get(usize::from(job.session)) else { continue };
        if !takes_a_nonce(session) {
            continue;
        }
        let text = text(work, job);
        let texts = session.made(maker, |_| Texts::default());
        let before = texts.lock().unwrap().insert(job.iv, text);
        done.nonces.fetch_add(u64::from(before.is_none()), Relaxed);
        assert!(
            before.is_none_or(|before| before == text),
            "a nonce protects two texts: {}",
            Shown(session, job)
        );
    }
}

/// Returns whether the sealed bytes are the text combined with a stream derived from key and nonce.
fn takes_a_nonce(session: &Session) -> bool {
    match session.protection() {
        Protection::Aead(_) | Protection::ShortAead { .. } => true,
        Protection::Cipher(cipher) | Protection::EncryptThenMac { cipher, .. } => {
            let facts = cipher.facts();
            facts.iv_bytes > 0 && !facts.chained
        }
        Protection::Null | Protection::Mac { .. } | Protection::ChainsThenMac { .. } => false,
    }
}

fn text(work: &Work, job: &Job) -> u64 {
    let mut hasher = DefaultHasher::new();
    for span in [job.clear, job.body] {
        work.buffer.bytes()[span.range()].hash(&mut hasher);
    }
    job.suffix.bytes().hash(&mut hasher);
    hasher.finish()
}

struct Shown<'a>(&'a Session, &'a Job);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} {:?}", self.0, self.1)
    }
}

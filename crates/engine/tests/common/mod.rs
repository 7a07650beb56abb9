//! Engines, sessions of every protection, and works of random jobs to run on them.

#![allow(dead_code, reason = "each test file uses its part of it")]

pub(crate) mod definition;

use std::{
    collections::{BTreeSet, VecDeque},
    num::NonZeroUsize,
    sync::Arc,
};

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};
use rustix::event::{PollFd, PollFlags, poll};
use sealane_engine::{
    Buffer, Direction, Engine, Implementations, Inline, Job, JobStatus, Lanes, Mac, Policy, Protection,
    Provider, Queue, Scheduler, Session, Span, Submitter, Suffix, Work,
};
use sealane_lanes::Clock;
use sealane_transform::{Aead, AeadLengths, BlockCipher, Cipher, Digest, Isa, Kernels, Mode, Tier};

/// Returns all implementations that can run a session on this machine.
pub(crate) fn implementations() -> Vec<Implementations> {
    let mut all = vec![
        Implementations::default(),
        Implementations { aead: Some(Provider::AwsLc), ..Implementations::default() },
    ];
    for isa in Isa::ALL.into_iter().filter(|&isa| isa <= Kernels::best().isa()) {
        for tier in Tier::ALL.map(Some).into_iter().chain([None]) {
            let kernels = Kernels::select(tier, Some(isa)).unwrap();
            all.push(Implementations { kernels, aead: Some(Provider::Sealane) });
        }
        // The default selects the cheaper provider, call by call.
        all.push(Kernels::select(None, Some(isa)).unwrap().into());
    }
    all
}

pub(crate) fn engines() -> [Box<dyn Engine>; 3] {
    let two = NonZeroUsize::new(2).unwrap();
    let lanes = || Lanes::new(Kernels::best(), two, two).unwrap();
    let both: Vec<Arc<dyn Engine>> = vec![Arc::new(Inline::default()), Arc::new(lanes())];
    [
        Box::new(Inline::default()),
        Box::new(lanes()),
        Box::new(Scheduler::new(Policy::RoundRobin, both, Clock::Real)),
    ]
}

/// Asserts that each work comes back from `engine` once, with its note, and with the result of the inline engine.
pub(crate) fn every_work_comes_back_done(engine: &dyn Engine) {
    const WORKS: u64 = 60;
    let sessions: Vec<_> = protections()
        .into_iter()
        .map(|protection| session(Implementations::default(), protection, 3))
        .collect();
    let work_of = |number: u64| random_work(&sessions, 20, 100, number);
    for depth in [1, 3] {
        let mut submitter = Submitter::new(engine.queue(NonZeroUsize::new(depth).unwrap()).unwrap(), depth);
        let mut missing: BTreeSet<u64> = (0..WORKS).collect();
        (0..WORKS).for_each(|number| submitter.submit(work_of(number), number));
        assert_eq!(submitter.in_hand(), WORKS as usize);
        while let Some((work, number)) = submitter.wait() {
            assert!(missing.remove(&number), "{number} came twice from {}", engine.name());
            let whole = run(&Inline::default(), work_of(number));
            assert_eq!(work.jobs, whole.jobs);
            assert!(work.buffer.bytes() == whole.buffer.bytes(), "{number} from {}", engine.name());
        }
        assert_eq!((missing.len(), submitter.in_hand()), (0, 0), "{}", engine.name());
        assert!(submitter.fd().is_none(), "nothing is waited for");
    }
}

/// Asserts that a queue of `engine` takes no more works than its depth, and hands back all of many.
pub(crate) fn no_more_than_its_depth_is_held(engine: &dyn Engine) {
    let mut queue = engine.queue(NonZeroUsize::new(3).unwrap()).unwrap();
    let mut waiting: VecDeque<Work> = (0..50)
        .map(|index| {
            random_work(&[session(Implementations::default(), ESP_CBC, 1)], 4, 100 + index, index.into())
        })
        .collect();
    let mut finished = 0;
    while finished < 50 {
        queue.submit(&mut waiting);
        assert!(queue.in_flight() <= 3);
        assert!(waiting.len() + queue.in_flight() + finished == 50);
        while let Some(work) = queue.finished() {
            assert_eq!(work.pending(), 0);
            finished += 1;
        }
        if let Some(fd) = queue.fd().filter(|_| finished < 50 && queue.in_flight() > 0) {
            poll(&mut [PollFd::new(&fd, PollFlags::IN)], None).unwrap();
        }
    }
    assert!(queue.finished().is_none());
}

pub(crate) const AES_CBC: Cipher = Cipher::Block(BlockCipher::Aes128, Mode::Cbc);
pub(crate) const AES_CTR: Cipher = Cipher::Block(BlockCipher::Aes128, Mode::Ctr);
pub(crate) const SHA256_128: Protection =
    Protection::Mac { mac: Mac::Digest(Digest::HmacSha256), tag_bytes: 16 };
pub(crate) const ESP_CBC: Protection =
    Protection::EncryptThenMac { cipher: AES_CBC, mac: Mac::Digest(Digest::HmacSha256), tag_bytes: 16 };

fn ciphers() -> Vec<Cipher> {
    let block = |cipher| Mode::ALL.map(|mode| Cipher::Block(cipher, mode));
    [Cipher::Null, Cipher::Rc4, Cipher::Seal3]
        .into_iter()
        .chain(BlockCipher::ALL.into_iter().flat_map(block))
        .collect()
}

fn macs() -> Vec<Mac> {
    let digests = Digest::ALL.into_iter().filter(|digest| digest.output_bytes() > 0).map(Mac::Digest);
    digests.chain([Mac::KeyedBlake3]).collect()
}

/// Returns all ciphers, AEADs and MACs, and each cipher combined with a MAC.
pub(crate) fn protections() -> Vec<Protection> {
    let mut all = vec![Protection::Null];
    all.extend(Aead::ALL.map(Protection::Aead));
    let short = [(Aead::Aes128Ccm, 8), (Aead::Aes128Ccm, 16), (Aead::Aes256Ccm, 12)];
    all.extend(short.map(|(aead, tag_bytes)| Protection::ShortAead {
        aead,
        lengths: AeadLengths { nonce_bytes: 11, tag_bytes },
    }));
    let macs = macs();
    for (index, cipher) in ciphers().into_iter().enumerate() {
        let mac = macs[index % macs.len()];
        all.push(Protection::Cipher(cipher));
        all.push(Protection::EncryptThenMac { cipher, mac, tag_bytes: mac.output_bytes().min(12) as u8 });
    }
    for mac in macs {
        all.push(Protection::Mac { mac, tag_bytes: mac.output_bytes() as u8 });
        all.push(Protection::Mac { mac, tag_bytes: mac.output_bytes().div_ceil(2) as u8 });
    }
    for cipher in [BlockCipher::TripleDes, BlockCipher::Aes256] {
        let mac = Mac::Digest(Digest::HmacSha1);
        all.push(Protection::ChainsThenMac { cipher, chain_bytes: 64, mac, tag_bytes: 20 });
    }
    all
}

fn material(protection: Protection, seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed | 1);
    (0..protection.key_bytes()).map(|_| random.below(256) as u8).collect()
}

pub(crate) fn session(implementations: Implementations, protection: Protection, seed: u64) -> Arc<Session> {
    Arc::new(Session::with(implementations, protection, &material(protection, seed)).unwrap())
}

/// Pseudo-random numbers from a seed, the same on all machines.
pub(crate) struct Random(SplitMix64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(SplitMix64::seed_from_u64(seed))
    }

    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        (self.0.next_u64() % u64::from(bound)) as u32
    }
}

/// Returns jobs of the sessions in turn, with their parts in any order, with gaps, in random bytes; listed in random
/// order.
pub(crate) fn random_work(sessions: &[Arc<Session>], count: u32, longest: u32, seed: u64) -> Work {
    let mut random = Random::new(seed);
    let mut at = 0;
    let mut jobs = Vec::new();
    for index in 0..count {
        let session = (index as usize % sessions.len()) as u16;
        let protection = sessions[usize::from(session)].protection();
        let granule = protection.granule_bytes() as u32;
        let (tag_bytes, body_bytes) =
            (protection.tag_bytes() as u32, random.below(longest / granule + 1) * granule);
        let mut job = Job { session, ..Job::default() };
        job.iv = std::array::from_fn(|_| random.below(256) as u8);
        job.suffix = Suffix::new(&job.iv[..random.below(3) as usize * 4]).unwrap();
        let mut lay = |bytes: u32| {
            let span = Span::new(at, bytes);
            at += bytes;
            span
        };
        match random.below(4) {
            // The layout of ESP.
            0 | 1 => (job.clear, job.body, job.tag) = (lay(8), lay(body_bytes), lay(tag_bytes)),
            2 => {
                // The layout of AH, with a body.
                job.clear = lay(24 + tag_bytes + 40);
                job.tag = Span::new(job.clear.start + 24, tag_bytes);
                job.body = lay(body_bytes);
            }
            _ => {
                job.tag = lay(tag_bytes);
                lay(3);
                job.body = lay(body_bytes);
                lay(5);
                job.clear = lay(13);
            }
        }
        at += random.below(20);
        jobs.push(job);
    }
    for index in (1..jobs.len()).rev() {
        jobs.swap(index, random.below(index as u32 + 1) as usize);
    }
    let mut buffer = Buffer::new(at as usize);
    buffer.bytes_mut().fill_with(|| random.below(256) as u8);
    Work { buffer, sessions: sessions.to_vec(), jobs, ..Work::default() }
}

pub(crate) fn run(engine: &dyn Engine, work: Work) -> Work {
    let mut queue = engine.queue(NonZeroUsize::MIN).unwrap();
    run_on(&mut *queue, work)
}

pub(crate) fn run_on(queue: &mut dyn Queue, work: Work) -> Work {
    let mut waiting = VecDeque::from([work]);
    loop {
        queue.submit(&mut waiting);
        if let Some(work) = queue.finished() {
            return work;
        }
        let fd = queue.fd().expect("who finishes later has a bell");
        poll(&mut [PollFd::new(&fd, PollFlags::IN)], None).unwrap();
    }
}

pub(crate) fn copy_of(work: &Work) -> Work {
    let mut buffer = Buffer::new(work.buffer.capacity_bytes());
    buffer.bytes_mut().copy_from_slice(work.buffer.bytes());
    let (sessions, jobs) = (work.sessions.clone(), work.jobs.clone());
    Work { buffer, sessions, jobs, direction: work.direction, token: work.token }
}

pub(crate) fn turned(mut work: Work) -> Work {
    work.direction = Direction::Open;
    work.jobs.iter_mut().for_each(|job| job.status = JobStatus::Pending);
    work
}

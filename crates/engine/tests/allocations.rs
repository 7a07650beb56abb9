//! In steady state an engine allocates nothing, and neither does `cp`'s layer on it: counted by the allocator of this
//! test's own process.

#[path = "../../../testing/allocations.rs"]
mod allocations;

use std::{collections::VecDeque, num::NonZeroUsize, sync::Arc};

use sealane_engine::{
    Buffer, Direction, Engine, Inline, Job, JobStatus, Lanes, Mac, Protection, Queue, Session, Span, Suffix,
    Suite, Work, record,
};
use sealane_transform::{Aead, BlockCipher, Cipher, Digest, Kernels, Mode};

const ROOM: u32 = 1600;

fn work() -> Work {
    let cipher = Cipher::Block(BlockCipher::Aes128, Mode::Cbc);
    let mac = Mac::Digest(Digest::HmacSha256);
    let protections = [
        Protection::Aead(Aead::Aes128Gcm),
        Protection::EncryptThenMac { cipher, mac, tag_bytes: 16 },
        Protection::Mac { mac: Mac::Digest(Digest::HmacSha1), tag_bytes: 12 },
        Protection::Mac { mac: Mac::KeyedBlake3, tag_bytes: 16 },
    ];
    let mut work = Work { buffer: Buffer::new(256 * ROOM as usize), ..Work::default() };
    for protection in protections {
        let material = vec![7; protection.key_bytes()];
        work.sessions.push(Arc::new(Session::with(Kernels::best(), protection, &material).unwrap()));
    }
    for index in 0..256u32 {
        let session = (index % 4) as u16;
        let tag_bytes = work.sessions[usize::from(session)].protection().tag_bytes() as u32;
        let start = ROOM * index;
        let (clear, body) = (Span::new(start, 16), Span::new(start + 16, 1440));
        // Every other tag lies apart, which takes staging if there is a suffix.
        let tag = Span::new(body.end() as u32 + index % 2, tag_bytes);
        work.jobs.push(Job { session, clear, body, tag, suffix: Suffix::from([1; 4]), ..Job::default() });
    }
    work
}

/// Seals and opens in turn.
fn turn(queue: &mut dyn Queue, waiting: &mut VecDeque<Work>) {
    queue.submit(waiting);
    let mut work = loop {
        if let Some(work) = queue.finished() {
            break work;
        }
        std::thread::yield_now();
    };
    for job in &mut work.jobs {
        assert_eq!(job.status, JobStatus::Done);
        job.status = JobStatus::Pending;
    }
    work.direction = match work.direction {
        Direction::Seal => Direction::Open,
        Direction::Open => Direction::Seal,
    };
    waiting.push_back(work);
}

fn engines() {
    let one = NonZeroUsize::MIN;
    let engines: [Box<dyn Engine>; 2] =
        [Box::new(Inline::default()), Box::new(Lanes::new(Kernels::best(), one, one).unwrap())];
    for engine in engines {
        let mut queue = engine.queue(one).unwrap();
        let mut waiting = VecDeque::from([work()]);
        for _ in 0..10 {
            turn(&mut *queue, &mut waiting);
        }
        let before = allocations::count();
        for _ in 0..50 {
            turn(&mut *queue, &mut waiting);
        }
        assert_eq!(allocations::count() - before, 0, "{}", engine.name());
    }
}

/// Records of `cp`, sealed and opened in turn.
fn records() {
    const HEADER_BYTES: usize = 16;
    const BODY_BYTES: usize = 4096;
    for suite in Suite::ALL {
        let material = vec![7; suite.key_bytes()];
        let session = Arc::new(record::Session::new(Kernels::best(), suite, &material).unwrap());
        let record_bytes = HEADER_BYTES + BODY_BYTES + suite.expansion_bytes(BODY_BYTES);
        let job = |index: usize| record::Job {
            session: session.clone(),
            offset: record_bytes * index,
            header_bytes: HEADER_BYTES,
            body_bytes: BODY_BYTES,
            sequence: index as u64,
            status: record::JobStatus::Pending,
        };
        let jobs = (0..8).map(job).collect();
        let buffer = Buffer::new(8 * record_bytes);
        let mut batch = record::Batch { buffer, jobs, direction: Direction::Seal, ticket: 0 };
        let mut runner = record::Runner::default();
        let mut turns = |count: usize| {
            for direction in [Direction::Seal, Direction::Open].into_iter().cycle().take(2 * count) {
                batch.direction = direction;
                assert_eq!(runner.run(&mut batch), 0, "{suite}");
                for job in &mut batch.jobs {
                    let record::JobStatus::Done { body_bytes } = job.status else {
                        unreachable!("none failed")
                    };
                    (job.body_bytes, job.status) = (body_bytes, record::JobStatus::Pending);
                }
            }
        };
        turns(5);
        let before = allocations::count();
        turns(20);
        assert_eq!(allocations::count() - before, 0, "{suite}");
    }
}

/// One test, because all of a process is counted.
#[test]
fn nothing_is_allocated_in_steady_state() {
    engines();
    records();
}

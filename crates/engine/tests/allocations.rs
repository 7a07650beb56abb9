//! In steady state neither an engine nor the record layer of `cp` on it allocates memory, which the allocator of this
//! test's process counts.

#[path = "../../../testing/allocations.rs"]
mod allocations;

use std::{num::NonZeroUsize, sync::Arc};

use sealane_engine::{
    Buffer, Direction, Engine, Inline, Job, JobStatus, Lanes, Mac, Protection, Session, Span, Submitter,
    Suffix, Suite, Work,
    record::{self, Record},
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
        // Every other tag is not adjacent, which requires staging if there is a suffix.
        let tag = Span::new(body.end() as u32 + index % 2, tag_bytes);
        work.jobs.push(Job { session, clear, body, tag, suffix: Suffix::from([1; 4]), ..Job::default() });
    }
    work
}

/// Seals and opens in turn.
fn turn(submitter: &mut Submitter<u64>, mut work: Work) -> Work {
    submitter.submit(work, 7);
    (work, _) = submitter.wait().unwrap();
    for job in &mut work.jobs {
        assert_eq!(job.status, JobStatus::Done);
        job.status = JobStatus::Pending;
    }
    work.direction = match work.direction {
        Direction::Seal => Direction::Open,
        Direction::Open => Direction::Seal,
    };
    work
}

fn engines() {
    let one = NonZeroUsize::MIN;
    let engines: [Box<dyn Engine>; 2] =
        [Box::new(Inline::default()), Box::new(Lanes::new(Kernels::best(), one, one).unwrap())];
    for engine in engines {
        let mut submitter = Submitter::new(engine.queue(one).unwrap(), 1);
        let mut work = work();
        for _ in 0..10 {
            work = turn(&mut submitter, work);
        }
        let before = allocations::count();
        for _ in 0..50 {
            work = turn(&mut submitter, work);
        }
        assert_eq!(allocations::count() - before, 0, "{}", engine.name());
    }
}

/// Seals and opens records of `cp` in turn.
fn records() {
    const HEADER_BYTES: usize = 16;
    const BODY_BYTES: usize = 4096;
    let mut submitter = Submitter::<()>::new(Inline::default().queue(NonZeroUsize::MIN).unwrap(), 1);
    for suite in Suite::ALL {
        let material = vec![7; suite.key_bytes()];
        let session = record::SuiteKeys::new(Kernels::best(), suite, &material).unwrap();
        let sealed_bytes = BODY_BYTES + suite.expansion_bytes(BODY_BYTES);
        let record = |index: u64, body_bytes: usize| Record {
            offset: (HEADER_BYTES + sealed_bytes) * index as usize,
            header_bytes: HEADER_BYTES,
            body_bytes,
            sequence: index,
        };
        let mut work = Work { buffer: Buffer::new(8 * (HEADER_BYTES + sealed_bytes)), ..Work::default() };
        let mut turns = |count: usize| {
            for direction in [Direction::Seal, Direction::Open].into_iter().cycle().take(2 * count) {
                work.direction = direction;
                work.jobs.clear();
                work.sessions.clear();
                let is_open = direction == Direction::Open;
                let body_bytes = if is_open { sealed_bytes } else { BODY_BYTES };
                (0..8).for_each(|index| session.lay(&mut work, &record(index, body_bytes)).unwrap());
                submitter.run(&mut work);
                for index in 0..8 {
                    assert_eq!(work.jobs[index].status, JobStatus::Done, "{suite}");
                    let opened = suite.opened(&work, index, &record(index as u64, sealed_bytes));
                    assert!(!is_open || opened.is_some_and(|body| body.len() == BODY_BYTES), "{suite}");
                }
            }
        };
        turns(5);
        let before = allocations::count();
        turns(20);
        assert_eq!(allocations::count() - before, 0, "{suite}");
    }
}

/// There is only one test, because the allocations of the whole process are counted.
#[test]
fn nothing_is_allocated_in_steady_state() {
    engines();
    records();
}

//! In steady state an engine allocates nothing: counted by the allocator of this test's own process.

#[path = "../../../testing/allocations.rs"]
mod allocations;

use std::{collections::VecDeque, num::NonZeroUsize, sync::Arc};

use sealane_engine::{
    Buffer, Direction, Engine, Inline, Job, JobStatus, Lanes, Mac, Protection, Queue, Session, Span, Suffix,
    Work,
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

#[test]
fn nothing_is_allocated_in_steady_state() {
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

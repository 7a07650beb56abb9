//! Prints the costs of jobs at the inline engine on this machine: nanoseconds per job and per byte, with 32 jobs at a
//! time, and nanoseconds of one job alone.

use std::{collections::VecDeque, num::NonZeroUsize, sync::Arc, time::Instant};

use sealane_engine::{Buffer, Engine, Inline, Job, Mac, Protection, Session, Span, Work};
use sealane_transform::{Aead, BlockCipher, Cipher, Digest, Kernels, Mode};

fn main() {
    let (cipher, mac) = (Cipher::Block(BlockCipher::Aes128, Mode::Cbc), Mac::Digest(Digest::HmacSha256));
    let protections = [
        ("null", Protection::Null),
        ("aes-128-gcm", Protection::Aead(Aead::Aes128Gcm)),
        ("chacha20-poly1305", Protection::Aead(Aead::ChaCha20Poly1305)),
        ("aes-128-cbc + hmac-sha256-128", Protection::EncryptThenMac { cipher, mac, tag_bytes: 16 }),
        ("hmac-sha256-128", Protection::Mac { mac, tag_bytes: 16 }),
        ("blake3", Protection::Mac { mac: Mac::KeyedBlake3, tag_bytes: 16 }),
    ];
    let engine = Inline::default();
    println!("{:30} {:>9} {:>9} {:>12}", "", "ns a job", "ns a byte", "64 B alone");
    for (name, protection) in protections {
        let Some(cost) = engine.cost(protection) else { continue };
        println!(
            "{name:30} {:9.1} {:9.3} {:12.1}",
            cost.fixed_ns,
            cost.byte_ns,
            alone_ns(&engine, protection)
        );
    }
}

/// Returns the nanoseconds of one job of 64 bytes in a separate work.
fn alone_ns(engine: &Inline, protection: Protection) -> f64 {
    const TIMES: u32 = 10_000;
    let session =
        Session::with(Kernels::best(), protection, &vec![1; protection.key_bytes()]).expect("its length");
    let (body, tag) = (Span::new(0, 64), Span::new(64, protection.tag_bytes() as u32));
    let job = Job { body, tag, ..Job::default() };
    let work = Work {
        buffer: Buffer::new(192),
        sessions: vec![Arc::new(session)],
        jobs: vec![job],
        ..Work::default()
    };
    let mut queue = engine.queue(NonZeroUsize::MIN).expect("nothing of the system is taken");
    let mut waiting = VecDeque::from([work]);
    let start = Instant::now();
    for _ in 0..TIMES {
        queue.submit(&mut waiting);
        let mut work = queue.finished().expect("all is finished at once");
        work.jobs[0] = job;
        waiting.push_back(work);
    }
    start.elapsed().as_nanos() as f64 / f64::from(TIMES)
}

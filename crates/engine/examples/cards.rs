//! Studies of accelerators; each makes a part of the output:
//!
//! - `table`: threads that wait for one job each at one to four simulated cards in virtual time, beside the values
//!   that Keromytis, Wright and de Raadt published for one card ("The design of the OpenBSD cryptographic framework",
//!   2003, table 1);
//! - `curve`: Mb/s by job length of the card, the calling lane and worker lanes, by this machine's clock, with triple
//!   DES and with AES-128-GCM (Miltchev, Ioannidis and Keromytis, 2002, figure 1);
//! - `crossover`: the job length at which a hybrid of a card and a processor of its time changes from one to the
//!   other, in virtual time;
//! - `fail-over`: the jobs per millisecond while a card hangs, in virtual time.
//!
//! Run it with `cargo run --release -p sealane-engine --example cards [PART…]`; without arguments it prints all
//! parts.

#[path = "../../../testing/cards.rs"]
mod cards;

use std::{
    collections::VecDeque,
    num::{NonZeroU32, NonZeroUsize},
    sync::Arc,
    time::{Duration, Instant},
};

use cards::{World, job, rate, turn};
use sealane_engine::{
    Buffer, Condition, Cost, EngineChoice, Implementations, Job, JobStatus, Policy, Protection, Session,
    Span, Submitter, Timing, Trust, Work,
};
use sealane_transform::{Aead, BlockCipher, Cipher, Mode};

/// Results are compared with software so rarely that the comparison takes no time.
const RARELY: Trust = Trust::Checked { one_in: NonZeroU32::MAX };
const CARD: (Timing, Option<u64>, Trust) = (Timing::FOUR_HIFN_7751, None, RARELY);
/// Triple DES on a processor of the card's time: about 27 Mb/s.
const PROCESSOR: Timing = Timing::processor(Cost { fixed_ns: 3_000.0, byte_ns: 300.0 });

fn main() {
    let parts: [(&str, fn()); 4] =
        [("table", table), ("curve", curve), ("crossover", crossover), ("fail-over", fail_over)];
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    for (name, part) in parts {
        if wanted.is_empty() || wanted.iter().any(|wanted| wanted == name) {
            println!("# {name}");
            part();
        }
    }
}

fn megabits(jobs_per_second: f64, bytes: u32) -> f64 {
    jobs_per_second * f64::from(bytes) * 8e-6
}

fn table() {
    const BYTES: [u32; 6] = [16, 64, 256, 1024, 8192, 16384];
    const PUBLISHED: [(usize, [f64; 6]); 5] = [
        (1, [3.06, 11.45, 33.15, 59.49, 79.19, 80.75]),
        (2, [5.53, 18.40, 56.07, 111.60, 154.18, 160.02]),
        (3, [6.44, 23.25, 71.31, 152.28, 229.60, 238.24]),
        (4, [6.83, 25.77, 80.91, 182.65, 292.15, 299.33]),
        (32, [7.37, 27.51, 94.05, 249.17, 313.79, 320.19]),
    ];
    for cards in 1..=4 {
        println!("{cards} cards, Mb/s by threads and bytes{}", if cards == 1 { ", and off by" } else { "" });
        println!("{:>7} {}", "", BYTES.map(|bytes| format!("{bytes:>16}")).concat());
        for (threads, published) in PUBLISHED {
            let cells = BYTES.into_iter().zip(published).map(|(bytes, published)| {
                let world = World::new(Policy::LeastExpected, &vec![CARD; cards], false);
                let found = megabits(rate(&world, threads, bytes, 2000), bytes);
                let off = 100.0 * (found / published - 1.0);
                if cards == 1 { format!("{found:9.2} {off:+5.1}%") } else { format!("{found:16.2}") }
            });
            println!("{threads:>7} {}", cells.collect::<Vec<_>>().concat());
        }
    }
}

/// The number of works under way at a time.
const DEPTH: NonZeroUsize = NonZeroUsize::new(32).unwrap();

fn curve() {
    const BYTES: [u32; 10] = [64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768];
    let triple_des = Protection::Cipher(Cipher::Block(BlockCipher::TripleDes, Mode::Cbc));
    for (name, protection) in [("3des-cbc", triple_des), ("aes-128-gcm", Protection::Aead(Aead::Aes128Gcm))] {
        println!("{name}: Mb/s with {DEPTH} works of one job under way");
        println!("{:>24} {}", "", BYTES.map(|bytes| format!("{bytes:>9}")).concat());
        for engine in ["card", "inline", "lanes", "lanes:2:50", "hybrid:card,inline"] {
            let cells = BYTES.map(|bytes| format!("{:9.1}", real_megabits(engine, protection, bytes)));
            println!("{engine:>24} {}", cells.concat());
        }
    }
}

/// Returns the Mb/s of one lane that keeps [`DEPTH`] works under way, by the system's clock.
fn real_megabits(engine: &str, protection: Protection, bytes: u32) -> f64 {
    const TIME: Duration = Duration::from_millis(300);
    let choice: EngineChoice = engine.parse().expect("a text of an engine");
    let engine = choice.make(Implementations::default()).expect("threads");
    let material = vec![7; protection.key_bytes()];
    let session =
        Arc::new(Session::with(Implementations::default(), protection, &material).expect("its length"));
    let tag_bytes = protection.tag_bytes() as u32;
    let (body, tag) = (Span::new(0, bytes), Span::new(bytes, tag_bytes));
    let job = Job { body, tag, ..Job::default() };
    let mut submitter = Submitter::new(engine.queue(DEPTH).expect("descriptors"), DEPTH.get());
    for _ in 0..DEPTH.get() {
        let buffer = Buffer::new((bytes + tag_bytes) as usize);
        let sessions = vec![Arc::clone(&session)];
        submitter.submit(Work { buffer, sessions, jobs: vec![job], ..Work::default() }, ());
    }
    let (start, mut jobs) = (Instant::now(), 0u64);
    while start.elapsed() < TIME {
        let Some((mut work, ())) = submitter.wait() else { break };
        assert_eq!(work.jobs[0].status, JobStatus::Done);
        work.jobs[0] = job;
        submitter.submit(work, ());
        jobs += 1;
    }
    megabits(jobs as f64 / start.elapsed().as_secs_f64(), bytes)
}

fn crossover() {
    let processor = (PROCESSOR, None, Trust::Full);
    for clients in [1, 4, 32] {
        println!(
            "{clients} threads, Mb/s: card, processor, hybrid; the processor's part of the hybrid's jobs"
        );
        for bytes in [16, 64, 128, 160, 176, 192, 256, 512, 1024, 4096, 16384] {
            let alone = [CARD, processor].map(|engine| {
                megabits(
                    rate(&World::new(Policy::LeastExpected, &[engine], false), clients, bytes, 1000),
                    bytes,
                )
            });
            let world = World::new(Policy::LeastExpected, &[CARD, processor], false);
            let both = megabits(rate(&world, clients, bytes, 1000), bytes);
            let [card, processor] = [0, 1].map(|index: usize| world.reports()[index].answered_works as f64);
            let part = 100.0 * processor / (card + processor);
            println!("{bytes:>7} {:9.2} {:9.2} {both:9.2} {part:5.1} %", alone[0], alone[1]);
        }
    }
}

fn fail_over() {
    const MILLISECOND: Duration = Duration::from_millis(1);
    let world = World::new(Policy::LeastExpected, &[CARD, (PROCESSOR, None, Trust::Full)], false);
    let mut clients: Vec<_> = (0..8)
        .map(|_| (world.scheduler.door(NonZeroUsize::MIN).expect("descriptors"), VecDeque::from([job(1024)])))
        .collect();
    println!("8 threads, 1,024 bytes; the card hangs from 40 to 120 ms. Jobs in each 4 ms:");
    for slice in 0..60 {
        match slice {
            10 => world.cards[0].set(Condition::Hung),
            30 => world.cards[0].set(Condition::Sound),
            _ => {}
        }
        let (end, mut done) = (4 * (slice + 1) * MILLISECOND, 0);
        while world.passed() < end {
            done += turn(&world, &mut clients);
        }
        let state = if world.reports()[0].is_used { "" } else { " (card not used)" };
        println!("{:>5} ms {done:>5}{state}", 4 * slice);
    }
}

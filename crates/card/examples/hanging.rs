//! The jobs per millisecond while a simulated card hangs, in virtual time. `sealane lab cards` has the other studies of
//! accelerators.
//!
//! Run it with `cargo run --release -p sealane-card --example hanging`.

#[path = "../tests/world/mod.rs"]
mod world;

use std::{
    collections::VecDeque,
    num::{NonZeroU32, NonZeroUsize},
    time::Duration,
};

use sealane_card::{Condition, Timing};
use sealane_engine::{Cost, Policy, Trust};
use world::{World, job, turn};

/// Results are compared with software so rarely that the comparison takes no time.
const RARELY: Trust = Trust::Checked { one_in: NonZeroU32::MAX };
const CARD: (Timing, Option<u64>, Trust) = (Timing::FOUR_HIFN_7751, None, RARELY);
/// Triple DES on a processor of the card's time: about 27 Mb/s.
const PROCESSOR: Timing = Timing::processor(Cost { fixed_ns: 3_000.0, byte_ns: 300.0 });

fn main() {
    const MILLISECOND: Duration = Duration::from_millis(1);
    let world = World::new(Policy::LeastExpected, &[CARD, (PROCESSOR, None, Trust::Full)], false);
    let mut clients: Vec<_> = (0..8)
        .map(|_| {
            (
                world.scheduler.timed_queue(NonZeroUsize::MIN).expect("descriptors"),
                VecDeque::from([job(1024)]),
            )
        })
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

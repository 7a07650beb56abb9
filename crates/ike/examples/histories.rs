//! Two ends over a network that loses 30 % of all datagrams, and repeats and reorders others. Each seed is a history
//! of rekeyings, deletions and probes. At the end both ends are up with the same keys, or down with a reason, and no
//! state is left over.
//!
//! ```sh
//! cargo run --release -p sealane-ike --example histories -- [SEEDS]   # 10,000 if none is named
//! ```

#[path = "../tests/common/mod.rs"]
mod common;

fn main() {
    let seeds: u64 = std::env::args().nth(1).map_or(10_000, |text| text.parse().expect("a number of seeds"));
    let threads = std::thread::available_parallelism().map_or(1, usize::from) as u64;
    let each = seeds.div_ceil(threads);
    let ups: u64 = std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|thread| {
                let seeds = thread * each..seeds.min((thread + 1) * each);
                scope.spawn(move || common::histories::histories(seeds, |_| 30))
            })
            .collect();
        running.into_iter().map(|thread| thread.join().expect("it holds for every seed")).sum()
    });
    println!("{seeds} histories: {ups} end with both ends up, the others down with a reason");
}

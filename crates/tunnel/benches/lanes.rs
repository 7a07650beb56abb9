//! Compares one association on two lanes with two tunnels of one lane each; only one end is measured, from memory to
//! memory.
//!
//! ```sh
//! cargo bench -p sealane-tunnel --bench lanes
//! ```
//!
//! Prints, for each suite and end, medians of packets per second over slices that alternate, the ratio of the one
//! association to the sum of two tunnels, and how far loads overtook each other on the way to the exit, where none
//! may be out of order.

use std::num::NonZeroUsize;

use sealane_engine::Implementations;
use sealane_transform::{Kernels, Tier};
use sealane_tunnel::in_memory::{Alone, LOAD_PACKETS, Receivers, Senders, Slice};

const ROUNDS: usize = 41;

fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[values.len() / 2]
}

fn compare(
    what: &str,
    mut one: impl FnMut() -> Slice,
    mut apart: impl FnMut() -> Slice,
    mut single: impl FnMut() -> Slice,
) {
    let rate = |slice: Slice| slice.packets as f64 / slice.seconds;
    let mut rates: [Vec<f64>; 3] = Default::default();
    let (mut depth, mut disordered) = (0, 0);
    for _ in 0..ROUNDS {
        let slice = one();
        depth = depth.max(slice.depth_loads);
        disordered += slice.disordered;
        rates[0].push(rate(slice));
        rates[1].push(rate(apart()));
        rates[2].push(rate(single()));
    }
    let [one, apart, single] = &mut rates;
    let mut ratios: Vec<f64> = one.iter().zip(apart.iter()).map(|(one, apart)| one / apart).collect();
    let ratio = median(&mut ratios);
    println!(
        "{what}: one association on two lanes {:.0} packets/s, two tunnels {:.0}, one lane {:.0}: {ratio:.2} of the two; \
         overtaken by {depth} loads of {LOAD_PACKETS} at most, {disordered} packets out of order at the exit",
        median(one),
        median(apart),
        median(single),
    );
}

fn main() {
    let lanes = std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
    if lanes < 2 {
        println!("one core: two lanes say nothing here");
    }
    let best = Implementations::default();
    let native = Kernels::select(Some(Tier::Native), None).map(Implementations::from).unwrap_or(best);
    for (name, tier, implementations, loads) in
        [("3des-cbc+hmac-sha1-96", "native", native, 16), ("aes-128-gcm", "best", best, 64)]
    {
        let suite = name.parse().expect("a suite");
        let tunnels = [3, 4, 5].map(|seed| Alone::new(suite, implementations, seed).expect("a suite of ESP"));
        let [mut one, mut apart, mut single] = [(&tunnels[..1], 2), (&tunnels[1..], 1), (&tunnels[..1], 1)]
            .map(|(of, lanes)| Senders::new(of, lanes));
        compare(
            &format!("send {name} {tier}"),
            || one.slice(loads),
            || apart.slice(loads),
            || single.slice(loads),
        );
        let tunnels =
            [3, 4, 5, 6].map(|seed| Alone::new(suite, implementations, seed).expect("a suite of ESP"));
        let [mut one, mut apart, mut single] = [(&tunnels[..1], 2), (&tunnels[1..3], 1), (&tunnels[3..], 1)]
            .map(|(of, lanes)| Receivers::new(of, lanes));
        compare(
            &format!("receive {name} {tier}"),
            || one.slice(loads),
            || apart.slice(loads),
            || single.slice(loads),
        );
    }
}

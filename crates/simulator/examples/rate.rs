//! Measures the simulator's speed: simulated cycles of a machine of eight engines of eight threads per second.
//!
//! Run it with `cargo run --release -p sealane-simulator --example rate`.

use sealane_simulator::{Machine, Optimisation, Parallelism, TEN, TracedKernel, lower, simulate};
use std::time::Instant;

const CYCLES: u64 = 4_000_000;
const SIZE: (u64, u64) = (8, 8);

fn main() {
    let machine = Machine::built_in("IXP2800").expect("built in");
    println!("IXP2800, 8 × 8: million cycles a second, and ns a reference, at level 0 and level 2");
    let (mut cycles, mut seconds) = (0, 0.0);
    for name in TEN {
        let work = TracedKernel::new(name).expect("one of ten");
        print!("{name:14}");
        for level in [Optimisation::Raw, Optimisation::Overlapped] {
            let program = lower(&work, &machine, level, SIZE, Parallelism::Flow);
            let start = Instant::now();
            let issued = simulate(&machine, &program, SIZE.0, SIZE.1, CYCLES).issued;
            let took = start.elapsed().as_secs_f64();
            (cycles, seconds) = (cycles + CYCLES, seconds + took);
            print!(" {:8.1} {:5.1}", CYCLES as f64 / took / 1e6, took * 1e9 / issued as f64);
        }
        println!();
    }
    println!("all            {:8.1}", cycles as f64 / seconds / 1e6);
}

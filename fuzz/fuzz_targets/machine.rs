//! Machine files: any text is an error, or a machine that reads back unchanged and can run.

#![no_main]

use libfuzzer_sys::fuzz_target;
use sealane_simulator::{Machine, Optimisation, Parallelism, TracedKernel, lower, simulate};
use std::sync::LazyLock;

static WORK: LazyLock<TracedKernel> = LazyLock::new(|| TracedKernel::new("aes").expect("one of the ten"));

fuzz_target!(|text: &str| {
    let Ok(machine) = Machine::parse(text) else { return };
    assert_eq!(Machine::parse(&machine.to_toml()).as_ref(), Ok(&machine));
    for level in Optimisation::ALL {
        let program = lower(&WORK, &machine, level, (2, 2), Parallelism::Flow);
        let found = simulate(&machine, &program, 2, 2, 2000);
        let served: u64 = found.channels.iter().flatten().map(|channel| channel.served).sum();
        assert_eq!(served, found.issued);
    }
});

//! Tests of micro-programs whose every cycle is computed by hand, and of the invariants of every simulation.

use proptest::prelude::*;
use sealane_simulator::*;

/// Returns a machine with round figures: DRAM reads take 100, writes 40, and a unit of 16 bytes takes 8 cycles of one
/// channel; a branch loses two.
fn machine() -> Machine {
    let memory = Memory {
        unit_bytes: 16,
        read_cycles: 100,
        write_cycles: 40,
        bus_mhz: 100,
        bus_bytes: 2,
        command_cycles: 0,
        channels: 1,
        interleave_bytes: 128,
        fifo: 16,
        capacity_bytes: 1 << 20,
    };
    Machine {
        mhz: 100,
        branch_cycles: 2,
        dram: memory,
        sram: memory,
        scratch: memory,
        ..Machine::built_in("IXP2800").unwrap()
    }
}

fn read(bytes: u16, slot: Option<u8>) -> Step {
    Step::Reference(Reference {
        memory: Shared::Dram,
        is_write: false,
        base: Base::Common,
        address: 0,
        bytes,
        slot,
    })
}

fn write(slot: Option<u8>) -> Step {
    let Step::Reference(one) = read(16, slot) else { unreachable!() };
    Step::Reference(Reference { is_write: true, ..one })
}

/// Runs the steps as a prologue, followed by one instruction after another, and returns the states of the engines when
/// all are past `cycles`.
fn states(machine: &Machine, prologue: Vec<Step>, engines: u64, threads: u64, cycles: u64) -> Vec<States> {
    let program = Program { prologue, steps: vec![Step::Run(1)], lap_bytes: 0, ..Program::default() };
    simulate(machine, &program, engines, threads, cycles).engines
}

fn of(executing: u64, aborted: u64, idle: u64) -> States {
    States { executing, aborted, idle }
}

#[test]
fn instructions_take_a_cycle_each() {
    assert_eq!(states(&machine(), vec![Step::Run(7)], 1, 1, 10), [of(10, 0, 0)]);
}

/// The read is issued in cycle 0 and complete at 100: one cycle executes, two are lost by the swap, 97 are idle.
#[test]
fn a_lone_read_waits_its_latency() {
    assert_eq!(states(&machine(), vec![read(16, None)], 1, 1, 110), [of(1 + 10, 2, 97)]);
}

#[test]
fn a_lone_write_waits_its_latency() {
    assert_eq!(states(&machine(), vec![write(None)], 1, 1, 50), [of(1 + 10, 2, 37)]);
}

/// Three further units follow the first, with 8 cycles each: complete at 124.
#[test]
fn a_burst_takes_the_first_units_latency_and_the_others_transfer() {
    assert_eq!(states(&machine(), vec![read(64, None)], 1, 1, 134), [of(1 + 10, 2, 121)]);
    // A part of a unit costs the same as a whole one.
    assert_eq!(states(&machine(), vec![read(8, None)], 1, 1, 110), [of(1 + 10, 2, 97)]);
}

#[test]
fn a_taken_branch_loses_its_penalty() {
    assert_eq!(states(&machine(), vec![Step::Run(1), Step::Abort(2), Step::Run(1)], 1, 1, 10), [of(8, 2, 0)]);
}

/// The wait begins at the use: 60 instructions run during the read. Cycle 0 issues, 1–60 run, 61–62 swap, and the
/// engine is idle to 100.
#[test]
fn a_thread_waits_at_the_first_use() {
    let steps = vec![read(16, Some(0)), Step::Run(60), Step::Await(0)];
    assert_eq!(states(&machine(), steps, 1, 1, 110), [of(61 + 10, 2, 37)]);
    // There is no wait for a complete reference.
    let steps = vec![read(16, Some(0)), Step::Run(120), Step::Await(0)];
    assert_eq!(states(&machine(), steps, 1, 1, 131), [of(131, 0, 0)]);
}

/// Two reads in a row share the channel: complete at 100, and at 8 + 100.
#[test]
fn references_of_one_thread_queue_in_the_channel() {
    let steps = vec![read(16, Some(0)), read(16, Some(1)), Step::Await(0), Step::Await(1)];
    // Cycles 0 and 1 issue, 2–3 swap, idle to 100; 100–101 swap, idle to 108.
    assert_eq!(states(&machine(), steps, 1, 1, 118), [of(2 + 10, 4, 96 + 6)]);
}

/// Thread 0 issues in 0 and loses 1–2; thread 1 issues in 3 and loses 4–5; idle to 100. Thread 0 continues for ever.
#[test]
fn threads_overlap_their_waits() {
    let found = states(&machine(), vec![read(16, None)], 1, 2, 110);
    assert_eq!(found, [of(2 + 10, 4, 94)]);
}

/// Both engines issue in cycle 0; the second's command starts at 8.
#[test]
fn engines_contend_for_a_channel_in_their_order() {
    let found = states(&machine(), vec![read(16, None)], 2, 1, 118);
    assert_eq!(found, [of(1 + 18, 2, 97), of(1 + 10, 2, 105)]);
}

#[test]
fn channels_serve_apart() {
    let mut machine = machine();
    machine.dram.channels = 2;
    let Step::Reference(one) = read(16, Some(1)) else { unreachable!() };
    let other = Step::Reference(Reference { address: 128, ..one });
    let steps = vec![read(16, Some(0)), other, Step::Await(0), Step::Await(1)];
    // The reads are complete at 100 and 101: the swap at the second wait takes until 102.
    assert_eq!(states(&machine, steps, 1, 1, 112), [of(2 + 10, 4, 96)]);
}

/// The FIFO has one place: the third command must wait until the second has started, at 8.
#[test]
fn a_full_fifo_holds_the_engine_up() {
    let mut machine = machine();
    machine.dram.fifo = 1;
    let steps = vec![read(16, Some(0)), read(16, Some(1)), read(16, Some(2))];
    // The commands are issued in 0, 1 (waits in the FIFO) and 8.
    assert_eq!(states(&machine, steps, 1, 1, 20), [of(2 + 1 + 11, 0, 6)]);
}

#[test]
fn a_program_that_takes_no_time_is_none() {
    let program = Program { steps: vec![Step::Await(0), Step::Done(8)], ..Program::default() };
    assert_eq!(simulate(&machine(), &program, 1, 1, 100), Outcome::default());
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let slot = prop::option::of(0..SLOTS as u8);
    let reference = (0..3usize, any::<bool>(), 0..4096u32, 1..=64u16, slot).prop_map(
        |(memory, is_write, address, bytes, slot)| {
            let base = [Base::Message, Base::Flow, Base::Common][address as usize % 3];
            Step::Reference(Reference { memory: Shared::ALL[memory], is_write, base, address, bytes, slot })
        },
    );
    let step = prop_oneof![
        (1..50u32).prop_map(Step::Run),
        (1..5u32).prop_map(Step::Abort),
        reference,
        (0..SLOTS as u8).prop_map(Step::Await),
        Just(Step::Done(8)),
    ];
    prop::collection::vec(step, 1..40)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// The states add up, issued commands are served, no channel is busy for longer than the time, and no more bytes
    /// are done than instructions and channels allow.
    #[test]
    fn nothing_is_lost(
        steps in steps(),
        engines in 1..9u64,
        threads in 1..9u64,
        fifo in 1..6u64,
        name in prop::sample::select(vec!["IXP1200", "IXP2400", "IXP2800"]),
    ) {
        const CYCLES: u64 = 5000;
        let mut machine = Machine::built_in(name).unwrap();
        machine.dram.fifo = fifo;
        let mut steps = steps;
        steps.push(Step::Run(1));
        let program = Program { steps: steps.clone(), lap_bytes: 64, ..Program::default() };
        let found = simulate(&machine, &program, engines, threads, CYCLES);
        prop_assert_eq!(found.engines.len() as u64, engines);
        for states in &found.engines {
            prop_assert!(states.total() >= CYCLES);
        }
        let channels = found.channels.iter().flatten();
        prop_assert_eq!(channels.clone().map(|channel| channel.served).sum::<u64>(), found.issued);
        for channel in channels {
            prop_assert!(channel.busy <= channel.until);
        }
        // A lap's instructions and its time in each memory bound the laps.
        let sum = |cost: &dyn Fn(&Step) -> u64| steps.iter().map(cost).sum::<u64>();
        let done = sum(&|step| if let Step::Done(bytes) = step { u64::from(*bytes) } else { 0 });
        let alu = sum(&|step| match step {
            Step::Run(cycles) => u64::from(*cycles),
            Step::Reference(_) => 1,
            _ => 0,
        });
        let laps = |cycles: u64, engines: u64, cost: u64| engines * cycles / cost.max(1) + 2 * engines * threads;
        prop_assert!(found.bytes <= done * laps(CYCLES, engines, alu), "{} bytes", found.bytes);
        for memory in Shared::ALL {
            let bank = machine.memory(memory);
            let busy = sum(&|step| match step {
                Step::Reference(one) if one.memory == memory => {
                    bank.occupancy_cycles(u64::from(one.bytes), machine.mhz)
                }
                _ => 0,
            });
            if let Some(laps) = (bank.channels * CYCLES).checked_div(busy) {
                let bound = laps + 2 * engines * threads + bank.channels;
                prop_assert!(found.bytes <= done * bound, "{memory:?}");
            }
        }
        // A second run gives the same result.
        prop_assert_eq!(found, simulate(&machine, &program, engines, threads, CYCLES));
    }

    /// Tests that any text is a machine or an error, and that a machine can run.
    #[test]
    fn any_text_is_a_machine_or_an_error(text in "\\PC{0,200}") {
        let _ = Machine::parse(&text);
    }
}

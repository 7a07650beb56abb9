//! Facts that neither the paper nor Intel's manual states, and the values tried for them.
//!
//! Guarantees: a variant of a guess changes that guess alone; combinations stand apart, as whoever chooses several values together can
//! reach many figures.

use crate::machine::{Home, Machine};
use serde::Serialize;

/// A value of one guess that differs from the machines' files.
#[derive(Clone, Copy, Debug)]
pub struct Variant {
    /// The guessed fact.
    pub guess: &'static str,
    /// Its value here.
    pub value: &'static str,
    /// Makes it so.
    pub apply: fn(&mut Machine),
}

/// A guess as a page lists it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Listed {
    /// The guessed fact.
    pub guess: &'static str,
    /// Its values on the IXP1200, 2400 and 2800.
    pub usual: [String; 3],
    /// The other values tried.
    pub tried: Vec<&'static str>,
}

const fn variant(guess: &'static str, value: &'static str, apply: fn(&mut Machine)) -> Variant {
    Variant { guess, value, apply }
}

const BRANCH: &str = "cycles lost by a taken branch or a swap";
const MULTIPLY: &str = "cycles of a multiplication, 16 and 32 bits (0: shift and add)";
const ROTATE: &str = "operations of a rotation by a variable";
const COMMAND: &str = "cycles that a DRAM command takes its channel besides the bytes";
const DRAM_CHANNELS: &str = "DRAM channels used";
const SRAM_CHANNELS: &str = "SRAM controllers used";
const FIFO: &str = "depth of the command FIFOs";
const RC4: &str = "bytes that RC4 fetches at once";
const BUSES: &str = "DRAM bytes in a cycle of the bus";
const SCRATCH: &str = "clock of the scratch memory, MHz";
const CONSTANTS: &str = "registers that hold constants";
const OUTSTANDING: &str = "references of a thread under way";
const RC4_ENTRY: &str = "bytes of an entry of RC4's table, from level 1 on";
/// The name of combinations, which are no guess of their own.
const TOGETHER: &str = "several guesses";
const SEAL_TABLES: &str = "where SEAL has its tables on the IXP2X00";
const TABLES: &str = "where AES and Blowfish have their tables on the IXP2X00";

fn is_1200(machine: &Machine) -> bool {
    machine.name == "IXP1200"
}

/// Every guess, otherwise, each alone.
pub const VARIANTS: &[Variant] = &[
    variant(BRANCH, "1", |machine| machine.branch_cycles = 1),
    variant(BRANCH, "4", |machine| machine.branch_cycles = 4),
    variant(MULTIPLY, "3 and 5, where there is one", |machine| {
        if machine.multiply_16_cycles > 0 {
            (machine.multiply_16_cycles, machine.multiply_32_cycles) = (3, 5);
        }
    }),
    variant(MULTIPLY, "6 and 12, where there is one", |machine| {
        if machine.multiply_16_cycles > 0 {
            (machine.multiply_16_cycles, machine.multiply_32_cycles) = (6, 12);
        }
    }),
    variant(ROTATE, "5 on the IXP1200", |machine| {
        if is_1200(machine) {
            machine.rotate_operations = 5;
        }
    }),
    variant(COMMAND, "0", |machine| machine.dram.command_cycles = 0),
    variant(COMMAND, "28", |machine| machine.dram.command_cycles = 28),
    variant(DRAM_CHANNELS, "1", |machine| machine.dram.channels = 1),
    variant(SRAM_CHANNELS, "1", |machine| machine.sram.channels = 1),
    variant(FIFO, "4", |machine| set_fifos(machine, 4)),
    variant(FIFO, "64", |machine| set_fifos(machine, 64)),
    variant(RC4, "1", |machine| machine.rc4_fetch_bytes = 1),
    variant(RC4, "16", |machine| machine.rc4_fetch_bytes = 16),
    variant(BUSES, "half, IXP1200 and 2400", |machine| {
        if machine.name != "IXP2800" {
            machine.dram.bus_bytes = (machine.dram.bus_bytes / 2).max(1);
        }
    }),
    variant(BUSES, "twice, IXP1200 and 2400", |machine| {
        if machine.name != "IXP2800" {
            machine.dram.bus_bytes *= 2;
        }
    }),
    variant(SCRATCH, "half", |machine| machine.scratch.bus_mhz = (machine.scratch.bus_mhz / 2).max(1)),
    variant(SCRATCH, "twice", |machine| machine.scratch.bus_mhz *= 2),
    variant(CONSTANTS, "32", |machine| machine.constants = 32),
    variant(OUTSTANDING, "4", |machine| machine.outstanding = 4),
    variant(TABLES, "SRAM", |machine| tables_in(machine, &["aes", "blowfish"], Home::Sram)),
    variant(SEAL_TABLES, "scratch", |machine| tables_in(machine, &["seal3"], Home::Scratch)),
    variant(RC4_ENTRY, "1", |machine| machine.rc4_entry_bytes = 1),
];

/// Several guesses changed at once. Their figures are shown, and no sentence is judged by them.
pub const COMBINATIONS: &[Variant] = &[
    variant(TOGETHER, "SEAL's tables in scratch, AES's and Blowfish's in SRAM", |machine| {
        tables_in(machine, &["aes", "blowfish"], Home::Sram);
        tables_in(machine, &["seal3"], Home::Scratch);
    }),
    variant(TOGETHER, "one DRAM channel, 28 cycles of a command", one_slow_channel),
    variant(TOGETHER, "one DRAM channel, 28 cycles of a command, RC4's entries of a byte", |machine| {
        one_slow_channel(machine);
        machine.rc4_entry_bytes = 1;
    }),
];

/// Moves tables of the IXP2X00 to another memory.
pub(super) fn tables_in(machine: &mut Machine, names: &[&str], home: Home) {
    if !is_1200(machine) {
        for name in names {
            machine.placement.exceptions.insert((*name).to_owned(), home);
        }
    }
}

fn one_slow_channel(machine: &mut Machine) {
    (machine.dram.channels, machine.dram.command_cycles) = (1, 28);
}

fn set_fifos(machine: &mut Machine, depth: u64) {
    for memory in [&mut machine.dram, &mut machine.sram, &mut machine.scratch] {
        memory.fifo = depth;
    }
}

/// Returns the guesses, with the values of the machines' files.
pub fn listed(machines: &[Machine; 3]) -> Vec<Listed> {
    let of = |guess: &str, machine: &Machine| match guess {
        BRANCH => machine.branch_cycles.to_string(),
        MULTIPLY => format!("{} and {}", machine.multiply_16_cycles, machine.multiply_32_cycles),
        ROTATE => machine.rotate_operations.to_string(),
        COMMAND => machine.dram.command_cycles.to_string(),
        DRAM_CHANNELS => machine.dram.channels.to_string(),
        SRAM_CHANNELS => machine.sram.channels.to_string(),
        FIFO => machine.dram.fifo.to_string(),
        RC4 => machine.rc4_fetch_bytes.to_string(),
        BUSES => machine.dram.bus_bytes.to_string(),
        SCRATCH => machine.scratch.bus_mhz.to_string(),
        CONSTANTS => machine.constants.to_string(),
        OUTSTANDING => machine.outstanding.to_string(),
        RC4_ENTRY => machine.rc4_entry_bytes.to_string(),
        _ => {
            let placed = &machine.placement;
            let seal = placed.exceptions.get("seal3").filter(|_| guess == SEAL_TABLES);
            format!("{:?}", seal.unwrap_or(&placed.tables)).to_lowercase()
        }
    };
    let mut listed: Vec<Listed> = Vec::new();
    for variant in VARIANTS {
        match listed.iter_mut().find(|one| one.guess == variant.guess) {
            Some(one) => one.tried.push(variant.value),
            None => listed.push(Listed {
                guess: variant.guess,
                usual: machines.each_ref().map(|machine| of(variant.guess, machine)),
                tried: vec![variant.value],
            }),
        }
    }
    listed
}

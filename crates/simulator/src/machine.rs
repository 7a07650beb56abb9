//! Machines as data: the contents of a TOML file, checked when it is read.
//!
//! Every number has a range, so no file can make a simulation divide by zero, overflow or allocate without bound. An
//! error names the line.

use serde::{Deserialize, Deserializer, Serialize, de::Error as _};
use std::collections::BTreeMap;

/// The longest machine file that is read.
pub const MACHINE_FILE_BYTES_MAX: usize = 64 << 10;

/// The error of a file that does not describe a machine.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MachineError {
    /// The text is not TOML, has a missing or unknown key, or a number out of its range; the message names line and
    /// column.
    #[error("{0}")]
    Toml(String),
    /// Longer than [`MACHINE_FILE_BYTES_MAX`].
    #[error("a machine file has at most {MACHINE_FILE_BYTES_MAX} bytes")]
    TooLong,
}

/// A memory that all engines share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Shared {
    /// On the chip.
    Scratch,
    /// Static memory beside it.
    Sram,
    /// The packet memory.
    Dram,
}

impl Shared {
    /// The shared memories, from fast to slow.
    pub const ALL: [Self; 3] = [Self::Scratch, Self::Sram, Self::Dram];
}

/// The memory of keys and tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Home {
    /// An engine's own memory, which instructions use as operands.
    Local,
    /// On the chip.
    Scratch,
    /// Static memory beside it.
    Sram,
    /// The packet memory.
    Dram,
}

impl Home {
    /// The memories, from fast to slow.
    pub const ALL: [Self; 4] = [Self::Local, Self::Scratch, Self::Sram, Self::Dram];

    /// Returns the shared memory that this is, or `None` for local memory.
    pub const fn shared(self) -> Option<Shared> {
        match self {
            Self::Local => None,
            Self::Scratch => Some(Shared::Scratch),
            Self::Sram => Some(Shared::Sram),
            Self::Dram => Some(Shared::Dram),
        }
    }
}

/// A processor: engines of threads in front of three shared memories. Cycles are those of the engines.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Machine {
    /// The machine's name.
    #[serde(deserialize_with = "name")]
    pub name: String,
    /// Number of engines, each with threads of its own.
    #[serde(deserialize_with = "within::<_, 1, 64>")]
    pub engines: u64,
    /// Threads of an engine.
    #[serde(deserialize_with = "within::<_, 1, 16>")]
    pub threads: u64,
    /// Clock of the engines.
    #[serde(deserialize_with = "within::<_, 1, 10_000>")]
    pub mhz: u64,
    /// Local memory of an engine; 0 if it has none.
    #[serde(deserialize_with = "within::<_, 0, 1_048_576>")]
    pub local_bytes: u64,
    /// The most that one command moves.
    #[serde(deserialize_with = "within::<_, 16, 1024>")]
    pub burst_bytes: u64,
    /// Constants that registers hold.
    #[serde(deserialize_with = "within::<_, 0, 1024>")]
    pub constants: u64,
    /// Most references to tables and keys that a thread has under way from level 2 on.
    #[serde(deserialize_with = "within::<_, 1, 12>")]
    pub outstanding: u64,
    /// Cycles lost by a taken branch, and by a swap of threads.
    #[serde(deserialize_with = "within::<_, 0, 100>")]
    pub branch_cycles: u64,
    /// Cycles of a product of 16-bit factors; 0 means by shift and add.
    #[serde(deserialize_with = "within::<_, 0, 1000>")]
    pub multiply_16_cycles: u64,
    /// Cycles of a product of 32-bit factors; 0 means by shift and add.
    #[serde(deserialize_with = "within::<_, 0, 1000>")]
    pub multiply_32_cycles: u64,
    /// Simple operations of a rotation by a variable; 1 means one complex operation.
    #[serde(deserialize_with = "within::<_, 1, 64>")]
    pub rotate_operations: u64,
    /// Bytes of the message that RC4 fetches at once below level 3.
    #[serde(deserialize_with = "within::<_, 1, 64>")]
    pub rc4_fetch_bytes: u64,
    /// Bytes of an entry of RC4's table from level 1 on, at which the tables of all threads fit into local memory;
    /// otherwise 4.
    #[serde(default = "word", deserialize_with = "within::<_, 1, 4>")]
    pub rc4_entry_bytes: u64,
    /// The packet memory.
    pub dram: Memory,
    /// Static memory.
    pub sram: Memory,
    /// Memory on the chip.
    pub scratch: Memory,
    /// The placement of keys and tables at level 0.
    pub placement: Placed,
}

/// A shared memory. A channel takes commands in turn from a FIFO; a full FIFO stalls the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    /// The size to which every transfer is rounded up.
    #[serde(deserialize_with = "within::<_, 1, 1024>")]
    pub unit_bytes: u64,
    /// Cycles from command to data of a single unit.
    #[serde(deserialize_with = "within::<_, 1, 100_000>")]
    pub read_cycles: u64,
    /// Cycles from command to completion of a single unit.
    #[serde(deserialize_with = "within::<_, 1, 100_000>")]
    pub write_cycles: u64,
    /// Clock of a channel's bus.
    #[serde(deserialize_with = "within::<_, 1, 10_000>")]
    pub bus_mhz: u64,
    /// Bytes that a channel moves per cycle of its bus.
    #[serde(deserialize_with = "within::<_, 1, 1024>")]
    pub bus_bytes: u64,
    /// Cycles of the engines for which a command occupies a channel besides its bytes.
    #[serde(deserialize_with = "within::<_, 0, 10_000>")]
    pub command_cycles: u64,
    /// Number of channels, between which addresses are interleaved.
    #[serde(deserialize_with = "within::<_, 1, 16>")]
    pub channels: u64,
    /// Number of bytes after which addresses continue in the next channel.
    #[serde(deserialize_with = "within::<_, 1, 1_048_576>")]
    pub interleave_bytes: u64,
    /// Commands that wait before a channel.
    #[serde(deserialize_with = "within::<_, 1, 4096>")]
    pub fifo: u64,
    /// Size.
    #[serde(deserialize_with = "within::<_, 1, 1_099_511_627_776>")]
    pub capacity_bytes: u64,
}

/// The placement of Table IV, for level 0.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Placed {
    /// Expanded keys.
    pub keys: Home,
    /// Tables of the algorithms that `exceptions` does not name.
    pub tables: Home,
    /// Tables of algorithms with another placement.
    #[serde(default)]
    pub exceptions: BTreeMap<String, Home>,
}

const fn word() -> u64 {
    4
}

fn within<'de, D, const MIN: u64, const MAX: u64>(from: D) -> Result<u64, D::Error>
where
    D: Deserializer<'de>,
{
    let value = u64::deserialize(from)?;
    if (MIN..=MAX).contains(&value) {
        Ok(value)
    } else {
        Err(D::Error::custom(format_args!("{value} is not between {MIN} and {MAX}")))
    }
}

fn name<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let name = String::deserialize(from)?;
    if (1..=64).contains(&name.len()) && !name.chars().any(char::is_control) {
        Ok(name)
    } else {
        Err(D::Error::custom("a name has 1 to 64 bytes and no control characters"))
    }
}

/// The built-in machines, from the paper's Table III: names and files.
pub const BUILT_IN: [(&str, &str); 3] = [
    ("IXP1200", include_str!("../machines/ixp1200.toml")),
    ("IXP2400", include_str!("../machines/ixp2400.toml")),
    ("IXP2800", include_str!("../machines/ixp2800.toml")),
];

impl Machine {
    /// Reads a machine.
    ///
    /// # Errors
    /// Fails if the text does not describe a machine; the error names the line.
    pub fn parse(text: &str) -> Result<Self, MachineError> {
        if text.len() > MACHINE_FILE_BYTES_MAX {
            return Err(MachineError::TooLong);
        }
        toml::from_str(text).map_err(|error| MachineError::Toml(error.to_string().trim_end().to_owned()))
    }

    /// Returns the machine as a file.
    pub fn to_toml(&self) -> String {
        toml::to_string(self).expect("a machine is tables of numbers and names")
    }

    /// Returns a built-in machine, by its name in any case.
    pub fn built_in(name: &str) -> Option<Self> {
        let (_, text) = BUILT_IN.iter().find(|(found, _)| found.eq_ignore_ascii_case(name))?;
        Some(Self::parse(text).expect("built-in machines are tested"))
    }

    /// Returns a shared memory.
    pub const fn memory(&self, memory: Shared) -> &Memory {
        match memory {
            Shared::Scratch => &self.scratch,
            Shared::Sram => &self.sram,
            Shared::Dram => &self.dram,
        }
    }
}

impl Memory {
    /// Returns the number of cycles, of engines at `mhz`, for which a command of `bytes` occupies a channel.
    pub const fn occupancy_cycles(&self, bytes: u64, mhz: u64) -> u64 {
        let whole = bytes.div_ceil(self.unit_bytes) * self.unit_bytes;
        self.command_cycles + (whole * mhz).div_ceil(self.bus_bytes * self.bus_mhz)
    }

    /// Returns the number of cycles from the start of a command of `bytes` to its completion: one unit's latency, and
    /// the time of the other units.
    pub const fn latency_cycles(&self, bytes: u64, is_write: bool, mhz: u64) -> u64 {
        let first = if is_write { self.write_cycles } else { self.read_cycles };
        first + self.occupancy_cycles(bytes, mhz) - self.occupancy_cycles(1, mhz)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn table_iii_is_built_in() {
        for (name, engines, threads, mhz, dram, sram) in [
            ("ixp1200", 6, 4, 200, (48, 36), (22, 19)),
            ("ixp2400", 8, 8, 600, (119, 53), (90, 48)),
            ("ixp2800", 16, 8, 1400, (291, 54), (100, 54)),
        ] {
            let machine = Machine::built_in(name).unwrap();
            assert_eq!((machine.engines, machine.threads, machine.mhz), (engines, threads, mhz));
            assert_eq!((machine.dram.read_cycles, machine.dram.write_cycles), dram);
            assert_eq!((machine.sram.read_cycles, machine.sram.write_cycles), sram);
        }
    }

    #[test]
    fn a_machine_is_written_as_it_is_read() {
        let machine = Machine::built_in("IXP2800").unwrap();
        assert_eq!(Machine::parse(&machine.to_toml()).unwrap(), machine);
    }

    #[test]
    fn errors_point_at_the_line() {
        let (_, text) = BUILT_IN[2];
        for (from, to, line, says) in [
            ("mhz = 1400", "mhz = 0", 5, "0 is not between 1 and 10000"),
            ("threads = 8", "threads = \"8\"", 4, "invalid type"),
            ("fifo = 16", "depth = 16", 0, "depth"),
            ("engines = 16", "engines = ", 3, ""),
        ] {
            let error = Machine::parse(&text.replacen(from, to, 1)).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
            assert!(error.contains("line "), "{error}");
            assert!(line == 0 || error.contains(&format!("line {line},")), "{error}");
        }
        assert_eq!(Machine::parse(&"#".repeat(MACHINE_FILE_BYTES_MAX + 1)), Err(MachineError::TooLong));
    }

    /// For a unit of DRAM on the IXP2800, 16 bytes at 4 per cycle of 400 MHz are 14 of the engines' cycles.
    #[test]
    fn occupancy_and_latency_follow_units_and_clocks() {
        let machine = Machine::built_in("IXP2800").unwrap();
        let dram = Memory { command_cycles: 10, ..machine.dram };
        assert_eq!(dram.occupancy_cycles(8, 1400), 24);
        assert_eq!(dram.occupancy_cycles(64, 1400), 66);
        assert_eq!(dram.latency_cycles(16, false, 1400), 291);
        assert_eq!(dram.latency_cycles(64, false, 1400), 291 + 42);
        assert_eq!(machine.sram.occupancy_cycles(4, 1400), 7);
    }
}

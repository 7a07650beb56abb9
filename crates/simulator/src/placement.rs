//! The placement of data in memories: Table IV at level 0, greedy from level 1 on.
//!
//! Data that depend on a key exist once per flow, so the more threads have flows of their own, the less fits into
//! fast memory. No memory is given more than it holds.

use crate::machine::{Home, Machine};
use crate::traced_kernel::{TracedKernel, short};
use sealane_transform::{Event, Region};
use std::collections::BTreeMap;

/// The work that threads share.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Parallelism {
    /// Every thread has its own flow, with its own key.
    Flow,
    /// All threads work on blocks of one flow.
    Block,
}

/// Large tables are split into pieces of this size.
const PIECE_BYTES: u32 = 256;

/// The memory of every piece of key and tables.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placement {
    homes: BTreeMap<(Region, u32), Home>,
    /// Bytes of one flow in each memory of [`Home::ALL`].
    pub bytes: [u64; 4],
    /// Whether entries of tables are narrower than a word.
    pub(crate) is_packed: bool,
}

/// A piece, with its use in the trace.
struct Piece {
    region: Region,
    number: u32,
    bytes: u64,
    references: u64,
}

impl Placement {
    /// Places `work` for that number of engines and threads. With `greedy`, the most used pieces come first, in any
    /// memory that has room.
    pub fn new(
        work: &TracedKernel,
        machine: &Machine,
        greedy: bool,
        (engines, threads): (u64, u64),
        parallelism: Parallelism,
    ) -> Self {
        let mut pieces = pieces(work);
        let packed = 256 * machine.rc4_entry_bytes * threads;
        let is_packed =
            greedy && work.name == "rc4" && machine.rc4_entry_bytes < 4 && packed <= machine.local_bytes;
        if is_packed {
            pieces.iter_mut().for_each(|piece| piece.bytes = piece.bytes * machine.rc4_entry_bytes / 4);
        }
        if greedy {
            // The sort is stable: pieces used alike stay in the order of their addresses.
            pieces.sort_by_key(|piece| std::cmp::Reverse(piece.references * 1024 / piece.bytes.max(1)));
        }
        let mut room = [
            machine.local_bytes,
            machine.scratch.capacity_bytes,
            machine.sram.capacity_bytes,
            machine.dram.capacity_bytes,
        ];
        let mut made = Self { homes: BTreeMap::new(), bytes: [0; 4], is_packed };
        for piece in pieces {
            let wanted = if greedy { Home::Local } else { wanted(work, machine, piece.region) };
            let is_own =
                parallelism == Parallelism::Flow && (piece.region == Region::Key || work.has_keyed_tables);
            let home = Home::ALL.into_iter().filter(|home| *home >= wanted).find(|home| {
                let copies = match (is_own, home) {
                    (false, _) => 1,
                    (true, Home::Local) => threads,
                    (true, _) => engines * threads,
                };
                let fits = piece.bytes * copies <= room[*home as usize];
                if fits {
                    room[*home as usize] -= piece.bytes * copies;
                }
                fits
            });
            let home = home.unwrap_or(Home::Dram);
            made.bytes[home as usize] += piece.bytes;
            made.homes.insert((piece.region, piece.number), home);
        }
        made
    }

    /// Returns the memory of a byte. Data other than keys and tables are in registers, which count as local.
    pub fn home(&self, region: Region, offset: u32) -> Home {
        self.homes.get(&(region, offset / PIECE_BYTES)).copied().unwrap_or(Home::Local)
    }
}

fn wanted(work: &TracedKernel, machine: &Machine, region: Region) -> Home {
    let placed = &machine.placement;
    match region {
        Region::Key => placed.keys,
        _ => placed.exceptions.get(short(work.name)).copied().unwrap_or(placed.tables),
    }
}

fn pieces(work: &TracedKernel) -> Vec<Piece> {
    let mut found: BTreeMap<(Region, u32), (u32, u64)> = BTreeMap::new();
    for event in &work.events {
        if let Event::Load { place, .. } | Event::Store { place } = event
            && TracedKernel::is_kept(place.region)
        {
            let (last, references) = found.entry((place.region, place.offset / PIECE_BYTES)).or_default();
            *last = (*last).max(place.offset % PIECE_BYTES + 4);
            *references += 1;
        }
    }
    let piece = |((region, number), (bytes, references))| Piece {
        region,
        number,
        bytes: u64::from(bytes),
        references,
    };
    found.into_iter().map(piece).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(machine: &str, name: &str, greedy: bool, threads: u64) -> [u64; 4] {
        let machine = Machine::built_in(machine).unwrap();
        Placement::new(&TracedKernel::new(name).unwrap(), &machine, greedy, (1, threads), Parallelism::Flow)
            .bytes
    }

    /// These are the numbers of bytes of Table IV, in the fastest memory and beyond.
    #[test]
    fn level_0_is_table_iv() {
        for (name, fast, slow) in
            [("des", 2176, 0), ("rc5", 136, 0), ("rc6", 176, 0), ("blowfish", 72, 4096), ("idea", 208, 0)]
        {
            assert_eq!(bytes("ixp1200", name, false, 1), [0, fast, slow, 0], "{name}");
            assert_eq!(bytes("ixp2800", name, false, 1), [fast, slow, 0, 0], "{name}");
        }
        assert_eq!(bytes("ixp1200", "aes", false, 1), [0, 176, 5120, 0]);
        assert_eq!(bytes("ixp2400", "aes", false, 1), [176, 5120, 0, 0]);
        assert_eq!(bytes("ixp1200", "rc4", false, 1), [0, 0, 1024, 0]);
        assert_eq!(bytes("ixp2800", "rc4", false, 1), [1024, 0, 0, 0]);
        assert_eq!(bytes("ixp2800", "md5", false, 1), [0; 4]);
    }

    /// With entries of one byte, 8 * 256 bytes fit.
    #[test]
    fn packed_entries_of_rc4_fit() {
        let mut machine = Machine::built_in("ixp2800").unwrap();
        machine.rc4_entry_bytes = 1;
        let placed = |greedy| {
            Placement::new(&TracedKernel::new("rc4").unwrap(), &machine, greedy, (8, 8), Parallelism::Flow)
        };
        assert_eq!(placed(true).bytes, [256, 0, 0, 0]);
        assert!(placed(true).is_packed && !placed(false).is_packed);
    }

    #[test]
    fn greedy_placement_splits_tables_and_counts_flows() {
        let [local, scratch, ..] = bytes("ixp2800", "aes", true, 1);
        assert!(local > 2200 && local <= 2560 && scratch == 5296 - local, "{local} {scratch}");
        // There are eight keys, and the rest holds tables that all share.
        let [many, ..] = bytes("ixp2800", "aes", true, 8);
        assert!(many < local && many > 176, "{many}");
        // The tables of one flow fit, and those of eight do not: 8 * 1024 and 8 * 4168 bytes are more than 2560.
        assert_eq!(bytes("ixp2800", "rc4", true, 1), [1024, 0, 0, 0]);
        let [rc4, ..] = bytes("ixp2800", "rc4", true, 8);
        assert!(rc4 < 1024 && rc4 * 8 <= 2560, "{rc4}");
        let [blowfish, ..] = bytes("ixp2800", "blowfish", true, 8);
        assert!(blowfish < 4168 && blowfish * 8 <= 2560, "{blowfish}");
    }
}

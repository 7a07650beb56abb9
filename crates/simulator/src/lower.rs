//! Lowers a kernel's trace to a machine's program, at levels 0 to 3.
//!
//! Every level includes the optimisations of the one below: instructions of the kernel are neither added nor removed,
//! except as stated at [`Optimisation`]. Constants in registers, words of local memory at fixed places and constants of 8
//! bits are operands and cost no instruction; setting the address of local memory is an instruction of class other.

use crate::machine::{Machine, Shared};
use crate::placement::{Parallelism, Placement};
use crate::program::{Base, Classes, Program, Reference, SLOTS, Step};
use crate::traced_kernel::TracedKernel;
use sealane_transform::{Event, MemoryAccess, Region};
use std::collections::{BTreeMap, BTreeSet};

/// The paper's levels of optimisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Optimisation {
    /// Every reference waits; data lie as in Table IV; a message is fetched by blocks.
    Raw,
    /// Placement is greedy, with split tables; loops are unrolled, so their branches are gone.
    Generic,
    /// Loads are hoisted to the point at which their addresses are known, and the message's loads one fetch ahead; a
    /// thread waits at the first use of a value, and for stores only when slots run out.
    Overlapped,
    /// Message and tables move in the largest possible bursts.
    Bursts,
}

impl Optimisation {
    /// All levels, from 0 up.
    pub const ALL: [Self; 4] = [Self::Raw, Self::Generic, Self::Overlapped, Self::Bursts];
}

/// Constants up to this are operands.
const SMALL_CONSTANT: u32 = 255;

/// The slot of reads of the message, that of its writes, and the first slot of all others.
const MESSAGE_SLOT: usize = 0;
const WRITE_SLOT: usize = 2;
const TABLE_SLOT: usize = 4;

/// Returns the program of `work` at a level, for that number of engines and threads.
pub fn lower(
    work: &TracedKernel,
    machine: &Machine,
    level: Optimisation,
    (engines, threads): (u64, u64),
    parallelism: Parallelism,
) -> Program {
    let placement =
        Placement::new(work, machine, level >= Optimisation::Generic, (engines, threads), parallelism);
    let hoisted;
    let events = if level >= Optimisation::Overlapped {
        hoisted = hoist(&work.events);
        &hoisted
    } else {
        &work.events
    };
    let constants: BTreeSet<u32> = work
        .events
        .iter()
        .filter_map(|event| match event {
            Event::Immediate { value } if *value > SMALL_CONSTANT => Some(*value),
            _ => None,
        })
        .collect();
    let fetch = match level {
        Optimisation::Bursts => machine.burst_bytes,
        _ => work.fetch_bytes(machine.rc4_fetch_bytes).min(machine.burst_bytes),
    };
    let mut lowering = Lowering {
        work,
        machine,
        level,
        placement,
        parallelism,
        fetch: (fetch as u32).min(work.bytes),
        holds_constants: constants.len() as u64 <= machine.constants,
        made: Program { lap_bytes: work.bytes, ..Program::default() },
        block: 0,
        read: None,
        written: 0,
        writes: 0,
        slots: BTreeMap::new(),
        pending: [None; SLOTS],
        next_slot: 0,
        burst: None,
    };
    lowering.start();
    for event in events {
        lowering.event(*event);
    }
    lowering.flush_write();
    lowering.made
}

struct Lowering<'a> {
    work: &'a TracedKernel,
    machine: &'a Machine,
    level: Optimisation,
    placement: Placement,
    parallelism: Parallelism,
    fetch: u32,
    holds_constants: bool,
    made: Program,
    /// Number of the block.
    block: u32,
    /// The window of the message that was read last.
    read: Option<u32>,
    /// Bytes written of the present window of the message.
    written: u32,
    writes: u32,
    /// Slots of the loads that have not been used yet.
    slots: BTreeMap<u32, u8>,
    /// The load in each slot, from its issue to its use.
    pending: [Option<u32>; SLOTS],
    next_slot: usize,
    /// The last run of neighbouring words that one command fetched: region and bytes, and its slot.
    burst: Option<(Region, u32, u32, Option<u8>)>,
}

impl Lowering<'_> {
    fn overlaps(&self) -> bool {
        self.level >= Optimisation::Overlapped
    }

    /// Fetches the first window of the message before the first lap.
    fn start(&mut self) {
        if self.overlaps() {
            let step = self.fetch_step(0);
            self.made.prologue.push(Step::Reference(step));
        }
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::Simple => self.simple(1),
            Event::Rotate if self.machine.rotate_operations == 1 => {
                self.made.instructions.complex += 1;
                self.made.cycles.complex += 1;
                self.run(1);
            }
            Event::Rotate => self.simple(self.machine.rotate_operations),
            Event::Multiply { bits } => self.multiply(bits),
            Event::Branch { is_loop: true, .. } if self.level >= Optimisation::Generic => {}
            Event::Branch { taken, .. } => self.branch(taken, 1),
            Event::Jump => {
                self.made.instructions.jump += 1;
                self.made.cycles.jump += 1 + self.machine.branch_cycles;
                self.run(1);
                self.push(Step::Abort(self.machine.branch_cycles as u32));
            }
            Event::Immediate { value } => {
                if value > SMALL_CONSTANT && !self.holds_constants {
                    // Two halves.
                    self.made.instructions.immediate += 2;
                    self.made.cycles.immediate += 2;
                    self.run(2);
                }
            }
            Event::Load { load, place, .. } => self.load(load, place),
            Event::Use { load } => self.first_use(load),
            Event::Store { place } => self.store(place),
            Event::BlockEnd => {
                self.block += 1;
                if !self.work.is_stream {
                    self.push(Step::Done(self.work.block_bytes));
                }
            }
        }
    }

    fn push(&mut self, step: Step) {
        if step != Step::Abort(0) {
            self.made.steps.push(step);
        }
    }

    fn run(&mut self, cycles: u64) {
        if let Some(Step::Run(before)) = self.made.steps.last_mut() {
            *before += cycles as u32;
        } else {
            self.push(Step::Run(cycles as u32));
        }
    }

    fn simple(&mut self, count: u64) {
        if count == 0 {
            return;
        }
        self.made.instructions.simple += count;
        self.made.cycles.simple += count;
        self.run(count);
    }

    fn branch(&mut self, taken: bool, count: u64) {
        let lost = if taken { count * self.machine.branch_cycles } else { 0 };
        self.made.instructions.branch += count;
        self.made.cycles.branch += count + lost;
        self.run(count);
        self.push(Step::Abort(lost as u32));
    }

    fn multiply(&mut self, bits: u8) {
        let cycles = match bits {
            0..=16 => self.machine.multiply_16_cycles,
            _ => self.machine.multiply_32_cycles,
        };
        if cycles > 0 {
            self.made.instructions.complex += 1;
            self.made.cycles.complex += cycles;
            self.run(cycles);
        } else {
            // Shift and add takes, for each bit, a test that branches, an addition and a shift.
            for _ in 0..bits {
                self.simple(2);
                self.branch(true, 1);
            }
        }
    }

    fn load(&mut self, load: u32, place: MemoryAccess) {
        match place.region {
            Region::State => {}
            Region::Message => self.load_message(load, place),
            Region::Key | Region::Table(_) => {
                match self.placement.home(place.region, place.offset).shared() {
                    Some(memory) => self.load_kept(load, place, memory),
                    None if place.region == Region::Key => {}
                    None => {
                        self.set_local_address();
                        // The byte is extracted from its word.
                        self.simple(u64::from(self.placement.is_packed));
                    }
                }
            }
        }
    }

    /// Sets the address of a table entry in local memory, which is then an operand.
    fn set_local_address(&mut self) {
        self.made.instructions.other += 1;
        self.made.cycles.other += 1;
        self.run(1);
    }

    /// Assigns a read of a message to the fetch of its window.
    fn load_message(&mut self, load: u32, place: MemoryAccess) {
        let window = (self.message_offset(place)) / self.fetch;
        if self.read != Some(window) {
            self.read = Some(window);
            // From level 2 on, this window is under way already.
            let step = self.fetch_step(if self.overlaps() { window + 1 } else { window });
            self.refer(step);
        }
        if self.overlaps() {
            self.slots.insert(load, (MESSAGE_SLOT as u32 + window % 2) as u8);
        }
    }

    fn message_offset(&self, place: MemoryAccess) -> u32 {
        let from = if self.work.is_stream { 0 } else { self.block * self.work.block_bytes };
        from + place.offset
    }

    fn fetch_step(&self, window: u32) -> Reference {
        Reference {
            memory: Shared::Dram,
            is_write: false,
            base: Base::Message,
            address: window * self.fetch,
            bytes: self.fetch as u16,
            slot: self.overlaps().then_some((MESSAGE_SLOT as u32 + window % 2) as u8),
        }
    }

    /// Loads a word of a key or table in a shared memory.
    fn load_kept(&mut self, load: u32, place: MemoryAccess, memory: Shared) {
        let bursts = self.level == Optimisation::Bursts;
        if let Some((region, from, to, slot)) = self.burst
            && bursts
            && region == place.region
            && (from..to).contains(&place.offset)
        {
            if let Some(slot) = slot {
                self.slots.insert(load, slot);
            }
            return;
        }
        // Words that are read in order come by one command.
        let in_order = bursts && self.work.reads_in_order(place.region);
        let bytes = if in_order { 16 } else { 4 };
        let slot = self.overlaps().then(|| self.free_slot(load));
        if let Some(slot) = slot {
            self.slots.insert(load, slot);
        }
        self.burst = in_order.then_some((place.region, place.offset, place.offset + bytes, slot));
        let step = Reference {
            memory,
            is_write: false,
            base: self.base(place.region),
            address: place.offset,
            bytes: bytes as u16,
            slot,
        };
        self.refer(step);
    }

    fn base(&self, region: Region) -> Base {
        let is_own = region == Region::Key || self.work.has_keyed_tables;
        if is_own && self.parallelism == Parallelism::Flow { Base::Flow } else { Base::Common }
    }

    /// Returns the next slot in turn, after a wait for a reference that is still under way in it.
    fn free_slot(&mut self, load: u32) -> u8 {
        let slot = TABLE_SLOT + self.next_slot;
        self.next_slot = (self.next_slot + 1) % (self.machine.outstanding as usize).min(SLOTS - TABLE_SLOT);
        if self.pending[slot].is_some() {
            self.push(Step::Await(slot as u8));
        }
        self.pending[slot] = Some(load);
        slot as u8
    }

    fn first_use(&mut self, load: u32) {
        if let Some(slot) = self.slots.remove(&load) {
            self.push(Step::Await(slot));
            if self.pending[usize::from(slot)] == Some(load) {
                self.pending[usize::from(slot)] = None;
            }
        }
    }

    fn store(&mut self, place: MemoryAccess) {
        match place.region {
            Region::State => {}
            Region::Message => {
                self.written += u32::from(place.bytes);
                if self.written >= self.fetch {
                    self.flush_write();
                }
            }
            Region::Key | Region::Table(_) => {
                match self.placement.home(place.region, place.offset).shared() {
                    // The store is a move to local memory; a byte is inserted into its word.
                    None => self.simple(if self.placement.is_packed { 3 } else { 1 }),
                    Some(memory) => {
                        let slot = self.write_slot();
                        let base = self.base(place.region);
                        let address = place.offset;
                        self.refer(Reference { memory, is_write: true, base, address, bytes: 4, slot });
                    }
                }
            }
        }
    }

    /// Returns the slot of a posted write, which waits for the write before the last.
    fn write_slot(&mut self) -> Option<u8> {
        if !self.overlaps() {
            return None;
        }
        let slot = (WRITE_SLOT as u32 + self.writes % 2) as u8;
        self.writes += 1;
        self.push(Step::Await(slot));
        Some(slot)
    }

    /// Writes the finished bytes of the message.
    fn flush_write(&mut self) {
        if self.written == 0 {
            return;
        }
        let slot = self.write_slot();
        let window = (self.block * self.work.block_bytes) / self.fetch;
        let address = if self.work.is_stream { self.read.unwrap_or(0) } else { window } * self.fetch;
        let (done, bytes) = (self.written, self.written as u16);
        self.written = 0;
        self.refer(Reference {
            memory: Shared::Dram,
            is_write: true,
            base: Base::Message,
            address,
            bytes,
            slot,
        });
        if self.work.is_stream {
            self.push(Step::Done(done));
        }
    }

    fn refer(&mut self, step: Reference) {
        let count = |classes: &mut Classes| {
            if step.is_write { classes.store += 1 } else { classes.load += 1 }
        };
        count(&mut self.made.instructions);
        count(&mut self.made.cycles);
        self.push(Step::Reference(step));
    }
}

/// Moves loads of keys and tables, with the two operations that compute their addresses, up to the point at which
/// these are known: past the first use of the youngest load that the address depends on. Loads keep their order, and
/// do not pass a store to a table or the end of a block.
fn hoist(events: &[Event]) -> Vec<Event> {
    let mut out: Vec<Event> = Vec::with_capacity(events.len());
    // Events before this stay in place: it is the last load, store to a table, or end of a block.
    let mut floor = 0;
    for event in events {
        match event {
            Event::Load { place, after, .. } if TracedKernel::is_kept(place.region) => {
                let operations = out[floor..]
                    .iter()
                    .rev()
                    .take(4)
                    .take_while(|event| matches!(event, Event::Simple | Event::Immediate { .. }))
                    .count();
                let operations = if place.region == Region::Key { 0 } else { operations };
                let known = out[floor..].iter().rposition(|event| *event == Event::Use { load: *after });
                // The operation that uses the load comes before those that depend on its result.
                let known = if *after == 0 { floor } else { known.map_or(floor, |at| floor + at + 2) };
                let from = out.len() - operations;
                let to = known.min(from);
                out[to..].rotate_right(operations);
                out.insert(to + operations, *event);
                floor = to + operations + 1;
            }
            Event::Store { place } if TracedKernel::is_kept(place.region) => {
                out.push(*event);
                floor = out.len();
            }
            Event::BlockEnd => {
                out.push(*event);
                floor = out.len();
            }
            _ => out.push(*event),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::machine::Home;
    use crate::traced_kernel::TEN;

    fn program(machine: &str, name: &str, level: Optimisation) -> Program {
        let machine = Machine::built_in(machine).unwrap();
        lower(&TracedKernel::new(name).unwrap(), &machine, level, (1, 1), Parallelism::Flow)
    }

    fn references(program: &Program, wanted: impl Fn(&Reference) -> bool) -> Vec<Reference> {
        let of = |step: &Step| match step {
            Step::Reference(one) => Some(*one),
            _ => None,
        };
        program.steps.iter().filter_map(of).filter(|one| wanted(one)).collect()
    }

    #[test]
    fn hoisting_keeps_every_event_and_loads_in_order() {
        for name in TEN {
            let events = TracedKernel::new(name).unwrap().events;
            let hoisted = hoist(&events);
            let loads = |events: &[Event]| {
                let load = |event: &Event| match event {
                    Event::Load { load, place, .. } if TracedKernel::is_kept(place.region) => Some(*load),
                    _ => None,
                };
                events.iter().filter_map(load).collect::<Vec<_>>()
            };
            assert_eq!(loads(&events), loads(&hoisted), "{name}");
            let sorted = |events: &[Event]| {
                let mut events: Vec<String> = events.iter().map(|event| format!("{event:?}")).collect();
                events.sort();
                events
            };
            assert_eq!(sorted(&events), sorted(&hoisted), "{name}");
            // No load passes the use of a load on which its address depends.
            let mut used = BTreeSet::from([0]);
            let mut seen = BTreeSet::new();
            for event in hoisted {
                match event {
                    Event::Use { load } => assert!(seen.contains(&load) && used.insert(load), "{name}"),
                    Event::Load { load, after, .. } => {
                        assert!(used.contains(&after), "{name}: {load} before {after}");
                        seen.insert(load);
                    }
                    _ => {}
                }
            }
        }
    }

    /// A round of AES has sixteen look-ups; all but the three that depend on nothing else are fetched at once.
    #[test]
    fn a_round_of_aes_is_fetched_at_once() {
        let hoisted = hoist(&TracedKernel::new("aes").unwrap().events);
        let mut under_way = 0;
        let most = hoisted
            .iter()
            .map(|event| {
                match event {
                    Event::Load { place, .. } if matches!(place.region, Region::Table(_)) => under_way += 1,
                    Event::Use { .. } => under_way = 0,
                    _ => {}
                }
                under_way
            })
            .max();
        assert!(most >= Some(13), "{most:?}");
    }

    #[test]
    fn messages_move_by_blocks_and_by_bursts() {
        for (name, level, reads, writes, bytes) in [
            ("md5", Optimisation::Raw, 32, 0, 64),
            ("md5", Optimisation::Bursts, 32, 0, 64),
            ("des", Optimisation::Raw, 256, 256, 8),
            ("des", Optimisation::Bursts, 32, 32, 64),
            ("aes", Optimisation::Raw, 128, 128, 16),
            ("rc4", Optimisation::Raw, 256, 256, 8),
            ("rc4", Optimisation::Bursts, 32, 32, 64),
            ("seal3", Optimisation::Raw, 128, 128, 16),
        ] {
            let found = references(&program("ixp2800", name, level), |one| one.memory == Shared::Dram);
            let count = |is_write| found.iter().filter(|one| one.is_write == is_write).count();
            assert_eq!((count(false), count(true)), (reads, writes), "{name} {level:?}");
            assert!(found.iter().all(|one| one.bytes == bytes), "{name} {level:?}");
        }
    }

    #[test]
    fn aes_looks_up_160_words_a_block() {
        let program = program("ixp2800", "aes", Optimisation::Raw);
        assert_eq!(references(&program, |one| one.memory == Shared::Scratch).len(), 160 * 128);
        let memory = 100 * program.instructions.memory() / program.instructions.total();
        assert!((20..=30).contains(&memory), "{memory}");
    }

    /// Each lap finishes its own number of bytes, at every level.
    #[test]
    fn a_lap_does_its_bytes() {
        for machine in ["ixp1200", "ixp2400", "ixp2800"] {
            for name in TEN {
                for level in Optimisation::ALL {
                    let program = program(machine, name, level);
                    let done = |step: &Step| if let Step::Done(bytes) = step { *bytes } else { 0 };
                    assert_eq!(program.steps.iter().map(done).sum::<u32>(), program.lap_bytes);
                    assert!(program.cycles.total() >= program.instructions.total(), "{name}");
                }
            }
        }
    }

    #[test]
    fn the_home_of_a_table_decides_what_an_entry_costs() {
        let des = program("ixp2800", "des", Optimisation::Raw);
        assert!(references(&des, |one| one.memory != Shared::Dram).is_empty());
        assert_eq!(des.instructions.other, 128 * 256);
        let des = program("ixp1200", "des", Optimisation::Raw);
        assert_eq!(references(&des, |one| one.memory == Shared::Scratch).len(), 160 * 256);
        assert_eq!(Home::Local.shared(), None);
    }
}

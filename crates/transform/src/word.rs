//! The machine word of the reference tier.
//!
//! Reference kernels are written over [`Word`]. With [`Plain`] they are ordinary code; with [`Counted`] every operation
//! is told as an [`Event`], in order, so the dynamic instruction mix and the memory trace come from the very source
//! that the tests trust. Addressing arithmetic of arrays and loop counters is not told, branches that close a round or
//! a block are.

use core::cell::RefCell;
use core::ops::{Add, BitAnd, BitOr, BitXor, Not};
use std::collections::BTreeSet;

/// Where data of a kernel lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Region {
    /// The message, transformed in place. Offsets count from the block, in stream ciphers from the message's start.
    Message,
    /// What a digest carries from block to block, and the index of a stream.
    State,
    /// Expanded key, read in order.
    Key,
    /// A table that an index selects from.
    Table(&'static str),
}

impl Region {
    /// Word `index` of it.
    pub(crate) const fn word(self, index: usize) -> Place {
        Place { region: self, offset: 4 * index as u32, bytes: 4 }
    }

    /// `bytes` bytes of it, from `offset`.
    pub(crate) const fn part(self, offset: usize, bytes: u8) -> Place {
        Place { region: self, offset: offset as u32, bytes }
    }
}

/// What one load or store touches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// Where it lies.
    pub region: Region,
    /// First byte. Entries of tables and keys are 4 bytes wide, whatever the kernel's own array has.
    pub offset: u32,
    /// Length.
    pub bytes: u8,
}

/// One thing that a kernel does. Loads are numbered from 1 within a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// Add, subtract, logic, shift, rotation by a constant.
    Simple,
    /// A multiplication; the smaller factor has so many bits.
    Multiply {
        /// 0 to 32.
        bits: u8,
    },
    /// A rotation by a variable.
    Rotate,
    /// A conditional branch.
    Branch {
        /// Whether it leaves the straight line.
        taken: bool,
        /// Whether it closes a loop whose length is known; else data choose the path.
        is_loop: bool,
    },
    /// An unconditional branch.
    Jump,
    /// A constant brought into a register.
    Immediate {
        /// The constant.
        value: u32,
    },
    /// A read of memory.
    Load {
        /// Its number.
        load: u32,
        /// What is read.
        place: Place,
        /// The youngest load that the address is made of; 0 when none is.
        after: u32,
    },
    /// The first operation that takes the value of a load comes next.
    Use {
        /// The load's number.
        load: u32,
    },
    /// A write of memory.
    Store {
        /// What is written.
        place: Place,
    },
    /// A block, or a piece of a stream, is done.
    BlockEnd,
}

/// Counts by class (NPCryptBench's Table V).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mix {
    /// Simple ALU operations.
    pub simple_alu: u64,
    /// Multiplications and rotations by variables.
    pub complex_alu: u64,
    /// Conditional branches.
    pub branch: u64,
    /// Unconditional branches.
    pub jump: u64,
    /// Immediates.
    pub immediate: u64,
    /// Loads.
    pub load: u64,
    /// Stores.
    pub store: u64,
}

impl Mix {
    /// All instructions.
    pub const fn total(&self) -> u64 {
        self.simple_alu + self.complex_alu + self.branch + self.jump + self.immediate + self.load + self.store
    }

    /// Counts an event.
    pub(crate) const fn add(&mut self, event: Event) {
        match event {
            Event::Simple => self.simple_alu += 1,
            Event::Multiply { .. } | Event::Rotate => self.complex_alu += 1,
            Event::Branch { .. } => self.branch += 1,
            Event::Jump => self.jump += 1,
            Event::Immediate { .. } => self.immediate += 1,
            Event::Load { .. } => self.load += 1,
            Event::Store { .. } => self.store += 1,
            Event::Use { .. } | Event::BlockEnd => {}
        }
    }
}

/// What this thread's counted words have told and nobody has taken yet.
struct Told {
    events: Vec<Event>,
    loads: u32,
    /// Loads whose values nothing has taken yet.
    fresh: BTreeSet<u32>,
}

thread_local! {
    static TOLD: RefCell<Told> =
        const { RefCell::new(Told { events: Vec::new(), loads: 0, fresh: BTreeSet::new() }) };
}

/// Forgets what this thread's words have told: a trace begins.
pub(crate) fn begin() {
    TOLD.with_borrow_mut(|told| *told = Told { events: Vec::new(), loads: 0, fresh: BTreeSet::new() });
}

/// Hands on what this thread's words have told since it was last taken, and ends the block.
pub(crate) fn end_block(sink: &mut dyn FnMut(Event)) {
    let events = TOLD.with_borrow_mut(|told| core::mem::take(&mut told.events));
    events.into_iter().for_each(&mut *sink);
    sink(Event::BlockEnd);
}

/// A 32-bit machine word.
pub(crate) trait Word:
    Copy
    + Add<Output = Self>
    + BitXor<Output = Self>
    + BitAnd<Output = Self>
    + BitOr<Output = Self>
    + Not<Output = Self>
{
    /// A constant of the program.
    fn imm(value: u32) -> Self;
    /// A word read from a message, state or key.
    fn load(place: Place, value: u32) -> Self;
    /// Entry `index` of a table that begins `first` entries into its region.
    fn lookup<T: Copy + Into<u32>>(region: &'static str, first: usize, table: &[T], index: Self) -> Self;
    /// Writes the word to a message, state or table.
    fn store(self, place: Place) -> u32;
    /// The bits, where the program uses them as an index or a condition; costs nothing.
    fn bits(self) -> u32;
    /// Rotation left by a constant.
    fn rotl(self, by: u32) -> Self;
    /// Rotation left by the low five bits of a word.
    fn rotl_by(self, by: Self) -> Self;
    /// Rotation right by the low five bits of a word.
    fn rotr_by(self, by: Self) -> Self;
    /// Shift left.
    fn shl(self, by: u32) -> Self;
    /// Shift right.
    fn shr(self, by: u32) -> Self;
    /// Subtraction.
    fn sub(self, other: Self) -> Self;
    /// Low half of the product.
    fn mul(self, other: Self) -> Self;
    /// The branch that closes a loop.
    fn branch(taken: bool);
    /// A branch that data decide.
    fn choose(taken: bool);
    /// An unconditional branch.
    fn jump();
}

/// The word of ordinary runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plain(u32);

/// The word that tells what it does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counted {
    bits: u32,
    /// The load that the word came from, where it is no result of an operation.
    load: u32,
    /// The youngest load that the word is made of.
    after: u32,
}

impl Plain {
    const fn made(self, _: Self, _: Event, bits: u32) -> Self {
        Self(bits)
    }

    const fn value(self) -> u32 {
        self.0
    }

    const fn taken(self) -> u32 {
        self.0
    }

    const fn constant(value: u32) -> Self {
        Self(value)
    }

    const fn loaded(_: Place, _: u32, value: u32) -> Self {
        Self(value)
    }

    const fn after(self) -> u32 {
        0
    }
}

impl Counted {
    /// The result of an operation on two words.
    fn made(self, other: Self, event: Event, bits: u32) -> Self {
        let (one, two) = (self.load, other.load);
        TOLD.with_borrow_mut(|told| {
            told.take(one);
            told.take(two);
            told.events.push(event);
        });
        Self { bits, load: 0, after: self.after.max(other.after) }
    }

    const fn value(self) -> u32 {
        self.bits
    }

    fn taken(self) -> u32 {
        TOLD.with_borrow_mut(|told| told.take(self.load));
        self.bits
    }

    const fn constant(value: u32) -> Self {
        Self { bits: value, load: 0, after: 0 }
    }

    fn loaded(place: Place, after: u32, value: u32) -> Self {
        let load = TOLD.with_borrow_mut(|told| {
            told.loads += 1;
            told.fresh.insert(told.loads);
            told.events.push(Event::Load { load: told.loads, place, after });
            told.loads
        });
        Self { bits: value, load, after: load }
    }

    const fn after(self) -> u32 {
        self.after
    }
}

impl Told {
    /// An operation takes a value; of a load's, the first time counts.
    fn take(&mut self, load: u32) {
        if load != 0 && self.fresh.remove(&load) {
            self.events.push(Event::Use { load });
        }
    }
}

fn silent(_: Event) {}

fn tell(event: Event) {
    TOLD.with_borrow_mut(|told| told.events.push(event));
}

/// Bits of the smaller factor.
fn factor_bits(one: u32, two: u32) -> u8 {
    (32 - one.min(two).leading_zeros()) as u8
}

macro_rules! word {
    ($name:ident, $tell:expr) => {
        impl Add for $name {
            type Output = Self;
            fn add(self, other: Self) -> Self {
                self.made(other, Event::Simple, self.value().wrapping_add(other.value()))
            }
        }
        impl BitXor for $name {
            type Output = Self;
            fn bitxor(self, other: Self) -> Self {
                self.made(other, Event::Simple, self.value() ^ other.value())
            }
        }
        impl BitAnd for $name {
            type Output = Self;
            fn bitand(self, other: Self) -> Self {
                self.made(other, Event::Simple, self.value() & other.value())
            }
        }
        impl BitOr for $name {
            type Output = Self;
            fn bitor(self, other: Self) -> Self {
                self.made(other, Event::Simple, self.value() | other.value())
            }
        }
        impl Not for $name {
            type Output = Self;
            fn not(self) -> Self {
                self.made(self, Event::Simple, !self.value())
            }
        }
        impl Word for $name {
            fn imm(value: u32) -> Self {
                $tell(Event::Immediate { value });
                Self::constant(value)
            }
            fn load(place: Place, value: u32) -> Self {
                Self::loaded(place, 0, value)
            }
            fn lookup<T: Copy + Into<u32>>(
                region: &'static str,
                first: usize,
                table: &[T],
                index: Self,
            ) -> Self {
                let at = index.taken() as usize;
                Self::loaded(Region::Table(region).word(first + at), index.after(), table[at].into())
            }
            fn store(self, place: Place) -> u32 {
                let bits = self.taken();
                $tell(Event::Store { place });
                bits
            }
            fn bits(self) -> u32 {
                self.taken()
            }
            fn rotl(self, by: u32) -> Self {
                self.made(self, Event::Simple, self.value().rotate_left(by))
            }
            fn rotl_by(self, by: Self) -> Self {
                self.made(by, Event::Rotate, self.value().rotate_left(by.value() & 31))
            }
            fn rotr_by(self, by: Self) -> Self {
                self.made(by, Event::Rotate, self.value().rotate_right(by.value() & 31))
            }
            fn shl(self, by: u32) -> Self {
                self.made(self, Event::Simple, self.value() << by)
            }
            fn shr(self, by: u32) -> Self {
                self.made(self, Event::Simple, self.value() >> by)
            }
            fn sub(self, other: Self) -> Self {
                self.made(other, Event::Simple, self.value().wrapping_sub(other.value()))
            }
            fn mul(self, other: Self) -> Self {
                let bits = factor_bits(self.value(), other.value());
                self.made(other, Event::Multiply { bits }, self.value().wrapping_mul(other.value()))
            }
            fn branch(taken: bool) {
                $tell(Event::Branch { taken, is_loop: true });
            }
            fn choose(taken: bool) {
                $tell(Event::Branch { taken, is_loop: false });
            }
            fn jump() {
                $tell(Event::Jump);
            }
        }
    };
}

word!(Plain, silent);
word!(Counted, tell);

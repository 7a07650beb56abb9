//! The machine word of the reference tier.
//!
//! Reference kernels are written over [`Word`]. With [`Plain`] they are ordinary code; with [`Counted`] every
//! operation is reported as an [`Event`], in order, so the dynamic instruction mix and the memory trace come from the
//! source that the tests verify. Address arithmetic of arrays and loop counters is not reported; branches that close
//! a round or a block are.

use core::cell::RefCell;
use core::ops::{Add, BitAnd, BitOr, BitXor, Not};
use core::panic::Location;
use std::collections::{BTreeMap, BTreeSet};

/// The kind of data that a kernel accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Region {
    /// The message, transformed in place. Offsets count from the block; in stream ciphers, from the message's start.
    Message,
    /// The values that a digest carries from block to block, and the index of a stream.
    State,
    /// Expanded key, read in order.
    Key,
    /// A table that an index selects from.
    Table(&'static str),
}

impl Region {
    /// Returns word `index` of the region.
    pub(crate) const fn word(self, index: usize) -> MemoryAccess {
        MemoryAccess { region: self, offset: 4 * index as u32, bytes: 4 }
    }

    /// Returns `bytes` bytes of the region, from `offset` on.
    pub(crate) const fn part(self, offset: usize, bytes: u8) -> MemoryAccess {
        MemoryAccess { region: self, offset: offset as u32, bytes }
    }
}

/// The bytes that one load or store accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MemoryAccess {
    /// The kind of data.
    pub region: Region,
    /// First byte. Entries of tables and keys count as 4 bytes wide, whatever the width in the kernel's own array.
    pub offset: u32,
    /// Length.
    pub bytes: u8,
}

/// One thing that a kernel does. Loads are numbered from 1 within a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// An addition, subtraction, logic operation, shift, or rotation by a constant.
    Simple,
    /// A multiplication; the smaller factor has this many bits.
    Multiply {
        /// 0 to 32.
        bits: u8,
    },
    /// A rotation by a variable.
    Rotate,
    /// A conditional branch.
    Branch {
        /// Whether it is taken, and so leaves the straight line.
        taken: bool,
        /// Whether it closes a loop of known length; otherwise data decide the path.
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
        /// The place that is read.
        place: MemoryAccess,
        /// The youngest load on which the address depends; 0 if there is none.
        after: u32,
    },
    /// The next event is the first operation that uses the value of this load.
    Use {
        /// The load's number.
        load: u32,
    },
    /// A write of memory.
    Store {
        /// The place that is written.
        place: MemoryAccess,
    },
    /// A block, or a piece of a stream, ends.
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
    /// Constants brought into registers.
    pub immediate: u64,
    /// Reads of memory.
    pub load: u64,
    /// Writes of memory.
    pub store: u64,
}

impl Mix {
    /// Returns all instructions.
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

/// The events that this thread's counted words have reported and nobody has taken yet.
struct Told {
    events: Vec<Event>,
    loads: u32,
    /// Loads whose values no operation has used yet.
    fresh: BTreeSet<u32>,
    /// Operations so far.
    operations: u32,
    /// The last operation's line, and the first of the consecutive operations on it.
    line: (&'static str, u32),
    line_from: u32,
    /// The operation with which the expression at a place began last.
    begun: BTreeMap<&'static Location<'static>, u32>,
    /// Places in the source that have reported an event.
    sites: BTreeSet<(Site, u8)>,
    /// The first event of each place.
    first: Vec<Event>,
}

/// The place of an operation, and the number of operations of its expression before it: in `a + b + c` two begin at
/// the same place.
type Site = (&'static Location<'static>, u8);

impl Told {
    const NOTHING: Self = Self {
        events: Vec::new(),
        loads: 0,
        fresh: BTreeSet::new(),
        operations: 0,
        line: ("", 0),
        line_from: 0,
        begun: BTreeMap::new(),
        sites: BTreeSet::new(),
        first: Vec::new(),
    };
}

thread_local! {
    static TOLD: RefCell<Told> = const { RefCell::new(Told::NOTHING) };
}

/// Drops this thread's events: a trace begins.
pub(crate) fn begin() {
    TOLD.set(Told::NOTHING);
}

/// Returns the first event of each place of the source since the trace began, in the order of their times.
pub(crate) fn sites() -> Vec<Event> {
    TOLD.with_borrow(|told| told.first.clone())
}

/// Passes on this thread's events since the last call, and ends the block.
pub(crate) fn end_block(sink: &mut dyn FnMut(Event)) {
    let events = TOLD.with_borrow_mut(|told| core::mem::take(&mut told.events));
    events.into_iter().for_each(&mut *sink);
    sink(Event::BlockEnd);
}

/// Runs every whole block of `N` bytes through a kernel that reports its operations.
pub(crate) fn trace_blocks<const N: usize>(
    data: &mut [u8],
    sink: &mut dyn FnMut(Event),
    crypt: impl Fn(&mut [u8; N]),
) {
    for block in data.as_chunks_mut().0 {
        crypt(block);
        end_block(sink);
    }
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
    /// Returns a constant of the program.
    fn imm(value: u32) -> Self;
    /// Returns a word read from a message, state or key.
    fn load(place: MemoryAccess, value: u32) -> Self;
    /// Returns entry `index` of a table that begins `first` entries into its region.
    fn lookup<T: Copy + Into<u32>>(region: &'static str, first: usize, table: &[T], index: Self) -> Self;
    /// Writes the word to a message, state or table.
    fn store(self, place: MemoryAccess) -> u32;
    /// Returns the bits, for use as an index or a condition; this costs nothing.
    fn bits(self) -> u32;
    /// Returns the word rotated left by a constant.
    fn rotl(self, by: u32) -> Self;
    /// Returns the word rotated left by the low five bits of `by`.
    fn rotl_by(self, by: Self) -> Self;
    /// Returns the word rotated right by the low five bits of `by`.
    fn rotr_by(self, by: Self) -> Self;
    /// Returns the word shifted left.
    fn shl(self, by: u32) -> Self;
    /// Returns the word shifted right.
    fn shr(self, by: u32) -> Self;
    /// Returns the difference.
    fn sub(self, other: Self) -> Self;
    /// Returns the low half of the product.
    fn mul(self, other: Self) -> Self;
    /// Returns the high half of the product.
    fn mul_high(self, other: Self) -> Self;
    /// Returns the sum with a carry, and its carry: one operation, because a processor keeps carries in a flag.
    fn add_carrying(self, other: Self, carry: bool) -> (Self, bool);
    /// Returns the sum with a carry alone.
    fn add_carry(self, carry: bool) -> Self;
    /// Returns the difference less a borrow, and its borrow.
    fn sub_borrowing(self, other: Self, borrow: bool) -> (Self, bool);
    /// Returns all ones if the flag is set, else zero.
    fn spread(flag: bool) -> Self;
    /// Returns the upper word of this word and `low`, shifted left together by a constant below 32.
    fn shl_pair(self, low: Self, by: u32) -> Self;
    /// Reports the branch that closes a loop.
    fn branch(taken: bool);
    /// Reports a branch that data decide.
    fn choose(taken: bool);
    /// Reports an unconditional branch.
    fn jump();
}

/// The word of ordinary runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plain(u32);

/// A word that reports its operations.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counted {
    bits: u32,
    /// The load that the word came from, if it is not the result of an operation.
    load: u32,
    /// The youngest load on which the word depends.
    after: u32,
    /// The operation that made it, and the number of operations of the same expression before that.
    made_by: u32,
    depth: u8,
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

    const fn loaded(_: MemoryAccess, _: u32, value: u32) -> Self {
        Self(value)
    }

    const fn after(self) -> u32 {
        0
    }
}

impl Counted {
    /// Returns the result of an operation on two words.
    #[track_caller]
    fn made(self, other: Self, event: Event, bits: u32) -> Self {
        let (one, two, location) = (self.load, other.load, Location::caller());
        let (made_by, depth) = TOLD.with_borrow_mut(|told| {
            told.take(one);
            told.take(two);
            let site = told.site(&self, location);
            told.push(event, site);
            (told.operations, site.1)
        });
        Self { bits, load: 0, after: self.after.max(other.after), made_by, depth }
    }

    const fn value(self) -> u32 {
        self.bits
    }

    fn taken(self) -> u32 {
        TOLD.with_borrow_mut(|told| told.take(self.load));
        self.bits
    }

    const fn constant(value: u32) -> Self {
        Self { bits: value, load: 0, after: 0, made_by: 0, depth: 0 }
    }

    #[track_caller]
    fn loaded(place: MemoryAccess, after: u32, value: u32) -> Self {
        let site = Location::caller();
        let load = TOLD.with_borrow_mut(|told| {
            told.loads += 1;
            told.fresh.insert(told.loads);
            told.push(Event::Load { load: told.loads, place, after }, (site, 0));
            told.loads
        });
        Self { bits: value, load, after: load, made_by: 0, depth: 0 }
    }

    const fn after(self) -> u32 {
        self.after
    }
}

impl Told {
    /// Returns the site of an operation whose left operand is `left`. It comes after the operand in one expression if
    /// no operation on another line, and no new beginning of the expression, came between; otherwise a loop or call
    /// has brought the operand back.
    fn site(&mut self, left: &Counted, location: &'static Location<'static>) -> Site {
        self.operations += 1;
        let line = (location.file(), location.line());
        if self.line != line {
            (self.line, self.line_from) = (line, self.operations);
        }
        let begun = self.begun.get(location).copied().unwrap_or(0);
        if left.made_by > 0 && left.made_by >= self.line_from.max(begun) {
            (location, left.depth + 1)
        } else {
            self.begun.insert(location, self.operations);
            (location, 0)
        }
    }

    /// Reports an operation.
    fn push(&mut self, event: Event, site: Site) {
        // One expression may load and store at one place.
        let kind = match event {
            Event::Load { .. } => 1,
            Event::Store { .. } => 2,
            Event::Immediate { .. } => 3,
            _ => 0,
        };
        if self.sites.insert((site, kind)) {
            self.first.push(event);
        }
        self.events.push(event);
    }

    /// Reports that an operation uses a value; for the value of a load, the first use counts.
    fn take(&mut self, load: u32) {
        if load != 0 && self.fresh.remove(&load) {
            self.events.push(Event::Use { load });
        }
    }
}

fn silent(_: Event) {}

#[track_caller]
fn tell(event: Event) {
    let site = Location::caller();
    TOLD.with_borrow_mut(|told| told.push(event, (site, 0)));
}

/// Bits of the smaller factor.
fn factor_bits(one: u32, two: u32) -> u8 {
    (32 - one.min(two).leading_zeros()) as u8
}

macro_rules! word {
    ($name:ident, $tell:expr) => {
        impl Add for $name {
            type Output = Self;
            #[track_caller]
            fn add(self, other: Self) -> Self {
                self.made(other, Event::Simple, self.value().wrapping_add(other.value()))
            }
        }
        impl BitXor for $name {
            type Output = Self;
            #[track_caller]
            fn bitxor(self, other: Self) -> Self {
                self.made(other, Event::Simple, self.value() ^ other.value())
            }
        }
        impl BitAnd for $name {
            type Output = Self;
            #[track_caller]
            fn bitand(self, other: Self) -> Self {
                self.made(other, Event::Simple, self.value() & other.value())
            }
        }
        impl BitOr for $name {
            type Output = Self;
            #[track_caller]
            fn bitor(self, other: Self) -> Self {
                self.made(other, Event::Simple, self.value() | other.value())
            }
        }
        impl Not for $name {
            type Output = Self;
            #[track_caller]
            fn not(self) -> Self {
                self.made(self, Event::Simple, !self.value())
            }
        }
        impl Word for $name {
            #[track_caller]
            fn imm(value: u32) -> Self {
                $tell(Event::Immediate { value });
                Self::constant(value)
            }
            #[track_caller]
            fn load(place: MemoryAccess, value: u32) -> Self {
                Self::loaded(place, 0, value)
            }
            #[track_caller]
            fn lookup<T: Copy + Into<u32>>(
                region: &'static str,
                first: usize,
                table: &[T],
                index: Self,
            ) -> Self {
                let at = index.taken() as usize;
                Self::loaded(Region::Table(region).word(first + at), index.after(), table[at].into())
            }
            #[track_caller]
            fn store(self, place: MemoryAccess) -> u32 {
                let bits = self.taken();
                $tell(Event::Store { place });
                bits
            }
            fn bits(self) -> u32 {
                self.taken()
            }
            #[track_caller]
            fn rotl(self, by: u32) -> Self {
                self.made(self, Event::Simple, self.value().rotate_left(by))
            }
            #[track_caller]
            fn rotl_by(self, by: Self) -> Self {
                self.made(by, Event::Rotate, self.value().rotate_left(by.value() & 31))
            }
            #[track_caller]
            fn rotr_by(self, by: Self) -> Self {
                self.made(by, Event::Rotate, self.value().rotate_right(by.value() & 31))
            }
            #[track_caller]
            fn shl(self, by: u32) -> Self {
                self.made(self, Event::Simple, self.value() << by)
            }
            #[track_caller]
            fn shr(self, by: u32) -> Self {
                self.made(self, Event::Simple, self.value() >> by)
            }
            #[track_caller]
            fn sub(self, other: Self) -> Self {
                self.made(other, Event::Simple, self.value().wrapping_sub(other.value()))
            }
            #[track_caller]
            fn mul(self, other: Self) -> Self {
                let bits = factor_bits(self.value(), other.value());
                self.made(other, Event::Multiply { bits }, self.value().wrapping_mul(other.value()))
            }
            #[track_caller]
            fn mul_high(self, other: Self) -> Self {
                let bits = factor_bits(self.value(), other.value());
                let product = u64::from(self.value()) * u64::from(other.value());
                self.made(other, Event::Multiply { bits }, (product >> 32) as u32)
            }
            #[track_caller]
            fn add_carrying(self, other: Self, carry: bool) -> (Self, bool) {
                let (sum, carry) = self.value().carrying_add(other.value(), carry);
                (self.made(other, Event::Simple, sum), carry)
            }
            #[track_caller]
            fn add_carry(self, carry: bool) -> Self {
                self.made(self, Event::Simple, self.value().wrapping_add(u32::from(carry)))
            }
            #[track_caller]
            fn sub_borrowing(self, other: Self, borrow: bool) -> (Self, bool) {
                let (difference, borrow) = self.value().borrowing_sub(other.value(), borrow);
                (self.made(other, Event::Simple, difference), borrow)
            }
            #[track_caller]
            fn spread(flag: bool) -> Self {
                $tell(Event::Simple);
                Self::constant(u32::from(flag).wrapping_neg())
            }
            #[track_caller]
            fn shl_pair(self, low: Self, by: u32) -> Self {
                let pair = u64::from(self.value()) << 32 | u64::from(low.value());
                self.made(low, Event::Simple, ((pair << by) >> 32) as u32)
            }
            #[track_caller]
            fn branch(taken: bool) {
                $tell(Event::Branch { taken, is_loop: true });
            }
            #[track_caller]
            fn choose(taken: bool) {
                $tell(Event::Branch { taken, is_loop: false });
            }
            #[track_caller]
            fn jump() {
                $tell(Event::Jump);
            }
        }
    };
}

word!(Plain, silent);
word!(Counted, tell);

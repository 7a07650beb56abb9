//! The machine word of the reference tier.
//!
//! Reference kernels are written over [`Word`]. With [`Plain`] they are ordinary code; with [`Counted`] every
//! operation is tallied by NPCryptBench's classes (its Table V) and every table access can be traced, so the
//! dynamic instruction mix and the memory trace come from the very source that the tests trust. Addressing
//! arithmetic of arrays and loop counters is not counted, branches that close a round or a block are.

use core::cell::{Cell, RefCell};
use core::ops::{Add, BitAnd, BitOr, BitXor, Not};

/// Instruction classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Class {
    /// Add, subtract, logic, shift, rotate.
    SimpleAlu,
    /// Multiply.
    ComplexAlu,
    /// A branch that closes a loop or chooses a path.
    Branch,
    /// A constant brought into a register.
    Immediate,
    /// A read of memory.
    Load,
    /// A write of memory.
    Store,
}

/// Counts by class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mix {
    /// Simple ALU operations.
    pub simple_alu: u64,
    /// Multiplications.
    pub complex_alu: u64,
    /// Conditional branches.
    pub branch: u64,
    /// Immediates.
    pub immediate: u64,
    /// Loads.
    pub load: u64,
    /// Stores.
    pub store: u64,
}

impl Mix {
    const ZERO: Self = Self { simple_alu: 0, complex_alu: 0, branch: 0, immediate: 0, load: 0, store: 0 };

    /// All instructions.
    pub const fn total(&self) -> u64 {
        self.simple_alu + self.complex_alu + self.branch + self.immediate + self.load + self.store
    }
}

/// One access of the memory trace: which region, and which entry of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Access {
    /// A table or buffer, by name.
    pub region: &'static str,
    /// Index of the entry.
    pub index: u32,
}

thread_local! {
    static MIX: Cell<Mix> = const { Cell::new(Mix::ZERO) };
    static TRACE: RefCell<Option<Vec<Access>>> = const { RefCell::new(None) };
}

/// Accesses kept by one [`crate::instruction_mix`]; further ones are counted but not listed.
pub const TRACE_LIMIT: usize = 1 << 20;

/// Runs `work` and returns what its [`Counted`] words did on this thread, with its table accesses in order.
pub(crate) fn count(work: impl FnOnce()) -> (Mix, Vec<Access>) {
    MIX.set(Mix::ZERO);
    TRACE.with_borrow_mut(|trace| *trace = Some(Vec::new()));
    work();
    (MIX.get(), TRACE.with_borrow_mut(Option::take).unwrap_or_default())
}

fn note(class: Class) {
    let mut mix = MIX.get();
    match class {
        Class::SimpleAlu => mix.simple_alu += 1,
        Class::ComplexAlu => mix.complex_alu += 1,
        Class::Branch => mix.branch += 1,
        Class::Immediate => mix.immediate += 1,
        Class::Load => mix.load += 1,
        Class::Store => mix.store += 1,
    }
    MIX.set(mix);
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
    fn load(value: u32) -> Self;
    /// A word read from a table.
    fn lookup<T: Copy + Into<u32>>(region: &'static str, table: &[T], index: Self) -> Self;
    /// Writes the word to a message, state or table.
    fn store(self) -> u32;
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
    /// A branch of a loop or a choice.
    fn branch();
}

/// The word of ordinary runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plain(u32);

/// The word that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Counted(u32);

macro_rules! word {
    ($name:ident, $note:expr, $trace:expr) => {
        impl Add for $name {
            type Output = Self;
            fn add(self, other: Self) -> Self {
                $note(Class::SimpleAlu);
                Self(self.0.wrapping_add(other.0))
            }
        }
        impl BitXor for $name {
            type Output = Self;
            fn bitxor(self, other: Self) -> Self {
                $note(Class::SimpleAlu);
                Self(self.0 ^ other.0)
            }
        }
        impl BitAnd for $name {
            type Output = Self;
            fn bitand(self, other: Self) -> Self {
                $note(Class::SimpleAlu);
                Self(self.0 & other.0)
            }
        }
        impl BitOr for $name {
            type Output = Self;
            fn bitor(self, other: Self) -> Self {
                $note(Class::SimpleAlu);
                Self(self.0 | other.0)
            }
        }
        impl Not for $name {
            type Output = Self;
            fn not(self) -> Self {
                $note(Class::SimpleAlu);
                Self(!self.0)
            }
        }
        impl Word for $name {
            fn imm(value: u32) -> Self {
                $note(Class::Immediate);
                Self(value)
            }
            fn load(value: u32) -> Self {
                $note(Class::Load);
                Self(value)
            }
            fn lookup<T: Copy + Into<u32>>(region: &'static str, table: &[T], index: Self) -> Self {
                $note(Class::Load);
                $trace(Access { region, index: index.0 });
                Self(table[index.0 as usize].into())
            }
            fn store(self) -> u32 {
                $note(Class::Store);
                self.0
            }
            fn bits(self) -> u32 {
                self.0
            }
            fn rotl(self, by: u32) -> Self {
                $note(Class::SimpleAlu);
                Self(self.0.rotate_left(by))
            }
            fn rotl_by(self, by: Self) -> Self {
                $note(Class::SimpleAlu);
                Self(self.0.rotate_left(by.0 & 31))
            }
            fn rotr_by(self, by: Self) -> Self {
                $note(Class::SimpleAlu);
                Self(self.0.rotate_right(by.0 & 31))
            }
            fn shl(self, by: u32) -> Self {
                $note(Class::SimpleAlu);
                Self(self.0 << by)
            }
            fn shr(self, by: u32) -> Self {
                $note(Class::SimpleAlu);
                Self(self.0 >> by)
            }
            fn sub(self, other: Self) -> Self {
                $note(Class::SimpleAlu);
                Self(self.0.wrapping_sub(other.0))
            }
            fn mul(self, other: Self) -> Self {
                $note(Class::ComplexAlu);
                Self(self.0.wrapping_mul(other.0))
            }
            fn branch() {
                $note(Class::Branch);
            }
        }
    };
}

fn nothing<T>(_: T) {}

fn trace(access: Access) {
    TRACE.with_borrow_mut(|trace| {
        if let Some(list) = trace.as_mut().filter(|list| list.len() < TRACE_LIMIT) {
            list.push(access);
        }
    });
}

word!(Plain, nothing, nothing);
word!(Counted, note, trace);

//! The work of a thread, for one machine: a lap over a piece of its message, repeated.

use crate::machine::Shared;
use serde::Serialize;

/// Number of slots, by which a thread names its references under way.
pub const SLOTS: usize = 16;

/// The base of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    /// The thread's message, in which every lap advances.
    Message,
    /// Data of the thread's flow.
    Flow,
    /// Data of all.
    Common,
}

/// A command to a shared memory. It takes one cycle to issue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reference {
    /// Which memory.
    pub memory: Shared,
    /// Whether it writes.
    pub is_write: bool,
    /// The base of `address`.
    pub base: Base,
    /// First byte.
    pub address: u32,
    /// Length in bytes; at least 1.
    pub bytes: u16,
    /// The slot that signals its completion; `None` makes the thread wait at once.
    pub slot: Option<u8>,
}

/// A step of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Instructions, a cycle each.
    Run(u32),
    /// Cycles lost by taken branches.
    Abort(u32),
    /// Issues a command to a shared memory.
    Reference(Reference),
    /// Waits until the reference in a slot is complete.
    Await(u8),
    /// This number of bytes of the message is done.
    Done(u32),
}

/// Instructions by class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Classes {
    /// Simple ALU operations.
    pub simple: u64,
    /// Multiplications and rotations by variables.
    pub complex: u64,
    /// Conditional branches.
    pub branch: u64,
    /// Unconditional branches.
    pub jump: u64,
    /// Loads of constants.
    pub immediate: u64,
    /// Commands that read.
    pub load: u64,
    /// Commands that write.
    pub store: u64,
    /// All others: settings of the local memory's address.
    pub other: u64,
}

impl Classes {
    /// Returns the sum of all classes.
    pub const fn total(&self) -> u64 {
        self.simple
            + self.complex
            + self.branch
            + self.jump
            + self.immediate
            + self.load
            + self.store
            + self.other
    }

    /// Loads, stores and constants.
    pub const fn memory(&self) -> u64 {
        self.load + self.store + self.immediate
    }
}

/// A thread's work.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Program {
    /// Done once.
    pub prologue: Vec<Step>,
    /// One lap.
    pub steps: Vec<Step>,
    /// Bytes of the message per lap.
    pub lap_bytes: u32,
    /// Instructions of a lap.
    pub instructions: Classes,
    /// Cycles of a lap that run or are lost, by class: a multiplication may take several, and a taken branch loses
    /// some.
    pub cycles: Classes,
}

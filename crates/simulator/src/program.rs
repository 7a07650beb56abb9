//! What a thread does, for one machine: a lap over a piece of its message, repeated.

use crate::machine::Shared;
use serde::Serialize;

/// Slots by which a thread knows its references under way.
pub const SLOTS: usize = 16;

/// What an address counts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    /// The thread's message, which goes on with every lap.
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
    /// What `address` counts from.
    pub base: Base,
    /// First byte.
    pub address: u32,
    /// Length; at least 1.
    pub bytes: u16,
    /// The slot that says when it is complete; `None`: the thread waits at once.
    pub slot: Option<u8>,
}

/// A step of a thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Instructions, a cycle each.
    Run(u32),
    /// Cycles lost by taken branches.
    Abort(u32),
    /// A reference.
    Reference(Reference),
    /// Waits until the reference in a slot is complete.
    Await(u8),
    /// So many bytes of the message are done.
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
    /// Everything else: settings of the local memory's address.
    pub other: u64,
}

impl Classes {
    /// All of them.
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
    /// Bytes of the message that a lap takes.
    pub lap_bytes: u32,
    /// Instructions of a lap.
    pub instructions: Classes,
    /// Cycles of a lap that run or are lost, by class: a multiplication may take several, a taken branch loses some.
    pub cycles: Classes,
}

//! Network processors without caches, as NPCryptBench (Yue, Lin and Tan 2006) models them, fed by the reference
//! kernels of `transform`.
//!
//! - A [`Machine`] is data: engines of threads, and three shared memories with latency and bandwidth.
//! - A [`Program`] is the work of a thread: a kernel's trace, lowered to a machine under one of four levels.
//! - [`simulate`] runs programs cycle by cycle; [`study`] runs the paper's experiments and checks its sentences.
//!
//! Time is an integer, nothing is random, and no thread or file is touched: the same input gives the same figures on
//! every host.
#![deny(unsafe_code)]

mod lower;
mod machine;
mod placement;
mod program;
mod run;
pub mod study;
mod traced_kernel;

pub use lower::{Optimisation, lower};
pub use machine::{BUILT_IN, Home, MACHINE_FILE_BYTES_MAX, Machine, MachineError, Memory, Placed, Shared};
pub use placement::{Parallelism, Placement};
pub use program::{Base, Classes, Program, Reference, SLOTS, Step};
pub use run::{ChannelUse, Outcome, States, simulate};
pub use traced_kernel::{TEN, TracedKernel};

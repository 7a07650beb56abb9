//! Experiments as data, their statistics, and reports.
//!
//! The lab runs the product itself, as child processes, so what it measures is what ships. It keeps every raw sample,
//! says what machine gave it, checks each published claim as a *shape* (a ratio, an order, a slope, never an absolute
//! speed), and writes terminal tables, JSON and one self-contained HTML file.
//!
//! It contains no cryptography and no protocol of its own, and it never drops a sample. [`speed`] measures the kernels
//! themselves, in this process, beside the libraries that others would use.
#![deny(unsafe_code)]

pub mod compare;
mod contest;
mod error;
pub mod experiment;
pub mod link;
pub mod load;
pub mod machine;
pub mod network_processor;
pub mod peers;
pub mod program;
pub mod quick;
pub mod report;
pub mod rng;
mod runner;
pub mod scratch;
#[cfg(test)]
#[path = "../../../testing/skip.rs"]
mod skip;
pub mod speed;
pub mod stacks;
pub mod stats;
pub mod studies;
pub mod surroundings;
pub mod transfer;
pub mod tunnel;

pub use error::LabError;

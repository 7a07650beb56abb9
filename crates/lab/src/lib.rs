//! Experiments as data, their statistics, and reports.
//!
//! The lab runs the product itself, as child processes, so it measures the program that ships. It keeps every raw
//! sample, names the machine, checks each published claim as a *shape* (a ratio, an order, a slope, never an absolute
//! speed), and writes terminal tables, JSON and one self-contained HTML file.
//!
//! It contains no cryptography and no protocol of its own, and it never drops a sample. [`speed`] measures the
//! kernels themselves, in this process, beside competing libraries.
#![deny(unsafe_code)]

mod cleanup;
pub mod compare;
mod contest;
mod error;
pub mod experiment;
pub mod inventory;
pub mod link;
pub mod load;
pub mod machine;
pub mod peers;
mod process_tree;
pub mod program;
pub mod report;
pub mod request;
pub mod rng;
pub mod scratch;
pub mod shared;
pub mod site;
#[cfg(test)]
#[path = "../../../testing/skip.rs"]
mod skip;
pub mod skipped;
pub mod stats;
pub mod studies;
pub mod surroundings;
pub mod times;
mod topology;

pub use cleanup::stop_everything;
pub use error::LabError;

/// Declares the modules of studies, and the list of their families. A new study needs only a module and a line here
/// (`tests/additions.rs` adds one). `cargo fmt` does not find modules that a macro declares: `rustfmt --edition 2024
/// crates/lab/src/*/mod.rs` does, and `cargo xtask tidy` requires it.
macro_rules! families {
    ($($module:ident)*) => {
        $(pub mod $module;)*

        pub(crate) const FAMILIES: &[&[studies::Family]] = &[$($module::FAMILIES),*];
    };
}

families! {
    quick
    stacks
    transfer
    tunnel
    macro_benchmarks
    cards
    network_processor
    speed
}

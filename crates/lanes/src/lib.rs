//! Lanes: threads that share the work of flows without losing order.
//!
//! A flow's places are given in arrival order *before* work fans out to lanes ([`Flow`], [`Ticket`]), and an
//! [`OrderRing`] restores that order behind them. [`Pool`] bounds the memory in flight, [`Bells`] wake lanes that sleep,
//! [`run_lane`] is the one place where a lane sleeps, [`Limiter`] bounds a rate, [`Placement`] says which lane may run a piece of
//! work, and [`Clock`] is time as a value. Nothing here depends on cryptography, a socket or a file: `sealane cp`, the tunnel,
//! the engine and the laboratory are users.

#![deny(unsafe_code)]

/// The README's example is a test.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod bells;
mod clock;
mod cpu;
mod flow;
mod lane_loop;
mod lanes;
mod limiter;
mod order;
mod placement;
mod pool;
mod stop;
mod sync;

pub use bells::Bells;
pub use clock::Clock;
pub use cpu::{CpuClock, CpuShare};
pub use flow::{Flow, Refused, Ticket};
pub use lane_loop::{LONGEST_SLEEP, LaneWork, OnPanic, Turn, run_lane};
pub use lanes::{Pinning, available_lanes, run_lanes};
pub use limiter::Limiter;
pub use order::OrderRing;
pub use placement::{Assignment, At, Placement, UnknownPlacement};
pub use pool::{Pool, Recycle};
pub use stop::Stop;
pub use sync::wait;

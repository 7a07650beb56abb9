//! Work shared by many hosts: a queue as a trait, and one tree copied by movers on many hosts.
//!
//! [`Queue`] is shared by the workers. A [`MemoryQueue`] belongs to one process; [`serve`] offers it to a worker at
//! the other end of a pipe or of ssh, which uses it through a [`Remote`]. [`coordinate`] runs `sealane cp` between
//! many hosts: it keeps a mover on each source ([`work`]), which takes shares from the queue and copies each, as an
//! ordinary session, to one target. [`conduct`] shares other work, such as the cells of a study, in the same way.
//!
//! Invariants: content moves from a source to a target and never through the coordinator; a share is done when its
//! result is on stable storage; the jobs of a lost host are done by another; memory does not depend on the number of
//! files; only the coordinator gives orders, which are values of closed types with its signature, and a worker that lies
//! can harm the files that it copies and no other host.

#![forbid(unsafe_code)]

mod announcement;
mod child;
mod coordinate;
mod crew;
mod error;
pub mod hosts;
pub mod journal;
mod keep;
mod mark;
mod memory;
mod mover;
#[cfg(feature = "nats")]
pub mod nats;
mod news;
mod queue;
mod record;
mod remote;
mod serve;
mod settings;
mod share;
mod signed;
mod study;
mod walk;
mod wire;
mod work;

pub use child::{Tasks, work, work_from};
pub use coordinate::{OpenQueue, Plan, Totals, coordinate};
pub use error::{FleetError, Result};
pub use hosts::Places;
pub use memory::{Bounds, MemoryQueue};
pub use news::News;
pub use queue::{
    BODY_BYTES_MAX, CoordinatorQueue, Finished, Job, JobId, Lease, Outcome, Put, Queue, RESULT_BYTES_MAX,
    Standing, Taken, Weight,
};
pub use record::{Command, Held, LeftOut, Run, Runs, State, Status};
pub use remote::Remote;
pub use serve::{Served, serve};
pub use share::BYTES_MAX as SHARE_BYTES;
pub use study::{Study, Studying, conduct, labour};
pub use wire::{Greeting, Marking, Part};
pub use work::{Failure, is_copy_task};

#[doc(hidden)]
pub mod fuzzing;

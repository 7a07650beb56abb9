//! Records: a header that is authenticated only, a body, and what a [`Suite`] adds to it.
//!
//! A suite is a row: a [`Protection`](crate::Protection), and how a record's number enters it. A record becomes one job of
//! the engine; what is left here is nonces, padding and the check of lengths.

mod batch;
mod session;
mod suite;

pub use batch::{Batch, Job, JobStatus, Runner};
pub use session::Session;
pub use suite::{Suite, UnknownSuite};

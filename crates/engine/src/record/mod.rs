//! Records: a header that is authenticated only, a body, and the bytes that a [`Suite`] adds to it.
//!
//! A suite is a row: a [`Protection`](crate::Protection), and the way in which a record's number enters it. A record
//! becomes one job of a [`Work`](crate::Work), for any engine; this module handles nonces, padding and the check of
//! lengths.

mod association;
mod keys;
mod suite;
mod suite_keys;

pub use association::{Association, Claim, Epochs, Secret};
pub use keys::{Fixed, Keys};
pub use suite::{Suite, UnknownSuite};
pub use suite_keys::{LayError, Record, SuiteKeys};

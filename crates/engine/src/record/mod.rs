//! Records: a header that is authenticated only, a body, and what a [`Suite`] adds to it.

mod batch;
mod engines;
mod legacy;
mod library;
mod own;
mod provider;
mod session;
mod suite;
mod together;

pub use batch::{Batch, Job, JobStatus};
pub use engines::{Completions, Engine, Inline, Lanes};
pub use provider::{Provider, ProviderError};
pub use session::{KeyError, Session};
pub use suite::{Suite, UnknownSuite};

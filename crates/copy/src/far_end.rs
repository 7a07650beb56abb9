//! The questions that a copy asks of its far end, whatever that is.
//!
//! Guarantees: nothing is started at a far end that cannot do what was asked for; every far end is told how the copy went, and
//! what both ends report becomes a summary in one way.

use crate::{
    error::Error,
    summary::{Observer, Summary},
    transfer::{Transfer, outcome::Report},
};

/// A far end that is ready for one copy.
pub(crate) trait FarEnd<'a>: Sized {
    /// Returns an option of this copy that such a far end does not support, if there is one.
    fn lacks(_transfer: &Transfer<'_>) -> Option<String> {
        None
    }

    /// Reaches the far end.
    fn begin(transfer: &'a Transfer<'a>) -> Result<Self, Unbegun>;

    /// Pushes or pulls, as the role of this end says, and tells the user what the two ends have agreed on.
    fn run(&mut self, observer: &mut dyn Observer) -> Result<Report, Error>;

    /// Takes leave of the far end after a copy or its failure, and returns the outcome as the user is to read it.
    fn end(self, outcome: Result<Summary, Error>) -> Result<Summary, Error>;
}

/// The ways in which a copy does not begin.
pub(crate) enum Unbegun {
    /// The host was reached and lacks such a far end, and the user's choice leaves another one.
    Absent(Error),
    Failed(Error),
}

impl From<Error> for Unbegun {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl From<Unbegun> for Error {
    fn from(unbegun: Unbegun) -> Self {
        match unbegun {
            Unbegun::Absent(error) | Unbegun::Failed(error) => error,
        }
    }
}

/// Copies to or from a far end that has begun.
pub(crate) fn copy<'a>(
    mut far_end: impl FarEnd<'a>,
    transfer: &Transfer<'_>,
    observer: &mut dyn Observer,
) -> Result<Summary, Error> {
    let outcome = far_end.run(observer).map(|report| transfer.summary(report));
    far_end.end(outcome)
}

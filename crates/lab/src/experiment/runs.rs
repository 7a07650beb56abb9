//! Counts of runs, and of those that other work disturbed: the reason why a figure may be that of a busy machine.
//!
//! Guarantees: a figure that is computed from others has the counts of all of them.

use serde::{Deserialize, Serialize};
use std::iter::Sum;
use std::ops::Add;

/// The runs behind a figure.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Runs {
    /// The number of runs.
    pub taken: usize,
    /// The number of those that other work disturbed.
    pub disturbed: usize,
}

impl Runs {
    /// Returns whether so many were disturbed that no claim should be decided by them: more than a third, so that the median
    /// may be the figure of a disturbed run or next to one.
    pub fn are_doubtful(self) -> bool {
        3 * self.disturbed > self.taken
    }
}

impl Add for Runs {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { taken: self.taken + other.taken, disturbed: self.disturbed + other.disturbed }
    }
}

impl Sum for Runs {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), Add::add)
    }
}

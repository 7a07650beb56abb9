//! How long and how often setups run, by profile.

use super::CONNECTIONS;
use crate::experiment::Profile;
use crate::stats::Centre;
use std::time::Duration;

/// Lengths of a measurement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Timing {
    pub(super) rounds: usize,
    pub(super) settle: Duration,
    pub(super) slice: Duration,
    pub(super) centre: Centre,
}

impl Timing {
    /// The same with slices in which each of many connections gets something.
    pub(super) fn of_connections(self, connections: usize) -> Self {
        let slice = Self::of(Profile::Quick).slice * (connections / CONNECTIONS).max(1) as u32;
        Self { slice: self.slice.max(slice), ..self }
    }

    pub(super) fn of(profile: Profile) -> Self {
        let timing = |rounds, settle, slice| Self {
            rounds,
            settle: Duration::from_millis(settle),
            slice: Duration::from_millis(slice),
            centre: profile.centre(),
        };
        match profile {
            Profile::Quick => timing(5, 6, 30),
            Profile::Full => timing(10, 50, 400),
            // N25: ten runs of 30 s after 30 s.
            Profile::Paper => timing(10, 30_000, 30_000),
        }
    }
}

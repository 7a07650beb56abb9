//! Which lane runs a batch: the papers' unit of concurrency.
//!
//! Guarantees: a lane asks [`Placement::may_run`] and nothing else which flows it may serve; under
//! [`Placement::Connection`] every flow has exactly one lane, so its state is never contended.

use std::{fmt, str::FromStr};

/// The unit of concurrency (the taxonomy of Nahum et al., NDSS 1996, figure 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Placement {
    /// A flow is owned by one lane.
    Connection,
    /// Any lane takes the next batch of any flow; order is restored by ticket.
    Packet,
}

/// A placement name that is not known.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown placement {word:?}; choose connection or packet")]
pub struct UnknownPlacement {
    /// What was given.
    pub word: String,
}

impl Placement {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Connection, Self::Packet];

    /// The name used on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Connection => "connection",
            Self::Packet => "packet",
        }
    }

    /// Whether lane number `lane` of `lanes` serves flow number `flow`.
    pub fn may_run(self, lane: usize, lanes: usize, flow: usize) -> bool {
        match self {
            Self::Connection => flow % lanes == lane,
            Self::Packet => true,
        }
    }
}

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Placement {
    type Err = UnknownPlacement;

    fn from_str(word: &str) -> Result<Self, Self::Err> {
        Self::ALL
            .into_iter()
            .find(|placement| placement.name() == word)
            .ok_or_else(|| UnknownPlacement { word: word.to_owned() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_has_exactly_one_lane() {
        for lanes in 1..9 {
            for flow in 0..64 {
                let owners = (0..lanes).filter(|&lane| Placement::Connection.may_run(lane, lanes, flow));
                assert_eq!(owners.count(), 1);
                assert!((0..lanes).all(|lane| Placement::Packet.may_run(lane, lanes, flow)));
            }
        }
    }

    #[test]
    fn names_round_trip() {
        for placement in Placement::ALL {
            assert_eq!(placement.name().parse(), Ok(placement));
        }
        assert!("layer".parse::<Placement>().is_err());
    }
}

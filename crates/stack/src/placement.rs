//! The assignment of work to lanes: the papers' unit of concurrency.
//!
//! Guarantees: [`Placement::may_run`] alone decides whether a lane may run a piece of work; for all work there is a
//! lane that may run it; under every placement but [`Placement::Packet`] there is exactly one, so its state is never
//! contended.

use std::{fmt, str::FromStr};

/// A unit of work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct At {
    /// The number of the flow.
    pub flow: usize,
    /// The step of its stack, in the order in which the packets pass it; packets come in at step 0.
    pub step: usize,
    /// The part of a step that is done in parts: a function of a layer, or a piece of a packet.
    pub part: usize,
}

impl At {
    /// Returns the place of a flow as a whole, at step 0.
    pub const fn flow(flow: usize) -> Self {
        Self { flow, step: 0, part: 0 }
    }
}

/// The unit of concurrency (the taxonomy of Nahum et al., NDSS 1996, figure 1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Placement {
    /// A flow is owned by one lane.
    Connection,
    /// Any lane takes the next batch of any flow; order is restored by ticket.
    Packet,
    /// A step of the stack is owned by one lane; batches go from lane to lane.
    Layer,
    /// A flow is owned by one lane, which has another lane do a second function of the same packet: the authenticator
    /// beside the cipher.
    Function,
    /// A flow is owned by one lane, which has other lanes do pieces of the same packet.
    Block,
}

/// The error for an unknown placement name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown placement {word:?}; choose one of {}", Placement::ALL.map(Placement::name).join(", "))]
pub struct UnknownPlacement {
    /// The given name.
    pub word: String,
}

impl Placement {
    /// All placements.
    pub const ALL: [Self; 5] = [Self::Connection, Self::Packet, Self::Layer, Self::Function, Self::Block];
    /// The placements that a byte stream can have, which has no layers and no parts.
    pub const OF_STREAMS: [Self; 2] = [Self::Connection, Self::Packet];

    /// Returns the name used on the command line and in reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Connection => "connection",
            Self::Packet => "packet",
            Self::Layer => "layer",
            Self::Function => "function",
            Self::Block => "block",
        }
    }

    /// Returns whether lane number `lane` of `lanes` may run `at`.
    pub fn may_run(self, lane: usize, lanes: usize, at: At) -> bool {
        let owner = match self {
            Self::Packet => return true,
            Self::Connection => at.flow,
            Self::Layer => at.step,
            Self::Function | Self::Block => at.flow.wrapping_add(at.part),
        };
        owner % lanes == lane
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
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn everything_has_a_lane_and_what_is_owned_has_one(
            lanes in 1..9usize, flow in 0..64usize, step in 0..8usize, part in 0..8usize,
        ) {
            for placement in Placement::ALL {
                let at = At { flow, step, part };
                let owners = (0..lanes).filter(|&lane| placement.may_run(lane, lanes, at)).count();
                prop_assert_eq!(owners, if placement == Placement::Packet { lanes } else { 1 });
            }
        }
    }

    #[test]
    fn names_round_trip() {
        for placement in Placement::ALL {
            assert_eq!(placement.name().parse(), Ok(placement));
        }
        assert!("session".parse::<Placement>().is_err());
    }
}
